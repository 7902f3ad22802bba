"""Which CPUs of a node a container would get for itself, as the kubelet's CPU and topology managers decide.

Sets of CPUs are integers, one bit each. A container that asks for whole CPUs gets them from as few NUMA nodes as can hold them;
the node's policy says whether more than the fewest conceivable are acceptable.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from pumice.api.nodeinfo import CpuInfo
from pumice.digits import ranges
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
CPUS_MAX = 4096  # a node with more is not believed
NUMA_SETS_MAX = 4096  # tried in search of the narrowest; all there are on a node with up to 14 NUMA nodes
ANSWERS_CACHED_MAX = 65_536
LAYOUTS_CACHED_MAX = 4_096

_NUMBER = re.compile("[0-9]{1,4}")
_RANGE = re.compile("([0-9]{1,4})(?:-([0-9]{1,4}))?")
_encode = msgspec.msgpack.Encoder(order="sorted").encode


def cpuset(text: str) -> int:
    """A set such as `0-3,8`; a part that is no range of CPUs counts for nothing."""
    found = 0
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is not None:
            first, last = int(match[1]), int(match[2] or match[1])
            if first <= last < CPUS_MAX:
                found |= (1 << (last + 1)) - (1 << first)
    return found


def cpuset_text(cpus: int) -> str:
    """The set as the kubelet writes it: `0-3,8`."""
    return ranges(_bits(cpus))


def _bits(cpus: int) -> Iterator[int]:
    while cpus:
        low = cpus & -cpus
        yield low.bit_length() - 1
        cpus ^= low


class Layout:
    """How the CPUs of a node hang together. Equal layouts are one object."""

    def __init__(self, detail: Mapping[str, CpuInfo]) -> None:
        self.numa: dict[int, int] = {}
        self.sockets: dict[int, int] = {}
        self.all = 0
        cores: dict[tuple[int, int, int], int] = {}  # exporters number cores within their socket
        for name, info in detail.items():
            if _NUMBER.fullmatch(name) and int(name) < CPUS_MAX:
                bit = 1 << int(name)
                self.all |= bit
                self.numa[info.numa] = self.numa.get(info.numa, 0) | bit
                self.sockets[info.socket] = self.sockets.get(info.socket, 0) | bit
                core = (info.numa, info.socket, info.core)
                cores[core] = cores.get(core, 0) | bit
        self.cores = [(cpus, self.numa[numa]) for (numa, _, _), cpus in cores.items()]

    def take(self, free: int, count: int) -> int | None:
        """So many of the free CPUs: whole sockets first, whole NUMA nodes, whole cores, then what is left over of others."""
        if free.bit_count() < count:
            return None
        taken = 0
        for groups in (self.sockets, self.numa):
            for key in sorted(groups):
                taken = _take_whole(groups[key], free, taken, count)
        for cpus in self._tightest_first(free, taken):
            taken = _take_whole(cpus, free, taken, count)
        for cpus in self._tightest_first(free, taken):
            for cpu in itertools.islice(_bits(cpus & free & ~taken), count - taken.bit_count()):
                taken |= 1 << cpu
        return taken

    def _tightest_first(self, free: int, taken: int) -> list[int]:
        """Cores of NUMA nodes that the container is on already, then of those with least to spare; broken cores first."""
        left = free & ~taken

        def rank(core: tuple[int, int]) -> tuple[bool, int, int, int]:
            cpus, home = core
            return (not home & taken, (home & left).bit_count(), (cpus & left).bit_count(), cpus & -cpus)

        return [cpus for cpus, _ in sorted(self.cores, key=rank)]


def _take_whole(cpus: int, free: int, taken: int, count: int) -> int:
    whole = cpus & free & ~taken == cpus and cpus.bit_count() <= count - taken.bit_count()
    return taken | cpus if whole else taken


def layout_of(detail: Mapping[str, CpuInfo]) -> Layout:
    return _layout(_encode(dict(detail)))  # an empty one is a read-only view that cannot be encoded


@lru_cache(maxsize=LAYOUTS_CACHED_MAX)
def _layout(encoded: bytes) -> Layout:
    return Layout(msgspec.msgpack.decode(encoded, type=dict[str, CpuInfo]))


class Assignment(Value):
    """CPUs for each container, and from how many NUMA nodes; or (failed) the first container that gets none."""

    cpus: tuple[int, ...] = ()
    spread: int = 0
    failed: int | None = None


@lru_cache(maxsize=ANSWERS_CACHED_MAX)
def assign(layout: Layout, policy: str, free: int, wanted: tuple[int, ...]) -> Assignment:
    """Whole CPUs for one container after the other; zero means that the container shares CPUs with all others."""
    given: list[int] = []
    union = 0
    for number, count in enumerate(wanted):
        cpus = _for_container(layout, policy, free & ~union, count) if count else 0
        if cpus is None:
            return Assignment(failed=number)
        given.append(cpus)
        union |= cpus
    return Assignment(tuple(given), sum(bool(cpus & union) for cpus in layout.numa.values()))


def _for_container(layout: Layout, policy: str, free: int, count: int) -> int | None:
    if policy == NONE:
        return layout.take(free, count)
    needed = _fewest([(cpus & free).bit_count() for cpus in layout.numa.values()], count)
    if needed is None:
        return None
    conceivable = _fewest([cpus.bit_count() for cpus in layout.numa.values()], count)
    if (policy == SINGLE and needed > 1) or (policy == RESTRICTED and needed != conceivable):
        return None
    return layout.take(free & _narrowest(layout, free, count, needed), count)


def _fewest(sizes: list[int], count: int) -> int | None:
    """How many of the sizes it takes at least to make up the count."""
    total = 0
    for number, size in enumerate(sorted(sizes, reverse=True), start=1):
        total += size
        if total >= count:
            return number
    return None


def _narrowest(layout: Layout, free: int, count: int, size: int) -> int:
    """The first set of so many NUMA nodes, by their numbers, that has enough free CPUs."""
    sets = itertools.combinations(sorted(layout.numa, reverse=True), len(layout.numa) - size)
    for left_out in itertools.islice(sets, NUMA_SETS_MAX):  # without the highest numbers first: the lowest set first
        cpus = layout.all
        for key in left_out:
            cpus &= ~layout.numa[key]
        if (cpus & free).bit_count() >= count:
            return cpus
    return layout.all
