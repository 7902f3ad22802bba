"""Numbers and geometry that several pages share. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pumice import instant
from pumice.cluster import amounts
from pumice.record.facts import is_gpu
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pumice.instant import Instant
    from pumice.readmodel import model

GIB = 2**30
COLOURS = 10  # classes c0 to c9 of the stylesheet
PATTERNS = ("", "striped", "hatched")  # in which each of them is drawn, by the drawings in macros.html
LOOKS = tuple(f"look c{colour} {pattern}".rstrip() for pattern in PATTERNS for colour in range(COLOURS))
REST = "look grey hatched"  # of more names than there are looks; a legend says how many
RUNNING, WAITING, FINISHED = "running", "waiting", "finished"
_FINISHED = frozenset({"Completed", "Unknown"})
_KEYS = re.compile(r"[^\s/,;:()]+/[^\s/,;:()]+")  # that may be gangs, within a sentence
_WORDS = re.compile(r"([^0-9]*)([0-9]{0,18})")


def main_resource(totals: model.Totals) -> str:
    """What people count: the GPU that the nodes have most of, else cpu."""
    cards = {name: units(name, text) for name, text in totals.allocatable.items() if is_gpu(name)}
    return max(cards, key=lambda name: (cards[name], name), default="cpu")


def units(resource: str, text: str) -> float:
    """A quantity in cards, cores or GiB."""
    value = amounts.amount(resource, text, unreadable=0)
    return value / GIB if amounts.in_bytes(resource) else value / amounts.MILLI


def part(held: Mapping[str, str], resource: str) -> float:
    return units(resource, held[resource]) if resource in held else 0.0


def noun(resource: str) -> str:
    """What units of a resource are called."""
    return "GPUs" if is_gpu(resource) else {"cpu": "cores", "memory": "GiB"}.get(resource, resource)


def number(value: float) -> str:
    """Whole where it is, else with one digit behind the point, thousands apart."""
    rounded = round(value, 1)
    return f"{rounded:,.0f}" if rounded == int(rounded) else f"{rounded:,.1f}"


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """An order in which node-9 comes before node-10."""
    return tuple((word, int(digits) if digits else -1) for word, digits in _WORDS.findall(name))


def counted(count: float, word: str) -> str:
    return f"{number(count)} {word}{'' if count == 1 else 's'}"


def stage_of(gang: model.Gang) -> str:
    """Whether a gang runs, waits or has ended."""
    if gang.members.running and gang.members.running >= gang.members.minimum:
        return RUNNING
    if gang.phase in _FINISHED or (gang.members.finished and not gang.members.waiting and not gang.members.running):
        return FINISHED
    return WAITING if gang.position or gang.phase in {"Pending", "Inqueue"} else RUNNING


def by_job(gangs: Iterable[model.Gang]) -> Callable[[str], str]:
    """Puts Jobs by their own names into sentences: their PodGroups' end in a uid."""
    names = {each.key: f"{each.namespace}/{each.job}" for each in gangs if each.job}
    return lambda text: _KEYS.sub(lambda found: names.get(found[0], found[0]), text)


def looks_of(sizes: Mapping[str, float]) -> dict[str, str]:
    """A look for each name, the same as long as the names are the same; of more than there are looks, the smallest share one."""
    largest = sorted(sizes, key=lambda name: (-sizes[name], name))[: len(LOOKS)]
    own = dict(zip(sorted(largest), LOOKS, strict=False))
    return {name: own.get(name, REST) for name in sorted(sizes)}


class Bar(Value):
    """A piece of a bar, in percent of its whole width."""

    kind: str
    x: float
    width: float


def bar(pieces: Iterable[tuple[str, float]], whole: float) -> tuple[Bar, ...]:
    """Pieces one behind the other."""
    found, x = [], 0.0
    for kind, size in pieces:
        width = min(max(size, 0.0) / whole * 100 if whole > 0 else 0.0, 100 - x)
        if width > 0:
            found.append(Bar(kind, round(x, 2), round(width, 2)))
        x += width
    return tuple(found)


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY = 24 * instant.HOUR
_STEPS = (
    *(each * instant.SECOND for each in (1, 2, 5, 10, 15, 30)),
    *(each * instant.MINUTE for each in (1, 2, 5, 10, 15, 30)),
    *(each * instant.HOUR for each in (1, 2, 3, 6, 12)),
    *(each * _DAY for each in (1, 2, 5, 10, 30, 100, 365)),
)


def ticks(begin: Instant, end: Instant, most: int) -> list[tuple[Instant, str]]:
    """Round times of an axis with their words, so many of them at most; the day is told where it is not one day's axis."""
    step = next((each for each in _STEPS if (end - begin) // each < most), _STEPS[-1])
    is_long = end - begin >= 20 * instant.HOUR
    at = -(-begin // step) * step
    found: list[tuple[Instant, str]] = []
    while at <= end and len(found) < most:
        text = instant.format_instant(at)
        day, hour = f"{int(text[8:10])} {_MONTHS[int(text[5:7]) - 1]}", text[11 : 16 if step >= instant.MINUTE else 19]
        found.append((at, day if step >= _DAY else f"{day} {hour}" if is_long else hour))
        at += step
    return found


def moment(text: str) -> Instant | None:
    """A time of the view; None where it tells none."""
    return instant.parse_instant(text) if text else None


def seconds(duration: str) -> float:
    return instant.parse_duration(duration) / instant.SECOND if duration else 0.0
