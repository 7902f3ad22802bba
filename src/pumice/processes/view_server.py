"""What the leader knows, over HTTP: the read model behind a token and access reviews.

/v1/state                     everything; ?kind=nodes,queues,gangs,claims,attempts,evictions ?queue=Q ?namespace=NS
/v1/gangs/NAMESPACE/NAME      one gang and what it waits for, for those who may `get` that PodGroup
/v1/gangs/NAMESPACE/NAME/suggestions   single changes that would start it, each planned by the engine
/v1/what-if                   which gangs would start or be evicted in a different cluster: ?add-nodes=N&like=NODE ?drain=NODE,NODE
                              ?queue=QUEUE.weight=3 ?without=NAMESPACE/NAME ?policy=TEXT
/v1/changes                   JSON lines: everything, then after each cycle what has changed

A question about one namespace needs the right to list its PodGroups; one about all needs that everywhere, and for nodes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from pumice.processes import lifecycle
from pumice.processes.access import NODES, PODGROUPS, Denied, Reviewer, token_of
from pumice.processes.questions import Questions
from pumice.readmodel import changes
from pumice.readmodel.selection import KINDS, Selection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.kube.client import Client
    from pumice.kube.lease import Election
    from pumice.readmodel import model
    from pumice.readmodel.build import Cycle, Views

ANSWERS_AT_ONCE = 8  # more wait for their turn
STREAMS_MAX = 32
STREAM_S_MAX = 600.0  # then the reader comes again, and is reviewed again
HEARTBEAT_S = 30.0  # an empty line at least so often: readers that are gone are noticed
_JSON = "application/json"


class ViewServer:
    """Publishes cycles and answers about the last one; belongs to one event loop."""

    def __init__(self, views: Views, client: Client, election: Election | None = None) -> None:
        self._views = views
        self._reviewer = Reviewer(client)
        self._election = election
        self._leader = election.identity if election is not None else lifecycle.identity()
        self._published = asyncio.Event()
        self._one_builds = asyncio.Lock()
        self._turns = asyncio.Semaphore(ANSWERS_AT_ONCE)
        self._questions = Questions()
        self._streams = 0
        self._stopping = False

    def publish(self, cycle: Cycle) -> None:
        """A cycle is over: those who follow are woken."""
        self._views.publish(msgspec.structs.replace(cycle, leader=self._leader))
        self._wake()

    def close(self) -> None:
        """End the streams: each would otherwise hold its connection for as long as its reader likes."""
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        former, self._published = self._published, asyncio.Event()
        former.set()

    @property
    def routes(self) -> list[web.RouteDef]:
        answers = {
            "/v1/state": self._state,
            "/v1/gangs/{namespace}/{name}": self._gang,
            "/v1/gangs/{namespace}/{name}/suggestions": self._suggestions,
            "/v1/what-if": self._what_if,
            "/v1/changes": self._changes,
        }
        return [web.get(path, self._with_review(answer)) for path, answer in answers.items()]

    def _with_review(self, answer: Any) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                self._demand_leading()
                user = await self._reviewer.user(token_of(request.headers))
                response: web.StreamResponse = await answer(request, user)
            except Denied as denied:
                return web.json_response({"error": str(denied)}, status=denied.status)
            return response

        return handle

    def _demand_leading(self) -> None:
        if self._election is not None and self._election.stands_by:
            raise Denied(503, f"another process leads: {self._election.holder}; ask it, as the lease says where")

    def _planned(self) -> Cycle:
        """The last cycle. Asked for after the review: who may not ask is told so from the first moment on."""
        if self._views.cycle is None:
            raise Denied(503, "no cycle has been planned yet; ask again in a moment")
        return self._views.cycle

    async def _current(self) -> model.State:
        """Built beside the event loop: for the largest clusters it takes a second."""
        async with self._one_builds:
            state = await asyncio.to_thread(self._views.state)
        assert state is not None
        return state

    async def _state(self, request: web.Request, user: Mapping[str, Any]) -> web.StreamResponse:
        wanted = _selection(request.query)
        await self._demand_lists(user, request.query.get("namespace", ""))
        self._planned()
        async with self._turns:
            body = msgspec.json.encode(wanted.apply(await self._current()))
        return web.Response(body=body, content_type=_JSON)

    async def _demand_lists(self, user: Mapping[str, Any], namespace: str = "") -> None:
        await self._reviewer.demand(user, "list", {**PODGROUPS, "namespace": namespace})
        if not namespace:
            await self._reviewer.demand(user, "list", NODES)

    async def _demand_gang(self, request: web.Request, user: Mapping[str, Any]) -> tuple[str, bool]:
        """The gang that is asked about, by one who may see it, and whether he may see all others, too."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        await self._reviewer.demand(user, "get", {**PODGROUPS, "namespace": namespace, "name": name})
        return f"{namespace}/{name}", await self._reviewer.may(user, "list", PODGROUPS)

    async def _gang(self, request: web.Request, user: Mapping[str, Any]) -> web.StreamResponse:
        key, sees_all = await self._demand_gang(request, user)
        self._planned()
        async with self._turns, self._one_builds:
            found = await asyncio.to_thread(self._views.gang, key)
        if found is None:
            raise Denied(404, f"no gang {key} was seen in the last cycle of this scheduler")
        if not sees_all:
            found = Selection(namespaces=frozenset({found.gang.namespace})).detail(found)
        return web.Response(body=msgspec.json.encode(found), content_type=_JSON)

    async def _suggestions(self, request: web.Request, user: Mapping[str, Any]) -> web.StreamResponse:
        key, sees_all = await self._demand_gang(request, user)
        body = await self._questions.suggestions(self._planned(), key, sees_all=sees_all)
        return web.Response(body=body, content_type=_JSON)

    async def _what_if(self, request: web.Request, user: Mapping[str, Any]) -> web.StreamResponse:
        await self._demand_lists(user)
        body = await self._questions.what_if(self._planned(), request.query)
        return web.Response(body=body, content_type=_JSON)

    async def _changes(self, request: web.Request, user: Mapping[str, Any]) -> web.StreamResponse:
        await self._demand_lists(user)
        self._planned()
        if self._streams >= STREAMS_MAX:
            raise Denied(503, f"{STREAMS_MAX} readers follow already; ask again later, or poll /v1/state")
        response = web.StreamResponse(headers={"content-type": "application/x-ndjson"})
        self._streams += 1
        try:
            await response.prepare(request)
            async with asyncio.timeout(STREAM_S_MAX):
                await self._follow(response)
        except (TimeoutError, ConnectionError):
            pass  # it comes again, or is gone
        finally:
            self._streams -= 1
        return response

    async def _follow(self, response: web.StreamResponse) -> None:
        former = None
        while not self._stopping:
            news = self._published
            state = await self._current()
            line = changes.between(former, state)
            if former is None or not changes.is_empty(line):
                await response.write(msgspec.json.encode(line) + b"\n")
            former = state
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await news.wait()
            except TimeoutError:
                await response.write(b"\n")


def _selection(query: Mapping[str, str]) -> Selection:
    """What of the view is wanted."""
    unknown = sorted(set(query) - {"kind", "queue", "namespace"})
    if unknown:
        raise Denied(400, f"unknown parameter {unknown[0]!r}; there are kind, queue and namespace")
    kinds = frozenset(query["kind"].split(",") if query.get("kind") else KINDS)
    if strange := sorted(kinds - set(KINDS)):
        raise Denied(400, f"kind {strange[0]!r}: there are {', '.join(KINDS)}")
    namespace = query.get("namespace", "")
    namespaces = frozenset({namespace}) if namespace else None
    return Selection(kinds, query.get("queue", ""), namespaces, nodes=not namespace)
