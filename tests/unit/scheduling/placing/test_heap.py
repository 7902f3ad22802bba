"""The heap visits items as Go's container/heap does, also where the order changes its mind meanwhile."""

import random

import pytest

from pumice.scheduling.placing.heap import Heap


class GoHeap:
    """Go's container/heap, restated by its documented steps: Push is append and up, Pop is swap, down and remove."""

    def __init__(self, less):
        self.less, self.items = less, []

    def push(self, item):
        self.items.append(item)
        j = len(self.items) - 1
        while True:
            i = (j - 1) // 2 if j else 0
            if i == j or not self.less(self.items[j], self.items[i]):
                break
            self.items[i], self.items[j] = self.items[j], self.items[i]
            j = i

    def pop(self):
        n = len(self.items) - 1
        self.items[0], self.items[n] = self.items[n], self.items[0]
        i = 0
        while True:
            left = 2 * i + 1
            if left >= n:
                break
            j = left
            if left + 1 < n and self.less(self.items[left + 1], self.items[left]):
                j = left + 1
            if not self.less(self.items[j], self.items[i]):
                break
            self.items[i], self.items[j] = self.items[j], self.items[i]
            i = j
        return self.items.pop()


def test_items_come_out_in_order():
    heap = Heap(lambda left, right: left < right, [5, 1, 4, 1, 3])
    assert len(heap) == 5
    assert [heap.pop() for _ in range(5)] == [1, 1, 3, 4, 5]
    assert not heap


@pytest.mark.parametrize("seed", range(30))
def test_it_agrees_with_gos_heap_while_the_order_keeps_changing(seed):
    chance = random.Random(seed)
    share = {}

    def before(left, right):
        return (share[left], left) < (share[right], right)

    ours, gos = Heap(before), GoHeap(before)
    for number in range(200):
        if chance.random() < 0.55 or not len(ours):
            share[number] = chance.randint(0, 5)
            ours.push(number)
            gos.push(number)
        else:
            assert ours.pop() == gos.pop()
        for item in chance.sample(sorted(share), min(2, len(share))):
            share[item] = chance.randint(0, 5)  # while it waits, as shares do
    while len(ours):
        assert ours.pop() == gos.pop()
