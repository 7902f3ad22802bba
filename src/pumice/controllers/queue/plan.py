"""What one queue needs: its state, its place below the root, and the counts of its groups."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import names
from pumice.api.batch import DEFAULT_QUEUE, Action
from pumice.api.kinds import type_meta
from pumice.api.scheduling import ROOT_QUEUE, PodGroupPhase, Queue, QueueState
from pumice.controllers.operations import Apply, Blame, Create, Emit, Patch, Plan, consume, target_of
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.bus import Command
    from pumice.api.scheduling import PodGroup
    from pumice.controllers.operations import Operation
    from pumice.instant import Instant

STATE_MANAGER = "queue-controller"  # owns status.state, as in Volcano
COMMAND_S_MAX = 60  # a Command for a queue that does not come into being is dropped after so long
RECOUNT_S = 300  # counts are looked at so often, whatever was heard of

# Made again when they are deleted; name -> may others reclaim from it.
PROTECTED = {ROOT_QUEUE: False, DEFAULT_QUEUE: True}
OPEN, CLOSED, CLOSING = QueueState.OPEN.value, QueueState.CLOSED.value, QueueState.CLOSING.value
_ADMITS = frozenset({"", OPEN})
_SHUT = frozenset({CLOSED, CLOSING})
_COUNTERS = tuple(phase.value.lower() for phase in PodGroupPhase)


class View(Value):
    """A queue and what decides about it."""

    name: str
    queue: Queue | None
    parent: Queue | None = None
    groups: Sequence[PodGroup] = ()
    commands: Sequence[Command] = ()  # oldest first
    parent_is_to_open: bool = False  # a Command says so, and has not been carried out


class _Decision(Value):
    state: str
    by_parent: bool  # closed by its parent, and opened with it
    news: tuple[Emit, ...] = ()
    consumed: bool = True  # the Command is done with


def plan(view: View, now: Instant) -> Plan:
    """The queue has the state that it should have, its Commands are carried out, its counts are true."""
    queue = view.queue
    if queue is None:
        return _plan_absent(view, now)
    again_at = now + RECOUNT_S * instant.SECOND
    if queue.metadata.deletion_timestamp is not None:
        return Plan(again_at=again_at)
    command = view.commands[0] if view.commands else None
    decision = _sync(view, queue) if command is None else _obey(view, queue, command)
    stages = _state_stages(queue, decision)
    if command is not None and decision.consumed:
        stages.append((*decision.news, consume(command)))
    if not stages:
        stages = [*_parent_stage(queue), *_count_stage(queue, view.groups)]
    return Plan(tuple(stages), again_at)


def _plan_absent(view: View, now: Instant) -> Plan:
    """Root and default always exist; Commands for others wait a moment, because a watch may be behind."""
    made: tuple[Operation, ...] = ()
    if view.name in PROTECTED:
        body = {
            **type_meta(Queue),
            "metadata": {"name": view.name},
            "spec": {"weight": 1, "reclaimable": PROTECTED[view.name]},
        }
        made = (Create(kind=Queue, body=body),)
    ages = {command.metadata.uid: now - command.metadata.created_at for command in view.commands}
    old = [command for command in view.commands if ages[command.metadata.uid] >= COMMAND_S_MAX * instant.SECOND]
    stage = (*made, *map(consume, old))
    waiting = [age for age in ages.values() if age < COMMAND_S_MAX * instant.SECOND]
    again_at = now + COMMAND_S_MAX * instant.SECOND - max(waiting) if waiting else None
    return Plan((stage,) if stage else (), again_at)


# ------------------------------------------------------------------------------------------------------- decisions


def _is_shut(queue: Queue | None) -> bool:
    return queue is not None and queue.metadata.name != ROOT_QUEUE and queue.status.state in _SHUT


def _closing(groups: Sequence[PodGroup]) -> str:
    return CLOSING if groups else CLOSED


def _is_closed_by_parent(queue: Queue) -> bool:
    return queue.metadata.annotations.get(names.CLOSED_BY_PARENT) == "true"


def _sync(view: View, queue: Queue) -> _Decision:
    """What follows without a Command: the parent's state, and the end of closing."""
    state, marked = queue.status.state, _is_closed_by_parent(queue)
    if _is_shut(view.parent):
        if state not in _SHUT:
            return _Decision(_closing(view.groups), by_parent=True)
    elif view.parent is not None and marked:
        # Either it was closed by its parent, which is open now, or it is open and the mark is all that is left.
        return _Decision(OPEN if state in _SHUT else state, by_parent=False)
    if state in _ADMITS:
        return _Decision(OPEN, by_parent=marked)
    return _Decision(_closing(view.groups) if state == CLOSING else state, by_parent=marked)


def _obey(view: View, queue: Queue, command: Command) -> _Decision:
    match command.action:
        case Action.OPEN_QUEUE:
            return _open(view, queue)
        case Action.CLOSE_QUEUE:
            return _close(view, queue)
        case Action.SYNC_QUEUE:
            return _sync(view, queue)
        case action:
            text = f"Command {command.metadata.key} asks for {action!r}, which no queue can do: use OpenQueue or CloseQueue"
            return msgspec.structs.replace(_sync(view, queue), news=(Emit(queue, "Warning", "UnknownAction", text),))


def _open(view: View, queue: Queue) -> _Decision:
    state, marked = queue.status.state, _is_closed_by_parent(queue)
    if state in _ADMITS:
        return _Decision(OPEN, by_parent=marked)
    if _is_shut(view.parent):
        if view.parent_is_to_open:
            return _Decision(state, by_parent=marked, consumed=False)
        text = f"the queue stays {state}: its parent {queue.spec.parent} is closed; open that first"
        return _Decision(state, by_parent=marked, news=(Emit(queue, "Warning", Action.OPEN_QUEUE.value, text),))
    return _Decision(OPEN, by_parent=False, news=(Emit(queue, "Normal", Action.OPEN_QUEUE.value, "the queue is open"),))


def _close(view: View, queue: Queue) -> _Decision:
    """A queue that a Command closed stays closed when its parent opens again."""
    if queue.metadata.name == ROOT_QUEUE:
        text = "the root queue cannot be closed; close the queues below it"
        news = (Emit(queue, "Warning", Action.CLOSE_QUEUE.value, text),)
        return msgspec.structs.replace(_sync(view, queue), news=news)
    state = CLOSED if queue.status.state == CLOSED else _closing(view.groups)
    left = f": {len(view.groups)} groups are left" if state == CLOSING else ""
    news = (Emit(queue, "Normal", Action.CLOSE_QUEUE.value, f"the queue is {state.lower()}{left}"),)
    return _Decision(state, by_parent=False, news=news)


# ---------------------------------------------------------------------------------------------------------- writes


def _state_stages(queue: Queue, decision: _Decision) -> list[tuple[Operation, ...]]:
    """The mark is set before the queue closes, and goes after it has opened: a death in between is not misread.

    Both are all that is known of what was wished, so they are written for the version that was looked at: what was long on its way, and was
    written again meanwhile, would bring back what a later Command has changed.
    """
    state = _apply_state(queue, decision.state) if decision.state != queue.status.state else None
    mark = (
        _patch_mark(queue, marked=decision.by_parent) if decision.by_parent is not _is_closed_by_parent(queue) else None
    )
    ordered = (state, mark) if decision.state == OPEN else (mark, state)
    return [(operation,) for operation in ordered if operation is not None]


def _apply_state(queue: Queue, state: str) -> Apply:
    body = {
        **type_meta(Queue),
        "metadata": {"name": queue.metadata.name, "uid": queue.metadata.uid},
        "status": {"state": state},
    }
    return Apply(
        kind=Queue,
        body=body,
        version=queue.metadata.resource_version,
        subresource="status",
        manager=STATE_MANAGER,
    )


def _patch_mark(queue: Queue, *, marked: bool) -> Patch:
    annotations = {names.CLOSED_BY_PARENT: "true" if marked else "false"}
    body = {"metadata": {"annotations": annotations}}
    return Patch(**target_of(queue), body=body, version=queue.metadata.resource_version)


def _parent_stage(queue: Queue) -> list[tuple[Operation, ...]]:
    """A queue without a parent lies below the root; with its version, so that no user's choice is overwritten."""
    metadata = queue.metadata
    if queue.spec.parent or metadata.name == ROOT_QUEUE:
        return []
    patch = Patch(
        **target_of(queue),
        body={"spec": {"parent": ROOT_QUEUE}},
        version=metadata.resource_version,
        blame=Blame(queue, "FailedUpdate"),
    )
    return [(patch,)]


def _count_stage(queue: Queue, groups: Sequence[PodGroup]) -> list[tuple[Operation, ...]]:
    counted = collections.Counter(group.status.phase or PodGroupPhase.PENDING.value for group in groups)
    counts = {phase.value.lower(): counted[phase.value] for phase in PodGroupPhase}
    if all(getattr(queue.status, name) == counts[name] for name in _COUNTERS):
        return []
    patch = Patch(**target_of(queue), body={"status": counts}, subresource="status", hurry=False)
    return [(patch,)]
