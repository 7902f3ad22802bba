"""One cycle: open the plugins, run the actions, close. The same input gives the same decisions, byte for byte."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pumice.scheduling import actions, plugins
from pumice.scheduling.core import build_decisions
from pumice.scheduling.core.failures import NOTHING_ASIDE, PLANS_MAX, failure_of
from pumice.scheduling.core.memory import EMPTY, Memory
from pumice.scheduling.core.ports import Ports
from pumice.scheduling.core.session import UNLIMITED_BUDGET, Session
from pumice.scheduling.core.shortcuts import NO_SHORTCUTS
from pumice.scheduling.evicting import deadlocks, mend
from pumice.scheduling.placing import turns
from pumice.scheduling.placing.pending import PendingMembers
from pumice.scheduling.time import reservations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.cluster.state import Snapshot
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.shortcuts import Shortcuts

NO_PLUGINS: Mapping[str, type[Plugin]] = {}
NO_PORTS = Ports()


GRACE_SECONDS = 30  # how long a gang whose commit was cut short may stay incomplete


def plan(  # noqa: PLR0913  what a cycle depends on, all of it
    snapshot: Snapshot,
    policy: Policy,
    memory: Memory = EMPTY,
    *,
    now: Instant,
    ports: Ports | None = None,
    extra_plugins: Mapping[str, type[Plugin]] = NO_PLUGINS,
    budget: int = UNLIMITED_BUDGET,
    grace_s: int = GRACE_SECONDS,
    explain: bool = True,
    idle: bool = False,
    shortcuts: Shortcuts = NO_SHORTCUTS,
) -> Decisions:
    """What should happen now, and the memory for the next cycle; nothing is written, and no argument is changed.

    Without `explain` the same is decided, only phases are told, those of gangs that go on running are left out, and what queues hold, too:
    enough for a run ahead. So is, while nobody waits, an `idle` cycle: it only learns, without actions.
    Whoever only asks about one gang may take `shortcuts`.
    """
    aside = NOTHING_ASIDE
    for _ in range(PLANS_MAX):
        session = Session(
            snapshot,
            policy,
            memory,
            now=now,
            ports=ports or NO_PORTS,
            budget=budget,
            aside=aside,
            explain=explain,
            shortcuts=shortcuts,
        )
        try:
            return _plan(session, extra_plugins, grace_s, idle=idle)
        except Exception as error:
            modules = {plugins.find(option.name, extra_plugins).__module__: option.name for option in policy.options}
            at = session.turn.key if session.turn is not None else ""
            left = aside.after(failure_of(error, at, modules))
            if left is None:
                raise
            aside = left
    raise AssertionError(f"{len(aside.failures)} gangs and plugins were set aside, and the next one fails too")


def _plan(session: Session, extra_plugins: Mapping[str, type[Plugin]], grace_s: int, *, idle: bool) -> Decisions:
    _open_plugins(session, extra_plugins)
    missing = (each for name, each in session.aside.plugins.items() if plugins.find(name, extra_plugins).essential)
    session.closed_by = next(missing, None)
    if session.closed_by is None:
        mend_attempts(session, grace_s)
        session.points.begin.tell()
        _run_actions(session, () if idle else session.policy.actions)
    with session.ports.measure("close", "session"):
        return build_decisions.close(session)


def _run_actions(session: Session, names: Sequence[str]) -> None:
    for name in names:
        with session.ports.measure("action", name):
            actions.NAMES[name](session)
        if session.is_answered:
            return
    deadlocks.run(session)


def open_session(
    snapshot: Snapshot,
    policy: Policy,
    memory: Memory = EMPTY,
    *,
    now: Instant,
    ports: Ports | None = None,
    extra_plugins: Mapping[str, type[Plugin]] = NO_PLUGINS,
    budget: int = UNLIMITED_BUDGET,
) -> Session:
    session = Session(snapshot, policy, memory, now=now, ports=ports or Ports(), budget=budget)
    _open_plugins(session, extra_plugins)
    return session


def _open_plugins(session: Session, extra_plugins: Mapping[str, type[Plugin]]) -> None:
    reservations.mark_gangs(session)
    for option in session.policy.options:
        if option.name in session.aside.plugins:
            continue
        session.points.registering(option)
        with session.ports.measure("plugin", option.name):
            read = functools.partial(plugins.read, option, session.policy.source, extra_plugins)
            args = session.snapshot.kept((plugins.read, option.name), option, read)
            plugin = plugins.make(option, args, extra_plugins)
            session.plugins.append(plugin)
            plugin.open(session)
    session.settle()


def mend_attempts(session: Session, grace_s: int) -> None:
    """Finish what was cut short before other gangs may take its room, or give it up."""
    left = []
    for gang in mend.gangs_to_mend(session):
        if gang.key in session.aside.gangs:
            continue
        with session.turn_of(gang):
            pending = PendingMembers(session, gang)
            if pending and gang.key not in session.ports.resting:
                turns.take(session, gang, pending)
            if session.is_ready(gang):
                session.mended.add(gang.key)
            else:
                left.append(gang)
    session.changes_at += mend.deadlines(session, left, grace_s=grace_s)
    session.releases += [*mend.releases_of_lost_members(session), *mend.releases(session, left, grace_s=grace_s)]
