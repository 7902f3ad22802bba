"""fairshare: the order of queues and users by what they have used, what is remembered, and what is told of it."""

import msgspec
import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    plan_for,
    policy,
    session_for,
    started,
    when,
)

from pumice import instant
from pumice.api import names
from pumice.scheduling.core import memory as memories
from pumice.scheduling.core.cycle import plan
from pumice.scheduling.core.memory import EMPTY, Memory
from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.plugins.fairshare import Fairshare
from pumice.scheduling.sharing.decayed_usage import SLOT, Usage

ALONE = policy("enqueue, allocate", "priority gang", "fairshare predicates")


def configured(*before, after=(), **arguments):
    option = {"name": "fairshare", "arguments": {name.replace("_", "-"): value for name, value in arguments.items()}}
    return policy("enqueue, allocate", ["priority", "gang"], [*before, option, "predicates", *after])


def remembering(queues=None, users=None, at=NOW):
    """A memory in which queues, or users in queue default, have used so many share-seconds."""
    own = {name: (float(value), 0.0) for name, value in (queues or {}).items()}
    theirs = {"default": {name: (float(value), 0.0) for name, value in (users or {}).items()}}
    return Memory({SLOT.name: Usage(at, own, theirs if users else {})})


def of(user, queue="default", **more):
    return {"annotations": {names.SUBMITTED_BY: user}, "queue": queue, **more}


# ------------------------------------------------------------------------------------------------------ order


def test_the_queue_that_has_used_less_is_served_first():
    things = (
        a_node(cpu="1"),
        a_queue("a"),
        a_queue("b"),
        a_gang("x", 1, group=of("u", "a")),
        a_gang("y", 1, group=of("u", "b")),
    )
    assert started(plan_for(*things, policy=ALONE, memory=remembering({"a": 10, "b": 20}))) == {"x": 1}
    assert started(plan_for(*things, policy=ALONE, memory=remembering({"a": 20, "b": 10}))) == {"y": 1}


def test_usage_counts_for_weight():
    things = (
        a_node(cpu="1"), a_queue("a", weight=3), a_queue("b"),
        a_gang("x", 1, group=of("u", "a")), a_gang("y", 1, group=of("u", "b")),
    )  # fmt: skip
    assert started(plan_for(*things, policy=ALONE, memory=remembering({"a": 29, "b": 10}))) == {"x": 1}
    assert started(plan_for(*things, policy=ALONE, memory=remembering({"a": 31, "b": 10}))) == {"y": 1}
    swapped = configured(queue_weights={"a": 1, "b": 3})
    assert started(plan_for(*things, policy=swapped, memory=remembering({"a": 10, "b": 29}))) == {"y": 1}


def test_branches_of_the_tree_are_compared_where_they_part():
    things = (
        a_node(cpu="1"), a_queue("a"), a_queue("b"), a_queue("a1", parent="a"), a_queue("b1", parent="b"),
        a_gang("x", 1, group=of("u", "a1")), a_gang("y", 1, group=of("u", "b1")),
    )  # fmt: skip
    used = {"a": 10, "a1": 50, "b": 20, "b1": 1}
    assert started(plan_for(*things, policy=ALONE, memory=remembering(used))) == {"x": 1}


def test_within_a_queue_the_user_who_has_used_less_is_served_first():
    things = a_node(cpu="1"), a_gang("x", 1, group=of("ann")), a_gang("y", 1, group=of("bob"))
    assert started(plan_for(*things, policy=ALONE, memory=remembering(users={"ann": 5}))) == {"y": 1}
    assert started(plan_for(*things, policy=ALONE, memory=remembering(users={"ann": 5, "bob": 6}))) == {"x": 1}
    heavy = configured(user_weights={"ann": 10})
    assert started(plan_for(*things, policy=heavy, memory=remembering(users={"ann": 5, "bob": 1}))) == {"x": 1}


def test_a_strict_priority_class_comes_before_fair_share():
    things = (
        a_node(cpu="1"), a_priority_class("high", 10),
        a_gang("x", 1, group=of("ann", priority_class="high")), a_gang("y", 1, group=of("bob")),
    )  # fmt: skip
    assert started(plan_for(*things, policy=ALONE, memory=remembering(users={"ann": 1000}))) == {"x": 1}


def test_queue_priority_comes_before_fair_share():
    things = (
        a_node(cpu="1"), a_queue("a", priority=1), a_queue("b"),
        a_gang("x", 1, group=of("u", "a")), a_gang("y", 1, group=of("u", "b")),
    )  # fmt: skip
    assert started(plan_for(*things, policy=ALONE, memory=remembering({"a": 1000}))) == {"x": 1}


def test_equal_users_take_turns_within_one_cycle():
    many = [a_gang(f"a{number}", 1, group=of("ann")) for number in range(8)]
    few = [a_gang(f"b{number}", 1, group=of("bob", created=9)) for number in range(8)]
    found = started(plan_for(a_node(cpu="6"), many, few, policy=ALONE))
    assert {name[0] for name in found} == {"a", "b"}
    assert sum(name[0] == "a" for name in found) == 3


def test_equal_queues_take_turns_by_weight_within_one_cycle_also_in_a_tree():
    queues = [a_queue("a", weight=2), a_queue("b"), *(a_queue(f"a{number}", parent="a") for number in range(6))]
    ours = [a_gang(f"x{number}", 1, group=of("u", f"a{number % 6}")) for number in range(12)]
    theirs = [a_gang(f"y{number}", 1, group=of("u", "b", created=9)) for number in range(12)]
    found = started(plan_for(a_node(cpu="9"), queues, ours, theirs, policy=ALONE))
    assert (sum(name[0] == "x" for name in found), sum(name[0] == "y" for name in found)) == (6, 3)


def test_a_newcomer_starts_before_ten_thousand_jobs_of_somebody_else():
    crowd = [a_gang(f"old{number}", 1, group=of("ann")) for number in range(500)]
    things = a_node(cpu="1", pods="9999"), crowd, a_gang("first", 1, group=of("bob", created=3000))
    assert started(plan_for(*things, policy=ALONE, memory=remembering(users={"ann": 1}))) == {"first": 1}


# ------------------------------------------------------------------------------------------------------ rights


def test_what_a_queue_deserves_comes_before_the_wishes_of_who_has_used_less():
    things = (
        a_node(cpu="4"), a_queue("due", deserved={"cpu": "2"}), a_queue("new", deserved={"cpu": "1"}),
        a_gang("held", 1, running=["n1"], group=of("u", "new")), a_gang("x", 3, cpu="1", group=of("u", "new")),
        a_gang("y", 2, cpu="1", group=of("u", "due")),
    )  # fmt: skip
    used = remembering({"due": 1000})
    assert started(plan_for(*things, policy=configured(after=["capacity"]), memory=used)) == {"y": 2}


def test_among_those_who_borrow_the_one_with_less_usage_goes_first():
    things = (
        a_node(cpu="2"), a_queue("a"), a_queue("b"), a_gang("x", 2, group=of("u", "a")), a_gang("y", 2, group=of("u", "b"))
    )  # fmt: skip
    beside = configured(after=["capacity"])
    assert started(plan_for(*things, policy=beside, memory=remembering({"a": 2, "b": 1}))) == {"y": 2}
    assert started(plan_for(*things, policy=beside, memory=remembering({"a": 1, "b": 2}))) == {"x": 2}


def test_shares_by_weight_are_not_exceeded_by_who_has_used_nothing():
    gangs = [a_gang(f"{queue}{number}", 1, group=of("u", queue)) for queue in "ab" for number in range(8)]
    things = a_node(cpu="8"), a_queue("a"), a_queue("b"), gangs
    found = started(plan_for(*things, policy=configured(after=["proportion"]), memory=remembering({"a": 9999})))
    assert sum(name[0] == "a" for name in found) == 4


# ------------------------------------------------------------------------------------------------------ users


def test_who_is_not_recorded_is_the_namespace_or_a_label_that_the_policy_trusts():
    things = a_node(cpu="1"), a_gang("x", 1, group={"labels": {names.USER: "ann"}}), a_gang("y", 1, group=of("bob"))
    used = remembering(users={"ann": 5, "bob": 3})
    assert started(plan_for(*things, policy=ALONE, memory=used)) == {"x": 1}  # as user `default`, who has used nothing
    assert started(plan_for(*things, policy=configured(trust_user_label=True), memory=used)) == {"y": 1}


# ------------------------------------------------------------------------------------------------------ memory


def test_a_gang_is_charged_from_its_commit_on():
    decisions = plan_for(a_node(cpu="4"), a_gang("x", 2, group=of("ann")), policy=ALONE)
    value = decisions.memory.of(SLOT)
    assert value == Usage(NOW, {"default": (0.0, 0.5)}, {"default": {"ann": (0.0, 0.5)}})


def test_usage_grows_while_something_is_held_and_rests_while_nothing_is():
    running = a_cluster(a_node(cpu="4"), a_gang("x", 2, running=["n1", "n1"], group=of("ann")))
    empty = a_cluster(a_node(cpu="4"))
    first = plan(running.snapshot(), ALONE, remembering(users={"ann": 1}), now=NOW).memory
    second = plan(running.snapshot(), ALONE, first, now=NOW + 4 * instant.SECOND).memory
    assert second.of(SLOT).users["default"]["ann"][0] == pytest.approx(1 + 0.5 * 4, rel=1e-3)
    third = plan(empty.snapshot(), ALONE, second, now=NOW + 8 * instant.SECOND).memory
    assert third.of(SLOT).users["default"]["ann"] == (pytest.approx(1 + 0.5 * 8, rel=1e-3), 0.0)
    last = plan(empty.snapshot(), ALONE, third, now=NOW + instant.HOUR).memory
    assert last is third, "an idle cluster writes nothing"


def test_an_idle_cluster_is_not_woken_by_it():
    assert plan_for(a_node(), policy=ALONE, memory=remembering({"default": 5})).next_change is None


def test_after_the_loss_of_the_memory_running_pods_are_charged_since_their_start():
    pods = {"status": {"startTime": when(3000)}}
    gang = a_gang("x", 2, running=["n1", "n1"], group=of("ann"), **pods)
    value = plan_for(a_node(cpu="4"), gang, policy=ALONE).memory.of(SLOT)
    assert value.users["default"]["ann"][0] == pytest.approx(0.5 * 600, rel=1e-2)
    assert value.queues["default"][0] == pytest.approx(0.5 * 600, rel=1e-2)


def test_what_ran_unseen_and_has_no_group_any_more_is_charged_by_what_its_pods_say():
    """A scheduler was away for ten minutes; meanwhile a Job came, ran on half of the cluster for 300 s, and took its PodGroup along."""
    notes = {names.JOB_QUEUE: "default", names.SUBMITTED_BY: "ann"}
    times = {"startTime": when(3100), "containerStatuses": [{"state": {"terminated": {"finishedAt": when(3400)}}}]}
    pods = [
        a_pod(f"x{number}", gang="gone", cpu="1", node="n1", phase="Succeeded", annotations=notes, status=times)
        for number in (0, 1)
    ]
    before = Memory({SLOT.name: Usage(NOW - 600 * instant.SECOND, {"default": (7.0, 0.0)}, {})})
    value = plan_for(a_node(cpu="4"), *pods, policy=ALONE, memory=before).memory.of(SLOT)
    assert value.at == NOW
    assert value.users["default"]["ann"] == (pytest.approx(0.5 * 300, rel=1e-2), 0.0)
    assert value.queues["default"] == (pytest.approx(7 + 0.5 * 300, rel=1e-2), 0.0)
    assert plan_for(a_node(cpu="4"), *pods, policy=ALONE, memory=Memory({SLOT.name: value})).memory.of(SLOT) == value


def test_billing_weights_price_what_is_held():
    priced = configured(billing_weights={"cpu": 1, "nvidia.com/gpu": 10, "memory": 0.5})
    node = a_node(cpu="10", memory="20Gi", gpu=8)
    value = plan_for(node, a_gang("x", 1, cpu="2", memory="4Gi", gpu=1, group=of("ann")), policy=priced).memory.of(SLOT)
    assert value.users["default"]["ann"][1] == pytest.approx((2 + 2 + 10) / (10 + 10 + 80))


def test_what_was_started_and_nobody_has_said_since_when_is_charged_beside_what_ended_just_before():
    """The watch of pods fell silent after `new` was bound: it was held when a cycle last looked, five minutes ago, and `old` was not any more."""
    times = {"startTime": when(3000), "containerStatuses": [{"state": {"terminated": {"finishedAt": when(3298)}}}]}
    old = a_gang("old", 2, running=["n1", "n1"], group=of("ann"), phase="Succeeded", status=times)
    new = a_gang("new", 2, running=["n1", "n1"], group=of("ann"), phase="Pending")
    used = Usage(NOW - 300 * instant.SECOND, {"default": (7.0, 0.5)}, {"default": {"ann": (7.0, 0.5)}})
    value = plan_for(a_node(cpu="4"), old, new, policy=ALONE, memory=Memory({SLOT.name: used})).memory.of(SLOT)
    assert value.users["default"]["ann"][0] == pytest.approx(7 + 0.5 * 300, rel=1e-2)
    assert value.queues["default"][0] == pytest.approx(7 + 0.5 * 300, rel=1e-2)


def test_a_pod_that_ended_without_having_begun_is_charged_nothing():
    ended = {"containerStatuses": [{"state": {"terminated": {"finishedAt": when(3500)}}}]}
    gone = a_gang("gone", 2, running=["n1", "n1"], group=of("ann"), phase="Succeeded", status=ended)
    used = Usage(NOW - 300 * instant.SECOND, {"default": (7.0, 0.0)}, {"default": {"ann": (7.0, 0.0)}})
    value = plan_for(a_node(cpu="4"), gone, policy=ALONE, memory=Memory({SLOT.name: used})).memory.of(SLOT)
    assert value.users["default"]["ann"] == (pytest.approx(7, rel=1e-2), 0)


def test_the_same_cluster_in_another_order_of_arrival_gives_the_same_decisions_and_memory():
    things = [
        a_node(cpu="5"), a_queue("a", weight=2), a_queue("b"),
        *(a_gang(f"g{number}", 1 + number % 2, group=of(f"u{number % 3}", "ab"[number % 2])) for number in range(9)),
    ]  # fmt: skip
    one, other = (plan_for(*each, policy=ALONE) for each in (things, list(reversed(things))))
    assert started(one) == started(other)
    assert memories.encode(one.memory, [SLOT]) == memories.encode(other.memory, [SLOT])


# ------------------------------------------------------------------------------------------------------ factors


def test_each_factor_is_told_of_gangs_that_wait():
    things = (
        a_node(cpu="4"), a_priority_class("high", 100), a_queue("default", priority=2), a_queue("other", priority=4),
        a_gang("big", 8, group=of("ann", priority_class="high", minimum={"cpu": "8"})),
        a_gang("half", 2, cpu="3", group=of("bob"), created=1800),
    )  # fmt: skip
    decisions = plan_for(*things, policy=configured(max_age="2h"), memory=remembering(users={"ann": 100, "bob": 300}))
    big, half = (decisions.factors[f"default/{name}"] for name in ("big", "half"))
    assert (big.priority_class, big.age, big.size, big.queue) == (1.0, 0.5, 1.0, 0.5)
    assert (half.priority_class, half.age, half.size) == (0.0, 0.25, 1.0)
    assert big.fair_share == pytest.approx(2**-0.5, abs=1e-3)
    assert half.fair_share == pytest.approx(2**-1.5, abs=1e-3)
    assert big.total == big.fair_share


@pytest.mark.parametrize(
    ("factors", "first"),
    [
        ({"fair-share": 1}, "small"),
        ({"size": 1, "fair-share": 0.1}, "large"),
        ({"size": -1, "fair-share": 0.01}, "small"),
        ({"age": 1, "fair-share": 0.1}, "aged"),
        ({"priority-class": 1, "fair-share": 0.1}, "classy"),
    ],
)
def test_the_weighted_sum_of_factors_ranks_gangs(factors, first):
    sums = policy(
        "allocate", ["gang"], [{"name": "fairshare", "arguments": {"factors": factors, "max-age": "1h"}}, "predicates"]
    )
    things = (
        a_priority_class("high", 10), a_gang("large", 4, group=of("ann", created=3000)), a_gang("aged", 2, group=of("ann")),
        a_gang("small", 1, group=of("bob", created=3100)), a_gang("classy", 1, group=of("ann", created=3200, priority_class="high")),
    )  # fmt: skip
    session = session_for(a_node(cpu="4"), *things, policy=sums, memory=remembering(users={"ann": 100}))
    assert min(session.gangs.values(), key=session.gang_key).spec.name == first


def test_usage_is_told_by_queue_and_user_with_what_is_fair():
    things = a_node(cpu="4"), a_queue("a", weight=3), a_queue("b"), a_gang("x", 1, group=of("ann", "a"))
    longest = 168 * 3600 / 0.6931471805599453
    used = Memory({SLOT.name: Usage(NOW, {"a": (longest / 2, 0.0)}, {"a": {"ann": (longest / 4, 0.0)}})})
    decisions = plan_for(*things, policy=ALONE, memory=used)
    own = decisions.usage["a"]
    assert (own.usage, own.weight, own.fair) == (0.5, 3, 0.75)
    assert own.users["ann"].usage == 0.25
    assert decisions.metrics[Fairshare.USAGE.name] == {("a",): 0.5, ("b",): 0.0}
    assert decisions.metrics[Fairshare.FAIR.name] == {("a",): 0.75, ("b",): 0.25}
    assert decisions.metrics[Fairshare.USER_USAGE.name] == {("a", "ann"): 0.25}


def test_metrics_name_no_more_users_than_their_limit():
    users = {f"u{number:03}": 1e5 + number for number in range(300)}
    found = plan_for(a_node(), policy=ALONE, memory=remembering(users=users)).metrics[Fairshare.USER_USAGE.name]
    assert len(found) == 100
    assert ("default", "u299") in found
    assert ("default", "u199") not in found


# ------------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"half-life": "0s"}, "half-life"),
        ({"half-life": "7 days"}, "half-life"),
        ({"queue-weights": {"a": 0}}, "queue-weights"),
        ({"billing-weights": {"cpu": -1}}, "billing-weights"),
        ({"factors": {"luck": 1}}, "luck"),
    ],
)
def test_arguments_that_make_no_sense_are_named(arguments, words):
    with pytest.raises(PolicyError, match=words):
        plan_for(a_node(), policy=policy("allocate", [{"name": "fairshare", "arguments": arguments}]))


def test_a_policy_without_it_remembers_nothing():
    decisions = plan_for(a_node(), a_gang("x", 1), policy=policy("allocate", "gang"), memory=EMPTY)
    assert SLOT.name not in decisions.memory.values
    assert decisions.factors == decisions.usage == {}


def test_its_memory_is_plain_data():
    decisions = plan_for(a_node(), a_gang("x", 1), policy=ALONE)
    assert msgspec.json.decode(SLOT.encode(decisions.memory.of(SLOT)))["value"]["users"] == {
        "default": {"default": [0.0, 0.25]}
    }
