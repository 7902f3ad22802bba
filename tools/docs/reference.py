"""Writes docs/reference/* from the code itself: policy and plugins, metrics, command line, kinds, reasons.

python -m tools.docs.reference          writes the files
python -m tools.docs.reference --check  fails where a file is not what the code says
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
import typing
from pathlib import Path
from typing import Any

import click
import msgspec

from pumice.api import kinds
from pumice.cli import commands as command_line
from pumice.scheduling import actions, plugins
from pumice.scheduling.core import builtin, policy
from pumice.telemetry.catalogue import PUMICE, VOLCANO, Metric
from tools.docs import fields, listings, read_model, reasons

if typing.TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
NOTE = "<!-- Written by `python -m tools.docs.reference`; change the code, not this file. -->\n\n"


def policy_reference() -> str:
    parts = [
        "# Policy file\n",
        _paragraph(policy),
        "\n## Built-in policy\n\n",
        f"```yaml\n{builtin.TEXT}```\n",
        "\n## Actions\n\n",
    ]
    names = sorted(actions.NAMES)
    parts += [f"- **{name}**: {_first_sentence(inspect.getmodule(actions.NAMES[name]))}\n" for name in names]
    parts.append("\n## Flags of a plugin\n\n| flag | when absent |\n| --- | --- |\n")
    parts += [f"| `{flag}` | {'on' if default else 'off'} |\n" for flag, default in policy.FLAGS.items()]
    parts.append("\n## Plugins\n")
    for name in sorted(plugins.NAMES):
        parts += _plugin(name)
    return "".join(parts)


def _plugin(name: str) -> list[str]:
    kind = plugins.find(name, {})
    parts = [f"\n### {name}\n\n{_first_sentence(inspect.getmodule(kind))}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n"]
    fields = [field for field in msgspec.structs.fields(kind.args_type) if field.name != "named"]
    if not fields and not kind.args_type.PREFIXES:
        return [*parts, "\nNo arguments.\n"]
    parts.append("\n| argument | default | meaning |\n| --- | --- | --- |\n")
    hints = typing.get_type_hints(kind.args_type, include_extras=True)
    parts += [f"| `{each.encode_name}` | {_default(each)} | {_meaning(hints[each.name])} |\n" for each in fields]
    parts += [f"| `{prefix}<name>` |  | {meaning} |\n" for prefix, meaning in sorted(kind.args_type.PREFIXES.items())]
    return parts


def _default(field: Any) -> str:
    if field.default is not msgspec.NODEFAULT:
        return f"`{msgspec.json.encode(field.default).decode()}`" if field.default is not None else ""
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{msgspec.json.encode(field.default_factory()).decode()}`"
    return "required"


def _meaning(hint: Any) -> str:
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, msgspec.Meta) and extra.description:
            return extra.description
    return ""


def metric_reference() -> str:
    parts = [
        "# Metrics\n\nServed under `/metrics`, each by the process that it is about: scheduler, controllers or webhooks.\n"
    ]
    for title, metrics in (("Ours", PUMICE), ("Volcano's names", VOLCANO)):
        parts.append(f"\n## {title}\n\n| name | type | labels | meaning |\n| --- | --- | --- | --- |\n")
        parts += [_metric(metric) for metric in metrics]
    return "".join(parts)


def _metric(metric: Metric) -> str:
    return f"| `{metric.name}` | {metric.kind.value} | {', '.join(metric.labels)} | {metric.help} |\n"


def command_reference() -> str:
    parts = ["# Command line\n"]
    for name in sorted(command_line.COMMANDS):
        module, attribute, _ = command_line.COMMANDS[name]
        parts += _command(getattr(importlib.import_module(module), attribute), f"pumice {name}")
    return "".join(parts)


def _command(command: click.Command, name: str) -> list[str]:
    context = click.Context(command, info_name=name)
    with context.scope():
        text = command.get_help(context)
    parts = [f"\n## {name}\n\n```text\n{text.rstrip()}\n```\n"]
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            inner = command.get_command(context, sub)
            assert inner is not None
            parts += _command(inner, f"{name} {sub}")
    return parts


def kind_reference() -> str:
    parts = ["# Kinds\n\nPrinted as manifests by `pumice crds`; `kubectl explain` tells the same on a cluster.\n\n"]
    parts.append("| kind | API version | short names | scope | status subresource |\n| --- | --- | --- | --- | --- |\n")
    for kind in kinds.CUSTOM_KINDS:
        short = ", ".join(kind.short_names)
        parts.append(
            f"| [{kind.kind}](#{kind.singular}) | {kind.api_version} | {short} | {kind.scope} "
            f"| {'yes' if kind.has_status else 'no'} |\n"
        )
    parts.append("\n`[]` stands for each item of a list, `*` for each key of a map.\n")
    return "".join([*parts, *fields.sections()])


def _paragraph(module: Any) -> str:
    lines = inspect.cleandoc(module.__doc__ or "").splitlines()
    shown = [
        f"```yaml\n{_block(lines)}\n```" if line.startswith("    actions:") else line for line in _without_block(lines)
    ]
    return "\n" + "\n".join(shown) + "\n"


def _block(lines: list[str]) -> str:
    return "\n".join(line[4:] for line in lines if line.startswith("    "))


def _without_block(lines: list[str]) -> list[str]:
    kept, inside = [], False
    for line in lines:
        if not line.startswith("    "):
            kept.append(line)
            inside = False
        elif not inside:
            kept.append(line)
            inside = True
    return kept


def _first_sentence(module: Any) -> str:
    text = inspect.cleandoc(module.__doc__ or "").splitlines()[0]
    return text.partition(": ")[2] or text


REFERENCES: dict[str, Callable[[], str]] = {
    "policy.md": policy_reference,
    "metrics.md": metric_reference,
    "cli.md": command_reference,
    "kinds.md": kind_reference,
    "reasons.md": reasons.reference,
    "read-model.md": read_model.reference,
    "read-model.schema.json": read_model.schema,
    "json.md": listings.reference,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name, render in REFERENCES.items():
        path = FOLDER / name
        text = NOTE + render() if path.suffix == ".md" else render()
        if check and (not path.exists() or path.read_text() != text):
            stale.append(name)
        elif not check:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        print(f"stale: {', '.join(stale)}; run python -m tools.docs.reference")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
