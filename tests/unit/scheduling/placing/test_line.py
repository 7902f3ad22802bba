"""Lines: groups stand behind one another, and a group that is charged moves back as a whole."""

import random

from pumice.scheduling.placing.heap import Heap
from pumice.scheduling.placing.line import Line


def drained(line):
    return [line.pop() for _ in range(len(line))]


def test_without_groups_a_line_is_a_heap():
    chance = random.Random(4)
    numbers = [chance.randint(0, 50) for _ in range(200)]
    heap, line = Heap(lambda a, b: a < b, numbers), Line(lambda a, b: a < b, lambda _: (), numbers)
    assert drained(line) == [heap.pop() for _ in numbers]


def test_a_group_that_was_served_waits_for_those_that_were_served_less():
    charged = {"ann": 0, "bob": 0}
    line = Line(
        lambda a, b: (charged[a[0]], a) < (charged[b[0]], b),
        lambda item: item[:1],
        [*(("ann", number) for number in range(5)), ("bob", 0), ("bob", 1)],
    )
    order = []
    while line:
        order.append(line.pop())
        charged[order[-1][0]] += 1
    assert [name for name, _ in order] == ["ann", "bob", "ann", "bob", "ann", "ann", "ann"]
    assert [number for name, number in order if name == "ann"] == [0, 1, 2, 3, 4]


def test_groups_inside_groups_are_ranked_level_by_level():
    charged = {"a": 0, "b": 0}
    items = ["a1", "a2", "a3", "a4", "b1"]
    line = Line(lambda x, y: (charged[x[0]], x) < (charged[y[0]], y), lambda item: (item[0],), items)
    order = []
    while line:
        order.append(line.pop())
        charged[order[-1][0]] += 1
    assert order == ["a1", "b1", "a2", "a3", "a4"]


def test_items_without_a_group_compete_with_the_first_of_each_group():
    line = Line(lambda a, b: a < b, lambda item: ("even",) if item % 2 == 0 else (), [4, 1, 2, 3, 6, 5])
    assert drained(line) == [1, 2, 3, 4, 5, 6]


def test_what_comes_back_finds_its_place_in_its_own_group_and_in_others():
    line = Line(lambda a, b: a < b, lambda item: (item % 3,), [3, 6, 1, 4, 2])
    assert [line.pop(), line.pop()] == [1, 2]
    line.push(5)
    line.push(0)  # into a group that was not served last
    assert drained(line) == [0, 3, 4, 5, 6]


def test_random_lines_serve_as_if_every_item_were_looked_at_each_time():
    for seed in range(40):
        chance = random.Random(seed)
        charged = dict.fromkeys(range(5), 0)
        items = [(chance.randrange(5), number) for number in range(30)]
        key = lambda item: (charged[item[0]], item[1])  # noqa: E731, B023
        line = Line(lambda a, b: key(a) < key(b), lambda item: (item[0],), items)  # noqa: B023
        left = list(items)
        while left:
            first = min(left, key=key)
            assert line.pop() == first, f"seed {seed}"
            left.remove(first)
            charged[first[0]] += chance.randint(0, 3)
            if chance.random() < 0.2:
                line.push(first)
                left.append(first)


def test_whoever_was_sent_away_is_not_served_and_others_may_come():
    line = Line(lambda a, b: a < b, lambda item: (item % 2,), [3, 1, 2])
    line.clear()
    assert not line
    line.push(7)
    assert drained(line) == [7]
