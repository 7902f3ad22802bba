"""backfill: pods that ask for nothing go wherever filters and slots let them; quotas are not asked."""

from tests.unit.scheduling.clusters import a_gang, a_group, a_node, a_pod, a_queue, binds, plan_for, policy, report

POLICY = policy("allocate, backfill", "priority gang", "predicates proportion")
IDLE = {"cpu": None}


def plan(*things, policy=POLICY):
    return plan_for(*things, policy=policy)


def test_pods_that_ask_for_nothing_are_placed_on_full_nodes_too():
    busy = a_pod("busy", cpu="4", node="n1")
    assert binds(plan(a_node("n1", cpu="4"), busy, a_gang("g", 2, **IDLE))) == {"g-w-0": "n1", "g-w-1": "n1"}


def test_neither_quota_nor_a_closed_queue_is_asked():
    assert binds(plan(a_node("n1"), a_queue(state="Closed"), a_gang("g", 1, **IDLE))) == {"g-w-0": "n1"}


def test_each_needs_a_slot():
    assert len(binds(plan(a_node("n1", pods="3"), a_gang("g", 5, min_member=0, **IDLE)))) == 3
    bare = policy("backfill", "gang")
    assert len(binds(plan(a_node("n1", pods="3"), a_gang("g", 5, min_member=0, **IDLE), policy=bare))) == 3


def test_a_slot_that_is_only_being_released_is_not_free_yet():
    leaving = a_pod("leaving", node="n1", metadata={"deletionTimestamp": "2026-01-01T00:30:00Z"})
    for chosen in (POLICY, policy("backfill", "gang")):
        assert binds(plan(a_node("n1", pods="1"), leaving, a_gang("g", 1, **IDLE), policy=chosen)) == {}


def test_filters_hold():
    nodes = [a_node("n1", taints=["dedicated=x:NoSchedule"]), a_node("n2", labels={"zone": "east"}), a_node("n3")]
    east = {"nodeSelector": {"zone": "east"}}
    assert binds(plan(nodes, a_gang("g", 1, spec=east, **IDLE))) == {"g-w-0": "n2"}


def test_a_gang_that_is_not_ready_keeps_its_pods_unbound():
    members = [a_pod("g-a-0", gang="g", cpu=None), a_pod("g-b-0", gang="g", cpu="99")]
    decisions = plan(a_node("n1", cpu="4"), a_group("g", 2), members)
    assert binds(decisions) == {}


def test_a_gang_starts_with_both_kinds_of_members():
    members = [a_pod("g-a-0", gang="g", cpu=None), a_pod("g-b-0", gang="g", cpu="1")]
    assert binds(plan(a_node("n1", cpu="4"), a_group("g", 2), members)) == {"g-b-0": "n1", "g-a-0": "n1"}


def test_gated_pods_gangs_that_wait_for_admission_and_incomplete_gangs_are_left_out():
    gated = a_gang("gated", 1, spec={"schedulingGates": [{"name": "later"}]}, **IDLE)
    incomplete = a_gang("incomplete", 1, min_member=2, **IDLE)
    chosen = policy("enqueue, backfill", "gang", "proportion")
    closed = a_queue(state="Closed")
    pending = a_gang("pending", 1, group={"phase": "Pending", "minimum": {"cpu": "1"}}, **IDLE)
    assert binds(plan(a_node("n1"), closed, gated, pending, incomplete, policy=chosen)) == {}
    one_slot, late = a_node("n1", pods="1"), a_gang("late", 1, created=9, **IDLE)
    assert binds(plan(one_slot, incomplete, late)) == {"late-w-0": "n1"}  # they do not even keep a slot


def test_a_pod_that_finds_no_node_says_why():
    found = report(plan(a_node("n1", taints=["dedicated=x:NoSchedule"]), a_gang("g", 1, **IDLE)), "g")
    assert [verdict.message for verdict in found.pods] == [
        "0/1 nodes are unavailable: 1 node(s) had untolerated taint(s)."
    ]


def test_all_pods_of_the_first_queue_come_before_the_next_queue():
    world = [a_node("n1", pods="2"), a_queue("a", priority=1), a_queue("b", priority=9)]
    a = a_gang("a", 2, min_member=0, group={"queue": "a"}, **IDLE)
    b = a_gang("b", 2, min_member=0, group={"queue": "b"}, created=9, **IDLE)
    assert sorted(binds(plan(*world, a, b))) == ["b-w-0", "b-w-1"]
