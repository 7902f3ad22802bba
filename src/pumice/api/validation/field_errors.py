"""What is wrong with an object, and what will hurt although it is allowed.

An error names the field, the cause and the next step. `Findings` collects errors and warnings while an object is walked
through; its methods are the questions that many fields share.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import msgspec

from pumice.api.decoding import decode, decode_value
from pumice.api.meta import Struct
from pumice.errors import BadInput

VALUE_CHARS_MAX: Final = 80  # of a wrong value in a message
WARNING_CHARS_MAX: Final = 256  # Kubernetes cuts longer warnings off
WARNINGS_MAX: Final = 12  # and drops what exceeds 4096 bytes together
ERRORS_SHOWN_MAX: Final = 20  # a person corrects a few and tries again

T = TypeVar("T", bound=Struct)

_PLACE: Final = re.compile(r"`\$\.?(.*)`")


class FieldError(Struct):
    """Why an object is refused."""

    path: str
    cause: str
    next_step: str
    value: Any = None

    def __str__(self) -> str:
        shown = "" if self.value is None else f"{_value_text(self.value)}: "
        return f"{self.path}: {shown}{self.cause}; {self.next_step}"


def _value_text(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}..."


def message(errors: Sequence[FieldError]) -> str:
    """All errors in one text, as an API server returns them; only the first ones of very many."""
    shown = [str(error) for error in errors[:ERRORS_SHOWN_MAX]]
    if len(errors) > ERRORS_SHOWN_MAX:
        shown.append(f"and {len(errors) - ERRORS_SHOWN_MAX} more")
    return "\n".join(shown)


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """The next step for a word that is none of the options: the one that was probably meant, or else all of them."""
    known = {option.lower(): option for option in options}
    close = get_close_matches(word.lower(), known, n=1, cutoff=0.7)
    return f"did you mean {known[close[0]]}?" if close else f"use one of {', '.join(known.values())}"


class Findings:
    """Errors and warnings in the order in which they were found."""

    __slots__ = ("_texts", "errors")

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self._texts: dict[str, None] = {}  # in order, none twice

    @property
    def warnings(self) -> list[str]:
        """At most as many as a client gets to see."""
        texts = list(self._texts)
        if len(texts) > WARNINGS_MAX:
            texts[WARNINGS_MAX - 1 :] = [f"and {len(texts) - WARNINGS_MAX + 1} more warnings"]
        return texts

    def refuse(self, path: str, cause: str, next_step: str, value: Any = None) -> None:
        self.errors.append(FieldError(path=path, cause=cause, next_step=next_step, value=value))

    def refuse_as(self, path: str, error: BadInput) -> None:
        """Refuses for the reason of an error, whose text ends with the next step behind a semicolon."""
        cause, _, next_step = str(error).rpartition("; ")
        self.refuse(path, cause or next_step, next_step)

    def warn(self, path: str, text: str) -> None:
        self._texts[f"{path}: {text}"[:WARNING_CHARS_MAX]] = None

    def add_as_warnings(self, other: "Findings") -> None:
        """What would be refused elsewhere is only worth a warning here."""
        for error in other.errors:
            self.warn(error.path, f"{error.cause}; {error.next_step}")
        self._texts.update(dict.fromkeys(other.warnings))

    # ---------------------------------------------------------------- questions that many fields share; True means fine

    def require(self, path: str, value: Any) -> bool:
        if value is None or value in ("", ()):
            self.refuse(path, "required, but missing", "set it")
            return False
        return True

    def choose(self, path: str, value: str, options: Collection[str]) -> bool:
        """The value is one of the options; an empty one is absent."""
        if value and value not in options:
            self.refuse(path, "unsupported value", did_you_mean(value, options), value)
            return False
        return True

    def name(self, path: str, value: str, problem: Callable[[str], str]) -> bool:
        """The value is there and has the form of a name."""
        if not self.require(path, value):
            return False
        if cause := problem(value):
            self.refuse(path, cause, "correct the name", value)
            return False
        return True

    def within(self, path: str, value: int | None, low: int, high: int | None = None) -> bool:
        """The number, if there is one, is neither below nor above its bounds."""
        if value is None or (value >= low and (high is None or value <= high)):
            return True
        bounds = f"{low} or more" if high is None else f"{low} to {high}"
        self.refuse(path, "out of range", f"use {bounds}", value)
        return False

    def only_one(self, path: str, given: Sequence[str], options: Sequence[str]) -> bool:
        """Exactly one of some fields that exclude one another is set."""
        if len(given) == 1:
            return True
        if given:
            self.refuse(path, f"more than one of {', '.join(given)} is set", "keep one of them")
        else:
            self.refuse(path, f"none of {', '.join(options)} is set", "set one of them")
        return False

    def decode(self, path: str, struct: type[T], value: Any) -> T | None:
        """The value as a Struct; None, and an error, where a field has the wrong type."""
        try:
            return decode(struct, value) if isinstance(value, msgspec.Raw) else decode_value(struct, value)
        except BadInput as error:
            place = _PLACE.search(str(error))
            where = ".".join(filter(None, (path, place.group(1) if place else "")))
            cause = str(error).removeprefix(f"{struct.__name__}: ").partition(" - at ")[0].partition(";")[0]
            self.refuse(where, cause, "correct that field")
            return None
