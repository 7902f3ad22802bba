"""What a queue has left is what the engine lets it start: that many, and not one more."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.scheduling.clusters import NOW, a_cluster, a_gang, a_node, a_queue, policy, started

from pumice.cluster import amounts
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.sharing import limits

GPU = "nvidia.com/gpu"
POLICIES = {
    "proportion": policy("allocate", "gang predicates", "proportion"),
    "capacity": policy("allocate", "gang predicates", "capacity"),
    "tree": policy("allocate", "gang predicates", [{"name": "capacity", "enableHierarchy": True}]),
    "drf": policy("allocate", "gang predicates", "drf"),
    "built-in": builtin.parse(builtin.TEXT, "built-in policy"),
    "none": policy("allocate", "gang predicates"),
}
NAMES = ("a", "b", "c")


def an_amount(gpus):
    return st.none() | st.integers(1, gpus).map(lambda count: {GPU: str(count)})


@st.composite
def worlds(draw):
    gpus = draw(st.integers(4, 24))
    queues, left = [], gpus
    for name in NAMES:
        guarantee = draw(st.none() | st.integers(1, max(gpus // 4, 1)).map(lambda count: {GPU: str(count)}))
        queues.append(
            a_queue(
                name,
                weight=draw(st.integers(1, 5)),
                capability=draw(an_amount(gpus)),
                deserved=draw(an_amount(gpus)),
                guarantee=guarantee,
            )
        )
    gangs = []
    for name in NAMES:
        count = draw(st.integers(0, left // 2))
        if count:
            left -= count
            group = {"queue": name, "phase": "Running"}
            gangs.append(a_gang(f"runs-{name}", count, running=["n1"] * count, group=group, cpu=None, gpu=1))
    return [a_node("n1", cpu="99", gpu=gpus, pods="500"), *queues, *gangs], left


@given(worlds(), st.sampled_from(sorted(POLICIES)), st.sampled_from(NAMES))
def test_what_is_left_can_be_started_and_no_more(world, chosen, queue):
    things, idle = world
    rules = POLICIES[chosen]

    def starts(count):
        new = a_gang("new", count, group={"queue": queue}, cpu=None, gpu=1)
        return "new" in started(cycle.plan(a_cluster(*things, new).snapshot(), rules, now=NOW))

    snapshot = a_cluster(*things).snapshot()
    found = limits.queue_limits(snapshot, rules, cycle.plan(snapshot, rules, now=NOW))[queue]
    left = int(found.left[GPU] // amounts.MILLI)
    if 0 < left <= idle:
        assert starts(left)
    if left < idle:
        assert not starts(left + 1)
