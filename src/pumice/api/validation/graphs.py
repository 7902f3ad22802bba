"""Dependencies between named parts: all of them exist, and none of them waits for itself."""

from collections.abc import Iterable, Mapping


def unknown_targets(graph: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """Pairs of a name and a target of it that is not in the graph."""
    return [(name, target) for name, targets in graph.items() for target in targets if target not in graph]


def cycle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Names that wait for one another in a circle, the first one repeated at the end; empty where there is none."""
    done: set[str] = set()
    for start in graph:
        trail: dict[str, None] = {}  # the names from the start to where we are, in order
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                del trail[name]
                done.add(name)
            elif name in trail:
                names = list(trail)
                return [*names[names.index(name) :], name]
            elif name not in done and name in graph:
                trail[name] = None
                stack.append((name, True))
                stack += [(target, False) for target in graph[name]]
    return []
