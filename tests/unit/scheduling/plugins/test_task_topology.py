import numpy as np
import pytest
from tests.unit.scheduling.clusters import (
    a_group,
    a_node,
    a_pod,
    a_queue,
    binds,
    plan_for,
    policy,
    session_for,
)

from pumice.cluster.tasks import Status
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.plugins.task_topology import ROLES_MAX, read_wishes

NAME = "task-topology"
KEY = "volcano.sh/task-topology"
ALONE = policy("allocate", f"gang {NAME}")


def notes(*, affinity=None, anti=None, order=None):
    given = {"affinity": affinity, "anti-affinity": anti, "task-order": order}
    return {f"{KEY}-{what}": text for what, text in given.items() if text is not None}


def job(roles, *, annotations=None, running=None, cpu="1", min_member=None):
    """A gang `j` with so many pods `j-<role>-<n>` of each role; `running` maps pods to nodes."""
    running = running or {}
    names = [f"j-{role}-{number}" for role, count in roles.items() for number in range(count)]
    pods = [a_pod(name, gang="j", role=name.split("-")[1], cpu=cpu, node=running.get(name, "")) for name in names]
    return [a_group("j", len(names) if min_member is None else min_member, annotations=annotations or {}), pods]


def company(decisions):
    """Node -> roles of the pods that start there."""
    found = {}
    for pod, node in binds(decisions).items():
        found.setdefault(node, []).append(pod.split("-")[1])
    return {node: sorted(roles) for node, roles in found.items()}


def nodes(*names, cpu="4"):
    return [a_node(name, cpu=cpu) for name in names]


def scores(session, pod):
    """Node -> score of one pod."""
    gang = session.gangs["default/j"]
    (task,) = [each for each in gang.tasks if each.name == pod]
    table = session.room.table
    (own,) = session.points.live_score.of(session.shape(task), task, np.arange(len(table)))
    return dict(zip(table.names, own.tolist(), strict=True))


# ------------------------------------------------------------------------------------------------- placing


def test_roles_that_belong_together_share_a_node():
    things = job({"ps": 2, "worker": 2}, annotations=notes(affinity="ps,worker", anti="ps"))
    decisions = plan_for(nodes("n1", "n2", cpu="2"), things, policy=ALONE)
    assert company(decisions) == {"n1": ["ps", "worker"], "n2": ["ps", "worker"]}


def test_members_of_a_role_that_keeps_to_itself_are_spread():
    things = job({"ps": 3}, annotations=notes(anti="ps"))
    decisions = plan_for(nodes("n1", "n2", "n3"), things, policy=ALONE)
    assert company(decisions) == {"n1": ["ps"], "n2": ["ps"], "n3": ["ps"]}


def test_members_of_a_role_that_sticks_together_share_a_node():
    things = job({"worker": 3}, annotations=notes(affinity="worker"))
    with_spread = policy("allocate", "gang", [{"name": NAME, "arguments": {f"{NAME}.weight": 100}}, "nodeorder"])
    decisions = plan_for(nodes("n1", "n2", "n3"), things, policy=with_spread)
    assert len(company(decisions)) == 1


def test_roles_that_must_be_apart_get_different_nodes():
    things = job({"a": 1, "b": 1}, annotations=notes(anti="a,b"))
    decisions = plan_for(nodes("n1", "n2"), things, policy=ALONE)
    assert len(company(decisions)) == 2


def test_wishes_give_way_where_there_is_no_room():
    things = job({"ps": 2}, annotations=notes(anti="ps"))
    assert company(plan_for(nodes("n1"), things, policy=ALONE)) == {"n1": ["ps", "ps"]}


def test_a_member_that_comes_later_joins_its_bucket_on_its_node():
    things = job(
        {"ps": 1, "worker": 1}, annotations=notes(affinity="ps,worker"), running={"j-ps-0": "n2"}, min_member=1
    )
    assert binds(plan_for(nodes("n1", "n2"), things, policy=ALONE)) == {"j-worker-0": "n2"}


def test_a_gang_without_annotations_is_none_of_its_business():
    session = session_for(nodes("n1"), job({"ps": 1}), policy=ALONE)
    assert not session.points.live_score.hooks
    assert not session.points.task_order.hooks


# ------------------------------------------------------------------------------------------------- order


def ordered(*things):
    session = session_for(nodes("n1"), *things, policy=ALONE)
    return [task.name for task in session.in_placement_order(session.gangs["default/j"].tasks)]


def test_members_are_placed_bucket_by_bucket():
    things = job({"ps": 2, "worker": 2}, annotations=notes(affinity="ps,worker", anti="ps"))
    assert ordered(things) == ["j-ps-0", "j-worker-0", "j-ps-1", "j-worker-1"]


def test_the_fullest_bucket_comes_first_and_members_of_no_bucket_last():
    things = job({"ps": 2, "worker": 3, "other": 1}, annotations=notes(affinity="ps,worker", anti="ps"))
    assert ordered(things) == ["j-ps-0", "j-worker-0", "j-worker-2", "j-ps-1", "j-worker-1", "j-other-0"]


def test_the_order_that_the_group_gives_decides_within_a_bucket():
    things = job({"ps": 1, "worker": 1}, annotations=notes(affinity="ps,worker", order="worker,ps"))
    assert ordered(things) == ["j-worker-0", "j-ps-0"]


def test_a_role_that_is_only_named_in_the_order_has_no_bucket():
    things = job({"ps": 1, "worker": 1}, annotations=notes(affinity="worker", order="ps,worker"))
    assert ordered(things) == ["j-worker-0", "j-ps-0"]


# ------------------------------------------------------------------------------------------------- scores


def test_a_node_scores_by_what_of_the_bucket_it_could_take():
    things = job({"worker": 4}, annotations=notes(affinity="worker"))
    session = session_for(a_node("small", cpu="1"), a_node("big", cpu="4"), things, policy=ALONE)
    assert scores(session, "j-worker-0") == {"small": 25, "big": 100}


def test_members_that_are_there_count_and_those_to_avoid_count_against():
    things = job({"a": 1, "b": 1, "c": 1}, annotations=notes(affinity="a,b", anti="b,c"))
    session = session_for(nodes("n1", "n2"), things, policy=ALONE)
    statement = session.statement()
    gang = session.gangs["default/j"]
    task = {each.role: each for each in gang.tasks}
    before = scores(session, "j-b-0")
    statement.place(Placement(gang, session.shape(task["a"]), [task["a"]], [0], Status.ALLOCATED))
    statement.place(Placement(gang, session.shape(task["c"]), [task["c"]], [1], Status.ALLOCATED))
    assert scores(session, "j-b-0") == {"n1": 100, "n2": 0}
    statement.rollback()
    assert scores(session, "j-b-0") == before


def test_an_evicted_member_no_longer_draws_others():
    things = job(
        {"ps": 1, "worker": 1}, annotations=notes(affinity="ps,worker"), running={"j-ps-0": "n2"}, min_member=1
    )
    session = session_for(nodes("n1", "n2"), things, policy=ALONE)
    assert scores(session, "j-worker-0") == {"n1": 50, "n2": 100}
    statement = session.statement()
    statement.evict(next(task for task in session.gangs["default/j"].tasks if task.role == "ps"), "preempt")
    assert scores(session, "j-worker-0") == {"n1": 50, "n2": 50}
    statement.rollback()
    assert scores(session, "j-worker-0") == {"n1": 50, "n2": 100}


def test_the_weight_multiplies_the_score():
    things = job({"worker": 1}, annotations=notes(affinity="worker"))
    heavy = policy("allocate", ["gang", {"name": NAME, "arguments": {f"{NAME}.weight": 3}}])
    assert scores(session_for(nodes("n1"), things, policy=heavy), "j-worker-0") == {"n1": 300}


# ------------------------------------------------------------------------------------------------- annotations


def wishes(annotations, roles=("ps", "worker")):
    session = session_for(a_queue(), job(dict.fromkeys(roles, 1), annotations=annotations), policy=ALONE)
    return read_wishes(session.gangs["default/j"])


@pytest.mark.parametrize(
    "annotations",
    [
        notes(affinity="ps,nobody"),
        notes(affinity="ps,ps"),
        notes(anti="nobody"),
        notes(affinity="ps,worker", order="ps,nobody"),
        notes(affinity=";".join(["ps"] * (ROLES_MAX + 1))),
    ],
)
def test_wishes_that_name_a_role_twice_or_nobody_are_ignored_as_a_whole(annotations):
    assert wishes(annotations) is None


def test_blanks_and_empty_parts_mean_nothing():
    found = wishes(notes(affinity=" ps , worker ;", anti=""))
    assert found.together == {("ps", "worker"), ("worker", "ps")}
    assert found.apart == frozenset()


def test_the_strongest_wish_decides_how_early_a_role_is_placed():
    found = wishes(notes(affinity="ps,worker;worker", anti="ps"))
    assert found.urgency == {"ps": 4, "worker": 3}
