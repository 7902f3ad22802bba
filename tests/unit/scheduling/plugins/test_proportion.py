"""proportion: what each queue deserves, and what follows from it."""

import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_queue,
    plan_for,
    policy,
    report,
    session_for,
    started,
)

POLICY = policy("allocate", "gang", "proportion")
GPU = "nvidia.com/gpu"


def accounts(*things):
    session = session_for(*things, policy=POLICY)
    return session.points.overused.hooks[0].call.__self__.accounts


def wanting(queue, cpu, **more):
    """A queue whose gang asks for so many cpus, one pod each."""
    return a_gang(f"of-{queue}", cpu, min_member=1, group={"queue": queue}, **more)


def deserved_cpu(*things):
    return {name: account.deserved.get("cpu", 0) / 1000 for name, account in accounts(*things).items()}


# ------------------------------------------------------------------------------------------------------ water filling


def test_the_worked_example():
    """A of weight 1 wants 10, B of weight 3 wants 2, of 10: B gets its 2, and A all the rest."""
    world = [a_node(cpu="10"), a_queue("a", weight=1), a_queue("b", weight=3), wanting("a", 10), wanting("b", 2)]
    assert deserved_cpu(*world) == pytest.approx({"a": 8, "b": 2})


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ([a_queue("a"), a_queue("b")], {"a": 6, "b": 6}),
        ([a_queue("a"), a_queue("b", weight=3)], {"a": 3, "b": 9}),
        ([a_queue("a", capability={"cpu": "2"}), a_queue("b")], {"a": 2, "b": 10}),
        ([a_queue("a", guarantee={"cpu": "8"}), a_queue("b")], {"a": 8, "b": 4}),
        ([a_queue("a", capability={"cpu": "0"}), a_queue("b")], {"a": 6, "b": 6}),  # a zero of cpu means "not set"
    ],
)
def test_queues_share_by_weight_within_capability_and_guarantee(queues, expected):
    assert deserved_cpu(a_node(cpu="12"), queues, wanting("a", 12), wanting("b", 12)) == pytest.approx(expected)


@pytest.mark.parametrize("idle", range(8))
def test_queues_that_want_nothing_cost_the_others_not_a_hair(idle):
    """A twelfth of this and a sixth of that add up to 1999.9999999999998 thousandths, and a queue of two cards would get one."""
    others = [[a_queue(f"q{n}", weight=1 + n % 3), a_group(f"empty{n}", 1, queue=f"q{n}")] for n in range(idle)]
    queues = [a_queue("a", weight=1), a_queue("b", weight=2), a_queue("c", weight=3)]
    found = accounts(a_node(cpu="12"), others, queues, wanting("a", 12), wanting("b", 12), wanting("c", 12))
    assert {name: found[name].deserved["cpu"] for name in "abc"} == {"a": 2000, "b": 4000, "c": 6000}


def test_a_queue_deserves_its_guarantee_even_where_it_asks_for_less():
    world = [a_node(cpu="12"), a_queue("a", guarantee={"cpu": "8"}), a_queue("b"), wanting("a", 2), wanting("b", 12)]
    assert deserved_cpu(*world) == pytest.approx({"a": 8, "b": 4})


def test_guarantees_of_queues_without_gangs_are_set_aside():
    world = [a_node(cpu="12"), a_queue("a"), a_queue("idle", guarantee={"cpu": "8"}), wanting("a", 12)]
    assert accounts(*world)["a"].ceiling["cpu"] == 4000


def test_a_queue_deserves_nothing_that_it_does_not_ask_for():
    found = accounts(a_node(cpu="4", gpu=4), a_queue("a"), wanting("a", 2))["a"]
    assert (found.deserved["cpu"], found.deserved.get(GPU, 0)) == (2000, 0)


def test_weights_that_add_up_to_nothing_end_the_sharing():
    assert deserved_cpu(a_node(cpu="4"), a_queue("a", weight=0), wanting("a", 2)) == {"a": 0}


# ------------------------------------------------------------------------------------------------------ what follows


def test_a_queue_starts_no_more_than_it_deserves():
    world = [a_node(cpu="4"), a_queue("a"), a_queue("b"), wanting("a", 4), wanting("b", 4)]
    assert started(plan_for(*world, policy=POLICY)) == {"of-a": 2, "of-b": 2}


def test_slots_are_no_quota():
    """By its share of slots queue a would get two of four; it may use three, since nobody else can use them."""
    elsewhere = {"nodeSelector": {"zone": "nowhere"}}
    world = [a_node(cpu="8", pods="4"), a_queue("a"), a_queue("b"), wanting("a", 3), wanting("b", 4, spec=elsewhere)]
    with_filters = policy("allocate", "gang", "predicates proportion")
    assert started(plan_for(*world, policy=with_filters)) == {"of-a": 3}


def test_a_closed_queue_starts_nothing_and_says_so():
    decisions = plan_for(a_node(), a_queue("a", state="Closed"), wanting("a", 1), policy=POLICY)
    assert started(decisions) == {}
    assert report(decisions, "of-a").reasons[0].text == "queue a is Closed: open it to admit gangs"


def test_a_queue_that_holds_all_it_deserves_is_overused():
    world = [
        a_node("n1", cpu="2", memory=None, pods="2"),
        a_queue("a"),
        a_gang("g", 2, running=["n1", "n1"], group={"queue": "a"}),
    ]
    session = session_for(*world, policy=POLICY)
    assert session.points.overused.holds(session.queues["a"])
    session = session_for(*world, a_pod("more", gang="g"), policy=POLICY)
    assert session.points.overused.holds(session.queues["a"])  # it wants more than there is
    session = session_for(a_node("n2", cpu="1"), *world, a_pod("more", gang="g"), policy=POLICY)
    assert not session.points.overused.holds(session.queues["a"])


def test_queues_come_in_the_order_of_their_priority_then_of_their_share():
    world = [a_node("n1", cpu="8"), a_queue("a"), a_queue("b"), a_queue("c", priority=9, created=9)]
    gangs = [
        a_gang("a", 2, running=["n1", "n1"], group={"queue": "a"}),
        a_gang("b", 6, running=["n1"], min_member=1, group={"queue": "b"}),
    ]
    session = session_for(*world, gangs, wanting("c", 1), wanting("a", 4), policy=POLICY)
    by_name = session.queues
    assert session.queue_before(by_name["c"], by_name["a"])
    assert session.queue_before(by_name["b"], by_name["a"])


# ------------------------------------------------------------------------------------------------------ admission


def phase(*things, minimum, **queue):
    chosen = policy("enqueue", "gang", "proportion")
    waiting = a_group("g", 1, queue="a", phase="Pending", minimum=minimum)
    return report(plan_for(a_node("n1", cpu="10"), a_queue("a", **queue), *things, waiting, policy=chosen), "g")


def test_a_minimum_is_admitted_within_the_ceiling():
    assert phase(minimum={"cpu": "10"}).phase == "Inqueue"
    refused = phase(minimum={"cpu": "4", "memory": "1Gi"}, capability={"cpu": "3", "memory": "1Mi"})
    assert refused.phase == "Pending"
    assert refused.reasons[0].text == "queue resource quota insufficient: insufficient cpu, insufficient memory"


def test_what_is_held_and_admitted_counts_and_what_is_held_beyond_minimums_does_not():
    running = a_gang(
        "r", 4, running=["n1"] * 4, min_member=1, group={"queue": "a", "phase": "Running", "minimum": {"cpu": "1"}}
    )
    admitted = a_group("w", 1, queue="a", minimum={"cpu": "2"})
    assert phase(running, admitted, minimum={"cpu": "3"}, capability={"cpu": "6"}).phase == "Inqueue"
    assert phase(running, admitted, minimum={"cpu": "4"}, capability={"cpu": "6"}).phase == "Pending"


def test_resources_are_charged_where_pods_are_placed_and_taken_back_where_they_are_not():
    """The gang does not fit as a whole: its tries must leave nothing on its queue's books."""
    world = [
        a_node(cpu="3"),
        a_queue("a"),
        a_gang("large", 4, group={"queue": "a"}),
        a_gang("small", 3, created=9, group={"queue": "a"}),
    ]
    assert started(plan_for(*world, policy=POLICY)) == {"small": 3}


def each_wanting(gpus, **group):
    """Two queues, each with one gang of so many cards, on eight free cards."""
    gangs = [a_gang(f"of-{name}", gpus, gpu="1", group={"queue": name, **group}) for name in "ab"]
    return plan_for(a_node(cpu="64", gpu="8"), a_queue("a"), a_queue("b"), *gangs, policy=POLICY)


@pytest.mark.parametrize("group", [{}, {"minimum": {GPU: "6"}}], ids=["counted", "written"])
def test_a_minimum_beyond_what_its_queue_deserves_is_named_in_numbers(group):
    """Both gangs would wait for one another for ever beside eight free cards."""
    decisions = each_wanting(6, **group)
    assert started(decisions) == {}
    for name in "ab":
        expected = f"queue {name} deserves 4 nvidia.com/gpu, the gang's minimum is 6; it starts only while other queues want less, or with more weight"
        assert report(decisions, f"of-{name}").reasons[0].text == expected


def test_where_the_share_would_be_enough_but_is_in_use_nothing_is_said_of_the_minimum():
    held = a_gang("held", 4, gpu="1", running=["n1"] * 4, group={"queue": "a", "phase": "Running"})
    rest = a_gang("rest", 4, gpu="1", group={"queue": "b"})
    waiting = a_gang("w", 2, gpu="1", group={"queue": "a"})
    small = a_gang("v", 3, gpu="1", running=["n1"] * 3, group={"queue": "b", "phase": "Running"})
    decisions = plan_for(
        a_node(cpu="64", gpu="8"), a_queue("a"), a_queue("b"), held, small, rest, waiting, policy=POLICY
    )
    texts = [reason.text for each in decisions.gangs.values() for reason in each.reasons]
    assert not any("deserves" in text for text in texts)
    assert any("has no share left" in text for text in texts)
