"""Usage that decays: arithmetic, what is made up after a loss, and what fits into the memory."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice import instant
from pumice.scheduling.core.memory import SLOT_BYTES_MAX
from pumice.scheduling.sharing.decayed_usage import (
    SLOT,
    Decay,
    Held,
    Ledger,
    Usage,
    has_only_decayed,
    remembered,
    usage_at,
)

NOW = instant.parse_instant("2026-01-10T00:00:00Z")
DAY = 24 * instant.HOUR
DECAY = Decay(DAY)
MIA = ("research", "mia")


def gpus(held):
    return held.get("gpu", 0) / 10


def at(memory, now, holdings=()):
    return usage_at(memory, now, DECAY, lambda _: dict(holdings), gpus)


def memory(usage, share, when=NOW):
    return Usage(when, {}, {"research": {"mia": (usage, share)}})


def test_usage_halves_with_every_half_life():
    assert at(memory(8.0, 0.0), NOW + DAY)[MIA] == pytest.approx(4.0)
    assert at(memory(8.0, 0.0), NOW + 3 * DAY)[MIA] == pytest.approx(1.0)


def test_what_is_held_for_a_short_time_counts_by_the_second():
    assert at(memory(0.0, 0.5), NOW + 60 * instant.SECOND)[MIA] == pytest.approx(30, rel=1e-3)


def test_what_is_held_for_ever_levels_out():
    assert at(memory(0.0, 0.5), NOW + 100 * DAY)[MIA] == pytest.approx(0.5 * DECAY.longest)


@given(st.floats(0, 1e6), st.floats(0, 1), st.lists(st.integers(1, 3600), min_size=1, max_size=20))
def test_it_does_not_matter_how_often_a_cycle_looks(usage, share, steps):
    value, now = memory(usage, share), NOW
    for step in steps:
        now += step * instant.SECOND
        value = memory(at(value, now)[MIA], share, now)
    assert value.users["research"]["mia"][0] == pytest.approx(at(memory(usage, share), now)[MIA])


@given(st.floats(0, 1e6), st.lists(st.integers(0, 10**6), min_size=2, max_size=10))
def test_usage_of_who_holds_nothing_only_falls(usage, times):
    found = [at(memory(usage, 0.0), NOW + each * instant.SECOND)[MIA] for each in sorted(times)]
    assert found == sorted(found, reverse=True)


def test_without_a_memory_usage_is_made_up_from_what_runs_since_it_started():
    holdings = {MIA: [Held(NOW - 60 * instant.SECOND, {"gpu": 5}), Held(NOW - 30 * instant.SECOND, {"gpu": 5})]}
    assert at(Usage(), NOW, holdings)[MIA] == pytest.approx(0.5 * 30 + 1.0 * 30, rel=1e-3)


def test_after_a_pause_what_started_since_the_last_look_is_added():
    value = memory(100.0, 0.0)
    holdings = {MIA: [Held(NOW + 30 * instant.SECOND, {"gpu": 10}), Held(NOW - DAY, {"gpu": 0})]}
    assert at(value, NOW + 60 * instant.SECOND, holdings)[MIA] == pytest.approx(130, rel=1e-3)
    older = {MIA: [Held(NOW - DAY, {"gpu": 10})]}
    assert at(value, NOW + 60 * instant.SECOND, older)[MIA] == pytest.approx(160, rel=1e-3)


def test_what_is_remembered_as_held_is_not_counted_twice():
    holdings = {MIA: [Held(NOW - DAY, {"gpu": 10})]}
    assert at(memory(0.0, 1.0), NOW + 60 * instant.SECOND, holdings)[MIA] == pytest.approx(60, rel=1e-3)


def test_after_a_pause_what_ran_counts_from_its_start_to_its_end():
    """Half of the cluster went on for 20 s after the last look, and the other half came and went unseen.

    Times are told in whole seconds, rounded down: half a second more on average, where that does not hold for start and end alike.
    """
    since, until = (NOW + each * instant.SECOND for each in (25, 35))
    seen = Held(NOW - DAY, {"gpu": 5}, NOW + 20 * instant.SECOND)
    unseen = Held(since, {"gpu": 5}, until)
    before = Held(NOW - DAY, {"gpu": 10}, NOW - 20 * instant.SECOND)
    found = at(memory(100.0, 0.5), NOW + 60 * instant.SECOND, {MIA: [seen, unseen, before]})[MIA]
    assert found == pytest.approx(100 + 0.5 * 20.5 + 0.5 * 10, rel=1e-3)


def test_what_was_held_and_left_no_trace_counts_until_now():
    rest = {MIA: [Held(NOW - DAY, {"gpu": 2})]}
    assert at(memory(0.0, 0.5), NOW + 60 * instant.SECOND, rest)[MIA] == pytest.approx(0.5 * 60, rel=1e-3)


def test_what_a_cycle_started_is_bound_a_little_later_and_counts_once():
    late = {MIA: [Held(NOW + 2 * instant.SECOND, {"gpu": 5})]}
    assert at(memory(0.0, 0.5), NOW + 60 * instant.SECOND, late)[MIA] == pytest.approx(0.5 * 58, rel=1e-3)


@pytest.mark.parametrize("late_s", [1, 2, 4])
def test_what_had_ended_before_a_cycle_knew_it_does_not_count_until_now(late_s):
    """Only what the cycle took as held beside it, and what has left no trace, does."""
    asked = []

    def holdings(after):
        told = Held(NOW - DAY, {"gpu": 5}, NOW - late_s * instant.SECOND)
        asked.append(told.until > after)
        return {MIA: [told]}

    found = usage_at(memory(0.0, 0.7), NOW + 60 * instant.SECOND, DECAY, holdings, gpus)[MIA]
    assert found == pytest.approx(0.2 * 60, rel=1e-3)
    assert asked == [True]


def test_a_node_whose_clock_is_ahead_makes_nobody_pay_for_what_has_ended():
    ended = {MIA: [Held(NOW - DAY, {"gpu": 5}, NOW + DAY)]}
    assert at(memory(7.0, 0.0), NOW + 60 * instant.SECOND, ended)[MIA] == pytest.approx(7, rel=1e-3)


def test_what_came_and_went_unseen_counts_also_by_a_clock_that_is_a_little_ahead():
    ended = {MIA: [Held(NOW + 20 * instant.SECOND, {"gpu": 5}, NOW + 62 * instant.SECOND)]}
    assert at(memory(0.0, 0.0), NOW + 60 * instant.SECOND, ended)[MIA] == pytest.approx(0.5 * 40, rel=1e-3)


def test_right_after_the_last_look_nobody_asks_what_runs():
    def surprised(_):
        raise AssertionError

    assert usage_at(memory(1.0, 1.0), NOW + instant.SECOND, DECAY, surprised, gpus)[MIA] == pytest.approx(2, rel=1e-3)


def test_a_memory_from_a_clock_that_was_ahead_stands_and_gains_nothing():
    assert at(memory(8.0, 1.0, NOW + DAY), NOW)[MIA] == pytest.approx(8.0)


def test_who_holds_and_has_used_nothing_is_forgotten():
    value = remembered(NOW, {MIA: 1e-9, ("research", "tom"): 1.0, ("research", ""): 1.0}, {})
    assert value == Usage(NOW, {"research": (1.0, 0.0)}, {"research": {"tom": (1.0, 0.0)}})


@pytest.mark.parametrize("length", [8, 250])
def test_the_memory_never_outgrows_its_slot_and_keeps_who_used_most(length):
    users = {("q" * length, f"{number:0{length}}\u00e9\n"): float(number) for number in range(1, 20_000)}
    value = remembered(NOW, {**users, ("q" * length, ""): math.pi}, dict.fromkeys(users, 0.12345678901234567))
    assert 0.5 * SLOT_BYTES_MAX < len(SLOT.encode(value)) <= SLOT_BYTES_MAX
    kept = [usage for usage, _ in value.users["q" * length].values()]
    assert sorted(kept) == [float(number) for number in range(20_000 - len(kept), 20_000)]
    assert value.queues == {"q" * length: (math.pi, 0.0)}
    assert SLOT.decode(SLOT.encode(value)) == value


class Cycles:
    """What a cycle at each instant finds and remembers, of runs that it sees start and end; who has ended is gone one instant later."""

    def __init__(self):
        self.memory, self.runs = Usage(NOW), {}

    def look(self, now, ended, started):
        gone = [self.runs.pop(key) for key in ended]
        over = [(name, Held(since, own, now)) for name, since, own in gone]
        held = [*((name, Held(since, own)) for name, since, own in self.runs.values()), *over]
        told = {name: [each for owner, each in held if owner == name] for name, _ in held}
        usage = at(self.memory, now, told)
        self.runs.update({key: (name, now, own) for key, name, own in started})
        shares = {name: gpus({"gpu": self.held(name)}) for name, *_ in self.runs.values()}
        if shares or not has_only_decayed(self.memory, now, DECAY, usage):
            self.memory = remembered(now, usage, shares)

    def held(self, name):
        return sum(own["gpu"] for owner, _, own in self.runs.values() if owner == name)


@given(
    st.lists(
        st.tuples(st.integers(1, 7_200), st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 3)), max_size=30
    )
)
def test_a_ledger_remembers_to_the_last_digit_what_cycles_at_the_same_instants_would(instants):
    cycles, ledger, now = Cycles(), Ledger(Usage(NOW), DECAY, gpus), NOW
    for number, (gap, user, start, end) in enumerate(instants):
        now += gap * instant.SECOND * (100 if not cycles.runs else 1)
        ended = list(cycles.runs)[:end]
        for key in ended:
            name, _, own = cycles.runs[key]
            ledger.hold(name, own, -1)
        started = [(number, ("research", user), {"gpu": start})] if start else []
        cycles.look(now, ended, started)
        for _, name, own in started:
            ledger.hold(name, own)
        ledger.settle(now)
        assert ledger.memory(now) == cycles.memory


def test_a_cycle_that_comes_before_an_instant_is_settled_learns_what_it_would_have_learned():
    ledger = Ledger(Usage(NOW), DECAY, gpus)
    ledger.hold(MIA, {"gpu": 7})
    ledger.settle(NOW + 3 * instant.SECOND)
    before, now = ledger.memory(NOW + 3 * instant.SECOND), NOW + 60 * instant.SECOND
    ledger.hold(MIA, {"gpu": 7}, -1)
    seen = at(before, now, {MIA: [Held(NOW + 3 * instant.SECOND, {"gpu": 7}, now)]})
    assert at(ledger.memory(now), now) == seen
