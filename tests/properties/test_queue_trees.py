"""Random trees of queues under capacity: limits hold on every level, and a broken branch changes nothing for anybody else."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduling.clusters import a_gang, a_node, a_queue, plan_for, policy

from pumice.cluster.queues import queue_of
from pumice.scheduling.sharing.queue_tree import queue_tree

NAMES = ("a", "b", "c", "d", "e")
POLICY = policy("enqueue, allocate", ["gang", {"name": "capacity", "enableHierarchy": True}])

queues = st.lists(
    st.builds(
        lambda name, parent, cpus, guarantee: {"name": name, "parent": parent, "cpus": cpus, "guarantee": guarantee},
        st.sampled_from(NAMES),
        st.sampled_from(["root", "missing", *NAMES]),
        st.none() | st.integers(1, 6),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda queue: queue["name"],
)
gangs = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 3), st.integers(1, 3)), max_size=6)


def a_written_queue(queue):
    return a_queue(
        queue["name"],
        parent=queue["parent"],
        capability={"cpu": str(queue["cpus"])} if queue["cpus"] else None,
        guarantee={"cpu": str(queue["guarantee"])} if queue["guarantee"] else None,
    )


def written(queues, gangs):
    """Objects, and the queue of each gang; gangs of queues that do not exist are left out."""
    known = {queue["name"] for queue in queues}
    chosen = {f"g{number}": (queue, size, least) for number, (queue, size, least) in enumerate(gangs) if queue in known}
    objects = [a_written_queue(queue) for queue in queues]
    for name, (queue, size, least) in chosen.items():
        objects += a_gang(name, size, min_member=min(least, size), group={"queue": queue})
    return objects, {name: queue for name, (queue, _, _) in chosen.items()}


def landed(decisions):
    return {bind.task.name: bind.node for commit in decisions.commits for bind in commit.binds}


@settings(max_examples=150, deadline=None)
@given(queues, gangs)
def test_no_queue_and_no_ancestor_holds_more_than_its_capability(queues, gangs):
    objects, queue_of_gang = written(queues, gangs)
    decisions = plan_for(a_node(cpu="20"), a_queue("root"), objects, policy=POLICY)
    tree = queue_tree({queue.metadata.name: queue_of(queue) for queue in objects if hasattr(queue.spec, "capability")})
    held = dict.fromkeys(tree.queues, 0)
    for commit in decisions.commits:
        queue = queue_of_gang[commit.gang.partition("/")[2]]
        assert queue not in tree.faults
        assert tree.is_leaf(queue)
        for name in tree.paths[queue]:
            held[name] += len(commit.binds) * 1000
    for name, queue in tree.queues.items():
        assert held[name] <= queue.capability.get("cpu", float("inf")), name


@settings(max_examples=150, deadline=None)
@given(queues, gangs)
def test_a_broken_branch_changes_nothing_for_the_others(queues, gangs):
    objects, _ = written(queues, gangs)
    everything = landed(plan_for(a_node(cpu="20"), a_queue("root"), objects, policy=POLICY))
    faults = queue_tree({queue["name"]: queue_of(a_written_queue(queue)) for queue in queues}).faults
    sound = [queue for queue in queues if queue["name"] not in faults]
    # Numbers stay with their gangs, so that names and ages are the same in both worlds.
    kept = [gang if gang[0] not in faults else ("nowhere", *gang[1:]) for gang in gangs]
    remaining, _ = written(sound, kept)
    assert landed(plan_for(a_node(cpu="20"), a_queue("root"), remaining, policy=POLICY)) == everything
