"""Two gangs of 64 on 100 slots, in all the ways in which they could stand in each other's way: one runs, then the other."""

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    policy,
    when,
)

from pumice import instant
from pumice.api import names
from pumice.api.changes import Claimed, Deleted, Evicting, PodRef, Unclaimed, Upserted
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.evicting.mend import attempt_id

GANGS = ("red", "blue")
SIZE, SLOTS = 64, 100
CONTROLLER = {"ownerReferences": [{"kind": "Job", "name": "j", "uid": "j", "controller": True}]}
EVICTING = policy("enqueue, allocate, preempt, reclaim, backfill", ["priority", {"name": "gang", "enablePreemptable": False},
                  "conformance"], "predicates proportion")  # fmt: skip


class Story:
    """A cluster of 100 slots whose binds succeed, whose evicted and released pods are made anew, and whose gangs can finish."""

    def __init__(self, chosen=None, gangs=GANGS, **group):
        self.policy = chosen or builtin.parse(builtin.TEXT, "built-in policy")
        self.cluster = Cluster()
        self.intake = Intake(self.cluster)
        self.now = NOW
        self.generation = 0
        self.history = []
        self.leaving = []
        self.see(a_queue(), a_queue("other"), a_priority_class("high", 9))
        self.see(*[a_node(f"n{number}", cpu="10", gpu=10) for number in range(SLOTS // 10)])
        for gang in gangs:
            self.submit(gang, **group.get(gang, {}))

    def submit(self, gang, **settings):
        settings = {"phase": "Inqueue", "created": GANGS.index(gang), **settings}
        self.see(a_group(gang, SIZE, minimum={"nvidia.com/gpu": str(SIZE)}, **settings))
        self.see(*[self.pod(gang, number) for number in range(SIZE)])

    def see(self, *things):
        for thing in things:
            self.intake.apply(Upserted(thing))

    def pod(self, gang, number, *, node="", attempt="", uid=None, phase=None):
        notes = {names.ATTEMPT: attempt} if attempt else {}
        return a_pod(
            f"{gang}-w-{number}", gang=gang, cpu="1", gpu=1, node=node, uid=uid or f"{gang}/{number}", annotations=notes,
            metadata=CONTROLLER, phase=phase, created=GANGS.index(gang),
        )  # fmt: skip

    def bind_by_hand(self, gang, count, first_slot, *, attempt="", phase=None):
        for number in range(count):
            node = f"n{(first_slot + number) // 10}"
            self.see(self.pod(gang, number, node=node, attempt=attempt, phase=phase))

    def running(self):
        return {gang: sum(task.status.text == "Running" for task in self.members(gang)) for gang in GANGS}

    def members(self, gang):
        gangs = self.cluster.snapshot().gangs
        return gangs[f"default/{gang}"].tasks if f"default/{gang}" in gangs else ()

    def turn(self, *, slowly=False, obeyed=True):
        """One cycle, carried out; pods that have to go are gone and made anew before the next one.

        `slowly`: they take their time, until `gone`. Not `obeyed`: the API server refuses to let them go.
        """
        decisions = cycle.plan(self.cluster.snapshot(), self.policy, now=self.now)
        attempt = attempt_id(self.now, "aa")
        for commit in decisions.commits:
            for bind in commit.binds:
                number = int(bind.task.name.rpartition("-")[2])
                gang = bind.task.name.partition("-")[0]
                self.see(self.pod(gang, number, node=bind.node, attempt=attempt, uid=bind.task.uid))
        for key, report in decisions.gangs.items():
            group = self.cluster.gangs[key].group
            note = {names.ATTEMPT: attempt} if report.phase == "Running" else {}
            self.see(replaced(group, metadata=replaced(group.metadata, annotations={**note, **group.metadata.annotations}),
                              status=replaced(group.status, phase=report.phase)))  # fmt: skip
        for claim in decisions.claims:
            self.intake.apply(Claimed(claim))
        for gang in decisions.unclaims:
            self.intake.apply(Unclaimed(gang))
        going = [eviction.task for eviction in decisions.evictions]
        going += [task for release in decisions.releases for task in release.tasks]
        for task in going if obeyed else ():
            if slowly:
                ref = PodRef(namespace=task.namespace, name=task.name, uid=task.uid)
                self.intake.apply(Evicting(pod=ref, node=task.node, at=self.now))
                self.leaving.append(task)
            else:
                self.make_anew(task)
        self.cluster.check()
        self.now += 10 * instant.SECOND
        self.history.append(self.running())
        return decisions

    def gone(self):
        for task in self.leaving:
            self.make_anew(task)

    def make_anew(self, task):
        self.generation += 1
        self.intake.apply(Deleted(task.pod))
        gang, _, number = task.name.split("-")
        self.see(self.pod(gang, int(number), uid=f"{gang}/{number}#{self.generation}"))

    def finish(self, gang):
        for task in self.members(gang):
            self.see(replaced(task.pod, status=replaced(task.pod.status, phase="Succeeded")))


def replaced(struct, **fields):
    return type(struct)(**{name: fields.get(name, getattr(struct, name)) for name in struct.__struct_fields__})


def test_one_runs_and_the_other_waits_with_nothing_in_its_hands_then_it_runs():
    story = Story()
    for _ in range(3):
        story.turn()
    assert story.history == [{"red": 64, "blue": 0}] * 3
    story.finish("red")
    story.turn()
    assert story.running() == {"red": 0, "blue": 64}


def test_the_one_of_higher_priority_runs_first_whichever_came_first():
    story = Story(blue={"priority_class": "high"})
    story.turn()
    assert story.running() == {"red": 0, "blue": 64}


def both_cut():
    """50 slots each, as after a crash at the worst moment."""
    story = Story()
    story.bind_by_hand("red", 50, 0, attempt=attempt_id(NOW - 9 * instant.SECOND, "old"))
    story.bind_by_hand("blue", 50, 50, attempt=attempt_id(NOW - 5 * instant.SECOND, "young"))
    assert story.running() == {"red": 50, "blue": 50}
    return story


def released(decisions):
    return [release.gang for release in decisions.releases]


def test_commits_of_both_that_were_cut_half_way_are_sorted_out():
    """The younger attempt gives its room back, the older is finished with it."""
    story = both_cut()
    for _ in range(6):
        story.turn()
    assert story.running() == {"red": 64, "blue": 0}
    assert {"red": 0, "blue": 0} not in story.history  # the room of one was enough: not everybody had to start over
    story.finish("red")
    story.turn()
    assert story.running() == {"red": 0, "blue": 64}


def test_the_older_one_waits_while_the_members_of_the_younger_leave():
    story = both_cut()
    gave_up = [released(story.turn(slowly=True)) for _ in range(5)]
    assert gave_up == [[], [], [], ["default/blue"], []]  # 35 s after its commit, and nobody for his leaving room
    story.gone()
    story.turn()
    assert story.running() == {"red": 64, "blue": 0}


def test_room_that_is_never_left_is_waited_for_only_so_long():
    story = both_cut()
    gave_up = [released(story.turn(slowly=True)) for _ in range(7)]
    assert gave_up[4:] == [[], [], ["default/red"]]  # 69 s after its commit


def test_a_gang_that_cannot_be_released_does_not_keep_another_from_it():
    """The API server refuses to delete the pods of the youngest: the older one goes too when its time is up."""
    story = both_cut()
    gave_up = [released(story.turn(obeyed=False)) for _ in range(7)]
    assert gave_up == [
        [],
        [],
        [],
        ["default/blue"],
        ["default/blue"],
        ["default/blue"],
        ["default/blue", "default/red"],
    ]


def test_as_many_cycles_as_gangs_release_them_all():
    """Nobody can be finished: each turn takes the next one, long before his last call."""
    story = both_cut()
    for number in range(10):
        story.see(a_node(f"n{number}", cpu="10", gpu=10, spec={"unschedulable": True}))
    story.now += 26 * instant.SECOND
    gave_up = []
    for _ in range(2):
        gave_up += released(story.turn())
        story.now -= 10 * instant.SECOND  # the next cycle comes at once
    assert gave_up == ["default/blue", "default/red"]


def test_a_gang_that_was_cut_short_is_not_called_started_because_its_first_members_run():
    story = both_cut()
    assert [story.turn().gangs[f"default/{gang}"].phase for gang in GANGS] == ["Inqueue", "Inqueue"]


@pytest.mark.parametrize("better", GANGS)
def test_halves_that_somebody_else_has_bound_are_sorted_out_by_priority(better):
    """A scheduler that places pods one by one has wedged them; the better gang evicts what it needs and no more."""
    story = Story(EVICTING, **{better: {"priority_class": "high", "phase": "Running"}})
    story.bind_by_hand("red", 50, 0)
    story.bind_by_hand("blue", 50, 50)
    decisions = story.turn()
    assert len(decisions.evictions) == SIZE - 50
    for _ in range(2):
        story.turn()
    assert story.running()[better] == SIZE
    story.finish(better)
    for _ in range(2):
        story.turn()
    assert story.running() == {better: 0, next(gang for gang in GANGS if gang != better): SIZE}


def test_a_gang_of_another_queue_evicts_nobody_for_more_than_its_share():
    """One queue alone had used all; each deserves half, which is less than the other's gang needs."""
    story = Story(EVICTING, gangs=["red"])
    story.turn()
    assert story.running() == {"red": 64, "blue": 0}
    story.submit("blue", queue="other")
    for _ in range(3):
        assert story.turn().evictions == ()
    assert story.running() == {"red": 64, "blue": 0}


def test_objects_are_made_in_the_order_that_the_stories_assume():
    assert when(0) < when(1)
