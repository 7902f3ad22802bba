"""What several schedulers, each with nodes of its own, would cost gangs in waiting: a model of rooms, not the engine.

    python -m bench.shards [--load 0.85] [--gangs 100000]

20,000 nodes of 8 GPUs as one room, or as 2 to 16 equal ones. Gangs arrive by chance, most of them small and some of a thousand GPUs, and run for
hours. A gang goes to the shard with the most free GPUs when it arrives (`sticky`), or to the first one that has room for all of it (`moves`): it is
never split. In a shard the line is first come, first served, and who fits passes those who do not.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import statistics
import time
from typing import NamedTuple

GPUS = 160_000
SIZES = (1, 8, 16, 64, 256, 1_024, 4_096)  # GPUs of a gang
WEIGHTS = (40, 25, 15, 10, 6, 3, 1)
RUN_S_MEAN = 4 * 3_600.0
PASSES_MAX = 200  # of a line that is looked through each time


class Gang(NamedTuple):
    at: float
    size: int
    run_s: float


def workload(count: int, load: float, seed: int) -> list[Gang]:
    chance = random.Random(seed)  # noqa: S311  a model
    mean = sum(size * weight for size, weight in zip(SIZES, WEIGHTS, strict=True)) / sum(WEIGHTS)
    pace = GPUS * load / (mean * RUN_S_MEAN)  # gangs a second
    found, at = [], 0.0
    for _ in range(count):
        at += chance.expovariate(pace)
        size = chance.choices(SIZES, WEIGHTS)[0]
        found.append(Gang(at, size, chance.expovariate(1 / RUN_S_MEAN)))
    return found


def waits(gangs: list[Gang], shards: int, *, moves: bool) -> list[tuple[int, float]]:
    """Size and waiting time of each gang."""
    free = [GPUS // shards] * shards
    lines: list[list[Gang]] = [[] for _ in range(1 if moves else shards)]
    ends: list[tuple[float, int, int]] = []  # when, how many GPUs, in which shard
    found: list[tuple[int, float]] = []

    def start(now: float, line: list[Gang], where: range) -> None:
        left = []
        for number, gang in enumerate(line):
            shard = max(where, key=lambda each: free[each])
            if number < PASSES_MAX and free[shard] >= gang.size:
                free[shard] -= gang.size
                heapq.heappush(ends, (now + gang.run_s, gang.size, shard))
                found.append((gang.size, now - gang.at))
            else:
                left.append(gang)
        line[:] = left

    def end_until(now: float) -> None:
        while ends and ends[0][0] <= now:
            at, size, shard = heapq.heappop(ends)
            free[shard] += size
            start(at, lines[0 if moves else shard], range(shards) if moves else range(shard, shard + 1))

    for gang in gangs:
        end_until(gang.at)
        chosen = 0 if moves else max(range(shards), key=lambda each: free[each])
        lines[chosen].append(gang)
        start(gang.at, lines[chosen], range(shards) if moves else range(chosen, chosen + 1))
    end_until(float("inf"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", type=float, default=0.85)
    parser.add_argument("--gangs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    gangs = workload(given.gangs, given.load, given.seed)
    for shards, moves in ((1, True), (2, True), (4, True), (8, True), (16, True), (4, False), (16, False)):
        began = time.process_time()
        found = waits(gangs, shards, moves=moves)
        large = [wait for size, wait in found if size >= SIZES[-2]]
        figure = {
            "bench": "shards",
            "shards": shards,
            "gangs_move": moves,
            "load": given.load,
            "mean_wait_s": round(statistics.fmean(wait for _, wait in found)),
            "mean_wait_large_s": round(statistics.fmean(large)),
            "never": given.gangs - len(found),
            "cpu_s": round(time.process_time() - began, 1),
        }
        print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
