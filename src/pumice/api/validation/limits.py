"""How much one object may ask for. Every number that a user writes and that code loops over has its limit here.

What is longer is refused before anything in it is looked at: a body of 3 MiB can hold a million empty containers, and looking at
each of them would keep all other reviews waiting.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

JOB_REPLICAS_MAX: Final = 100_000  # of all tasks of a Job together: host names are made for each of them
TASKS_MAX: Final = 1_000  # of a Job
CONTAINERS_MAX: Final = 256  # of a pod, and as many that start before them
FLOWS_MAX: Final = 1_000  # of a JobFlow
MEMBERS_MAX: Final = 10_000  # of a HyperNode
TIER_MAX: Final = 1_000  # of a HyperNode
SUB_GROUP_POLICIES_MAX: Final = 256  # of a PodGroup
LIST_MAX: Final = 10_000  # entries of any other list or map
VALUES_MAX: Final = 100_000  # lists, maps and their entries of a whole object

_ANY: Final = ("LIST_MAX", LIST_MAX)
_LISTS: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {
        "tasks": ("TASKS_MAX", TASKS_MAX),
        "containers": ("CONTAINERS_MAX", CONTAINERS_MAX),
        "initContainers": ("CONTAINERS_MAX", CONTAINERS_MAX),
        "flows": ("FLOWS_MAX", FLOWS_MAX),
        "members": ("MEMBERS_MAX", MEMBERS_MAX),
        "subGroupPolicy": ("SUB_GROUP_POLICIES_MAX", SUB_GROUP_POLICIES_MAX),
    }
)


class _Place(NamedTuple):
    """Where a list or a map stands: under a key or an index of another."""

    above: "_Place | None"
    key: str | int

    def __str__(self) -> str:
        steps: list[str] = []
        place: _Place | None = self
        while place is not None and place.above is not None:
            steps.append(f"[{place.key}]" if isinstance(place.key, int) else f".{place.key}")
            place = place.above
        return "".join(reversed(steps)).lstrip(".") or "the object"


def excess(subject: Mapping[str, Any]) -> str:
    """Which count of the object exceeds which limit; empty where none does. Stops counting at the limit."""
    seen = 0
    stack: list[tuple[_Place, Any]] = [(_Place(None, ""), subject)]
    while stack:
        place, part = stack.pop()
        name, limit = _LISTS.get(place.key, _ANY) if isinstance(place.key, str) and isinstance(part, list) else _ANY
        if len(part) > limit:
            return f"{place}: {len(part)} entries, at most {limit} ({name}); make several objects of it"
        seen += 1 + len(part)
        if seen > VALUES_MAX:
            return f"{place}: more than {VALUES_MAX} values up to here (VALUES_MAX); make several objects of it"
        entries = part.items() if isinstance(part, dict) else enumerate(part)
        stack += [(_Place(place, key), each) for key, each in entries if isinstance(each, dict | list)]
    return ""
