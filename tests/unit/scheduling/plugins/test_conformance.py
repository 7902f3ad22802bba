"""conformance: system pods are nobody's victims."""

import pytest
from tests.unit.scheduling.clusters import a_gang, a_node, a_pod, policy, session_for

from pumice.scheduling.core.points import EvictionKind


def survivors(point, *flags):
    option = {"name": "conformance", **dict(flags)}
    session = session_for(
        a_node("n1"), a_gang("g", 1), a_pod("plain", node="n1"), a_pod("system", node="n1", namespace="kube-system"),
        a_pod("critical", node="n1", spec={"priorityClassName": "system-node-critical"}),
        a_pod("vital", node="n1", spec={"priorityClassName": "system-cluster-critical"}),
        policy=policy("allocate", [option], "gang"),
    )  # fmt: skip
    candidates = list(session.room.table.tasks[0])
    claimant = session.gangs["default/g"]
    asker = (EvictionKind.RECLAIM, claimant) if point == "evictable" else (claimant.tasks[0],)
    return sorted(task.name for task in getattr(session.points, point).of(*asker, candidates))


@pytest.mark.parametrize("point", ["preemptable", "reclaimable", "evictable"])
def test_kube_system_and_critical_classes_are_protected(point):
    assert survivors(point) == ["plain"]


def test_a_flag_turns_the_protection_off_where_somebody_insists():
    assert "system" not in survivors("preemptable", ("enableReclaimable", False))
    assert survivors("preemptable", ("enablePreemptable", False)) == []  # gang alone decides, and nobody is surplus
