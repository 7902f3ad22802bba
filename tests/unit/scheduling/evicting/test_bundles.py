"""What a gang can spare, and what goes only with the gang as a whole."""

import pytest
from tests.unit.scheduling.clusters import a_gang, a_group, a_node, a_pod, policy, session_for

from pumice.cluster.tasks import Status
from pumice.scheduling.evicting.bundles import bundles_of, in_order

PLAIN = policy("allocate", "priority gang")


def split(*things, gang="g"):
    """Names of the safe and of the needed members, out of all that run."""
    session = session_for(a_node(cpu="64"), *things, policy=PLAIN)
    state = session.gangs[f"default/{gang}"]
    tasks = state.tasks_in(Status.RUNNING)
    bundles = bundles_of(state, tasks, tasks)
    named = {bundle.whole: [task.name for task in bundle.tasks] for bundle in bundles}
    return named.get(False, []), named.get(True, [])


def running(name, **more):
    return a_pod(name, gang="g", node="n1", **more)


def test_members_above_the_minimum_can_be_spared_the_last_first():
    assert split(a_gang("g", 3, min_member=1, running=["n1"] * 3)) == (["g-w-2", "g-w-1"], ["g-w-0"])


def test_members_of_lower_priority_go_first():
    pods = [running("a", priority=9), running("b", priority=1), running("c", priority=5)]
    assert split(a_group("g", 2), pods) == (["b"], ["c", "a"])


def test_a_gang_at_its_minimum_can_spare_nobody():
    assert split(a_gang("g", 2, running=["n1"] * 2)) == ([], ["g-w-1", "g-w-0"])


def test_a_gang_below_its_minimum_has_nothing_to_lose():
    assert split(a_gang("g", 2, min_member=3, running=["n1"] * 2)) == (["g-w-1", "g-w-0"], [])


def test_a_role_keeps_its_minimum():
    pods = [running("m", role="master"), *[running(f"w{n}", role="worker") for n in range(3)]]
    group = a_group("g", 2, roles={"master": 1, "worker": 1})
    assert split(group, pods) == (["w0", "w1"], ["m", "w2"][::1])


def test_role_minimums_beyond_the_gangs_minimum_do_not_count():
    pods = [running("m", role="master"), running("w", role="worker")]
    assert split(a_group("g", 1, roles={"master": 1, "worker": 1}), pods) == (["m"], ["w"])


def parts(sizes, *, size, minimum, min_member):
    rule = {"name": "part", "subGroupSize": size, "matchLabelKeys": ["part"], "minSubGroups": minimum}
    pods = [
        running(f"{part}{number}", labels={"part": str(part)})
        for part, count in enumerate(sizes)
        for number in range(count)
    ]
    return a_group("g", min_member, spec={"subGroupPolicy": [rule]}), pods


def test_a_part_that_the_policy_can_do_without_can_be_spared_whole():
    safe, needed = split(*parts([2, 2, 2], size=2, minimum=2, min_member=4))
    assert (sorted(safe), sorted(needed)) == (["00", "01"], ["10", "11", "20", "21"])


def test_members_beyond_the_size_of_their_part_can_be_spared_without_breaking_it():
    safe, needed = split(*parts([3, 2], size=2, minimum=2, min_member=4))
    assert (safe, sorted(needed)) == (["00"], ["01", "02", "10", "11"])


def test_members_of_a_broken_part_are_free():
    safe, _ = split(*parts([1, 2], size=2, minimum=1, min_member=2))
    assert safe == ["00"]


def test_pods_of_no_part_are_bound_by_the_gangs_minimum_alone():
    group, pods = parts([2], size=2, minimum=1, min_member=2)
    assert split(group, pods, running("extra"))[0] == ["extra"]


@pytest.mark.parametrize(("cost", "first"), [(0, "a"), (3, "b")])
def test_of_whole_gangs_the_one_that_gives_most_for_what_it_costs_goes_first(cost, first):
    """Gang a has further members elsewhere, which would be lost with it."""
    session = session_for(
        [a_node("n1", cpu="8"), a_node("n2", cpu="8")],
        a_gang("a", 1 + cost, running=["n1"] + ["n2"] * cost),
        a_gang("b", 1, running=["n1"]),
        policy=PLAIN,
    )
    found = []
    for name in ("a", "b"):
        gang = session.gangs[f"default/{name}"]
        found += bundles_of(gang, [task for task in gang.tasks if task.node == "n1"], gang.tasks)
    ordered = in_order(found, {"cpu": 1000, "pods": 1000}, lambda left, right: 0)
    assert ordered[0].gang.key == f"default/{first}"
