"""What is kept of a container's lines, and how much of it may wait."""

import random

from pumice.clock import VirtualClock
from pumice.record.log_keeper import LINES_BYTES_MAX, WAITING_BYTES_MAX, Lines, LogKeeper, last_lines
from pumice.runtime import Runtime


def test_the_end_of_a_long_text_is_kept_from_the_beginning_of_a_line():
    assert last_lines(b"a\nb\n") == b"a\nb\n"
    kept = last_lines(b"".join(b"line %06d\n" % number for number in range(20_000)))
    assert LINES_BYTES_MAX - 12 <= len(kept) <= LINES_BYTES_MAX
    assert kept.startswith(b"line ")
    assert kept.endswith(b"line 019999\n")


def test_one_endless_line_is_kept_by_its_end():
    assert last_lines(b"x" * (LINES_BYTES_MAX * 3)) == b"x" * LINES_BYTES_MAX


def test_what_waits_is_bounded_and_what_is_let_go_is_counted():
    clock = VirtualClock()
    keeper = LogKeeper(None, None, Runtime(clock=clock, chance=random.Random(0)), lambda uid, since: False)
    one = Lines("p", "c", "g", 0, "pod", "w", 0, b"x" * LINES_BYTES_MAX)
    fits = WAITING_BYTES_MAX // LINES_BYTES_MAX
    keeper.put_back([one] * (fits + 5))
    assert (len(keeper.take()), keeper.dropped) == (fits, 5)
    assert keeper.take() == []
