"""How much one user may have in a queue, as the queue's annotation says it: `running=4,submitted=100,nvidia.com/gpu=8`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from pumice import quantity
from pumice.errors import BadInput
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXT_CHARS_MAX: Final = 4096
RUNNING, SUBMITTED = "running", "submitted"
_COUNT: Final = re.compile(r"[0-9]{1,9}")
_RESOURCE: Final = re.compile(
    r"cpu|memory|ephemeral-storage|pods|hugepages-[A-Za-z0-9]+|[A-Za-z0-9.-]+/[A-Za-z0-9._-]+"
)


class UserLimitsError(BadInput):
    """A text that says no limits."""


class UserLimits(Value):
    """Gangs that may run and that may be there at all, finished ones not counted, and resources; None and absent: no limit."""

    running: int | None = None
    submitted: int | None = None
    resources: Mapping[str, str] = msgspec.field(default_factory=dict)

    def over(self, other: UserLimits) -> UserLimits:
        """These, and of the other's those that are not set here."""
        return UserLimits(
            running=other.running if self.running is None else self.running,
            submitted=other.submitted if self.submitted is None else self.submitted,
            resources={**other.resources, **self.resources},
        )


NO_LIMITS: Final = UserLimits()


def is_limited(name: str) -> bool:
    """Whether a limit may have this name: a count of gangs, or a resource that queues count (`gpu` alone is none)."""
    return name in {RUNNING, SUBMITTED} or _RESOURCE.fullmatch(name) is not None


def parse_user_limits(text: str) -> UserLimits:
    """The limits of an annotation."""
    if len(text) > TEXT_CHARS_MAX:
        raise UserLimitsError(f"user limits: more than {TEXT_CHARS_MAX} characters; leave some out")
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, amount = (each.strip() for each in part.partition("="))
        if not equals or name in found or not is_limited(name):
            raise _error(text, f"{part.strip()!r} names nothing that can be limited, or a second time")
        found[name] = amount
    counts = {name: _count(text, found.pop(name)) for name in (RUNNING, SUBMITTED) if name in found}
    for name, amount in found.items():
        try:
            negative = quantity.parse_milli(amount) < 0
        except quantity.QuantityError as error:
            raise _error(text, str(error)) from error
        if negative:
            raise _error(text, f"{name}={amount} is below zero")
    return UserLimits(counts.get(RUNNING), counts.get(SUBMITTED), found)


def _count(text: str, amount: str) -> int:
    if not _COUNT.fullmatch(amount):
        raise _error(text, f"{amount!r} is no number of gangs")
    return int(amount)


def _error(text: str, cause: str) -> UserLimitsError:
    return UserLimitsError(
        f"user limits {text[:100]!r}: {cause}; write for example running=4,submitted=100,nvidia.com/gpu=8"
    )
