"""Gangs that run and are whole are added up once; after that only what changes is looked at."""

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    flat,
    policy,
)

from pumice.api.changes import Deleted, Upserted
from pumice.cluster.intake import Intake
from pumice.scheduling.core import builtin, cycle, steady
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.evicting import running_pods
from pumice.scheduling.sharing import holdings
from pumice.scheduling.time.steady_runs import IDLE_NUMBERS_MAX, SteadyRuns

RUNNING = {"phase": "Running"}


class Names:
    """A sum that writes down what it is told."""

    def __init__(self):
        self.told = []

    def add(self, gang, sign):
        self.told.append((gang.key, sign))


def a_busy_cluster():
    return Life(
        a_node("n1", cpu="4"),
        a_gang("r1", 2, running=["n1", "n1"], group=RUNNING),
        a_gang("r2", 2, running=["n1", "n1"], group=RUNNING),
        a_gang("w1", 2),
    )


class Life:
    """A cluster to which things happen."""

    def __init__(self, *things):
        self.cluster = a_cluster()
        self.intake = Intake(self.cluster)
        for thing in flat(things):
            self.intake.apply(Upserted(thing))

    def snapshot(self):
        return self.cluster.snapshot()

    def lose(self, name):
        self.intake.apply(Deleted(next(task.pod for task in self.cluster.tasks.values() if task.name == name)))


@pytest.mark.parametrize(
    "things",
    [
        a_gang("g", 2, running=["n1"], group=RUNNING),  # a member waits
        a_gang("g", 1, min_member=2, running=["n1"], group=RUNNING),  # one is missing
        a_gang("g", 1, running=["n1"], group={"phase": "Pending"}),  # it asks for admission
        a_gang(
            "g", 1, running=["n1"], group={"phase": "Inqueue", "minimum": {"cpu": "1"}}
        ),  # its start is not recorded
        a_gang("g", 1, running=["n1"], group={**RUNNING, "roles": {"worker": 1}}),  # no member has that role
        [a_group("g", 1, phase="Running"), a_pod("g-0", gang="g", node="n1", phase="Succeeded")],
    ],
)
def test_a_gang_of_which_something_may_be_said_is_not_steady(things):
    snapshot = a_cluster(a_node("n1"), things).snapshot()
    assert not snapshot.gangs["default/g"].is_steady


def test_a_sum_is_told_of_what_has_changed_and_of_nothing_else():
    cluster = a_busy_cluster()
    sum_ = steady.of(cluster.snapshot()).sum(Names)
    assert sum_.told == [("default/r1", 1), ("default/r2", 1)]
    sum_.told.clear()
    assert steady.of(cluster.snapshot()).sum(Names) is sum_
    assert sum_.told == []
    cluster.lose("r2-w-1")
    found = steady.of(cluster.snapshot())
    assert sum_.told == [("default/r2", -1)]
    assert [gang.key for gang in found.restless] == ["default/r2", "default/w1"]


def test_a_sum_with_other_arguments_is_added_up_anew():
    class By(Names):
        def __init__(self, name):
            super().__init__()
            self.name = name

    found = steady.of(a_busy_cluster().snapshot())
    assert found.sum(By, "a") is found.sum(By, "a")
    assert found.sum(By, "b").told == [("default/r1", 1), ("default/r2", 1)]


def test_a_resource_that_nobody_holds_any_more_is_absent_again():
    cluster = Life(a_node("n1", gpu=2), a_gang("r1", 1, running=["n1"], gpu=1, group=RUNNING),
                        a_gang("r2", 1, running=["n1"], group=RUNNING))  # fmt: skip
    session = cycle.open_session(cluster.snapshot(), policy("allocate", "gang"), now=NOW)
    assert holdings.by_queue(session)["default"].occupied.total() == {"cpu": 2000, "nvidia.com/gpu": 1000, "pods": 2000}
    cluster.lose("r1-w-0")
    later = cycle.open_session(cluster.snapshot(), policy("allocate", "gang"), now=NOW)
    assert holdings.by_queue(later)["default"].occupied.total() == {"cpu": 1000, "pods": 1000}


def test_a_priority_that_no_gang_of_a_queue_has_any_more_is_its_lowest_no_longer():
    classes = [a_priority_class("low", 1), a_priority_class("high", 9)]
    cluster = Life(classes, a_node("n1"), *(
        a_gang(name, 1, running=["n1"], group={**RUNNING, "priority_class": name}) for name in ("low", "high")
    ))  # fmt: skip
    rules = policy("allocate", "gang")
    assert holdings.lowest_priority(cycle.open_session(cluster.snapshot(), rules, now=NOW), "default") == 1
    cluster.lose("low-w-0")
    assert holdings.lowest_priority(cycle.open_session(cluster.snapshot(), rules, now=NOW), "default") == 9


def test_a_session_makes_no_state_of_gangs_that_nobody_asks_for():
    session = cycle.open_session(a_busy_cluster().snapshot(), builtin.parse(builtin.TEXT, "built-in policy"), now=NOW)
    assert [gang.key for gang in session.gangs.spoken_of] == ["default/w1"]
    assert list(session.gangs) == ["default/r1", "default/r2", "default/w1"]
    assert session.gangs["default/r1"] is session.gangs.get("default/r1")
    assert session.gangs.get("default/gone") is None


def test_the_report_of_a_steady_gang_is_the_one_it_had():
    cluster, rules = a_busy_cluster(), builtin.parse(builtin.TEXT, "built-in policy")
    first = cycle.plan(cluster.snapshot(), rules, now=NOW)
    second = cycle.plan(cluster.snapshot(), rules, now=NOW)
    assert second.gangs["default/r1"] is first.gangs["default/r1"]
    assert list(second.gangs) == ["default/r1", "default/r2", "default/w1"]


def test_a_plugin_that_says_nothing_of_steady_gangs_is_asked_about_each():
    class Doubtful(Plugin):
        def open(self, session):
            session.on.ready(lambda gang: gang.key != "default/r1")

    snapshot = a_busy_cluster().snapshot()
    chosen = builtin.parse(
        'actions: "allocate"\ntiers:\n- plugins: [{name: gang}, {name: doubtful}]\n', "test", {"doubtful": Doubtful}
    )
    decisions = cycle.plan(snapshot, chosen, now=NOW, extra_plugins={"doubtful": Doubtful})
    assert [each.type for each in decisions.gangs["default/r1"].conditions] == ["Unschedulable"]
    assert [each.type for each in decisions.gangs["default/r2"].conditions] == ["Scheduled"]


def test_columns_of_running_pods_keep_the_part_of_nodes_that_have_not_changed():
    cluster = Life(
        a_node("n1"), a_node("n2"),
        a_gang("r1", 2, running=["n1", "n2"], group=RUNNING), a_gang("r2", 1, running=["n2"], group=RUNNING),
    )  # fmt: skip
    pods = running_pods.of(cluster.snapshot())
    kept = pods.of_pods(uid_length)
    ASKED.clear()
    cluster.lose("r2-w-0")
    again = running_pods.of(cluster.snapshot())
    assert again is pods
    assert [task.name for task in again.tasks] == ["r1-w-0", "r1-w-1"]
    assert again.edges.tolist() == [0, 1, 2]
    assert again.of_pods(uid_length).tolist() == kept.tolist()[:2]
    assert ASKED == ["r1-w-1"]


ASKED = []


def uid_length(task):
    ASKED.append(task.name)
    return len(task.name)


def test_numbers_that_nobody_uses_any_more_are_given_up():
    runs = SteadyRuns()
    gang = a_busy_cluster().snapshot().gangs["default/r1"]
    runs.add(gang, 1)
    assert not runs.is_worn
    for number in range(IDLE_NUMBERS_MAX + 10):
        runs.nodes[f"gone-{number}"]
    assert runs.is_worn


def test_upserting_what_is_known_changes_nothing():
    cluster = a_busy_cluster()
    sum_ = steady.of(cluster.snapshot()).sum(Names)
    sum_.told.clear()
    cluster.intake.apply(Upserted(a_node("n1", cpu="4")))
    steady.of(cluster.snapshot())
    assert sum_.told == []


def test_only_what_the_cluster_says_has_changed_is_looked_at():
    life = a_busy_cluster()
    first = life.snapshot()
    steady.of(first)
    life.intake.apply(Upserted(a_group("z", phase="Pending")))
    second = life.snapshot()
    assert second.lineage.changed == {"default/z"}

    class Unread(dict):
        def items(self):
            raise AssertionError("all gangs were looked at")

        __iter__ = values = items

    gangs = Unread(second.gangs)
    found = first.carried[steady.Steady]
    found.follow(gangs, second.lineage._replace(gangs=gangs))
    assert [gang.key for gang in found.restless][-1] == "default/z"
    with pytest.raises(AssertionError, match="all gangs"):
        found.follow(Unread(second.gangs), second.lineage)  # of these the lineage says nothing


# ------------------------------------------------------------------------------------------------------ amounts


def test_equal_amounts_that_come_and_go_in_turn_with_others_are_counted_one_by_one():
    one, two = {"cpu": 1, "gpu": 2}, {"cpu": 10}
    held = steady.AmountSum()
    for more, sign in ((one, 1), (one, 1), (two, 1), (one, -1), (two, 1), (two, -1)):
        held.add(more, sign)
    assert held.total() == {"cpu": 11, "gpu": 2}
    held.add(one, -1)
    assert held.copy().total() == held.total() == {"cpu": 10}
    held.add(two, -1)
    assert not held


def test_gangs_of_the_same_size_and_request_hold_one_object():
    gangs = a_busy_cluster().snapshot().gangs
    assert gangs["default/r1"].occupied is gangs["default/r2"].occupied
    assert gangs["default/r1"].occupied["cpu"] == 2000


def test_rows_of_members_that_are_gone_are_used_again_where_there_are_enough():
    gangs = a_cluster(
        a_node("n1", cpu="9"),
        a_gang("two", 2, running=["n1"] * 2, group=RUNNING),
        a_gang("three", 3, running=["n1"] * 3, group=RUNNING),
        a_gang("one", 1, running=["n1"], group=RUNNING),
    ).snapshot().gangs  # fmt: skip
    two, three, one = (gangs[f"default/{name}"] for name in ("two", "three", "one"))
    runs = SteadyRuns()
    runs.add(two, 1)
    runs.add(two, -1)
    runs.add(three, 1)  # two free rows are too few
    runs.add(one, 1)
    runs.add(two, 1)  # one row is left
    names = runs.names_of(runs.members(()).gang)
    assert sorted(names) == ["default/one"] + ["default/three"] * 3 + ["default/two"] * 2
