"""Plans every recorded cycle again, and says whether that gives the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.errors import BadInput
from pumice.flight import frames
from pumice.flight.digests import digests, parts
from pumice.flight.recorder import slots_of
from pumice.scheduling import actions, plugins
from pumice.scheduling.core import cycle, memory
from pumice.scheduling.core.memory import EMPTY, Memory, UnreadableSlot
from pumice.scheduling.core.ports import ExtenderFailed, Ports
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pumice.cluster.state import Snapshot
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.ports import Extender


class Played(Value):
    """One cycle, planned again."""

    number: int
    at: Instant
    snapshot: Snapshot
    policy: Policy
    memory: Memory
    ports: Ports
    decisions: Decisions
    recorded: frames.Outcome | None  # None: the process ended before it had planned this
    differs: tuple[str, ...]  # parts of the decisions that are not the bytes that were recorded
    writer: str  # the version of Pumice that recorded it


def play(written: Iterable[frames.Frame], extra_plugins: Mapping[str, type[Plugin]]) -> Iterator[Played]:
    """Every cycle of a recording, in order, as far as its frames are whole."""
    player = _Player(extra_plugins)
    waiting: frames.Inputs | None = None
    for frame in written:
        if waiting is not None and not (isinstance(frame, frames.Outcome) and frame.number == waiting.number):
            yield player.cycle(waiting, None)
            waiting = None
        match frame:
            case frames.Head():
                player.head = frame
            case frames.State():
                player.begin(frame)
            case frames.Inputs():
                waiting = frame
            case frames.Outcome() if waiting is not None:
                yield player.cycle(waiting, frame)
                waiting = None
    if waiting is not None:
        yield player.cycle(waiting, None)


class _Player:
    """What holds from one cycle to the next."""

    def __init__(self, extra_plugins: Mapping[str, type[Plugin]]) -> None:
        self.head: frames.Head | None = None
        self._extra = extra_plugins
        self._slots = slots_of(extra_plugins)
        own = {watch.kind.__name__: watch.kind for plugin in extra_plugins.values() for watch in plugin.watches}
        self._kinds = {**own, **frames.OWN_KINDS}
        self._intake = Intake(Cluster())
        self._memory = EMPTY
        self._policy: Policy | None = None
        self._ports = Ports()

    def begin(self, state: frames.State) -> None:
        head = self._need_head("a state")
        cluster = Cluster(scheduler_names=frozenset(head.scheduler_names), default_queue=head.default_queue)
        self._intake = Intake(cluster, gone=state.gone, resources=state.resources)
        for row in state.rows:
            self._intake.apply(frames.change_of(row, self._kinds))
        cluster.revision, cluster.shifts = state.revision, state.shifts
        self._policy = None

    def cycle(self, inputs: frames.Inputs, recorded: frames.Outcome | None) -> Played:
        head = self._need_head("a cycle")
        for row in inputs.rows:
            self._intake.apply(frames.change_of(row, self._kinds))
        policy = self._take(inputs, recorded)
        snapshot, before = self._intake.cluster.snapshot(), self._memory
        decisions = cycle.plan(
            snapshot,
            policy,
            self._memory,
            now=inputs.at,
            ports=self._ports,
            extra_plugins=self._extra,
            budget=inputs.budget,
            grace_s=head.grace_s,
        )
        self._memory = decisions.memory
        now = digests(parts(decisions, self._slots))
        was = now if recorded is None else recorded.digests
        differs = tuple(name for name in {**was, **now} if was.get(name) != now.get(name))
        return Played(
            inputs.number,
            inputs.at,
            snapshot,
            policy,
            before,
            self._ports,
            decisions,
            recorded,
            differs,
            head.version,
        )

    def _need_head(self, what: str) -> frames.Head:
        if self.head is None:
            raise frames.Broken(f"{what} stands before the head of the recording; the file was put together by hand")
        return self.head

    def _take(self, inputs: frames.Inputs, recorded: frames.Outcome | None) -> Policy:
        """What is given with this cycle replaces what held before it."""
        if inputs.memory is not UNSET:
            self._memory = self._decode_memory(bytes(inputs.memory))
        if inputs.policy is not UNSET:
            self._policy = inputs.policy
            self._check_known(inputs.policy)
        if self._policy is None:
            raise frames.Broken(f"cycle {inputs.number} has no policy: what was written before it is missing")
        ports = self._ports
        self._ports = msgspec.structs.replace(
            ports,
            loads=ports.loads if inputs.loads is UNSET else inputs.loads,
            run_times=ports.run_times if inputs.run_times is UNSET else inputs.run_times,
            resting=inputs.resting,
            forecasts=inputs.forecasts,
            extender=None if recorded is None or not recorded.answers else _answering(recorded.answers),
        )
        return self._policy

    def _decode_memory(self, data: bytes) -> Memory:
        try:
            return memory.decode(data, self._slots)
        except UnreadableSlot as error:
            raise BadInput(
                f"its memory cannot be read: {error}; use the Pumice and the plugins that wrote it"
            ) from error

    def _check_known(self, policy: Policy) -> None:
        if strange := [name for name in policy.actions if name not in actions.NAMES]:
            raise BadInput(
                f"its policy has the action {strange[0]}, which this program does not know; use the Pumice that wrote it"
            )
        known = {*plugins.NAMES, *self._extra}
        if missing := [option.name for option in policy.options if option.name not in known]:
            raise BadInput(
                f"its policy has the plugin {missing[0]}, which is not installed here; install the package that it comes from"
            )


def _answering(answers: Iterable[Mapping[str, Any] | str]) -> Extender:
    """An extender that says again what it said then."""
    left = iter(answers)

    def asked(verb: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        del body
        answer = next(left, f"{verb}: the extender was asked more often than when this was recorded")
        if isinstance(answer, str):
            raise ExtenderFailed(answer)
        return answer

    return asked
