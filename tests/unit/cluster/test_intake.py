"""One Change after another: what the state says afterwards."""

import msgspec
import pytest
from tests.unit.scheduling.clusters import a_gang, a_group, a_node, a_pod, a_priority_class, a_queue, an_object

from pumice.api import names
from pumice.api.changes import (
    Assumed,
    BindFailed,
    BindUnknown,
    Claim,
    Claimed,
    Deleted,
    Evicting,
    Forgotten,
    PodRef,
    Relisted,
    Unclaimed,
    Upserted,
)
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup, Queue
from pumice.cluster.columns import CPU_ROW
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster

DELETED = {"deletionTimestamp": "2026-01-01T00:00:09Z"}
NOW = 1


class World:
    """A cluster and its intake; every change is followed by a check of all invariants."""

    def __init__(self, *things, **settings):
        self.cluster = Cluster(**settings)
        self.intake = Intake(self.cluster)
        self.see(*things)

    def apply(self, change):
        self.intake.apply(change)
        self.cluster.check()

    def see(self, *things):
        for thing in things:
            if isinstance(thing, list):
                self.see(*thing)
            else:
                self.apply(Upserted(thing))

    def lose(self, thing):
        self.apply(Deleted(thing))

    def used(self, node):
        """Milli-CPUs in use and about to be released on a node."""
        table = self.cluster.snapshot().nodes
        where = table.index[node]
        return int(table.used[CPU_ROW, where]), int(table.releasing[CPU_ROW, where])

    def state(self, pod):
        """`Status` and `node` of a pod, or None for one that is not known."""
        for task in self.cluster.tasks.values():
            if task.name == pod:
                return (task.status.text, task.node) if task.node else task.status.text
        return None

    def members(self, gang):
        found = self.cluster.snapshot().gangs.get(gang)
        return None if found is None else [task.name for task in found.tasks]


def ref(pod):
    return PodRef.of(pod.metadata)


# ------------------------------------------------------------------------------------------------------ news


def test_a_pod_takes_room_on_a_node_that_becomes_known_later():
    world = World(a_pod("p", cpu="2", node="n1"))
    assert world.cluster.snapshot().nodes.names == []
    world.see(a_node("n1"))
    assert world.used("n1") == (2000, 0)


def test_a_pod_that_ends_or_vanishes_gives_its_room_back():
    world = World(a_node("n1"), a_pod("p", cpu="2", node="n1"), a_pod("q", cpu="1", node="n1"))
    world.see(a_pod("p", cpu="2", node="n1", phase="Succeeded"))
    assert world.used("n1") == (1000, 0)
    world.lose(a_pod("q", cpu="1", node="n1"))
    assert world.used("n1") == (0, 0)


def test_a_pod_that_is_being_deleted_holds_its_room_and_releases_it():
    world = World(a_node("n1"), a_pod("p", cpu="2", node="n1", metadata=DELETED))
    assert world.used("n1") == (2000, 2000)


def test_a_pod_that_is_resized_changes_what_it_takes():
    world = World(a_node("n1"), a_pod("p", cpu="2", node="n1"))
    world.see(a_pod("p", cpu="3", node="n1"))
    assert world.used("n1") == (3000, 0)


def test_a_node_that_goes_and_comes_back_has_its_pods_again():
    world = World(a_node("n1"), a_node("n2"), a_pod("p", cpu="2", node="n1"))
    world.lose(a_node("n1"))
    assert world.cluster.snapshot().nodes.names == ["n2"]
    assert world.state("p") == ("Running", "n1")
    world.see(a_node("n3"))
    assert world.used("n3") == (0, 0)
    world.see(a_node("n1", cpu="8"))
    assert world.used("n1") == (2000, 0)
    assert world.used("n2") == (0, 0)


def test_what_we_have_bound_to_a_node_that_is_gone_is_nowhere_until_the_node_is_back():
    """One that runs there, or that somebody else has bound, is their agent's business."""
    notes = {"annotations": {names.ATTEMPT: "7-a"}, "node": "n1", "cpu": "1"}
    pods = [
        a_pod("ours", phase="Pending", **notes),
        a_pod("runs", **notes),
        a_pod("theirs", phase="Pending", node="n1"),
    ]
    world = World(*pods)
    expected = {"ours": ("Unknown", "n1"), "runs": ("Running", "n1"), "theirs": ("Bound", "n1")}
    assert {name: world.state(name) for name in expected} == expected
    world.see(a_node("n1"))
    assert world.state("ours") == ("Bound", "n1")
    world.lose(a_node("n1"))
    assert {name: world.state(name) for name in expected} == expected
    world.see(a_node("n1"))
    assert world.state("ours") == ("Bound", "n1")
    assert world.used("n1")[0] >= 2000


def test_a_pod_that_leaves_while_its_node_is_gone_leaves_nothing_behind():
    world = World(a_node("n1"), a_pod("p", cpu="2", node="n1"))
    world.lose(a_node("n1"))
    world.lose(a_pod("p", node="n1"))
    assert world.cluster.nodes == {}
    world.see(a_node("n1"))
    assert world.used("n1") == (0, 0)


def test_more_nodes_than_expected_find_room_in_the_columns():
    nodes = [a_node(f"n{number:03}", cpu=str(number + 1)) for number in range(200)]
    world = World(nodes, [a_pod(f"p{number}", cpu="1", node=f"n{number:03}") for number in range(0, 200, 7)])
    table = world.cluster.snapshot().nodes
    assert table.allocatable[CPU_ROW].tolist() == [1000 * (number + 1) for number in range(200)]
    assert table.used[CPU_ROW].tolist() == [1000 if number % 7 == 0 else 0 for number in range(200)]


def test_a_resource_never_seen_before_is_a_new_row_of_zeros():
    world = World(a_node("n1"), a_pod("p", cpu="1", node="n1"))
    world.see(a_node("n2", more={"a.io/x": "3"}), a_pod("q", more={"b.io/y": "1"}, node="n2"))
    table = world.cluster.snapshot().nodes
    assert table.allocatable[table.axis.rows["a.io/x"]].tolist() == [0, 3000]
    assert table.used[table.axis.rows["b.io/y"]].tolist() == [0, 1000]


def test_pods_of_other_schedulers_only_take_room():
    other = {"schedulerName": "default-scheduler"}
    world = World(a_node("n1"), a_group("g", 1), a_pod("p", gang="g", spec=other), a_pod("q", node="n1", spec=other))
    assert world.state("p") is None
    assert world.used("n1") == (1000, 0)
    assert world.members("default/g") == []
    world.see(a_pod("q", node="n1", phase="Failed", spec=other))
    assert world.state("q") is None


def test_we_answer_to_the_names_that_we_were_given():
    world = World(scheduler_names=frozenset({"mine"}))
    world.see(a_pod("p"), a_pod("q", spec={"schedulerName": "mine"}))
    assert world.state("p") is None
    assert world.state("q") == "Pending"


def test_a_pod_without_a_scheduler_is_ours_only_where_it_names_a_group():
    """An offline dump may lack the name; a live API server always fills it in."""
    nobody = {"schedulerName": None}
    world = World(a_pod("p", gang="g", spec=nobody), a_pod("q", spec=nobody), a_group("g", 1))
    assert world.members("default/g") == ["p"]
    assert world.state("q") is None


# ------------------------------------------------------------------------------------------------------ membership


def test_members_may_come_before_their_group_and_stay_after_it():
    world = World(a_pod("p", gang="g"))
    assert world.members("default/g") is None
    world.see(a_group("g", 1))
    assert world.members("default/g") == ["p"]
    world.lose(a_group("g", 1))
    assert world.members("default/g") is None
    world.see(a_group("g", 1))
    assert world.members("default/g") == ["p"]


@pytest.mark.parametrize("key", ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"])
def test_both_spellings_of_the_annotation_count(key):
    world = World(a_group("g", 1), a_pod("p", annotations={key: "g"}))
    assert world.members("default/g") == ["p"]


@pytest.mark.parametrize("name", ["g", "other/g", "../other/g", "other", "", "native:g", "pod:x"])
def test_membership_never_crosses_a_namespace(name):
    world = World(a_group("g", 1, namespace="other"), a_pod("p", gang=name))
    assert world.members("other/g") == []


def test_a_pod_may_join_a_group_after_it_was_alone():
    world = World(a_group("g", 1), a_pod("p"))
    assert world.members("default/pod:p") == ["p"]
    world.see(a_pod("p", gang="g"))
    assert world.members("default/pod:p") is None
    assert world.members("default/g") == ["p"]


def controlled_by(api_version, kind):
    return [{"apiVersion": api_version, "kind": kind, "name": "owner", "uid": "u1", "controller": True}]


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet"), ("batch/v1", "Job")],
)
def test_pods_of_a_workload_wait_for_the_group_that_is_made_for_it(api_version, kind):
    """The workload may ask for a gang: placed alone before that is known, its members would never be one."""
    owners = controlled_by(api_version, kind)
    world = World(a_pod("p", metadata={"ownerReferences": owners}))
    assert world.cluster.snapshot().gangs == {}
    world.see(a_group("podgroup-u1", 3))
    assert world.members("default/podgroup-u1") == ["p"]
    world.see(a_pod("p", gang="podgroup-u1", metadata={"ownerReferences": owners}))
    assert world.members("default/podgroup-u1") == ["p"]


def test_pods_of_other_controllers_are_alone_like_bare_ones():
    world = World(a_pod("p", metadata={"ownerReferences": controlled_by("argoproj.io/v1alpha1", "Workflow")}))
    assert world.members("default/pod:p") == ["p"]


OWNED = {"ownerReferences": controlled_by("argoproj.io/v1alpha1", "Workflow")}


@pytest.mark.parametrize(
    ("bare", "group"),
    [
        (a_pod("p", uid="7", annotations={names.QUEUE_NAME: "vip"}), "podgroup-7"),
        (a_pod("p", uid="7", annotations={names.QUEUE_NAME: "vip"}, metadata=OWNED), "podgroup-u1"),
    ],
    ids=["bare", "of a foreign controller"],
)
def test_a_pod_that_names_no_group_any_more_stays_in_the_one_that_was_made_for_it(bare, group):
    key, alone = f"default/{group}", "default/pod:p"
    made = a_group(group, 1, queue="poor")
    for world in (World(made, bare), World(bare, made)):
        assert (world.members(key), world.members(alone)) == (["p"], None)
        assert world.cluster.snapshot().gangs[key].spec.queue == "poor"
        world.lose(made)
        assert (world.members(key), world.members(alone)) == (None, ["p"])
        world.lose(bare)
        assert world.intake._uids_by_implied == {}


def test_finished_members_still_count_in_their_gang():
    world = World(a_gang("g", 2))
    world.see(a_pod("g-w-0", gang="g", node="n1", phase="Succeeded"))
    assert world.members("default/g") == ["g-w-0", "g-w-1"]


# ------------------------------------------------------------------------------------------------------ names used again


def test_a_pod_replaces_its_predecessor_of_the_same_name_whose_end_was_never_told():
    world = World(a_node("n1"), a_group("g", 1), a_pod("p", gang="g", cpu="2", node="n1", uid="old"))
    world.see(a_pod("p", gang="g", cpu="1", uid="new"))
    assert world.used("n1") == (0, 0)
    assert world.state("p") == "Pending"


def test_a_late_farewell_to_a_predecessor_does_not_hurt_its_successor():
    old, new = a_pod("p", gang="g", cpu="2", node="n1", uid="old"), a_pod("p", gang="g", uid="new")
    world = World(a_node("n1"), a_group("g", 1), old, new)
    world.lose(old)
    assert world.members("default/g") == ["p"]
    world = World(a_group("g", 1, uid="old"), a_group("g", 2, uid="new"))
    world.lose(a_group("g", 1, uid="old"))
    assert world.cluster.snapshot().gangs["default/g"].spec.min_member == 2


def test_what_is_withdrawn_may_come_again_and_what_is_gone_may_not():
    group, pod = a_group("g", 1, uid="u"), a_pod("p", gang="g", uid="v")
    world = World(group, pod)
    world.intake.withdraw(pod)
    world.intake.withdraw(group)
    assert world.members("default/g") is None
    world.see(group, pod)
    assert world.members("default/g") == ["p"]
    world.lose(pod)
    world.see(pod)
    assert world.members("default/g") == []


def test_an_outcome_of_a_predecessor_does_not_touch_its_successor():
    old, new = a_pod("p", uid="old"), a_pod("p", uid="new")
    world = World(a_node("n1"), old)
    world.apply(Assumed(ref(old), "n1", "a1", NOW))
    world.see(new)
    world.apply(Assumed(ref(old), "n1", "a2", NOW))
    world.apply(Evicting(ref(old), "n1", NOW))
    assert world.state("p") == "Pending"
    assert world.used("n1") == (0, 0)


# ------------------------------------------------------------------------------------------------------ outcomes of binds


def test_an_assumed_pod_is_charged_until_its_bind_is_seen():
    pod = a_pod("p", cpu="2")
    world = World(a_node("n1"), pod)
    world.apply(Assumed(ref(pod), "n1", "a1", NOW))
    assert world.state("p") == ("Binding", "n1")
    assert world.used("n1") == (2000, 0)
    world.see(a_pod("p", cpu="2", labels={"new": "label"}))
    assert world.state("p") == ("Binding", "n1")
    world.see(a_pod("p", cpu="2", node="n1", phase="Pending"))
    assert world.state("p") == ("Bound", "n1")
    assert world.used("n1") == (2000, 0)


def test_what_the_api_server_says_of_a_bind_wins_over_what_we_assumed():
    pod = a_pod("p", cpu="2")
    world = World(a_node("n1"), a_node("n2"), pod)
    world.apply(Assumed(ref(pod), "n1", "a1", NOW))
    world.see(a_pod("p", cpu="2", node="n2"))
    assert (world.used("n1"), world.used("n2")) == ((0, 0), (2000, 0))
    world.apply(BindFailed(ref(pod), "n1", "a1", NOW))
    assert world.state("p") == ("Running", "n2")


@pytest.mark.parametrize("outcome", [BindFailed, Forgotten])
def test_a_bind_that_came_to_nothing_lifts_the_charge(outcome):
    pod = a_pod("p", cpu="2")
    world = World(a_node("n1"), pod)
    world.apply(Assumed(ref(pod), "n1", "a1", NOW))
    arguments = {"node": "n1"} if outcome is BindFailed else {}
    world.apply(outcome(pod=ref(pod), attempt="a1", at=NOW, **arguments))
    assert world.state("p") == "Pending"
    assert world.used("n1") == (0, 0)


@pytest.mark.parametrize("outcome", [BindFailed, Forgotten])
def test_what_an_earlier_attempt_still_has_to_say_does_not_undo_a_later_one(outcome):
    pod = a_pod("p", cpu="2")
    world = World(a_node("n1"), a_node("n2"), pod)
    world.apply(Assumed(ref(pod), "n1", "a1", NOW))
    world.apply(Assumed(ref(pod), "n2", "a2", NOW))
    arguments = {"node": "n1"} if outcome is BindFailed else {}
    world.apply(outcome(pod=ref(pod), attempt="a1", at=NOW, **arguments))
    assert world.state("p") == ("Binding", "n2")
    assert (world.used("n1"), world.used("n2")) == ((0, 0), (2000, 0))


def test_a_bind_of_unknown_outcome_stays_charged():
    pod = a_pod("p", cpu="2")
    world = World(a_node("n1"), pod)
    world.apply(Assumed(ref(pod), "n1", "a1", NOW))
    world.apply(BindUnknown(ref(pod), "n1", "a1", NOW))
    assert world.state("p") == ("Binding", "n1")
    world.apply(Forgotten(ref(pod), NOW, "a1"))
    assert world.state("p") == "Pending"


def test_an_assumed_pod_that_is_deleted_before_its_bind_leaves_no_charge():
    pod = a_pod("p", cpu="2")
    world = World(a_node("n1"), pod)
    world.apply(Assumed(ref(pod), "n1", "a1", NOW))
    world.lose(pod)
    assert world.used("n1") == (0, 0)
    world.see(a_pod("p", cpu="2", uid="another"))
    assert world.state("p") == "Pending"


# ------------------------------------------------------------------------------------------------- what is older


def versioned(thing, version):
    metadata = msgspec.structs.replace(thing.metadata, resource_version=version)
    return msgspec.structs.replace(thing, metadata=metadata)


def test_a_pod_that_was_read_as_bound_is_not_pending_again_because_an_older_event_arrives():
    waiting, bound = versioned(a_pod("p", cpu="2"), "7"), versioned(a_pod("p", cpu="2", node="n1"), "9")
    world = World(a_node("n1"), waiting, bound)
    world.see(versioned(a_pod("p", cpu="2", labels={"new": "yes"}), "8"))
    assert world.state("p") == ("Running", "n1")
    assert world.used("n1") == (2000, 0)


@pytest.mark.parametrize("version", ["", "a1", "12345678901234567890123456789012345678901"])
def test_where_versions_are_no_numbers_a_pod_still_never_loses_its_node(version):
    world = World(a_node("n1"), versioned(a_pod("p", cpu="2", node="n1"), version))
    world.see(versioned(a_pod("p", cpu="2"), version))
    assert world.used("n1") == (2000, 0)


def test_a_pod_that_is_gone_does_not_come_back_with_a_late_answer_nor_drive_out_its_successor():
    former, successor = versioned(a_pod("p", node="n1", uid="a"), "5"), versioned(a_pod("p", uid="b"), "9")
    world = World(a_node("n1"), former)
    world.lose(former)
    world.see(versioned(former, "6"))
    assert world.state("p") is None
    world.see(successor, versioned(former, "7"))
    assert [task.uid for task in world.cluster.tasks.values()] == ["b"]


def test_other_kinds_do_not_go_back_either():
    world = World(versioned(a_node("n1", cpu="8"), "9"), versioned(a_group("g", 3), "10"))
    world.see(versioned(a_node("n1", cpu="4"), "8"), versioned(a_group("g", 2), "2"))
    snapshot = world.cluster.snapshot()
    assert int(snapshot.nodes.allocatable[CPU_ROW, 0]) == 8000
    assert snapshot.gangs["default/g"].spec.min_member == 3


def test_outcomes_of_unknown_pods_change_nothing():
    stranger = PodRef("default", "p", "nobody")
    world = World(a_node("n1"))
    for change in (
        Assumed(stranger, "n1", "a1", NOW),
        BindFailed(stranger, "n1", "a1", NOW),
        BindUnknown(stranger, "n1", "a1", NOW),
        Evicting(stranger, "n1", NOW),
        Forgotten(stranger, NOW),
    ):
        world.apply(change)
    world.see(a_pod("p", uid="nobody"))
    assert world.state("p") == "Pending"


# ------------------------------------------------------------------------------------------------------ evictions


def test_a_pod_that_is_being_evicted_releases_its_room_until_it_is_gone():
    pod = a_pod("p", cpu="2", node="n1")
    world = World(a_node("n1"), pod)
    world.apply(Evicting(ref(pod), "n1", NOW, "default/g"))
    assert world.used("n1") == (2000, 2000)
    world.see(a_pod("p", cpu="2", node="n1", labels={"new": "label"}))
    assert world.state("p") == ("Releasing", "n1")
    world.see(a_pod("p", cpu="2", node="n1", metadata=DELETED))
    assert world.used("n1") == (2000, 2000)
    world.lose(pod)
    assert world.used("n1") == (0, 0)


def test_an_eviction_that_was_given_up_leaves_the_pod_as_before():
    pod = a_pod("p", cpu="2", node="n1")
    world = World(a_node("n1"), pod)
    world.apply(Evicting(ref(pod), "n1", NOW))
    world.apply(Forgotten(ref(pod), NOW))
    assert world.state("p") == ("Running", "n1")
    assert world.used("n1") == (2000, 0)


def test_forgetting_an_assumption_does_not_forget_an_eviction():
    pod = a_pod("p", cpu="2", node="n1")
    world = World(a_node("n1"), pod)
    world.apply(Evicting(ref(pod), "n1", NOW))
    world.apply(Forgotten(ref(pod), NOW, "a1"))
    assert world.state("p") == ("Releasing", "n1")


def test_an_evicted_pod_that_finishes_first_is_finished():
    pod = a_pod("p", cpu="2", node="n1")
    world = World(a_node("n1"), pod)
    world.apply(Evicting(ref(pod), "n1", NOW))
    world.see(a_pod("p", cpu="2", node="n1", phase="Succeeded"))
    assert world.state("p") == ("Succeeded", "n1")
    assert world.used("n1") == (0, 0)


# ------------------------------------------------------------------------------------------------------ claims, lists


def test_a_claim_lasts_until_it_is_taken_back():
    claim = Claim("default/g", (("u1", "n1"),), ("v1",), 99)
    world = World()
    world.apply(Claimed(claim))
    assert world.cluster.snapshot().claims == {"default/g": claim}
    newer = Claim("default/g", (("u1", "n2"),), ("v2",), 100)
    world.apply(Claimed(newer))
    assert world.cluster.snapshot().claims == {"default/g": newer}
    world.apply(Unclaimed("default/g"))
    assert world.cluster.snapshot().claims == {}
    world.apply(Unclaimed("default/g"))


def test_what_a_whole_list_no_longer_has_is_gone():
    world = World(
        a_node("n1"), a_node("n2"), a_pod("p", node="n1"), a_pod("q", node="n1"), a_group("g", 1), a_group("h", 1),
        a_queue("a"), a_queue("b"), a_priority_class("x", 1), a_priority_class("y", 2),
    )  # fmt: skip
    world.apply(Relisted(Pod, frozenset({"default/q"})))
    world.apply(Relisted(PodGroup, frozenset({"default/h"})))
    world.apply(Relisted(Node, frozenset({"n1"})))
    world.apply(Relisted(Queue, frozenset({"b"})))
    world.apply(Relisted(PriorityClass, frozenset({"y"})))
    snapshot = world.cluster.snapshot()
    assert [task.name for tasks in snapshot.nodes.tasks for task in tasks] == ["q"]
    assert list(snapshot.nodes.names) == ["n1"]
    assert [key for key in snapshot.gangs if "pod:" not in key] == ["default/h"]
    assert list(snapshot.queues) == ["b"]
    assert list(snapshot.objects(PriorityClass)) == ["y"]


def test_a_list_of_one_kind_leaves_the_others_alone():
    world = World(a_node("n1"), a_pod("p", node="n1"), a_group("g", 1), a_queue("a"))
    world.apply(Relisted(PriorityClass, frozenset()))
    snapshot = world.cluster.snapshot()
    assert (len(snapshot.nodes), len(snapshot.gangs), len(snapshot.queues)) == (1, 2, 1)


def test_something_that_is_no_change_is_refused():
    with pytest.raises(TypeError, match="str is no Change"):
        World().apply("nonsense")


# ------------------------------------------------------------------------------------------------------ snapshots, invariants


def test_a_snapshot_never_changes_whatever_comes_after_it():
    world = World(a_node("n1"), a_gang("g", 2), a_queue("a"), a_priority_class("x", 1))
    before = world.cluster.snapshot()
    world.see(a_node("n2", gpu=1), a_pod("g-w-0", gang="g", node="n1"), a_queue("b"), a_priority_class("y", 1))
    world.lose(a_node("n1"))
    world.apply(Claimed(Claim("default/g", (), (), 1)))
    assert list(before.nodes.names) == ["n1"]
    assert before.nodes.used.tolist() == [[0]] * len(before.nodes.axis)
    assert [task.status.text for task in before.gangs["default/g"].tasks] == ["Pending", "Pending"]
    assert (list(before.queues), list(before.objects(PriorityClass)), dict(before.claims)) == (["a"], ["x"], {})
    assert "nvidia.com/gpu" not in before.nodes.axis.rows


def test_snapshots_share_what_has_not_changed():
    world = World(a_node("n1"), a_gang("g", 2), a_gang("h", 2))
    before = world.cluster.snapshot()
    world.see(a_pod("h-w-0", gang="h", node="n1"))
    after = world.cluster.snapshot()
    assert after.gangs["default/g"] is before.gangs["default/g"]
    assert after.gangs["default/h"] is not before.gangs["default/h"]
    assert after.revision > before.revision


def test_a_snapshot_lists_everything_in_the_order_of_names_not_of_arrival():
    things = [a_group("b", 1), a_group("a", 1), a_pod("z"), a_queue("q2"), a_queue("q1"), a_priority_class("y", 1),
              a_priority_class("x", 1)]  # fmt: skip
    for order in (things, things[::-1]):
        world = World(*order)
        world.cluster.snapshot()
        world.see(a_group("aa", 1))
        snapshot = world.cluster.snapshot()
        assert list(snapshot.gangs) == ["default/a", "default/aa", "default/b", "default/pod:z"]
        assert list(snapshot.queues) == ["q1", "q2"]
        assert list(snapshot.objects(PriorityClass)) == ["x", "y"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda cluster: cluster.used.__setitem__((CPU_ROW, cluster.nodes["n1"].column), 7),
        lambda cluster: cluster.releasing.__setitem__((CPU_ROW, cluster.nodes["n1"].column), 7),
        lambda cluster: cluster.nodes["n1"].tasks.clear(),
        lambda cluster: cluster.gangs["default/g"].tasks.clear(),
        lambda cluster: cluster.tasks.clear(),
    ],
    ids=["used", "releasing", "node forgets", "gang forgets", "state forgets"],
)
def test_a_state_that_contradicts_itself_is_found_out(damage):
    world = World(a_node("n1"), a_group("g", 1), a_pod("p", gang="g", node="n1"))
    damage(world.cluster)
    with pytest.raises(AssertionError):
        world.cluster.check()


def test_a_pod_and_a_group_without_uids_are_told_apart_by_name():
    """Manifests of an offline question have no uids."""
    pods = [an_object("v1", "Pod", {"metadata": {"name": name, "namespace": "d"}, "spec": {"schedulerName": "volcano"}})
            for name in ("p", "q")]  # fmt: skip
    world = World(*pods)
    assert set(world.cluster.tasks) == {"d/p", "d/q"}
    world.lose(pods[0])
    assert set(world.cluster.tasks) == {"d/q"}


# ------------------------------------------------------------------------------------------------------ run ahead


def got_on(pod, phase, node="n1"):
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    return msgspec.structs.replace(pod, spec=spec, status=msgspec.structs.replace(pod.status, phase=phase))


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Pending"])
@pytest.mark.parametrize("before", ["nothing", "assumed", "evicting", "told to leave", "unknown"])
def test_a_pod_that_somebody_runs_ahead_ends_up_as_its_news_would_have_it(phase, before):
    notice = '{"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:01:00Z", "leaves": true}'
    pod = a_pod(
        "p", gang="g", cpu="2", annotations={names.EVICTION_NOTICE: notice} if before == "told to leave" else None
    )
    found = []
    for _ in range(2):
        world = World(a_node("n1"), a_group("g"), *([] if before == "unknown" else [pod]))
        if before == "assumed":
            world.apply(Assumed(ref(pod), "n1", "a1", NOW))
        if before == "evicting":
            world.apply(Evicting(ref(pod), "n1", NOW, "default/g"))
        found.append(world)
    told, ahead = found
    told.see(got_on(pod, phase))
    ahead.intake.get_on([got_on(pod, phase)])
    ahead.cluster.check()
    assert ahead.state("p") == told.state("p")
    assert (ahead.used("n1"), ahead.members("default/g")) == (told.used("n1"), told.members("default/g"))
    assert (ahead.intake.held, ahead.cluster.revision) == (told.intake.held, told.cluster.revision)


def test_a_group_that_only_got_on_says_what_it_would_say_if_it_were_read_anew():
    group = a_group("g", 2, phase="Pending", priority_class="high", annotations={names.RUNNING_ESTIMATE: "1h"})
    world = World(a_priority_class("high", 7), group)
    world.cluster.snapshot()
    running = msgspec.structs.replace(group, status=msgspec.structs.replace(group.status, phase="Running"))
    world.see(running)
    fresh = World(a_priority_class("high", 7), running)
    assert world.cluster.snapshot().gangs["default/g"].spec == fresh.cluster.snapshot().gangs["default/g"].spec
    world.see(a_priority_class("high", 9))
    assert world.cluster.snapshot().gangs["default/g"].spec.priority == 9
