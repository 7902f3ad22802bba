"""Words to write structural schemas with: one line a field, description first."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

NAME_CHARS_MAX = 253
LABEL_CHARS_MAX = 63
INT32_MAX = 2**31 - 1
PORT_MAX = 65535

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def _of(kind: str, description: str, **rest: Any) -> Schema:
    """A schema of a type; what is None or empty is left out."""
    schema: Schema = {"description": description} if description else {}
    schema["type"] = kind
    schema.update({key: value for key, value in rest.items() if value is not None and value != []})
    return schema


def text(
    description: str = "",
    *,
    enum: Iterable[str] = (),
    pattern: str | None = None,
    length: tuple[int | None, int | None] = (None, None),
    default: str | None = None,
) -> Schema:
    return _of(
        "string",
        description,
        enum=[str(word) for word in enum],
        pattern=pattern,
        minLength=length[0],
        maxLength=length[1],
        default=None if default is None else str(default),  # YAML knows text, and no enums
    )


def short(description: str, chars_max: int = NAME_CHARS_MAX) -> Schema:
    return text(description, length=(None, chars_max))


def subdomain(description: str, default: str | None = None) -> Schema:
    return text(description, pattern=DNS_SUBDOMAIN, length=(None, NAME_CHARS_MAX), default=default)


def instant(description: str) -> Schema:
    """A time; null counts as none, because Go programs write a zero time so."""
    return _of("string", description, format="date-time", nullable=True)


def duration(description: str) -> Schema:
    return _of("string", description)


def integer(
    description: str = "",
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    default: int | None = None,
    bits: int = 32,
) -> Schema:
    return _of(
        "integer",
        description,
        format=f"int{bits}",
        minimum=minimum,
        maximum=maximum,
        default=default,
    )


def count(description: str = "", *, least: int = 0, most: int = INT32_MAX, default: int | None = None) -> Schema:
    # API servers check the format, too, but forget to say of which field.
    return integer(description, minimum=least, maximum=most, default=default)


def long(description: str = "", *, minimum: int | None = None) -> Schema:
    return integer(description, minimum=minimum, bits=64)


def port(description: str, *, least: int = 1) -> Schema:
    return integer(description, minimum=least, maximum=PORT_MAX)


def flag(description: str = "", *, default: bool | None = None) -> Schema:
    return _of("boolean", description, default=default)


def int_or_text(description: str = "", *, pattern: str | None = None) -> Schema:
    schema: Schema = {"description": description} if description else {}
    schema |= {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    schema |= {"pattern": pattern} if pattern else {}
    return schema | {"x-kubernetes-int-or-string": True}


def quantity(description: str = "") -> Schema:
    return int_or_text(description, pattern=QUANTITY)


def array(
    description: str, items: Schema, *, least: int | None = None, unique: str = "", atomic: bool = False
) -> Schema:
    """A list; `unique` names the fields, with blanks between them, by which items are told apart."""
    schema = _of("array", description, items=items, minItems=least)
    if unique:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": unique.split()}
    elif atomic:
        schema |= {"x-kubernetes-list-type": "atomic"}
    return schema


def texts(description: str = "", *, atomic: bool = False) -> Schema:
    return array(description, text(), atomic=atomic)


def mapping(description: str, values: Schema) -> Schema:
    return _of("object", description, additionalProperties=values)


def words(description: str = "") -> Schema:
    return mapping(description, text())


def resources(description: str) -> Schema:
    return mapping(description, quantity())


def record(
    description: str,
    properties: Mapping[str, Schema],
    *,
    required: Iterable[str] = (),
    rules: Iterable[tuple[str, str]] = (),
    atomic: bool = False,
) -> Schema:
    """An object with known fields; `rules` are CEL expressions with the message of their refusal."""
    schema = _of("object", description, required=list(required), properties=dict(properties))
    missing = set(schema.get("required", ())) - set(properties)
    assert not missing, f"{description}: required but not declared: {missing}"
    validations = [{"rule": rule, "message": message} for rule, message in rules]
    schema |= {"x-kubernetes-validations": validations} if validations else {}
    schema |= {"x-kubernetes-map-type": "atomic"} if atomic else {}
    return schema


def opened(schema: Schema) -> Schema:
    """The same object, which keeps fields that it does not declare."""
    return schema | {"x-kubernetes-preserve-unknown-fields": True}


def anything(description: str) -> Schema:
    """An object that is kept as it is."""
    return opened(_of("object", description))


def label_selector(description: str) -> Schema:
    requirement = record(
        "One condition on a label.",
        {
            "key": text("Key of the label."),
            "operator": text("In, NotIn, Exists or DoesNotExist."),
            "values": texts("Values to compare with; none for Exists and DoesNotExist.", atomic=True),
        },
        required=("key", "operator"),
    )
    return record(
        description,
        {
            "matchLabels": words("Labels that must have exactly these values."),
            "matchExpressions": array("Conditions that must all hold.", requirement, atomic=True),
        },
        atomic=True,
    )


def conditions(description: str, *, unique: bool = False) -> Schema:
    """Conditions as all of Kubernetes writes them."""
    condition = record(
        "One condition.",
        {
            "type": text("Which condition this is.", length=(None, 316)),
            "status": text("Whether it holds.", enum=("True", "False", "Unknown")),
            "reason": text(
                "The cause in one word.", pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", length=(1, 1024)
            ),
            "message": text("The cause in a sentence.", length=(None, 32768)),
            "observedGeneration": long("Generation of the object that the condition speaks of.", minimum=0),
            "lastTransitionTime": _of("string", "When the status last changed.", format="date-time"),
        },
        required=("type", "status", "reason", "message", "lastTransitionTime"),
    )
    return array(description, condition, unique="type" if unique else "")
