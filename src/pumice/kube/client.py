"""The verbs of an API server, over any Transport.

Objects go in as JSON-like dicts or as bytes, and come out as a Reply: bytes that are decoded only on demand, into
a dict or into one of the api's Structs. What was read as a Struct is never written back, so no field is ever lost.

A call is repeated only where that is safe: a read, a request that never left, or one that the server turned away before
acting and said when to come back (429 or 503 with Retry-After). bind() and evict() are never repeated here: their
callers have more to look at in between. A guarded client asks before every single write, the repeated ones too, whether it may.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pumice.api import decoding
from pumice.api.meta import Json, Struct
from pumice.api.pods import Pod
from pumice.errors import BadInput
from pumice.kube import errors, paging, requests
from pumice.kube.requests import Body, KindLike, PatchType, Propagation
from pumice.kube.transport import Request, Response, Transport

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from pumice.api.kinds import Kind
    from pumice.clock import Clock

RETRIES_MAX = 4
RETRY_S_FIRST = 0.1
RETRY_S_MAX = 5.0
RETRY_AFTER_S_MAX = 10.0  # a server that wants to be left alone for longer is the caller's business

T = TypeVar("T", bound=Struct)

_JSON = {"content-type": "application/json", "accept": "application/json"}
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class Reply:
    """What the server answered, decoded on request only."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def json(self) -> Json:
        try:
            value: Json = msgspec.json.decode(self.raw, type=dict[str, Any])
        except decoding.UNREADABLE as error:
            raise errors.Malformed(f"the server's answer is no JSON object: {error}; is it an API server?") from error
        return value

    def into(self, struct: type[T]) -> T:
        try:
            return decoding.decode(struct, self.raw)
        except BadInput as error:
            raise errors.Malformed(f"the server's answer does not read as {struct.__name__}: {error}") from error


class Client:
    """One API server's verbs. A namespace of "" means all of them, or a kind that has none.

    `warn` is told what the server wants a person to know, whether it did what was asked or not.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        chance: random.Random,
        guard: Callable[[], None] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._chance = chance
        self._guard = guard
        self._warn = warn

    def with_guard(self, guard: Callable[[], None]) -> Client:
        """The same client for a process that may lose the right to write.

        `guard` is called just before a write leaves, each time that it does, and may raise.
        """
        return Client(self._transport, clock=self._clock, chance=self._chance, guard=guard, warn=self._warn)

    async def close(self) -> None:
        await self._transport.close()

    # ------------------------------------------------------------------------------------------------------ reading

    async def get(self, kind: KindLike, name: str, *, namespace: str = "", subresource: str = "") -> Reply:
        return await self._ask("GET", requests.object_path(kind, namespace, name, subresource))

    async def list(
        self,
        struct: type[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        bad: paging.BadObjects = paging.refuse,
    ) -> paging.Listing[T]:
        """All objects of a kind, consistent as of one version, in pages.

        If the server forgets that version between two pages, everything is read again at once. Objects that do not read
        as the Struct are given to `bad`, which may raise (the default) or go on without them.
        """
        query = requests.query(labelSelector=labels, fieldSelector=fields)
        where = requests.collection_path(struct, namespace)
        try:
            return await paging.collect(self._pages(where, query, paging.PAGE_ITEMS), struct, bad)
        except errors.Expired:
            return await paging.collect(self._pages(where, query, 0), struct, bad)

    async def list_json(self, kind: Kind, *, namespace: str = "", labels: str = "", fields: str = "") -> Sequence[Json]:
        """All objects of a kind, whole; for people and tools, not for hot paths."""
        query = requests.query(labelSelector=labels, fieldSelector=fields)
        found: list[Json] = []
        async for page in self._pages(requests.collection_path(kind, namespace), query, paging.PAGE_ITEMS):
            found += ({"apiVersion": kind.api_version, "kind": kind.kind} | item for item in paging.items_of(page))
        return found

    async def _pages(self, where: str, query: Mapping[str, str], limit: int) -> AsyncIterator[bytes]:
        more = ""
        while True:
            reply = await self._ask("GET", where, {**query, **requests.query(limit=limit, **{"continue": more})})
            yield reply.raw
            more = paging.continue_of(reply.raw)
            if not more:
                return

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """An endless answer's chunks, as they come; leaving the block closes it."""
        response = await self.call(request)
        chunks = response.stream or _once(response.body)
        try:
            yield chunks
        finally:
            # Some iterators have nothing to close; those of a transport do.
            if aclose := getattr(chunks, "aclose", None):
                await aclose()

    async def log(
        self, name: str, *, namespace: str, container: str = "", previous: bool = False, tail_lines: int | None = None
    ) -> bytes:
        query = requests.query(container=container, previous=previous, tailLines=tail_lines)
        return (await self._ask("GET", requests.object_path(Pod, namespace, name, "log"), query)).raw

    async def follow_log(
        self, name: str, *, namespace: str, container: str = "", tail_lines: int | None = None
    ) -> AsyncIterator[bytes]:
        """A log from now on or from `tail_lines` lines back, in chunks, until the container ends."""
        query = requests.query(container=container, follow=True, tailLines=tail_lines)
        async with self.stream(Request("GET", requests.object_path(Pod, namespace, name, "log"), query)) as chunks:
            async for chunk in chunks:
                yield chunk

    # ------------------------------------------------------------------------------------------------------ writing

    async def create(
        self,
        kind: KindLike,
        body: Body,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
        strict: bool = False,
    ) -> Reply:
        """Makes an object; with the name of one and a subresource, asks that object to do something.

        Strict: a field that the server does not know is refused, for what a person has written.
        """
        if subresource:
            where = requests.object_path(kind, namespace, name, subresource)
        else:
            where = requests.collection_path(kind, namespace)
        return await self._ask("POST", where, requests.write_query(field_manager, dry_run=dry_run, strict=strict), body)

    async def update(
        self,
        kind: KindLike,
        name: str,
        body: Body,
        *,
        namespace: str = "",
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Reply:
        """Replaces an object; a resourceVersion in its metadata makes that fail with Conflict if another writer was faster."""
        where = requests.object_path(kind, namespace, name, subresource)
        return await self._ask("PUT", where, requests.write_query(field_manager, dry_run=dry_run), body)

    async def patch(
        self,
        kind: KindLike,
        name: str,
        body: Body,
        *,
        how: PatchType = PatchType.MERGE,
        namespace: str = "",
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Reply:
        where = requests.object_path(kind, namespace, name, subresource)
        return await self._ask(
            "PATCH", where, requests.write_query(field_manager, dry_run=dry_run), body, content_type=how.value
        )

    async def apply(
        self,
        kind: KindLike,
        name: str,
        body: Body,
        *,
        field_manager: str,
        namespace: str = "",
        subresource: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Reply:
        """Makes the object have these fields, and owns them; Conflict if another manager owns one, unless forced."""
        query = {**requests.write_query(field_manager, dry_run=dry_run), **requests.query(force=force)}
        where = requests.object_path(kind, namespace, name, subresource)
        return await self._ask("PATCH", where, query, body, content_type="application/apply-patch+yaml")

    async def delete(
        self,
        kind: KindLike,
        name: str,
        *,
        namespace: str = "",
        propagation: Propagation | None = None,
        grace_s: int | None = None,
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> Reply:
        """Deletes an object; with a uid or a version, only if it is still that one (else Conflict)."""
        body = requests.delete_options(
            propagation, grace_s, requests.preconditions(uid, resource_version), dry_run=dry_run
        )
        return await self._ask("DELETE", requests.object_path(kind, namespace, name), body=body)

    async def delete_collection(
        self,
        kind: KindLike,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> Reply:
        query = requests.query(labelSelector=labels, fieldSelector=fields)
        body = requests.delete_options(None, None, {}, dry_run=False)
        return await self._ask("DELETE", requests.collection_path(kind, namespace), query, body)

    async def bind(
        self,
        name: str,
        *,
        namespace: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str] | None = None,
        resource_version: str = "",
    ) -> None:
        """Binds a pod to a node, once; the uid keeps a namesake from being bound, the annotations land on the pod.

        With a version the bind is good only for the pod as it was then: once the pod has changed, a bind that arrives late is
        refused with Conflict, however late.
        """
        metadata: Json = {"name": name, "namespace": namespace, "uid": uid, "annotations": annotations or {}}
        if resource_version:
            metadata["resourceVersion"] = resource_version
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        request = Request(
            "POST", requests.object_path(Pod, namespace, name, "binding"), {}, _JSON, msgspec.json.encode(body)
        )
        await self.call(request, retry=False)

    async def evict(
        self, name: str, *, namespace: str, uid: str = "", grace_s: int | None = None, dry_run: bool = False
    ) -> None:
        """Asks for a pod to be evicted, once; TooManyRequests where a disruption budget forbids it now."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": requests.delete_options(None, grace_s, requests.preconditions(uid, ""), dry_run=dry_run),
        }
        request = Request(
            "POST", requests.object_path(Pod, namespace, name, "eviction"), {}, _JSON, msgspec.json.encode(body)
        )
        await self.call(request, retry=False)

    # ------------------------------------------------------------------------------------------------------ calling

    async def call(self, request: Request, *, retry: bool = True) -> Response:
        """Any request at all, with this client's retries; raises a KubeError where it is refused."""
        if self._guard is not None and request.method != "GET":
            request = msgspec.structs.replace(request, guard=self._guard)
        failures = 0
        while True:
            try:
                if request.guard is not None:
                    request.guard()
                response = await self._transport.call(request)
                if self._warn is not None:
                    for text in _warnings(response.headers):
                        self._warn(text)
                if response.status < 400:
                    return response
                error: errors.KubeError = errors.from_answer(request, response.status, response.headers, response.body)
            except errors.Unreachable as unreachable:
                error = unreachable
            delay = self._delay(request, error, failures)
            if not retry or delay is None:
                raise error
            failures += 1
            await self._clock.sleep(delay)

    async def _ask(
        self,
        method: str,
        where: str,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        *,
        content_type: str = "",
    ) -> Reply:
        headers = {**_JSON, "content-type": content_type} if content_type else _JSON
        response = await self.call(Request(method, where, query or {}, headers, requests.encode(body, where)))
        return Reply(response.body)

    def _delay(self, request: Request, error: errors.KubeError, failures: int) -> float | None:
        """Seconds after which the call may safely be repeated; None if never."""
        if failures >= RETRIES_MAX:
            return None
        if isinstance(error, errors.StatusError) and error.code in {429, 503} and error.retry_after is not None:
            if error.retry_after > RETRY_AFTER_S_MAX:
                return None
            return error.retry_after * (1.0 + 0.1 * self._chance.random())
        is_read = request.method == "GET"
        if isinstance(error, errors.Unreachable):
            may_repeat = is_read or not error.acted
        else:
            may_repeat = is_read and isinstance(error, errors.ServerError | errors.TooManyRequests)
        if not may_repeat:
            return None
        return min(RETRY_S_MAX, RETRY_S_FIRST * 2.0**failures) * (0.5 + self._chance.random())


async def _once(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body


def _warnings(headers: Mapping[str, str]) -> list[str]:
    return [text.replace('\\"', '"') for text in _WARNING.findall(headers.get("warning", ""))]
