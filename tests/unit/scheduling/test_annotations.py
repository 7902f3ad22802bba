"""What plugins choose for a pod travels with its bind, and counts from the moment the bind is on its way."""

from tests.unit.scheduling.clusters import NOW, a_cluster, a_gang, a_node, plan_for

from pumice.api import changes
from pumice.api.changes import PodRef
from pumice.cluster.intake import Intake
from pumice.cluster.tasks import Status
from pumice.scheduling.core.arguments import Args
from pumice.scheduling.core.builtin import parse
from pumice.scheduling.core.plugin import Plugin

POLICY = b'{"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, {"name": "cards"}]}]}'


class Cards(Plugin):
    """Gives every pod a card, and wants the node locked for the first."""

    args_type = Args

    def __init__(self, args, option):
        del args, option

    def open(self, session):
        session.on.annotate(lambda task: {"card": f"of {task.name}"})
        session.on.node_lock(lambda task: "gpu" if task.name.endswith("0") else "")


def test_annotations_and_locks_of_plugins_are_part_of_a_bind():
    policy = parse(POLICY, "test", {"cards": Cards})
    decisions = plan_for(a_node(), a_gang("g", 2), policy=policy, extra_plugins={"cards": Cards})
    (commit,) = decisions.commits
    assert [(bind.annotations, bind.lock) for bind in commit.binds] == [
        ({"card": "of g-w-0"}, "gpu"),
        ({"card": "of g-w-1"}, ""),
    ]


def test_a_pod_that_is_being_bound_carries_what_its_bind_will_write():
    cluster = a_cluster(a_node(), a_gang("g", 1))
    ref = PodRef(namespace="default", name="g-w-0", uid="default/g-w-0")
    assumed = changes.Assumed(pod=ref, node="n1", attempt="1-a", at=NOW, annotations={"card": "3"})
    intake = _intake_of(cluster)
    intake.apply(assumed)
    (task,) = cluster.snapshot().gangs["default/g"].tasks
    assert (task.status, task.node) == (Status.BINDING, "n1")
    assert task.pod.metadata.annotations["card"] == "3"
    intake.apply(changes.BindFailed(pod=ref, node="n1", attempt="1-a", at=NOW))
    (task,) = cluster.snapshot().gangs["default/g"].tasks
    assert "card" not in task.pod.metadata.annotations


def _intake_of(cluster):
    """An intake that has seen what the cluster holds."""
    intake = Intake(cluster)
    for task in list(cluster.tasks.values()):
        intake.apply(changes.Upserted(task.pod))
    return intake
