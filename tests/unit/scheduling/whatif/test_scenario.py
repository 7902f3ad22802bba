"""What a different cluster would do, compared with this one."""

from tests.unit.scheduling.clusters import NOW, a_cluster, a_gang, a_group, a_node

from pumice.cli import what_if
from pumice.scheduling.core import builtin
from pumice.scheduling.whatif.scenario import Scenario, compare
from pumice.scheduling.whatif.trial import Question

POLICY = builtin.parse(builtin.TEXT, "built-in policy")
GPU = {"gpu": 1, "cpu": None}
UID = "0518b5e4-bb4a-4133-a8e3-2791ec7c7dc3"


def outcome(scenario, *things):
    return compare(Question(a_cluster(*things).snapshot(), POLICY, NOW), scenario)


def test_a_job_whose_pods_do_not_exist_yet_would_be_admitted():
    """Its controller makes pods once it is admitted: to say that nothing would start would be wrong."""
    full = a_gang("runs", 8, running=["n1"] * 8, group={"phase": "Running"}, **GPU)
    eight = {"nvidia.com/gpu": "8"}
    waits = a_group(f"train-{UID}", 8, phase="Pending", minimum=eight, created=3590)
    found = outcome(Scenario(add_nodes=1, like="n1"), a_node("n1", gpu=8, cpu="64"), full, waits)
    assert (found.admitted, found.starts, found.waiting) == ({f"default/train-{UID}": 8}, {}, 0)
    assert what_if.text(found) == (
        "would be admitted, and start if its pods, which are made then, find room: default/train (8 pods)\n"
        "0 gangs go on waiting"
    )


def test_a_gang_with_pods_would_start():
    full = a_gang("runs", 8, running=["n1"] * 8, group={"phase": "Running"}, **GPU)
    waits = a_gang("train", 8, **GPU)
    found = outcome(Scenario(without=("default/runs",)), a_node("n1", gpu=8, cpu="64"), full, waits)
    assert (found.starts, found.admitted, found.waiting) == ({"default/train": 8}, {}, 0)
