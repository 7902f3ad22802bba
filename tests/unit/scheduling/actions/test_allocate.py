"""allocate: whole gangs or nothing, queues in turn, idle room first."""

import msgspec
import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_hyper_node,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    binds,
    plan_for,
    policy,
    promised,
    report,
    started,
)

from pumice.cluster.tasks import Status
from pumice.scheduling.core.arguments import Args
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.policy import PluginOption
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.core.verdict import Reason

POLICY = policy("allocate", "priority gang", "predicates")
REFUSED = Reason(Code.NOT_HELD, "bypass")
LEAVING = {"deletionTimestamp": "2026-01-01T00:30:00Z"}


def plan(*things, policy=POLICY, **more):
    return plan_for(*things, policy=policy, **more)


# ------------------------------------------------------------------------------------------------------ gangs


@pytest.mark.parametrize(("cpus", "expected"), [(2, {}), (3, {"g": 3}), (4, {"g": 4})])
def test_a_gang_starts_with_its_minimum_or_not_at_all_and_grows_after_that(cpus, expected):
    assert started(plan(a_node(cpu=cpus), a_gang("g", 4, min_member=3))) == expected


def test_a_gang_that_cannot_start_leaves_its_room_to_others():
    assert started(plan(a_node(cpu="2"), a_gang("large", 3), a_gang("small", 2, created=9))) == {"small": 2}


def test_in_a_queue_of_strict_order_nobody_passes_a_gang_that_does_not_fit():
    strict, other = a_queue("strict", annotations={"pumice.dev/strict-order": "true"}), a_queue("other")
    gangs = [
        a_gang("first", 1, group={"queue": "strict"}),
        a_gang("large", 3, created=1, group={"queue": "strict"}),
        a_gang("small", 1, created=2, group={"queue": "strict"}),
        a_gang("elsewhere", 1, created=3, group={"queue": "other"}),
    ]
    decisions = plan(a_node(cpu="3"), strict, other, gangs)
    assert started(decisions) == {"first": 1, "elsewhere": 1}
    assert [reason.code for reason in report(decisions, "small").reasons] == [Code.BEHIND]
    assert "default/large ahead of it does not fit yet" in report(decisions, "small").message
    assert started(plan(a_node(cpu="3"), strict, other, gangs, explain=False)) == {"first": 1, "elsewhere": 1}


def test_a_gang_that_only_wants_to_grow_holds_up_nobody():
    strict = a_queue("strict", annotations={"pumice.dev/strict-order": "true"})
    growing = a_gang("growing", 3, min_member=1, running=["n1"], cpu="2", group={"queue": "strict"})
    small = a_gang("small", 1, created=1, group={"queue": "strict"})
    assert started(plan(a_node(cpu="3"), strict, growing, small)) == {"small": 1}


def test_two_gangs_never_start_half_of_each():
    assert started(plan(a_node(cpu="100"), a_gang("a", 64), a_gang("b", 64))) == {"a": 64}


def test_a_gang_that_needs_all_of_its_members_is_given_up_at_the_first_that_fits_nowhere():
    members = [a_pod("g-w-0", gang="g", cpu="9"), a_pod("g-w-1", gang="g"), a_pod("g-w-2", gang="g")]
    assert "Pending: 3 Unschedulable" in report(plan(a_node(), a_group("g", 3), members), "g").message
    assert "Pending: 1 Schedulable, 2 Unschedulable" in report(
        plan(a_node(cpu="1"), a_group("g", 2), members), "g"
    ).message  # fmt: skip


def test_members_that_run_count_for_the_minimum():
    assert started(plan(a_node("n1", cpu="4"), a_gang("g", 4, running=["n1", "n1"]))) == {"g": 2}


def test_a_gang_with_fewer_pods_than_its_minimum_is_set_aside():
    decisions = plan(a_node(), a_gang("g", 2, min_member=3))
    assert binds(decisions) == {}
    assert "Not enough valid tasks for gang-scheduling, valid: 2, min: 3" in report(decisions, "g").message


def test_gated_pods_wait_and_do_not_hold_up_a_gang_that_can_do_without():
    gated = a_pod("g-x-0", gang="g", spec={"schedulingGates": [{"name": "later"}]})
    assert binds(plan(a_node("n1"), a_gang("g", 1), gated)) == {"g-w-0": "n1"}
    assert binds(plan(a_node("n1"), a_gang("g", 1, min_member=2), gated)) == {}


def test_pods_that_ask_for_nothing_are_left_to_backfill_and_hold_no_gang_up():
    idle = a_pod("g-x-0", gang="g", cpu=None)
    assert binds(plan(a_node("n1"), a_gang("g", 1, min_member=2), idle)) == {"g-w-0": "n1"}


def test_without_enqueue_among_the_actions_every_gang_is_admitted():
    waiting = a_gang("g", 1, group={"phase": "Pending"})
    assert started(plan(a_node(), waiting)) == {"g": 1}
    assert report(plan(a_node(), waiting), "g").phase == "Inqueue"
    with_enqueue = policy("allocate, enqueue", "priority gang")
    assert started(plan(a_node(), waiting, policy=with_enqueue)) == {}


def test_an_unknown_phase_is_a_report_and_no_obstacle():
    assert started(plan(a_node(), a_gang("g", 1, group={"phase": "Unknown"}))) == {"g": 1}


def test_without_the_gang_plugin_every_pod_stands_for_itself():
    assert started(plan(a_node(cpu="2"), a_gang("g", 5), policy=policy("allocate", "priority"))) == {"g": 2}


# ------------------------------------------------------------------------------------------------------ roles


def roles(least, **minimums):
    return binds(plan_roles(least, **minimums))


def plan_roles(least, **minimums):
    nodes = [a_node("m", cpu="1", labels={"for": "master"}), a_node("w", cpu="1", labels={"for": "worker"})]
    pods = [
        a_pod(f"g-{role}-{number}", gang="g", role=role, priority=rank, spec={"nodeSelector": {"for": role}})
        for role, rank in (("master", 2), ("worker", 1))
        for number in range(2)
    ]
    return plan(nodes, a_group("g", least, roles=minimums), pods)


def test_a_role_that_has_its_minimum_may_fail_further_pods():
    assert roles(2, master=1, worker=1) == {"g-master-0": "m", "g-worker-0": "w"}


def test_a_role_that_is_short_of_its_minimum_ends_the_attempt():
    decisions = plan_roles(2, master=2, worker=0)
    assert binds(decisions) == {}
    assert "Pending: 1 Schedulable, 3 Unschedulable" in report(decisions, "g").message  # the workers were not tried


def test_role_minimums_that_exceed_minmember_together_do_not_bind():
    assert roles(1, master=2, worker=2) == {"g-master-0": "m", "g-worker-0": "w"}


def test_a_role_without_a_minimum_may_fail():
    nodes = a_node("w", cpu="1")
    pods = [a_pod("g-master-0", gang="g", role="master", cpu="9"), a_pod("g-worker-0", gang="g", role="worker")]
    assert binds(plan(nodes, a_group("g", 1), pods)) == {"g-worker-0": "w"}


# ------------------------------------------------------------------------------------------------------ order


def test_higher_classes_come_first_then_older_gangs_then_names():
    classes = [a_priority_class("high", 9)]
    world = [a_node(cpu="1"), classes]
    assert started(plan(*world, a_gang("a", 1), a_gang("b", 1, group={"priority_class": "high"}))) == {"b": 1}
    assert started(plan(*world, a_gang("a", 1, created=5), a_gang("b", 1))) == {"b": 1}
    assert started(plan(*world, a_gang("b", 1), a_gang("a", 1))) == {"a": 1}


def test_members_are_placed_by_priority_then_number_then_age():
    pods = [
        a_pod("g-w-2", gang="g", priority=1),
        a_pod("g-w-10", gang="g", priority=1),
        a_pod("g-w-11", gang="g", priority=5),
    ]
    assert list(binds(plan(a_node(cpu="2"), a_group("g", 1), pods))) == ["g-w-11", "g-w-2"]


def tied(name, node):
    """A member of gang g that can run on that node alone."""
    return a_pod(name, gang="g", spec={"nodeSelector": {"kubernetes.io/hostname": node}})


def test_a_member_that_can_go_anywhere_does_not_take_the_only_node_of_another():
    nodes = [a_node("n1", cpu="1"), a_node("n2", cpu="1")]
    gang = [a_group("g", 2), a_pod("w-0", gang="g"), tied("w-1", "n1")]
    assert binds(plan(*nodes, gang)) == {"w-0": "n2", "w-1": "n1"}


def test_where_that_does_not_help_either_the_gang_is_told_what_the_first_attempt_ran_into():
    nodes = [a_node("n1", cpu="1"), a_node("n2", cpu="1")]
    free, other = a_pod("w-0", gang="g"), a_pod("w-2", gang="g")
    decisions = plan(*nodes, a_group("g", 3), free, tied("w-1", "n1"), other)
    assert started(decisions) == {}
    said = {each.task.name: each.message for each in report(decisions, "g").pods}
    assert said["w-0"] == "Pod default/w-0 can possibly be assigned to n1, once minAvailable is satisfied"
    assert said["w-1"].startswith("0/2 nodes are unavailable: 1 Insufficient cpu, 1 node(s) didn't match Pod's node")


def test_elastic_growth_is_fair_pod_by_pod():
    """Both start; then each further pod goes to the gang that holds less."""
    fair = policy("allocate", "gang", "drf")
    decisions = plan(a_node(cpu="6"), a_gang("a", 9, min_member=1), a_gang("b", 9, min_member=1), policy=fair)
    assert started(decisions) == {"a": 3, "b": 3}


def test_queues_take_turns_by_what_they_hold():
    """Two queues of equal weight and demand on two cpus: one pod each."""
    sharing = policy("allocate", "priority gang", "proportion")
    world = [
        a_node(cpu="2"), a_queue("a"), a_queue("b"),
        a_gang("a", 2, min_member=1, group={"queue": "a"}), a_gang("b", 2, min_member=1, group={"queue": "b"}),
    ]  # fmt: skip
    decisions = plan(*world, policy=sharing)
    assert started(decisions) == {"a": 1, "b": 1}
    assert "queue a has no share left" in report(decisions, "a").reasons[0].text


def test_a_queue_that_is_overused_gets_no_more_turns():
    class Lid(Plugin):
        args_type = Args

        def __init__(self, args, option):
            pass

        def open(self, session):
            session.on.overused(lambda queue: queue.name == "a")

    with_lid = msgspec.structs.replace(POLICY, options=(*POLICY.options, PluginOption("lid", 9, {}, {})))
    world = [
        a_node(),
        a_queue("a"),
        a_queue("b"),
        a_gang("a", 1, group={"queue": "a"}),
        a_gang("b", 1, group={"queue": "b"}),
    ]
    assert started(plan(*world, policy=with_lid, extra_plugins={"lid": Lid})) == {"b": 1}


def test_a_member_that_a_detour_has_placed_is_not_placed_again():
    """Where a gang that wants closeness found no room, the line's own list of its members is as it was."""

    class Bypass(Plugin):
        args_type = Args

        def __init__(self, args, option):
            self.is_open = False

        def open(self, session):
            self.session = session
            session.on.gradient(lambda _, within, *, evicting: [[within]], why=lambda _: REFUSED)
            session.on.prefilter(lambda _: None if self.is_open else REFUSED)
            session.on.detour(self.detour)

        def detour(self, gang):
            if self.is_open:
                return None
            self.is_open = True
            task = gang.tasks[0]
            statement = self.session.statement()
            statement.place(Placement(gang, self.session.shape(task), [task], [0], Status.ALLOCATED))
            return statement

    with_bypass = msgspec.structs.replace(POLICY, options=(*POLICY.options, PluginOption("bypass", 9, {}, {})))
    close = a_gang("g", 2, min_member=1, group={"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}})
    decisions = plan(
        a_node("n1", cpu="1"), a_node("n2", cpu="1"), a_hyper_node("rack", 1, nodes=["n1", "n2"]), close,
        policy=with_bypass, extra_plugins={"bypass": Bypass},
    )  # fmt: skip
    assert [(bind.task.name, bind.node) for commit in decisions.commits for bind in commit.binds] == [
        ("g-w-0", "n1"),
        ("g-w-1", "n2"),
    ]


# ------------------------------------------------------------------------------------------------------ nodes


def test_idle_room_beats_room_that_is_being_released_whatever_the_score():
    packing = policy("allocate", "priority gang", "predicates binpack")
    full = [a_node("full", cpu="1"), a_pod("leaving", cpu="1", node="full", metadata=LEAVING)]
    assert binds(plan(full, a_node("empty", cpu="99"), a_gang("g", 1), policy=packing)) == {"g-w-0": "empty"}


def test_places_that_wait_for_a_release_are_kept_from_others_in_the_same_cycle():
    full = [a_node("n1", cpu="2"), a_pod("leaving", cpu="1", node="n1", metadata=LEAVING)]
    decisions = plan(full, a_gang("g", 2), a_gang("late", 1, created=9))
    assert binds(decisions) == {}
    assert promised(decisions) == {"g-w-1": "n1"}


def test_a_nominated_node_is_tried_first_and_forgotten_if_it_does_not_fit():
    nominated = {"status": {"nominatedNodeName": "n2"}}
    nodes = [a_node("n1", cpu="8"), a_node("n2", cpu="1")]
    packing = policy("allocate", "priority gang", ["predicates", {"name": "nodeorder"}])
    assert binds(plan(nodes, a_gang("g", 1, **nominated), policy=packing)) == {"g-w-0": "n2"}
    assert binds(plan(nodes, a_gang("g", 1, cpu="2", **nominated), policy=packing)) == {"g-w-0": "n1"}


def test_ties_go_to_the_older_node_then_by_name():
    nodes = [a_node("c", created=5), a_node("b"), a_node("a")]
    assert binds(plan(nodes, a_gang("g", 1))) == {"g-w-0": "a"}
    assert binds(plan([a_node("a", created=5), a_node("b")], a_gang("g", 1))) == {"g-w-0": "b"}


def test_a_node_that_shrank_below_what_it_holds_takes_nobody():
    assert binds(plan(a_node("n1", cpu="2"), a_pod("big", cpu="4", node="n1"), a_gang("g", 1))) == {}


def test_a_node_without_pod_slots_takes_nobody():
    assert binds(plan(a_node("n1", pods=None), a_gang("g", 1))) == {}


def test_a_cluster_without_nodes_starts_nobody():
    assert binds(plan(a_gang("g", 1))) == {}


# ------------------------------------------------------------------------------------------------------ stranded


def test_gangs_whose_queue_does_not_exist_and_groups_without_pods_do_no_harm():
    world = [a_node(), a_queue("a"), a_gang("lost", 1, group={"queue": "nowhere"}), a_group("empty", 1, queue="a"),
             a_gang("g", 1, group={"queue": "a"})]  # fmt: skip
    assert started(plan(*world)) == {"g": 1}


def test_lone_pods_are_started_too():
    assert binds(plan(a_node("n1"), a_pod("alone"))) == {"alone": "n1"}
