import msgspec
import pytest
from tests.unit.scheduling.clusters import a_cluster, a_group, a_node, a_pod, a_queue

from pumice.api import changes, names
from pumice.cluster.intake import Intake
from pumice.cluster.relevance import Urgency, urgency


def changed(thing, **manifest):
    """The same object with some fields of its manifest replaced."""
    builtins = msgspec.to_builtins(thing, enc_hook=dict)
    for path, value in manifest.items():
        target = builtins
        *parents, last = path.split("__")
        for parent in parents:
            target = target.setdefault(parent, {})
        target[last] = value
    return msgspec.convert(builtins, type(thing))


NODE = a_node("n1")
POD = a_pod("p1", gang="g", node="n1", phase="Running")
GROUP = a_group("g")
QUEUE = a_queue("q")


@pytest.fixture
def cluster():
    return a_cluster(NODE, POD, GROUP, QUEUE)


@pytest.mark.parametrize(
    "news",
    [
        NODE,
        changed(NODE, metadata__resourceVersion="9", status__conditions=[{"type": "Ready", "status": "True"}]),
        POD,
        changed(POD, metadata__resourceVersion="9", status__conditions=[{"type": "Ready", "status": "True"}]),
        changed(GROUP, metadata__annotations={names.VERDICT: "{}"}),
        changed(GROUP, status__running=3),
        changed(QUEUE, status__allocated={"cpu": "4"}),
        a_pod("another's", spec={"schedulerName": "default-scheduler"}),
        a_pod("another's", spec={"schedulerName": "default-scheduler"}, node="n1", phase="Succeeded"),
    ],
    ids=[
        *("node again", "heartbeat", "pod again", "readiness", "our verdict", "our counters", "our holdings"),
        *("a pod that another scheduler is to place", "a pod of another scheduler that has ended"),
    ],
)
def test_what_cannot_change_a_decision_does_not_matter(cluster, news):
    assert urgency(cluster, changes.Upserted(object=news), {}) is Urgency.NONE


@pytest.mark.parametrize(
    "news",
    [
        a_node("n2"),
        a_pod("p2"),
        changed(NODE, spec__unschedulable=True),
        changed(NODE, status__allocatable={"cpu": "1"}),
        changed(NODE, metadata__labels={"zone": "a"}),
        changed(POD, status__phase="Succeeded"),
        changed(POD, metadata__deletionTimestamp="2026-01-01T00:00:00Z"),
        changed(POD, metadata__labels={"app": "other"}),
        changed(POD, status__resourceClaimStatuses=[{"name": "card", "resourceClaimName": "p1-card"}]),
        changed(GROUP, spec__minMember=5),
        changed(GROUP, status__phase="Pending"),
        changed(GROUP, status__phase="Running", spec__minMember=5),
        changed(GROUP, metadata__annotations={"volcano.sh/sla-waiting-time": "1h"}),
        changed(QUEUE, spec__weight=7),
        changed(QUEUE, status__state="Closed"),
    ],
)
def test_what_can_change_a_decision_matters(cluster, news):
    assert urgency(cluster, changes.Upserted(object=news), {}) is Urgency.NOW


def test_a_pod_that_another_scheduler_has_placed_can_wait(cluster):
    placed = a_pod("another's", spec={"schedulerName": "default-scheduler"}, node="n1")
    assert urgency(cluster, changes.Upserted(object=placed), {}) is Urgency.SOON


@pytest.mark.parametrize(("phase", "expected"), [("Inqueue", Urgency.NONE), ("Running", Urgency.SOON)])
def test_an_admission_that_was_planned_with_already_does_not_matter_when_the_server_tells_of_it(phase, expected):
    cluster = a_cluster(QUEUE, a_group("g", phase="Pending"))
    Intake(cluster).apply(changes.Admitted(gang="default/g", uid=GROUP.metadata.uid))
    assert urgency(cluster, changes.Upserted(object=a_group("g", phase=phase)), {}) is expected


@pytest.mark.parametrize(
    "late",
    [
        {"metadata__annotations": {names.VERDICT: "{}"}},
        {"status__conditions": [{"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources"}]},
    ],
)
def test_a_word_that_a_gang_waits_which_arrives_when_it_runs_is_soon_taken_back(late):
    runs = a_group("g", phase="Running")
    cluster = a_cluster(QUEUE, runs)
    assert urgency(cluster, changes.Upserted(object=changed(runs, metadata__labels={})), {}) is Urgency.NONE
    assert urgency(cluster, changes.Upserted(object=changed(runs, **late)), {}) is Urgency.SOON


WAITS = a_pod("w", gang="g")
BOUND = changed(WAITS, spec__nodeName="n1", metadata__annotations={names.GROUP_NAME: "g", names.ATTEMPT: "1-a"})


def test_a_pod_that_got_on_where_it_was_sent_can_wait(cluster):
    """Bound as we asked, then running: there is something to say, and nobody's room has changed."""
    intake = Intake(cluster)
    intake.apply(changes.Upserted(object=WAITS))
    ref = changes.PodRef(namespace="default", name="w", uid=WAITS.metadata.uid)
    intake.apply(changes.Assumed(pod=ref, node="n1", attempt="1-a", at=0))
    for further in (BOUND, changed(BOUND, status__phase="Running")):
        assert urgency(cluster, changes.Upserted(object=further), {}) is Urgency.SOON
        intake.apply(changes.Upserted(object=further))
        assert urgency(cluster, changes.Upserted(object=further), {}) is Urgency.NONE


@pytest.mark.parametrize(
    "otherwise",
    [
        changed(BOUND, spec__nodeName="n2"),
        changed(BOUND, metadata__labels={"app": "other"}),
        changed(BOUND, metadata__deletionTimestamp="2026-01-01T00:00:00Z"),
        changed(BOUND, status__phase="Failed"),
        changed(BOUND, spec__priority=7),
    ],
    ids=["on another node", "with other labels", "and has to leave", "and failed", "with another priority"],
)
def test_a_pod_that_was_bound_otherwise_than_asked_matters_now(cluster, otherwise):
    intake = Intake(cluster)
    intake.apply(changes.Upserted(object=WAITS))
    ref = changes.PodRef(namespace="default", name="w", uid=WAITS.metadata.uid)
    intake.apply(changes.Assumed(pod=ref, node="n1", attempt="1-a", at=0))
    assert urgency(cluster, changes.Upserted(object=otherwise), {}) is Urgency.NOW


def test_a_deletion_matters(cluster):
    assert urgency(cluster, changes.Deleted(object=POD), {}) is Urgency.NOW


def test_our_own_assumptions_do_not_matter_but_failures_do(cluster):
    Intake(cluster).apply(changes.Upserted(object=a_pod("w", gang="g")))
    ref = changes.PodRef(namespace="default", name="w", uid="default/w")
    assert urgency(cluster, changes.Assumed(pod=ref, node="n1", attempt="1-a", at=0), {}) is Urgency.NONE
    assert urgency(cluster, changes.Admitted(gang="default/g", uid=""), {}) is Urgency.NONE
    assert urgency(cluster, changes.BindFailed(pod=ref, node="n1", attempt="1-a", at=0), {}) is Urgency.NOW
