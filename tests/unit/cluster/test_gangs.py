"""Groups, native groups and lone pods as gangs; sub groups."""

import pytest
from tests.unit.scheduling.clusters import a_cluster, a_gang, a_group, a_pod, a_priority_class, an_object

from pumice import instant
from pumice.api import names
from pumice.cluster.gangs import NO_POLICY, USER_CHARS_MAX, Closeness
from pumice.cluster.tasks import Status


def gang(*things, key="default/g"):
    return a_cluster(*things).snapshot().gangs[key]


def test_a_gang_has_what_its_group_says():
    found = gang(
        a_group(
            "g", 2, queue="research", phase="Running", roles={"ps": 1, "worker": 1}, annotations={"a": "b"},
            minimum={"cpu": "2", "requests.nvidia.com/gpu": "4"}, created=5,
        )
    ).spec  # fmt: skip
    assert (found.key, found.namespace, found.name, found.uid) == ("default/g", "default", "g", "default/g")
    assert (found.queue, found.min_member, found.phase) == ("research", 2, "Running")
    assert found.role_minimums == {"ps": 1, "worker": 1}
    assert found.minimum == {"cpu": 2000, "nvidia.com/gpu": 4000}
    assert found.annotations == {"a": "b"}
    assert not found.native


def test_a_group_that_says_nothing_waits_in_the_default_queue_without_a_minimum():
    found = gang(a_group("g", 1, queue="", phase="")).spec
    assert (found.queue, found.phase, found.minimum, found.closeness) == ("default", "Pending", None, None)


def test_members_are_counted_by_status_and_what_they_occupy_is_summed():
    found = gang(
        a_group("g", 1),
        a_pod("a", gang="g", cpu="1"),
        a_pod("b", gang="g", cpu="2", node="n1"),
        a_pod("c", gang="g", cpu="4", node="n1", phase="Pending"),
        a_pod("d", gang="g", cpu="8", node="n1", phase="Succeeded"),
    )
    assert {status: count for status, count in zip(Status, found.counts, strict=True) if count} == {
        Status.PENDING: 1,
        Status.RUNNING: 1,
        Status.BOUND: 1,
        Status.SUCCEEDED: 1,
    }
    assert found.occupied == {"cpu": 6000, "pods": 2000}


def test_members_stand_in_order_of_age_then_name():
    things = [a_pod("b", gang="g", created=1), a_pod("c", gang="g"), a_pod("a", gang="g", created=1)]
    assert [task.name for task in gang(a_group("g", 1), things).tasks] == ["c", "a", "b"]


# ------------------------------------------------------------------------------------------------------ priority


def test_a_gang_ranks_by_the_class_of_its_group_else_by_the_global_default_else_zero():
    high, usual = a_priority_class("high", 100), a_priority_class("usual", 5, default=True)
    named, silent = a_group("g", 1, priority_class="high"), a_group("g", 1)
    assert gang(high, usual, named).spec.priority == 100
    assert gang(high, usual, silent).spec.priority == 5
    assert gang(high, silent).spec.priority == 0
    assert gang(usual, named).spec.priority == 5


def test_priorities_follow_a_class_that_arrives_later():
    assert gang(a_group("g", 1, priority_class="high"), a_priority_class("high", 7)).spec.priority == 7


# ------------------------------------------------------------------------------------------------------ users


def test_the_user_of_a_gang_is_who_submitted_it_else_its_namespace():
    assert gang(a_group("g", 1, annotations={names.SUBMITTED_BY: "mia"})).spec.user == "mia"
    assert gang(a_group("g", 1, annotations={names.SUBMITTED_BY: ""})).spec.user == "default"
    assert gang(a_group("g", 1)).spec.user == "default"


def test_the_user_of_a_lone_pod_is_who_submitted_the_pod():
    cluster = a_cluster(a_pod("lone", annotations={names.SUBMITTED_BY: "mia"}))
    assert [each.spec.user for each in cluster.snapshot().gangs.values()] == ["mia"]


def test_a_label_names_the_user_only_where_it_is_trusted_and_nothing_is_recorded():
    recorded = {names.SUBMITTED_BY: "mia"}
    labelled = gang(a_group("g", 1, labels={names.USER: "tom"})).spec
    both = gang(a_group("g", 1, annotations=recorded, labels={names.USER: "tom"})).spec
    assert (labelled.user, labelled.user_by(trusts_label=True)) == ("default", "tom")
    assert (both.user, both.user_by(trusts_label=True)) == ("mia", "mia")


def test_long_names_of_users_are_cut_and_stay_distinct():
    users = [gang(a_group("g", 1, annotations={names.SUBMITTED_BY: "u" * 1000 + end})).spec.user for end in "ab"]
    assert users[0] != users[1]
    assert all(len(user) < USER_CHARS_MAX + 20 for user in users)


# ------------------------------------------------------------------------------------------------------ eviction of gangs


@pytest.mark.parametrize(
    ("notes", "preemptable", "forbids"),
    [
        ({}, False, False),
        ({names.PREEMPTABLE: "true"}, True, False),
        ({names.PREEMPTABLE: "false"}, False, True),
        ({names.PREEMPTABLE: "perhaps"}, False, True),
    ],
)
def test_a_group_that_says_nothing_is_not_preemptable_but_does_not_forbid_it_either(notes, preemptable, forbids):
    found = gang(a_group("g", 1, annotations=notes)).spec
    assert (found.preemptable, found.forbids_eviction) == (preemptable, forbids)
    found = gang(a_group("g", 1, labels=notes)).spec
    assert (found.preemptable, found.forbids_eviction) == (preemptable, forbids)


# ------------------------------------------------------------------------------------------------------ closeness


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (None, None),
        ({"mode": "hard", "highestTierAllowed": 2}, Closeness(hard=True, tier=2, tier_name="")),
        ({"mode": "soft"}, Closeness(hard=False, tier=None, tier_name="")),
        ({"highestTierName": "rack"}, Closeness(hard=True, tier=None, tier_name="rack")),
    ],
)
def test_closeness_is_hard_unless_it_says_soft(topology, expected):
    assert gang(a_group("g", 1, spec={"networkTopology": topology})).spec.closeness == expected


# ------------------------------------------------------------------------------------------------------ sub groups


def policies(*each):
    return {"subGroupPolicy": list(each)}


def shape(found):
    return {sub.key: [task.name for task in sub.tasks] for sub in found.sub_gangs}


def test_a_gang_without_policies_is_its_own_and_only_sub_gang():
    found = gang(a_gang("g", 3, min_member=2))
    assert shape(found) == {"default/g": ["g-w-0", "g-w-1", "g-w-2"]}
    assert (found.sub_gangs[0].policy, found.sub_gangs[0].minimum) == (NO_POLICY, 2)


def test_members_gather_by_their_values_under_the_policys_keys():
    part = {"name": "part", "matchLabelKeys": ["block", "row"], "subGroupSize": 2, "networkTopology": {"mode": "hard"}}
    found = gang(
        a_group("g", 1, spec=policies(part)),
        a_pod("a", gang="g", labels={"block": "1", "row": "x"}),
        a_pod("b", gang="g", labels={"block": "0", "row": "x"}),
        a_pod("c", gang="g", labels={"block": "1", "row": "x"}),
        a_pod("d", gang="g", labels={"block": "1"}),
    )
    assert shape(found) == {"default/g": ["d"], "default/g/part-0-x": ["b"], "default/g/part-1-x": ["a", "c"]}
    rest, _, one = found.sub_gangs
    assert (rest.policy, rest.minimum) == (NO_POLICY, 1)
    assert (one.policy, one.minimum, one.match_index) == (0, 2, 1)
    assert one.closeness == Closeness(hard=True, tier=None, tier_name="")


def test_the_first_policy_whose_selector_matches_takes_the_pod():
    workers = {"name": "w", "matchLabelKeys": ["block"], "labelSelector": {"matchLabels": {"role": "worker"}}}
    others = {"name": "o", "matchLabelKeys": ["block"]}
    found = gang(
        a_group("g", 1, spec=policies(workers, others)),
        a_pod("a", gang="g", labels={"block": "x", "role": "worker"}),
        a_pod("b", gang="g", labels={"block": "x", "role": "ps"}),
    )
    assert shape(found) == {"default/g/w-x": ["a"], "default/g/o-x": ["b"]}
    assert found.sub_gangs[0].match_index == 0


def test_a_policy_without_keys_captures_nobody():
    everybody = {"name": "e", "labelSelector": {}}
    assert shape(gang(a_group("g", 1, spec=policies(everybody)), a_pod("a", gang="g"))) == {"default/g": ["a"]}


def test_a_sub_gang_ranks_by_its_highest_member_and_never_below_zero():
    def rank(*priorities):
        pods = [a_pod(f"p{number}", gang="g", priority=own) for number, own in enumerate(priorities)]
        return gang(a_group("g", 1), pods).sub_gangs[0].priority

    assert rank(3, 8, 5) == 8
    assert rank(-3, -8) == 0
    assert rank() == 0


def test_members_that_were_bound_and_ended_together_hold_together():
    noon, one = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"
    bound = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": noon}]}
    ended = {"containerStatuses": [{"name": "c", "state": {"terminated": {"finishedAt": one}}}]}

    def member(name, phase, **status):
        return a_pod(name, gang="g", node="n1", phase=phase, cpu="2", status=status)

    found = gang(
        a_group("g", 1),
        member("a", "Running", startTime=noon),
        member("b", "Running", startTime=one, **bound),
        member("c", "Running"),
        a_pod("d", gang="g"),
        member("e", "Succeeded", **bound, **ended),
        member("f", "Failed"),
    )
    held = {tuple(times): own["cpu"] for *times, own in found.held_between}
    begin, end = map(instant.parse_instant, (noon, one))
    assert held == {(begin, None): 4000, (None, None): 2000, (begin, end): 2000}


# ------------------------------------------------------------------------------------------------------ native, lone


def native_group(name="g", annotations=None, **spec):
    return an_object(
        "scheduling.k8s.io/v1alpha2", "PodGroup",
        {"metadata": {"name": name, "namespace": "default", "uid": "native", "annotations": {names.QUEUE_NAME: "q", **(annotations or {})}},
         "spec": spec},
    )  # fmt: skip


def native_pod(name):
    return a_pod(name, spec={"schedulingGroup": {"podGroupName": "g"}})


def test_kubernetes_own_groups_are_gangs_that_need_no_admission():
    found = gang(
        native_group(schedulingPolicy={"gang": {"minCount": 2}}),
        native_pod("a"),
        native_pod("b"),
        key="default/native:g",
    )
    assert [task.name for task in found.tasks] == ["a", "b"]
    assert (found.spec.min_member, found.spec.queue, found.spec.phase) == (2, "q", "Inqueue")
    assert found.spec.native


@pytest.mark.parametrize(("estimate", "minutes"), [(None, 120), ("30m", 30)])
def test_the_time_limit_of_a_pod_of_a_native_group_is_an_estimate_because_nobody_ends_it(estimate, minutes):
    said = {names.TIME_LIMIT: "2h", **({names.RUNNING_ESTIMATE: estimate} if estimate else {})}
    pod = a_pod("a", spec={"schedulingGroup": {"podGroupName": "g"}}, annotations=said)
    found = gang(native_group(), pod, key="default/native:g").spec
    assert (found.time_limit, found.running_estimate) == (None, minutes * instant.MINUTE)


def test_the_time_limit_of_a_native_group_is_one():
    group = native_group(annotations={names.TIME_LIMIT: "2h"})
    assert gang(group, native_pod("a"), key="default/native:g").spec.time_limit == 2 * instant.HOUR


def test_a_native_group_without_a_gang_policy_places_pods_one_by_one():
    assert gang(native_group(schedulingPolicy={"basic": {}}), key="default/native:g").spec.min_member == 1


def test_a_native_group_and_a_podgroup_of_one_name_do_not_meet():
    snapshot = a_cluster(native_group(), a_group("g", 1), native_pod("a"), a_pod("b", gang="g")).snapshot()
    assert [task.name for task in snapshot.gangs["default/native:g"].tasks] == ["a"]
    assert [task.name for task in snapshot.gangs["default/g"].tasks] == ["b"]


def test_a_pod_of_ours_without_a_group_is_a_gang_of_one_already_admitted():
    found = gang(a_pod("p", priority=9, annotations={names.QUEUE_NAME: "q"}), key="default/pod:p").spec
    assert (found.min_member, found.queue, found.phase, found.priority) == (1, "q", "Inqueue", 9)


def test_a_lone_pod_ranks_by_its_class_before_its_number():
    pod = a_pod("p", priority=9, spec={"priorityClassName": "high"})
    assert gang(pod, a_priority_class("high", 50), key="default/pod:p").spec.priority == 50
