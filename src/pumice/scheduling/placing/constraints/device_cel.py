"""CEL selectors of devices: `device.attributes["gpu.example.com"].model == "A100"`.

Kubernetes' two types beside CEL's own are maps here: a quantity {"quantity": its value in its lowest terms}, a version {"version": ...};
equal ones are equal maps, and the functions below know them. An expression that cannot be evaluated for a device does not select it.
"""

from __future__ import annotations

import contextlib
import functools
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pumice import cel, quantity
from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pumice.api.resource import Device, DeviceAttribute

EXPRESSION_CHARS_MAX = 10 * 1024  # Kubernetes' own limit
EXPRESSION_CHARS_SHOWN = 200  # of one that cannot be used
EXPRESSIONS_KEPT_MAX = 4_096

# One domain's attributes or capacities, by a name that is written out: `device.attributes["domain"].name`, or ["name"].
_FIELD = re.compile(
    r"""\bdevice\.(attributes|capacity)\[\s*["']([^"']+)["']\s*\](?:\.(\w+)|\[\s*["']([^"']+)["']\s*\])"""
)
_DOMAIN = re.compile(r"""\bdevice\.(attributes|capacity)\[\s*["']([^"']+)["']\s*\]""")
_MEMBERSHIP = re.compile(r"\bin\s+device\.(attributes|capacity)\b")
_DRIVER = re.compile(r"\bdevice\.driver\b")
_DEVICE = re.compile(r"\bdevice\b")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


class Selector:
    """One compiled expression, and the answers that it has given: devices that it cannot tell apart are asked about once."""

    def __init__(self, expression: str) -> None:
        # A domain that a device lacks is an empty map to `[...]`, and not there to `in`.
        self._domains = set(_DOMAIN.findall(expression))
        text = _MEMBERSHIP.sub(r"in device.\1_there", expression)
        try:
            self._program = cel.compile_in(_environment(), text, chars_max=EXPRESSION_CHARS_MAX)
        except cel.CelError as error:
            raise cel.CelError(f"device selector {expression[:EXPRESSION_CHARS_SHOWN]!r}: {error}") from error
        self._fields = _fields_read(expression)
        self._answers: dict[Any, bool] = {}

    def selects(self, driver: str, device: Device) -> bool:
        key = self._key(driver, device)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._evaluate(driver, device)
        return answer

    def _key(self, driver: str, device: Device) -> Any:
        if self._fields is None:
            return (driver, tuple(device.attributes.items()), tuple(device.capacity.items()))
        found: list[Any] = [driver]
        for kind, domain, name in self._fields:
            own: Mapping[str, Any] = device.attributes if kind == "attributes" else device.capacity
            value = own.get(f"{domain}/{name}")
            found.append(own.get(name) if value is None and domain == driver else value)
        return tuple(found)

    def _evaluate(self, driver: str, device: Device) -> bool:
        attributes = by_domain(driver, {name: plain(each) for name, each in device.attributes.items()})
        capacity = by_domain(driver, dict(_amounts(device)))
        known = {
            "driver": driver,
            "attributes_there": dict(attributes),
            "capacity_there": dict(capacity),
            "attributes": attributes,
            "capacity": capacity,
        }
        for kind, domain in self._domains:
            known[kind].setdefault(domain, {})  # type: ignore[attr-defined]  # these two are maps
        try:
            return cel.run(self._program, {"device": known}) is True
        except cel.CelError:
            return False


@functools.lru_cache(EXPRESSIONS_KEPT_MAX)
def compile_selector(expression: str) -> Selector:
    """The selector, or CelError."""
    return Selector(expression)


def _fields_read(expression: str) -> list[tuple[str, str, str]] | None:
    """The attributes and capacities that the expression looks at; None where that cannot be told from its text."""
    found = _FIELD.findall(expression)
    rest = _DRIVER.sub("", _FIELD.sub("", expression))
    if _DEVICE.search(rest):
        return None
    return [(kind, domain, dotted or quoted) for kind, domain, dotted, quoted in found]


def _amounts(device: Device) -> Iterator[tuple[str, dict[str, str]]]:
    for name, each in device.capacity.items():
        # Whoever wrote what cannot be read must not cost others their devices: it is as if it were absent.
        with contextlib.suppress(quantity.QuantityError):
            yield name, amount(each.value)


def by_domain(driver: str, values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """`domain/name` split in two; a bare name belongs to the driver's own domain."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        domain, slash, local = name.partition("/")
        found.setdefault(domain if slash else driver, {})[local if slash else domain] = value
    return found


def plain(attribute: DeviceAttribute) -> Any:
    if attribute.version is not None:
        return {"version": attribute.version}
    return next((value for value in (attribute.truth, attribute.number, attribute.string) if value is not None), None)


def amount(text: str | float) -> dict[str, str]:
    """A quantity as CEL sees it, exact to the thousandth."""
    return _quantity(Fraction(quantity.parse_milli(text), 1000))


def _quantity(value: Fraction) -> dict[str, str]:
    return {"quantity": str(value)}


def _value(thing: Mapping[str, Any]) -> Any:
    """What is compared: a number, or a version's parts in the order of precedence."""
    if "quantity" in thing:
        return Fraction(str(thing["quantity"]))
    matched = _VERSION.fullmatch(str(thing["version"]))
    if matched is None:
        raise ValueError(f"{thing['version']} is not a semantic version")
    major, minor, patch, pre = matched.groups()
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in pre.split(".")] if pre else []
    return int(major), int(minor), int(patch), not parts, parts


def _compare(left: Mapping[str, Any], right: Mapping[str, Any]) -> int:
    one, other = _value(left), _value(right)
    return int(one > other) - int(one < other)


def _semver(text: str) -> dict[str, str]:
    version = {"version": text}
    _value(version)
    return version


def _whole(thing: Mapping[str, Any]) -> int:
    value = _value(thing)
    if not isinstance(value, Fraction) or value.denominator != 1:
        raise ValueError("not an integer")
    return int(value)


def _is(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        try:
            read(text)
        except (ValueError, BadInput):
            return False
        return True

    return test


@functools.cache
def _environment() -> Any:
    return cel.environment(("device",), functions=_functions(cel.engine()), bindings=True)


def _functions(engine: Any) -> list[Any]:
    """Kubernetes' functions of quantities and versions."""
    kinds = engine.Type
    of_text = ((kinds.STRING,), False)
    of_one = ((kinds.MAP,), True)
    of_two = ((kinds.MAP, kinds.MAP), True)
    table = (
        ("quantity", kinds.MAP, of_text, amount),
        ("isQuantity", kinds.BOOL, of_text, _is(amount)),
        ("semver", kinds.MAP, of_text, _semver),
        ("isSemver", kinds.BOOL, of_text, _is(_semver)),
        ("compareTo", kinds.INT, of_two, _compare),
        ("isGreaterThan", kinds.BOOL, of_two, lambda left, right: _compare(left, right) > 0),
        ("isLessThan", kinds.BOOL, of_two, lambda left, right: _compare(left, right) < 0),
        ("add", kinds.MAP, of_two, lambda left, right: _quantity(_value(left) + _value(right))),
        ("sub", kinds.MAP, of_two, lambda left, right: _quantity(_value(left) - _value(right))),
        ("sign", kinds.INT, of_one, lambda one: (_value(one) > 0) - (_value(one) < 0)),
        ("isInteger", kinds.BOOL, of_one, lambda one: _value(one).denominator == 1),
        ("asInteger", kinds.INT, of_one, _whole),
        ("asApproximateFloat", kinds.DOUBLE, of_one, lambda one: float(_value(one))),
        ("major", kinds.INT, of_one, lambda one: _value(one)[0]),
        ("minor", kinds.INT, of_one, lambda one: _value(one)[1]),
        ("patch", kinds.INT, of_one, lambda one: _value(one)[2]),
    )
    return [
        engine.FunctionDecl(name, [engine.Overload(f"{name}_kubernetes", result, list(parameters), is_member, call)])
        for name, result, (parameters, is_member), call in table
    ]
