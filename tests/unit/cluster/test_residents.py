"""The pods of one node by their labels, shared by snapshots for as long as nothing changes on the node."""

from tests.unit.scheduling.clusters import a_cluster, a_node, a_pod

from pumice.api import changes
from pumice.cluster import residents
from pumice.cluster.intake import Intake


def names(found):
    return {value: [task.name for task in tasks] for value, tasks in found.items()}


def test_pods_are_found_by_the_value_of_a_label():
    pods = [
        a_pod("a", node="n1", labels={"app": "web"}),
        a_pod("b", node="n1", labels={"app": "web"}),
        a_pod("c", node="n1"),
    ]
    (own,) = a_cluster(a_node("n1"), pods, a_pod("d", node="n1", labels={"app": "db"})).snapshot().nodes.tasks
    assert [task.name for task in own] == ["a", "b", "c", "d"]
    assert names(own.labelled("app")) == {"web": ["a", "b"], "db": ["d"]}
    assert names(own.labelled("tier")) == {}


def test_what_is_known_of_a_node_is_kept_until_something_changes_there():
    cluster = a_cluster(a_node("n1"), a_node("n2"), a_pod("a", node="n1", labels={"app": "web"}), a_pod("b", node="n2"))
    before = cluster.snapshot().nodes.tasks
    found = before[0].labelled("app")
    Intake(cluster).apply(changes.Upserted(a_pod("c", node="n2", labels={"app": "web"})))
    after = cluster.snapshot().nodes.tasks
    assert after[0] is before[0]
    assert after[0].labelled("app") is found
    assert names(after[1].labelled("app")) == {"web": ["c"]}
    assert names(before[1].labelled("app")) == {}, "a snapshot never changes"


def test_only_so_many_keys_are_remembered():
    (own,) = a_cluster(a_node("n1"), a_pod("a", node="n1", labels={"key-3": "x"})).snapshot().nodes.tasks
    for number in range(residents.KEYS_REMEMBERED_MAX * 3):
        own.labelled(f"key-{number}")
        assert len(own._by_label) <= residents.KEYS_REMEMBERED_MAX
    assert names(own.labelled("key-3")) == {"x": ["a"]}
