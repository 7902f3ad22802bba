"""What users are told after a cycle: phases, conditions, events' texts and pods' conditions, in the words that they grep for."""

import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_queue,
    binds,
    plan_for,
    policy,
    promised,
    report,
)

from pumice.scheduling.core import builtin
from pumice.scheduling.core.verdict import Cure

POLICY = policy("allocate, backfill", "priority gang", "predicates")
BUILT_IN = builtin.parse(builtin.TEXT, "built-in policy")
LEAVING = {"metadata": {"deletionTimestamp": "2026-01-01T00:30:00Z"}}
READY = "tasks in gang are ready to be scheduled"


def told(*things, gang="g", policy=POLICY, **more):
    return report(plan_for(*things, policy=policy, **more), gang)


def conditions(found):
    return {each.type: (each.status, each.reason, each.message) for each in found.conditions}


def pods(found):
    return {each.task.name: (each.reason, each.message) for each in found.pods}


# ------------------------------------------------------------------------------------------------------ worked examples


def test_a_gang_that_waits_for_room_to_be_released_keeps_its_tentative_places():
    decisions = plan_for(
        a_node("n1", cpu="3"), a_pod("leaving", cpu="1", node="n1", **LEAVING), a_gang("g", 3), policy=POLICY
    )
    found = report(decisions, "g")
    assert binds(decisions) == {}
    assert promised(decisions) == {"g-w-2": "n1"}
    possibly = "Pod default/{} can possibly be assigned to n1, once {}minAvailable is satisfied"
    assert pods(found) == {
        "g-w-0": ("Schedulable", possibly.format("g-w-0", "")),
        "g-w-1": ("Schedulable", possibly.format("g-w-1", "")),
        "g-w-2": ("Unschedulable", possibly.format("g-w-2", "resource is released and ")),
    }
    assert found.phase == "Inqueue"


def test_a_gang_that_lacks_one_place_says_how_far_it_got():
    found = told(a_node("n1", cpu="2"), a_gang("g", 3))
    text = (
        "pod group is not ready, 3 Pending, 3 minAvailable; Pending: 1 Unschedulable, 2 Schedulable. "
        "Origin reason is g-w-2: 0/1 nodes are unavailable: 1 Insufficient cpu."
    )
    assert conditions(found) == {
        "Unschedulable": (True, "NotEnoughResources", f"1/3 tasks in gang unschedulable: {text}")
    }
    assert found.message == f"3/3 tasks in gang unschedulable: {text}"
    possibly = "Pod default/{} can possibly be assigned to n1, once minAvailable is satisfied"
    assert pods(found) == {
        "g-w-0": ("Schedulable", possibly.format("g-w-0")),
        "g-w-1": ("Schedulable", possibly.format("g-w-1")),
        "g-w-2": ("Unschedulable", "0/1 nodes are unavailable: 1 Insufficient cpu."),
    }


def test_numbers_in_a_histogram_are_sorted_as_texts():
    found = told(a_node("n1", cpu="1"), a_gang("g", 10, min_member=2))
    assert (
        "pod group is not ready, 10 Pending, 2 minAvailable; Pending: 1 Schedulable, 9 Unschedulable" in found.message
    )


# ------------------------------------------------------------------------------------------------------ fit errors


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({"cpu": "9"}, "0/3 nodes are unavailable: 3 Insufficient cpu."),
        ({"memory": "99Gi"}, "0/3 nodes are unavailable: 3 Insufficient memory."),
        ({"cpu": "9", "memory": "99Gi", "gpu": 1}, "0/3 nodes are unavailable: 3 Insufficient cpu."),
        ({"gpu": 1}, "0/3 nodes are unavailable: 3 Insufficient nvidia.com/gpu."),
        ({"cpu": "3"}, "0/3 nodes are unavailable: 1 node(s) were unschedulable, 2 Insufficient cpu."),
        (
            {"spec": {"nodeSelector": {"zone": "west"}}},
            "0/3 nodes are unavailable: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector.",
        ),
    ],
)
def test_the_fit_error_counts_nodes_by_the_first_thing_that_they_lack(pod, expected):
    closed = a_node("n3", cpu="4", spec={"unschedulable": True})
    found = told(a_node("n1", cpu="2"), a_node("n2", cpu="2"), closed, a_gang("g", 1, **pod))
    assert pods(found) == {"g-w-0": ("Unschedulable", expected)}


def test_a_cluster_without_nodes_says_so():
    assert pods(told(a_gang("g", 1)))["g-w-0"] == ("Unschedulable", "0/0 nodes are unavailable")


def test_a_full_node_says_what_is_short_even_if_it_is_a_slot():
    found = told(a_node("n1", pods="1"), a_pod("busy", node="n1"), a_gang("g", 1))
    assert pods(found)["g-w-0"] == ("Unschedulable", "0/1 nodes are unavailable: 1 Insufficient pods.")


def test_members_of_a_role_that_has_failed_are_skipped_and_told_so():
    found = told(
        a_node("n1", cpu="1"),
        a_group("g", 1),
        a_pod("g-ps-0", gang="g", role="ps", cpu="9"),
        a_pod("g-ps-1", gang="g", role="ps", cpu="8"),
        a_pod("g-w-0", gang="g", role="worker", cpu="8"),
    )
    assert pods(found)["g-ps-1"] == (
        "Unschedulable",
        "Task g-ps-1 with role spec ps has already predicated failed, skip",
    )


def test_a_pod_that_waits_for_its_gang_only_has_the_gangs_text():
    found = told(a_node("n1"), a_gang("g", 1, min_member=2))
    text = (
        "pod group is not ready, 1 Pending, 2 minAvailable; Pending: 1 Unschedulable. "
        "Origin reason is Not enough valid tasks for gang-scheduling, valid: 1, min: 2"
    )
    assert pods(found) == {"g-w-0": ("Unschedulable", text)}


def test_a_pod_that_was_not_looked_at_yet_does_not_blame_the_nodes():
    found = told(a_node("n1", cpu="8"), a_gang("g", 3, min_member=1, running=["n1"]), budget=0)
    text = "pod group is ready, 1 Running, 1 minAvailable, 2 Pending; Pending: 2 Unschedulable"
    assert pods(found) == {"g-w-1": ("Unschedulable", text), "g-w-2": ("Unschedulable", text)}


def test_pods_that_start_or_are_gated_get_no_condition_of_ours():
    gated = a_pod("g-x-0", gang="g", spec={"schedulingGates": [{"name": "later"}]})
    found = told(a_node("n1", cpu="2"), a_gang("g", 2), gated)
    assert pods(found) == {}


# ------------------------------------------------------------------------------------------------------ conditions


def test_a_gang_that_starts_is_scheduled():
    found = told(a_node("n1", cpu="2"), a_gang("g", 2))
    assert conditions(found) == {"Scheduled": (True, READY, "")}
    assert found.message == ""


def test_conditions_turn_back_when_the_facts_do():
    was = [{"type": "Unschedulable", "status": "True"}]
    found = told(a_node("n1", cpu="2"), a_gang("g", 2, group={"conditions": was}))
    assert conditions(found) == {"Scheduled": (True, READY, ""), "Unschedulable": (False, READY, "")}
    was = [{"type": "Scheduled", "status": "True"}]
    found = told(a_node("n1", cpu="1"), a_gang("g", 2, group={"conditions": was}))
    assert conditions(found)["Scheduled"][:2] == (False, "NotEnoughResources")
    assert conditions(found)["Unschedulable"][:2] == (True, "NotEnoughResources")


def test_without_the_gang_plugin_nobody_speaks_of_gangs():
    assert conditions(told(a_node("n1"), a_gang("g", 9), policy=policy("allocate", "priority"))) == {}


def test_a_group_that_enqueue_refuses_says_why_in_its_condition():
    group = a_group("g", 8, phase="Pending", spec={"minResources": {"nvidia.com/gpu": "8"}})
    found = told(a_node("n1", gpu=6), group, policy=BUILT_IN)
    ((kind, status, text),) = [(each.type, each.status, each.message) for each in found.conditions]
    assert (kind, status, found.phase) == ("Unschedulable", True, "Pending")
    assert text == found.reasons[0].text


def test_a_gang_without_pods_says_whom_it_waits_for():
    found = told(a_node("n1"), a_group("g", 2))
    text = "no pods yet: 0 of 2 members are created"
    (condition,) = found.conditions
    assert (condition.type, condition.status, condition.reason) == ("Unschedulable", True, "NotEnoughTasks")
    assert condition.message == text
    assert (found.phase, found.message) == ("Inqueue", text)
    assert [(reason.plugin, reason.text, reason.cure) for reason in found.reasons] == [("gang", text, Cure.WAITING)]


@pytest.mark.parametrize(
    "group", [a_group("g", 0), a_group("g", 2, phase="Completed"), a_group("g", 2, phase="Running")],
    ids=["needs nobody", "is done", "has run"],
)  # fmt: skip
def test_who_does_not_wait_for_pods_does_not_say_so(group):
    assert told(a_node("n1"), group).message == ""


def test_a_gang_that_is_not_admitted_speaks_of_that_before_its_pods():
    refused = told(
        a_node("n1", cpu="1"), a_group("g", 2, phase="Pending", minimum={"cpu": "9"}),
        policy=policy("enqueue, allocate", "gang overcommit"),
    )  # fmt: skip
    assert "no pods yet" not in refused.message
    assert refused.message.startswith("can never run here")


# ------------------------------------------------------------------------------------------------------ no group


def orphans(*pods, known=()):
    found = plan_for(a_node("n1"), *known, *pods, policy=POLICY).orphans
    return {key: [(each.task.name, each.reason, each.message) for each in verdicts] for key, verdicts in found.items()}


REPLICA = {
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}]
}


@pytest.mark.parametrize(
    ("pod", "key", "text"),
    [
        (a_pod("p", gang="lost"), "default/lost",
         "waits for PodGroup default/lost, which does not exist; create it, or correct the pod's annotation"),
        (a_pod("p", metadata=REPLICA), "default/podgroup-w",
         "waits for PodGroup default/podgroup-w, which nobody has made for its workload; see that `pumice controllers` runs"),
        (a_pod("p", spec={"schedulingGroup": {"podGroupName": "lost"}}), "default/native:lost",
         "waits for PodGroup default/lost of scheduling.k8s.io, which does not exist; create it"),
    ],
    ids=["named", "of a workload", "native"],
)  # fmt: skip
def test_a_pod_whose_group_does_not_exist_says_which_one_it_waits_for(pod, key, text):
    assert orphans(pod) == {key: [("p", "PodGroupNotFound", text)]}


def test_a_pod_that_waits_for_nobody_is_no_orphan():
    waiting = a_pod("p", gang="here")
    assert orphans(waiting, known=[a_group("here", 2)]) == {}
    assert orphans(a_pod("lone")) == {}
    assert orphans(a_pod("theirs", gang="lost", spec={"schedulerName": "somebody-else"})) == {}
    assert orphans(a_pod("on-a-node", gang="lost", node="n1")) == {}
    assert orphans(a_pod("gated", gang="lost", spec={"schedulingGates": [{"name": "x"}]})) == {}


def test_a_gang_on_its_way_out_is_left_alone():
    pods_ = [a_pod(f"g-w-{number}", gang="g", node="n1", **LEAVING) for number in range(2)]
    found = told(a_node("n1"), a_group("g", 2, phase="Running"), pods_)
    assert (found.conditions, found.phase) == ((), "Running")


def test_a_gang_whose_queue_does_not_exist_is_told_so():
    found = told(a_node("n1"), a_queue("default"), a_gang("g", 1, group={"queue": "nowhere"}))
    text = "queue nowhere does not exist; create it or name another one"
    assert [reason.text for reason in found.reasons] == [text]
    assert conditions(found)["Unschedulable"] == (
        True,
        "NotEnoughResources",
        f"1/1 tasks in gang unschedulable: {text}",
    )
    assert found.pods == ()


# ------------------------------------------------------------------------------------------------------ phases


def members(*statuses):
    """Pods of gang g: `pending`, `bound`, `running`, `done`, `failed` or `leaving`."""
    made = []
    for number, status in enumerate(statuses):
        more = {
            "pending": {"cpu": "99"},
            "bound": {"node": "n1", "phase": "Pending"},
            "running": {"node": "n1"},
            "done": {"node": "n1", "phase": "Succeeded"},
            "failed": {"node": "n1", "phase": "Failed"},
            "leaving": {"node": "n1", **LEAVING},
        }[status]
        made.append(a_pod(f"g-w-{number}", gang="g", **{"cpu": "1", **more}))
    return made


@pytest.mark.parametrize(
    ("was", "least", "statuses", "phase"),
    [
        ("Inqueue", 2, ["pending", "pending"], "Inqueue"),
        ("Inqueue", 2, ["bound", "pending"], "Inqueue"),
        ("Inqueue", 2, ["bound", "bound"], "Running"),
        ("Inqueue", 2, ["running", "pending"], "Unknown"),
        ("Running", 2, ["running", "running"], "Running"),
        ("Running", 2, ["running", "pending"], "Unknown"),
        ("Running", 2, ["bound", "pending"], "Pending"),
        ("Unknown", 2, ["pending", "pending"], "Pending"),
        ("Unknown", 2, ["running", "running"], "Running"),
        ("Running", 2, ["done", "failed"], "Completed"),
        ("Running", 2, ["done", "running"], "Running"),
        ("Running", 1, ["failed", "running"], "Running"),
        ("Running", 3, ["done", "done"], "Pending"),
        ("Completed", 2, ["done", "done"], "Completed"),
        ("Completed", 2, ["done"], "Completed"),
        ("Completed", 2, [], "Completed"),
        ("Completed", 1, ["running"], "Running"),
        ("Running", 2, ["leaving", "leaving"], "Running"),
        ("Running", 2, ["leaving", "done"], "Running"),
        ("", 0, [], "Completed"),
        ("Running", 0, [], "Completed"),
        ("Inqueue", 0, [], "Completed"),
        ("Completed", 0, ["pending"], "Pending"),
        ("Inqueue", 0, ["pending"], "Inqueue"),
        ("Running", 0, ["done"], "Completed"),
        ("Running", 1, ["running", "pending"], "Running"),
    ],
)
def test_the_phase_follows_what_the_members_do(was, least, statuses, phase):
    found = told(
        a_node("n1", cpu="4"), a_group("g", least, phase=was), members(*statuses), policy=policy("allocate", "gang")
    )
    assert found.phase == phase


def test_members_are_counted_for_the_status():
    found = told(a_node("n1", cpu="9"), a_group("g", 1), members("running", "running", "done", "failed", "pending"))
    assert (found.running, found.succeeded, found.failed) == (2, 1, 1)


def test_a_gang_that_was_just_admitted_is_inqueue_and_a_refused_one_stays_pending():
    admitting = policy("enqueue, allocate", "priority gang", "overcommit")
    small = a_gang("small", 1, group={"phase": "Pending", "minimum": {"cpu": "1"}})
    large = a_gang("large", 1, group={"phase": "Pending", "minimum": {"cpu": "9"}})
    decisions = plan_for(a_node("n1", cpu="1"), small, large, policy=admitting)
    assert report(decisions, "small").phase == "Inqueue"
    assert report(decisions, "large").phase == "Pending"


# ------------------------------------------------------------------------------------------------------ queues


def test_a_queue_holds_what_its_gangs_hold_and_so_do_its_ancestors():
    decisions = plan_for(
        a_node("n1", cpu="9"), a_queue("root"), a_queue("lab"), a_queue("team", parent="lab"), a_queue("idle"),
        a_gang("a", 1, running=["n1"], cpu="1", group={"queue": "team"}),
        a_gang("b", 1, cpu="2", group={"queue": "lab"}),
        a_gang("c", 1, cpu="99", group={"queue": "lab"}),
        policy=POLICY,
    )  # fmt: skip
    cpu = {name: held.get("cpu", 0) for name, held in decisions.queues.items()}
    assert cpu == {"team": 1000, "lab": 3000, "root": 3000, "idle": 0}


def test_parents_that_form_a_ring_do_not_hang_the_cycle():
    ring = [a_queue("a", parent="b"), a_queue("b", parent="a")]
    decisions = plan_for(a_node("n1"), ring, a_gang("g", 1, running=["n1"], group={"queue": "a"}), policy=POLICY)
    assert decisions.queues["a"]["cpu"] == decisions.queues["b"]["cpu"] == 1000


def test_room_that_is_only_kept_for_a_gang_is_not_what_its_queue_holds():
    leaving = a_pod("leaving", cpu="1", node="n1", **LEAVING)
    decisions = plan_for(a_node("n1", cpu="3"), leaving, a_gang("g", 3), policy=POLICY)
    assert decisions.queues["default"].get("cpu", 0) == 0


@pytest.mark.parametrize("phase", ["Running", "Unknown"])
def test_a_gang_that_runs_is_not_sent_back_for_admission_while_a_lost_member_is_bound_anew(phase):
    """Its minimum would be asked for on top of what it holds, and if the bind failed nobody might ever grant that."""
    decisions = plan_for(
        a_node("n1", cpu="8"),
        a_gang("g", 3, running=["n1"] * 2, group={"phase": phase}),
        policy=policy("enqueue, allocate", "priority gang", "predicates"),
    )
    assert binds(decisions) == {"g-w-2": "n1"}
    assert report(decisions, "g").phase == phase
