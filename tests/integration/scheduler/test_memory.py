"""What a scheduler remembers beyond its own life, and when an idle one plans; under virtual time, on the embedded server."""

import asyncio
import contextlib
import random
from typing import ClassVar

import msgspec
import pytest
from tests.bodies.beside import beside
from tests.bodies.inline import Inline

from pumice import instant, sdk
from pumice.api import kinds
from pumice.api.core import ConfigMap, Node
from pumice.api.events import CoreEvent
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.clock import VirtualClock
from pumice.dispatch.memory_store import KEY, MemoryPlace, MemoryStore
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.kube.lease import NotLeading
from pumice.kube.recorder import Recorder
from pumice.kube.transport import Request, Response
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.up import CRDS, install_kinds
from pumice.processes import scheduler as processes
from pumice.processes.scheduler import Scheduler, Served
from pumice.runtime import Runtime
from pumice.scheduling.core import builtin, memory
from pumice.scheduling.core.build_decisions import OWN_MEMORY
from pumice.scheduling.core.memory import Memory, Slot
from pumice.scheduling.evicting import backoff

NOON = instant.parse_instant("2026-01-15T12:00:00Z")
PLACE = MemoryPlace("kube-system", "pumice-scheduler")
MINUTE_S, HOUR_S = 60, 3600


class Counting:
    """A transport that counts what is done to ConfigMaps; refuses it where `refuses` is set, and denies what was done where `denies` is."""

    def __init__(self, inner):
        self.inner = inner
        self.refuses = False
        self.denies = False
        self.calls = []

    async def call(self, request):
        if "/configmaps" in request.path:
            self.calls.append(request.method)
            if self.refuses:
                refusal = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"}
                return Response(403, {}, msgspec.json.encode(refusal))
            if self.denies:
                await self.inner.call(request)
                return Response(500, {}, b"{}")
        return await self.inner.call(request)

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Stage:
    """An embedded server under virtual time, on which schedulers come and go."""

    def __init__(self, server, clock):
        self.clock = clock
        self.transport = Counting(LocalTransport(server))
        self.client = Client(self.transport, clock=clock, chance=random.Random(1))
        self.lines = []

    def log(self, event, /, **facts):
        self.lines.append((event, facts))

    def logged(self, event):
        return [facts for name, facts in self.lines if name == event]

    @contextlib.asynccontextmanager
    async def scheduler(self, policy, **plugins):
        """One life of a scheduler: it has planned when this is entered, and has ended in good order after it."""
        informers = Informers(self.client, clock=self.clock, chance=random.Random(1))
        runtime = Runtime(clock=self.clock, chance=random.Random(1), log=self.log)
        policy = policy if callable(policy) else (lambda chosen=policy: chosen)
        worker = Scheduler(self.client, informers, policy, runtime, Served(memory_place=PLACE, extra_plugins=plugins))
        worker._thread = Inline()
        async with beside(informers.run(), worker.run()):
            await self.clock.sleep(5)
            assert worker.cycles
            yield worker

    def store(self, guard=lambda: None):
        runtime = Runtime(clock=self.clock, chance=random.Random(1), log=self.log, guard=guard)
        recorder = Recorder(self.client, component="test", clock=self.clock)
        return MemoryStore(self.client, recorder, runtime, PLACE)

    async def written(self, slot):
        """What stands in the cluster; None where nothing does."""
        found = await self.client.list_json(kinds.by_struct(ConfigMap), namespace=PLACE.namespace)
        data = [each["data"][KEY] for each in found if each["metadata"]["name"] == PLACE.name(slot.name)]
        return slot.decode(data[0]) if data else None

    async def write(self, slot, data):
        body = {"metadata": {"name": PLACE.name(slot.name)}, "data": {KEY: data}}
        await self.client.create(ConfigMap, body, namespace=PLACE.namespace)

    async def node(self, name, cpu="4", **labels):
        room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        body = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room, "capacity": room}}
        await self.client.create(Node, body)
        await self.client.patch(Node, name, {"status": body["status"]}, subresource="status")

    async def gang(self, name, size, *, node="", cpu="1", **annotations):
        group = {"metadata": {"name": name, "annotations": annotations}, "spec": {"minMember": 1}}
        await self.client.create(PodGroup, group, namespace="default")
        for number in range(size):
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
            spec = {"schedulerName": "volcano", "nodeName": node, "containers": [container]}
            notes = {"scheduling.k8s.io/group-name": name, **annotations}
            body = {"metadata": {"name": f"{name}-{number}", "annotations": notes}, "spec": spec}
            await self.client.create(Pod, body, namespace="default")
            if node:
                running = {"status": {"phase": "Running"}}
                await self.client.patch(Pod, f"{name}-{number}", running, namespace="default", subresource="status")

    async def leaving(self):
        """Pods that were evicted; they are taken away, as their node would."""
        found = await self.client.list_json(kinds.by_struct(Pod), namespace="default")
        names = [each["metadata"]["name"] for each in found if each["metadata"].get("deletionTimestamp")]
        for name in names:
            await self.client.delete(Pod, name, namespace="default", grace_s=0)
        return names


def play(story):
    """A story under virtual time; it gets a stage."""
    clock = VirtualClock(NOON)

    async def main():
        async with Server(Settings(now=clock.now, chance=random.Random(0))) as server:
            stage = Stage(server, clock)
            await install_kinds(stage.client)
            await story(stage)

    clock.run(main())


def policy(actions, *plugins):
    document = {"actions": actions, "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}, *plugins]}]}
    return builtin.parse(msgspec.json.encode(document), "test", extra={"licences": Licences})


class Licence(sdk.Object):
    KIND: ClassVar[sdk.ResourceKind] = sdk.ResourceKind("example.com", "v1", "Licence", "licences")

    seats: int = 0


SEATS = sdk.Metric("licence_seats", sdk.MetricKind.GAUGE, "Seats of all licences.", ("licence",))


class Licences(sdk.Plugin):
    """Of a package of its own, with a kind that Pumice has never heard of."""

    watches = (sdk.Watch(Licence, concerns=lambda was, now: (was and was.seats) != (now and now.seats)),)
    metrics = (SEATS,)

    def open(self, session):
        for key, licence in session.snapshot.objects(Licence).items():
            session.publish(SEATS, licence.seats, key)


NIGHT_SHIFT = {"tdm.revocable-zone.night": "22:00-06:00", "tdm.evict.period": "1h"}
TDM = {"name": "tdm", "arguments": NIGHT_SHIFT}


# --------------------------------------------------------------------------------------------- over a restart


def test_the_pause_between_evictions_of_tdm_outlives_the_scheduler():
    async def story(stage):
        chosen = policy("shuffle", TDM)
        await stage.node("n1", **{"volcano.sh/revocable-zone": "night"})
        await stage.gang("night-job", 3, node="n1", **{"volcano.sh/preemptable": "true"})
        async with stage.scheduler(chosen):
            assert len(await stage.leaving()) == 1
        async with stage.scheduler(chosen):
            await stage.clock.sleep(30 * MINUTE_S)
            assert await stage.leaving() == []
            await stage.clock.sleep(30 * MINUTE_S)
            assert len(await stage.leaving()) == 1

    play(story)


def test_back_offs_of_evictions_outlive_the_scheduler():
    async def story(stage):
        chosen = policy("enqueue, allocate, preempt", {"name": "priority"}, {"name": "conformance"})
        await stage.node("n1")
        await stage.gang("too-big", 1, cpu="64")
        for life in range(2):
            async with stage.scheduler(chosen):
                for number in range(12):  # news without a meaning for the gang
                    await stage.gang(f"done-{life}-{number}", 0)
                    await stage.clock.sleep(20)
            (known,) = (await stage.written(backoff.SLOT)).actions["preempt"].values()
            assert known.pause == backoff.PAUSE_MAX
            assert len(stage.logged("scheduler_started")) == life + 1
        async with stage.scheduler(chosen):
            pass
        (again,) = (await stage.written(backoff.SLOT)).actions["preempt"].values()
        assert again.pause == backoff.PAUSE_MAX, "it was tried with a first, short pause"

    play(story)


# --------------------------------------------------------------------------------------------- the store


class Notes(msgspec.Struct, frozen=True):
    number: int = 0


NOTES = Slot("notes", Notes, persistent=True)


def remembering(number):
    return Memory({"notes": Notes(number)})


def test_a_slot_is_written_once_a_minute_and_at_the_end_however_often_it_changes():
    async def story(stage):
        store = stage.store()
        await store.load([NOTES])
        writing = asyncio.create_task(store.run())
        stage.transport.calls.clear()
        for number in range(150):
            store.offer(remembering(number + 1))
            await stage.clock.sleep(1)
        assert stage.transport.calls == ["POST", "PUT", "PUT"]
        writing.cancel()
        await store.flush()
        assert stage.transport.calls == ["POST", "PUT", "PUT", "PUT"]
        assert await stage.written(NOTES) == Notes(150)

    play(story)


def test_what_did_not_change_and_what_need_not_be_kept_is_not_written():
    async def story(stage):
        store = stage.store()
        passing = Slot("passing", Notes)
        assert await store.load([NOTES, passing]) == {}
        for number in (5, 5):
            store.offer(Memory({"notes": Notes(number), "passing": Notes(7)}))
            await store.flush()
        assert stage.transport.calls == ["GET", "POST"]

    play(story)


def test_the_first_value_of_a_former_leader_that_arrives_late_is_not_taken_for_its_successors():
    async def story(stage):
        former, successor = stage.store(), stage.store()
        await former.load([NOTES])
        await successor.load([NOTES])
        successor.offer(remembering(0))  # a value as if nothing were known
        await successor.flush()
        former.offer(remembering(1))
        await former.flush()
        assert await stage.written(NOTES) == Notes(0)

    play(story)


def test_a_deposed_leader_does_not_overwrite_its_successors_memory():
    async def story(stage):
        former, successor = stage.store(), stage.store()
        for store, number in ((former, 1), (successor, 2)):
            await store.load([NOTES])
            store.offer(remembering(number))
            await store.flush()
        former.offer(remembering(3))
        await former.flush()
        assert await stage.written(NOTES) == Notes(2)
        assert len(stage.logged("memory_conflict")) == 1

    play(story)


def test_a_leader_whose_object_was_touched_or_deleted_writes_it_again():
    async def story(stage):
        store = stage.store()
        await store.load([NOTES])
        writing = asyncio.create_task(store.run())
        store.offer(remembering(1))
        await stage.clock.sleep(1)
        name = PLACE.name("notes")
        for number, spoil in ((2, stage.client.patch), (3, stage.client.delete)):
            if spoil == stage.client.patch:
                await stage.client.patch(ConfigMap, name, {"data": {KEY: "?"}}, namespace=PLACE.namespace)
            else:
                await stage.client.delete(ConfigMap, name, namespace=PLACE.namespace)
            store.offer(remembering(number))
            await stage.clock.sleep(3 * MINUTE_S)
            assert await stage.written(NOTES) == Notes(number)
        writing.cancel()

    play(story)


def test_a_value_that_comes_back_is_written_again_after_another_that_was_written_and_answered_with_an_error():
    async def story(stage):
        store = stage.store()
        await store.load([NOTES])
        writing = asyncio.create_task(store.run())
        store.offer(remembering(1))
        await stage.clock.sleep(1)
        stage.transport.denies = True
        store.offer(remembering(2))
        await stage.clock.sleep(MINUTE_S)
        assert stage.logged("memory_not_written")
        stage.transport.denies = False
        assert await stage.written(NOTES) == Notes(2)
        store.offer(remembering(1))
        await stage.clock.sleep(3 * MINUTE_S)
        assert await stage.written(NOTES) == Notes(1)
        writing.cancel()

    play(story)


def test_a_process_that_no_longer_leads_writes_nothing():
    async def story(stage):
        def guard():
            raise NotLeading("taken")

        store = stage.store(guard)
        await store.load([NOTES])
        store.offer(remembering(1))
        await store.flush()
        assert await stage.written(NOTES) is None
        assert [facts["error"] for facts in stage.logged("memory_not_written")] == ["taken"]

    play(story)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("{", "not what this slot holds"),
        ('{"version": 99, "value": {}}', "it has version 99, and this program reads 1"),
        ('{"version": 1, "value": {"actions": 7}}', "not what this slot holds"),
        (" " * (memory.SLOT_BYTES_MAX + 1), "are more than the 524288 that it may have"),
    ],
    ids=["no JSON", "another version", "another type", "too large"],
)
def test_what_cannot_be_read_is_set_aside_with_a_line_and_an_event_and_the_scheduler_works(data, why):
    async def story(stage):
        await stage.write(backoff.SLOT, data)
        await stage.node("n1")
        await stage.gang("g", 1)
        async with stage.scheduler(policy("enqueue, allocate")):
            (line,) = stage.logged("memory_set_aside")
            assert line["slot"] == "eviction-backoff"
            assert why in line["error"]
            events = await stage.client.list_json(kinds.by_struct(CoreEvent), namespace=PLACE.namespace)
            (event,) = [each for each in events if each["reason"] == "MemorySetAside"]
            assert event["involvedObject"]["name"] == "pumice-scheduler-memory-eviction-backoff"
            assert why in event["message"]
            pod = (await stage.client.get(Pod, "g-0", namespace="default")).json()
            assert pod["spec"]["nodeName"] == "n1"

    play(story)


def test_without_the_right_to_config_maps_the_scheduler_works_and_says_so():
    async def story(stage):
        stage.transport.refuses = True
        await stage.node("n1")
        await stage.gang("g", 1)
        async with stage.scheduler(policy("enqueue, allocate")):
            kept = [slot.name for slot, _ in OWN_MEMORY if slot.persistent]
            assert [facts["slot"] for facts in stage.logged("memory_not_kept")] == kept
            pod = (await stage.client.get(Pod, "g-0", namespace="default")).json()
            assert pod["spec"]["nodeName"] == "n1"

    play(story)


# --------------------------------------------------------------------------------------------- an idle scheduler


def test_an_idle_scheduler_sleeps_until_a_window_of_tdm_opens(monkeypatch):
    monkeypatch.setattr(processes, "SWEEP_S", 1e9)

    async def story(stage):
        await stage.node("n1", **{"volcano.sh/revocable-zone": "night"})
        async with stage.scheduler(policy("enqueue, allocate", TDM)) as worker:
            cycles = worker.cycles
            await stage.clock.sleep(9 * HOUR_S)
            assert worker.cycles == cycles
            await stage.clock.sleep(HOUR_S)
            assert worker.cycles == cycles + 1

    play(story)


def test_an_idle_scheduler_sleeps_until_a_deadline_of_sla(monkeypatch):
    monkeypatch.setattr(processes, "SWEEP_S", 1e9)

    async def story(stage):
        await stage.node("n1")
        await stage.gang("too-big", 1, cpu="64")
        chosen = policy("enqueue, allocate", {"name": "sla", "arguments": {"sla-waiting-time": "1h"}})
        async with stage.scheduler(chosen) as worker:
            cycles = worker.cycles
            await stage.clock.sleep(HOUR_S - MINUTE_S)
            assert worker.cycles == cycles
            await stage.clock.sleep(MINUTE_S)
            assert worker.cycles > cycles
            cycles = worker.cycles
            await stage.clock.sleep(HOUR_S)
            assert worker.cycles == cycles

    play(story)


def test_a_plugin_may_watch_a_kind_of_its_own_and_says_which_of_its_news_matter(monkeypatch):
    monkeypatch.setattr(processes, "SWEEP_S", 1e9)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Licence", "plural": "licences", "singular": "licence", "listKind": "LicenceList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": "licences.example.com"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }

    async def story(stage):
        headers = {"content-type": "application/json"}
        await stage.client.call(Request("POST", CRDS, {}, headers, msgspec.json.encode(crd)))
        body = {"apiVersion": "example.com/v1", "kind": "Licence", "metadata": {"name": "matlab"}, "seats": 3}
        await stage.client.create(Licence, body, namespace="default")
        async with stage.scheduler(policy("allocate", {"name": "licences"}), licences=Licences) as worker:
            assert b'licence_seats{licence="default/matlab"} 3.0' in worker.meters.text()
            cycles = worker.cycles
            await stage.client.patch(Licence, "matlab", {"metadata": {"labels": {"any": "thing"}}}, namespace="default")
            await stage.clock.sleep(60)
            assert worker.cycles == cycles
            await stage.client.patch(Licence, "matlab", {"seats": 5}, namespace="default")
            await stage.clock.sleep(5)
            assert b'licence_seats{licence="default/matlab"} 5.0' in worker.meters.text()
            await stage.client.delete(Licence, "matlab", namespace="default")
            await stage.clock.sleep(5)
            assert b"licence_seats{" not in worker.meters.text()

    play(story)


def test_a_policy_that_needs_more_is_in_force_once_that_is_listed():
    async def story(stage):
        policies = [policy("enqueue, allocate")]
        await stage.node("n1", **{"volcano.sh/revocable-zone": "night"})
        await stage.gang("night-job", 2, node="n1", **{"volcano.sh/preemptable": "true"})
        async with stage.scheduler(lambda: policies[-1]) as worker:
            assert await stage.leaving() == []
            policies.append(policy("shuffle", TDM, {"name": "pdb"}))
            await stage.clock.sleep(5)
            assert len(await stage.leaving()) == 1
            assert worker._in_force is policies[-1]

    play(story)
