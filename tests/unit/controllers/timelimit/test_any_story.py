"""Whatever happens to a limited gang: it ends when its time is up and never before, once, and a plan made twice does nothing twice."""

import json
import random

import pytest

from pumice import instant
from pumice.api import decoding, names
from pumice.api.pods import Pod
from pumice.api.run_time import run_of, start_time, started_at
from pumice.api.scheduling import PodGroup
from pumice.controllers.operations import Delete, Emit, Patch
from pumice.controllers.timelimit.plan import View, plan

T0 = instant.parse_instant("2026-03-28T12:00:00Z")
STEPS = 60


class World:
    """A group and its pods as JSON, to which plans are applied as a server would."""

    def __init__(self, chance):
        self.chance = chance
        self.now = T0
        self.minimum = chance.randint(1, 4)
        self.pods = {}
        self.events = []
        self.group = {
            "metadata": {"name": "g", "namespace": "team", "uid": "u", "creationTimestamp": instant.format_instant(T0)},
            "spec": {"minMember": self.minimum},
            "status": {"conditions": []},
        }
        self.group["metadata"]["annotations"] = {names.TIME_LIMIT: "10m", names.TIME_LIMIT_WARNING: "2m"}
        for _ in range(self.minimum + chance.randint(0, 2)):
            self.create()

    def create(self):
        name = f"p{len(self.pods)}"
        signal = {names.TIME_LIMIT_SIGNAL: "SIGUSR1"} if self.chance.random() < 0.5 else {}
        metadata = {"name": name, "namespace": "team", "uid": name, "annotations": signal}
        metadata["creationTimestamp"] = instant.format_instant(self.now)
        self.pods[name] = {"metadata": metadata, "status": {"phase": "Pending"}}

    def view(self):
        return View(
            decoding.decode_value(PodGroup, self.group),
            [decoding.decode_value(Pod, each) for each in self.pods.values()],
        )

    def happen(self):
        """Time passes, and something happens to somebody."""
        self.now += self.chance.choice([1, 30, 60, 200]) * instant.SECOND
        name = self.chance.choice(list(self.pods) or [""])
        match self.chance.randrange(8):
            case 0 | 1 | 2:
                for pod in self.pods.values():
                    if self.chance.random() < 0.8 and pod["status"]["phase"] == "Pending":
                        pod["status"] = {"phase": "Running", "startTime": instant.format_instant(self.now)}
            case 3 if name and self.pods[name]["status"]["phase"] == "Running":
                self.pods[name]["status"]["phase"] = self.chance.choice(["Succeeded", "Failed"])
            case 4 if name:
                del self.pods[name]
            case 5:
                self.create()
            case 6:
                self.group["metadata"]["annotations"][names.TIME_LIMIT] = self.chance.choice(["5m", "10m", "30m"])
            case 7 if self.chance.random() < 0.3:
                self.pods.clear()

    def carry_out(self, made, dies_after):
        """The first operations of a plan; whoever carries it out may die in between."""
        for operation in list(made)[:dies_after]:
            match operation:
                case Patch(kind=kind, body=body) if kind is PodGroup:
                    _merge(self.group, body)
                case Patch(name=name, body=body):
                    _merge(self.pods[name], body)
                case Delete(name=name):
                    del self.pods[name]
                case Emit(reason=reason):
                    self.events.append((reason, run_of(self.group["metadata"]["annotations"]).started))


def _merge(target, body):
    for key, value in body.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def check(world, made):
    """A gang that is marked now has run for its time."""
    view = world.view()
    for operation in made:
        if isinstance(operation, Patch) and operation.kind is PodGroup and "metadata" in operation.body:
            text = operation.body["metadata"]["annotations"][names.RUN]
            run = json.loads(text) if text else {}
            if "ended" in run and run_of(view.group.metadata.annotations).ended != run["ended"]:
                limit = instant.parse_duration(view.group.metadata.annotations[names.TIME_LIMIT])
                assert world.now >= instant.parse_instant(run["started"]) + limit
                starts = [start_time(pod) for pod in view.pods]
                earliest = started_at(starts, 1)
                assert earliest is not None
                assert earliest + limit <= world.now, "no pod has run for so long"


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies in between"])
def test_any_story_of_a_limited_gang(dies):
    for _ in range(60):
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        world = World(chance)
        try:
            for _ in range(STEPS):
                world.happen()
                made = plan(world.view(), world.now)
                check(world, made)
                world.carry_out(made, chance.randint(0, 9) if dies else None)
                if dies:
                    world.carry_out(plan(world.view(), world.now), None)
                again = plan(world.view(), world.now)
                assert list(again) == [], "what is done is done"
                assert again.again_at is None or again.again_at > world.now
            ended = [started for reason, started in world.events if reason == "TimeLimitExceeded"]
            assert len(ended) == len(set(ended)), "no run ends twice"
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
