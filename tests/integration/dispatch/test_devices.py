"""Devices and volumes before binds, and what becomes of them when a bind comes to nothing; on the embedded server under virtual time."""

import asyncio
import random

import pytest
from tests.integration.dispatch.network import LATE, LOST, NEVER_SENT, Network, calls_to, status

from pumice import instant
from pumice.api import names
from pumice.api.changes import BindFailed, Deleted, Upserted
from pumice.api.core import Node, PersistentVolume, PersistentVolumeClaim
from pumice.api.pods import Pod
from pumice.api.resource import ResourceClaim
from pumice.clock import VirtualClock
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.dispatch import takeover
from pumice.dispatch.binder import Binder
from pumice.dispatch.preparations import PREPARED_S_MAX
from pumice.kube.client import Client
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.runtime import Runtime
from pumice.scheduling.core.decisions import Bind, DeviceChoice, GangCommit, VolumeChoice

NOON = instant.parse_instant("2026-01-31T12:00:00Z")


def card(number):
    """An allocation of one card of n1."""
    result = {"request": "one", "driver": "cards", "pool": "n1", "device": f"card-{number}"}
    return {"devices": {"results": [result]}}


class Place:
    """A server with two nodes, a binder, and what the binder has learnt. Claims are named as the pods that they are for."""

    def __init__(self, client, clock, network):
        self.client, self.clock, self.network = client, clock, network
        self.runtime = Runtime(clock=clock, chance=random.Random(3), log=lambda event, **facts: None)
        self.cluster = Cluster(scheduler_names=frozenset({"volcano"}), default_queue="default")
        self.intake = Intake(self.cluster)
        self.failures = []
        self.held_when_told = []
        self.binder = Binder(client, self.cluster, self.learn, self.runtime)

    def learn(self, change):
        if isinstance(change, BindFailed):
            self.failures.append((change.pod.name, change.reason))
            self.held_when_told.append(self.known(change.pod.name))
        self.intake.apply(change)

    async def pods(self, *names_, claim=""):
        for name in names_:
            uses = [{"name": "cards", "resourceClaimName": claim or name}]
            spec = {
                "schedulerName": "volcano",
                "containers": [{"name": "c", "image": "i"}],
                "resourceClaims": uses,
            }
            made = await self.client.create(Pod, {"metadata": {"name": name}, "spec": spec}, namespace="default")
            self.intake.apply(Upserted(object=made.into(Pod)))

    async def claims(self, *names_):
        for name in names_:
            request = {"name": "one", "exactly": {"deviceClassName": "card"}}
            body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
            made = await self.client.create(ResourceClaim, body, namespace="default")
            self.intake.apply(Upserted(object=made.into(ResourceClaim)))

    def task(self, name):
        return next(task for task in self.cluster.tasks.values() if task.name == name)

    def commit(self, **firsts):
        """Bind these pods to n1, after what is named for each of them."""
        binds = tuple(Bind(self.task(name.replace("_", "-")), "n1", first=first) for name, first in firsts.items())
        made = GangCommit("default/g", binds, len(binds))
        return self.binder.commit(made, self.binder.assume(made))

    def known(self, claim):
        """Devices and users of a claim as the scheduler's state has them; None where it knows no such claim."""
        found = self.cluster.others[ResourceClaim].get(f"default/{claim}")
        return _held(found) if found is not None else None

    async def held(self, claim):
        """Devices and users of a claim as the server has them."""
        return _held((await self.client.get(ResourceClaim, claim, namespace="default")).into(ResourceClaim))

    async def nodes(self):
        listed = await self.client.list(Pod, namespace="default")
        return {pod.metadata.name: pod.spec.node_name for pod in listed.items}


def _held(claim):
    results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
    return [each.device for each in results], [each.name for each in claim.status.reserved_for]


NOTHING = ([], [])


def devices(claim, number):
    return (DeviceChoice(f"default/{claim}", card(number)),)


def play(body, *names_):
    """At a place with pods of these names, each with a claim of its own."""
    clock = VirtualClock(NOON)

    async def main():
        async with Server(Settings(now=clock.now, chance=random.Random(0))) as server:
            network = Network(LocalTransport(server))
            client = Client(network, clock=clock, chance=random.Random(1))
            for node in ("n1", "n2"):
                await client.create(Node, {"metadata": {"name": node}})
            place = Place(client, clock, network)
            await place.claims(*names_)
            await place.pods(*names_)
            await body(place)

    clock.run(main())


def writes_to(claim, *harms):
    """What becomes of the first writes of a claim's status."""
    return calls_to(f"/resourceclaims/{claim}/status", *harms, method="PUT")


def test_pods_are_bound_with_their_devices_and_the_state_knows_it_before_a_watch_does():
    async def body(place):
        await place.commit(a=devices("a", 0))
        assert await place.nodes() == {"a": "n1"}
        assert await place.held("a") == place.known("a") == (["card-0"], ["a"])

    play(body, "a")


# ------------------------------------------------------------------------------------------------- giving back


def test_a_bind_that_is_refused_gives_its_devices_back_before_the_gang_is_planned_again():
    async def body(place):
        place.network.harm = calls_to("/pods/a/binding")
        await place.commit(a=devices("a", 0), b=devices("b", 1))
        assert [name for name, _ in place.failures] == ["a"]
        assert place.held_when_told == [NOTHING]
        assert await place.held("a") == NOTHING
        assert await place.held("b") == (["card-1"], ["b"])  # who came to its node keeps what it has

    play(body, "a", "b")


def test_a_claim_that_another_member_uses_keeps_its_devices():
    async def body(place):
        await place.claims("both")
        await place.pods("a", "b", claim="both")
        place.network.harm = calls_to("/pods/a/binding")
        await place.commit(a=devices("both", 0), b=devices("both", 0))
        assert await place.nodes() == {"a": "", "b": "n1"}
        assert await place.held("both") == (["card-0"], ["b"])

    play(body)


@pytest.mark.parametrize("harm", [LOST, NEVER_SENT, status(500), status(429), status(409)])
def test_devices_are_given_back_however_often_that_goes_wrong(harm):
    async def body(place):
        refused = []

        def judge(request):
            if request.path.endswith("/binding"):
                return status(403)
            if request.method == "PUT" and b"card-0" not in request.body and len(refused) < 4:
                refused.append(request)
                return harm
            return None

        place.network.harm = judge
        await place.commit(a=devices("a", 0))
        assert refused
        assert place.held_when_told == [NOTHING]
        assert await place.held("a") == NOTHING

    play(body, "a")


def test_devices_that_nobody_may_give_back_do_not_keep_the_gang_from_being_tried_again():
    async def body(place):

        def judge(request):
            is_return = request.method == "PUT" and b"card-0" not in request.body
            return status(403) if is_return or request.path.endswith("/binding") else None

        place.network.harm = judge
        await place.commit(a=devices("a", 0))
        assert place.held_when_told == [(["card-0"], ["a"])]

    play(body, "a")


def test_a_claim_that_goes_with_its_pod_needs_no_giving_back_and_does_not_come_back():
    async def body(place):
        claim = place.cluster.others[ResourceClaim]["default/a"]

        def judge(request):
            if request.method == "PUT":
                place.intake.apply(Deleted(object=claim))  # the watch is faster than the answer

        place.network.harm = judge
        await place.commit(a=devices("a", 0))
        assert "default/a" not in place.cluster.others[ResourceClaim]

    play(body, "a")


# ------------------------------------------------------------------------------------------------- half done


def test_no_write_of_a_preparation_is_left_behind_when_another_fails():
    """A claim that got its card after the gang had been told that it has none: the card was given to the next claim, too."""

    async def body(place):
        arrived = asyncio.Event()

        async def slow(request):
            if request.method == "PUT" and request.path.endswith("/b/status"):
                await place.clock.sleep(5)
                arrived.set()
            return await call(request)

        call, place.network.call = place.network.call, slow
        place.network.harm = calls_to("/a", method="PATCH")
        await place.commit(a=devices("a", 0), b=devices("b", 1))
        assert arrived.is_set()
        assert place.held_when_told == [NOTHING, NOTHING]
        assert await place.held("b") == NOTHING

    play(body, "a", "b")


def test_a_write_without_an_answer_is_sent_again_until_it_is_known():
    async def body(place):
        place.network.harm = writes_to("a", LOST)
        await place.commit(a=devices("a", 0))
        assert place.failures == []
        assert await place.held("a") == (["card-0"], ["a"])

    play(body, "a")


def test_a_write_that_arrives_after_everything_was_given_back_is_void():
    async def body(place):
        refused, late = calls_to("/binding"), writes_to("a", LATE)
        place.network.harm = lambda request: refused(request) or late(request)
        await place.commit(a=devices("a", 0))
        assert len(place.failures) == 1
        assert await place.network.arrive() == [409]
        assert await place.held("a") == NOTHING

    play(body, "a")


def test_while_a_write_may_arrive_a_refusal_is_no_answer():
    async def body(place):
        place.network.harm = writes_to("a", LATE, status(403), status(409))
        await place.commit(a=devices("a", 0))
        assert place.failures == []
        assert await place.network.arrive() == [409]
        assert await place.held("a") == (["card-0"], ["a"])

    play(body, "a")


def test_a_pod_is_not_bound_where_its_claim_has_lost_its_devices():
    async def body(place):
        await place.commit(a=(DeviceChoice("default/a", None),))
        assert await place.nodes() == {"a": ""}
        assert await place.held("a") == NOTHING

    play(body, "a")


def test_many_pods_that_share_a_claim_do_not_get_in_one_anothers_way():
    async def body(place):
        await place.claims("all")
        pods = [f"p{number}" for number in range(20)]
        await place.pods(*pods, claim="all")
        await place.commit(**{name: devices("all", 0) for name in pods})
        assert place.failures == []
        assert await place.held("all") == (["card-0"], pods)

    play(body)


# ------------------------------------------------------------------------------------------------- a new leader


async def take_over(place):
    since = await takeover.version_now(place.client)
    await takeover.void_former_binds(place.client, place.cluster, place.learn, place.runtime, since=since)


def test_devices_that_a_former_leader_writes_too_late_are_given_to_nobody():
    async def body(place):
        place.network.harm = writes_to("a", *[LATE] * 9)
        former = asyncio.create_task(place.commit(a=devices("a", 0)))
        await place.clock.sleep(1)
        former.cancel()
        await asyncio.wait({former})
        place.intake = Intake(place.cluster)  # the new one has heard of no attempt
        place.intake.apply(Upserted(object=place.task("a").pod))
        place.network.harm = lambda request: None
        await take_over(place)
        assert set(await place.network.arrive()) == {409}
        assert await place.held("a") == NOTHING

    play(body, "a")


def test_devices_that_a_former_leader_had_written_are_given_back_if_their_pod_is_on_no_node():
    async def body(place):
        await place.claims("a", "b", "both")
        await place.pods("a", "b")
        await place.pods("c", "d", claim="both")
        await place.commit(b=devices("b", 1), d=devices("both", 2))
        for name in ("a", "c"):  # what it had written when it died
            claim = "a" if name == "a" else "both"
            await place.binder._preparations._devices.reserve(
                *devices(claim, 0 if name == "a" else 2), place.task(name)
            )
        await take_over(place)
        assert await place.held("a") == place.known("a") == NOTHING
        assert await place.held("b") == (["card-1"], ["b"])
        assert await place.held("both") == (["card-2"], ["d"])

    play(body)


@pytest.mark.parametrize("subresource", ["/status", ""])
def test_a_conflict_over_a_pod_or_claim_that_is_still_there_does_not_mean_that_it_is_gone(subresource):
    async def body(place):
        which = f"/pods/a{subresource}" if subresource else "/resourceclaims/a"
        place.network.harm = calls_to(which, status(409), status(409), method="PATCH")
        await take_over(place)
        for kind in (Pod, ResourceClaim):
            marked = (await place.client.get(kind, "a", namespace="default")).json()["metadata"]["annotations"]
            assert names.LEADER in marked

    play(body, "a")


def test_a_pod_that_another_has_the_name_of_is_passed_over():
    async def body(place):
        await place.client.delete(Pod, "a", namespace="default", grace_s=0)
        other = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await place.client.create(Pod, other, namespace="default")
        await take_over(place)
        marked = (await place.client.get(Pod, "a", namespace="default")).into(Pod).metadata.annotations
        assert names.LEADER not in marked

    play(body, "a")


# ------------------------------------------------------------------------------------------------- volumes


async def a_claim_for_a_disk(place):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await place.client.create(PersistentVolumeClaim, {"metadata": {"name": "data"}, "spec": spec}, namespace="default")


async def disk_of(place):
    found = (await place.client.get(PersistentVolumeClaim, "data", namespace="default")).into(PersistentVolumeClaim)
    return found.spec.volume_name, found.metadata.annotations.get(names.SELECTED_NODE)


async def bind_disk(place, volume):
    await place.client.patch(PersistentVolumeClaim, "data", {"spec": {"volumeName": volume}}, namespace="default")
    bound = {"status": {"phase": "Bound"}}
    await place.client.patch(PersistentVolumeClaim, "data", bound, namespace="default", subresource="status")


async def bind_disk_meanwhile(place, **firsts):
    """While these pods wait for it."""
    committing = asyncio.create_task(place.commit(**firsts))
    await place.clock.sleep(1)
    await bind_disk(place, "pv-1")
    await committing


NEW_ON_N1 = (VolumeChoice("default/data", "", "n1"),)


def test_a_volume_that_nobody_makes_in_time_may_be_made_near_another_node():
    async def body(place):
        await a_claim_for_a_disk(place)
        committing = asyncio.create_task(place.commit(a=NEW_ON_N1))
        await place.clock.sleep(PREPARED_S_MAX - 1)
        assert await disk_of(place) == ("", "n1")
        await committing
        assert await disk_of(place) == ("", None)
        assert [name for name, _ in place.failures] == ["a"]

    play(body, "a")


def test_a_volume_that_was_made_stays_where_it_is_when_the_bind_fails():
    async def body(place):
        await a_claim_for_a_disk(place)
        place.network.harm = calls_to("/binding")
        await bind_disk_meanwhile(place, a=NEW_ON_N1)
        assert await disk_of(place) == ("pv-1", "n1")
        assert [name for name, _ in place.failures] == ["a"]

    play(body, "a")


def test_a_claim_that_got_another_volume_than_was_chosen_does_not_bring_its_pod_to_the_wrong_node():
    async def body(place):
        await a_claim_for_a_disk(place)
        await bind_disk(place, "pv-of-n2")
        await place.commit(a=(VolumeChoice("default/data", "pv-of-n1", "n1"),))
        assert await place.nodes() == {"a": ""}

    play(body, "a")


def test_pods_that_share_a_claim_promise_its_volume_once():
    async def body(place):
        await a_claim_for_a_disk(place)
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "d", "volumeHandle": "h"},
        }
        await place.client.create(PersistentVolume, {"metadata": {"name": "pv-1"}, "spec": spec})
        promised = (VolumeChoice("default/data", "pv-1", "n1"),)
        await bind_disk_meanwhile(place, a=promised, b=promised)
        assert await place.nodes() == {"a": "n1", "b": "n1"}
        assert place.network.calls.count(("PATCH", "/api/v1/persistentvolumes/pv-1")) == 1

    play(body, "a", "b")
