"""One cycle: open the plugins, run the actions, close. The same input gives the same decisions, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling import actions, plugins
from pumice.scheduling.core import build_decisions
from pumice.scheduling.core.memory import EMPTY, Memory
from pumice.scheduling.core.ports import Ports
from pumice.scheduling.core.session import UNLIMITED_BUDGET, Session
from pumice.scheduling.evicting import mend
from pumice.scheduling.placing import turns
from pumice.scheduling.placing.pending import PendingMembers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.cluster.state import Snapshot
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.plugins import Plugin

NO_PLUGINS: Mapping[str, type[Plugin]] = {}


GRACE_SECONDS = 30  # how long a gang whose commit was cut short may stay incomplete


def plan(
    snapshot: Snapshot,
    policy: Policy,
    memory: Memory = EMPTY,
    *,
    now: Instant,
    ports: Ports | None = None,
    extra_plugins: Mapping[str, type[Plugin]] = NO_PLUGINS,
    budget: int = UNLIMITED_BUDGET,
    grace_s: int = GRACE_SECONDS,
) -> Decisions:
    """What should happen now, and the memory for the next cycle; nothing is written, and no argument is changed."""
    session = open_session(snapshot, policy, memory, now=now, ports=ports, extra_plugins=extra_plugins, budget=budget)
    mend_attempts(session, grace_s)
    for name in policy.actions:
        with session.ports.measure("action", name):
            actions.NAMES[name](session)
    with session.ports.measure("close", "session"):
        return build_decisions.close(session)


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
    for option in policy.options:
        session.points.registering(option)
        with session.ports.measure("plugin", option.name):
            plugin = plugins.make(option, policy.source, extra_plugins)
            session.plugins.append(plugin)
            plugin.open(session)
    session.settle()
    return session


def mend_attempts(session: Session, grace_s: int) -> None:
    """Finish what was cut short before anybody else may take its room, or give it up."""
    left = []
    for gang in mend.unfinished(session):
        pending = PendingMembers(session, gang)
        if pending and gang.key not in session.ports.resting:
            turns.take(session, gang, pending)
        if session.is_ready(gang):
            session.mended.add(gang.key)
        else:
            left.append(gang)
    session.changes_at += mend.deadlines(session, left, grace_s=grace_s)
    session.releases += [*mend.lost(session), *mend.releases(session, left, grace_s=grace_s)]
