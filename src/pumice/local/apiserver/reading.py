"""get, list and watch."""

from __future__ import annotations

import base64
import binascii
import collections
from typing import TYPE_CHECKING, Any

from pumice.kube.transport import Response
from pumice.local.apiserver import failures, watching
from pumice.local.apiserver.representations import Form, Renderer, negotiate
from pumice.local.apiserver.selection import compile_selection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.history import Entry
    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.tables import TableMaker

PAGE_ITEMS_MAX = 50_000  # a client that asks for everything at once still gets pages of this size
UNFINISHED_LISTS_MAX = 64  # lists of which a client has read the first page only; the oldest is forgotten
WATCH_SECONDS_MAX = 3_600.0


class Reader:
    def __init__(self, backend: Backend, tables: TableMaker) -> None:
        self.backend = backend
        self.tables = tables
        # Where a list was cut: token -> (version, what is left). Pages of one list thus show one moment.
        self._unfinished: collections.OrderedDict[str, tuple[int, list[Entry]]] = collections.OrderedDict()

    def renderer(self, call: Call, form: Form | None = None) -> Renderer:
        chosen = form or negotiate(call.request.headers.get("accept", ""))
        return Renderer(self.backend, call.resource, chosen, self.tables, call.query.get("includeObject", "Metadata"))

    async def get(self, call: Call) -> Response:
        await self.backend.wait_settled()
        entry = self.backend.entry(call.resource, call.namespace, call.name)
        renderer = self.renderer(call)
        return Response(200, {"content-type": renderer.form.content_type}, renderer.one(entry.body))

    async def list_page(self, call: Call) -> Response:
        await self.backend.wait_settled()
        limit = min(self._number(call, "limit", 0) or PAGE_ITEMS_MAX, PAGE_ITEMS_MAX)
        if call.query.get("continue"):
            version, entries = self._next_page(call.query["continue"])
        else:
            version = self.backend.store.version
            self._check_version(call, version)
            entries = self._matching_entries(call)
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if len(entries) > limit:
            rest = entries[limit:]
            metadata["continue"] = self._keep(version, rest)
            if not call.query.get("labelSelector") and not call.query.get("fieldSelector"):
                metadata["remainingItemCount"] = len(rest)
        renderer = self.renderer(call)
        body = renderer.many([entry.body for entry in entries[:limit]], metadata)
        return Response(200, {"content-type": renderer.form.content_type}, body)

    def _matching_entries(self, call: Call) -> list[Entry]:
        matches = self._matches(call)
        return [entry for entry in self.backend.collection(call.resource).entries(call.namespace) if matches(entry)]

    def _matches(self, call: Call) -> Callable[[Entry], bool]:
        fields = self.backend.selectable(call.resource)
        return compile_selection(call.query, namespace=call.namespace, name=call.name, fields=fields)

    def _number(self, call: Call, name: str, fallback: int) -> int:
        text = call.query.get(name, "")
        if not text:
            return fallback
        if not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise failures.bad_request(f"{name}: {text[:32]!r} is not a whole number that is zero or more")
        return int(text)

    def _check_version(self, call: Call, version: int) -> None:
        asked = self._number(call, "resourceVersion", 0)
        if asked > version:
            text = f"Too large resource version: {asked}, current: {version}"
            causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
            raise failures.Failure(504, "Timeout", text, details={"causes": causes, "retryAfterSeconds": 1})
        if call.query.get("resourceVersionMatch") == "Exact" and asked != version:
            raise failures.expired(f"The resourceVersion {asked} for the provided list is too old.")

    def _keep(self, version: int, rest: list[Entry]) -> str:
        text = f"{version}:{len(rest)}:{self.backend.uid()}"
        token = base64.urlsafe_b64encode(text.encode()).decode()
        self._unfinished[token] = (version, rest)
        if len(self._unfinished) > UNFINISHED_LISTS_MAX:
            self._unfinished.popitem(last=False)
        return token

    def _next_page(self, token: str) -> tuple[int, list[Entry]]:
        try:
            base64.urlsafe_b64decode(token)
        except (binascii.Error, ValueError) as error:
            raise failures.bad_request(f"continue key is not valid: {error}") from error
        found = self._unfinished.get(token)
        if found is None:
            raise failures.expired(
                "The provided continue parameter is too old to display a consistent list result. Start the list again without it."
            )
        return found

    async def watch(self, call: Call) -> Response:
        await self.backend.wait_settled()
        collection = self.backend.collection(call.resource)
        asked = call.query.get("resourceVersion", "")
        version = self._number(call, "resourceVersion", 0)
        initial_asked = call.flag("sendInitialEvents")
        from_start = initial_asked or (not version and call.query.get("sendInitialEvents") is None)
        now = self.backend.store.version
        if version > now:
            self._check_version(call, now)
        entries = self._matching_entries(call) if from_start else []
        start = now if from_start or not asked or not version else version
        if collection.history.position_after(start) is None:
            raise failures.expired(f"too old resource version: {start} ({collection.history.floor})")
        renderer = self.renderer(call)
        seconds = min(
            float(self._number(call, "timeoutSeconds", 0)) or watching.WATCH_SECONDS_DEFAULT, WATCH_SECONDS_MAX
        )
        watch = watching.Watch(
            collection=collection,
            matches=self._matches(call),
            render=renderer.for_watch(),
            bookmark=lambda at, end: renderer.bookmark(at, initial_end=end),
            bookmarks=call.flag("allowWatchBookmarks"),
            seconds=seconds,
        )
        announce = initial_asked and call.flag("allowWatchBookmarks")
        stream: AsyncIterator[bytes] = watching.stream(self.backend.store, watch, entries, start, announce=announce)
        content_type = renderer.form.content_type
        return Response(200, {"content-type": content_type}, stream=stream)
