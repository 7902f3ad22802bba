"""fragmentation: a batch goes where single placements would, and a node's score does not depend on which others are asked about."""

import random

import numpy as np
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.properties.members import place_members
from tests.unit.scheduling.clusters import a_gang, a_node, a_pod, policy, session_for

from pumice.cluster.tasks import Status
from pumice.scheduling.placing.placement import Pairs

GPU = "nvidia.com/gpu"


def a_world(chance):
    """Nodes with counted GPUs, shared cards or none; pods that run, and gangs that wait for whole GPUs or parts of cards."""
    things = []
    for number in range(chance.randint(1, 8)):
        name, cpu = f"n{number}", str(chance.choice((4, 8, 16, 33)))
        memory = f"{chance.choice((8, 16, 64))}Gi"
        kind = chance.choice(("whole", "cards", "cards", "none"))
        if kind == "cards":
            listed = "".join(
                f"{name}-{each},{chance.choice((2, 10))},{chance.choice((500, 1000))},{chance.choice('AB')},true,hami-core:"
                for each in range(chance.randint(1, 4))
            )
            things.append(a_node(name, cpu=cpu, memory=memory, annotations={"volcano.sh/node-vgpu-register": listed}))
        else:
            things.append(
                a_node(name, cpu=cpu, memory=memory, gpu=chance.choice((2, 4, 8)) if kind == "whole" else None)
            )
        if chance.random() < 0.5:
            things.append(a_pod(f"old{number}", node=name, cpu="1", gpu=1 if kind == "whole" else None))
    waiting = range(chance.randint(1, 3))
    return things + [a_gang(f"g{number}", chance.randint(1, 9), **a_request(chance)) for number in waiting]


def a_request(chance):
    cpu, memory = chance.choice(("500m", "1", "3")), chance.choice((None, "1Gi", "4Gi"))
    kind = chance.choice(("whole", "cards", "cards", "none"))
    if kind == "none":
        return {"cpu": cpu, "memory": memory}
    if kind == "whole":
        return {"cpu": cpu, "memory": memory, "gpu": chance.choice((1, 2, 4))}
    asked = {"volcano.sh/vgpu-number": str(chance.choice((1, 1, 2)))}
    asked |= chance.choice((
        {}, {"volcano.sh/vgpu-memory": str(chance.choice((100, 300, 500)))}, {"volcano.sh/vgpu-cores": "30"},
        {"volcano.sh/vgpu-memory-percentage": "40"}, {"volcano.sh/vgpu-cores": "100"},
    ))  # fmt: skip
    return {
        "cpu": cpu,
        "memory": memory,
        "more": asked,
        "spec": {"containers": [{"name": "main", "resources": {"requests": asked | {"cpu": cpu}, "limits": asked}}]},
    }


def a_session(seed):
    chance = random.Random(seed)
    cards = {
        "deviceshare.VGPUEnable": True,
        "deviceshare.SchedulePolicy": chance.choice(("", "binpack", "spread")),
        "deviceshare.ScheduleWeight": chance.choice((0, 1)),
    }
    plugins = ["predicates", {"name": "deviceshare", "arguments": cards}, "fragmentation"]
    if chance.random() < 0.5:
        plugins.append("binpack")
    return session_for(*a_world(chance), policy=policy("allocate", plugins))


def places(session, most):
    """Where the waiting members of all gangs go, at most so many per operation."""
    statement = session.statement()
    return [node for gang in session.gangs.values() for node in place_members(session, statement, gang, most)]


@given(st.integers(min_value=0, max_value=2**32))
@settings(max_examples=150)
def test_a_batch_goes_where_single_placements_would(seed):
    note(f"seed {seed}")
    assert places(a_session(seed), 256) == places(a_session(seed), 1)


@given(st.integers(min_value=0, max_value=2**32))
@settings(max_examples=75)
def test_a_score_is_the_nodes_own(seed):
    """Bit for bit: asked about with others or alone."""
    note(f"seed {seed}")
    session = a_session(seed)
    (hook,) = [each for each in session.points.load_score.hooks if each.plugin == "fragmentation"]
    for gang in session.gangs.values():
        for task in gang.tasks_in(Status.PENDING)[:1]:
            shape, every = session.shape(task), np.arange(len(session.room.table))
            together = _scores(session, hook, shape, every)
            if together is None:
                continue
            alone = [_scores(session, hook, shape, every[number : number + 1])[0] for number in every]
            assert together.tolist() == alone


def _scores(session, hook, shape, nodes):
    pairs = Pairs(session.room, shape.demand, nodes, np.zeros(len(nodes), dtype=np.int64), pipelining=False)
    return hook.call.score(shape, pairs)
