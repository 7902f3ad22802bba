"""Every eviction tells whose pod goes, for whom, what both queues hold, and what is lost."""

import msgspec
import pytest
from tests.unit.scheduling.clusters import a_gang, a_node, a_pod, a_priority_class, a_queue, plan_for, policy, when

from pumice import instant
from pumice.api import disruptions, names
from pumice.api.disruptions import Party
from pumice.cluster.tasks import task_of
from pumice.scheduling.evicting import lost_work

RECLAIM = policy("allocate, reclaim", "priority gang conformance", "predicates proportion")
PREEMPT = policy("allocate, preempt", "priority gang conformance", "predicates")
OWNED = {"annotations": {names.SUBMITTED_BY: "bob"}}


def test_a_reclaim_tells_both_queues_before_and_after_and_who_gets_the_room():
    world = [
        a_queue("research"), a_queue("product"), a_node("n1", cpu="8", gpu=4),
        a_gang("old", 4, min_member=2, gpu=1, cpu="1", running=["n1"] * 4, group={"queue": "research"}),
        a_gang("new", 2, gpu=1, cpu="1", group={"queue": "product", **OWNED}),
    ]  # fmt: skip
    found = plan_for(*world, policy=RECLAIM).evictions
    assert {each.story.rule for each in found} == {"reclaim"}
    story = found[0].story
    assert (story.resource, story.code) == ("nvidia.com/gpu", found[0].cause.code.value)
    assert story.victim == Party("default/old", "", "research", "default", 0, "4", "2", "2", "default/old")
    assert story.claimant == Party("default/new", "", "product", "bob", 0, "0", "2", "2", "default/new")
    assert story.text.startswith("reclaim for gang default/new (queue product, user bob): ")
    assert "of nvidia.com/gpu, queue research held 4 and then 2 of 2 that it deserves" in story.text


def test_within_one_queue_priorities_are_told():
    world = [
        a_priority_class("high", 100), a_node("n1", cpu="1"),
        a_gang("old", 1, min_member=0, cpu="1", running=["n1"]),
        a_gang("new", 1, cpu="1", priority=100, group={"priority_class": "high"}),
    ]  # fmt: skip
    story = plan_for(*world, policy=PREEMPT).evictions[0].story
    assert (story.victim.priority, story.claimant.priority, story.resource) == (0, 100, "cpu")
    assert "held" not in story.text


@pytest.mark.parametrize(
    ("checkpoint", "lost"),
    [(None, 600), (when(900), 300), (when(100), 600), (when(5000), 600), ("yesterday", 600)],
    ids=["none", "since", "before its start", "in the future", "no time"],
)
def test_what_is_lost_is_the_run_time_since_the_start_or_the_last_checkpoint(checkpoint, lost):
    pod = a_pod(
        "p", node="n1", status={"startTime": when(600)}, annotations={names.CHECKPOINTED_AT: checkpoint} if checkpoint else {}
    )  # fmt: skip
    assert lost_work.lost(task_of(pod, gang=""), instant.parse_instant(when(1200))) == lost * instant.SECOND


def test_a_pod_that_has_not_started_loses_nothing():
    assert lost_work.lost(task_of(a_pod("p", node="n1"), gang=""), instant.parse_instant(when(1200))) == 0


def test_the_story_is_read_back_from_the_pod_and_foreign_words_are_taken_as_they_are():
    story = disruptions.Story("reclaim", "VictimSurplus", "it can spare it", Party("a/b"), Party("c/d"), lost_seconds=7)
    condition = {"type": "DisruptionTarget", "status": "True", "message": "anything", "lastTransitionTime": when(5)}
    ours = {"conditions": [{**condition, "reason": "PreemptionByScheduler"}]}
    pod = a_pod("p", node="n", status=ours, annotations={names.EVICTION: msgspec.json.encode(story).decode()})
    assert disruptions.of_pod(pod) == disruptions.Disruption(story, when(5))
    drained = a_pod("p", node="n", status={"conditions": [{**condition, "reason": "EvictionByEvictionAPI"}]})
    assert disruptions.of_pod(drained).story == disruptions.Story("EvictionByEvictionAPI", why="anything")
    broken = a_pod("p", node="n", status=ours, annotations={names.EVICTION: "no JSON"})
    assert disruptions.of_pod(broken).story.rule == "PreemptionByScheduler"
    assert disruptions.of_pod(a_pod("p", node="n")) is None
