"""Pods that draw others near: placed by the batch they go where they would go one by one."""

import random

from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.properties.members import place_members
from tests.unit.scheduling.clusters import a_gang, a_hyper_node, a_node, a_pod, policy, session_for

from pumice.scheduling.placing import topology


def a_tree(chance, nodes):
    """Leaves, some of them under spines; a few nodes hang nowhere, or directly below a spine."""
    leaves = chance.randint(1, 4)
    member = {name: chance.randint(-1, leaves) for name in nodes}
    things = [
        a_hyper_node(f"leaf{number}", 1, nodes=[name for name, own in member.items() if own == number])
        for number in range(leaves)
    ]
    spines = chance.randint(0, 2)
    above = {number: chance.randint(0, spines) for number in range(leaves)}
    things += [
        a_hyper_node(
            f"spine{spine}",
            2,
            children=[f"leaf{number}" for number, own in above.items() if own == spine],
            nodes=[name for name, own in member.items() if own == leaves and chance.random() < 0.5],
        )
        for spine in range(spines)
    ]
    return things


def a_session(chance):
    nodes = {f"n{number}": chance.randint(1, 8) for number in range(chance.randint(2, 9))}
    running = [
        a_pod(f"r{number}", node=chance.choice(list(nodes)), cpu=f"{chance.choice((250, 500))}m", gang="")
        for number in range(chance.randint(0, 5))
    ]
    wish = {"networkTopology": {"mode": "soft"}} if chance.random() < 0.6 else {}
    size = chance.randint(2, 14)
    started = [chance.choice(list(nodes)) for _ in range(chance.choice((0, 0, 1, 3)))]
    gang = a_gang(
        "g", size + len(started), cpu="500m", memory="1Gi", running=started, min_member=1, group={"spec": wish}
    )
    arguments = {
        "hypernode.binpack.normal-pod.in-use": chance.choice((0.0, 0.3, 1.0)),
        "weight": chance.choice((1, 1, 5)),
        "hypernode.binpack.normal-pod.fading": chance.choice((0, 0.5, 0.8, 1)),
    }
    order = {
        f"{name}.weight": chance.choice((0, 1, 3)) for name in ("leastrequested", "mostrequested", "balancedresource")
    }
    plugins = [
        {"name": "network-topology-aware", "arguments": arguments},
        {"name": "nodeorder", "arguments": order},
        {"name": "binpack", "arguments": {"binpack.weight": chance.choice((0, 1, 4))}},
    ]
    return session_for(
        [a_node(name, cpu=str(cpu), memory=f"{cpu * 2}Gi") for name, cpu in nodes.items()],
        a_tree(chance, nodes),
        running,
        gang,
        policy=policy("allocate", plugins),
    )


def places(session, most):
    """Where the waiting members go, at most so many per operation."""
    gang, statement = session.gangs["default/g"], session.statement()
    assert topology.prepare(session, gang) is None
    found = place_members(session, statement, gang, most)
    statement.rollback()
    return found


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_pods_placed_at_once_go_where_they_would_go_one_by_one(seed):
    note(f"seed {seed}")
    session = a_session(random.Random(seed))
    one_by_one = places(session, 1)
    assert places(session, 100) == one_by_one
    assert places(session, 1) == one_by_one, "rolling back leaves a trace"
