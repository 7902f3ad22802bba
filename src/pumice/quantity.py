"""Kubernetes quantities ("500m", "1.5Gi", "12e6") as exact integers, read and printed as apimachinery does.

A text is read into `unscaled * 10**scale`, rounded away from zero to whole nano units as apimachinery rounds it, and
kept in that form: no float, and no huge power for "1e2000000000".

Bounds. Amounts with a binary suffix are capped at 2**63-1 while reading, as in apimachinery ("8Ei" is one less than it
says). Decimal amounts are not capped: comparing and printing them is exact. Their integer readings (`parse_milli`,
`parse_value`) saturate at the bounds of int64.

Where we differ from apimachinery (pkg/api/resource), on purpose:
- Its MilliValue and Value return 0 or wrap around beyond int64; a gigantic request must not look like nothing: we saturate.
- It misreads negative amounts that need its big numbers ("-2.Ei" is 0 to it); we round all away from zero.
- It prints decimal amounts of 10**21 and more without their exponent ("1000E" prints as "1"); we print "1e21".
- It reads "m", "+" or "." as 0; they are template accidents, so we refuse them.
- It lets exponents beyond 32 bits wrap around; we refuse them.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from pumice.errors import BadInput

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
QUANTITY_CHARS_MAX: Final = 512  # the longest useful text has about 40; reading digits costs quadratic time
CACHE_ENTRIES_MAX: Final = 65_536  # distinct texts in a big cluster: a few per node and per job shape

NANO: Final = -9
MILLI: Final = -3

_SHAPE: Final = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = {exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}
_POWERS_OF_TEN: Final = tuple(10**power for power in range(20))

# A quantity prints in the family of suffixes in which it was written.
_DECIMAL: Final = "decimal"
_BINARY: Final = "binary"
_SCIENTIFIC: Final = "scientific"


class QuantityError(BadInput):
    """A text that is not a Kubernetes quantity."""


class _Amount(NamedTuple):
    """The exact value `unscaled * 10**scale`, and how to print it."""

    unscaled: int
    scale: int  # never finer than NANO
    family: str
    kept: str  # the text itself where apimachinery prints it back unchanged, else ""


@lru_cache(CACHE_ENTRIES_MAX)
def parse_milli(text: str | float) -> int:
    """The amount in thousandths, rounded away from zero, within int64."""
    amount = _read(text)
    return _saturate(amount, MILLI)


@lru_cache(CACHE_ENTRIES_MAX)
def parse_value(text: str | float) -> int:
    """The amount in whole units, rounded away from zero, within int64."""
    amount = _read(text)
    return _saturate(amount, 0)


def compare(left: str | float, right: str | float) -> int:
    """Negative, zero or positive as left is less than, equal to or greater than right, exactly."""
    a, b = _read(left), _read(right)
    if _sign(a.unscaled) != _sign(b.unscaled) or not a.unscaled:
        return _sign(a.unscaled) - _sign(b.unscaled)
    # Magnitudes first, so that a giant exponent never becomes a giant integer.
    difference = (len(str(abs(a.unscaled))) + a.scale) - (len(str(abs(b.unscaled))) + b.scale)
    if difference:
        return difference * _sign(a.unscaled)
    scale = min(a.scale, b.scale)
    result: int = a.unscaled * 10 ** (a.scale - scale) - b.unscaled * 10 ** (b.scale - scale)
    return result


def canonical(text: str | float) -> str:
    """The quantity as an API server prints it after reading it."""
    amount = _read(text)
    return amount.kept or _text(amount)


def format_milli(value_milli: int) -> str:
    """Thousandths as a decimal quantity: 1500 is "1500m", 2000 is "2"."""
    return _text(_Amount(value_milli, MILLI, _DECIMAL, ""))


def format_bytes(value: int) -> str:
    """Whole units as a binary quantity: 2**30 is "1Gi"; below 1024 it is a decimal one."""
    return _text(_Amount(value, 0, _BINARY, ""))


def _read(text: str | float) -> _Amount:
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise QuantityError(f'quantity {text!r}: neither text nor a number; write for example "500m" or 2')
    if isinstance(text, int) and abs(text) > INT64_MAX**4:
        raise QuantityError("quantity: a bare number far beyond 64 bits; write fewer digits")
    source = text.strip(" \t\r\n\v\f") if isinstance(text, str) else repr(text)
    if len(source) > QUANTITY_CHARS_MAX:
        raise QuantityError(
            f"quantity {source[:20]!r}...: {len(source)} characters, at most {QUANTITY_CHARS_MAX}; write fewer digits"
        )
    match = _SHAPE.fullmatch(source)
    if match is None or not any(digit in "0123456789" for digit in source[: match.start(4)]):
        raise QuantityError(f"quantity {text!r}: not a number with an optional suffix; {_hint(source)}")
    sign, whole, fraction, suffix = match.group(1), match.group(2) or "0", match.group(3) or "", match.group(4)
    digits = int(whole + fraction)
    if sign == "-":
        digits = -digits
    binary = _BINARY_SUFFIXES.get(suffix)
    if binary is not None:
        unscaled, scale = _round_to_nano(digits << binary, -len(fraction))
        if abs(unscaled) > INT64_MAX * 10**-scale:
            unscaled, scale = INT64_MAX * _sign(unscaled), 0
        short = not fraction and len(whole) + binary * 3 // 10 <= 14
        return _Amount(unscaled, scale, _BINARY, source if short and digits % 8 else "")
    family, exponent = _decimal_exponent(suffix, text)
    shift = exponent - len(fraction)
    # apimachinery keeps a short text that looks canonical to it, among them "+5", "1.250" and "1E3".
    looks_canonical = whole[0] != "0" and shift % 3 == 0 and not (whole + fraction).endswith("000")
    short = len(whole) + len(fraction) <= 18 and shift >= NANO
    return _Amount(*_round_to_nano(digits, shift), family, source if short and looks_canonical else "")


def _decimal_exponent(suffix: str, text: str | float) -> tuple[str, int]:
    exponent = _DECIMAL_SUFFIXES.get(suffix)
    if exponent is not None:
        return _DECIMAL, exponent
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise QuantityError(f"quantity {text!r}: unknown suffix {suffix!r}; {_hint(suffix)}")
    exponent = int(match.group(1))
    if abs(exponent) >= 2**31:
        raise QuantityError(f"quantity {text!r}: the exponent needs more than 32 bits; write a smaller one")
    return _SCIENTIFIC, exponent


def _hint(suffix: str) -> str:
    """What to write instead; names both readings of a unit that people mistake."""
    unit = suffix.lstrip("+-.0123456789 ")[:1].upper()
    if unit and unit in "KMGTPE":
        return f"did you mean {'k' if unit == 'K' else unit} (powers of 1000) or {unit}i (powers of 1024)?"
    return 'write for example "500m", "2", "1.5Gi" or "1e3"; suffixes are n u m k M G T P E and Ki Mi Gi Ti Pi Ei'


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _divide_away(number: int, power: int) -> int:
    """`number / 10**power`, rounded away from zero."""
    if power > len(str(abs(number))):
        return _sign(number)
    quotient: int = -(-abs(number) // 10**power)
    return _sign(number) * quotient


def _round_to_nano(unscaled: int, scale: int) -> tuple[int, int]:
    if scale >= NANO:
        return unscaled, scale
    return _divide_away(unscaled, NANO - scale), NANO


def _saturate(amount: _Amount, unit_scale: int) -> int:
    """The amount in units of 10**unit_scale, within int64."""
    shift = amount.scale - unit_scale
    # 10**19 is beyond int64 already, so a greater power changes nothing.
    result = _divide_away(amount.unscaled, -shift) if shift < 0 else amount.unscaled * _POWERS_OF_TEN[min(shift, 19)]
    return max(INT64_MIN, min(INT64_MAX, result))


def _text(amount: _Amount) -> str:
    unscaled, scale, family, _ = amount
    if not unscaled:
        return "0"
    while unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale + 1
    if family == _BINARY:
        # A reading with a binary suffix is capped, so this power is small.
        whole = unscaled * 10**scale if scale >= 0 else None
        if whole is not None and abs(whole) >= 1024:
            exponent = 0
            while whole % 1024 == 0:
                whole, exponent = whole // 1024, exponent + 10
            return f"{whole}{_BINARY_NAMES.get(exponent, '')}"
        family = _DECIMAL
    unscaled, scale = unscaled * 10 ** (scale % 3), scale - scale % 3
    if family == _DECIMAL and scale in _DECIMAL_NAMES:
        return f"{unscaled}{_DECIMAL_NAMES[scale]}"
    return f"{unscaled}e{scale}" if scale else str(unscaled)
