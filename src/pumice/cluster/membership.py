"""Which nodes the members of hyper nodes select: by exact name, by pattern, by labels.

A cluster of 5,000 nodes may have hundreds of hyper nodes, each with a pattern or a label of its own, and is looked at again
whenever a node comes or goes. So all plain patterns are searched in one pass over the names, and labels through an index.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import re2

from pumice.cluster.matching import compile_selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.api.core import Node
    from pumice.api.meta import LabelSelector
    from pumice.api.topology import Member

PATTERN_CHARS_MAX = 1024  # of a member's regular expression; the engine is linear, its compilation need not be
PATTERNS_CACHED_MAX = 1024
TOGETHER_CHARS_MAX = 2**14  # of all patterns that are searched in one pass
TOGETHER_BYTES_MAX = 2**26  # memory of that pass: plenty for so many characters, so it never gives up half way


class Nodes(Protocol):
    """Nodes in some order: a NodeTable, or less than that."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def index(self) -> Mapping[str, int]: ...

    @property
    def objects(self) -> Sequence[Node]: ...


class Membership:
    """Answers for one table of nodes and the members of all hyper nodes."""

    def __init__(self, table: Nodes, members: Iterable[Member]) -> None:
        self._table = table
        self._by_label: dict[str, dict[str, list[int]]] = {}
        patterns = {each.selector.regex_match.pattern for each in members if each.selector.regex_match is not None}
        self._by_pattern = _search(table.names, sorted(patterns))

    def nodes(self, member: Member) -> Sequence[int]:
        """Indexes of the nodes that the member selects; a name that does not exist and a broken pattern select nothing."""
        selector = member.selector
        if selector.exact_match is not None:
            index = self._table.index.get(selector.exact_match.name)
            return () if index is None else (index,)
        if selector.regex_match is not None:
            return self._by_pattern[selector.regex_match.pattern]
        return self._matching_nodes(selector.label_match) if selector.label_match is not None else ()

    def _matching_nodes(self, selector: LabelSelector) -> list[int]:
        wanted = compile_selector(selector)
        objects = self._table.objects
        candidates: Iterable[int] = range(len(objects))
        for key, value in selector.match_labels.items():
            candidates = self._index(key).get(value, ())
            break  # one label leaves few nodes to look at
        return [index for index in candidates if wanted.matches(objects[index].metadata.labels)]

    def _index(self, key: str) -> dict[str, list[int]]:
        found = self._by_label.get(key)
        if found is None:
            found = self._by_label[key] = {}
            for index, node in enumerate(self._table.objects):
                value = node.metadata.labels.get(key)
                if value is not None:
                    found.setdefault(value, []).append(index)
        return found


def _search(names: Sequence[str], patterns: Sequence[str]) -> Mapping[str, list[int]]:
    """Pattern -> indexes of the names in which it is found."""
    found: dict[str, list[int]] = {pattern: [] for pattern in patterns}
    usable = [pattern for pattern in patterns if _compile(pattern) is not None]
    together = [pattern for pattern in usable if _is_plain(pattern)]
    if len(together) > 1 and sum(map(len, together)) <= TOGETHER_CHARS_MAX:
        options = re2.Options()
        options.max_mem = TOGETHER_BYTES_MAX
        search = re2.Set.SearchSet(options)
        for pattern in together:
            search.Add(pattern)
        search.Compile()
        for index, name in enumerate(names):
            for number in search.Match(name) or ():
                found[together[number]].append(index)
        usable = [pattern for pattern in usable if not _is_plain(pattern)]
    for pattern in usable:
        search_one = _compile(pattern).search
        found[pattern] = [index for index, name in enumerate(names) if search_one(name)]
    return found


def _is_plain(pattern: str) -> bool:
    """Repetition counts and Unicode classes make programs far larger than their text: such patterns run alone."""
    return "{" not in pattern and "\\p" not in pattern.lower()


@lru_cache(maxsize=PATTERNS_CACHED_MAX)
def _compile(pattern: str) -> Any:
    """A linear-time pattern, or None for one that no webhook should have let through."""
    if len(pattern) > PATTERN_CHARS_MAX:
        return None
    try:
        return re2.compile(pattern)
    except re2.error:
        return None
