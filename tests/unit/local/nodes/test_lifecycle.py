"""Which taints a node's readiness asks for, and when a pod has to leave because of them."""

from pumice.api import decoding
from pumice.api.core import Taint
from pumice.api.pods import Pod
from pumice.instant import SECOND, format_instant, parse_instant
from pumice.local.nodes.lifecycle import NOT_READY, UNREACHABLE, eviction_time, with_condition_taints

NOON = parse_instant("2026-01-31T12:00:00Z")
NOON_TEXT = format_instant(NOON)
GPU = Taint(key="gpu", value="a100", effect="NoSchedule")


def unreachable(effect="NoExecute", added=NOON_TEXT):
    return Taint(key=UNREACHABLE, effect=effect, time_added=added)


def a_pod(*tolerations, bound=None, created="2026-01-31T11:00:00Z"):
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}] if bound else []
    return decoding.decode_value(
        Pod,
        {
            "metadata": {"name": "p", "namespace": "default", "creationTimestamp": created},
            "spec": {"tolerations": list(tolerations)},
            "status": {"conditions": conditions},
        },
    )


def stays(seconds, key=UNREACHABLE):
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


def test_a_node_that_nobody_hears_from_is_unreachable_for_new_pods_and_for_old_ones():
    found = with_condition_taints([GPU], "Unknown", NOON)
    assert found == [GPU, unreachable("NoExecute"), unreachable("NoSchedule")]


def test_a_node_that_says_it_is_not_ready_is_tainted_as_such():
    found = with_condition_taints([], "False", NOON)
    assert [(taint.key, taint.effect) for taint in found] == [(NOT_READY, "NoExecute"), (NOT_READY, "NoSchedule")]


def test_a_node_from_which_worse_is_heard_changes_its_taints():
    found = with_condition_taints(with_condition_taints([], "False", NOON), "Unknown", NOON + SECOND)
    assert {taint.key for taint in found} == {UNREACHABLE}


def test_a_node_that_is_ready_again_keeps_only_taints_that_are_not_ours():
    assert with_condition_taints([unreachable(), GPU, unreachable("NoSchedule")], "True", NOON) == [GPU]


def test_taints_that_are_right_are_left_alone_with_their_times():
    before = [unreachable("NoSchedule"), unreachable("NoExecute")]
    assert with_condition_taints(before, "Unknown", NOON + 60 * SECOND) is None
    assert with_condition_taints([GPU], "True", NOON) is None
    assert with_condition_taints([], "", NOON) is None
    one_more = with_condition_taints(before[:1], "Unknown", NOON + 60 * SECOND)
    assert [taint.time_added for taint in one_more] == [NOON_TEXT, "2026-01-31T12:01:00Z"]


def test_a_pod_that_tolerates_nothing_has_to_leave_at_once():
    assert eviction_time(a_pod(), [unreachable()], NOON) == NOON
    assert eviction_time(a_pod(stays(300, key=NOT_READY)), [unreachable()], NOON) == NOON


def test_a_pod_that_tolerates_it_for_ever_stays():
    for_ever = {"key": UNREACHABLE, "operator": "Exists"}
    assert eviction_time(a_pod(for_ever), [unreachable()], NOON) is None
    assert eviction_time(a_pod({"operator": "Exists"}), [unreachable(), GPU], NOON) is None


def test_a_taint_that_only_keeps_new_pods_away_evicts_nobody():
    assert eviction_time(a_pod(), [GPU, unreachable("NoSchedule")], NOON) is None


def test_a_pod_stays_as_long_as_its_shortest_toleration_from_when_the_taint_was_added():
    assert eviction_time(a_pod(stays(300), stays(60)), [unreachable()], NOON + 99 * SECOND) == NOON + 60 * SECOND
    assert eviction_time(a_pod(stays(-5)), [unreachable()], NOON) == NOON


def test_a_pod_that_came_after_the_taint_stays_from_when_it_came():
    pod = a_pod(stays(60), bound="2026-01-31T12:10:00Z")
    assert eviction_time(pod, [unreachable()], NOON) == NOON + 660 * SECOND


def test_of_several_taints_the_one_that_evicts_first_counts():
    other = Taint(key="broken", effect="NoExecute", time_added=NOON_TEXT)
    assert eviction_time(a_pod(stays(60), stays(30, key="broken")), [unreachable(), other], NOON) == NOON + 30 * SECOND


def test_a_taint_without_a_time_counts_from_when_it_was_seen():
    assert eviction_time(a_pod(stays(60)), [unreachable(added=None)], NOON) == NOON + 60 * SECOND
