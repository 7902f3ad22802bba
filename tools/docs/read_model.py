"""docs/reference/read-model.md, the structures of the leader's view, and beside it their JSON Schema for programs."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import msgspec

from pumice.processes import questions, view_server
from pumice.readmodel import build, model, selection
from pumice.scheduling.core import codes
from pumice.scheduling.whatif import outcome, single_changes, suggestion
from tools.docs.type_text import type_text

_HEAD = """# Read model

After each cycle the leading scheduler publishes what it saw and decided, as JSON (version {version}). `pumice explain` reads it; so may any
program that has a token for the audience `pumice.dev` of an account with the rights below. How it is found and who may ask is
[ADR 15](../adr/0015-the-leader-is-asked-through-the-api-server.md).

| path | answer | who may |
| --- | --- | --- |
| `/v1/state` | [State](#state) | who may list PodGroups and nodes everywhere |
| `/v1/state?namespace=NS` | gangs of one namespace, and the sums of queues; no nodes | who may list its PodGroups |
| `/v1/gangs/NAMESPACE/NAME` | [GangDetail](#gangdetail) | who may get the PodGroup; claims of others are told to those who may list all |
| `/v1/gangs/NAMESPACE/NAME/suggestions` | [Suggestions](#suggestions): single changes that would start it | as the one above; gangs of other namespaces are named to those who may list all |
| `/v1/what-if` | [Outcome](#outcome) of `?add-nodes=N&like=NODE`, `?drain=NODE`, `?queue=QUEUE.weight=3`, `?without=NAMESPACE/NAME`, `?policy=TEXT` | as `/v1/state` |
| `/v1/changes` | [Changes](#changes), a line of JSON each | as `/v1/state` |

`?kind=` takes a list of {kinds}; `?queue=` leaves out gangs of other queues. Errors are `{{"error": "..."}}` with status 400, 401, 403, 404 or, where
another process leads, no cycle has been planned or the API server does not answer, 503.

{about}

Limits: {answers} answers at once (others wait), {streams} streams of at most {stream_s:.0f} s each (readers come again), an empty line every {heartbeat:.0f} s,
the last {attempts} attempts and {evictions} evictions, {reasons} reasons a gang. Suggestions and what-if are planned in a child process, one after the other, {waiting} at
most in line, each for at most {limit_s:.0f} s and {plans} plans ([ADR 22](../adr/0022-questions-are-planned-in-a-fork.md)).

For programs the same as JSON Schema, with defaults: [read-model.schema.json](read-model.schema.json).
"""


def reference() -> str:
    parts = [
        _HEAD.format(
            version=model.VERSION,
            kinds=", ".join(f"`{kind}`" for kind in selection.KINDS),
            about=inspect.cleandoc(model.__doc__ or "").partition("\n\n")[2],
            answers=view_server.ANSWERS_AT_ONCE,
            streams=view_server.STREAMS_MAX,
            stream_s=view_server.STREAM_S_MAX,
            heartbeat=view_server.HEARTBEAT_S,
            attempts=f"{build.ATTEMPTS_KEPT_MAX:,}",
            evictions=f"{build.EVICTIONS_KEPT_MAX:,}",
            reasons=build.REASONS_TOLD_MAX,
            waiting=questions.WAITING_MAX,
            limit_s=questions.LIMIT_S,
            plans=single_changes.PLANS_MAX,
        )
    ]
    for struct in _structs():
        parts.append(
            f"\n## {struct.__name__}\n\n{inspect.cleandoc(struct.__doc__ or '')}\n\n| field | type |\n| --- | --- |\n"
        )
        hints = typing.get_type_hints(struct)
        parts += [f"| `{each.encode_name}` | {_type(hints[each.name])} |\n" for each in msgspec.structs.fields(struct)]
    return "".join(parts)


def schema() -> str:
    """One definition a line, so that a change shows what it changes."""
    whole = dict(model.schema())
    definitions = whole.pop("$defs")
    assert isinstance(definitions, dict)
    lines = ",\n".join(f'"{name}":{_json(each)}' for name, each in sorted(definitions.items()))
    return f'{_json(whole)[:-1]},"$defs":{{\n{lines}\n}}}}\n'


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _structs() -> list[type[msgspec.Struct]]:
    own = [each for each in vars(model).values() if isinstance(each, type) and each.__module__ == model.__name__]
    answers: list[type[msgspec.Struct]] = [model.State, model.GangDetail, model.Changes, *_PLANNED]
    return answers + [each for each in own if each not in answers]


_PLANNED: tuple[type[msgspec.Struct], ...] = (
    suggestion.Suggestions,
    suggestion.Suggestion,
    outcome.Outcome,
    outcome.StartTimes,
    outcome.When,
)


def _type(hint: Any) -> str:
    return type_text(hint, _link, nothing="nothing", key="name")


def _link(hint: Any) -> str | None:
    if hint is codes.Facts:
        return "[facts](reasons.md)"
    if isinstance(hint, type) and (hint.__module__ == model.__name__ or hint in _PLANNED):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    return None
