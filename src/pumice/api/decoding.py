"""JSON bytes to Structs: fast for what API servers send, forgiving of what people write.

An API server never sends a null for a list or a map, so the fast path does not look for any. People's manifests have them
(`annotations:` with nothing behind it), and API servers read such a null as absence; so do we, at the second try.
"""

from typing import Any, TypeVar

import msgspec

from pumice.api.meta import Struct
from pumice.errors import BadInput

T = TypeVar("T", bound=Struct)

# What msgspec raises for a text that is not what was asked for: other JSON, none, none in UTF-8, or one that is nested too deeply.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
_DECODERS: dict[type[Struct], msgspec.json.Decoder[Any]] = {}


def decoder(struct: type[T]) -> msgspec.json.Decoder[T]:
    """The one decoder of a Struct; building it costs more than decoding with it."""
    if struct not in _DECODERS:
        _DECODERS[struct] = msgspec.json.Decoder(struct)
    return _DECODERS[struct]


def decode(struct: type[T], text: bytes | msgspec.Raw) -> T:
    """The object in `text` as far as `struct` reads it; unknown fields are skipped, nulls count as absent."""
    try:
        return decoder(struct).decode(text)
    except msgspec.ValidationError:
        return _decode_without_nulls(struct, text)
    except UNREADABLE as error:
        raise _not_json(struct, error) from error


def decode_value(struct: type[T], value: Any) -> T:
    """The same for an object that has been parsed already, such as one document of a YAML file."""
    return decode(struct, msgspec.json.encode(value))


def _decode_without_nulls(struct: type[T], text: bytes | msgspec.Raw) -> T:
    try:
        value = msgspec.json.decode(text)  # the fields that the Struct skips are read here for the first time
    except UNREADABLE as error:
        raise _not_json(struct, error) from error
    clean = msgspec.json.encode({} if value is None else without_nulls(value))
    try:
        return decoder(struct).decode(clean)
    except msgspec.ValidationError as error:
        raise BadInput(f"{struct.__name__}: {error}; correct that field") from error


def _not_json(struct: type[Struct], error: Exception) -> BadInput:
    return BadInput(f"{struct.__name__}: not JSON: {error}; correct the text")


def without_nulls(value: Any) -> Any:
    """The same JSON with every field that is null left out, as an API server reads it."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
