"""Pages that are kept up to date: each open one has a stream, which brings those of its parts that look different."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from pumice.dashboard import guard, rendering
from pumice.errors import PumiceError
from pumice.processes.access import Denied

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pumice.clock import Clock
    from pumice.dashboard.pages.page import Page
    from pumice.dashboard.sessions import Session, Sessions
    from pumice.dashboard.source import Source

    Target = tuple[Page, Mapping[str, str], Mapping[str, str]]  # with what its path names, and its query
    Values = Callable[[Page, Session, Mapping[str, str], Mapping[str, str]], Awaitable[dict[str, Any]]]

STREAMS_MAX = 200
STREAMS_OF_ONE_MAX = 50  # of one session: a page each
STREAM_S_MAX = 600.0  # then the browser comes again
HEARTBEAT_S = 15.0
GONE_S = 1.0  # a reader that has closed its connection is noticed within this time
PATCH_S = 0.2  # between two patches of one page, at least
LOOKS_KEPT_MAX = 200  # rendered parts, shared by all who see the same
_LEAVE = {401: b"sign in", 403: b"look again", 404: b"look again"}  # the page itself then says what is not possible


class Streams:
    """All of them; what pages in `shared` show depends on what somebody may see alone, so it is rendered once for many."""

    def __init__(
        self, source: Source, sessions: Sessions, clock: Clock, values: Values, shared: frozenset[str]
    ) -> None:
        self._source = source
        self._sessions = sessions
        self._clock = clock
        self._values = values
        self._shared = shared
        self._looks: dict[tuple[Any, ...], asyncio.Task[dict[str, str]]] = {}
        self._open: set[asyncio.Task[Any]] = set()

    def stop(self) -> None:
        for each in list(self._open):
            each.cancel()

    async def serve(self, request: web.Request, session: Session, target: Target) -> web.StreamResponse:
        if len(self._open) >= STREAMS_MAX or session.streams >= STREAMS_OF_ONE_MAX:
            raise Denied(503, "too many pages are open; this one is not kept up to date")
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-store"})
        response.headers.update(guard.HEADERS)
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        session.streams += 1
        try:
            async with asyncio.timeout(STREAM_S_MAX):
                await self._follow(request, response, session, target)
        except (TimeoutError, ConnectionError):
            pass  # it comes again, or is gone
        finally:
            session.streams -= 1
            self._open.discard(task)
        return response

    async def _follow(
        self,
        request: web.Request,
        response: web.StreamResponse,
        session: Session,
        target: Target,
    ) -> None:
        """Sends what looks different than before, until the reader goes or is signed out."""
        known: dict[str, bytes] = {}
        is_current = request.query.get("seen", "") == str(self._source.version)
        while True:
            version = self._source.version
            try:
                found = await self._parts(*target, session)
            except Denied as denied:
                found = {}
                if denied.status in _LEAVE:
                    await response.write(b"event: leave\ndata: " + _LEAVE[denied.status] + b"\n\n")
                    return
            except PumiceError:
                found = {}  # the page says how old it is
            fresh = {name: rendering.digest(html) for name, html in found.items()}
            changed = {name: found[name] for name, own in fresh.items() if known.get(name) != own}
            known = fresh or known
            if changed and not is_current:
                body = msgspec.json.encode({"seen": version, "parts": changed})
                await response.write(b"event: patch\ndata: " + body + b"\n\n")
            is_current = False
            await self._clock.sleep(PATCH_S)
            if not await _wait(self._source, request, response, version):
                return

    async def _parts(
        self, page: Page, names: Mapping[str, str], query: Mapping[str, str], session: Session
    ) -> dict[str, str]:
        """Rendered once for all who see the same at the same time; raises Denied once a session is over."""
        await self._sessions.review(session)
        state = self._source.state
        sees = await session.person.sees(state) if state is not None else None
        who = session.csrf if page.path not in self._shared else sees
        key = (self._source.version, page.path, tuple(sorted(names.items())), tuple(sorted(query.items())), who)
        task = self._looks.get(key)
        if task is None:
            if len(self._looks) >= LOOKS_KEPT_MAX:
                self._looks.clear()
            for old in [each for each in self._looks if each[0] != self._source.version]:
                del self._looks[old]
            task = self._looks[key] = asyncio.create_task(self._render(page, session, names, query))
        return await asyncio.shield(task)

    async def _render(
        self, page: Page, session: Session, names: Mapping[str, str], query: Mapping[str, str]
    ) -> dict[str, str]:
        values = await self._values(page, session, names, query)
        return rendering.parts(page.template, {"problem": self._source.problem, **values})


async def _wait(source: Source, request: web.Request, response: web.StreamResponse, version: int) -> bool:
    """Until there is something newer; False where the reader has gone."""
    silent_s = 0.0
    while not await source.newer_than(version, within_s=GONE_S):
        if request.transport is None or request.transport.is_closing():
            return False
        silent_s += GONE_S
        if silent_s >= HEARTBEAT_S:
            await response.write(b": still here\n\n")
            silent_s = 0.0
    return request.transport is not None
