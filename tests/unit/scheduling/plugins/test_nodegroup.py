import msgspec
import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_queue,
    binds,
    plan_for,
    policy,
    report,
    session_for,
    started,
)

from pumice.scheduling.core.verdict import Cure

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def a_grouped_node(name, group, **node):
    return a_node(name, labels={"volcano.sh/nodegroup-name": group} if group else {}, **node)


def a_choosy_queue(name="q", *, required=(), preferred=(), never=(), rather_not=(), **queue):
    wanted = {REQUIRED: list(required), PREFERRED: list(preferred)} if required or preferred else None
    avoided = {REQUIRED: list(never), PREFERRED: list(rather_not)} if never or rather_not else None
    affinity = {"nodeGroupAffinity": wanted, "nodeGroupAntiAffinity": avoided}
    return a_queue(name, spec={"affinity": affinity}, **queue)


def nodegroup(*, hierarchy=False, **arguments):
    plugin = {"name": "nodegroup", "enableHierarchy": hierarchy, "arguments": arguments}
    return policy("allocate", ["gang", plugin])


def open_nodes(queue, *groups, chosen=None):
    """The groups (of one node each; "" for none) that a pod of the queue may use."""
    nodes = [a_grouped_node(f"n-{group or 'none'}", group) for group in groups]
    gang = a_gang("g", 1, group={"queue": "q"})
    session = session_for(*nodes, queue, gang, policy=chosen or nodegroup())
    allowed = session.placer.allowed(session.shape(session.gangs["default/g"].tasks[0]))
    return [group for group in groups if allowed[session.room.table.index[f"n-{group or 'none'}"]]]


def test_a_queue_uses_the_groups_that_it_requires_or_prefers():
    queue = a_choosy_queue(required=["a"], preferred=["b"])
    assert open_nodes(queue, "a", "b", "c", "") == ["a", "b"]


def test_a_group_that_must_not_be_used_is_closed_even_if_it_is_preferred():
    queue = a_choosy_queue(required=["a"], preferred=["b"], never=["b"])
    assert open_nodes(queue, "a", "b", "c") == ["a"]


def test_a_group_that_the_queue_would_rather_not_use_is_open():
    queue = a_choosy_queue(required=["a"], rather_not=["b"])
    assert open_nodes(queue, "a", "b", "c") == ["a", "b"]


def test_a_queue_that_names_only_groups_to_avoid_may_use_all_the_others():
    assert open_nodes(a_choosy_queue(never=["a"]), "a", "b", "c", "") == ["b", "c"]
    assert open_nodes(a_choosy_queue(never=["a"]), "a", "b", "", chosen=nodegroup(strict=False)) == ["b", ""]
    assert open_nodes(a_choosy_queue(rather_not=["a"]), "a", "b") == ["a", "b"]


def test_a_queue_without_affinity_has_no_group_and_only_if_not_strict_the_nodes_without_one():
    assert open_nodes(a_queue("q"), "a", "") == []
    assert open_nodes(a_queue("q"), "a", "", chosen=nodegroup(strict=False)) == [""]


def test_nodes_without_a_group_are_closed_to_queues_that_have_groups():
    queue = a_choosy_queue(required=["a"])
    assert open_nodes(queue, "a", "", chosen=nodegroup(strict=False)) == ["a"]


def test_refusals_say_why():
    nodes = [a_grouped_node("n1", ""), a_grouped_node("n2", "b")]
    decisions = plan_for(
        *nodes, a_choosy_queue(required=["a"]), a_gang("g", 1, group={"queue": "q"}), policy=nodegroup()
    )
    own = [(reason.text, reason.nodes, reason.cure) for reason in report(decisions, "g").reasons if reason.nodes]
    assert sorted(own) == [
        ("node does not satisfy the node group affinity", 1, Cure.CHANGE),
        ("node group label not found", 1, Cure.CHANGE),
    ]
    decisions = plan_for(*nodes, a_queue("q"), a_gang("g", 1, group={"queue": "q"}), policy=nodegroup())
    assert "node group affinity not specified" in [reason.text for reason in report(decisions, "g").reasons]


def favourite(queue, *groups, chosen=None):
    nodes = [a_grouped_node(f"n-{group}", group) for group in groups]
    decisions = plan_for(*nodes, queue, a_gang("g", 1, group={"queue": "q"}), policy=chosen or nodegroup())
    return binds(decisions)["g-w-0"].removeprefix("n-")


def test_required_groups_come_before_preferred_ones_and_those_before_the_unloved():
    queue = a_choosy_queue(required=["r"], preferred=["p"], rather_not=["u"])
    assert favourite(queue, "p", "r", "u") == "r"
    assert favourite(queue, "u", "p") == "p"


def test_preferred_groups_are_equal_unless_their_order_counts():
    queue = a_choosy_queue(preferred=["z", "a"])
    assert favourite(queue, "a", "z") == "a"  # equal scores: the first node
    assert favourite(queue, "a", "z", chosen=nodegroup(enablePreferredOrder=True)) == "z"


def test_with_hierarchy_a_queue_inherits_the_affinity_of_its_nearest_ancestor():
    queues = [
        a_queue("root"),
        a_choosy_queue("dept", required=["a"], parent="root"),
        a_queue("team", parent="dept"),
        a_queue("q", parent="team"),
    ]
    assert open_nodes(queues, "a", "b", chosen=nodegroup(hierarchy=True)) == ["a"]
    assert open_nodes(queues, "a", "b") == []
    own = a_choosy_queue("q", required=["b"], parent="team")
    assert open_nodes([*queues[:3], own], "a", "b", chosen=nodegroup(hierarchy=True)) == ["b"]


# ----------------------------------------------------------------------------------------------- limits


def a_limited_queue(limits, **queue):
    text = limits if isinstance(limits, str) else msgspec.json.encode(limits).decode()
    return a_choosy_queue(required=["a", "b"], annotations={"volcano.sh/nodegroup-resource-limits": text}, **queue)


def test_a_queue_holds_no_more_of_a_group_than_its_limit():
    decisions = plan_for(
        a_grouped_node("n1", "a"),
        a_grouped_node("n2", "a"),
        a_limited_queue({"a": {"cpu": "3"}}),
        a_gang("g", 5, min_member=1, group={"queue": "q"}),
        policy=nodegroup(),
    )
    assert started(decisions) == {"g": 3}
    own = [(reason.text, reason.cure) for reason in report(decisions, "g").reasons]
    assert own == [("node group resource limit exceeded", Cure.WAITING)]


def test_a_gang_started_at_once_keeps_to_the_limit_across_nodes():
    decisions = plan_for(
        [a_grouped_node(f"n{number}", "a", cpu="2") for number in range(3)],
        a_grouped_node("spare", "b", cpu="2"),
        a_limited_queue({"a": {"cpu": "3"}}),
        a_gang("g", 5, group={"queue": "q"}),
        policy=nodegroup(),
    )
    landed = sorted(binds(decisions).values())
    assert landed.count("spare") == 2
    assert len(landed) == 5


def test_what_runs_already_counts_and_other_queues_do_not():
    decisions = plan_for(
        a_grouped_node("n1", "a", cpu="9"),
        a_limited_queue({"a": {"cpu": "3"}}),
        a_choosy_queue("other", required=["a"]),
        a_gang("old", 2, running=["n1"] * 2, group={"queue": "q", "phase": "Running"}),
        a_gang("g", 2, min_member=1, group={"queue": "q"}),
        a_gang("h", 4, group={"queue": "other"}),
        policy=nodegroup(),
    )
    assert started(decisions) == {"g": 1, "h": 4}


def test_groups_and_resources_without_a_limit_are_not_limited():
    decisions = plan_for(
        a_grouped_node("n1", "a", gpu="4"),
        a_limited_queue({"b": {"cpu": "0"}, "a": {"memory": "1Gi"}}),
        a_gang("g", 4, gpu="1", group={"queue": "q"}),
        policy=nodegroup(),
    )
    assert started(decisions) == {"g": 4}


def test_an_attempt_that_is_rolled_back_gives_its_part_of_the_limit_back():
    decisions = plan_for(
        a_grouped_node("n1", "a", cpu="2"),
        a_limited_queue({"a": {"cpu": "2"}}),
        a_gang("big", 3, group={"queue": "q"}, created=1),
        a_gang("small", 2, group={"queue": "q"}, created=2),
        policy=nodegroup(),
    )
    assert started(decisions) == {"small": 2}


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 3}', '{"a": {"cpu": "many"}}'])
def test_limits_that_cannot_be_read_close_the_groups_to_that_queue_alone(text):
    decisions = plan_for(
        a_grouped_node("n1", "a"),
        a_limited_queue(text),
        a_choosy_queue("other", required=["a"]),
        a_gang("g", 1, group={"queue": "q"}),
        a_gang("h", 1, group={"queue": "other"}),
        policy=nodegroup(),
    )
    assert started(decisions) == {"h": 1}
    assert "node group resource limit annotation invalid" in [reason.text for reason in report(decisions, "g").reasons]


def test_pods_of_one_gang_and_queue_stay_one_shape():
    session = session_for(
        a_grouped_node("n1", "a"),
        a_choosy_queue(required=["a"]),
        a_group("g", queue="q"),
        [a_pod(f"p{number}", gang="g", labels={"index": str(number)}) for number in range(3)],
        policy=nodegroup(),
    )
    assert len({id(session.shape(task)) for task in session.gangs["default/g"].tasks}) == 1


def test_members_whose_node_is_gone_hold_nothing_of_the_limits():
    """They ended all scheduling once: the plugin asked for their node."""
    limits = {"volcano.sh/nodegroup-resource-limits": '{"a": {"cpu": "1"}}'}
    queue = a_choosy_queue(required=["a"], annotations=limits)
    orphan = a_pod("orphan", gang="old", node="gone")
    world = [a_grouped_node("n1", "a"), queue, a_group("old", queue="q", phase="Running"), orphan]
    decisions = plan_for(*world, a_gang("new", 1, group={"queue": "q"}), policy=nodegroup())
    assert binds(decisions) == {"new-w-0": "n1"}
