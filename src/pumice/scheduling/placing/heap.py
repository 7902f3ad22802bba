"""A binary heap over a comparison that may change its mind between visits.

Python's own heapq sinks items differently. Orders here depend on shares that change while items wait in the heap, and then
the way an item sinks decides who comes first; so this is the textbook heap that Volcano uses (Go's container/heap).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


class Heap(Generic[T]):
    """`before(a, b)` says whether a comes strictly before b."""

    def __init__(self, before: Callable[[T, T], bool], items: Iterable[T] = ()) -> None:
        self._before = before
        self._items: list[T] = []
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def first(self) -> T:
        return self._items[0]

    def push(self, item: T) -> None:
        items, before = self._items, self._before
        items.append(item)
        child = len(items) - 1
        while child > 0:
            parent = (child - 1) // 2
            if not before(items[child], items[parent]):
                return
            items[child], items[parent] = items[parent], items[child]
            child = parent

    def pop(self) -> T:
        items, before = self._items, self._before
        items[0], items[-1] = items[-1], items[0]
        first = items.pop()
        parent, size = 0, len(items)
        while (child := 2 * parent + 1) < size:
            if child + 1 < size and before(items[child + 1], items[child]):
                child += 1
            if not before(items[child], items[parent]):
                break
            items[parent], items[child] = items[child], items[parent]
            parent = child
        return first
