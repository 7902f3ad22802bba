"""What happens in a world, drawn from its seed before it begins: nodes, queues, jobs, and what befalls them when.

A story is data, so a world that fails can be told again without some of it: that is how it is made small.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec

from pumice.sim.worlds import policies, profiles
from pumice.sim.worlds.network import CALM
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pumice.sim.worlds.network import Rates
    from pumice.sim.worlds.profiles import Profile

GPUS = 4  # of a node
DEVICES_OF_A_NODE = 2  # fewer than it has GPUs, so that they are what is scarce
CRON_NAME = "often"
LONG_S = 30  # of a job that others cannot wait for
FAULT_OUT = 0.25  # the chance of a kind of fault to be left out
JOBS_EARLY = 0.6  # jobs come in this part of the time in which things go wrong
FLOW = 0.12  # the chance of a JobFlow
FLOW_GOES = 0.4  # of a JobFlow, that its Jobs go with its end
RECORD = 0.15  # the chance that there is a record
CRON = 0.1  # the chance of a CronJob
DEVICES = 0.12  # the chance that some jobs ask for devices beside GPUs
DEVICES_SHARED = 0.4  # of such a job, that its pods share a claim
VOLUMES = 0.12  # the chance that some jobs keep their data on a disk of a node
STOPS = 0.15  # the chance that a leader stands still before it writes, where leaders are paused
STOPS_EARLY_S = 7.0  # so soon that another leads before the faults are over
SCRATCH = 0.35  # of such a job, that each of its pods has one of its own
WEBHOOKS = 0.1  # the chance that admission is asked about everything that users and controllers make
LATER = frozenset(
    {"gone", "dropped"}
)  # kinds of faults that came later: drawn apart, so that seeds stay the worlds that they were
AGAIN = 0.15  # the chance that everything is started afresh in the end


class JobPlan(Value):
    """A Job that somebody submits: one task of `size` pods of `gpus` each, of which `minimum` must start together."""

    at_s: float
    name: str
    size: int
    minimum: int
    gpus: int
    run_s: int
    queue: str
    priority: str = ""
    estimate_s: int = 0  # what its owner says of run_s, rightly or not; 0: nothing
    has_devices: bool = False  # each of its pods has a resource claim of its own
    shares_devices: bool = False  # all of them use one that its owner has made
    has_volume: bool = False  # its pods share one, which is on one node
    has_scratch: bool = False  # each has one of its own, which goes with it


class CronPlan(Value):
    """A CronJob that makes a Job of one pod with one GPU every so many seconds."""

    at_s: float
    every_s: int
    run_s: int
    policy: str  # what becomes of a Job whose predecessor still runs


class QueuePlan(Value):
    """The GPUs that a queue may use at most (0: no limit), and those that are kept for it."""

    limit: int = 0
    guarantee: int = 0
    weight: int = 1


class Mishap(Value):
    """Something that befalls the world: `what` is a name of `mishaps.MISHAPS`, `who` and `amount` what it is about."""

    at_s: float
    what: str
    who: str = ""
    amount: float = 0.0


class Story(Value):
    seed: int
    profile: str
    nodes: int
    schedulers: int
    controllers: int
    queues: dict[str, QueuePlan]
    jobs: tuple[JobPlan, ...]
    mishaps: tuple[Mishap, ...]
    rates: Rates
    policy: str
    faults_s: float  # so long things go wrong; afterwards all must come to rest
    flow: tuple[JobPlan, ...] = ()  # Jobs of a JobFlow, each after the one before it
    flow_goes: bool = False  # they are deleted once all of them have succeeded
    has_record: bool = False
    cron: CronPlan | None = None
    has_webhooks: bool = False
    has_devices: bool = False  # nodes have some, and some jobs want them
    has_volumes: bool = False  # the same
    starts_again: bool = False  # in the end everything is started afresh, and has to find nothing to do

    @property
    def is_quiet(self) -> bool:
        """Nothing goes wrong but nodes, and what users do."""
        return self.rates == CALM and all(each.what in profiles.NODES_AND_USERS for each in self.mishaps)

    def without(self, left_out: frozenset[str]) -> Story:
        """The same story without some jobs ("j3"), mishaps ("m0"), kinds of faults (their names), "flow", "record", "cron", "webhooks", "devices", "volumes" or "again"."""
        jobs = tuple(each for number, each in enumerate(self.jobs) if f"j{number}" not in left_out)
        if "devices" in left_out:
            jobs = tuple(msgspec.structs.replace(each, has_devices=False, shares_devices=False) for each in jobs)
        if "volumes" in left_out:
            jobs = tuple(msgspec.structs.replace(each, has_volume=False, has_scratch=False) for each in jobs)
        mishaps = tuple(each for number, each in enumerate(self.mishaps) if f"m{number}" not in left_out)
        zero = {name: 0.0 for name in left_out if hasattr(self.rates, name)}
        rates = msgspec.structs.replace(self.rates, **zero)
        return msgspec.structs.replace(
            self,
            jobs=jobs,
            mishaps=mishaps,
            rates=rates,
            flow=() if "flow" in left_out else self.flow,
            has_record=self.has_record and "record" not in left_out,
            cron=None if "cron" in left_out else self.cron,
            has_webhooks=self.has_webhooks and "webhooks" not in left_out,
            has_devices=self.has_devices and "devices" not in left_out,
            has_volumes=self.has_volumes and "volumes" not in left_out,
            starts_again=self.starts_again and "again" not in left_out,
        )

    def parts(self) -> list[str]:
        """All that can be left out, by the names that `without` knows."""
        faults = [name for name in self.rates.__struct_fields__ if getattr(self.rates, name)]
        extras = {
            "flow": self.flow,
            "record": self.has_record,
            "cron": self.cron,
            "webhooks": self.has_webhooks,
            "devices": self.has_devices,
            "volumes": self.has_volumes,
            "again": self.starts_again,
        }
        return [
            *(f"m{number}" for number in range(len(self.mishaps))),
            *faults,
            *(part for part, is_there in extras.items() if is_there),
            *(f"j{number}" for number in range(len(self.jobs))),
        ]


def draw(seed: int, name: str) -> Story:
    """The story of a seed under a profile."""
    profile = profiles.PROFILES[name]
    chance = random.Random(f"{name}/{seed}")  # noqa: S311  chance is what stories are made of
    nodes = chance.choice((2, 2, 3))
    narrow = QueuePlan(chance.choice((0, GPUS, 2 * GPUS)), chance.choice((0, 0, 1, GPUS)), chance.choice((1, 1, 3)))
    queues = {"default": QueuePlan(), "narrow": narrow}
    jobs = tuple(_job(chance, number, nodes, list(queues), profile) for number in range(chance.choice(profile.jobs)))
    if profile.is_in_line:
        jobs, queues = _line(chance, nodes), dict.fromkeys(queues, QueuePlan())
    owners, extras, hardware = (random.Random(f"{name}/{seed}/{each}") for each in ("owners", "more", "hardware"))  # noqa: S311  as above
    has_devices = hardware.random() < DEVICES
    if has_devices:
        jobs = tuple(msgspec.structs.replace(each, has_devices=hardware.random() < 0.7) for each in jobs)
        sharing = random.Random(f"{name}/{seed}/sharing")  # noqa: S311  as above
        jobs = tuple(_around_one_claim(each) if sharing.random() < DEVICES_SHARED else each for each in jobs)
    has_volumes = hardware.random() < VOLUMES and not profile.is_in_line
    if has_volumes:
        scratch = random.Random(f"{name}/{seed}/scratch")  # noqa: S311  as above
        jobs = tuple(
            _with_scratch(each, nodes)
            if scratch.random() < SCRATCH and not each.shares_devices
            else _beside_its_data(each)
            for each in jobs
        )
    cron = _cron(extras) if extras.random() < CRON and not profile.is_in_line else None
    has_webhooks = extras.random() < WEBHOOKS and not profile.is_in_line
    return Story(
        seed=seed,
        profile=name,
        nodes=nodes,
        schedulers=profile.schedulers,
        controllers=profile.controllers,
        queues=queues,
        jobs=tuple(_estimated(owners, each) for each in jobs),
        mishaps=tuple(
            sorted(
                (
                    *_mishaps(chance, profile, nodes, jobs),
                    *_more(extras, profile, cron, has_webhooks=has_webhooks),
                    *_stops(random.Random(f"{name}/{seed}/stops"), profile),  # noqa: S311  as above
                ),
                key=lambda each: each.at_s,
            )
        ),
        rates=_rates(chance, extras, profile),
        policy=profile.policy or policies.drawn(chance),
        faults_s=profile.faults_s,
        flow=_flow(random.Random(f"{name}/{seed}/flow")),  # noqa: S311  as above
        flow_goes=random.Random(f"{name}/{seed}/flow goes").random() < FLOW_GOES,  # noqa: S311  as above
        has_record=random.Random(f"{name}/{seed}/record").random() < RECORD,  # noqa: S311  as above
        cron=cron,
        has_webhooks=has_webhooks,
        has_devices=has_devices,
        has_volumes=has_volumes,
        starts_again=extras.random() < AGAIN,
    )


def _flow(chance: random.Random) -> tuple[JobPlan, ...]:
    if chance.random() >= FLOW:
        return ()
    at_s = round(chance.uniform(0.0, 5.0), 2)
    return tuple(
        JobPlan(at_s, f"part-{number}", size=2, minimum=2, gpus=1, run_s=chance.randint(3, 6), queue="default")
        for number in range(2)
    )


def _cron(chance: random.Random) -> CronPlan:
    return CronPlan(
        at_s=round(chance.uniform(0.0, 5.0), 2),
        every_s=chance.randint(4, 9),
        run_s=chance.randint(2, 9),
        policy=chance.choice(("Allow", "Forbid", "Replace")),
    )


def _more(chance: random.Random, profile: Profile, cron: CronPlan | None, *, has_webhooks: bool) -> Iterator[Mishap]:
    """What befalls a CronJob, and webhooks, where they are."""
    kinds = []
    if has_webhooks:
        kinds += ["bad-job", chance.choice(profiles.WEBHOOKS) if profile.rates != CALM else "bad-job"]
    if cron is not None and profile.rates != CALM and chance.random() < 0.3:
        kinds += profiles.CRON
    for what in kinds:
        at_s = round(chance.uniform(1.0, profile.faults_s * profile.early), 2)
        yield Mishap(at_s, what, amount=round(chance.random(), 3))


def _stops(chance: random.Random, profile: Profile) -> Iterator[Mishap]:
    if "pause-leader" in profile.kinds and chance.random() < STOPS:
        at_s = round(chance.uniform(0.5, STOPS_EARLY_S), 2)
        yield Mishap(at_s, chance.choice(profiles.STOPS), amount=round(chance.random(), 3))


def _rates(chance: random.Random, extras: random.Random, profile: Profile) -> Rates:
    """Some kinds of faults are left out of each world: where everything goes wrong at once, much of it hides the rest."""
    if chance.random() < profile.quiet:
        return CALM
    kinds = list(profile.rates.__struct_fields__)
    out = {kind: 0.0 for kind in kinds if (extras if kind in LATER else chance).random() < FAULT_OUT}
    return msgspec.structs.replace(profile.rates, **out)


def _job(chance: random.Random, number: int, nodes: int, queues: list[str], profile: Profile) -> JobPlan:
    gpus = chance.choice((1, 2, 2, 3, GPUS))
    most = nodes * (GPUS // gpus)
    # Most gangs want a good part of the cluster, so that they are in one another's way; now and then one is too large.
    size = min(chance.randint(max(1, most // 2), most), profile.members) if chance.random() < 0.9 else most + 1
    minimum = size if chance.random() < 0.7 else chance.randint(1, size)
    return JobPlan(
        at_s=round(chance.uniform(0.0, profile.faults_s * JOBS_EARLY), 2),
        name=f"job-{number}",
        size=size,
        minimum=minimum,
        gpus=gpus,
        run_s=chance.randint(3, 12) if chance.random() < 0.85 else LONG_S,
        queue=chance.choice(queues),
        priority=chance.choice(("", "", "high")),
    )


def _line(chance: random.Random, nodes: int) -> tuple[JobPlan, ...]:
    """One runs, a more important one waits for all of the cluster, and a small one fits beside the first."""
    first = JobPlan(0.5, "job-0", nodes - 1, nodes - 1, chance.choice((2, 3, GPUS)), chance.randint(6, 12), "default")
    large = JobPlan(1.5, "job-1", nodes, nodes, GPUS, chance.randint(3, 8), "default", "high")
    small = JobPlan(3.0, "job-2", chance.randint(1, GPUS), 1, 1, chance.randint(3, 12), "default")
    return first, large, small


def _beside_its_data(plan: JobPlan) -> JobPlan:
    """A job whose pods all run on the node that has its volume; small, so that several would find room side by side there."""
    size = min(plan.size, DEVICES_OF_A_NODE)
    return msgspec.structs.replace(plan, has_volume=True, gpus=1, size=size, minimum=min(plan.minimum, size))


def _with_scratch(plan: JobPlan, nodes: int) -> JobPlan:
    """A job whose pods each need a volume of their own: no two of them find room side by side."""
    size = min(plan.size, nodes)
    return msgspec.structs.replace(plan, has_scratch=True, gpus=1, size=size, minimum=min(plan.minimum, size))


def _around_one_claim(plan: JobPlan) -> JobPlan:
    """All of its pods on the node of its devices, where it has some."""
    size = min(plan.size, GPUS // plan.gpus)
    shared = msgspec.structs.replace(plan, shares_devices=True, size=size, minimum=min(plan.minimum, size))
    return shared if plan.has_devices else plan


def _estimated(chance: random.Random, plan: JobPlan) -> JobPlan:
    """Some owners say how long it runs: rightly, too little, or too much."""
    return msgspec.structs.replace(plan, estimate_s=round(plan.run_s * chance.choice((0, 0, 1, 1, 0.5, 3))))


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
        at_s = round(chance.uniform(1.0, profile.faults_s * profile.early), 2)
        found.append(Mishap(at_s, what, who, round(chance.random(), 3)))
    return tuple(found)
