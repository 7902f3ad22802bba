import pytest
from tests.unit.scheduling.clusters import a_group, a_node, a_pod, an_object, plan_for, policy, report

from pumice.scheduling.core.verdict import Cure

ADMIT = policy("enqueue", "resourcequota")


def a_quota(hard, used=None, *, name="team", namespace="default", **spec):
    manifest = {
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or {}},
    }
    return an_object("v1", "ResourceQuota", manifest)


def waiting(name="g", min_member=2, minimum=None, **group):
    minimum = {"cpu": "2", "memory": "4Gi"} if minimum is None else minimum
    return a_group(name, min_member, phase="Pending", minimum=minimum, **group)


def phases(*objects):
    decisions = plan_for(a_node(), *objects, policy=ADMIT)
    return {key.partition("/")[2]: group.phase for key, group in decisions.gangs.items()}


def test_a_gang_that_fits_into_the_quota_of_its_namespace_is_admitted():
    assert phases(a_quota({"cpu": "3"}, {"cpu": "1"}), waiting()) == {"g": "Inqueue"}


def test_a_gang_that_does_not_fit_waits_and_is_told_the_numbers():
    decisions = plan_for(
        a_node(), a_quota({"cpu": "3", "memory": "6Gi"}, {"cpu": "2", "memory": "1Gi"}), waiting(), policy=ADMIT
    )
    assert report(decisions, "g").phase == "Pending"
    (reason,) = report(decisions, "g").reasons
    assert reason.text == (
        "resource quota insufficient, requested: cpu 2, used: cpu 2, limited: cpu 3 (ResourceQuota team)"
    )
    assert reason.cure is Cure.WAITING


def test_a_minimum_above_the_whole_quota_is_not_worth_waiting_for():
    decisions = plan_for(a_node(), a_quota({"memory": "1Gi"}), waiting(), policy=ADMIT)
    (reason,) = report(decisions, "g").reasons
    assert reason.text == (
        "resource quota insufficient, requested: memory 4Gi, used: memory 0, limited: memory 1Gi (ResourceQuota team)"
    )
    assert reason.cure is Cure.CHANGE


@pytest.mark.parametrize(
    ("hard", "minimum"),
    [
        ("requests.cpu", {"cpu": "2"}),
        ("cpu", {"requests.cpu": "2"}),
        ("limits.cpu", {"limits.cpu": "2"}),
        ("requests.nvidia.com/gpu", {"nvidia.com/gpu": "2"}),
        ("requests.nvidia.com/gpu", {"requests.nvidia.com/gpu": "2"}),
    ],
)
def test_a_request_counts_under_whichever_of_its_names_the_quota_uses(hard, minimum):
    assert phases(a_quota({hard: "1"}), waiting(minimum=minimum)) == {"g": "Pending"}
    assert phases(a_quota({hard: "2"}), waiting(minimum=minimum)) == {"g": "Inqueue"}


def test_limits_are_not_requests():
    assert phases(a_quota({"limits.cpu": "1"}), waiting(minimum={"cpu": "2"})) == {"g": "Inqueue"}


@pytest.mark.parametrize("name", ["pods", "count/pods"])
def test_members_count_as_pods_even_where_the_minimum_does_not_say_so(name):
    assert phases(a_quota({name: "1"}), waiting()) == {"g": "Pending"}
    assert phases(a_quota({name: "2"}), waiting()) == {"g": "Inqueue"}


def test_every_quota_of_the_namespace_counts_and_none_of_another():
    assert phases(a_quota({"cpu": "9"}, name="a"), a_quota({"memory": "1Gi"}, name="b"), waiting()) == {"g": "Pending"}
    assert phases(a_quota({"cpu": "1"}, namespace="elsewhere"), waiting()) == {"g": "Inqueue"}


def test_what_one_gang_was_promised_is_not_promised_to_the_next():
    first, second = waiting("first", created=1), waiting("second", created=2)
    decisions = plan_for(a_node(), a_quota({"cpu": "3"}), first, second, policy=ADMIT)
    assert (report(decisions, "first").phase, report(decisions, "second").phase) == ("Inqueue", "Pending")
    assert "promised to admitted gangs: cpu 2)" in report(decisions, "second").reasons[0].text


def test_a_gang_admitted_in_an_earlier_cycle_keeps_its_promise_until_its_pods_exist():
    inside = a_group("inside", 2, phase="Inqueue", minimum={"cpu": "2"})
    assert phases(a_quota({"cpu": "3"}), inside, waiting())["g"] == "Pending"
    pods = [a_pod(f"p{number}", gang="inside") for number in range(2)]
    assert phases(a_quota({"cpu": "5"}, {"cpu": "2"}), inside, *pods, waiting())["g"] == "Inqueue"


def test_pods_that_exist_already_are_not_counted_twice():
    """A Deployment's pods are in the quota before their group is admitted."""
    pods = [a_pod(f"p{number}", gang="g") for number in range(2)]
    assert phases(a_quota({"cpu": "2"}, {"cpu": "2"}), waiting(), *pods) == {"g": "Inqueue"}
    assert phases(a_quota({"cpu": "2"}, {"cpu": "2"}), waiting(), pods[0]) == {"g": "Pending"}
    failed = a_pod("p1", gang="g", phase="Failed", node="n1")  # a quota forgets it, and its place is to be filled
    assert phases(a_quota({"cpu": "1"}, {"cpu": "1"}), waiting(), pods[0], failed) == {"g": "Pending"}


@pytest.mark.parametrize(
    "scopes",
    [
        {"scopes": ["BestEffort"]},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["x"]}]}},
    ],
)
def test_quotas_with_scopes_are_left_to_the_api_server(scopes):
    assert phases(a_quota({"cpu": "1"}, **scopes), waiting()) == {"g": "Inqueue"}


def test_a_quota_that_nobody_has_counted_yet_limits_by_its_spec():
    quota = an_object(
        "v1", "ResourceQuota", {"metadata": {"name": "new", "namespace": "default"}, "spec": {"hard": {"cpu": "1"}}}
    )
    assert phases(quota, waiting()) == {"g": "Pending"}


def test_gangs_without_a_minimum_are_not_asked_for():
    assert phases(a_quota({"pods": "0"}), a_group("g", 2, phase="Pending")) == {"g": "Inqueue"}


def test_a_minimum_that_is_no_quantity_exceeds_every_quota():
    decisions = plan_for(a_node(), a_quota({"cpu": "3"}), waiting(minimum={"cpu": "1e1.5"}), policy=ADMIT)
    assert report(decisions, "g").phase == "Pending"
    assert decisions.failures == ()
