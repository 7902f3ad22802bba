"""enqueue: one gang per queue and turn; whoever is refused holds nobody else up."""

import pytest
from tests.unit.scheduling.clusters import a_gang, a_group, a_node, a_pod, a_queue, plan_for, policy, report

ADMITTING = policy("enqueue", "priority gang", "overcommit proportion")


def waiting(name, cpu, *, size=0, created=0, **group):
    minimum = None if cpu is None else {"cpu": cpu}
    return a_gang(name, size, min_member=1, created=created, group={"phase": "Pending", "minimum": minimum, **group})


def phases(*things, policy=ADMITTING):
    decisions = plan_for(*things, policy=policy)
    return {key.partition("/")[2]: found.phase for key, found in decisions.gangs.items()}


def reasons(*things, gang, policy=ADMITTING):
    return [reason.text for reason in report(plan_for(*things, policy=policy), gang).reasons]


def test_a_gang_is_admitted_before_it_has_any_pods():
    assert phases(a_node(cpu="4"), waiting("g", "4")) == {"g": "Inqueue"}


@pytest.mark.parametrize("phase", ["Pending", ""])
def test_only_gangs_that_wait_for_admission_are_asked_about(phase):
    assert phases(a_node(cpu="4"), waiting("g", "99", phase="Inqueue"), waiting("h", "1", phase=phase)) == {
        "g": "Inqueue",
        "h": "Pending",
    }


def test_a_gang_without_a_minimum_enters_unasked_even_a_closed_queue():
    world = [a_node(cpu="1"), a_queue(state="Closed"), waiting("g", None), waiting("h", "1")]
    assert phases(*world) == {"g": "Inqueue", "h": "Pending"}
    assert reasons(*world, gang="h") == ["queue default is Closed: open it to admit gangs"]


def test_a_refused_gang_does_not_block_smaller_ones_behind_it():
    assert phases(a_node(cpu="4"), waiting("large", "99"), waiting("small", "1", created=9)) == {
        "large": "Pending",
        "small": "Inqueue",
    }


def test_what_is_admitted_counts_against_those_who_come_after():
    gangs = [waiting(f"g{number}", "2", created=number) for number in range(4)]
    assert phases(a_node(cpu="4"), gangs) == {"g0": "Inqueue", "g1": "Inqueue", "g2": "Pending", "g3": "Pending"}


def test_queues_are_served_in_their_order():
    world = [
        a_node(cpu="4"), a_queue("a", priority=1), a_queue("b", priority=9),
        waiting("old", "4", queue="a"), waiting("young", "4", queue="b", created=9),
    ]  # fmt: skip
    assert phases(*world) == {"old": "Pending", "young": "Inqueue"}


def test_a_plugin_that_refuses_leaves_nothing_charged_with_another():
    """proportion would admit, overcommit does not: the next gang must not pay for the refused one."""
    admitting = policy("enqueue", "priority gang", "proportion overcommit")
    world = [
        a_node(cpu="10"),
        a_pod("busy", cpu="6", node="n1"),
        waiting("large", "7"),
        waiting("small", "6", created=9),
    ]
    assert phases(*world, policy=admitting)["small"] == "Inqueue"


# ------------------------------------------------------------------------------------------------------ worked example


@pytest.mark.parametrize(("cpu", "phase"), [("3", "Inqueue"), ("4", "Pending")])
def test_overcommit_counts_what_is_used_and_what_is_admitted(cpu, phase):
    """10 cpu times 1.2, 6 used, 3 admitted: 3 more fit, 4 do not."""
    world = [
        a_node("n1", cpu="10"), a_pod("busy", cpu="6", node="n1", spec={"schedulerName": "other"}),
        a_group("admitted", 1, minimum={"cpu": "3"}), waiting("g", cpu),
    ]  # fmt: skip
    only_overcommit = policy("enqueue", "gang", "overcommit")
    assert phases(*world, policy=only_overcommit)["g"] == phase
    if phase == "Pending":
        assert reasons(*world, gang="g", policy=only_overcommit) == ["resource in cluster is overused: overused cpu"]
