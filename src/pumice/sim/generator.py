"""A workload that nobody has recorded, drawn from a seed.

Submissions are a Poisson process whose rate makes the jobs ask for `load` of the cluster in the long run. Sizes are powers of two with the weights
below, as GPU clusters report them: most jobs are small, most of the work is in the large ones. Run times are log-normal with a median of 20 minutes,
between 30 seconds and a week; estimates are the run time times a log-normal factor that leans upward, as people's do.
"""

from __future__ import annotations

import math
import random

from pumice.errors import BadInput
from pumice.sim.workload import JOBS_MAX, Submission

SIZES = {1: 0.55, 2: 0.12, 4: 0.12, 8: 0.13, 16: 0.04, 32: 0.02, 64: 0.02}
RUN_MEDIAN_S, RUN_SPREAD = 1200.0, 1.6
RUN_S_MIN, RUN_S_MAX = 30.0, 7 * 86_400.0
ESTIMATE_LEAN, ESTIMATE_SPREAD = 0.4, 0.5
USERS = 20


def generate(jobs: int, slots: int, *, load: float, seed: int) -> list[Submission]:
    """So many jobs for a cluster of so many slots."""
    if not 1 <= jobs <= JOBS_MAX:
        raise BadInput(f"--jobs {jobs}: a generated workload has 1 to {JOBS_MAX} jobs")
    chance = random.Random(seed)  # noqa: S311  drawn for a simulation
    sizes = [size for size in SIZES if size <= slots]
    weights = [SIZES[size] for size in sizes]
    drawn = [(chance.choices(sizes, weights)[0], _run_s(chance)) for _ in range(jobs)]
    work = sum(size * run_s for size, run_s in drawn)
    gap_s = work / jobs / (load * slots)
    at_s, found = 0.0, []
    for size, run_s in drawn:
        at_s += chance.expovariate(1.0 / gap_s)
        estimate = run_s * chance.lognormvariate(ESTIMATE_LEAN, ESTIMATE_SPREAD)
        user = f"user-{min(USERS - 1, int(chance.expovariate(0.3)))}"
        found.append(Submission(at_s=round(at_s, 1), run_s=run_s, size=size, user=user, estimate_s=math.ceil(estimate)))
    return found


def _run_s(chance: random.Random) -> float:
    drawn = chance.lognormvariate(math.log(RUN_MEDIAN_S), RUN_SPREAD)
    return round(min(RUN_S_MAX, max(RUN_S_MIN, drawn)))
