"""Pages of a list, decoded item by item only where the quick way fails.

A whole page is decoded in one go, at 5 us a pod. If one object in it does not read as its Struct, that one is told apart
and reported, and the others are kept: one bad object must not blind a scheduler to all the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar

import msgspec

from pumice.api import decoding
from pumice.api.meta import Object, Struct
from pumice.errors import BadInput
from pumice.kube.errors import Malformed
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGE_ITEMS = 500  # kubectl's own chunk size

T = TypeVar("T", bound=Struct)


class BadObject(Malformed):
    """One object that does not read as its Struct; the others do."""

    def __init__(self, struct: type[Struct], key: str, cause: Exception) -> None:
        super().__init__(f"{struct.__name__} {key!r} cannot be read: {cause}")
        self.struct = struct
        self.key = key


BadObjects: TypeAlias = Callable[[BadObject], None]


def refuse(bad: BadObject) -> NoReturn:
    """For who needs all objects or none."""
    raise bad


class Listing(Value, Generic[T]):
    """All objects of a kind as of one version."""

    items: list[T]
    resource_version: str


class _PageMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Head(msgspec.Struct, frozen=True):
    metadata: _PageMeta = _PageMeta()


class _Page(msgspec.Struct, Generic[T], frozen=True, gc=False):
    metadata: _PageMeta = _PageMeta()
    items: list[T] | None = None


class _RawPage(msgspec.Struct, frozen=True):
    metadata: _PageMeta = _PageMeta()
    items: list[msgspec.Raw] | None = None


class _JsonPage(msgspec.Struct, frozen=True):
    items: list[dict[str, Any]] | None = None


_HEAD = msgspec.json.Decoder(_Head)
_RAW_PAGE = msgspec.json.Decoder(_RawPage)
_JSON_PAGE = msgspec.json.Decoder(_JsonPage)
_PAGES: dict[type[Struct], msgspec.json.Decoder[Any]] = {}


async def collect(pages: AsyncIterator[bytes], struct: type[T], bad: BadObjects) -> Listing[T]:
    """All pages' objects; the version is that of the pages, which are consistent with one another."""
    items: list[T] = []
    version = ""
    async for raw in pages:
        found, version = read_page(struct, raw, bad)
        items += found
    return Listing(items, version)


def read_page(struct: type[T], raw: bytes, bad: BadObjects) -> tuple[list[T], str]:
    """A page's objects and the list's version."""
    page = _PAGES.get(struct)
    if page is None:
        page = _PAGES[struct] = msgspec.json.Decoder(_Page[struct])  # type: ignore[valid-type]
    try:
        decoded = page.decode(raw)
    except msgspec.ValidationError:
        return _read_one_by_one(struct, raw, bad)
    except decoding.UNREADABLE as error:
        raise _no_list(error) from error
    return decoded.items or [], decoded.metadata.resource_version


def continue_of(raw: bytes) -> str:
    """The token that asks for the next page; empty at the last."""
    return _decode(_HEAD, raw).metadata.continue_


def items_of(raw: bytes) -> list[dict[str, Any]]:
    """A page's objects, whole."""
    return _decode(_JSON_PAGE, raw).items or []


def read_object(struct: type[T], raw: msgspec.Raw | bytes, bad: BadObjects) -> T | None:
    """One object, or None after `bad` was told of it."""
    try:
        return decoding.decode(struct, raw)
    except BadInput as error:
        try:
            key = decoding.decode(Object, raw).metadata.key
        except BadInput:
            key = ""
        bad(BadObject(struct, key, error))
        return None


def _read_one_by_one(struct: type[T], raw: bytes, bad: BadObjects) -> tuple[list[T], str]:
    page = _decode(_RAW_PAGE, raw)
    read = (read_object(struct, item, bad) for item in page.items or ())
    return [item for item in read if item is not None], page.metadata.resource_version


D = TypeVar("D")


def _decode(decoder: msgspec.json.Decoder[D], raw: bytes) -> D:
    try:
        return decoder.decode(raw)
    except decoding.UNREADABLE as error:
        raise _no_list(error) from error


def _no_list(error: Exception) -> Malformed:
    return Malformed(f"the server's answer to a list is no list: {error}; is it an API server?")
