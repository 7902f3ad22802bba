"""One cycle: open the plugins, run the actions, close. The same input gives the same decisions, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling import actions, closing, plugins
from pumice.scheduling.ports import Ports
from pumice.scheduling.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.cluster.state import Snapshot
    from pumice.instant import Instant
    from pumice.scheduling.decisions import Decisions
    from pumice.scheduling.plugins import Plugin
    from pumice.scheduling.policy import Policy

NO_PLUGINS: Mapping[str, type[Plugin]] = {}


def plan(
    snapshot: Snapshot,
    policy: Policy,
    *,
    now: Instant,
    ports: Ports | None = None,
    extra_plugins: Mapping[str, type[Plugin]] = NO_PLUGINS,
) -> Decisions:
    """What should happen now; nothing is written, and the snapshot is not changed."""
    session = open_session(snapshot, policy, now=now, ports=ports, extra_plugins=extra_plugins)
    for name in policy.actions:
        actions.find(name)(session)
    return closing.close(session)


def open_session(
    snapshot: Snapshot,
    policy: Policy,
    *,
    now: Instant,
    ports: Ports | None = None,
    extra_plugins: Mapping[str, type[Plugin]] = NO_PLUGINS,
) -> Session:
    session = Session(snapshot, policy, now=now, ports=ports or Ports())
    for option in policy.options:
        session.points.registering(option)
        plugins.make(option, policy.source, extra_plugins).open(session)
    session.settle()
    return session
