"""The pods on one node, and how they are labelled: found out once, and known until one of them comes, goes or changes."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.cluster.tasks import Task

    Tasks = tuple[Task, ...]
else:
    Tasks = tuple

KEYS_REMEMBERED_MAX = 16  # label keys that selectors ask for; clusters use a handful
_NOBODY: Mapping[str, Tasks] = MappingProxyType({})


class Residents(Tasks):
    """A tuple of tasks in a fixed order. What it remembers depends on nothing but the tasks, so snapshots may share it."""

    _by_label: dict[str, Mapping[str, Tasks]]

    def __new__(cls, tasks: Iterable[Task] = ()) -> Self:
        own = super().__new__(cls, tasks)
        own._by_label = {}
        return own

    def labelled(self, key: str) -> Mapping[str, Tasks]:
        """The pods that have the label, by its value."""
        if not self:
            return _NOBODY
        found = self._by_label.get(key)
        if found is None:
            if len(self._by_label) >= KEYS_REMEMBERED_MAX:
                self._by_label.clear()
            found = self._by_label[key] = self._sort(key)
        return found

    def _sort(self, key: str) -> Mapping[str, Tasks]:
        found: dict[str, Tasks] = {}
        for task in self:
            value = task.pod.metadata.labels.get(key)
            if value is not None:
                found[value] = (*found.get(value, ()), task)
        return found
