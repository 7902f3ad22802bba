"""Writes the CRD manifests of `pumice crds` from the schemas in this folder and the table of kinds.

python -m tools.crds.generate            writes src/pumice/api/crds/*.yaml, and src/pumice/local/crds.jsonl for `pumice up`
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from tools.crds import groups, jobs, nodes
from tools.crds.schema import Schema, text

from pumice.api import columns, kinds, names
from pumice.api.kinds import Kind

FOLDER = Path(__file__).parents[2] / "src" / "pumice" / "api" / "crds"
LINES = FOLDER.parents[1] / "local" / "crds.jsonl"
MANIFEST_BYTES_MAX = 200_000  # as JSON: kubectl apply copies it into an annotation, and those end at 262,144 bytes

_SCALARS = (str, int, bool)
_LINE_CHARS_MAX = 150

# kind -> (what it is, its top-level fields, which of them are required)
_CONTENTS: dict[str, tuple[str, Callable[[], dict[str, Schema]], tuple[str, ...]]] = {
    "Job": ("A gang of pods in several roles, with a life cycle.", jobs.job, ()),
    "CronJob": ("Makes Jobs at set times.", jobs.cron_job, ()),
    "Command": ("A request to act on a Job or a Queue; deleted when it has been heard.", groups.command, ()),
    "PodGroup": ("A gang: pods that start together or not at all.", groups.pod_group, ()),
    "Queue": ("A share of the cluster that gangs draw from.", groups.queue, ()),
    "JobFlow": ("Jobs that wait for one another.", jobs.job_flow, ()),
    "JobTemplate": ("What the Jobs of a JobFlow are made from.", jobs.job_template, ()),
    "HyperNode": ("Nodes, or groups of them, that are close to one another in the network.", nodes.hyper_node, ()),
    "Numatopology": ("A node's sockets, NUMA nodes and cores.", nodes.numatopology, ()),
    "NodeShard": ("The nodes that one of several schedulers may use.", nodes.node_shard, ("spec",)),
    "ColocationConfiguration": (
        "How online and offline pods share a node's memory.",
        nodes.colocation_configuration,
        ("spec",),
    ),
}


def manifest(kind: Kind) -> dict[str, Any]:
    """The CRD of one of our kinds."""
    version: dict[str, Any] = {"name": kind.version, "served": True, "storage": True}
    if kind.columns is not columns.DEFAULT:
        version["additionalPrinterColumns"] = [
            {
                "name": column.name,
                "type": column.type,
                "jsonPath": column.path,
                **({"priority": column.priority} if column.priority else {}),
                "description": column.description,
            }
            for column in kind.columns
        ]
    version["schema"] = {"openAPIV3Schema": _schema(kind)}
    if kind.has_status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource, "annotations": {names.HELM_RESOURCE_POLICY: "keep"}},
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.singular,
                **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
            },
            "scope": kind.scope,
            "versions": [version],
        },
    }


def _schema(kind: Kind) -> Schema:
    description, fields, required = _CONTENTS[kind.kind]
    standard = {
        "apiVersion": text("Version of this object's schema."),
        "kind": text("Kind of this object."),
        "metadata": {"type": "object"},
    }
    schema: Schema = {"description": description, "type": "object"}
    if required:
        schema["required"] = list(required)
    return schema | {"properties": standard | fields()}


class _Dumper(yaml.SafeDumper):
    """One line for what has no parts of its own: a file that people can read, and a third of the size."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the signature of PyYAML
        """Always: shared parts are written out in full, because other tools' readers trip over YAML's aliases."""
        return True

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:  # noqa: FBT001  the signature of PyYAML
        if isinstance(mapping, dict) and all(isinstance(value, _SCALARS) for value in mapping.values()):
            flow_style = sum(len(f"{key}: {value}, ") for key, value in mapping.items()) <= _LINE_CHARS_MAX
        return super().represent_mapping(tag, mapping, flow_style)

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:  # noqa: FBT001
        items = list(sequence)
        if all(isinstance(item, _SCALARS) for item in items):
            flow_style = sum(len(f"{item}, ") for item in items) <= _LINE_CHARS_MAX
        return super().represent_sequence(tag, items, flow_style)


def render(kind: Kind) -> str:
    """The CRD as the YAML text that is kept in the repository."""
    return yaml.dump(manifest(kind), Dumper=_Dumper, sort_keys=False, width=1000)


def render_lines() -> str:
    """All of them, a line of JSON each."""
    return "".join(f"{json.dumps(manifest(kind), separators=(',', ':'))}\n" for kind in kinds.CUSTOM_KINDS)


def path(kind: Kind) -> Path:
    return FOLDER / f"{kind.group}_{kind.plural}.yaml"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for kind in kinds.CUSTOM_KINDS:
        path(kind).write_text(render(kind))
        print(path(kind).relative_to(FOLDER.parents[3]))
    LINES.write_text(render_lines())


if __name__ == "__main__":
    main()
