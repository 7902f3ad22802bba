"""What a page is given: somebody's part of the view, what they asked for, and whom to ask further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.processes.access import Denied
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pumice.dashboard.answers import Answers
    from pumice.dashboard.people import Person
    from pumice.instant import Instant
    from pumice.readmodel import model
    from pumice.readmodel.selection import Selection

VALUE_CHARS_MAX = 253  # of a parameter: as long as a name can be


class PageRequest(Value, kw_only=True):
    """What somebody asks of a page, and what they may see."""

    state: model.State
    sees: Selection
    person: Person
    now: Instant
    query: Mapping[str, str]
    names: Mapping[str, str]  # parts of the path
    answers: Answers
    writes: bool = False  # whether people may do something here

    def choice(self, name: str, *allowed: str) -> str:
        """A parameter that has one of a few values; the first where it is not given."""
        value = self.query.get(name) or allowed[0]
        if value not in allowed:
            raise Denied(400, f"{name}={value[:40]!r}: there are {', '.join(filter(None, allowed))}")
        return value

    def text(self, name: str) -> str:
        return self.query.get(name, "")[:VALUE_CHARS_MAX].strip()

    @property
    def sees_all(self) -> bool:
        return self.sees.namespaces is None


class Page(Value):
    """Its path, its title, and what its template shows."""

    path: str
    title: str
    template: str
    data: Callable[[PageRequest], Awaitable[Mapping[str, Any]]]
    in_menu: bool = True
