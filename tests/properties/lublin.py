"""Small workloads with the habits of real ones: sizes are powers of two more often than not, run times spread over four decades, and nights
are quieter than days. Drawn from a seed."""

import math
import random

from pumice.sim import Submission


def workload(seed, jobs, slots, *, load=0.9):
    """So many jobs on a machine of so many slots, which asks for `load` of it over time."""
    chance = random.Random(seed)
    drawn = [(_size(chance, slots), _run(chance)) for _ in range(jobs)]
    work = sum(size * run for size, run in drawn)
    gap = work / (slots * load) / jobs
    at, found = 0.0, []
    for size, run in drawn:
        busy = 1 + 0.8 * math.sin(2 * math.pi * at / 86_400)
        at += chance.expovariate(1 / gap) / busy
        found.append(Submission(at_s=round(at), run_s=run, size=size, estimate_s=run))
    return found


def _size(chance, slots):
    if chance.random() < 0.25:
        return 1
    largest = math.log2(slots)
    size = 2 ** min(largest, abs(chance.gauss(0.4, 0.25)) * largest)
    return max(1, min(slots, 2 ** round(math.log2(size)) if chance.random() < 0.75 else round(size)))


def _run(chance):
    return max(1, round(10 ** chance.uniform(0.5, 4.2)))
