"""Derives src/pumice/local/apiserver/wire.json, by which protobuf bodies are read, from the k8s.io modules in Go's cache.

    .venv/bin/python tools/apiserver/wire.py ~/go/pkg/mod/k8s.io v0.36.1

kubectl and controllers written in Go send built-in kinds as protobuf. A row is a field's number, JSON name, type and whether
a zero is meant (the field is a pointer in Go). Run tools/apiserver/kinds.py first: only types of its table are taken.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "src/pumice/apiserver"
MESSAGE = re.compile(r"^message (\w+) \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
FIELD = re.compile(
    r"^  (?:map<string, (?P<value>[\w.]+)>|(?P<label>optional|repeated) (?P<type>[\w.]+)) (?P<name>\w+) = (?P<number>\d+);",
    re.MULTILINE,
)
STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
POINTER = re.compile(r"^\t(?:\w+ )?\*[\w.]+ +`json:\"(\w+)", re.MULTILINE)
SCALARS = {
    "string": "string",
    "bytes": "bytes",
    "bool": "boolean",
    "int32": "integer",
    "int64": "integer",
    "double": "number",
}
SPECIAL = {
    "k8s.io.apimachinery.pkg.apis.meta.v1.Time": "time",
    "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "k8s.io.apimachinery.pkg.apis.meta.v1.Duration": "duration",
    "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1": "json",
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "quantity",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "json",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON": "json",
}
PREFIXES = ("k8s.io.apimachinery.pkg.apis.", "k8s.io.apiextensions_apiserver.pkg.apis.", "k8s.io.api.")


def short(name: str) -> str:
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def type_of(written: str, package: str) -> str:
    if written in SCALARS:
        return SCALARS[written]
    full = written[1:] if written.startswith(".") else f"{package}.{written}"
    return SPECIAL.get(full) or "@" + short(full)


def messages(folder: Path) -> dict[str, list[list[Any]]]:
    text = (folder / "generated.proto").read_text()
    package = re.search(r"^package ([\w.]+);", text, re.MULTILINE)
    assert package is not None
    pointers = {
        name: set(POINTER.findall(body))
        for source in folder.glob("*types*.go")
        for name, body in STRUCT.findall(source.read_text())
    }
    found = {}
    for name, body in MESSAGE.findall(text):
        rows: list[list[Any]] = []
        for match in FIELD.finditer(body):
            if match["value"]:
                kind = "{}" + type_of(match["value"], package[1])
            else:
                kind = ("[]" if match["label"] == "repeated" else "") + type_of(match["type"], package[1])
            row: list[Any] = [int(match["number"]), match["name"], kind]
            rows.append([*row, 1] if match["name"] in pointers.get(name, ()) else row)
        found[short(f"{package[1]}.{name}")] = rows
    return found


def reachable(table: dict[str, list[list[Any]]], roots: list[str]) -> dict[str, list[list[Any]]]:
    found: dict[str, list[list[Any]]] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in table and name not in found:
            found[name] = table[name]
            waiting += [row[2].partition("@")[2] for row in table[name] if "@" in row[2]]
    return found


def main(modules: Path, version: str) -> None:
    known = json.loads((DATA / "kinds.json").read_text())
    folders = {path.parent for path in (modules / f"api@{version}").rglob("generated.proto")}
    folders |= {path.parent for path in (modules / f"apimachinery@{version}").rglob("generated.proto")}
    table: dict[str, list[list[Any]]] = {}
    for folder in sorted(folders):
        table |= messages(folder)
    roots = [row["type"] for row in known["resources"]] + [
        "meta.v1.DeleteOptions",
        "policy.v1.Eviction",
        "autoscaling.v1.Scale",
    ]
    roots += [sub["type"] for row in known["resources"] for sub in row.get("subresources", {}).values()]
    chosen = reachable(table, [root for root in roots if root])
    lines = [f"{compact(name)}:{compact(rows)}" for name, rows in sorted(chosen.items())]
    (DATA / "wire.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main(Path(sys.argv[1]).expanduser(), sys.argv[2])
