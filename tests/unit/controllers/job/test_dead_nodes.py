"""Pods that cannot end because their node is dead: when they are given up, and that nobody waits for them for ever."""

import msgspec
import pytest
from tests.unit.controllers.job.literals import NOW, a_job, a_pod, gang, told
from tests.unit.controllers.job.theatre import NODE, Theatre

from pumice import instant
from pumice.api import decoding
from pumice.api.batch import Job
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.controllers.job.dead_nodes import OUT_OF_SERVICE, SILENCE, Nodes, plan_removals
from pumice.controllers.operations import Delete, Look
from pumice.kube.requests import Propagation
from pumice.local.nodes.pretend import Trouble

MINUTE = 60 * instant.SECOND
GONE_AT = instant.parse_instant("2026-03-01T13:00:20Z")  # when a leaving pod of the literals should be gone


def a_node(ready="True", *, since="2026-03-01T12:30:00Z", taint="") -> Node:
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": since}] if ready else []
    taints = [{"key": taint, "effect": "NoExecute"}] if taint else []
    value = {"metadata": {"name": "n1"}, "spec": {"taints": taints}, "status": {"conditions": conditions}}
    return decoding.decode_value(Node, value)


def on(node: Node | None, **more) -> Nodes:
    return Nodes({"n1": node}, **more) if node is not None else Nodes(gone=frozenset({"n1"}), **more)


def on_node(pod: Pod, name="n1") -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=name))


LEAVING = on_node(a_pod("worker", 1, leaving=True))


def forced(found) -> list[tuple[str, str]]:
    return [(each.name, each.uid) for each in found.operations if isinstance(each, Delete) and each.grace_s == 0]


@pytest.mark.parametrize(
    ("node", "given_up"),
    [
        (None, True),  # its node is gone
        (a_node("Unknown", taint=OUT_OF_SERVICE), True),
        (a_node("False", taint=OUT_OF_SERVICE), True),
        (a_node("True", taint=OUT_OF_SERVICE), False),  # it can end the pod itself
        (a_node("True"), False),
        (a_node("False"), False),  # not ready, but it speaks
        (a_node("Unknown"), False),  # not for long enough
        (a_node(""), False),  # it has just been made
    ],
)
def test_a_pod_is_given_up_at_once_where_nobody_can_end_it_any_more(node, given_up):
    found = plan_removals([LEAVING], on(node), NOW, a_job())
    assert forced(found) == ([("train-worker-1", LEAVING.metadata.uid)] if given_up else [])


@pytest.mark.parametrize("pod", [on_node(a_pod("worker", 1)), a_pod("worker", 1, leaving=True)])
def test_only_pods_that_are_being_deleted_on_a_node_are_given_up(pod):
    assert plan_removals([pod], on(None), NOW, a_job()).operations == ()


def test_a_silent_node_is_given_time_from_when_it_fell_silent_and_the_pod_was_due():
    silent = a_node("Unknown")
    before = plan_removals([LEAVING], on(silent), GONE_AT + SILENCE - 1, a_job())
    assert (forced(before), before.again_at) == ([], GONE_AT + SILENCE)
    assert forced(plan_removals([LEAVING], on(silent), GONE_AT + SILENCE, a_job()))
    later = a_node("Unknown", since="2026-03-01T13:05:00Z")
    assert plan_removals([LEAVING], on(later), GONE_AT, a_job()).again_at == GONE_AT + SILENCE + 4 * MINUTE + 40 * 10**9


def test_people_are_told_of_a_stuck_pod_once_its_grace_is_over_and_how_to_go_on():
    silent = on(a_node("Unknown"))
    assert plan_removals([LEAVING], silent, GONE_AT - 1, a_job()).operations == ()
    (warning,) = plan_removals([LEAVING], silent, GONE_AT, a_job()).operations
    assert warning.reason == "PodStuck"
    assert "removed by force at 2026-03-01T13:10:20Z" in warning.message
    assert "taint it node.kubernetes.io/out-of-service:NoExecute to go on now" in warning.message


def test_with_a_silence_of_nothing_a_silent_nodes_pods_are_never_given_up():
    found = plan_removals([LEAVING], on(a_node("Unknown"), silence=0), GONE_AT + 100 * SILENCE, a_job())
    assert (found.operations, found.again_at) == ((), None)


def test_a_node_that_no_watch_shows_is_asked_for_before_anything_is_done():
    found = plan_removals([LEAVING], Nodes(), NOW, a_job())
    assert found.operations == (Look(kind=Node, name="n1", listed=True),)


@pytest.mark.parametrize("phase", ["Restarting", "Aborting", "Terminating", "Completing", "Running", "Failed"])
def test_in_every_phase_a_pod_of_a_dead_node_goes(phase):
    others = gang(worker1=None) if phase == "Running" else []
    found = told(a_job(phase=phase, status={"retryCount": 1}), *others, LEAVING, nodes=on(None))
    assert "worker-1" in found.killed
    assert any(reason == "PodGivenUp" and "node n1 no longer exists" in text for reason, text in found.events)


def test_a_job_that_is_being_deleted_lets_go_of_pods_on_dead_nodes():
    job = a_job()
    metadata = msgspec.structs.replace(job.metadata, deletion_timestamp="2026-03-01T12:59:00Z")
    found = told(msgspec.structs.replace(job, metadata=metadata), LEAVING, nodes=on(None))
    assert found.killed == {"worker-1"}


def test_where_its_job_is_gone_events_are_about_the_pod():
    found = plan_removals([LEAVING], on(None), NOW, None)
    assert {each.regarding.metadata.name for each in found.operations if not isinstance(each, Delete)} == {
        "train-worker-1"
    }


# ------------------------------------------------------------------------------------------------------- whole lives


async def falls_silent(stage) -> None:
    """The node's agent says nothing any more, and the cluster has noticed."""
    stage.agent.trouble(NODE, Trouble.GONE)
    now = instant.format_instant(stage.clock.now())
    condition = {"type": "Ready", "status": "Unknown", "lastTransitionTime": now}
    await stage.patch(Node, NODE, {"status": {"conditions": [condition]}}, subresource="status")


async def comes_back(stage) -> None:
    """A new machine under the same name."""
    stage.agent.trouble(NODE, Trouble.NONE)
    await stage.patch(Node, NODE, {"spec": {"taints": None}})


@pytest.mark.parametrize("action", ["RestartJob", "RestartPod"])
def test_a_restart_goes_on_when_a_silent_node_is_given_up(action):
    async def body(stage):
        await stage.submit(("worker", 2), policies=[{"event": "PodEvicted", "action": action}])
        await stage.settle()
        before = await stage.pods()
        await falls_silent(stage)
        await stage.remove(Pod, "train-worker-1")
        await stage.settle(300.0)
        assert await stage.phase() == "Restarting"
        assert set(await stage.pods()) == set(before)
        await stage.settle(400.0)
        await comes_back(stage)
        await stage.settle()
        assert await stage.phase() == "Running"
        after = await stage.pods()
        restarted = {name for name in before if after[name][1] != before[name][1]}
        assert restarted == {"RestartJob": set(before), "RestartPod": {"train-worker-1"}}[action]
        assert (await stage.job())["status"]["retryCount"] == 1
        reasons = [reason for reason, _ in await stage.events()]
        assert reasons.index("PodStuck") < reasons.index("PodGivenUp")

    Theatre().run(body)


def test_an_operator_who_says_that_the_node_is_off_need_not_wait():
    async def body(stage):
        await stage.submit(("worker", 2))
        await stage.settle()
        await falls_silent(stage)
        await stage.command("AbortJob")
        await stage.settle(120.0)
        assert await stage.phase() == "Aborting"
        await stage.patch(Node, NODE, {"spec": {"taints": [{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]}})
        await stage.settle(5.0)
        assert await stage.phase() == "Aborted"
        assert await stage.pods() == {}

    Theatre().run(body)


@pytest.mark.parametrize("propagation", ["Foreground", "Background"])
def test_a_deleted_job_is_gone_for_good_when_its_node_is(propagation):
    """In the background the Job goes at once, and only its pods are left: nobody plans for it any more but for them."""

    async def body(stage):
        await stage.submit(("worker", 2))
        await stage.settle()
        await falls_silent(stage)
        await stage.client.delete(Job, "train", namespace="team", propagation=Propagation(propagation))
        await stage.settle(120.0)
        assert len(await stage.pods()) == 2
        await stage.client.delete(Node, NODE)
        await stage.settle(5.0)
        assert await stage.pods() == {}
        assert await stage.job() is None

    Theatre().run(body)
