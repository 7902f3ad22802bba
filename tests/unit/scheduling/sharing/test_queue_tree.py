from tests.unit.scheduling.clusters import a_queue

from pumice.cluster.queues import queue_of
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.sharing.queue_tree import queue_tree


def a_tree(**parents):
    """Queues by name, each with its parent."""
    return queue_tree({name: queue_of(a_queue(name, parent=parent)) for name, parent in parents.items()})


def test_a_path_leads_from_a_queue_over_its_ancestors_to_the_root():
    tree = a_tree(root="", dept="root", team="dept")
    assert tree.paths["team"] == ("team", "dept", "root")
    assert tree.paths["root"] == ("root",)


def test_a_queue_without_a_parent_hangs_below_the_root():
    tree = a_tree(root="", alone="")
    assert tree.paths["alone"] == ("alone", "root")
    assert tree.children == {"root": ["alone"]}


def test_a_tree_whose_root_nobody_created_has_one_that_is_open_and_limits_nothing():
    tree = a_tree(dept="", team="dept")
    assert tree.paths["team"] == ("team", "dept", "root")
    assert tree.queues["root"].is_open
    assert not tree.queues["root"].capability
    assert not tree.faults


def test_only_queues_without_children_are_leaves():
    tree = a_tree(root="", dept="root", team="dept")
    assert [tree.is_leaf(name) for name in ("root", "dept", "team")] == [False, False, True]


def test_children_are_listed_by_name_whatever_the_order_of_arrival():
    assert a_tree(root="", b="root", a="root").children["root"] == ["a", "b"]


def test_a_parent_that_does_not_exist_cuts_off_its_branch_and_nothing_else():
    tree = a_tree(root="", lost="gone", below="lost", sound="root")
    assert {name: code.text(facts) for name, (code, facts) in tree.faults.items()} == {
        "lost": "queue lost is cut off: the parent of queue lost, gone, does not exist; "
        "create gone or give lost another parent",
        "below": "queue below is cut off: the parent of queue lost, gone, does not exist; "
        "create gone or give lost another parent",
    }
    assert tree.paths["sound"] == ("sound", "root")
    assert tree.paths["below"] == ("below", "root")
    assert tree.children == {"root": ["sound"]}


def test_a_ring_of_parents_is_cut_off_with_all_that_hangs_on_it():
    tree = a_tree(root="", a="b", b="a", leaf="a", sound="root")
    assert tree.faults.keys() == {"a", "b", "leaf"}
    assert tree.faults["leaf"] == (Code.QUEUE_RING, Facts(queue="leaf", names=("a", "b", "a"), parent="root"))
    assert tree.paths["sound"] == ("sound", "root")


def test_a_queue_that_is_its_own_parent_is_a_ring_of_one():
    tree = a_tree(root="", me="me")
    assert tree.faults["me"][1].names == ("me", "me")
