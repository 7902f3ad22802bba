"""Pods that have to go, on the embedded server under virtual time: evicted, deleted where that is configured, or released."""

import json
import random

import msgspec
import pytest

from pumice import instant
from pumice.api import disruptions, kinds
from pumice.api.changes import Evicting, Forgotten, Unclaimed, Upserted
from pumice.api.core import Node
from pumice.api.events import CoreEvent
from pumice.api.pods import Pod
from pumice.api.policy import PodDisruptionBudget
from pumice.clock import VirtualClock
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.cluster.tasks import Status
from pumice.dispatch.dispatcher import Dispatcher
from pumice.dispatch.evictor import REFUSED_S, EvictionSettings
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.recorder import Recorder
from pumice.kube.transport import Response
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.runtime import Runtime
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.decisions import Decisions, Evict, Notice, Release
from pumice.scheduling.core.verdict import Cause

NOON = instant.parse_instant("2026-01-31T12:00:00Z")
COST = Cause(Code.VICTIM_BREAKS_GANG, Facts(gang="default/g", free=1, wanted=2))
INCOMPLETE = Cause(Code.RELEASED_INCOMPLETE, Facts(gang="default/g", free=1, wanted=3, seconds=9))
DELETING = EvictionSettings(patience_s=30.0, delete_then=True)


class Shielded:
    """A transport whose answers a test may replace, by `answer(request)`; None: the server's own."""

    def __init__(self, inner):
        self.inner = inner
        self.answer = lambda request: None
        self.calls = []

    async def call(self, request):
        self.calls.append(f"{request.method} {request.path.rpartition('/pods/')[2]}")
        return self.answer(request) or await self.inner.call(request)

    async def close(self):
        await self.inner.close()


class Place:
    """A server with pod `victim` on node n1, a dispatcher, and what it has learnt."""

    def __init__(self, client, clock, transport, eviction_settings):
        self.client = client
        self.clock = clock
        self.transport = transport
        self.learnt = []
        self.said = []
        runtime = Runtime(clock=clock, chance=random.Random(3), log=lambda event, **facts: self.said.append(event))
        self.cluster = Cluster()
        self.intake = Intake(self.cluster)
        recorder = self.recorder = Recorder(client, component="test", clock=clock)
        self.dispatcher = Dispatcher(
            client, self.cluster, self.learn, recorder, runtime, eviction_settings=eviction_settings
        )

    def learn(self, change):
        self.learnt.append(change)
        self.intake.apply(change)

    async def pod(self, name):
        spec = {"schedulerName": "volcano", "nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
        metadata = {"name": name, "labels": {"app": "web"}}
        made = await self.client.create(Pod, {"metadata": metadata, "spec": spec}, namespace="default")
        self.intake.apply(Upserted(object=made.into(Pod)))

    async def forbid(self):
        """A budget that allows nobody to go."""
        spec = {"minAvailable": 9, "selector": {"matchLabels": {"app": "web"}}}
        await self.client.create(PodDisruptionBudget, {"metadata": {"name": "web"}, "spec": spec}, namespace="default")

    def task(self, name):
        return next(task for task in self.cluster.tasks.values() if task.name == name)

    async def carry_out(self, **decisions):
        self.dispatcher.carry_out(Decisions(**decisions))
        await self.dispatcher.settle()

    async def evict(self, name="victim"):
        await self.carry_out(evictions=(Evict(self.task(name), "preempt", "default/boss", COST),))

    async def is_there(self, name="victim"):
        """Whether nobody has asked the pod to go."""
        try:
            found = (await self.client.get(Pod, name, namespace="default")).into(Pod)
        except errors.NotFound:
            return False
        return found.metadata.deletion_timestamp is None

    def outcomes(self):
        return [type(change) for change in self.learnt]


def play(body, eviction_settings=None):
    clock = VirtualClock(NOON)

    async def main():
        async with Server(Settings(now=clock.now, chance=random.Random(0))) as server:
            transport = Shielded(LocalTransport(server))
            client = Client(transport, clock=clock, chance=random.Random(1))
            await client.create(Node, {"metadata": {"name": "n1"}})
            place = Place(client, clock, transport, eviction_settings)
            await place.pod("victim")
            await body(place)

    clock.run(main())


def test_a_victim_is_evicted_and_its_room_is_on_its_way_out_before_the_first_call():
    async def body(place):
        place.dispatcher.carry_out(Decisions(evictions=(Evict(place.task("victim"), "preempt", "", COST),)))
        assert place.task("victim").status is Status.RELEASING
        await place.dispatcher.settle()
        assert place.transport.calls[-1] == "POST victim/eviction"
        assert not await place.is_there()

    play(body)


def test_nothing_that_the_api_server_stores_names_a_claimant_of_another_namespace():
    """Neither in the pod's condition and annotation nor in an event, whether it is told before or only evicted (docs/adr/0040)."""
    gets = disruptions.Party("rival/secret", "secret", "prod", "secret-user", 1000, uid="u-1")

    async def body(place):
        task = place.task("victim")
        story = disruptions.Story("reclaim", COST.code.value, COST.text, claimant=gets)
        about = disruptions.Notice("2026-01-31T12:00:00Z", "2026-01-31T12:01:00Z", story)
        stored = []
        for decided in (
            {"notices": (Notice(task, about),)},
            {"evictions": (Evict(task, "reclaim", "rival/secret", COST, story, after_notice=True),)},
        ):
            await place.carry_out(**decided)
            await place.recorder.write(everything=True)
            stored += [
                await place.client.list_json(kinds.by_struct(kind), namespace="default") for kind in (Pod, CoreEvent)
            ]
        told, evicted, events = json.dumps(stored[0]), json.dumps(stored[2]), json.dumps(stored[3])
        assert "secret" not in told + evicted + events
        for text in (told, evicted):
            assert "reclaim for a gang of others (queue prod, priority 1000)" in text
            assert "u-1" in text, "whoever may list its group finds it"
        assert {each["reason"] for each in stored[3]} == {"EvictionNotice", "Evict"}

    play(body)


def test_a_budget_is_asked_until_it_allows_the_eviction():
    async def body(place):
        await place.forbid()
        place.dispatcher.carry_out(Decisions(evictions=(Evict(place.task("victim"), "preempt", "", COST),)))
        await place.clock.sleep(5)
        assert await place.is_there()
        await place.client.delete(PodDisruptionBudget, "web", namespace="default")
        await place.dispatcher.settle()
        assert not await place.is_there()
        assert place.outcomes() == [Evicting]

    play(body)


@pytest.mark.parametrize("loses", ["the call", "the answer"])
def test_an_eviction_that_nobody_has_answered_is_asked_for_until_somebody_does(loses):
    """Until then the victim is on its way out, and nobody else is evicted in its place."""

    async def body(place):
        times = 0

        async def cut(request):
            nonlocal times
            if request.path.endswith("/eviction") and times < 3:
                times += 1
                if loses == "the answer":
                    await place.transport.inner.call(request)
                raise errors.Unreachable("cut off", acted=True)
            return await place.transport.inner.call(request)

        place.transport.call = cut
        await place.evict()
        assert not await place.is_there()
        assert place.outcomes() == [Evicting]

    play(body)


def test_a_victim_whose_budget_refuses_for_too_long_stays_and_the_claim_ends():
    async def body(place):
        await place.forbid()
        await place.evict()
        assert await place.is_there()
        assert place.outcomes() == [Evicting, Forgotten, Unclaimed]
        assert "Cannot evict pod" in place.learnt[-2].reason
        assert place.learnt[-1].gang == "default/boss"
        assert place.task("victim").status is Status.BOUND
        assert 10 <= place.clock.monotonic() <= 10 + REFUSED_S + 1

    play(body)


def test_where_that_is_configured_such_a_victim_is_deleted():
    async def body(place):
        await place.forbid()
        await place.evict()
        assert not await place.is_there()
        assert place.outcomes() == [Evicting]
        assert "pod_deleted_instead" in place.said
        assert 30 <= place.clock.monotonic() <= 31

    play(body, DELETING)


def no_evictions(code):
    """A server without the subresource, as such servers answer: of the path they know nothing."""
    bodies = {404: b"404 page not found\n", 405: b'{"kind":"Status","reason":"MethodNotAllowed","code":405}'}
    return lambda request: Response(code, {}, bodies[code]) if request.path.endswith("/eviction") else None


@pytest.mark.parametrize("code", [404, 405])
def test_a_server_without_evictions_is_no_pod_that_left_by_itself(code):
    async def body(place):
        place.transport.answer = no_evictions(code)
        await place.evict()
        assert await place.is_there()
        assert place.outcomes() == [Evicting, Forgotten, Unclaimed]

    play(body)


@pytest.mark.parametrize("code", [404, 405])
def test_on_a_server_without_evictions_victims_are_deleted_at_once_where_that_is_configured(code):
    async def body(place):
        place.transport.answer = no_evictions(code)
        await place.evict()
        assert not await place.is_there()
        assert place.clock.monotonic() == 0.0

    play(body, DELETING)


@pytest.mark.parametrize("eviction_settings", [None, DELETING])
def test_what_somebody_is_not_allowed_to_do_is_not_done_by_other_means(eviction_settings):
    async def body(place):
        refusal = b'{"kind":"Status","reason":"Forbidden","code":403,"details":{"name":"victim","kind":"pods"}}'
        place.transport.answer = lambda request: (
            Response(403, {}, refusal) if request.path.endswith("/eviction") else None
        )
        await place.evict()
        assert await place.is_there()
        assert place.outcomes() == [Evicting, Forgotten, Unclaimed]

    play(body, eviction_settings)


def test_a_successor_of_the_same_name_is_not_deleted():
    async def body(place):
        await place.forbid()
        place.dispatcher.carry_out(Decisions(evictions=(Evict(place.task("victim"), "preempt", "", COST),)))
        await place.clock.sleep(5)
        await place.client.delete(Pod, "victim", namespace="default", grace_s=0)
        await place.pod("victim")
        await place.dispatcher.settle()
        assert await place.is_there()

    play(body, DELETING)


@pytest.mark.parametrize("eviction_settings", [None, DELETING])
def test_a_victim_that_left_by_itself_is_nobodys_failure(eviction_settings):
    async def body(place):
        task = place.task("victim")
        await place.client.delete(Pod, "victim", namespace="default", grace_s=0)
        await place.carry_out(evictions=(Evict(task, "preempt", "", COST),))
        assert place.outcomes() == [Evicting]
        assert "eviction_failed" not in place.said

    play(body, eviction_settings)


# ------------------------------------------------------------------------------------------------------ releases


def test_released_members_are_on_their_way_out_at_once_and_say_why():
    async def body(place):
        await place.pod("mate")
        tasks = (place.task("victim"), place.task("mate"))
        place.dispatcher.carry_out(Decisions(releases=(Release("default/g", tasks, INCOMPLETE),)))
        assert {place.task(name).status for name in ("victim", "mate")} == {Status.RELEASING}
        await place.clock.sleep(0)
        await place.dispatcher.settle()
        pod = (await place.client.get(Pod, "mate", namespace="default")).json()
        target = next(each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget")
        assert (target["reason"], target["message"]) == (
            "GangReleased",
            "1 of 3 members were bound, 2 found no room within 9 s",
        )
        assert not await place.is_there()
        assert not await place.is_there("mate")
        assert place.outcomes() == [Evicting, Evicting]

    play(body)


def test_a_member_that_the_server_keeps_is_bound_again_after_a_while():
    async def body(place):
        await place.pod("mate")
        place.transport.answer = lambda request: (
            Response(403, {}, b"no") if (request.method, request.path[-6:]) == ("DELETE", "victim") else None
        )
        tasks = (place.task("victim"), place.task("mate"))
        await place.carry_out(releases=(Release("default/g", tasks, INCOMPLETE),))
        assert (await place.is_there(), await place.is_there("mate")) == (True, False)
        assert place.task("victim").status is Status.BOUND
        assert place.clock.monotonic() == REFUSED_S

    play(body)


# ------------------------------------------------------------------------------------------------- notice

STORY = disruptions.Story("preempt", claimant=disruptions.Party(gang="default/boss"))
TOLD = disruptions.Notice("2026-01-31T12:00:00Z", "2026-01-31T12:02:00Z", STORY)


async def seen(place):
    """What the scheduler's watch brings."""
    found = (await place.client.get(Pod, "victim", namespace="default")).into(Pod)
    place.intake.apply(Upserted(object=found))
    return found


def test_a_pod_is_told_and_its_room_is_on_its_way_out_and_both_are_taken_back():
    async def body(place):
        task = place.task("victim")
        await place.carry_out(notices=(Notice(task, TOLD),))
        assert place.outcomes() == [Evicting]
        found = await seen(place)
        assert disruptions.notice_of(found) == TOLD
        assert {each.type: each.status for each in found.status.conditions}[disruptions.NOTICE] == "True"
        assert place.task("victim").status is Status.RELEASING
        await place.carry_out(withdrawn=(place.task("victim"),))
        found = await seen(place)
        assert disruptions.notice_of(found) is None
        assert {each.type: each.status for each in found.status.conditions}[disruptions.NOTICE] == "False"
        assert place.task("victim").status is Status.BOUND
        assert await place.is_there()

    play(body)


def test_a_member_that_stays_is_told_and_keeps_its_room():
    async def body(place):
        stays = msgspec.structs.replace(TOLD, leaves=False)
        await place.carry_out(notices=(Notice(place.task("victim"), stays),))
        assert place.outcomes() == []
        assert disruptions.notice_of(await seen(place)) == stays
        assert place.task("victim").status is Status.BOUND

    play(body)


def test_a_pod_that_cannot_be_told_stays_and_the_claim_ends():
    async def body(place):
        refusal = b'{"kind":"Status","reason":"Forbidden","code":403}'
        place.transport.answer = lambda request: Response(403, {}, refusal) if request.method == "PATCH" else None
        await place.carry_out(notices=(Notice(place.task("victim"), TOLD),))
        assert place.outcomes() == [Evicting, Forgotten, Unclaimed]
        assert place.task("victim").status is Status.BOUND

    play(body)


def test_one_whose_time_is_over_is_evicted_once_however_often_that_is_decided():
    async def body(place):
        await place.forbid()
        await place.carry_out(notices=(Notice(place.task("victim"), TOLD),))
        await seen(place)
        due = Evict(place.task("victim"), "preempt", "default/boss", COST, STORY, after_notice=True)
        for _ in range(3):
            place.dispatcher.carry_out(Decisions(evictions=(due,), withdrawn=(place.task("victim"),)))
            await place.clock.sleep(1)
        await place.client.delete(PodDisruptionBudget, "web", namespace="default")
        await place.dispatcher.settle()
        assert not await place.is_there()
        asked = [call for call in place.transport.calls if call == "POST victim/eviction"]
        assert len(asked) < 6, asked  # one asks again every two seconds
        place.dispatcher.carry_out(Decisions(evictions=(due,)))
        await place.dispatcher.settle()
        assert place.transport.calls.count("POST victim/eviction") == len(asked)

    play(body)
