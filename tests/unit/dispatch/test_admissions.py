"""A gang that one cycle has admitted counts as admitted in the next, also where no watch has shown its new phase yet.

The order is forced: a second cycle is planned after the first was carried out and before any of its writes can leave.
"""

import contextlib
import random

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    an_object,
    flat,
    policy,
)

from pumice import sdk
from pumice.api.changes import Admitted, Upserted
from pumice.clock import RealClock
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.dispatch.dispatcher import Dispatcher
from pumice.kube.client import Client
from pumice.kube.recorder import Recorder
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.runtime import Runtime
from pumice.scheduling.core import builtin, cycle


class Counting(sdk.Plugin):
    """Tells of whom it was told."""

    told: list[str] = []  # noqa: RUF012  of one test, which empties it

    def open(self, session):
        session.on.enqueued(lambda gang: self.told.append(gang.spec.name))


COUNTED = builtin.parse(
    "actions: 'enqueue, allocate'\ntiers: [{plugins: [{name: gang}, {name: counting}]}]",
    "test",
    extra={"counting": Counting},
)


class House:
    """A cluster and its dispatcher, whose writes are not let out."""

    def __init__(self, dispatcher, intake, chosen):
        self.dispatcher = dispatcher
        self.intake = intake
        self.policy = chosen

    def see(self, *things):
        for thing in flat(things):
            self.intake.apply(Upserted(thing))

    def cycle(self):
        snapshot = self.intake.cluster.snapshot()
        decisions = cycle.plan(snapshot, self.policy, now=NOW, extra_plugins={"counting": Counting})
        self.dispatcher.carry_out(decisions)
        return {key.partition("/")[2]: each.phase for key, each in decisions.gangs.items()}


@contextlib.asynccontextmanager
async def a_house(chosen, *things):
    Counting.told = []
    cluster = Cluster()
    intake = Intake(cluster)
    clock, chance = RealClock(), random.Random(0)
    async with Server(Settings(chance=chance)) as server:
        client = Client(LocalTransport(server), clock=clock, chance=chance)
        recorder = Recorder(client, component="test", clock=clock)
        dispatcher = Dispatcher(client, cluster, intake.apply, recorder, Runtime(clock=clock, chance=chance))
        house = House(dispatcher, intake, chosen)
        house.see(things)
        try:
            yield house
        finally:
            await dispatcher.stop()


def waiting(name, *, phase="Pending", **group):
    return a_group(name, 1, phase=phase, minimum={"cpu": "3"}, **group)


@pytest.mark.parametrize("phase", ["", "Pending"])
async def test_plugins_are_told_once_of_a_gang_that_was_admitted(phase):
    gang = waiting("g", phase=phase), a_pod("p", gang="g", cpu="3")
    async with a_house(COUNTED, a_queue(), a_node(), *gang) as house:
        assert house.cycle() == {"g": "Inqueue"}
        house.see(a_pod("p", gang="g", cpu="3", node="n1"))  # the bind is seen before the group's phase
        assert house.cycle() == {"g": "Running"}
        house.see(waiting("g", annotations={"note": "somebody writes this before the scheduler's word arrives"}))
        assert house.cycle() == {"g": "Running"}
    assert Counting.told == ["g"]


async def test_a_gang_that_was_admitted_and_is_reported_as_running_at_once_is_told_of_once():
    gang = waiting("g"), a_pod("p", gang="g", cpu="3", node="n1")
    async with a_house(COUNTED, a_queue(), a_node(), *gang) as house:
        assert [house.cycle(), house.cycle()] == [{"g": "Running"}] * 2
    assert Counting.told == ["g"]


async def test_a_group_that_is_made_anew_is_admitted_for_itself():
    async with a_house(COUNTED, a_queue(), a_node(), waiting("g", uid="one")) as house:
        house.cycle()
        house.see(waiting("g", uid="two"))
        assert house.cycle() == {"g": "Inqueue"}
    assert Counting.told == ["g", "g"]


async def test_a_group_whose_phase_goes_back_to_pending_is_admitted_anew():
    async with a_house(COUNTED, a_queue(), a_node(), waiting("g")) as house:
        house.cycle()
        house.see(waiting("g", phase="Inqueue"), waiting("g", phase="Pending"))
        assert house.cycle() == {"g": "Inqueue"}
    assert Counting.told == ["g", "g"]


async def test_an_admission_that_was_decided_about_a_group_that_is_gone_admits_nobody():
    async with a_house(COUNTED, a_queue(), a_node(), waiting("g", uid="two")) as house:
        house.intake.apply(Admitted(gang="default/g", uid="one"))
        house.intake.apply(Admitted(gang="default/nobody", uid="one"))
        assert house.cycle() == {"g": "Inqueue"}
    assert Counting.told == ["g"]


def a_quota(hard):
    manifest = {"metadata": {"name": "team", "namespace": "default", "uid": "team"}, "status": {"hard": hard}}
    return an_object("v1", "ResourceQuota", manifest)


def a_claim(name):
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}]
    manifest = {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": requests}}}
    return an_object("resource.k8s.io/v1", "ResourceClaim", manifest)


def with_claim(name):
    claims = [{"name": "d", "resourceClaimName": name}]
    return a_claim(name), a_pod(f"p-{name}", gang=name, spec={"resourceClaims": claims})


ROOM_FOR_ONE = {
    "overcommit": [a_queue()],
    "resourcequota": [a_queue(), a_quota({"cpu": "5"})],
    "proportion": [a_queue(capability={"cpu": "5"})],
    "capacity": [a_queue(capability={"cpu": "5"})],
    "capacity of devices": [
        a_queue(capability={"deviceclass/gpu": "1"}),
        a_node("n2", cpu="64"),
        *with_claim("early"),
        *with_claim("urgent"),
    ],
}


@pytest.mark.parametrize("rule", ROOM_FOR_ONE)
async def test_room_that_is_promised_to_one_gang_is_not_promised_to_a_more_urgent_one_that_comes_next(rule):
    chosen = policy("enqueue", f"priority {rule.split()[0]}")
    known = a_node(cpu="4"), a_priority_class("high", 10), ROOM_FOR_ONE[rule]
    async with a_house(chosen, *known, waiting("early")) as house:
        assert house.cycle() == {"early": "Inqueue"}
        house.see(waiting("urgent", priority_class="high"))
        assert house.cycle() == {"early": "Inqueue", "urgent": "Pending"}
        house.see(waiting("early", phase="Inqueue"))
        assert house.cycle() == {"early": "Inqueue", "urgent": "Pending"}
