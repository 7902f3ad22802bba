"""What the client must do on every API server: the same bodies run on the embedded server and on the real one.

A folder that uses them gives two fixtures: `client`, with every right, and `namespace`, an empty one.
"""

import asyncio
import contextlib
import random

import pytest
from tests.bodies.patience import PATIENCE_S

from pumice.api.apps import ReplicaSet
from pumice.api.changes import Deleted, Relisted, Upserted
from pumice.api.coordination import Lease
from pumice.api.core import ConfigMap, Namespace
from pumice.api.events import CoreEvent
from pumice.api.kinds import by_struct
from pumice.api.pods import Pod
from pumice.api.policy import PodDisruptionBudget
from pumice.clock import RealClock
from pumice.kube import errors, paging
from pumice.kube.informer import Informer
from pumice.kube.lease import Election, NotLeading
from pumice.kube.recorder import Recorder
from pumice.kube.requests import PatchType, Propagation
from pumice.kube.transport import Request


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def sleeping_pod(name, **spec):
    # No scheduler takes it, and no grace time keeps it: these tests do both by hand.
    container = {"name": "main", "image": "busybox"}
    fixed = {"containers": [container], "schedulerName": "nobody", "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": fixed | spec}


@contextlib.asynccontextmanager
async def running(work):
    """Runs a coroutine beside the block; the block's end ends it."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()):
            raise error


class Heard:
    """What an informer passed on, and a way to wait for it."""

    def __init__(self, informer):
        self.news = []
        self._arrived = asyncio.Condition()
        self._tasks = set()
        informer.subscribe(self._receive)

    def _receive(self, news):
        self.news += news
        task = asyncio.ensure_future(self._wake())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wake(self):
        async with self._arrived:
            self._arrived.notify_all()

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE_S), self._arrived:
            await self._arrived.wait_for(lambda: any(map(condition, self.news)))

    def told(self, name):
        """What was told of one object, in order."""
        return [
            type(each) for each in self.news if not isinstance(each, Relisted) and each.object.metadata.name == name
        ]


def informer_of(client, struct, **settings):
    return Informer(client, struct, clock=RealClock(), chance=random.Random(0), **settings)


class Verbs:
    async def test_an_object_is_made_read_changed_and_deleted(self, client, namespace):
        made = await client.create(ConfigMap, config_map("a", x="1"), namespace=namespace)
        assert made.into(ConfigMap).metadata.uid
        assert (await client.get(ConfigMap, "a", namespace=namespace)).json()["data"] == {"x": "1"}
        whole = made.json() | {"data": {"x": "2"}}
        assert (await client.update(ConfigMap, "a", whole, namespace=namespace)).into(ConfigMap).data == {"x": "2"}
        await client.delete(ConfigMap, "a", namespace=namespace)
        with pytest.raises(errors.NotFound, match='configmaps "a" not found'):
            await client.get(ConfigMap, "a", namespace=namespace)

    async def test_who_comes_second_is_told_so(self, client, namespace):
        made = (await client.create(ConfigMap, config_map("a"), namespace=namespace)).json()
        with pytest.raises(errors.AlreadyExists):
            await client.create(ConfigMap, config_map("a"), namespace=namespace)
        await client.update(ConfigMap, "a", made | {"data": {"by": "first"}}, namespace=namespace)
        with pytest.raises(errors.Conflict, match="read it again and repeat the change"):
            await client.update(ConfigMap, "a", made | {"data": {"by": "second"}}, namespace=namespace)

    async def test_an_invalid_object_names_its_fields(self, client, namespace):
        with pytest.raises(errors.Invalid) as caught:
            await client.create(ConfigMap, config_map("Not_A_Name"), namespace=namespace)
        assert [cause.field for cause in caught.value.details.causes] == ["metadata.name"]

    async def test_patches_of_all_kinds_change_what_they_name(self, client, namespace):
        await client.create(ConfigMap, config_map("a", x="1", y="1"), namespace=namespace)
        operations = [{"op": "replace", "path": "/data/x", "value": "2"}]
        await client.patch(ConfigMap, "a", operations, how=PatchType.JSON, namespace=namespace)
        await client.patch(ConfigMap, "a", {"data": {"y": None, "z": "3"}}, how=PatchType.MERGE, namespace=namespace)
        labels = {"metadata": {"labels": {"l": "4"}}}
        reply = await client.patch(ConfigMap, "a", labels, how=PatchType.STRATEGIC, namespace=namespace)
        assert reply.into(ConfigMap).data == {"x": "2", "z": "3"}
        assert reply.into(ConfigMap).metadata.labels == {"l": "4"}

    async def test_apply_makes_and_owns_and_only_force_takes_from_another(self, client, namespace):
        where = {"namespace": namespace}
        made = await client.apply(ConfigMap, "a", config_map("a", x="1"), field_manager="first", **where)
        assert made.into(ConfigMap).data == {"x": "1"}
        with pytest.raises(errors.Conflict):
            await client.apply(ConfigMap, "a", config_map("a", x="2"), field_manager="second", **where)
        taken = await client.apply(ConfigMap, "a", config_map("a", x="2"), field_manager="second", force=True, **where)
        assert taken.into(ConfigMap).data == {"x": "2"}

    async def test_a_dry_run_answers_and_changes_nothing(self, client, namespace):
        dry = await client.create(ConfigMap, config_map("a"), namespace=namespace, dry_run=True)
        assert dry.into(ConfigMap).metadata.uid
        with pytest.raises(errors.NotFound):
            await client.get(ConfigMap, "a", namespace=namespace)
        await client.create(ConfigMap, config_map("a", x="1"), namespace=namespace)
        await client.patch(ConfigMap, "a", {"data": {"x": "2"}}, namespace=namespace, dry_run=True)
        await client.delete(ConfigMap, "a", namespace=namespace, dry_run=True)
        assert (await client.get(ConfigMap, "a", namespace=namespace)).into(ConfigMap).data == {"x": "1"}

    async def test_a_deletion_meant_for_another_object_of_that_name_does_nothing(self, client, namespace):
        made = (await client.create(ConfigMap, config_map("a"), namespace=namespace)).into(ConfigMap)
        with pytest.raises(errors.Conflict):
            await client.delete(ConfigMap, "a", namespace=namespace, uid="00000000-0000-0000-0000-000000000000")
        with pytest.raises(errors.Conflict):
            await client.delete(ConfigMap, "a", namespace=namespace, resource_version="1")
        await client.delete(
            ConfigMap, "a", namespace=namespace, uid=made.metadata.uid, propagation=Propagation.BACKGROUND
        )

    async def test_a_collection_is_deleted_by_its_labels(self, client, namespace):
        for name, team in (("a", "x"), ("b", "x"), ("c", "y")):
            labelled = config_map(name) | {"metadata": {"name": name, "labels": {"team": team}}}
            await client.create(ConfigMap, labelled, namespace=namespace)
        await client.delete_collection(ConfigMap, namespace=namespace, labels="team=x")
        left = await client.list(ConfigMap, namespace=namespace, labels="team")
        assert [each.metadata.name for each in left.items] == ["c"]

    async def test_lists_are_paged_and_selected(self, client, namespace, monkeypatch):
        for number in range(7):
            await client.create(ConfigMap, config_map(f"c{number}"), namespace=namespace)
        monkeypatch.setattr(paging, "PAGE_ITEMS", 3)
        listing = await client.list(ConfigMap, namespace=namespace)
        assert {f"c{number}" for number in range(7)} <= {each.metadata.name for each in listing.items}
        assert listing.resource_version
        by_name = await client.list(ConfigMap, namespace=namespace, fields="metadata.name=c3")
        assert [each.metadata.name for each in by_name.items] == ["c3"]
        whole = await client.list_json(by_struct(ConfigMap), namespace=namespace, fields="metadata.name=c3")
        assert whole[0]["kind"] == "ConfigMap"

    async def test_a_scale_is_read_and_written_through_its_subresource(self, client, namespace):
        labels = {"app": "x"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"}, "spec": spec}
        await client.create(ReplicaSet, body, namespace=namespace)
        where = {"namespace": namespace, "subresource": "scale"}
        assert (await client.get(ReplicaSet, "r", **where)).json()["spec"].get("replicas", 0) == 0
        scaled = await client.patch(ReplicaSet, "r", {"spec": {"replicas": 1}}, **where)
        assert (scaled.json()["kind"], scaled.json()["spec"]) == ("Scale", {"replicas": 1})

    async def test_a_kind_that_nobody_defined_is_not_found(self, client):
        with pytest.raises(errors.NotFound, match="that its CRD is installed"):
            await client.call(Request("GET", "/apis/example.org/v1/things"))

    async def test_the_version_can_be_asked_for(self, client):
        response = await client.call(Request("GET", "/version"))
        assert b'"gitVersion"' in response.body


class PodVerbs:
    async def test_a_binding_with_the_right_uid_lands_with_its_annotations(self, client, namespace, node):
        made = (await client.create(Pod, sleeping_pod("p"), namespace=namespace)).into(Pod)
        with pytest.raises(errors.Conflict):
            await client.bind("p", namespace=namespace, uid="00000000-0000-0000-0000-000000000000", node=node)
        await client.bind(
            "p", namespace=namespace, uid=made.metadata.uid, node=node, annotations={"pumice.dev/attempt": "7"}
        )
        bound = (await client.get(Pod, "p", namespace=namespace)).into(Pod)
        assert bound.spec.node_name == node
        assert bound.metadata.annotations["pumice.dev/attempt"] == "7"
        with pytest.raises(errors.Conflict, match="already assigned to node"):
            await client.bind("p", namespace=namespace, uid=made.metadata.uid, node=node)

    async def test_an_eviction_deletes_that_pod_only(self, client, namespace):
        made = (await client.create(Pod, sleeping_pod("p"), namespace=namespace)).into(Pod)
        with pytest.raises(errors.Conflict):
            await client.evict("p", namespace=namespace, uid="00000000-0000-0000-0000-000000000000")
        await client.evict("p", namespace=namespace, uid=made.metadata.uid, dry_run=True)
        assert (await client.get(Pod, "p", namespace=namespace)).into(Pod).metadata.deletion_timestamp is None
        await client.evict("p", namespace=namespace, uid=made.metadata.uid)
        with pytest.raises(errors.NotFound):
            await client.evict("p", namespace=namespace)

    async def test_a_disruption_budget_says_not_now(self, client, namespace, node):
        labelled = sleeping_pod("p") | {"metadata": {"name": "p", "labels": {"app": "x"}}}
        pod = (await client.create(Pod, labelled, namespace=namespace)).into(Pod)
        await client.bind("p", namespace=namespace, uid=pod.metadata.uid, node=node)
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
        }
        await client.create(PodDisruptionBudget, budget, namespace=namespace)
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await client.patch(Pod, "p", ready, namespace=namespace, subresource="status")
        with pytest.raises(errors.TooManyRequests):
            await client.evict("p", namespace=namespace)

    async def test_status_is_written_through_its_subresource(self, client, namespace):
        await client.create(Pod, sleeping_pod("p"), namespace=namespace)
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
        patch = {"status": {"conditions": [condition]}}
        await client.patch(Pod, "p", patch, how=PatchType.STRATEGIC, namespace=namespace, subresource="status")
        found = (await client.get(Pod, "p", namespace=namespace)).into(Pod)
        assert [(each.type, each.message) for each in found.status.conditions] == [("PodScheduled", "no room")]


class Watching:
    async def test_an_informer_sees_every_change_in_order(self, client, namespace):
        await client.create(ConfigMap, config_map("before"), namespace=namespace)
        informer = informer_of(client, ConfigMap, namespace=namespace)
        heard = Heard(informer)
        async with running(informer.run()):
            async with asyncio.timeout(PATIENCE_S):
                await informer.synced.wait()
            assert informer.get(namespace, "before") is not None
            await client.create(ConfigMap, config_map("a", x="0"), namespace=namespace)
            for value in range(1, 4):
                await client.patch(ConfigMap, "a", {"data": {"x": str(value)}}, namespace=namespace)
            await client.delete(ConfigMap, "a", namespace=namespace)
            await client.create(ConfigMap, config_map("last"), namespace=namespace)
            await heard.until(lambda each: isinstance(each, Upserted) and each.object.metadata.name == "last")
        assert heard.told("a") == [Upserted] * 4 + [Deleted]
        values = [
            each.object.data["x"]
            for each in heard.news
            if isinstance(each, Upserted) and each.object.metadata.name == "a"
        ]
        assert values == ["0", "1", "2", "3"]
        assert informer.get(namespace, "a") is None

    async def test_pages_and_a_streamed_list_end_in_the_same_state(self, client, namespace):
        for number in range(5):
            await client.create(ConfigMap, config_map(f"c{number}"), namespace=namespace)
        states = []
        for streamed in (True, False):
            informer = informer_of(client, ConfigMap, namespace=namespace)
            informer._streams_lists = streamed
            async with running(informer.run()), asyncio.timeout(PATIENCE_S):
                await informer.synced.wait()
                assert informer._streams_lists is streamed, "the server streams lists"
                states.append({key: each for key, each in informer.objects.items() if key.name.startswith("c")})
        assert states[0] == states[1]
        assert len(states[0]) == 5

    async def test_a_version_that_the_server_never_knew_is_expired_and_listed_anew(self, client, namespace):
        informer = informer_of(client, ConfigMap, namespace=namespace)
        informer._version = "1"
        heard = Heard(informer)
        await client.create(ConfigMap, config_map("a"), namespace=namespace)
        async with running(informer.run()):
            await heard.until(lambda each: isinstance(each, Upserted) and each.object.metadata.name == "a")
        assert heard.told("a") == [Upserted]


class Leading:
    async def test_one_leads_the_other_takes_over_when_the_first_stops(self, client, namespace):
        def candidate(identity):
            return Election(
                client,
                namespace=namespace,
                name="leader",
                identity=identity,
                clock=RealClock(),
                chance=random.Random(identity),
            )

        first, second = candidate("first"), candidate("second")
        leads = {"first": asyncio.Event(), "second": asyncio.Event()}

        async def work(name):
            leads[name].set()
            await asyncio.get_running_loop().create_future()

        async with asyncio.timeout(PATIENCE_S), running(first.lead(lambda: work("first"))) as leading:
            await leads["first"].wait()
            first.check()
            with pytest.raises(NotLeading, match=f"second does not hold lease {namespace}/leader: nothing was sent"):
                second.check()
            async with running(second.lead(lambda: work("second"))):
                leading.cancel()
                await leads["second"].wait()
                second.check()
                with pytest.raises(NotLeading):
                    first.check()
                lease = (await client.get(Lease, "leader", namespace=namespace)).into(Lease)
                assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("second", 1)
        released = (await client.get(Lease, "leader", namespace=namespace)).into(Lease)
        assert not released.spec.holder_identity

    async def test_a_leader_whose_lease_is_deleted_makes_it_again(self, client, namespace):
        leads = asyncio.Event()

        async def work():
            leads.set()
            await asyncio.get_running_loop().create_future()

        election = Election(
            client, namespace=namespace, name="leader", identity="a", clock=RealClock(), chance=random.Random(0)
        )
        leases = informer_of(client, Lease, namespace=namespace)
        heard = Heard(leases)
        async with running(leases.run()), running(election.lead(work)):
            await leads.wait()
            first = (await client.get(Lease, "leader", namespace=namespace)).into(Lease)
            await client.delete(Lease, "leader", namespace=namespace)
            await heard.until(
                lambda each: (
                    isinstance(each, Upserted)
                    and each.object.metadata.uid != first.metadata.uid
                    and each.object.spec.holder_identity == "a"
                )
            )
            election.check()


class Recording:
    async def test_the_same_event_is_one_object_whose_count_rises(self, client, namespace):
        regarding = (await client.create(ConfigMap, config_map("a"), namespace=namespace)).into(ConfigMap)
        recorder = Recorder(client, component="pumice-test", clock=RealClock())
        for _ in range(3):
            recorder.record(regarding, "Warning", "Waits", "no room on 7 nodes")
        await recorder.write(everything=True)
        recorder.record(regarding, "Warning", "Waits", "no room on 7 nodes")
        recorder.record(regarding, "Normal", "Runs", "x" * 5_000)
        await recorder.write(everything=True)
        found = await client.list(CoreEvent, namespace=namespace, fields="involvedObject.name=a")
        assert sorted((each.reason, each.count, len(each.message)) for each in found.items) == [
            ("Runs", 1, 1_024),
            ("Waits", 4, 18),
        ]
        assert {each.involved_object.uid for each in found.items} == {regarding.metadata.uid}
        assert recorder.dropped == 0

    async def test_an_event_that_the_server_forgot_begins_anew(self, client, namespace):
        regarding = (await client.create(ConfigMap, config_map("a"), namespace=namespace)).into(ConfigMap)
        recorder = Recorder(client, component="pumice-test", clock=RealClock())
        recorder.record(regarding, "Normal", "Waits", "why")
        await recorder.write(everything=True)
        await client.delete_collection(CoreEvent, namespace=namespace)
        recorder.record(regarding, "Normal", "Waits", "why")
        await recorder.write(everything=True)
        found = await client.list(CoreEvent, namespace=namespace)
        assert [(each.reason, each.count) for each in found.items] == [("Waits", 2)]

    async def test_an_event_about_something_without_a_namespace_lands_in_the_default_one(self, client, namespace):
        regarding = (await client.get(Namespace, namespace)).into(Namespace)
        recorder = Recorder(client, component="pumice-test", clock=RealClock())
        recorder.record(regarding, "Normal", "Seen", f"by {namespace}")
        await recorder.write(everything=True)
        found = await client.list(CoreEvent, namespace="default", fields=f"involvedObject.name={namespace}")
        assert [each.message for each in found.items] == [f"by {namespace}"]


class ClientBodies(Verbs, PodVerbs, Watching, Leading, Recording):
    """All of them."""
