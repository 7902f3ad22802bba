"""Numbers as text: how users write them, and how we do. Python neither reads nor prints more than 4,300 digits, and an error is no answer."""

from collections.abc import Iterable
from typing import Final

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
DIGITS_MAX: Final = 64  # far more than any number that we read needs, leading zeros included


def is_number(text: str) -> bool:
    """Whether Python reads it as a number, whole or not."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def whole_number(text: str, *, most: int = INT32_MAX) -> int | None:
    """The number; None for what is none, has a sign or exceeds `most`."""
    if len(text) > DIGITS_MAX or not (text.isascii() and text.isdecimal()):
        return None
    number = int(text)
    return number if number <= most else None


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as ranges: 0, 1, 2 and 7 are "0-2,7"."""
    parts: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1] = (parts[-1][0], number)
        else:
            parts.append((number, number))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
