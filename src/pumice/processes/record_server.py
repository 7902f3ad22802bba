"""The record over HTTP, behind the same token and access reviews as the scheduler's view.

/v1/history                     finished gangs; ?namespace ?user ?queue ?state ?name ?since ?until ?limit (times in seconds since 1970)
/v1/history/NAMESPACE/NAME      the last gang of that name with its attempts, evictions and pods
/v1/report                      who used what; ?by=team|user|queue|namespace ?since ?until ?namespace ?step=day|hour
/v1/logs/NAMESPACE/NAME         the last lines of an attempt; ?attempt=N

A question about one namespace needs the right to list its PodGroups, one about all needs that everywhere; lines need the right to
get the logs of pods there.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from aiohttp import web

from pumice.errors import BadInput, PumiceError
from pumice.processes.access import LOGS, PODGROUPS, Denied, Reviewer, token_of
from pumice.record import model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.clock import Clock
    from pumice.kube.client import Client
    from pumice.kube.lease import Election
    from pumice.record.store import Store
    from pumice.record.writer import Writer

READERS = 2  # questions that are answered side by side; more wait for their turn
QUESTIONS_MAX = 32  # that wait
_JSON = "application/json"
T = TypeVar("T")


class RecordServer:
    """Answers from the record of the leading controllers; belongs to one event loop."""

    def __init__(
        self,
        writer: Writer,
        client: Client,
        clock: Clock,
        *,
        prices: Mapping[str, float],
        election: Election | None = None,
    ) -> None:
        self._writer = writer
        self._reviewer = Reviewer(client)
        self._clock = clock
        self._prices = dict(prices)
        self._election = election
        self._threads = ThreadPoolExecutor(READERS, "record-read")
        self._asked = 0

    @property
    def routes(self) -> list[web.RouteDef]:
        answers = {
            "/v1/history": self._history,
            "/v1/history/{namespace}/{name}": self._gang,
            "/v1/report": self._report,
            "/v1/logs/{namespace}/{name}": self._logs,
            "/v1/forecasts": self._forecasts,
        }
        return [web.get(path, self._with_review(answer)) for path, answer in answers.items()]

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _with_review(self, answer: Any) -> Any:
        async def handle(request: web.Request) -> web.Response:
            try:
                store = self._store()
                user = await self._reviewer.user(token_of(request.headers))
                found = await answer(request, user, store)
            except Denied as denied:
                return web.json_response({"error": str(denied)}, status=denied.status)
            except BadInput as error:
                return web.json_response({"error": str(error)}, status=400)
            except PumiceError as error:
                return web.json_response({"error": str(error)}, status=503)
            return web.Response(body=msgspec.json.encode(found), content_type=_JSON)

        return handle

    def _store(self) -> Store:
        if self._election is not None and self._election.stands_by:
            raise Denied(503, f"another process leads: {self._election.holder}; ask it, as the lease says where")
        if self._writer.store is None:
            raise Denied(
                503,
                "the record is not open: it is being opened, or its database is away or cannot be used; ask again in a moment, "
                "or read the controllers' log",
            )
        return self._writer.store

    async def _read(self, work: Callable[[], T], *, sums: bool = False) -> T:
        """In a thread of its own: a question to a large record takes a while. What has just been heard is part of the answer."""
        if self._asked >= QUESTIONS_MAX:
            raise Denied(503, f"{QUESTIONS_MAX} questions wait already; ask again later")
        self._asked += 1
        try:
            await self._writer.catch_up(sums=sums)
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._asked -= 1

    async def _demand(self, user: Mapping[str, Any], namespace: str) -> None:
        await self._reviewer.demand(user, "list", {**PODGROUPS, "namespace": namespace})

    async def _history(self, request: web.Request, user: Mapping[str, Any], store: Store) -> Any:
        from pumice.record import answers

        wanted = model.filter_of(_checked(request.query, model.FILTERS))
        await self._demand(user, wanted.namespace)
        return await self._read(lambda: answers.history(store, wanted, self._prices))

    async def _gang(self, request: web.Request, user: Mapping[str, Any], store: Store) -> Any:
        from pumice.record import answers

        namespace, name = request.match_info["namespace"], request.match_info["name"]
        await self._reviewer.demand(user, "get", {**PODGROUPS, "namespace": namespace, "name": name})
        sees_all = await self._reviewer.may(user, "list", PODGROUPS)
        found = await self._read(lambda: answers.gang(store, namespace, name, self._prices, sees_all=sees_all))
        if found is None:
            raise Denied(404, f"the record has no gang {namespace}/{name}")
        return found

    async def _report(self, request: web.Request, user: Mapping[str, Any], store: Store) -> Any:
        from pumice.record import answers

        wanted = model.period_of(_checked(request.query, model.PERIOD))
        await self._demand(user, wanted.namespace)
        now = self._clock.now() // 1_000_000_000
        return await self._read(lambda: answers.report(store, wanted, self._prices, now), sums=True)

    async def _forecasts(self, request: web.Request, user: Mapping[str, Any], store: Store) -> Any:
        from pumice.record import answers

        query = _checked(request.query, ("namespace", "since"))
        await self._demand(user, query.get("namespace", ""))
        since = model.number(query, "since") or 0
        return await self._read(lambda: answers.forecasts(store, query.get("namespace", ""), since))

    async def _logs(self, request: web.Request, user: Mapping[str, Any], store: Store) -> Any:
        from pumice.record import answers

        namespace, name = request.match_info["namespace"], request.match_info["name"]
        await self._reviewer.demand(user, "get", {**LOGS, "namespace": namespace})
        attempt = model.number(_checked(request.query, ("attempt",)), "attempt")
        found = await self._read(lambda: answers.logs(store, namespace, name, attempt))
        if found is None:
            raise Denied(404, f"the record has no gang {namespace}/{name}")
        return found


def _checked(query: Mapping[str, str], known: tuple[str, ...]) -> Mapping[str, str]:
    unknown = sorted(set(query) - set(known))
    if unknown:
        raise Denied(400, f"unknown parameter {unknown[0]!r}; there are {', '.join(known)}")
    return query
