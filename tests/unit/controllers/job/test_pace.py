"""How far the making of pods is ahead of their binding, and that nobody waits for long for who cannot be bound."""

import collections
import random
import statistics

import pytest

from pumice.controllers.job.pace import LOOK_S, LOOKS_OPEN, MOVES_MIN, PODS_MIN, Pace
from pumice.kube.informer import Key


class Jobs:
    """Jobs that ask for their pods at once, as their controller does, and again when they are woken."""

    def __init__(self):
        self.pace = Pace()
        self.pace._wake = self.ask  # as its run() has it done
        self.wanted = {}  # name -> its queue and its pods
        self.begun = []

    def come(self, name, size, queue="default", *, priority=0, has_some=False):
        self.wanted[name] = queue, [f"{name}-{number}" for number in range(size)], priority
        self.ask(Key("team", name), has_some=has_some)

    def ask(self, key, *, has_some=False):
        queue, pods, priority = self.wanted[key.name]
        if self.pace.may_make(key, queue, priority, pods, has_some=has_some) and key.name not in self.begun:
            self.begun.append(key.name)

    def bind(self, name, count=None):
        """The first so many pods of a Job are seen to be bound."""
        for pod in self.wanted[name][1][:count]:
            self.pace.saw(Key("team", name), pod, waits=False)

    def make(self, name):
        for pod in self.wanted[name][1]:
            self.pace.saw(Key("team", name), pod, waits=True)

    def look(self, times=1):
        for _ in range(times):
            self.pace.look()


@pytest.fixture
def jobs():
    return Jobs()


def test_jobs_begin_until_enough_pods_are_under_way_and_the_next_when_some_are_bound(jobs):
    for name in "abcde":
        jobs.come(name, 50)
    assert jobs.begun == ["a", "b", "c"]  # 150 pods
    jobs.bind("a", 22)
    assert jobs.begun == ["a", "b", "c"]
    jobs.bind("a", 23)
    assert jobs.begun == ["a", "b", "c", "d"]  # after 127 there are 177 of them
    jobs.bind("a")
    jobs.bind("b")
    assert jobs.begun == ["a", "b", "c", "d", "e"]


def test_two_may_be_under_way_however_large_they_are(jobs):
    for name in "abc":
        jobs.come(name, 10 * PODS_MIN)
    assert jobs.begun == ["a", "b"]
    jobs.bind("a")
    assert jobs.begun == ["a", "b", "c"]


def test_who_has_pods_is_not_held_up(jobs):
    for name in "abc":
        jobs.come(name, PODS_MIN)
    jobs.come("repaired", 1, has_some=True)
    assert jobs.begun == ["a", "b", "repaired"]


def test_queues_take_turns(jobs):
    for number in range(9):
        jobs.come(f"many-{number}", 64, "many")
    jobs.come("few", 64, "few")
    jobs.come("fewer", 64, "fewer")
    assert jobs.begun == ["many-0", "many-1"]
    jobs.bind("many-0")
    jobs.bind("many-1")
    assert jobs.begun == ["many-0", "many-1", "few", "fewer"]


def test_who_is_more_important_is_next_and_who_asks_again_keeps_its_place(jobs):
    for name in "ab":
        jobs.come(name, PODS_MIN)
    jobs.come("first", 1)
    jobs.come("second", 1)
    jobs.come("urgent", 1, priority=10)
    jobs.come("first", 1)
    jobs.bind("a")
    assert jobs.begun == ["a", "b", "urgent"]
    jobs.bind("urgent")
    jobs.bind("b", 1)
    assert jobs.begun == ["a", "b", "urgent", "first", "second"]


def test_who_asks_again_from_another_queue_or_with_another_priority_gets_another_place(jobs):
    for name in "ab":
        jobs.come(name, PODS_MIN)
    for name in ("first", "second", "third"):
        jobs.come(name, PODS_MIN)
    jobs.come("second", PODS_MIN, priority=10)
    jobs.come("third", PODS_MIN, queue="other")
    jobs.bind("a")
    jobs.bind("b")
    assert jobs.begun == ["a", "b", "third", "second"]


def test_those_under_way_are_twice_as_many_as_are_bound_between_two_looks(jobs):
    """A server twice as fast is kept twice as busy."""
    for number in range(20):
        jobs.come(f"job-{number}", 64)
    jobs.bind("job-0")
    jobs.bind("job-1")
    jobs.look()
    assert jobs.pace._pods_max == 4 * 64
    assert len(jobs.begun) == 2 + 4
    jobs.make("job-2")
    jobs.look()
    assert jobs.pace._pods_max == PODS_MIN


# --------------------------------------------------------------------------------------------------------- no stall


def test_nothing_can_be_bound_and_all_have_begun_after_two_seconds(jobs):
    for number in range(1_000):
        jobs.come(f"job-{number}", 64)
    assert len(jobs.begun) == 2
    for look in range(1, LOOKS_OPEN):
        jobs.look()
        assert len(jobs.begun) == 2 + 2 * look
    jobs.look()
    assert len(jobs.begun) == 1_000
    assert LOOKS_OPEN * LOOK_S == 2.0
    jobs.come("late", 64)
    assert jobs.begun[-1] == "late"  # until somebody starts again


def test_when_somebody_starts_again_there_is_a_line_again(jobs):
    for number in range(20):
        jobs.come(f"job-{number}", 64)
    jobs.look(LOOKS_OPEN)
    jobs.bind("job-19")
    for name in "abc":
        jobs.come(name, 64)
    assert jobs.begun[-2:] == ["a", "b"]


def test_pods_that_are_still_being_made_can_not_be_bound_yet_and_nobody_gives_up(jobs):
    for name in "abc":
        jobs.come(name, 20 * MOVES_MIN)
    for start in range(20):
        for name in "ab":
            for pod in jobs.wanted[name][1][start * MOVES_MIN : (start + 1) * MOVES_MIN]:
                jobs.pace.saw(Key("team", name), pod, waits=True)
        jobs.look()
    assert jobs.begun == ["a", "b"]
    jobs.look()
    assert jobs.begun == ["a", "b", "c"]


def test_a_pod_now_and_then_is_no_movement(jobs):
    """A full cluster on which a card becomes free now and then, and a Job that takes each of them."""
    for number in range(100):
        jobs.come(f"job-{number}", 200)
    for number in range(LOOKS_OPEN):
        jobs.bind("job-0", number + 1)
        jobs.look()
    assert len(jobs.begun) == 100


def test_who_is_passed_by_others_is_no_longer_counted(jobs):
    jobs.come("never", PODS_MIN - 1)
    for name in "abcde":
        jobs.come(name, 60)
    assert jobs.begun == ["never", "a"]
    jobs.bind("a")
    assert jobs.begun == [
        "never",
        "a",
        "b",
        "c",
        "d",
    ]  # 180 pods; with those of the other there would be room for b alone


def test_who_went_is_not_waited_for(jobs):
    for name in "abcd":
        jobs.come(name, PODS_MIN)
    jobs.pace.wants_none(Key("team", "c"))  # it was stopped while it stood in line
    jobs.pace.forget(Key("team", "a"))
    assert jobs.begun == ["a", "b", "d"]
    for name in "bd":
        jobs.pace.forget(Key("team", name))
    assert len(jobs.pace) == 0
    assert not jobs.pace._pods


@pytest.mark.parametrize("seed", range(20))
def test_in_any_story_all_have_begun_two_seconds_after_the_last_start(seed):
    """Gangs of any size that can be bound among others that never are, in three queues; some go while they stand in line."""
    chance, jobs = random.Random(seed), Jobs()
    sizes = {f"job-{number}": chance.choice([1, 8, 50, 300]) for number in range(200)}
    gone, lucky = set(), {name for name in sizes if chance.random() < 0.5}
    for name, size in sizes.items():
        jobs.come(name, size, chance.choice("abc"))
        for each in [each for each in jobs.begun if each in lucky and chance.random() < 0.3]:
            lucky.remove(each)
            jobs.bind(each)
        if chance.random() < 0.1:
            gone.add(name)
            jobs.pace.forget(Key("team", name))
        if chance.random() < 0.5:
            jobs.look()
    jobs.look(LOOKS_OPEN)
    assert gone | set(jobs.begun) == sizes.keys()
    for name in sizes:
        jobs.pace.forget(Key("team", name))
    assert len(jobs.pace) == 0
    assert not +jobs.pace._pods


# --------------------------------------------------------------------------------------------------------- a burst


class Burst:
    """A model of one API server with so many calls a second, of which creates get two thirds while there are any, and of a scheduler
    that plans now and then and binds whole gangs in the order in which they became complete.
    """

    STEPS = 5  # of a twentieth of a second, between two looks

    def __init__(self, count, size, calls_a_step, *, hopeless=(), cycle=5):
        """`cycle`: steps between two plans."""
        self.size, self.calls, self.hopeless, self.cycle = size, calls_a_step, set(hopeless), cycle
        self.jobs = Jobs()
        self.names = [f"job-{number}" for number in range(count)]
        self.made = collections.Counter()
        self.planned = collections.deque()  # gangs that may be bound, with how many of their pods are
        self.complete = []
        self.ends = {}

    def play(self, *, paced):
        for name in self.names:
            self.jobs.come(name, self.size)
        step = 0
        while len(self.ends) < len(self.names) - len(self.hopeless):
            step += 1
            assert step < 10_000
            begun = [name for name in (self.jobs.begun if paced else self.names) if self.made[name] < self.size]
            to_make = sum(self.size - self.made[name] for name in begun)
            to_bind = sum(self.size - bound for _, bound in self.planned)
            creates = min(to_make, max(2 * self.calls // 3, self.calls - to_bind))
            self.create(begun, creates)
            self.bind(self.calls - creates, step)
            if step % self.cycle == 0:
                self.planned.extend([name, 0] for name in self.complete if name not in self.hopeless)
                self.complete.clear()
            if step % self.STEPS == 0:
                self.jobs.look()
        return self

    def create(self, begun, calls):
        for name in begun:
            fresh = min(calls, self.size - self.made[name])
            for number in range(self.made[name], self.made[name] + fresh):
                self.jobs.pace.saw(Key("team", name), f"{name}-{number}", waits=True)
            self.made[name] += fresh
            calls -= fresh
            if self.made[name] == self.size:
                self.complete.append(name)

    def bind(self, calls, step):
        while calls and self.planned:
            gang = self.planned[0]
            fresh = min(calls, self.size - gang[1])
            for number in range(gang[1], gang[1] + fresh):
                self.jobs.pace.saw(Key("team", gang[0]), f"{gang[0]}-{number}", waits=False)
            gang[1] += fresh
            calls -= fresh
            if gang[1] == self.size:
                self.ends[gang[0]] = step
                self.planned.popleft()

    def median_of_all(self):
        return statistics.median(self.ends.values()) / max(self.ends.values())


@pytest.mark.parametrize(
    ("count", "size", "calls_a_step"), [(50, 50, 5), (50, 50, 25), (500, 50, 250), (300, 8, 25), (20, 500, 25)]
)
def test_half_of_the_gangs_of_a_burst_have_started_in_half_of_the_time(count, size, calls_a_step):
    """And it takes no longer, but for the moment in which it is found out how fast a fast server is."""
    as_they_come = Burst(count, size, calls_a_step).play(paced=False)
    paced = Burst(count, size, calls_a_step).play(paced=True)
    assert as_they_come.median_of_all() > 0.64
    assert paced.median_of_all() < 0.57
    assert max(paced.ends.values()) < 1.1 * max(as_they_come.ends.values())


@pytest.mark.parametrize("cycle_s", [0.5, 1.0, 1.25, 1.5, 2.0])
def test_a_scheduler_that_plans_rarely_neither_ends_the_order_nor_leaves_the_server_idle(cycle_s):
    """That nothing moves for a second is no reason to let everybody begin: the pods that are made wait for the next plan."""
    as_they_come = Burst(50, 50, 25, cycle=round(cycle_s * 20)).play(paced=False)
    paced = Burst(50, 50, 25, cycle=round(cycle_s * 20)).play(paced=True)
    assert as_they_come.median_of_all() > 0.7
    assert paced.median_of_all() < 0.6
    assert max(paced.ends.values()) < 1.5 * max(as_they_come.ends.values())


def test_gangs_that_cannot_be_bound_change_little_for_the_others_of_a_burst():
    """Every other one of them."""
    hopeless = [f"job-{number}" for number in range(0, 50, 2)]
    as_they_come = Burst(50, 50, 25, hopeless=hopeless).play(paced=False)
    paced = Burst(50, 50, 25, hopeless=hopeless).play(paced=True)
    assert paced.median_of_all() < as_they_come.median_of_all()
    assert max(paced.ends.values()) < 1.1 * max(as_they_come.ends.values())
