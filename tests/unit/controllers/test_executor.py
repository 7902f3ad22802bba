"""Operations over a real (embedded) API server: everything may be done twice, and nothing of somebody else's is touched."""

import asyncio

import pytest

from pumice.api import kinds
from pumice.api.core import ConfigMap, Node
from pumice.api.events import CoreEvent
from pumice.api.pods import Pod
from pumice.controllers.executor import WRITES_OF_ONE_PLAN, Executor, Stale, Taken
from pumice.controllers.operations import Apply, Blame, Create, Delete, Emit, Look, Patch, Plan
from pumice.kube import errors


def a_map(name, *, owner="owner-uid", text="hello"):
    owners = (
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "root", "uid": owner, "controller": True}] if owner else []
    )
    metadata = {"name": name, "namespace": "team", "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


def a_pod(name):
    spec = {"containers": [{"name": "main", "image": "train"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team"}, "spec": spec}


def plan(*stages):
    return Plan(tuple(tuple(stage) for stage in stages))


async def the_owner(bench):
    made = await bench.client.create(ConfigMap, a_map("root", owner=""), namespace="team")
    return made.json()["metadata"]["uid"]


def test_creating_twice_makes_one_and_leaves_it_as_it_is(bench):
    async def body(bench):
        uid = await the_owner(bench)
        assert await bench.executor.carry_out(plan([Create(kind=ConfigMap, body=a_map("m", owner=uid))]))
        await bench.executor.carry_out(plan([Create(kind=ConfigMap, body=a_map("m", owner=uid, text="other"))]))
        assert (await bench.json(ConfigMap, "m"))["data"] == {"text": "hello"}
        assert bench.executor.writes == {"create ConfigMap": 2}

    bench.run(body)


def test_a_name_that_somebody_else_has_is_refused_and_told(bench):
    async def body(bench):
        uid = await the_owner(bench)
        root = (await bench.client.get(ConfigMap, "root", namespace="team")).into(ConfigMap)
        await bench.client.create(ConfigMap, a_map("m", owner="", text="theirs"), namespace="team")
        create = Create(kind=ConfigMap, body=a_map("m", owner=uid), blame=Blame(root, "FailedCreate"))
        with pytest.raises(Taken, match="m exists already and is controlled by nobody"):
            await bench.executor.carry_out(plan([create]))
        assert (await bench.json(ConfigMap, "m"))["data"] == {"text": "theirs"}
        await bench.recorder.write(everything=True)
        (event,) = await bench.client.list_json(kinds.by_struct(CoreEvent), namespace="team")
        assert (event["type"], event["reason"]) == ("Warning", "FailedCreate")
        assert event["involvedObject"]["name"] == "root"

    bench.run(body)


def test_a_successor_is_not_made_before_its_namesake_of_the_same_owner_is_gone(bench):
    async def body(bench):
        uid = await the_owner(bench)
        leaving = a_map("m", owner=uid)
        leaving["metadata"]["finalizers"] = ["test/held"]
        await bench.client.create(ConfigMap, leaving, namespace="team")
        await bench.client.delete(ConfigMap, "m", namespace="team")
        with pytest.raises(Stale, match="m is being deleted: its successor is made when it is gone"):
            await bench.executor.carry_out(plan([Create(kind=ConfigMap, body=a_map("m", owner=uid))]))

    bench.run(body)


def test_a_patch_of_an_old_version_is_stale(bench):
    async def body(bench):
        made = (await bench.client.create(ConfigMap, a_map("m", owner=""), namespace="team")).json()["metadata"]
        first = Patch(
            kind=ConfigMap, name="m", namespace="team", body={"data": {"a": "1"}}, version=made["resourceVersion"]
        )
        await bench.executor.carry_out(plan([first]))
        with pytest.raises(Stale):
            await bench.executor.carry_out(plan([first]))
        gone = Patch(kind=ConfigMap, name="none", namespace="team", body={"data": {"a": "1"}}, uid="x")
        with pytest.raises(Stale):
            await bench.executor.carry_out(plan([gone]))

    bench.run(body)


def test_a_plan_may_write_an_object_several_times_for_the_version_that_it_was_made_of(bench):
    """Only what others have written makes it stale."""

    async def body(bench):
        made = (await bench.client.create(ConfigMap, a_map("m", owner=""), namespace="team")).json()["metadata"]
        version = {"version": made["resourceVersion"]}
        named = {"kind": ConfigMap, "name": "m", "namespace": "team"}
        first, last = (Patch(**named, body={"data": {key: "1"}}, **version) for key in "az")
        between = Apply(kind=ConfigMap, body=a_map("m", owner="", text="applied"), **version)
        await bench.executor.carry_out(plan([first], [between], [last]))
        assert (await bench.json(ConfigMap, "m"))["data"] == {"text": "applied", "a": "1", "z": "1"}
        for late in (first, between, last):
            with pytest.raises(Stale):
                await bench.executor.carry_out(plan([late]))

    bench.run(body)


def test_deleting_twice_is_fine_and_a_namesake_is_spared(bench):
    async def body(bench):
        made = (await bench.client.create(ConfigMap, a_map("m", owner=""), namespace="team")).json()["metadata"]
        await bench.executor.carry_out(plan([Delete(kind=ConfigMap, name="m", namespace="team", uid="another")]))
        assert "m" in await bench.names(ConfigMap)
        gone = Delete(kind=ConfigMap, name="m", namespace="team", uid=made["uid"])
        await bench.executor.carry_out(plan([gone]))
        await bench.executor.carry_out(plan([gone]))
        assert "m" not in await bench.names(ConfigMap)

    bench.run(body)


def test_a_conflict_over_what_is_still_there_does_not_mean_that_it_is_gone(bench, monkeypatch):
    """A server that could not delete it in time says so, as does a webhook: it has to be asked for again."""

    async def body(bench):
        made = (await bench.client.create(ConfigMap, a_map("m", owner=""), namespace="team")).json()["metadata"]
        wanted = plan([Delete(kind=ConfigMap, name="m", namespace="team", uid=made["uid"])])

        async def refuses(*_args, **_more):
            raise errors.Conflict(errors.Status(message="it is being changed", code=409), asked="DELETE")

        with monkeypatch.context() as broken:
            broken.setattr(type(bench.client), "delete", refuses)
            with pytest.raises(Stale):
                await bench.executor.carry_out(wanted)
        await bench.executor.carry_out(wanted)
        assert "m" not in await bench.names(ConfigMap)

    bench.run(body)


def test_what_nobody_watches_is_deleted_by_its_owner_only(bench):
    async def body(bench):
        uid = await the_owner(bench)
        await bench.client.create(ConfigMap, a_map("ours", owner=uid), namespace="team")
        await bench.client.create(ConfigMap, a_map("theirs", owner=""), namespace="team")
        deletes = [
            Delete(kind=ConfigMap, name=name, namespace="team", owner=uid) for name in ("ours", "theirs", "none")
        ]
        await bench.executor.carry_out(plan(deletes))
        left = await bench.names(ConfigMap)
        assert "ours" not in left
        assert "theirs" in left
        assert bench.executor.writes == {"delete ConfigMap": 1}

    bench.run(body)


def test_a_stage_that_fails_ends_the_plan_but_not_its_own_stage(bench):
    async def body(bench):
        uid = await the_owner(bench)
        bad = Patch(kind=ConfigMap, name="none", namespace="team", body={}, uid="x")
        beside = Create(kind=ConfigMap, body=a_map("beside", owner=uid))
        after = Create(kind=ConfigMap, body=a_map("after", owner=uid))
        with pytest.raises(Stale):
            await bench.executor.carry_out(plan([bad, beside], [after]))
        left = await bench.names(ConfigMap)
        assert "beside" in left
        assert "after" not in left

    bench.run(body)


def test_nothing_leaves_once_the_lease_is_lost(bench):
    async def body(bench):
        uid = await the_owner(bench)

        def lost():
            raise errors.KubeError("not leading")

        executor = Executor(bench.client, bench.known, bench.recorder, guard=lost)
        with pytest.raises(errors.KubeError, match="not leading"):
            await executor.carry_out(plan([Create(kind=ConfigMap, body=a_map("m", owner=uid))]))
        assert "m" not in await bench.names(ConfigMap)
        assert not executor.writes

    bench.run(body)


def test_what_a_plan_cannot_make_is_filled_in_when_it_is_carried_out(bench):
    async def body(bench):
        uid = await the_owner(bench)

        async def fill(body):
            return {**body, "data": {"text": "filled"}}

        executor = Executor(bench.client, bench.known, bench.recorder, fillings={"secret": fill})
        await executor.carry_out(plan([Create(kind=ConfigMap, body=a_map("m", owner=uid), filled_by="secret")]))
        assert (await bench.json(ConfigMap, "m"))["data"] == {"text": "filled"}

    bench.run(body)


def test_applying_makes_and_changes(bench):
    async def body(bench):
        uid = await the_owner(bench)
        await bench.executor.carry_out(plan([Apply(kind=ConfigMap, body=a_map("m", owner=uid))]))
        await bench.executor.carry_out(plan([Apply(kind=ConfigMap, body=a_map("m", owner=uid, text="new"))]))
        assert (await bench.json(ConfigMap, "m"))["data"] == {"text": "new"}

    bench.run(body)


def test_applying_by_another_manager_owns_only_what_it_names(bench):
    async def body(bench):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        uid = (await bench.client.create(Node, node)).json()["metadata"]["uid"]
        status = {"status": {"phase": "Running"}}
        known = {"metadata": {"name": "n1", "uid": uid}}
        await bench.executor.carry_out(
            plan([Apply(kind=Node, body={**node, **known, **status}, subresource="status", manager="somebody")])
        )
        found = (await bench.client.get(Node, "n1")).json()
        assert found["status"]["phase"] == "Running"
        fields = {each["manager"]: each["fieldsV1"] for each in found["metadata"]["managedFields"]}
        assert fields["somebody"] == {"f:status": {"f:phase": {}}}

    bench.run(body)


def test_applying_to_a_namesake_is_stale(bench):
    async def body(bench):
        await bench.client.create(ConfigMap, a_map("m", owner=""), namespace="team")
        namesake = {**a_map("m", owner="", text="other"), "metadata": {"name": "m", "namespace": "team", "uid": "gone"}}
        with pytest.raises(Stale):
            await bench.executor.carry_out(plan([Apply(kind=ConfigMap, body=namesake)]))
        assert (await bench.json(ConfigMap, "m"))["data"] == {"text": "hello"}

    bench.run(body)


def test_events_alone_are_no_writes(bench):
    async def body(bench):
        await the_owner(bench)
        root = (await bench.client.get(ConfigMap, "root", namespace="team")).into(ConfigMap)
        assert not await bench.executor.carry_out(plan([Emit(root, "Normal", "Word", "said")]))

    bench.run(body)


def test_looking_asks_the_server_itself_and_not_the_watch(bench):
    async def body(bench):
        store = bench.known.of(ConfigMap)
        await bench.client.create(ConfigMap, a_map("there", owner=""), namespace="team")
        looks = [Look(kind=ConfigMap, name=name, namespace="team") for name in ("there", "nowhere")]
        assert await bench.executor.carry_out(plan(looks))
        assert store.get("team", "there") is not None
        assert store.is_absent("team", "nowhere")
        assert not store.is_absent("team", "there")
        assert not bench.executor.writes

    bench.run(body)


def test_a_patch_that_the_server_makes_nothing_of_changes_nothing(bench):
    async def body(bench):
        made = (await bench.client.create(ConfigMap, a_map("m", owner=""), namespace="team")).json()
        version = made["metadata"]["resourceVersion"]
        same = Patch(kind=ConfigMap, name="m", namespace="team", body={"data": made["data"]}, version=version)
        assert not await bench.executor.carry_out(plan([same]))
        other = Patch(kind=ConfigMap, name="m", namespace="team", body={"data": {"text": "other"}}, version=version)
        assert await bench.executor.carry_out(plan([other]))

    bench.run(body)


def slow_down(bench):
    """From now on each call takes a second."""
    inner = bench.client._transport

    class Slow:
        async def call(self, request):
            await bench.clock.sleep(1.0)
            return await inner.call(request)

    bench.client._transport = bench.executor._client._transport = Slow()


def test_a_large_plan_does_not_keep_a_small_one_waiting(bench):
    """Each call takes a second. 320 creates take ten; the one that comes after them takes one or two."""

    async def body(bench):
        uid = await the_owner(bench)
        slow_down(bench)
        began, ended = bench.clock.monotonic(), {}

        async def carry(name, *names):
            await bench.executor.carry_out(
                plan([Create(kind=ConfigMap, body=a_map(each, owner=uid)) for each in names])
            )
            ended[name] = bench.clock.monotonic() - began

        await asyncio.gather(carry("large", *(f"m{number}" for number in range(320))), carry("small", "one"))
        assert ended["large"] == pytest.approx(320 / WRITES_OF_ONE_PLAN)
        assert ended["small"] <= 2.0

    bench.run(body)


def test_of_many_jobs_the_first_has_all_its_pods_before_the_last_has_one(bench):
    """Five plans of 64 pods, 64 writes at once: each takes a second, so side by side all would end after five."""

    async def body(bench):
        slow_down(bench)
        began, ended = bench.clock.monotonic(), {}

        async def carry(job):
            await bench.executor.carry_out(plan([Create(kind=Pod, body=a_pod(f"{job}-{at}")) for at in range(64)]))
            ended[job] = bench.clock.monotonic() - began

        await asyncio.gather(*(carry(job) for job in "abcde"))
        assert ended == {"a": 2.0, "b": 2.0, "c": 4.0, "d": 4.0, "e": 6.0}

    bench.run(body)


def test_what_has_been_there_before_is_asked_for_first_and_made_again_with_a_word_if_it_is_gone(bench):
    async def body(bench):
        uid = await the_owner(bench)
        root = (await bench.client.get(ConfigMap, "root", namespace="team")).into(ConfigMap)
        word = Emit(root, "Warning", "Missing", "m was deleted")
        create = Create(kind=ConfigMap, body=a_map("m", owner=uid), restored=word)
        assert await bench.executor.carry_out(plan([create]))
        assert not await bench.executor.carry_out(plan([create]))
        assert bench.executor.writes == {"create ConfigMap": 1}
        await bench.recorder.write(everything=True)
        (event,) = await bench.client.list_json(kinds.by_struct(CoreEvent), namespace="team")
        assert (event["reason"], event["message"], event["count"]) == ("Missing", "m was deleted", 1)

    bench.run(body)


def test_a_look_by_list_takes_in_what_is_there_and_that_nothing_is(bench):
    async def body(bench):
        nodes = bench.known.of(Node)
        await bench.client.create(Node, {"metadata": {"name": "there"}})
        looks = [Look(kind=Node, name=name, listed=True) for name in ("there", "gone")]
        await bench.executor.carry_out(plan(looks))
        assert nodes.get("", "there") is not None
        assert (nodes.is_absent("", "there"), nodes.is_absent("", "gone")) == (False, True)
        assert bench.executor.writes == {}

    bench.run(body)
