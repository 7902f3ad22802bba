"""Dependencies between named parts: all of them exist, and none of them waits for itself."""

import graphlib
from collections.abc import Iterable, Mapping


def unknown_targets(graph: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """Pairs of a name and a target of it that is not in the graph."""
    return [(name, target) for name, targets in graph.items() for target in targets if target not in graph]


def cycle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Names that wait for one another in a circle, the first one repeated at the end; empty where there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(reversed(error.args[1]))  # it has each name behind the one that it waits for
    return []
