"""What differs between two views: what a stream tells. Parts that are shared are equal without being looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pumice.readmodel import model

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T", model.Node, model.Queue, model.Gang, model.Claim)
H = TypeVar("H", model.Attempt, model.Eviction)


def between(former: model.State | None, state: model.State) -> model.Changes:
    """What of `state` is new or different; without a former one, everything."""
    if former is not None and former.leader != state.leader:
        former = None
    return model.Changes(
        **state.head,
        nodes=_different(former.nodes if former else (), state.nodes),
        queues=_different(former.queues if former else (), state.queues),
        gangs=_different(former.gangs if former else (), state.gangs),
        claims=_different(former.claims if former else (), state.claims),
        attempts=_newer(former, state.attempts),
        evictions=_newer(former, state.evictions),
        forecasts=state.forecasts,
        gone=_removals(former, state) if former is not None else model.Gone(),
    )


def apply(former: model.State | None, line: model.Changes, *, kept: int) -> model.State:
    """The view after a line of the stream; of each history the newest `kept` entries."""
    if former is None or former.leader != line.leader:
        former = model.State(**line.head)
    return model.State(
        **line.head,
        nodes=_renewed(former.nodes, line.nodes, line.gone.nodes),
        queues=_renewed(former.queues, line.queues, line.gone.queues),
        gangs=_renewed(former.gangs, line.gangs, line.gone.gangs),
        claims=_renewed(former.claims, line.claims, line.gone.claims),
        attempts=(*former.attempts, *line.attempts)[-kept:],
        evictions=(*former.evictions, *line.evictions)[-kept:],
        forecasts=line.forecasts,
    )


def is_empty(changes: model.Changes) -> bool:
    """True where nothing but the cycle's number and time is new."""
    parts = (changes.nodes, changes.queues, changes.gangs, changes.claims, changes.attempts, changes.evictions)
    return not any(parts) and changes.gone == model.Gone()


def _name(thing: model.Node | model.Queue | model.Gang | model.Claim) -> str:
    if isinstance(thing, model.Gang):
        return thing.key
    return thing.gang if isinstance(thing, model.Claim) else thing.name


def _different(former: Iterable[T], now: tuple[T, ...]) -> tuple[T, ...]:
    known = {_name(each): each for each in former}
    return tuple(each for each in now if (old := known.get(_name(each))) is not each and old != each)


def _renewed(former: tuple[T, ...], news: tuple[T, ...], gone: Iterable[str]) -> tuple[T, ...]:
    """What is new stands behind what was there."""
    if not news and not gone:
        return former
    known = {_name(each): each for each in former}
    known.update((_name(each), each) for each in news)
    for name in gone:
        known.pop(name, None)
    return tuple(known.values())


def _newer(former: model.State | None, now: tuple[H, ...]) -> tuple[H, ...]:
    return tuple(each for each in now if former is None or each.cycle > former.cycle)


def _removals(former: model.State, state: model.State) -> model.Gone:
    def names(old: Iterable[T], new: Iterable[T]) -> tuple[str, ...]:
        return tuple(sorted({_name(each) for each in old} - {_name(each) for each in new}))

    return model.Gone(
        nodes=names(former.nodes, state.nodes),
        queues=names(former.queues, state.queues),
        gangs=names(former.gangs, state.gangs),
        claims=names(former.claims, state.claims),
    )
