"""Manifests as text: YAML and JSON, with the types that kubectl sees in them.

kubectl turns YAML into JSON with go-yaml v2. So `yes`, `on` and `y` are booleans, `1e3` is 1000, `010` is 8, while
`12:30:45` and `2026-01-31` stay text. libyaml only cuts the text into events; everything else happens here, where it
can be limited and explained. Stricter than kubectl on purpose: a key that occurs twice is an error.

What comes back is plain JSON: dict with text as keys, list, str, int, float, bool, None; nothing is shared.
"""

import json
import math
import re
import struct
from collections import Counter
from decimal import Decimal
from typing import Any, Final

import yaml

from pumice.errors import BadInput

TEXT_BYTES_MAX: Final = 16 * 2**20  # several times the largest bundle of CRDs
NESTING_MAX: Final = 250  # the deepest published CRD schemas need about 60
ALIAS_NODES_MAX: Final = 100_000  # what aliases may add: a "billion laughs" file stops here

_TAGGED: Final = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_INFINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER: Final = re.compile(
    r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|0[bB]([01]+)|(0|[1-9][0-9]*))"
    r"|0b([+-][01]+)"  # go-yaml's own way to read binary numbers takes a sign here
)
_INTEGER_CHARS_MAX: Final = 68  # sign, prefix and 64 binary digits
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_STRAY_UNDERSCORE: Final = re.compile(r"(?<![0-9])_|_(?![0-9])")
_FLOAT32_MAX: Final = 3.4e38
_DATE: Final = re.compile(r"[0-9]{4}-")
_MAYBE_TYPED: Final = frozenset("+-.0123456789yYnNtTfFoO~")  # no other first character makes anything but text


class YamlError(BadInput):
    """A text that is not YAML or JSON, or that breaks a limit."""


def load_all(text: str | bytes, *, source: str) -> list[Any]:
    """All documents of the text that are not empty. `source` names the text in errors, for example its file."""
    text = _decode(text, source)
    if text.lstrip()[:1] == "{":
        documents = _load_json(text, source)
        if documents is not None:
            return documents
    parser = yaml.CSafeLoader(text)
    try:
        return _Builder(parser, source).documents()
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, source) from error
    finally:
        parser.dispose()


def dump(obj: Any) -> str:
    """The JSON-like object as YAML: block style, keys in their order, and text that looks like something else quoted."""
    return yaml.dump(obj, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=-1)


def _decode(text: str | bytes, source: str) -> str:
    try:
        data = text if isinstance(text, bytes) else text.encode()
        if len(data) > TEXT_BYTES_MAX:
            raise YamlError(f"{source}: {len(data)} bytes, at most {TEXT_BYTES_MAX}; split it into several files")
        return data.decode("utf-8-sig")
    except UnicodeError as error:
        raise YamlError(f"{source}: not UTF-8 ({error}); save it as UTF-8") from error


def _syntax_error(error: yaml.YAMLError, text: str, source: str) -> YamlError:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.encode()[: error.position].count(b"\n")
        return YamlError(f"{source}, line {line + 1}: {error.reason}; remove or escape the character")
    assert isinstance(error, yaml.MarkedYAMLError), error
    mark = error.problem_mark or error.context_mark
    assert mark is not None, error
    problem = " ".join(filter(None, (error.context, error.problem)))
    tabbed = any("\t" in line for line in text.splitlines()[mark.line : mark.line + 1])
    step = "indent with spaces, not tabs" if tabbed else "correct the YAML there"
    return YamlError(f"{source}, line {mark.line + 1}: {problem}; {step}")


# ------------------------------------------------------------------------------------------------------- scalars


def _resolve(text: str) -> Any:
    """The value of an unquoted scalar."""
    if text[:1] not in _MAYBE_TYPED and text:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INFINITE.fullmatch(text):
        return float(text.replace(".", ""))
    if _DATE.match(text):
        return text
    if text[0] == "." and _STRAY_UNDERSCORE.search(text):
        return text
    plain = text.replace("_", "")
    integer = _integer(plain) if len(plain) <= _INTEGER_CHARS_MAX else None
    if integer is not None:
        return integer
    number = float(plain) if _FLOAT.fullmatch(plain) else math.inf
    return text if math.isinf(number) else number


def _integer(plain: str) -> int | None:
    match = _INTEGER.fullmatch(plain)
    if match is None:
        return None
    sign, hexadecimal, octal, binary, decimal, signed_binary = match.groups()
    if signed_binary:
        number = int(signed_binary, 2)
    elif hexadecimal:
        number = int(hexadecimal, 16)
    elif octal:
        number = int(octal, 8)
    else:
        number = int(binary, 2) if binary else int(decimal)
    if sign == "-":
        number = -number
    # Without a sign, Go also tries an unsigned reading.
    return number if -(2**63) <= number < (2**63 if sign else 2**64) else None


def _as_json(number: Any) -> Any:
    """A number as it comes back from Go's JSON: 1000.0 is written as 1000, so it is an integer."""
    if isinstance(number, float) and number.is_integer() and -(2.0**63) <= number < 2.0**64:
        return int(Decimal(repr(number)))  # the shortest digits, which Go writes, and not the float's exact ones
    return number


def _float_key(number: float) -> str:
    """A float as a key: its shortest text in 32 bits, in Go's notation."""
    exact = struct.pack("f", number)
    for digits in range(1, 10):
        text = f"{number:.{digits - 1}e}"
        if struct.pack("f", float(text)) == exact:
            break
    exponent = int(text.partition("e")[2])
    return text if exponent < -4 or exponent >= 6 else f"{float(text):.{max(digits - 1 - exponent, 0)}f}"


# ----------------------------------------------------------------------------------------------------- documents


class _Builder:
    """Builds documents from libyaml's events."""

    def __init__(self, parser: yaml.CSafeLoader, source: str) -> None:
        self._next: Any = parser.get_event  # the events' classes differ in their fields
        self._source = source
        self._nodes = 0  # so far, those of aliases included
        self._alias_nodes = 0
        self._anchors: dict[str, tuple[Any, int] | None] = {}  # value and its number of nodes; None while being built

    def documents(self) -> list[Any]:
        result = []
        while (event := self._next()) is not None:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                document = self._node(self._next(), 0)
                if document is not None:
                    result.append(document)
        return result

    def _error(self, event: Any, problem: str) -> YamlError:
        return YamlError(f"{self._source}, line {event.start_mark.line + 1}: {problem}")

    def _node(self, event: Any, depth: int) -> Any:
        if depth > NESTING_MAX:
            raise self._error(event, f"nested deeper than {NESTING_MAX} levels; flatten it")
        self._nodes += 1
        kind = type(event)
        if kind is yaml.AliasEvent:
            return self._alias(event)
        first = self._nodes
        if event.anchor:
            self._anchors[event.anchor] = None
        value: Any
        if kind is yaml.ScalarEvent:
            value = _as_json(self._scalar(event))
            if isinstance(value, float) and not math.isfinite(value):
                raise self._error(event, f"JSON knows no number {event.value!r}; quote it or write another")
        elif kind is yaml.MappingStartEvent:
            value = self._mapping(depth + 1)
        else:
            value = []
            while type(item := self._next()) is not yaml.SequenceEndEvent:
                value.append(self._node(item, depth + 1))
        if event.anchor:
            self._anchors[event.anchor] = value, self._nodes - first + 1
        return value

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise self._error(
                event, f"alias *{event.anchor} has no anchor; write &{event.anchor} before the value meant"
            )
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise self._error(event, f"the value of &{event.anchor} contains itself; write it out")
        value, nodes = anchored
        self._nodes += nodes
        self._alias_nodes += nodes
        if self._alias_nodes > ALIAS_NODES_MAX:
            raise self._error(event, f"aliases add more than {ALIAS_NODES_MAX} values; write the text out")
        return _copy(value)

    def _scalar(self, event: Any) -> Any:
        """The scalar's value; a tag that does not belong to YAML itself means text, as in kubectl."""
        tag, text = event.tag, event.value
        if tag is None:
            return _resolve(text) if event.implicit[0] else text
        kind = tag.removeprefix("tag:yaml.org,2002:")
        if kind == "binary":
            raise self._error(event, "!!binary has no meaning in JSON; write the base64 text without the tag")
        if kind not in _TAGGED:
            return text
        value = _resolve(text)
        if type(value) not in _TAGGED[kind]:
            raise self._error(event, f"{text!r} is no {kind}; correct the value or remove the tag")
        return float(value) if kind == "float" else value

    def _mapping(self, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: set[str] = set()  # keys that came from << and may be given again
        while type(event := self._next()) is not yaml.MappingEndEvent:
            if type(event) is yaml.ScalarEvent and event.value == "<<" and event.implicit[0]:
                additions = self._merge(depth)
                result.update(additions)
                merged.update(additions)
                continue
            key = self._key(event, depth)
            if key in result and key not in merged:
                raise self._error(event, f"key {key!r} occurs twice in one object; remove one of them")
            merged.discard(key)
            result[key] = self._node(self._next(), depth)
        return result

    def _key(self, event: Any, depth: int) -> str:
        """The text that JSON has for the key: numbers and booleans become text."""
        if type(event) is yaml.ScalarEvent:
            self._nodes += 1
            key = self._scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = key, 1
        else:
            key = self._node(event, depth)
        if isinstance(key, str):
            return key
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, int) and key < 2**63:
            return str(key)
        if isinstance(key, float) and abs(key) < _FLOAT32_MAX:
            return _float_key(key)
        raise self._error(event, f"a key of type {type(key).__name__}, but JSON keys are text; quote it")

    def _merge(self, depth: int) -> dict[str, Any]:
        """What << adds: a mapping, or several of which the first wins."""
        event = self._next()
        value = self._node(event, depth)
        sources = value if isinstance(value, list) else [value]
        result: dict[str, Any] = {}
        for source in reversed(sources):
            if not isinstance(source, dict):
                raise self._error(event, "<< takes an object or a list of objects; correct its value")
            result.update(source)
        return result


def _copy(value: Any) -> Any:
    """An alias gets a value of its own, so that a change of one place leaves the other as it is."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


# ---------------------------------------------------------------------------------------------------------- JSON


def _load_json(text: str, source: str) -> list[Any] | None:
    """The objects of a JSON stream, with or without space between them; None where the text may still be YAML."""
    documents: list[Any] = []
    position = _after_space(text, 0)
    while position < len(text):
        try:
            document, end = _JSON.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            # YAML's reader knows the lines of the first object, and what follows after ---.
            if not documents or text[position] != "{":
                return None
            line = text.count("\n", 0, position) + 1
            raise YamlError(f"{source}, JSON object of line {line}: {error}; correct the JSON there") from error
        documents.append(document)
        position = _after_space(text, end)
    if _nesting(documents) > NESTING_MAX:
        raise YamlError(f"{source}: nested deeper than {NESTING_MAX} levels; flatten it")
    return documents


def _after_space(text: str, position: int) -> int:
    while text[position : position + 1] in {" ", "\t", "\r", "\n"}:
        position += 1
    return position


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"key {twice!r} occurs twice in one object")
    return result


def _json_float(text: str) -> Any:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"number {text} is too large")
    return _as_json(number)


def _json_integer(text: str) -> Any:
    """One that no 64 bits hold is a float, as YAML's reader and Go's JSON have it."""
    digits = len(text) - text.startswith("-")
    number = int(text) if digits <= len(str(2**64)) else None
    return number if number is not None and -(2**63) <= number < 2**64 else _json_float(text)


def _no_constant(text: str) -> float:
    raise ValueError(f"JSON knows no number {text}")


_JSON: Final = json.JSONDecoder(
    object_pairs_hook=_json_object, parse_float=_json_float, parse_int=_json_integer, parse_constant=_no_constant
)


def _nesting(documents: list[Any]) -> int:
    """How deep the deepest document is, without recursion."""
    level, depth = documents, -1
    while level:
        depth += 1
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
    return depth


# ------------------------------------------------------------------------------------------------------- writing


class _Dumper(yaml.CSafeDumper):
    """Quotes what kubectl would read as something else than text, and never writes aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the answer is the same for all
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    plain = "|" if "\n" in text else ""  # the emitter takes a safer style where these would lose something
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style=plain if isinstance(_resolve(text), str) else "'"
    )


_Dumper.add_representer(str, _represent_text)
