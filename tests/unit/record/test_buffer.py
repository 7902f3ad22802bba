"""Rows that wait: each once, bounded, and what is given up is counted."""

from tests.bodies.record import attempt, gang, run

from pumice.record.buffer import Buffer
from pumice.record.rows import Gap


def test_the_latest_state_of_a_row_waits_once_and_keeps_its_age():
    buffer = Buffer()
    buffer.put([gang(seen=1)], 5.0)
    buffer.put([gang(seen=2), run()], 9.0)
    assert (len(buffer), buffer.since()) == (2, 5.0)
    assert [(row.TABLE, row.seen) for row in buffer.take()] == [("gangs", 2), ("runs", 1)]
    assert len(buffer) == 2, "until it is written"
    buffer.written(None)
    assert (len(buffer), buffer.since()) == (0, None)


def test_what_could_not_be_written_waits_again_unless_there_is_a_newer_state():
    buffer = Buffer()
    buffer.put([gang("a", seen=1), gang("b", seen=1)], 1.0)
    buffer.take()
    buffer.put([gang("c", seen=1), gang("b", seen=2)], 2.0)
    buffer.put_back(3.0)
    assert [(row.uid, row.seen) for row in buffer.take()] == [("a", 1), ("b", 2), ("c", 1)]
    assert buffer.since() == 1.0


def test_the_oldest_detail_goes_first_and_gangs_last():
    buffer = Buffer(limit=10)
    buffer.put([gang(str(number)) for number in range(4)], 1.0)
    buffer.put([attempt(str(number)) for number in range(4)], 2.0)
    assert buffer.put([run(str(number)) for number in range(4)], 3.0) == 3
    left = buffer.take(100)
    assert [row.uid for row in left if row.TABLE == "runs"] == ["3"], "the youngest"
    assert sum(row.TABLE == "gangs" for row in left) == 4
    assert buffer.gap == Gap(since=3, until=3, rows=3)


def test_a_gap_grows_until_it_is_written():
    buffer = Buffer(limit=10)
    for number in range(40):
        buffer.put([run(str(number))], float(number))
    assert len(buffer) <= 10
    assert buffer.gap == Gap(since=0, until=38, rows=40 - len(buffer))
    gap = buffer.gap
    buffer.take()
    buffer.written(gap)
    assert buffer.gap is None


def test_a_gap_that_grew_while_it_was_written_is_written_again():
    buffer = Buffer(limit=10)
    buffer.put([run(str(number)) for number in range(20)], 1.0)
    gap = buffer.gap
    buffer.take(2)
    buffer.put([run(f"x{number}") for number in range(20)], 2.0)
    buffer.written(gap)
    assert buffer.gap is not None
    assert buffer.gap.rows > gap.rows


def test_even_gangs_go_where_there_is_nothing_else():
    buffer = Buffer(limit=10)
    assert buffer.put([gang(str(number)) for number in range(30)], 1.0) == 21
    assert [row.uid for row in buffer.take(100)] == [str(number) for number in range(21, 30)]
