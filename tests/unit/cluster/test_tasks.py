"""One pod as the scheduler sees it."""

import msgspec
import pytest
from tests.unit.scheduling.clusters import a_pod, when

from pumice.api import names
from pumice.api.pods import ContainerStatus, PodStatus
from pumice.cluster.tasks import Status, as_mate, go_bool, index_of, moved_on, task_of


def task(**pod):
    return task_of(a_pod(**pod), gang="default/g")


@pytest.mark.parametrize(
    ("phase", "node", "deleted", "expected"),
    [
        ("Pending", "", False, Status.PENDING),
        ("", "", False, Status.PENDING),
        ("Pending", "n1", False, Status.BOUND),
        ("Running", "n1", False, Status.RUNNING),
        ("Running", "n1", True, Status.RELEASING),
        ("Pending", "n1", True, Status.RELEASING),
        ("Pending", "", True, Status.RELEASING),
        ("Succeeded", "n1", False, Status.SUCCEEDED),
        ("Succeeded", "n1", True, Status.SUCCEEDED),
        ("Failed", "n1", False, Status.FAILED),
        ("Failed", "", True, Status.FAILED),
        ("Unknown", "n1", False, Status.UNKNOWN),
        ("Unknown", "n1", True, Status.UNKNOWN),
        ("Dreaming", "n1", False, Status.UNKNOWN),
    ],
)
def test_the_status_follows_phase_node_and_deletion(phase, node, deleted, expected):
    gone = {"deletionTimestamp": when(9)} if deleted else {}
    assert task(node=node, status={"phase": phase}, metadata=gone).status is expected


def test_statuses_have_volcanos_names_in_volcanos_order():
    assert [status.text for status in Status] == [
        "Pending", "Allocated", "Pipelined", "Binding", "Bound", "Running", "Releasing", "Succeeded", "Failed", "Unknown",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("job-task-7", 7),
        ("my-long-job-task-10", 10),
        ("a-b-007", 7),
        ("task-7", None),
        ("7", None),
        ("job-task-x7", None),
        ("job-task-", None),
        ("job-task-²", None),
        ("job--1", 1),
    ],
)
def test_the_number_of_a_member_stands_at_the_end_of_its_name(name, index):
    assert index_of(name) == index


# ------------------------------------------------------------------------------------------------------ priority


def test_a_pod_without_a_priority_ranks_just_above_zero():
    assert task().priority == 1
    assert task(priority=0).priority == 0
    assert task(priority=-5).priority == -5


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)),
        ("2147483648", 3),
        ("", 3),
        ("high", 3),
        ("7.5", 3),
        ("--7", 3),
        ("+-7", 3),
        ("7_000", 3),
        (" 7", 3),
        ("²", 3),
        ("٣", 3),
        ("9" * 5000, 3),
    ],
)
def test_the_annotation_wins_where_it_is_a_number_of_32_bits(written, expected):
    assert task(priority=3, annotations={names.TASK_PRIORITY: written}).priority == expected


# ------------------------------------------------------------------------------------------------------ eviction, zones


@pytest.mark.parametrize(
    ("annotation", "label", "expected"),
    [
        (None, None, True),
        ("false", None, False),
        ("true", None, True),
        ("T", None, True),
        ("0", None, False),
        (None, "false", False),
        ("true", "false", True),
        ("perhaps", None, False),
        ("", None, False),
        ("yes", "true", False),
    ],
)
def test_pods_may_be_evicted_unless_they_say_no(annotation, label, expected):
    notes = {} if annotation is None else {names.PREEMPTABLE: annotation}
    labels = {} if label is None else {names.PREEMPTABLE: label}
    assert task(annotations=notes, labels=labels).preemptable is expected


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ({}, ""),
        ({names.REVOCABLE_ZONE: "*"}, "*"),
        ({names.REVOCABLE_ZONE: "night"}, ""),
        ({names.REVOCABLE_ZONE: "night", names.PREEMPTABLE: "true"}, ""),
        ({names.PREEMPTABLE: "true"}, "*"),
        ({names.PREEMPTABLE: "false"}, ""),
    ],
)
def test_only_a_star_opens_revocable_zones(notes, expected):
    assert task(annotations=notes).revocable_zone == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", True), ("TRUE", True), ("f", False), ("False", False), ("tRUE", None), ("yes", None), ("", None)],
)
def test_booleans_are_read_as_go_reads_them(text, expected):
    assert go_bool(text) is expected


# ------------------------------------------------------------------------------------------------------ the rest


def test_the_role_is_the_annotation_else_the_label():
    assert task(role="ps").role == "ps"
    assert task(labels={names.TASK_SPEC: "worker"}).role == "worker"
    assert task(role="ps", labels={names.TASK_SPEC: "worker"}).role == "ps"
    assert task().role == ""


def test_a_task_carries_what_scheduling_reads_of_its_pod():
    found = task(
        name="g-w-3", cpu="2", created=7, spec={"schedulingGates": [{"name": "x"}, {"name": "y"}]},
        status={"nominatedNodeName": "n9"},
    )  # fmt: skip
    assert (found.key, found.uid, found.gang) == ("default/g-w-3", "default/g-w-3", "default/g")
    assert found.request.amounts == {"cpu": 2000, "pods": 1000}
    assert (found.created, found.gates, found.index, found.nominated_node) == (when(7), ("x", "y"), 3, "n9")
    assert not found.is_best_effort


def fields(found):
    return {name: getattr(found, name) for name in found.__slots__}


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed"])
def test_a_pod_that_only_got_on_has_the_task_that_is_read_of_it(phase):
    pod = a_pod("a-w-1", gang="a", cpu="2", labels={names.TASK_SPEC: "w"}, annotations={names.PREEMPTABLE: "false"})
    spec = msgspec.structs.replace(pod.spec, node_name="n1")
    later = msgspec.structs.replace(pod, spec=spec, status=msgspec.structs.replace(pod.status, phase=phase))
    found = moved_on(task_of(pod, gang="default/a"), later)
    assert fields(found) == fields(task_of(later, gang="default/a"))


RESIZED = PodStatus(container_statuses=(ContainerStatus(name="main", allocated_resources={"cpu": "8"}),))


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: {"metadata": msgspec.structs.replace(pod.metadata, labels={"other": "yes"})},
        lambda pod: {"spec": msgspec.structs.replace(pod.spec, priority=7)},
        lambda _: {"status": RESIZED},
    ],
    ids=["labels", "priority", "resize"],
)
def test_a_pod_of_which_more_has_changed_is_read_anew(change):
    pod = a_pod("a-w-1", gang="a", cpu="2")
    assert moved_on(task_of(pod, gang="default/a"), msgspec.structs.replace(pod, **change(pod))) is None


def mates(**pod):
    """Two pods as a simulated controller makes them: all but the names is shared."""
    first = a_pod("a-w-1", gang="a", cpu="2", **pod)
    metadata = msgspec.structs.replace(first.metadata, name="a-w-2", uid="second")
    return first, msgspec.structs.replace(first, metadata=metadata)


def test_a_pod_that_was_made_as_its_mate_was_has_the_task_that_is_read_of_it():
    first, second = mates(annotations={names.PREEMPTABLE: "false"}, priority=5)
    assert fields(as_mate(task_of(first, gang="default/a"), second)) == fields(task_of(second, gang="default/a"))


def test_a_pod_with_volumes_named_after_it_or_a_node_of_its_own_is_read_by_itself():
    ephemeral = {"spec": {"volumes": [{"name": "v", "ephemeral": {}}]}}
    for first, second in (mates(**ephemeral), mates(node="n1")):
        assert as_mate(task_of(first, gang="default/a"), second) is None


def test_a_pod_that_only_looks_like_its_mate_is_read_by_itself():
    known = task_of(a_pod("a-w-1", gang="a", cpu="2"), gang="default/a")
    assert as_mate(known, a_pod("a-w-2", gang="a", cpu="2")) is None
