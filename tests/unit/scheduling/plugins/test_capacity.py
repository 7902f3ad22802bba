import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_queue,
    an_object,
    binds,
    evicted,
    plan_for,
    policy,
    promised,
    report,
    session_for,
    started,
)

from pumice.cluster import amounts
from pumice.scheduling.core.points import EvictionKind
from pumice.scheduling.core.verdict import Cure

GI = 2**30


def capacity(*, hierarchy=False, **arguments):
    return {"name": "capacity", "enableHierarchy": hierarchy, "arguments": arguments}


def flat(actions="enqueue, allocate, reclaim", **arguments):
    return policy(actions, ["gang", capacity(**arguments)])


def tree(actions="enqueue, allocate, reclaim", **arguments):
    return policy(actions, ["gang", capacity(hierarchy=True, **arguments)])


def reclaiming(*, hierarchy=False, level=0):
    """Only capacity has a say on victims."""
    gang = {"name": "gang", "enableReclaimable": False}
    return policy("enqueue, allocate, reclaim", [gang, capacity(hierarchy=hierarchy, ancestorReclaimLevel=level)])


def in_queue(queue, **more):
    return {"queue": queue, **more}


def books(session, queue):
    """The account of a queue in an open session."""
    plugin = session.points.allocatable.hooks[0].call.most.__self__
    return plugin.paths[queue][0]


def reasons(decisions, gang):
    return [reason.text for reason in report(decisions, gang).reasons]


# ----------------------------------------------------------------------------------------------- flat: limits


def test_a_queue_borrows_beyond_what_it_deserves_up_to_its_capability():
    decisions = plan_for(
        a_node(cpu="8"),
        a_queue("q", deserved={"cpu": "1"}, capability={"cpu": "3"}),
        a_gang("g", 5, min_member=1, group=in_queue("q")),
        policy=flat(),
    )
    assert started(decisions) == {"g": 3}
    assert reasons(decisions, "g") == ["queue q has no quota left (cpu: 3 left of 3, the gang asks for 5)"]


def test_what_is_guaranteed_to_others_cannot_be_borrowed():
    decisions = plan_for(
        a_node(cpu="8"),
        a_queue("q"),
        a_queue("vip", guarantee={"cpu": "6"}),
        a_gang("g", 5, min_member=1, group=in_queue("q")),
        policy=flat(),
    )
    assert started(decisions) == {"g": 2}


def test_a_queues_own_guarantee_is_its_to_use():
    session = session_for(
        a_node(cpu="8"),
        a_queue("vip", guarantee={"cpu": "6"}),
        a_queue("other", guarantee={"cpu": "1"}),
        a_gang("g", 1, group=in_queue("vip")),
        policy=flat(),
    )
    assert books(session, "vip").ceiling["cpu"] == 7000


def test_resources_that_a_capability_does_not_mention_are_limited_by_the_cluster_alone():
    decisions = plan_for(
        a_node(cpu="8", gpu="4"),
        a_queue("q", capability={"cpu": "4"}),
        a_gang("g", 4, gpu="1", group=in_queue("q")),
        policy=flat(),
    )
    assert started(decisions) == {"g": 4}


def test_a_gpu_capability_of_zero_forbids_gpus_while_zero_cpu_means_not_set():
    queue = a_queue("q", capability={"cpu": "0", "nvidia.com/gpu": "0"})
    node = a_node(cpu="8", gpu="4")
    assert started(plan_for(node, queue, a_gang("g", 2, group=in_queue("q")), policy=flat())) == {"g": 2}
    assert started(plan_for(node, queue, a_gang("g", 2, gpu="1", group=in_queue("q")), policy=flat())) == {}


@pytest.mark.parametrize("state", ["Closed", "Closing"])
def test_nothing_starts_in_a_queue_that_is_not_open(state):
    gang = a_gang("g", 1, group=in_queue("q"))
    decisions = plan_for(a_node(), a_queue("q", state=state), gang, policy=flat())
    assert started(decisions) == {}
    assert reasons(decisions, "g") == [f"queue q is {state}: open it to admit gangs"]


def test_a_gang_that_asks_for_more_pods_than_the_quota_holds_is_not_started_at_all():
    decisions = plan_for(
        a_node(cpu="8"), a_queue("q", capability={"cpu": "3"}), a_gang("g", 4, group=in_queue("q")), policy=flat()
    )
    assert started(decisions) == {}


# ----------------------------------------------------------------------------------------------- flat: order


def test_queues_with_the_smaller_share_of_what_they_deserve_come_first():
    session = session_for(
        a_node(cpu="8"),
        a_queue("a", deserved={"cpu": "2"}),
        a_queue("b", deserved={"cpu": "4"}),
        a_gang("ra", 1, running=["n1"], group=in_queue("a", phase="Running")),
        a_gang("rb", 1, running=["n1"], group=in_queue("b", phase="Running")),
        policy=flat(),
    )
    assert session.queue_before(session.queues["b"], session.queues["a"])
    assert (books(session, "a").share, books(session, "b").share) == (0.5, 0.25)


def test_priority_comes_before_share_and_a_queue_that_deserves_something_before_one_that_does_not():
    session = session_for(
        a_node(cpu="8"),
        a_queue("first", priority=5),
        a_queue("full", deserved={"cpu": "1"}),
        a_queue("beggar"),
        a_gang("g1", 1, group=in_queue("first")),
        a_gang("g2", 1, running=["n1"], group=in_queue("full", phase="Running")),
        a_gang("g3", 1, group=in_queue("beggar")),
        policy=flat(),
    )
    queues = session.queues
    assert session.queue_before(queues["first"], queues["full"])
    assert books(session, "full").share == books(session, "beggar").share == 1.0
    assert session.queue_before(queues["full"], queues["beggar"])


def test_queues_take_turns_as_their_shares_grow():
    decisions = plan_for(
        a_node(cpu="3"),
        a_queue("big", deserved={"cpu": "2"}),
        a_queue("small", deserved={"cpu": "1"}),
        a_gang("g", 4, min_member=1, group=in_queue("big")),
        a_gang("h", 4, min_member=1, group=in_queue("small")),
        policy=flat(),
    )
    assert started(decisions) == {"g": 2, "h": 1}


# ----------------------------------------------------------------------------------------------- flat: admission


def test_a_gang_whose_minimum_fits_what_is_left_is_admitted_and_counts_for_the_next_one():
    decisions = plan_for(
        a_node(cpu="8"),
        a_queue("q", capability={"cpu": "3"}),
        a_group("first", 1, queue="q", phase="Pending", minimum={"cpu": "2"}, created=1),
        a_group("second", 1, queue="q", phase="Pending", minimum={"cpu": "2"}, created=2),
        policy=flat(),
    )
    assert report(decisions, "first").phase == "Inqueue"
    assert report(decisions, "second").phase == "Pending"
    (reason,) = report(decisions, "second").reasons
    assert reason.text == ("queue resource quota insufficient: insufficient cpu (queue q, cpu: holds 0, may hold 3)")
    assert reason.cure is Cure.WAITING


def test_a_minimum_that_the_queue_may_never_hold_is_not_worth_waiting_for():
    gang = a_group("g", 1, queue="q", phase="Pending", minimum={"cpu": "4"})
    decisions = plan_for(a_node(cpu="8"), a_queue("q", capability={"cpu": "3"}), gang, policy=flat())
    assert report(decisions, "g").phase == "Pending"
    assert [reason.cure for reason in report(decisions, "g").reasons] == [Cure.CHANGE]


def test_what_running_gangs_hold_beyond_their_minimums_does_not_keep_others_from_being_admitted():
    decisions = plan_for(
        a_node(cpu="8"),
        a_queue("q", capability={"cpu": "3"}),
        a_gang(
            "elastic", 3, min_member=1, running=["n1"] * 3, group=in_queue("q", phase="Running", minimum={"cpu": "1"})
        ),
        a_group("g", 1, queue="q", phase="Pending", minimum={"cpu": "2"}),
        policy=flat(),
    )
    assert report(decisions, "g").phase == "Inqueue"


def test_a_gang_that_waits_inside_keeps_its_place_from_those_outside():
    decisions = plan_for(
        a_node(cpu="1"),
        a_queue("q", capability={"cpu": "1"}),
        a_group("inside", 1, queue="q", phase="Inqueue", minimum={"cpu": "1"}),
        a_group("outside", 1, queue="q", phase="Pending", minimum={"cpu": "1"}),
        policy=flat(),
    )
    assert report(decisions, "outside").phase == "Pending"


# ----------------------------------------------------------------------------------------------- flat: reclaiming


def a_borrower(queue="rich", size=3, **pods):
    return a_gang("loan", size, min_member=1, running=["n1"] * size, group=in_queue(queue, phase="Running"), **pods)


def test_a_queue_takes_back_what_it_deserves_from_one_that_borrowed():
    decisions = plan_for(
        a_node(cpu="4"),
        a_queue("rich", deserved={"cpu": "2"}),
        a_queue("poor", deserved={"cpu": "2"}),
        a_borrower(size=4),
        a_gang("g", 2, group=in_queue("poor")),
        policy=reclaiming(),
    )
    assert evicted(decisions) == ["loan-w-3", "loan-w-2"]
    assert promised(decisions) == {"g-w-0": "n1", "g-w-1": "n1"}


def test_nobody_is_evicted_for_a_queue_that_has_what_it_deserves():
    decisions = plan_for(
        a_node(cpu="4"),
        a_queue("rich", deserved={"cpu": "1"}),
        a_queue("poor", deserved={"cpu": "1"}),
        a_borrower(),
        a_gang("mine", 1, running=["n1"], group=in_queue("poor", phase="Running")),
        a_gang("g", 1, group=in_queue("poor")),
        policy=reclaiming(),
    )
    assert evicted(decisions) == []


def test_one_resource_within_what_is_deserved_gives_the_right_to_reclaim():
    deserved = {"cpu": "2", "memory": "2Gi"}
    decisions = plan_for(
        a_node(cpu="4", memory="8Gi"),
        a_queue("rich", deserved={"cpu": "1", "memory": "1Gi"}),
        a_queue("poor", deserved=deserved),
        a_borrower(memory="1Gi"),
        a_pod("hog", gang="mine", cpu="1", memory="3Gi", node="n1"),
        a_group("mine", 1, queue="poor", phase="Running"),
        a_gang("g", 1, memory="1Gi", group=in_queue("poor")),
        policy=reclaiming(),
    )
    assert evicted(decisions) == ["loan-w-2"]


def test_a_claim_beyond_the_capability_is_no_claim():
    decisions = plan_for(
        a_node(cpu="3"),
        a_queue("rich", deserved={"cpu": "1"}),
        a_queue("poor", deserved={"cpu": "2", "memory": "1Gi"}, capability={"memory": "1Gi"}),
        a_borrower(),
        a_gang("g", 1, memory="2Gi", group=in_queue("poor")),
        policy=reclaiming(),
    )
    assert evicted(decisions) == []


def test_a_queue_keeps_what_it_is_guaranteed():
    decisions = plan_for(
        a_node(cpu="3"),
        a_queue("rich", guarantee={"cpu": "2"}),
        a_queue("poor", deserved={"cpu": "3"}),
        a_borrower(),
        a_gang("g", 2, group=in_queue("poor")),
        policy=reclaiming(),
    )
    assert evicted(decisions) == []
    decisions = plan_for(
        a_node(cpu="3"),
        a_queue("rich", guarantee={"cpu": "2"}),
        a_queue("poor", deserved={"cpu": "3"}),
        a_borrower(),
        a_gang("g", 1, group=in_queue("poor")),
        policy=reclaiming(),
    )
    assert evicted(decisions) == ["loan-w-2"]


def test_a_pod_that_holds_nothing_its_queue_deserves_is_there_on_sufferance():
    """Its queue deserves GPUs only, and the pod has none; the pod beside it holds the one GPU and stays."""
    decisions = plan_for(
        a_node(cpu="2", gpu="1"),
        a_queue("rich", deserved={"nvidia.com/gpu": "1"}),
        a_queue("poor", deserved={"cpu": "1"}),
        a_pod("with-gpu", gang="loan", gpu="1", node="n1"),
        a_pod("without", gang="loan", node="n1"),
        a_group("loan", 1, queue="rich", phase="Running"),
        a_gang("g", 1, group=in_queue("poor")),
        policy=reclaiming(),
    )
    assert evicted(decisions) == ["without"]


def test_the_last_victim_may_take_a_queue_below_what_it_deserves():
    decisions = plan_for(
        a_node(cpu="3"),
        a_queue("rich", deserved={"cpu": "2"}),
        a_queue("poor", deserved={"cpu": "3"}),
        a_borrower(size=1, cpu="3"),
        a_gang("g", 1, group=in_queue("poor")),
        policy=reclaiming(),
    )
    assert evicted(decisions) == ["loan-w-0"]


def test_pods_that_have_nothing_of_what_is_asked_for_are_not_evicted():
    decisions = plan_for(
        a_node(cpu="2", memory="4Gi", gpu="1", pods="2"),
        a_queue("rich"),
        a_queue("poor", deserved={"nvidia.com/gpu": "1"}),
        a_pod("small", gang="loan", cpu="1", node="n1"),
        a_pod("big", gang="loan", cpu=None, gpu="1", node="n1"),
        a_group("loan", 1, queue="rich", phase="Running"),
        a_gang("g", 1, cpu=None, gpu="1", group=in_queue("poor")),
        policy=reclaiming(),
    )
    assert evicted(decisions) == ["big"]


def test_a_whole_gang_reclaims_by_the_same_rules_and_preempts_without_them():
    session = session_for(
        a_node(cpu="3"),
        a_queue("rich", deserved={"cpu": "2"}),
        a_queue("poor", deserved={"cpu": "3"}),
        a_borrower(),
        a_gang("g", 2, group=in_queue("poor")),
        policy=flat(),
    )
    (hook,) = [hook for hook in session.points.evictable.hooks if hook.plugin == "capacity"]
    candidates = session.gangs["default/loan"].tasks
    claimant = session.gangs["default/g"]
    assert [task.name for task in hook.call(EvictionKind.RECLAIM, claimant, candidates)] == ["loan-w-0"]
    assert list(hook.call(EvictionKind.PREEMPT, claimant, candidates)) == list(candidates)


# ----------------------------------------------------------------------------------------------- tree: limits


def test_every_queue_on_the_path_to_the_root_limits_what_starts():
    decisions = plan_for(
        a_node(cpu="8"),
        a_queue("root"),
        a_queue("dept", parent="root", capability={"cpu": "3"}),
        a_queue("a", parent="dept"),
        a_queue("b", parent="dept"),
        a_gang("ga", 2, group=in_queue("a"), created=1),
        a_gang("gb", 3, min_member=1, group=in_queue("b"), created=2),
        policy=tree(),
    )
    assert started(decisions) == {"ga": 2, "gb": 1}
    assert reasons(decisions, "gb") == ["queue dept has no quota left (cpu: 1 left of 3, the gang asks for 3)"]


def test_admission_looks_at_ancestors_too():
    decisions = plan_for(
        a_node(cpu="8"),
        a_queue("root"),
        a_queue("dept", parent="root", capability={"cpu": "2"}),
        a_queue("a", parent="dept"),
        a_queue("b", parent="dept"),
        a_group("ga", 1, queue="a", phase="Pending", minimum={"cpu": "2"}),
        a_group("gb", 1, queue="b", phase="Pending", minimum={"cpu": "2"}),
        policy=tree(),
    )
    assert report(decisions, "ga").phase == "Inqueue"
    assert report(decisions, "gb").phase == "Pending"
    assert "(queue dept, cpu: holds 0, may hold 2)" in reasons(decisions, "gb")[0]


def test_children_inherit_the_limits_that_they_do_not_set_and_respect_their_siblings_guarantees():
    session = session_for(
        a_node(cpu="100"),
        a_queue("root"),
        a_queue("dept", parent="root", capability={"cpu": "10", "memory": "8Gi"}),
        a_queue("a", parent="dept", capability={"cpu": "20"}, guarantee={"cpu": "1"}),
        a_queue("b", parent="dept", guarantee={"cpu": "4"}),
        policy=tree(),
    )
    # Of dept's ten, b's four are set aside; a's own one is a's.
    assert books(session, "a").ceiling["cpu"] == 6000
    assert books(session, "a").ceiling["memory"] == 8 * GI
    assert books(session, "b").ceiling["cpu"] == 9000


def test_the_root_limits_only_what_its_capability_names():
    session = session_for(
        a_node(cpu="4", gpu="2"), a_queue("root", capability={"cpu": "100"}), a_queue("q"), policy=tree()
    )
    assert books(session, "q").ceiling["cpu"] == 100_000
    assert books(session, "q").ceiling["memory"] == amounts.UNLIMITED
    assert books(session, "q").ceiling["nvidia.com/gpu"] == amounts.UNLIMITED


def test_the_root_deserves_what_its_children_deserve_together():
    session = session_for(
        a_node(cpu="4"),
        a_queue("root", deserved={"cpu": "99"}),
        a_queue("a", deserved={"cpu": "1"}),
        a_queue("b", guarantee={"cpu": "2"}),
        policy=tree(),
    )
    assert books(session, "root").deserved == {"cpu": 3000}


def test_a_cluster_in_which_nobody_created_the_root_schedules_all_the_same():
    decisions = plan_for(a_node(), a_queue("q"), a_gang("g", 1, group=in_queue("q")), policy=tree())
    assert started(decisions) == {"g": 1}


# ----------------------------------------------------------------------------------------------- tree: faults


def a_broken_tree():
    return [
        a_queue("root"),
        a_queue("sound", parent="root", deserved={"cpu": "2"}),
        a_queue("lost", parent="gone"),
        a_queue("below", parent="lost"),
        a_queue("x", parent="y"),
        a_queue("y", parent="x"),
        a_queue("dept", parent="root"),
        a_queue("team", parent="dept"),
    ]


@pytest.mark.parametrize(
    ("queue", "fault"),
    [
        ("lost", "the parent of queue lost, gone, does not exist; create gone or give lost another parent"),
        ("below", "queue below is cut off: the parent of queue lost, gone, does not exist"),
        ("x", "its ancestors form a ring (x -> y -> x); give one of them a parent that leads to root"),
        ("dept", "queue dept has child queues and so takes no gangs itself; use one of team"),
    ],
)
def test_a_fault_in_the_tree_stops_its_own_branch_with_a_reason_and_nobody_else(queue, fault):
    decisions = plan_for(
        a_node(cpu="8"),
        a_broken_tree(),
        a_gang("bad", 1, group=in_queue(queue)),
        a_group("later", 1, queue=queue, phase="Pending", minimum={"cpu": "1"}),
        a_gang("good", 2, group=in_queue("sound", phase="Pending", minimum={"cpu": "2"})),
        a_gang("fine", 1, group=in_queue("team")),
        policy=tree(),
    )
    assert started(decisions) == {"good": 2, "fine": 1}
    assert report(decisions, "later").phase == "Pending"
    for gang in ("bad", "later"):
        (reason,) = report(decisions, gang).reasons
        assert fault in reason.text


def test_a_broken_queue_neither_reclaims_nor_loses_its_pods():
    lender = a_queue("sound", parent="root", deserved={"cpu": "4"})
    broken = a_queue("lost", parent="gone", deserved={"cpu": "4"})
    pods = a_gang("r", 4, min_member=1, running=["n1"] * 4, group=in_queue("lost", phase="Running"))
    decisions = plan_for(
        a_node(), a_queue("root"), lender, broken, pods, a_gang("g", 1, group=in_queue("sound")),
        policy=reclaiming(hierarchy=True),
    )  # fmt: skip
    assert evicted(decisions) == []
    pods = a_gang("r", 4, min_member=1, running=["n1"] * 4, group=in_queue("sound", phase="Running"))
    lender = a_queue("sound", parent="root")
    decisions = plan_for(
        a_node(), a_queue("root"), lender, broken, pods, a_gang("g", 1, group=in_queue("lost")),
        policy=reclaiming(hierarchy=True),
    )  # fmt: skip
    assert evicted(decisions) == []


def test_what_a_broken_queue_holds_still_counts_against_the_root():
    decisions = plan_for(
        a_node(cpu="8"),
        a_queue("root", capability={"cpu": "3"}),
        a_queue("sound", parent="root"),
        a_queue("lost", parent="gone"),
        a_gang("r", 2, running=["n1"] * 2, group=in_queue("lost", phase="Running")),
        a_gang("g", 4, min_member=1, group=in_queue("sound")),
        policy=tree(),
    )
    assert started(decisions) == {"g": 1}


# ----------------------------------------------------------------------------------------------- tree: orders


def departments():
    return [
        a_queue("root"),
        a_queue("d1", parent="root", deserved={"cpu": "4"}),
        a_queue("d2", parent="root", deserved={"cpu": "4"}),
        a_queue("a", parent="d1", deserved={"cpu": "4"}),
        a_queue("b", parent="d1", deserved={"cpu": "2"}),
        a_queue("c", parent="d2", deserved={"cpu": "1"}),
    ]


def test_leaves_of_different_branches_are_compared_by_their_branches():
    session = session_for(
        a_node(cpu="8"),
        departments(),
        a_gang("ga", 1, running=["n1"], group=in_queue("a", phase="Running")),
        a_gang("gb", 1, running=["n1"], group=in_queue("b", phase="Running")),
        a_gang("gc", 1, running=["n1"], group=in_queue("c", phase="Running")),
        policy=tree(),
    )
    queues = session.queues
    # c holds all that it deserves, but d2 holds a quarter and d1 half.
    assert session.queue_before(queues["c"], queues["a"])
    # Siblings by themselves: a quarter against half.
    assert session.queue_before(queues["a"], queues["b"])


def test_leaves_come_before_queues_with_children_and_those_among_themselves_go_by_share():
    session = session_for(
        a_node(cpu="8"),
        departments(),
        a_gang("gc", 1, running=["n1"], group=in_queue("c", phase="Running")),
        policy=tree(),
    )
    queues = session.queues
    assert session.queue_before(queues["c"], queues["d1"])
    assert session.queue_before(queues["d1"], queues["d2"])


def test_branches_take_turns_as_their_shares_grow():
    decisions = plan_for(
        a_node(cpu="4"),
        a_queue("root"),
        a_queue("d1", parent="root", deserved={"cpu": "2"}),
        a_queue("d2", parent="root", deserved={"cpu": "2"}),
        a_queue("a", parent="d1"),
        a_queue("b", parent="d2"),
        a_gang("ga", 4, min_member=1, group=in_queue("a")),
        a_gang("gb", 4, min_member=1, group=in_queue("b")),
        policy=tree(),
    )
    assert started(decisions) == {"ga": 2, "gb": 2}


def test_a_victim_in_the_family_goes_before_one_in_a_distant_branch():
    def plan(cousin_created, distant_created):
        return plan_for(
            a_node(cpu="2"),
            a_queue("root"),
            a_queue("d1", parent="root"),
            a_queue("d2", parent="root"),
            a_queue("me", parent="d1", deserved={"cpu": "1"}),
            a_queue("cousin", parent="d1"),
            a_queue("distant", parent="d2"),
            a_gang("gc", 1, running=["n1"], group=in_queue("cousin", phase="Running"), created=cousin_created),
            a_gang("gd", 1, running=["n1"], group=in_queue("distant", phase="Running"), created=distant_created),
            a_gang("g", 1, group=in_queue("me")),
            policy=reclaiming(hierarchy=True),
        )

    assert evicted(plan(1, 2)) == evicted(plan(2, 1)) == ["gc-w-0"]


# ----------------------------------------------------------------------------------------------- tree: reclaiming


def two_departments(*, victims_department, victims_queue="1"):
    """One node, full; the claimant's own queue and department deserve what it asks for."""
    return [
        a_node(cpu="2"),
        a_queue("root"),
        a_queue("mine", parent="root", deserved={"cpu": "2"}),
        a_queue("me", parent="mine", deserved={"cpu": "2"}),
        a_queue("theirs", parent="root", deserved={"cpu": victims_department}),
        a_queue("they", parent="theirs", deserved={"cpu": victims_queue}),
        a_gang("loan", 2, min_member=1, running=["n1"] * 2, group=in_queue("they", phase="Running")),
        a_gang("g", 1, group=in_queue("me")),
    ]


def test_with_a_level_the_victims_ancestors_must_have_borrowed_as_well():
    frugal = two_departments(victims_department="2")
    assert evicted(plan_for(*frugal, policy=reclaiming(hierarchy=True))) == ["loan-w-1"]
    assert evicted(plan_for(*frugal, policy=reclaiming(hierarchy=True, level=1))) == []
    greedy = two_departments(victims_department="1")
    assert evicted(plan_for(*greedy, policy=reclaiming(hierarchy=True, level=1))) == ["loan-w-1"]


def test_a_level_beyond_the_tree_never_asks_the_root():
    greedy = two_departments(victims_department="1")
    assert evicted(plan_for(*greedy, policy=reclaiming(hierarchy=True, level=9))) == ["loan-w-1"]


def test_with_a_level_an_ancestor_may_lend_the_right_to_reclaim():
    objects = [
        a_node(cpu="2"),
        a_queue("root"),
        a_queue("mine", parent="root", deserved={"cpu": "1"}),
        a_queue("me", parent="mine"),
        a_queue("they", parent="root"),
        a_gang("loan", 2, min_member=1, running=["n1"] * 2, group=in_queue("they", phase="Running")),
        a_gang("g", 1, group=in_queue("me")),
    ]
    assert evicted(plan_for(*objects, policy=reclaiming(hierarchy=True))) == []
    assert evicted(plan_for(*objects, policy=reclaiming(hierarchy=True, level=1))) == ["loan-w-1"]


def siblings(**mine):
    return [
        a_node(cpu="2"),
        a_queue("root"),
        a_queue("dept", parent="root", deserved={"cpu": "4"}),
        a_queue("me", parent="dept", **mine),
        a_queue("they", parent="dept"),
        a_gang("loan", 2, min_member=1, running=["n1"] * 2, group=in_queue("they", phase="Running")),
        a_gang("g", 1, group=in_queue("me")),
    ]


def test_siblings_that_deserve_nothing_do_not_take_from_one_another_by_their_parents_right():
    assert evicted(plan_for(*siblings(), policy=reclaiming(hierarchy=True, level=1))) == []


def test_a_sibling_that_deserves_something_itself_does():
    deserving = siblings(deserved={"cpu": "1"})
    assert evicted(plan_for(*deserving, policy=reclaiming(hierarchy=True, level=1))) == ["loan-w-1"]


def test_what_is_guaranteed_to_an_inner_queue_is_kept_from_strangers_but_not_from_the_family():
    def objects(claimants_parent):
        return [
            a_node(cpu="2"),
            a_queue("root"),
            a_queue("dept", parent="root", guarantee={"cpu": "2"}),
            a_queue("they", parent="dept"),
            a_queue("other", parent="root"),
            a_queue("me", parent=claimants_parent, deserved={"cpu": "1"}),
            a_gang("loan", 2, min_member=1, running=["n1"] * 2, group=in_queue("they", phase="Running")),
            a_gang("g", 1, group=in_queue("me")),
        ]

    assert evicted(plan_for(*objects("other"), policy=reclaiming(hierarchy=True))) == []
    assert evicted(plan_for(*objects("dept"), policy=reclaiming(hierarchy=True))) == ["loan-w-1"]


def test_each_victim_counts_as_gone_for_the_next_one():
    """They may lose one of two: after that their department no longer holds more than it deserves."""
    objects = two_departments(victims_department="1", victims_queue="0")
    session = session_for(*objects, policy=reclaiming(hierarchy=True, level=1))
    (hook,) = session.points.reclaimable.hooks
    (claimant,) = session.gangs["default/g"].tasks
    chosen = hook.call.choose(claimant, session.gangs["default/loan"].tasks)
    assert [task.name for task in chosen] == ["loan-w-1"]


# ----------------------------------------------------------------------------------------------- devices


def a_claim(name, device_class="gpu", count=1):
    request = {"name": "r", "exactly": {"deviceClassName": device_class, "count": count}}
    manifest = {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": [request]}}}
    return an_object("resource.k8s.io/v1", "ResourceClaim", manifest)


def with_claim(name):
    return {"spec": {"resourceClaims": [{"name": "d", "resourceClaimName": name}]}}


def test_devices_of_claims_count_against_the_queue():
    decisions = plan_for(
        a_node(cpu="8"),
        a_queue("q", capability={"deviceclass/gpu": "2"}),
        a_claim("a"),
        a_claim("b", count=2),
        a_claim("c"),
        a_pod("p-a", gang="ga", **with_claim("a")),
        a_pod("p-b", gang="gb", **with_claim("b")),
        a_pod("p-c", gang="gc", **with_claim("c")),
        [a_group(name, 1, queue="q", created=number) for number, name in enumerate(("ga", "gb", "gc"))],
        policy=flat(),
    )
    assert started(decisions) == {"ga": 1, "gc": 1}
    assert reasons(decisions, "gb") == ["queue q has no devices left: deviceclass/gpu"]


def test_pods_that_share_a_claim_share_its_device():
    decisions = plan_for(
        a_node(cpu="8"),
        a_queue("q", capability={"deviceclass/gpu": "1"}),
        a_claim("shared"),
        a_gang("g", 4, group=in_queue("q"), **with_claim("shared")),
        policy=flat(),
    )
    assert started(decisions) == {"g": 4}


def test_devices_that_run_already_count_on_every_level_of_the_tree():
    decisions = plan_for(
        a_node(cpu="8"),
        a_queue("root"),
        a_queue("dept", parent="root", capability={"deviceclass/gpu": "1"}),
        a_queue("a", parent="dept"),
        a_queue("b", parent="dept"),
        a_claim("x"),
        a_claim("y"),
        a_pod("p-x", gang="gx", node="n1", **with_claim("x")),
        a_group("gx", 1, queue="a", phase="Running"),
        a_pod("p-y", gang="gy", **with_claim("y")),
        a_group("gy", 1, queue="b"),
        policy=tree(),
    )
    assert started(decisions) == {}
    assert reasons(decisions, "gy") == ["queue dept has no devices left: deviceclass/gpu"]


def test_a_gang_whose_minimum_needs_more_devices_than_the_queue_has_is_not_admitted():
    decisions = plan_for(
        a_node(cpu="8"),
        a_queue("q", capability={"deviceclass/gpu": "1"}),
        a_claim("x"),
        a_claim("y"),
        a_pod("p-x", gang="g", **with_claim("x")),
        a_pod("p-y", gang="g", **with_claim("y")),
        a_group("g", 2, queue="q", phase="Pending", minimum={"cpu": "2"}),
        policy=flat(),
    )
    assert report(decisions, "g").phase == "Pending"
    assert reasons(decisions, "g") == [
        "queue resource quota insufficient: insufficient dra-resource-exceeded (queue q, deviceclass/gpu)"
    ]


def test_devices_promised_to_an_admitted_gang_are_not_promised_twice():
    decisions = plan_for(
        a_node(cpu="8"),
        a_queue("q", capability={"deviceclass/gpu": "1"}),
        a_claim("x"),
        a_claim("y"),
        a_pod("p-x", gang="gx", **with_claim("x")),
        a_group("gx", 1, queue="q", phase="Pending", minimum={"cpu": "1"}, created=1),
        a_pod("p-y", gang="gy", **with_claim("y")),
        a_group("gy", 1, queue="q", phase="Pending", minimum={"cpu": "1"}, created=2),
        policy=flat("enqueue"),
    )
    assert (report(decisions, "gx").phase, report(decisions, "gy").phase) == ("Inqueue", "Pending")


def test_device_quotas_can_be_switched_off():
    objects = [
        a_node(cpu="8"),
        a_queue("q", capability={"deviceclass/gpu": "1"}),
        a_claim("x", count=8),
        a_pod("p-x", gang="g", **with_claim("x")),
        a_group("g", 1, queue="q"),
    ]
    off = {"capacity.DynamicResourceAllocationEnable": False}
    assert binds(plan_for(*objects, policy=flat())) == {}
    assert binds(plan_for(*objects, policy=flat(**off))) == {"p-x": "n1"}


def test_an_attempt_that_is_rolled_back_leaves_no_trace_in_the_books():
    """The first gang finds room for two of three, the second one for all."""
    decisions = plan_for(
        a_node(cpu="2"),
        a_queue("q", capability={"cpu": "2", "deviceclass/gpu": "3"}),
        a_claim("x"),
        a_gang("big", 3, group=in_queue("q"), created=1, **with_claim("x")),
        a_gang("small", 2, group=in_queue("q"), created=2),
        policy=flat(),
    )
    assert started(decisions) == {"small": 2}
    session = session_for(
        a_node(cpu="2"),
        a_queue("q", capability={"cpu": "2", "deviceclass/gpu": "3"}),
        a_claim("x"),
        a_gang("big", 3, group=in_queue("q"), **with_claim("x")),
        policy=flat(),
    )
    gang = session.gangs["default/big"]
    shape = session.shape(gang.tasks[0])
    plugin = session.points.moved.hooks[0].call.__self__
    plugin.moved(gang, shape, gang.tasks, [0, 0, 0], 1)
    assert plugin.devices["q"].allocated == {"deviceclass/gpu": 1000}
    plugin.moved(gang, shape, gang.tasks, [0, 0, 0], -1)
    assert not any(books(session, "q").allocated.values())
    assert not any(plugin.devices["q"].allocated.values())
