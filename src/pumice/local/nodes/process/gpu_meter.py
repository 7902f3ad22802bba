"""How much each pod uses of its GPUs: looks at the cards become a report for the cluster."""

from __future__ import annotations

import asyncio
import collections
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pumice import instant
from pumice.api import names
from pumice.api.core import Node
from pumice.cluster import gpu_use
from pumice.cluster.gpu_use import PodGpuUse, Report
from pumice.kube import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from pumice.clock import Clock
    from pumice.cluster.cards import Slice
    from pumice.kube.client import Client
    from pumice.local.nodes.process.nvml import CardUse, Nvml
    from pumice.runtime import Log

LOOK_S = 5.0
PEAK_OVER_S = gpu_use.PEAK_OVER / instant.SECOND


class _Sample(NamedTuple):
    at_s: float
    percent: float


class GpuMeter:
    """Remembers of each pod what it used at each look, as far back as the peak reaches."""

    def __init__(self) -> None:
        self._samples: dict[str, collections.deque[_Sample]] = {}  # by the pod's uid
        self._memory: dict[str, int] = {}

    def note(
        self,
        held: Mapping[str, Sequence[Slice]],
        looks: Iterable[CardUse],
        owners: Mapping[int, str],
        now_s: float,
    ) -> None:
        """`held`: by the pod's uid, what it has; `owners`: by process id, the pod that it belongs to."""
        cards = {look.id: look for look in looks}
        holders = collections.Counter(uuid for parts in held.values() for uuid in {part.uuid for part in parts})
        for uid in self._samples.keys() - held.keys():
            del self._samples[uid], self._memory[uid]
        for uid, parts in held.items():
            mine = [cards[uuid] for uuid in dict.fromkeys(part.uuid for part in parts) if uuid in cards]
            percents = [_percent(card, uid, owners, alone=holders[card.id] == 1) for card in mine]
            known = [each for each in percents if each is not None]
            if not known or len(known) < len({part.uuid for part in parts}):
                continue  # of a card that does not tell, nobody can say that it is idle
            percent = sum(known) / len(known)
            samples = self._samples.setdefault(uid, collections.deque())
            samples.append(_Sample(now_s, percent))
            while samples[0].at_s < now_s - PEAK_OVER_S:
                samples.popleft()
            self._memory[uid] = sum(_memory(card, uid, owners, alone=holders[card.id] == 1) for card in mine)

    def uses(self, now_s: float) -> dict[str, PodGpuUse]:
        """By the pod's uid."""
        found = {}
        for uid, samples in self._samples.items():
            late = [each.percent for each in samples if each.at_s > now_s - gpu_use.REPORT_S] or [samples[-1].percent]
            found[uid] = PodGpuUse(
                round(sum(late) / len(late), 1), round(max(each.percent for each in samples), 1), self._memory[uid]
            )
        return found


def _percent(card: CardUse, uid: str, owners: Mapping[int, str], *, alone: bool) -> float | None:
    """The pod's part of what is used. Where that cannot be told apart it is all of it: better busy by mistake than idle by mistake."""
    if alone:
        return card.percent
    parts = []
    for process in card.processes:
        owner = owners.get(process.pid)
        if owner is None or (owner == uid and process.percent is None):
            return card.percent
        if owner == uid and process.percent is not None:
            parts.append(process.percent)
    return min(sum(parts), 100.0)


def _memory(card: CardUse, uid: str, owners: Mapping[int, str], *, alone: bool) -> int:
    mine = [process.memory_mib for process in card.processes if owners.get(process.pid) == uid]
    if alone and (not mine or None in mine):
        return card.memory_mib
    return sum(each or 0 for each in mine)


def owners(pids: Iterable[int], inits: Mapping[int, str]) -> dict[int, str]:
    """By process id, the pod that a process belongs to: every container has a namespace of processes, that of its init."""
    spaces = {space: uid for init, uid in inits.items() if (space := _space(init))}
    found = {pid: spaces.get(_space(pid)) for pid in pids}
    return {pid: uid for pid, uid in found.items() if uid is not None}


def _space(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""  # it has ended


class GpuReporter:
    """Looks at the cards again and again, and writes onto the Node what pods use of them."""

    def __init__(self, nvml: Nvml, client: Client, node: str, *, clock: Clock, log: Log) -> None:
        self._nvml = nvml
        self._client = client
        self._node = node
        self._clock = clock
        self._log = log
        self._reported: AbstractSet[str] = frozenset()  # the pods of the last report
        self.meter = GpuMeter()

    async def run(
        self, held: Callable[[], Mapping[str, Sequence[Slice]]], pods: Callable[[], Mapping[str, tuple[str, list[int]]]]
    ) -> None:
        """`pods`: by uid, the key of each pod that lives, and the process ids of its containers' inits."""
        reported_s = -gpu_use.REPORT_S
        while True:
            looks = await asyncio.to_thread(self._nvml.look)
            living = pods()
            inits = {init: uid for uid, (_, theirs) in living.items() for init in theirs}
            pids = {process.pid for look in looks for process in look.processes}
            now_s = self._clock.monotonic()
            self.meter.note(held(), looks, owners(pids, inits), now_s)
            uses = {living[uid][0]: use for uid, use in self.meter.uses(now_s).items() if uid in living}
            if now_s - reported_s >= gpu_use.REPORT_S or uses.keys() != self._reported:
                reported_s = now_s
                await self._report(uses)
            await self._clock.sleep(LOOK_S)

    async def _report(self, uses: dict[str, PodGpuUse]) -> None:
        if not uses and not self._reported:
            return  # nobody has GPUs, and nobody had
        text = gpu_use.write(Report(instant.format_instant(self._clock.now()), uses)) if uses else ""
        try:
            await self._client.patch(Node, self._node, {"metadata": {"annotations": {names.GPU_USE: text or None}}})
            self._reported = uses.keys()
        except errors.KubeError as error:
            self._log("gpu_use_not_reported", node=self._node, error=str(error))
