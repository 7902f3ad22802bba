"""When a gang started."""

import random

import pytest

from pumice import instant
from pumice.api import names
from pumice.api.run_time import NO_RUN, Run, lost, run_of, started_at


def at(minute: int) -> str:
    return f"2026-01-01T00:{minute:02}:00Z"


def test_a_gang_starts_with_the_last_member_of_its_minimum() -> None:
    starts = [at(5), at(1), at(3), at(9)]
    assert started_at(starts, 3) == instant.parse_instant(at(5))


def test_a_gang_of_which_too_few_have_started_has_not_started() -> None:
    assert started_at([at(1), None, None], 2) is None
    assert started_at([], 1) is None


@pytest.mark.parametrize("minimum", [0, -1, 1])
def test_a_minimum_below_one_is_one(minimum: int) -> None:
    assert started_at([at(2), at(1)], minimum) == instant.parse_instant(at(1))


def test_a_replaced_member_does_not_move_the_start_that_is_recorded() -> None:
    assert started_at([at(1), at(30)], 2) == instant.parse_instant(at(30))
    assert started_at([at(1), at(30)], 2, at(2)) == instant.parse_instant(at(2))
    assert started_at([at(1), None], 2, at(2)) == instant.parse_instant(at(2))


def test_a_gang_that_was_taken_down_whole_starts_anew() -> None:
    assert started_at([at(30), at(31)], 2, at(2)) == instant.parse_instant(at(31))
    assert started_at([None, None], 2, at(2)) is None


def test_the_order_of_members_does_not_matter() -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    minutes = [chance.randrange(60) for _ in range(20)]
    k = chance.randint(1, 20)
    assert started_at(map(at, minutes), k) == instant.parse_instant(at(sorted(minutes)[k - 1])), f"seed {seed}"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"started": 3}', '{"started": "yesterday"}'])
def test_a_record_that_cannot_be_read_is_none(text: str) -> None:
    assert run_of({names.RUN: text}) == NO_RUN


def test_a_record_is_read() -> None:
    assert run_of({names.RUN: f'{{"started": "{at(1)}"}}'}) == Run(started=at(1))


@pytest.mark.parametrize(
    ("started", "checkpointed", "cost"),
    [
        (None, None, 0),  # never ran
        (10, None, 90),
        (10, 60, 40),
        (10, 5, 90),  # a checkpoint of the attempt before
        (10, 101, 90),  # a clock that is ahead does not make a victim cheap
    ],
)
def test_lost_work_is_what_was_done_since_the_last_checkpoint_that_counts(
    started: int | None, checkpointed: int | None, cost: int
) -> None:
    assert lost(started, 100, checkpointed) == cost
