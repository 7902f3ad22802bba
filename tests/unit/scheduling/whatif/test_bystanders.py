"""Who needs no turn in a trial: gangs for which there is no room, and those behind the gang in question."""

from tests.unit.scheduling.clusters import NOW, a_cluster, a_gang, a_node

from pumice.cluster import edits
from pumice.scheduling.core import builtin
from pumice.scheduling.whatif.bystanders import Bystanders
from pumice.scheduling.whatif.trial import Question

POLICY = builtin.parse(builtin.TEXT, "built-in policy")
GPU = {"gpu": 1, "cpu": None}
FULL = (
    a_node("n1", gpu=8, cpu="64"),
    a_gang("runs", 8, running=["n1"] * 8, group={"phase": "Running"}, **GPU),
    a_gang("large", 9, created=3590, **GPU),
    a_gang("asked", 8, created=3591, **GPU),
    a_gang("small", 4, created=3592, **GPU),
)


def bystanders(edit=lambda snapshot: snapshot):
    snapshot = a_cluster(*FULL).snapshot()
    decisions = Question(snapshot, POLICY, NOW).plan(snapshot)
    return Bystanders(snapshot, decisions, "default/asked").in_(edit(snapshot))


def test_in_a_full_cluster_nobody_else_needs_a_turn():
    assert bystanders() == {"default/large", "default/small"}


def test_whoever_is_ahead_and_could_take_what_becomes_free_has_its_turn():
    assert bystanders(lambda snapshot: edits.with_nodes(snapshot, "n1", 2)) == {"default/small"}
    assert bystanders(lambda snapshot: edits.with_nodes(snapshot, "n1", 1)) == {"default/large", "default/small"}
