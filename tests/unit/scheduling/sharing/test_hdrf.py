import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.scheduling.sharing.hdrf import Leaf, ShareTree, path_of, weights_of

TOTAL = {"cpu": 10, "memory": 100}


def a_leaf(key, path, *, weights=(), wanted=None, **held):
    """A gang that holds something and, unless said otherwise, wants the whole cluster."""
    parts = tuple(path.split("/")) if path else ()
    weights = weights or (1.0,) * len(parts)
    return Leaf(key, parts, weights, held, TOTAL if wanted is None else wanted)


def order(tree, left, right):
    """-1, 0 or 1."""
    difference = tree.compare(left.split("/"), right.split("/"))
    return (difference > 0) - (difference < 0)


@pytest.mark.parametrize(
    ("hierarchy", "path"),
    [("root/sci/dev", ("sci", "dev")), ("root", ()), ("", ()), ("root" + "/x" * 99, ("x",) * 64)],
)
def test_a_path_begins_below_the_root(hierarchy, path):
    assert path_of(hierarchy) == path


@pytest.mark.parametrize(
    ("written", "weights"),
    [
        ("100/50/25", (50, 25)),
        ("100/50", (50, 1)),
        ("", (1, 1)),
        ("1/0.5/x", (1, 1)),
        ("1/-3/nan", (1, 1)),
        ("1/inf/2", (1, 2)),
    ],
)
def test_weights_below_one_missing_or_unreadable_count_as_one(written, weights):
    assert weights_of(written, 2) == weights


def test_the_branch_that_holds_less_comes_first():
    tree = ShareTree(TOTAL, [a_leaf("g", "a", cpu=2), a_leaf("h", "b", cpu=3)])
    assert order(tree, "a", "b") == -1
    assert order(tree, "b", "a") == 1


def test_the_dominant_resource_decides():
    tree = ShareTree(TOTAL, [a_leaf("g", "a", cpu=2, memory=1), a_leaf("h", "b", cpu=1, memory=30)])
    assert order(tree, "a", "b") == -1


def test_shares_are_divided_by_weights():
    leaves = [a_leaf("g", "a", weights=(4.0,), cpu=4), a_leaf("h", "b", cpu=2)]
    assert order(ShareTree(TOTAL, leaves), "a", "b") == -1


def test_equal_branches_are_compared_one_level_further_down_as_far_as_both_reach():
    leaves = [a_leaf("g", "a/x", cpu=1), a_leaf("h", "a/y", cpu=2), a_leaf("i", "b", cpu=3)]
    tree = ShareTree(TOTAL, leaves)
    assert order(tree, "a/x", "a/y") == -1
    assert order(tree, "a", "a") == 0
    assert order(tree, "a", "a/y") == 0


def test_a_saturated_branch_steps_back_however_little_it_holds():
    leaves = [a_leaf("g", "a", cpu=1, wanted={"cpu": 1}), a_leaf("h", "b", cpu=5)]
    assert order(ShareTree(TOTAL, leaves), "a", "b") == 1


def test_what_the_cluster_has_run_out_of_saturates_those_who_want_it():
    leaves = [
        a_leaf("g", "a", cpu=4, wanted={"cpu": 10}),
        a_leaf("h", "b", cpu=6, wanted={"cpu": 10}),
        a_leaf("i", "c", memory=90, wanted={"memory": 100}),
    ]
    tree = ShareTree(TOTAL, leaves)
    assert order(tree, "a", "c") == 1
    assert order(tree, "a", "b") == -1


def test_a_gang_that_holds_nothing_is_not_saturated_and_weighs_nothing():
    leaves = [a_leaf("g", "a/x", wanted={}), a_leaf("h", "a/y", cpu=4), a_leaf("i", "b", cpu=5)]
    assert order(ShareTree(TOTAL, leaves), "a", "b") == -1


def test_a_rich_child_counts_only_as_much_as_its_poorest_sibling():
    """x holds 1 of cpu, y 6 of memory's 10: together they count as 1 + 1 tenths of different resources."""
    leaves = [a_leaf("g", "a/x", cpu=1), a_leaf("h", "a/y", memory=60), a_leaf("i", "b", cpu=2)]
    tree = ShareTree(TOTAL, leaves)
    assert order(tree, "a", "b") == -1


def test_a_saturated_child_counts_in_full():
    leaves = [
        a_leaf("g", "a/x", cpu=1),
        a_leaf("h", "a/y", memory=60, wanted={"memory": 60}),
        a_leaf("i", "b", cpu=2),
    ]
    assert order(ShareTree(TOTAL, leaves), "a", "b") == 1


def test_a_branch_is_saturated_when_all_its_children_are():
    done = {"wanted": {"cpu": 1}, "cpu": 1}
    leaves = [a_leaf("g", "a/x", **done), a_leaf("h", "a/y", **done), a_leaf("i", "b", cpu=3)]
    assert order(ShareTree(TOTAL, leaves), "a", "b") == 1
    leaves[1] = a_leaf("h", "a/y", cpu=1)
    assert order(ShareTree(TOTAL, leaves), "a", "b") == -1


def test_the_first_queue_that_names_a_branch_sets_its_weight():
    leaves = [
        a_leaf("g", "a/x", weights=(4.0, 1.0), cpu=2),
        a_leaf("h", "a/y", weights=(1.0, 1.0), cpu=2),
        a_leaf("i", "b", cpu=2),
    ]
    assert order(ShareTree(TOTAL, leaves), "a", "b") == -1


def test_gangs_of_queues_without_a_path_hang_at_the_root():
    tree = ShareTree(TOTAL, [a_leaf("g", "", cpu=2), a_leaf("h", "b", cpu=1)])
    assert tree.compare((), ("b",)) == 0


@given(st.lists(st.tuples(st.sampled_from("ghi"), st.integers(1, 3)), max_size=8))
def test_what_is_taken_and_given_back_leaves_no_trace(moves):
    leaves = [a_leaf("g", "a/x", cpu=1), a_leaf("h", "a/y", memory=7), a_leaf("i", "b", cpu=2)]
    tree, untouched = ShareTree(TOTAL, leaves), ShareTree(TOTAL, leaves)
    for key, times in moves:
        tree.hold(key, {"cpu": 1, "memory": 3}, times)
        tree.compare(("a",), ("b",))
    for key, times in reversed(moves):
        tree.hold(key, {"cpu": 1, "memory": 3}, -times)
    pairs = [(("a", "x"), ("a", "y")), (("a",), ("b",))]
    assert [tree.compare(*pair) for pair in pairs] == [untouched.compare(*pair) for pair in pairs]


@given(st.lists(st.tuples(st.sampled_from("ghij"), st.integers(0, 4), st.integers(0, 40)), max_size=8))
def test_a_tree_that_followed_every_change_equals_one_made_afresh(moves):
    paths = {"g": "a/x", "h": "a/y", "i": "b", "j": "b"}
    wanted = {"g": {"cpu": 4}, "h": {"memory": 60}, "i": {"cpu": 9, "memory": 50}, "j": {"memory": 100}}
    followed = ShareTree(TOTAL, [a_leaf(key, path, wanted=wanted[key]) for key, path in paths.items()])
    held = {key: {"cpu": 0, "memory": 0} for key in paths}
    for key, cpu, memory in moves:
        followed.hold(key, {"cpu": cpu, "memory": memory}, 1)
        held[key] = {"cpu": held[key]["cpu"] + cpu, "memory": held[key]["memory"] + memory}
        afresh = ShareTree(
            TOTAL, [a_leaf(each, path, wanted=wanted[each], **held[each]) for each, path in paths.items()]
        )
        for left, right in ((("a", "x"), ("a", "y")), (("a",), ("b",))):
            assert followed.compare(left, right) == afresh.compare(left, right)
