"""A query's objects, once or as they change."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec

from pumice.kube import errors, requests, watch
from pumice.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from pumice.api.meta import Json
    from pumice.cli.results import Query
    from pumice.kube.client import Client


AGAIN_S = 1.0  # between watches: a server that ends each at once is not stormed


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[dict[str, object]] = []


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


async def fetch(query: Query, client: Client) -> list[Json]:
    """The one object that is named, or all that the query keeps, by namespace and name."""
    if query.name or query.names:
        wanted = query.names or (query.name,)
        return [(await client.get(query.kind, each, namespace=query.namespace)).json() for each in wanted]
    found = await client.list_json(query.kind, namespace=query.namespace, labels=query.labels)
    return sorted((each for each in found if query.keep(each)), key=_place)


def _place(obj: Json) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


async def follow(query: Query, client: Client) -> AsyncIterator[list[Json]]:
    """All objects first, then those that change, as they change, without an end; one that is gone comes a last time."""
    if query.name:
        await client.get(query.kind, query.name, namespace=query.namespace)  # not there is an error, not silence
    seen: dict[str, str] = {}
    while True:
        found, version = await list_objects(query, client)
        fresh = [each for each in found if seen.get(_uid(each)) != _version(each)]
        seen = {_uid(each): _version(each) for each in found}
        if fresh:
            yield fresh
        try:
            async with contextlib.aclosing(changes(query, client, version)) as events:
                async for kind, each in events:
                    if kind == "DELETED":
                        seen.pop(_uid(each), None)
                    else:
                        seen[_uid(each)] = _version(each)
                    if query.keep(each):
                        yield [each]
        except (errors.Expired, errors.Unreachable):
            pass  # list again: what changed in between is printed then, what did not is not
        await asyncio.sleep(AGAIN_S)


def _uid(obj: Json) -> str:
    return str(obj["metadata"]["uid"])


def _version(obj: Json) -> str:
    return str(obj["metadata"]["resourceVersion"])


def _selection(query: Query) -> dict[str, str]:
    fields = f"metadata.name={query.name}" if query.name else ""
    return requests.query(labelSelector=query.labels, fieldSelector=fields)


async def list_objects(query: Query, client: Client) -> tuple[list[Json], str]:
    """All objects that the query keeps, and the version from which their changes are to be had."""
    where = requests.collection_path(query.kind, query.namespace)
    response = await client.call(Request("GET", where, _selection(query), {"accept": "application/json"}))
    read = msgspec.json.decode(response.body, type=_List)
    return sorted((each for each in read.items if query.keep(each)), key=_place), read.metadata.resource_version


async def changes(query: Query, client: Client, version: str) -> AsyncGenerator[tuple[str, Json], None]:
    """What happens to objects of the query's kind from a version on: ADDED, MODIFIED or DELETED, and the object."""
    where = requests.collection_path(query.kind, query.namespace)
    wanted = {**_selection(query), "watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
    lines = watch.Lines()
    async with client.stream(Request("GET", where, wanted, {"accept": "application/json"})) as chunks:
        async for chunk in chunks:
            for line in lines.feed(chunk):
                event = msgspec.json.decode(line, type=_Event)
                if event.type == "ERROR":
                    status = msgspec.json.decode(event.object, type=errors.Status)
                    raise errors.from_status(status, asked=f"WATCH {where}")
                if event.type != "BOOKMARK":
                    yield event.type, msgspec.json.decode(event.object)
