import msgspec
import pytest
from tests.unit.scheduling.clusters import a_cluster, a_group, a_node, a_pod, a_queue

from pumice.api import changes, names
from pumice.cluster.intake import Intake
from pumice.cluster.relevance import matters


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
    ],
    ids=["node again", "heartbeat", "pod again", "readiness", "our verdict", "our counters", "our holdings"],
)
def test_what_cannot_change_a_decision_does_not_matter(cluster, news):
    assert not matters(cluster, changes.Upserted(object=news), {})


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
        changed(GROUP, spec__minMember=5),
        changed(GROUP, status__phase="Running"),
        changed(GROUP, metadata__annotations={"volcano.sh/sla-waiting-time": "1h"}),
        changed(QUEUE, spec__weight=7),
        changed(QUEUE, status__state="Closed"),
    ],
)
def test_what_can_change_a_decision_matters(cluster, news):
    assert matters(cluster, changes.Upserted(object=news), {})


def test_a_deletion_matters(cluster):
    assert matters(cluster, changes.Deleted(object=POD), {})


def test_our_own_assumptions_do_not_matter_but_failures_do(cluster):
    Intake(cluster).apply(changes.Upserted(object=a_pod("w", gang="g")))
    ref = changes.PodRef(namespace="default", name="w", uid="default/w")
    assert not matters(cluster, changes.Assumed(pod=ref, node="n1", attempt="1-a", at=0), {})
    assert not matters(cluster, changes.Admitted(gang="default/g", uid=""), {})
    assert matters(cluster, changes.BindFailed(pod=ref, node="n1", attempt="1-a", at=0), {})
