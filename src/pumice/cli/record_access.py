"""How a command reaches the record: by asking the leading controllers, or in its database where the user names one."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from pumice import instant
from pumice.cli.cluster_command import Target, connect
from pumice.errors import BadInput, NotFound, PumiceError, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.cli.cluster_command import ClusterAccess
    from pumice.record.store import Store

T = TypeVar("T")
_AGO = re.compile(r"([0-9]{1,6})(d|w)")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UNITS_S = {"d": 86_400, "w": 7 * 86_400}

record_option = click.option(
    "--record",
    default="",
    envvar="PUMICE_RECORD",
    metavar="URL",
    help="Read this database instead of asking the controllers: sqlite:///PATH or postgresql://...",
)


class NoRecord(PumiceError):
    """Nobody could be asked."""


def read(
    target: Target, record: str, path: str, query: Mapping[str, object], local: Callable[[Any, Store], T], answer: Any
) -> T:
    """The answer to a question: from the database itself where `record` names one, else from the controllers."""
    if record:
        from pumice.record import answers
        from pumice.record.store import Store

        store = Store(record)
        try:
            store.check()
            return local(answers, store)
        finally:
            store.close()
    given = {key: str(value) for key, value in query.items() if value not in {None, ""}}
    body = asyncio.run(_ask(target, path, given))
    try:
        found: T = msgspec.json.decode(body, type=answer)
    except msgspec.MsgspecError as error:
        raise NoRecord(
            f"the controllers answer what this program cannot read ({error}); take the version that they run"
        ) from error
    return found


async def _ask(target: Target, path: str, query: Mapping[str, str]) -> bytes:
    async with connect(target) as access:
        return await ask(access, path, query)


async def ask(access: ClusterAccess, path: str, query: Mapping[str, str]) -> bytes:
    """What the leading controllers answer."""
    from pumice.cli.leader import CONTROLLERS, Leader, Unanswered

    try:
        return await Leader(access, CONTROLLERS).ask((path, query))
    except Unanswered as error:
        raise _plain(str(error)) from error


def _plain(cause: str) -> PumiceError:
    if "the record has no gang" in cause:
        return NotFound(cause.rpartition(": ")[2])
    if " may not " in cause:
        return Refused(
            f"{cause}; name a namespace of yours with -n, or ask for the right (see the guide on the record)"
        )
    return NoRecord(
        f"the record cannot be asked ({cause}); the controllers keep one with --record, or name its database: --record URL"
    )


def namespace_of(target: Target) -> str:
    """The namespace that a question is about; empty for all."""
    if target.everywhere:
        return ""
    if target.namespace:
        return target.namespace
    import os

    from pumice.clock import RealClock
    from pumice.kube import config

    return config.find(
        target.kubeconfig, clock=RealClock(), context=target.context, plugins=config.kubectl_plugin_policy(os.environ)
    ).namespace


def moment(text: str, option: str, now: int) -> int | None:
    """A time in seconds: `7d` or `12h` ago, a day, or RFC 3339; None for an empty text."""
    if not text:
        return None
    if found := _AGO.fullmatch(text):
        return now - int(found[1]) * _UNITS_S[found[2]]
    try:
        if _DAY.fullmatch(text):
            return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
        if "T" in text:
            return instant.parse_instant(text) // instant.SECOND
        return now - instant.parse_duration(text) // instant.SECOND
    except (ValueError, BadInput) as error:
        raise BadInput(f"{option} {text!r}: write 7d, 12h, 2026-11-01 or 2026-11-01T08:00:00Z") from error
