"""The group of pods that name none: every field of it, and when it is made, changed and deleted."""

import msgspec
import pytest

from pumice import instant
from pumice.api import names
from pumice.api.apps import DaemonSet, KubeJob, ReplicaSet, StatefulSet, WorkloadSpec
from pumice.api.meta import ObjectMeta, OwnerReference
from pumice.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from pumice.api.scheduling import PodGroup, PodGroupSpec
from pumice.controllers.operations import NOTHING_TO_DO, Create, Delete, Patch, Plan
from pumice.controllers.podgroup.plan import OWNER_S_MAX, View, plan

NOW = instant.parse_instant("2026-03-28T12:00:00Z")
AT = "2026-03-28T12:00:00Z"
REPLICAS = OwnerReference("apps/v1", "ReplicaSet", "web", "u-web", controller=True, block_owner_deletion=True)
GPU = ResourceRequirements(limits={"nvidia.com/gpu": "1"}, requests={"nvidia.com/gpu": "1", "cpu": "2"})


def a_pod(name="p", *, owners=(), phase="Pending", spec=(), **metadata):
    fixed = {"scheduler_name": "volcano", "containers": (Container("main", resources=GPU),), **dict(spec)}
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="team",
            uid=f"u-{name}",
            creation_timestamp=metadata.pop("at", AT),
            owner_references=tuple(owners),
            **metadata,
        ),
        spec=PodSpec(**fixed),
        status=PodStatus(phase=phase),
    )


def a_workload(kind=ReplicaSet, name="web", **annotations):
    return kind(metadata=ObjectMeta(name=name, namespace="team", uid=f"u-{name}", annotations=annotations))


def made(view):
    (create,) = [each for each in plan(view, NOW) if isinstance(each, Create)]
    return create.body


def joins(view):
    return [each for each in plan(view, NOW) if isinstance(each, Patch) and each.kind is Pod]


def a_group(name="podgroup-u-web", *, owner="u-web", **spec):
    reference = OwnerReference("apps/v1", "ReplicaSet", "web", owner, controller=True)
    return PodGroup(
        metadata=ObjectMeta(
            name=name, namespace="team", uid="u-group", resource_version="5", owner_references=(reference,)
        ),
        spec=PodGroupSpec(**spec),
    )


def test_a_bare_pod_gets_a_group_of_one_that_it_owns():
    view = View("podgroup-u-p", None, [a_pod()])
    body = made(view)
    assert body["metadata"]["name"] == "podgroup-u-p"
    assert body["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": "u-p",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert body["spec"] == {
        "minMember": 1,
        "minResources": {
            "pods": "1",
            "count/pods": "1",
            "cpu": "2",
            "requests.cpu": "2",
            "nvidia.com/gpu": "1",
            "requests.nvidia.com/gpu": "1",
        },
    }
    assert body["status"] == {"phase": "Pending"}


@pytest.mark.parametrize(
    ("asked", "home", "wanted"),
    [
        ("", "", None),
        ("q", "", "q"),
        ("", "research", "research"),
        ("default", "research", "research"),
        ("q", "research", "q"),
    ],
)
def test_a_group_is_in_the_queue_that_its_pod_names_or_else_its_namespace(asked, home, wanted):
    pod = a_pod(annotations={names.QUEUE_NAME: asked} if asked else {})
    assert made(View("podgroup-u-p", None, [pod], home=home))["spec"].get("queue") == wanted


def test_the_pod_gets_the_name_only_after_the_group_exists():
    create, join = plan(View("podgroup-u-p", None, [a_pod()]), NOW).stages
    assert isinstance(create[0], Create)
    assert join == (
        Patch(
            kind=Pod,
            name="p",
            namespace="team",
            body={"metadata": {"annotations": {names.GROUP_NAME: "podgroup-u-p"}}},
            uid="u-p",
        ),
    )


@pytest.mark.parametrize("kind", [ReplicaSet, StatefulSet, DaemonSet, KubeJob])
def test_pods_of_a_workload_share_the_gang_that_it_asks_for(kind):
    owner = a_workload(kind, **{names.GROUP_MIN_MEMBER: "3"})
    pods = [a_pod(f"p{number}", owners=[REPLICAS]) for number in range(4)]
    view = View("podgroup-u-web", None, pods, [owner])
    body = made(view)
    assert body["spec"]["minMember"] == 3
    assert body["spec"]["minResources"]["requests.nvidia.com/gpu"] == "3"
    assert body["metadata"]["ownerReferences"] == [msgspec.to_builtins(REPLICAS)]
    assert [each.name for each in joins(view)] == ["p0", "p1", "p2", "p3"]


@pytest.mark.parametrize(("text", "wanted"), [("0", 0), ("7", 7), ("-1", 1), ("many", 1), ("", 1), ("1.5", 1)])
def test_a_minimum_that_is_no_number_is_one_and_zero_is_a_number(text, wanted):
    owner = a_workload(**{names.GROUP_MIN_MEMBER: text})
    assert made(View("g", None, [a_pod(owners=[REPLICAS])], [owner]))["spec"]["minMember"] == wanted


def test_annotations_come_from_the_owners_first_one_first_and_the_pod_has_the_last_word():
    first = a_workload(**{names.PREEMPTABLE: "true", "volcano.sh/mine": "1", "example.org/other": "x"})
    second = a_workload(name="more", **{"volcano.sh/mine": "2", names.SLA_WAITING_TIME: "1h"})
    marks = {names.PREEMPTABLE: "false", names.JDB_MIN_AVAILABLE: "50%", names.JDB_MAX_UNAVAILABLE: "1"}
    labels = {names.COOLDOWN_TIME: "5m", names.USER: "mia", "app": "web"}
    pod = a_pod(owners=[REPLICAS], annotations=marks, labels=labels)
    metadata = made(View("g", None, [pod], [first, second]))["metadata"]
    assert metadata["annotations"] == {
        names.PREEMPTABLE: "false",
        "volcano.sh/mine": "1",
        names.SLA_WAITING_TIME: "1h",
        names.JDB_MIN_AVAILABLE: "50%",
    }
    assert metadata["labels"] == {names.COOLDOWN_TIME: "5m", names.USER: "mia"}


def test_how_long_pods_may_run_stands_on_their_group_and_may_change():
    times = {names.TIME_LIMIT: "2h", names.TIME_LIMIT_WARNING: "2m", names.RUNNING_ESTIMATE: "1h"}
    assert made(View("podgroup-u-p", None, [a_pod(annotations=times)]))["metadata"]["annotations"] == times
    owner = a_workload(**times)
    pod = a_pod(owners=[REPLICAS], annotations={names.TIME_LIMIT: "3h"})
    first = made(View("podgroup-u-web", None, [pod], [owner]))["metadata"]["annotations"]
    assert first == {**times, names.TIME_LIMIT: "3h"}
    view = View("podgroup-u-web", a_group(min_member=1), [pod], [owner])
    (patch,) = [each for each in plan(view, NOW) if isinstance(each, Patch) and each.kind is PodGroup]
    assert patch.body == {"metadata": {"annotations": first}}


def test_a_group_says_who_submitted_its_pod_whatever_a_workload_says():
    record = {names.SUBMITTED_BY: "alice", names.SUBMITTER_GROUPS: "blue"}
    assert made(View("podgroup-u-p", None, [a_pod(annotations=record)]))["metadata"]["annotations"] == record
    owner = a_workload(**record)
    group = made(View("podgroup-u-web", None, [a_pod(owners=[REPLICAS])], [owner]))
    assert names.SUBMITTED_BY not in group["metadata"]["annotations"]


def test_where_nothing_is_inherited_workloads_ask_for_nothing_and_are_known_all_the_same():
    owner = a_workload(**{names.GROUP_MIN_MEMBER: "3", "volcano.sh/color": "red"})
    view = View("podgroup-u-web", None, [a_pod(owners=[REPLICAS])], [owner], inherits=False)
    body = made(view)
    assert body["spec"]["minMember"] == 1
    assert body["metadata"]["annotations"] == {}
    group = a_group(min_member=1)
    again = View("podgroup-u-web", group, view.members, [owner], inherits=False)
    assert list(plan(again, NOW)) == joins(again) != []


def test_queue_priority_and_topology_come_from_the_pod():
    marks = {
        names.QUEUE_NAME: "research",
        names.NETWORK_TOPOLOGY_MODE: "Soft",
        names.NETWORK_TOPOLOGY_HIGHEST_TIER: "2",
    }
    spec = made(View("g", None, [a_pod(annotations=marks, spec={"priority_class_name": "high"})]))["spec"]
    assert (spec["queue"], spec["priorityClassName"]) == ("research", "high")
    assert spec["networkTopology"] == {"mode": "soft", "highestTierAllowed": 2}


@pytest.mark.parametrize(
    ("marks", "wanted"),
    [
        ({names.NETWORK_TOPOLOGY_MODE: "nonsense"}, {"mode": "hard"}),
        ({names.NETWORK_TOPOLOGY_HIGHEST_TIER: "1"}, {"mode": "hard", "highestTierAllowed": 1}),
        ({names.NETWORK_TOPOLOGY_MODE: "HARD", names.NETWORK_TOPOLOGY_HIGHEST_TIER: "two"}, {"mode": "hard"}),
    ],
)
def test_what_cannot_be_read_of_a_topology_is_hard_and_unlimited(marks, wanted):
    assert made(View("g", None, [a_pod(annotations=marks)]))["spec"]["networkTopology"] == wanted


def test_the_controller_is_the_first_of_several_owners():
    other = OwnerReference("example.org/v1", "Team", "blue", "u-blue")
    references = made(View("g", None, [a_pod(owners=[other, REPLICAS])], [a_workload()]))["metadata"]["ownerReferences"]
    assert [each["uid"] for each in references] == ["u-web", "u-blue"]


def test_a_pod_whose_workload_was_not_seen_yet_waits_for_it_and_not_for_ever():
    view = View("podgroup-u-web", None, [a_pod(owners=[REPLICAS])])
    due = NOW + OWNER_S_MAX * instant.SECOND
    assert plan(view, NOW) == Plan(again_at=due)
    (create, _) = plan(view, due)
    assert create.body["spec"]["minMember"] == 1


def test_a_pod_of_another_controller_waits_for_nothing():
    owner = OwnerReference("argoproj.io/v1alpha1", "Workflow", "flow", "u-flow", controller=True)
    assert made(View("podgroup-u-flow", None, [a_pod(owners=[owner])]))["spec"]["minMember"] == 1


def test_pods_that_are_over_or_going_need_no_group():
    over = [a_pod(phase="Succeeded"), a_pod(phase="Failed"), a_pod(deletion_timestamp=AT)]
    assert plan(View("g", None, over), NOW) == NOTHING_TO_DO


def test_bound_pods_get_the_name_and_nothing_else_is_changed():
    bound = a_pod(phase="Running", spec={"node_name": "n1"}, annotations={names.ATTEMPT: "1-a"})
    group = PodGroup(metadata=ObjectMeta(name="podgroup-u-p", namespace="team", uid="u-group"))
    (patch,) = plan(View("podgroup-u-p", group, [bound]), NOW)
    assert patch.body == {"metadata": {"annotations": {names.GROUP_NAME: "podgroup-u-p"}}}


def test_a_group_that_somebody_deleted_under_its_pods_is_made_again():
    member = a_pod(annotations={names.GROUP_NAME: "podgroup-u-p"})
    assert made(View("podgroup-u-p", None, [member]))["metadata"]["name"] == "podgroup-u-p"


def test_a_workload_that_asks_for_another_gang_gets_it():
    member = a_pod(owners=[REPLICAS], annotations={names.GROUP_NAME: "podgroup-u-web"})
    group = a_group(min_member=1, min_resources={"cpu": "2", "gone": "1"})
    (patch,) = plan(View("podgroup-u-web", group, [member], [a_workload(**{names.GROUP_MIN_MEMBER: "2"})]), NOW)
    assert (patch.body["spec"]["minMember"], patch.version) == (2, "5")
    assert patch.body["spec"]["minResources"]["requests.cpu"] == "4"
    assert patch.body["spec"]["minResources"]["gone"] is None


def test_a_group_of_a_workload_that_asks_for_nothing_is_left_as_people_made_it():
    member = a_pod(owners=[REPLICAS], annotations={names.GROUP_NAME: "podgroup-u-web"})
    assert plan(View("podgroup-u-web", a_group(min_member=5), [member], [a_workload()]), NOW) == NOTHING_TO_DO


def test_a_workload_without_pods_keeps_no_group():
    idle = ReplicaSet(metadata=ObjectMeta(name="web", namespace="team", uid="u-web"), spec=WorkloadSpec(replicas=0))
    (delete,) = plan(View("podgroup-u-web", a_group(), [], [idle]), NOW)
    assert (type(delete), delete.name, delete.uid) == (Delete, "podgroup-u-web", "u-group")
    leaving = a_pod(owners=[REPLICAS], deletion_timestamp=AT)
    assert list(plan(View("podgroup-u-web", a_group(), [leaving], [idle]), NOW)) == [delete]


def test_a_group_stays_while_its_workload_wants_pods_or_is_not_its_owner():
    assert plan(View("podgroup-u-web", a_group(), [], [a_workload()]), NOW) == NOTHING_TO_DO
    idle = ReplicaSet(metadata=ObjectMeta(name="web", namespace="team", uid="u-web"), spec=WorkloadSpec(replicas=0))
    assert plan(View("podgroup-u-web", a_group(owner="u-else"), [], [idle]), NOW) == NOTHING_TO_DO


def test_a_group_that_is_going_is_made_again_only_when_it_is_gone():
    going = PodGroup(metadata=ObjectMeta(name="podgroup-u-p", namespace="team", deletion_timestamp=AT))
    assert plan(View("podgroup-u-p", going, [a_pod()]), NOW) == NOTHING_TO_DO
