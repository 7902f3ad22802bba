"""Workloads with wrong estimates under virtual time, in which every gang that has to wait gets one forecast, when it comes."""

import numpy as np

from pumice.scheduling.time import accuracy
from pumice.scheduling.time.forecast import World, forecast
from pumice.sim.simulation import START, Simulation, nodes


def told_and_true(work, cluster, *, effort, seed, **settings):
    """(forecast, real start) of every gang that had a p90, in the order in which they were told; and the simulation."""
    simulation = Simulation(work, nodes(cluster), shows_all=True, **settings)
    luck, told = np.random.default_rng(seed), {}
    for _ in simulation.steps():
        ahead = simulation.ahead
        fresh = [key for key in simulation.waiting() if key not in told]
        if fresh:
            world = World(ahead.intake, ahead.policy, ahead.now, ahead.memory)
            found = forecast(world, fresh, chance=luck, effort=effort)
            score = ahead.memory.of(accuracy.SCORE).opened(found.values())
            ahead.memory = ahead.memory.after([(accuracy.SCORE, score)])[0]
            told |= found
    starts = {key: run.start_s for key, run in simulation.runs.items()}
    pairs = [
        (each, START + round(starts[key] * 10**9))
        for key, each in told.items()
        if each.p90 is not None and starts[key] is not None
    ]
    return pairs, simulation


def holds(told, start):
    """By the second that people are told."""
    return start <= -(-told.p90 // 10**9) * 10**9
