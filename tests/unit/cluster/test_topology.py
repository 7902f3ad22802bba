import numpy as np
from tests.unit.scheduling.clusters import a_cluster, a_hyper_node, a_node

from pumice.api import changes
from pumice.cluster.intake import Intake
from pumice.cluster.topology import ROOT

NODES = [a_node(name, labels={"rack": name[0]}) for name in ("a1", "a2", "b1", "b2", "c1")]


def tree_of(*hyper_nodes, nodes=NODES):
    return a_cluster(nodes, hyper_nodes).snapshot().tree


def names(tree, hyper_node):
    return [NODES[index].metadata.name for index in tree.nodes[hyper_node]]


def two_racks():
    return tree_of(
        a_hyper_node("a", 1, nodes=["a1", "a2"], tier_name="rack"),
        a_hyper_node("b", 1, nodes=["b1", "b2"], tier_name="rack"),
        a_hyper_node("ab", 2, children=["a", "b"], tier_name="hall"),
    )


def test_a_hyper_node_holds_its_own_nodes_and_those_of_its_children():
    tree = two_racks()
    assert names(tree, "ab") == ["a1", "a2", "b1", "b2"]
    assert tree.names == (ROOT, "ab", "a", "b")


def test_the_root_is_one_tier_above_the_highest_and_holds_every_node():
    tree = two_racks()
    assert tree.root_tier == 3
    assert names(tree, ROOT) == ["a1", "a2", "b1", "b2", "c1"]
    assert tree.tier_by_name == {"rack": 1, "hall": 2}


def test_a_cluster_without_hyper_nodes_is_flat():
    tree = tree_of()
    assert tree.is_flat
    assert tree.root_tier == tree.lowest_tier == 1


def test_members_are_found_by_pattern():
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "^[ab]1$"}}}]
    others = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}} for pattern in ("2$", "^c.{1}$")]
    tree = tree_of(a_hyper_node("ones", 1, members=members), a_hyper_node("rest", 1, members=others))
    assert names(tree, "ones") == ["a1", "b1"]
    assert names(tree, "rest") == ["a2", "b2", "c1"]


def test_a_pattern_alone_finds_what_it_finds_among_others():
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "1"}}}]
    assert names(tree_of(a_hyper_node("ones", 1, members=members)), "ones") == ["a1", "b1", "c1"]


def test_a_pattern_that_no_engine_understands_selects_nothing():
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}} for pattern in ("a(", "a" * 2000)]
    assert names(tree_of(a_hyper_node("broken", 1, members=members)), "broken") == []


def test_members_are_found_by_labels():
    by_label = {"matchLabels": {"rack": "b"}, "matchExpressions": [{"key": "rack", "operator": "Exists"}]}
    by_expression = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a", "c"]}]}
    tree = tree_of(
        a_hyper_node("b", 1, members=[{"type": "Node", "selector": {"labelMatch": by_label}}]),
        a_hyper_node("ac", 1, members=[{"type": "Node", "selector": {"labelMatch": by_expression}}]),
    )
    assert names(tree, "b") == ["b1", "b2"]
    assert names(tree, "ac") == ["a1", "a2", "c1"]


def test_members_that_do_not_exist_are_ignored():
    tree = tree_of(a_hyper_node("a", 1, nodes=["a1", "gone"]), a_hyper_node("top", 2, children=["a", "gone"]))
    assert names(tree, "top") == ["a1"]


def test_a_hyper_node_with_two_parents_makes_the_tree_unusable():
    tree = tree_of(
        a_hyper_node("a", 1, nodes=["a1"]),
        a_hyper_node("x", 2, children=["a"]),
        a_hyper_node("y", 2, children=["a"]),
    )
    assert tree.fault == "hyper node a has two parents, x and y: remove it from one of them"
    assert tree.is_flat


def test_a_ring_of_members_makes_the_tree_unusable():
    tree = tree_of(a_hyper_node("x", 1, children=["y"]), a_hyper_node("y", 2, children=["x"]))
    assert tree.fault.endswith("is its own ancestor: break the ring of members")


def test_a_long_chain_of_hyper_nodes_is_a_tree_like_any_other():
    chain = [a_hyper_node(f"h{n}", n, children=[f"h{n - 1}"]) for n in range(2, 3000)]
    tree = tree_of(a_hyper_node("h1", 1, nodes=["a1"]), chain)
    assert names(tree, "h2999") == ["a1"]
    assert tree.common("h1", "h2999") == "h2999"


def test_the_lowest_common_hyper_node_covers_both():
    tree = two_racks()
    assert tree.common("a", "b") == "ab"
    assert tree.common("a", "ab") == "ab"
    assert tree.common("a", ROOT) == ROOT
    assert tree.common("", "b") == tree.common("b", "") == "b"


def test_the_lowest_hyper_node_that_holds_some_nodes_is_found():
    tree = two_racks()
    assert tree.lowest_holding([]) == ""
    assert tree.lowest_holding([0, 1]) == "a"
    assert tree.lowest_holding([0, 2]) == "ab"
    assert tree.lowest_holding([0, 4]) == ROOT


def test_columns_are_summed_up_per_hyper_node():
    tree = tree_of(
        a_hyper_node("a", 1, nodes=["a1", "a2"]),
        a_hyper_node("empty", 1),
        a_hyper_node("all", 2, children=["a", "empty"]),
    )
    columns = np.array([[1, 2, 4, 8, 16], [1, 1, 1, 1, 1]])
    assert dict(zip(tree.names, tree.sums(columns).T.tolist(), strict=True)) == {
        ROOT: [31, 5],
        "all": [3, 2],
        "a": [3, 2],
        "empty": [0, 0],
    }


def test_nodes_know_the_hyper_nodes_above_them():
    tree = two_racks()
    assert [tree.names[position] for position in tree.above[2]] == [ROOT, "ab", "b"]
    assert [tree.names[position] for position in tree.above[4]] == [ROOT]
    chains = tree.chains.tolist()
    assert chains[0] == chains[1]
    assert len(set(chains)) == 3


def test_a_node_in_two_hyper_nodes_of_one_tier_counts_in_both_and_lives_in_the_first():
    tree = tree_of(a_hyper_node("x", 1, nodes=["a1"]), a_hyper_node("y", 1, nodes=["a1", "a2"]))
    assert tree.home(0) == "x"
    assert tree.leaves[tree.leaf_of[0]] == "x"
    ones = np.ones((1, 5), dtype=np.int64)
    assert dict(zip(tree.names, tree.sums(ones)[0].tolist(), strict=True)) == {ROOT: 5, "x": 1, "y": 2}


def test_a_table_without_nodes_has_a_tree():
    tree = tree_of(a_hyper_node("a", 1, nodes=["a1"]), nodes=[])
    assert tree.sums(np.zeros((2, 0), dtype=np.int64)).tolist() == [[0, 0], [0, 0]]


def test_the_tree_follows_nodes_that_come_and_change_their_labels():
    member = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "a"}}}}
    cluster = a_cluster(a_node("n1"), a_hyper_node("a", 1, members=[member]))
    assert cluster.snapshot().tree.nodes["a"].tolist() == []
    intake = Intake(cluster)
    intake.apply(changes.Upserted(a_node("n1", labels={"rack": "a"})))
    assert cluster.snapshot().tree.nodes["a"].tolist() == [0]
    intake.apply(changes.Upserted(a_node("n2", labels={"rack": "a"})))
    assert cluster.snapshot().tree.nodes["a"].tolist() == [0, 1]
    intake.apply(changes.Deleted(a_node("n1")))
    assert cluster.snapshot().tree.nodes["a"].tolist() == [0]
