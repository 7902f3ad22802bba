"""Looks at a queue when it, its parent, its groups or a Command for it change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.batch import DEFAULT_QUEUE, Action
from pumice.api.bus import Command
from pumice.api.kinds import is_of_kind
from pumice.api.scheduling import PodGroup, Queue
from pumice.controllers.driver import Controller, Wake
from pumice.controllers.queue.plan import View, plan
from pumice.kube.informer import Key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.controllers.cache import Cache
    from pumice.controllers.operations import Plan
    from pumice.instant import Instant

GATHER_S = 0.2  # gangs come and go by the hundred, and are counted once


def controller(cache: Cache) -> Controller:
    queues, groups, commands = cache.of(Queue), cache.of(PodGroup), cache.of(Command)
    queues.index("parent", lambda queue: (queue.spec.parent,))
    groups.index("queue", lambda group: (_queue_of(group),))
    commands.index("queue", _target)

    def look(_: Cache, key: Key, now: Instant) -> Plan:
        queue = queues.get("", key.name)
        parent = queue.spec.parent if queue is not None else ""
        view = View(
            name=key.name,
            queue=queue,
            parent=queues.get("", parent) if parent else None,
            groups=groups.find("queue", key.name),
            commands=sorted(commands.find("queue", key.name), key=_age),
            parent_is_to_open=any(each.action == Action.OPEN_QUEUE for each in commands.find("queue", parent)),
        )
        return plan(view, now)

    def and_children(queue: Queue) -> Iterable[Key]:
        """A parent's state is its children's business."""
        children = queues.find("parent", queue.metadata.name)
        return (Key("", queue.metadata.name), *(Key("", child.metadata.name) for child in children))

    wakes = (
        Wake(Queue, and_children),
        Wake(PodGroup, lambda group: (Key("", _queue_of(group)),), gather_s=GATHER_S),
        Wake(Command, lambda command: [Key("", name) for name in _target(command)]),
    )
    return Controller("queue", look, wakes)


def _queue_of(group: PodGroup) -> str:
    return group.spec.queue or DEFAULT_QUEUE


def _target(command: Command) -> Iterable[str]:
    """The queue that a Command is about, if it is about one."""
    target = command.target
    is_ours = target is not None and is_of_kind(target, Queue)
    return (target.name,) if target is not None and is_ours and target.name else ()


def _age(command: Command) -> tuple[str, str]:
    """Oldest first; the server's times have whole seconds, so versions decide among equals."""
    metadata = command.metadata
    return metadata.creation_timestamp or "", metadata.resource_version.rjust(20, "0")
