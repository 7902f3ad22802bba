"""What happens in a world, drawn from its seed before it begins: nodes, queues, jobs, and what befalls them when.

A story is data, so a world that fails can be told again without some of it: that is how it is made small.
"""

from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING

from pumice.sim.worlds import profiles

if TYPE_CHECKING:
    from pumice.sim.worlds.network import Rates
    from pumice.sim.worlds.profiles import Profile

GPUS = 4  # of a node


@dataclasses.dataclass(frozen=True, slots=True)
class JobPlan:
    """A Job that somebody submits: one task of `size` pods of `gpus` each, of which `minimum` must start together."""

    at_s: float
    name: str
    size: int
    minimum: int
    gpus: int
    run_s: int
    queue: str
    priority: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Mishap:
    """Something that befalls the world: `what` is a name of `mishaps.MISHAPS`, `who` and `amount` what it is about."""

    at_s: float
    what: str
    who: str = ""
    amount: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Story:
    seed: int
    profile: str
    nodes: int
    schedulers: int
    controllers: int
    queues: dict[str, int]  # the GPUs that each may use at most; 0: no limit
    jobs: tuple[JobPlan, ...]
    mishaps: tuple[Mishap, ...]
    rates: Rates
    policy: str
    faults_s: float  # so long things go wrong; afterwards all must come to rest

    def without(self, left_out: frozenset[str]) -> Story:
        """The same story without some jobs ("j3"), mishaps ("m0") and kinds of faults (their names)."""
        jobs = tuple(each for number, each in enumerate(self.jobs) if f"j{number}" not in left_out)
        mishaps = tuple(each for number, each in enumerate(self.mishaps) if f"m{number}" not in left_out)
        zero = {name: 0.0 for name in left_out if hasattr(self.rates, name)}
        return dataclasses.replace(self, jobs=jobs, mishaps=mishaps, rates=dataclasses.replace(self.rates, **zero))

    def parts(self) -> list[str]:
        """All that can be left out, by the names that `without` knows."""
        faults = [each.name for each in dataclasses.fields(self.rates) if getattr(self.rates, each.name)]
        return [
            *(f"m{number}" for number in range(len(self.mishaps))),
            *faults,
            *(f"j{number}" for number in range(len(self.jobs))),
        ]


def draw(seed: int, name: str) -> Story:
    """The story of a seed under a profile."""
    profile = profiles.PROFILES[name]
    chance = random.Random(f"{name}/{seed}")  # noqa: S311  chance is what stories are made of
    nodes = chance.randint(2, 3)
    queues = {"default": 0, "narrow": chance.choice((0, GPUS, 2 * GPUS))}
    jobs = tuple(
        _job(chance, number, nodes, list(queues), profile) for number in range(chance.randint(3, profile.jobs))
    )
    return Story(
        seed=seed,
        profile=name,
        nodes=nodes,
        schedulers=profile.schedulers,
        controllers=profile.controllers,
        queues=queues,
        jobs=jobs,
        mishaps=_mishaps(chance, profile, nodes, jobs),
        rates=profile.rates,
        policy=chance.choice(profile.policies),
        faults_s=profile.faults_s,
    )


def _job(chance: random.Random, number: int, nodes: int, queues: list[str], profile: Profile) -> JobPlan:
    gpus = chance.choice((1, 2, 2, GPUS))
    most = nodes * (GPUS // gpus)
    # Most gangs want a good part of the cluster, so that they are in one another's way; now and then one is too large.
    size = min(chance.randint(max(1, most // 2), most), profile.members) if chance.random() < 0.9 else most + 1
    minimum = size if chance.random() < 0.7 else chance.randint(1, size)
    return JobPlan(
        at_s=round(chance.uniform(0.0, profile.faults_s * 0.7), 2),
        name=f"job-{number}",
        size=size,
        minimum=minimum,
        gpus=gpus,
        run_s=chance.randint(5, 40),
        queue=chance.choice(queues),
        priority=chance.choice(("", "", "high")),
    )


def _mishaps(chance: random.Random, profile: Profile, nodes: int, jobs: tuple[JobPlan, ...]) -> tuple[Mishap, ...]:
    found = []
    for _ in range(chance.randint(1, profile.mishaps) if profile.mishaps else 0):
        what = chance.choice(profile.kinds)
        subject = profiles.SUBJECTS[what]
        who = {
            "node": f"node-{chance.randrange(nodes)}",
            "job": chance.choice(jobs).name,
            "scheduler": f"scheduler-{chance.randrange(profile.schedulers)}",
            "controllers": f"controllers-{chance.randrange(profile.controllers)}",
            "leader": "",
            "": "",
        }[subject]
        at_s = round(chance.uniform(1.0, profile.faults_s), 2)
        found.append(Mishap(at_s, what, who, round(chance.random(), 3)))
    return tuple(sorted(found, key=lambda each: each.at_s))
