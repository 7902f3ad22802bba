"""Which objects are meant: label, field and node selectors, compiled once and matched often.

    parse_label_selector("app=web,tier in (a,b),!old")       what people write after -l
    label_selector({"matchLabels": {"app": "web"}})           the object in a manifest; None matches nothing, {} everything
    parse_field_selector("spec.nodeName=n1")                  what people write after --field-selector
    node_selector_of([([("zone", "In", ["a"])], [])])        required node affinity

The functions ending in `_of` take the same things already split into an object's pieces: labels, and expressions as
(key, operator, values). Everything is matched, validated and printed as apimachinery does.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pumice.errors import BadInput
from pumice.values import Value

SELECTOR_CHARS_MAX: Final = 65_536  # longer than any URL that could carry it
LABEL_PART_CHARS_MAX: Final = 63  # Kubernetes' limit for a label's name and value
LABEL_PREFIX_CHARS_MAX: Final = 253  # and for a DNS subdomain
NODE_NAME_FIELD: Final = "metadata.name"

Expression: TypeAlias = tuple[str, str, Sequence[str]]
"""Key, operator and values of one requirement, as in matchExpressions."""

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_WORD: Final = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+)")
_PUNCTUATION: Final = frozenset(("==", "=", "!=", "!", "(", ")", ",", "<", ">", ""))

_SYMBOLS: Final = {"=": "=", "==": "==", "!=": "!=", ">": "Gt", "<": "Lt", "in": "In", "notin": "NotIn"}
_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_LABEL_OPERATORS, "Gt", "Lt")
_FIELD_OPERATORS: Final = ("In", "NotIn")


class SelectorError(BadInput):
    """A selector that cannot be compiled."""


def label_key_problem(key: str) -> str:
    """Why the text cannot be a label's key, or an empty text."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > LABEL_PREFIX_CHARS_MAX or not SUBDOMAIN.fullmatch(prefix)):
        return f"the part before / must be a DNS name in lower case of at most {LABEL_PREFIX_CHARS_MAX} characters"
    if len(name) > LABEL_PART_CHARS_MAX or not _NAME.fullmatch(name):
        return (
            f"a key's name has 1 to {LABEL_PART_CHARS_MAX} letters, digits, '-', '_' or '.', "
            "and starts and ends with a letter or digit"
        )
    return ""


def label_value_problem(value: str) -> str:
    """Why the text cannot be a label's value, or an empty text."""
    if len(value) <= LABEL_PART_CHARS_MAX and (not value or _NAME.fullmatch(value)):
        return ""
    return (
        f"a value is empty or has at most {LABEL_PART_CHARS_MAX} letters, digits, '-', '_' or '.', "
        "and starts and ends with a letter or digit"
    )


class Requirement(Value):
    """One condition on one label. Operators are =, ==, !=, In, NotIn, Exists, DoesNotExist, Gt and Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "In" | "NotIn":
                return f"{self.key} {self.operator.lower()} ({','.join(sorted(self.values))})"
            case "Gt" | "Lt":
                return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{self.values[0]}"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements hold. Without any, everything matches."""

    requirements: tuple[Requirement, ...]
    # (key, values, wanted): the label's value, or None where the label is absent, is one of the values, or is not.
    _tests: tuple[tuple[str, frozenset[str | None], bool], ...] = field(init=False, repr=False, compare=False)
    # (key, factor, bound): the label is an integer, and multiplied with the factor it is greater than the bound.
    _bounds: tuple[tuple[str, int, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tests: list[tuple[str, frozenset[str | None], bool]] = []
        bounds = []
        for requirement in self.requirements:
            key, operator, values = requirement.key, requirement.operator, requirement.values
            if operator in {"Gt", "Lt"}:
                factor = 1 if operator == "Gt" else -1
                bounds.append((key, factor, factor * int(values[0])))
            elif operator in {"Exists", "DoesNotExist"}:
                tests.append((key, frozenset((None,)), operator == "DoesNotExist"))
            else:
                tests.append((key, frozenset(values), operator not in {"NotIn", "!="}))
        object.__setattr__(self, "_tests", tuple(tests))
        object.__setattr__(self, "_bounds", tuple(bounds))

    def matches(self, labels: Mapping[str, str]) -> bool:
        get = labels.get
        for key, values, wanted in self._tests:
            if (get(key) in values) is not wanted:
                return False
        for key, factor, bound in self._bounds:
            number = _int64(get(key, ""))
            if number is None or factor * number <= bound:
                return False
        return True

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = LabelSelector(())
# The meaning of a selector that is absent. Its text cannot be read back: an empty one would mean everything.
NOTHING: Final = LabelSelector((Requirement("<nothing>", "In"),))


def requirement_of(key: str, operator: str, values: Sequence[str]) -> Requirement:
    """A valid requirement, or SelectorError."""
    subject = f"selector requirement on {key!r}"
    if problem := label_key_problem(key):
        raise SelectorError(f"{subject}: {problem}; correct the key")
    match operator:
        case "Exists" | "DoesNotExist":
            fits, need = not values, "takes no values; remove them"
        case "In" | "NotIn":
            fits, need = bool(values), "needs at least one value; add one, or use Exists or DoesNotExist"
        case "=" | "==" | "!=":
            fits, need = len(values) == 1, "needs exactly one value; use In or NotIn for several"
        case "Gt" | "Lt":
            fits = len(values) == 1 and _int64(values[0]) is not None
            need = "needs exactly one value, a 64 bit integer; write for example 8"
        case _:
            raise SelectorError(f"{subject}: unknown operator {operator!r}; use one of {', '.join(_NODE_OPERATORS)}")
    if not fits:
        raise SelectorError(f"{subject}: {operator} {need}")
    for value in values:
        if problem := label_value_problem(value):
            raise SelectorError(f"{subject}: value {value!r}: {problem}; correct the value")
    return Requirement(key, operator, tuple(values))


def label_selector_of(match_labels: Mapping[str, str], match_expressions: Iterable[Expression] = ()) -> LabelSelector:
    """The selector of an object's matchLabels and matchExpressions."""
    requirements = [requirement_of(key, "=", (value,)) for key, value in match_labels.items()]
    requirements += [_requirement(expression, _LABEL_OPERATORS) for expression in match_expressions]
    return _sort(requirements)


def label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """The selector of a manifest's LabelSelector object; NOTHING for None."""
    if selector is None:
        return NOTHING
    match_labels = selector.get("matchLabels") or {}
    if not isinstance(match_labels, Mapping) or not all(isinstance(value, str) for value in match_labels.values()):
        raise SelectorError("label selector: matchLabels must map keys to text; quote numbers and booleans")
    return label_selector_of(match_labels, _expressions(selector, "matchExpressions", "label selector"))


def equality_of(labels: Mapping[str, str]) -> LabelSelector:
    """Every given label is there with its value. Nothing is validated: pods' nodeSelector is read this way."""
    return _sort([Requirement(key, "=", (value,)) for key, value in labels.items()])


def _sort(requirements: list[Requirement]) -> LabelSelector:
    """By key, which is the canonical order."""
    return LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def _requirement(expression: Expression, operators: Sequence[str]) -> Requirement:
    key, operator, values = expression
    if operator not in operators:
        raise SelectorError(
            f"selector requirement on {key!r}: unknown operator {operator!r}; use one of {', '.join(operators)}"
        )
    return requirement_of(key, operator, values)


def _expressions(owner: Mapping[str, Any], name: str, subject: str) -> list[Expression]:
    """The expressions of a JSON object's field, with the types that `Expression` promises."""
    items = owner.get(name) or []
    if not isinstance(items, list | tuple) or not all(isinstance(item, Mapping) for item in items):
        raise SelectorError(f"{subject}: {name} must be a list of objects with key, operator and values")
    result: list[Expression] = []
    for index, item in enumerate(items):
        key, operator, values = item.get("key", ""), item.get("operator", ""), item.get("values") or ()
        if not (isinstance(key, str) and isinstance(operator, str) and isinstance(values, list | tuple)):
            raise SelectorError(f"{subject}: {name}[{index}] needs a key and an operator as text and values as a list")
        if not all(isinstance(value, str) for value in values):
            raise SelectorError(f"{subject}: {name}[{index}].values must be text; quote numbers and booleans")
        result.append((key, operator, values))
    return result


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text) or len(text) > LABEL_PART_CHARS_MAX + 1:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


# ------------------------------------------------------------------------------------------ the text after -l


def parse_label_selector(text: str) -> LabelSelector:
    """The selector that kubectl's -l would send: app=web,tier!=db,zone in (a,b),gpu,!old."""
    if len(text) > SELECTOR_CHARS_MAX:
        raise SelectorError(f"label selector: {len(text)} characters, at most {SELECTOR_CHARS_MAX}; select by less")
    words = [*_WORD.findall(text), ""]  # "" is the end
    if words == [""]:
        return EVERYTHING
    requirements: list[Requirement] = []
    position = -1
    while not requirements or words[position]:
        if requirements and words[position] != ",":
            raise _unexpected(text, words[position], "a comma or the end")
        requirement, position = _parse_requirement(text, words, position + 1)
        requirements.append(requirement)
    return _sort(requirements)


def _parse_requirement(text: str, words: list[str], position: int) -> tuple[Requirement, int]:
    """The requirement at the position, and the position after it."""
    negated = words[position] == "!"
    position += negated
    key = words[position]
    if key in _PUNCTUATION:
        raise _unexpected(text, key, "a label's key")
    symbol = words[position + 1]
    if negated or symbol in {"", ","}:
        return requirement_of(key, "DoesNotExist" if negated else "Exists", ()), position + 1
    operator = _SYMBOLS.get(symbol)
    if operator is None:
        raise _unexpected(text, symbol, "=, ==, !=, in, notin, < or >")
    position += 2
    if operator in {"In", "NotIn"}:
        values, position = _parse_values(text, words, position)
        return requirement_of(key, operator, values), position
    value = words[position]
    if value in {"", ","}:
        return requirement_of(key, operator, ("",)), position
    if value in _PUNCTUATION:
        raise _unexpected(text, value, "a value")
    return requirement_of(key, operator, (value,)), position + 1


def _parse_values(text: str, words: list[str], position: int) -> tuple[list[str], int]:
    """The values in parentheses, and the position after them; nothing beside a comma is the empty value."""
    if words[position] != "(":
        raise _unexpected(text, words[position], "values in parentheses")
    values = [""]
    for index, word in enumerate(words[position + 1 :], position + 1):
        if word == ")":
            return sorted(set(values)), index + 1
        if word == ",":
            values.append("")
        elif word in _PUNCTUATION or values[-1]:
            raise _unexpected(text, word, "a comma or a closing parenthesis")
        else:
            values[-1] = word
    raise AssertionError("the last word is the end, which is punctuation")


def _unexpected(text: str, word: str, expected: str) -> SelectorError:
    found = f"found {word!r}" if word else "it ends"
    return SelectorError(
        f"label selector {text!r}: {found} where {expected} should be; write for example 'app=web,tier in (a,b),!old'"
    )


# --------------------------------------------------------------------------- the text after --field-selector


class FieldSelector(Value):
    """All terms hold; a term is (field, value, wanted). An absent field has the empty value."""

    terms: tuple[tuple[str, str, bool], ...]

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all((fields.get(name, "") == value) is wanted for name, value, wanted in self.terms)

    def __str__(self) -> str:
        return ",".join(f"{name}{'=' if wanted else '!='}{_escape(value)}" for name, value, wanted in self.terms)


_FIELD_TERM: Final = re.compile(r"(?:\\.|[^\\,])*\\?", re.DOTALL)
_FIELD_OPERATOR: Final = re.compile(r"!=|==|=")
_ESCAPED_VALUE: Final = re.compile(r"(?:\\[\\,=]|[^\\,=])*", re.DOTALL)


def parse_field_selector(text: str) -> FieldSelector:
    r"""The selector that kubectl's --field-selector would send; \ , and = in values are escaped with a backslash."""
    if len(text) > SELECTOR_CHARS_MAX:
        raise SelectorError(f"field selector: {len(text)} characters, at most {SELECTOR_CHARS_MAX}; select by less")
    terms = []
    for part in sorted(filter(None, _FIELD_TERM.findall(text))):
        operator = _FIELD_OPERATOR.search(part)
        if operator is None:
            raise SelectorError(
                f"field selector {text!r}: {part!r} compares nothing; write field=value or field!=value"
            )
        name, value = part[: operator.start()], part[operator.end() :]
        if not _ESCAPED_VALUE.fullmatch(value):
            raise SelectorError(
                rf"field selector {text!r}: bad escape in {value!r}; write \\ for \, \, for a comma and \= for ="
            )
        if name or value:
            terms.append((name, re.sub(r"\\(.)", r"\1", value), operator.group() != "!="))
    return FieldSelector(tuple(terms))


def _escape(value: str) -> str:
    return re.sub(r"[\\,=]", r"\\\g<0>", value)


# ------------------------------------------------------------------------------------------------ node affinity


class NodeSelectorTerm(Value):
    """Both the node's labels and its fields match."""

    labels: LabelSelector
    fields: FieldSelector

    def matches(self, labels: Mapping[str, str], *, node_name: str) -> bool:
        if not self.labels.matches(labels):
            return False
        return not self.fields.terms or self.fields.matches({NODE_NAME_FIELD: node_name})


class NodeSelector(Value):
    """Any term matches. As in the default scheduler, a broken term matches nothing and does not spoil the others."""

    terms: tuple[NodeSelectorTerm, ...]
    problems: tuple[str, ...] = ()  # what is wrong with the broken terms

    def matches(self, labels: Mapping[str, str], *, node_name: str) -> bool:
        return any(term.matches(labels, node_name=node_name) for term in self.terms)


def node_selector_term_of(
    match_expressions: Iterable[Expression], match_fields: Iterable[Expression] = ()
) -> NodeSelectorTerm:
    """One term of node affinity. An empty one matches nothing."""
    requirements = [_requirement(expression, _NODE_OPERATORS) for expression in match_expressions]
    fields = []
    for key, operator, values in match_fields:
        if operator not in _FIELD_OPERATORS or len(values) != 1:
            raise SelectorError(
                f"matchFields requirement on {key!r}: {operator} {list(values)!r}; use In or NotIn with exactly one value"
            )
        fields.append((key, values[0], operator == "In"))
    labels = _sort(requirements) if requirements or fields else NOTHING
    return NodeSelectorTerm(labels, FieldSelector(tuple(fields)))


def node_selector_of(terms: Iterable[tuple[Iterable[Expression], Iterable[Expression]]]) -> NodeSelector:
    """The selector of an object's terms, each given as its matchExpressions and matchFields."""
    good, problems = [], []
    for index, term in enumerate(terms):
        try:
            good.append(node_selector_term_of(*term))
        except SelectorError as error:
            problems.append(f"nodeSelectorTerms[{index}]: {error}")
    return NodeSelector(tuple(good), tuple(problems))
