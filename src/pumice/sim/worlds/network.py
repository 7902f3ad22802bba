"""What lies between a process and the API server: a transport on which chance, partitions and the server's end have their way.

A call may be refused before it leaves, answered with 409, 429 or 500, arrive late after its sender has given it up, or take effect while
its answer is lost. A watch may lag, stutter, lose what is on its way, break off, end, fall silent or be told 410, at its start or later. The
order of events within one watch stays as the server sent it, because every API server promises that much, and what is lost is lost with
all that follows it, until the connection is found to be broken; between watches there is no order ("reordered" counts how often a process
heard of something after what had happened later).
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import itertools
from typing import TYPE_CHECKING, NoReturn

import msgspec

from pumice.kube.errors import Unreachable
from pumice.kube.lease import LEASE_S
from pumice.kube.transport import Request, Response, is_stream
from pumice.local.apiserver import watching
from pumice.sim.worlds.loop import is_dead
from pumice.values import Value

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable

    from pumice.local.apiserver.request_parsing import Caller
    from pumice.sim.worlds.apiserver import ApiServer

LATENCY_S = (0.0005, 0.004)
LATE_S_MAX = 25.0  # beyond the lease, so that a dead leader's calls arrive in its successor's time
SLOW_S_MAX = 4.0
GIVE_UP_S_MAX = 8.0
LAG_S_MAX = 3.0
CONNECT_S = 1.0  # what a partitioned client waits for a connection


class Rates(Value):
    """The chance of each fault: of a call, of one chunk of a watch, and how long watches live in seconds (0: as long as the server lets them)."""

    refused: float = 0.0
    conflict: float = 0.0
    throttled: float = 0.0
    error: float = 0.0
    error_acted: float = 0.0
    lost: float = 0.0
    late: float = 0.0
    slow: float = 0.0
    gone: float = 0.0
    lag: float = 0.0
    twice: float = 0.0
    dropped: float = 0.0
    watch_s: float = 0.0


CALM = Rates()
CALL_FAULTS = ("refused", "conflict", "throttled", "error", "error_acted", "lost", "late", "slow", "gone")
WATCH_FAULTS = ("lag", "twice", "dropped", "reordered")
WATCH_ENDS = ("closed", "broken", "silent", "expired")
_STATUS = {
    "forbidden": (403, "Forbidden"),
    "conflict": (409, "Conflict"),
    "gone": (410, "Expired"),
    "throttled": (429, "TooManyRequests"),
    "error": (500, "InternalError"),
    "error_acted": (500, "InternalError"),
}


_NO_ANSWER = frozenset({"refused", "lost", "late", "held"})
_ARRIVES_S = {"late": (0.05, LATE_S_MAX), "held": (LEASE_S + 1.0, LATE_S_MAX)}


class Network:
    """Which faults are in force, and how many of each there were."""

    def __init__(self, server: ApiServer, rates: Rates, note: Callable[[str], None]) -> None:
        self.server = server
        self.rates = rates
        self.is_calm = (
            False  # the faults are over: until then chance is asked with every call, also where it can do nothing
        )
        self.note = note
        self.done: collections.Counter[str] = collections.Counter()
        self.wires: list[Wire] = []
        self.refuses: set[str] = set()  # nodes that nothing may be bound to
        self.held: asyncio.Event | None = None  # binds that leave now arrive late; set once there is one
        self._parked: list[
            tuple[Request, Callable[[], object]]
        ] = []  # they go on where another one is sent to their node, if not before
        self.unheard: list[asyncio.Future[Response]] = []  # answers to calls whose senders have given up to hear them
        self.numbers = itertools.count(1)  # of what leaves the server for a watch
        self.is_over = False  # the world has ended: nobody is answered any more
        self.on_send: Callable[[str, Request], None] = lambda _who, _request: None
        self.on_yes: Callable[[str, Request], None] = lambda _who, _request: None
        server.on_crash = self._server_died

    def _server_died(self) -> None:
        for wire in self.wires:
            wire.server_died()

    def count(self, fault: str, who: str, what: str) -> None:
        self.done[fault] += 1
        self.note(f"{fault} {who} {what}")

    def park(self, request: Request, send: Callable[[], object], seconds: float) -> None:
        """Keeps a bind for so long, or until it does the most harm: until a bind of another pod to the same node is sent."""
        parked = (request, send)
        self._parked.append(parked)
        asyncio.get_running_loop().call_later(seconds, self._send_on, parked, context=contextvars.Context())

    def _send_on(self, parked: tuple[Request, Callable[[], object]]) -> None:
        if parked in self._parked:
            self._parked.remove(parked)
            parked[1]()

    def bind_leaves(self, request: Request) -> None:
        for parked in [each for each in self._parked if each[0].path != request.path]:
            if _target(parked[0]) == _target(request):
                self._send_on(parked)

    async def let_all_arrive(self) -> bool:
        """What calls do that come now is put right by those who still run, and is not left to those who start afresh; whether there were any."""
        under_way = [each for each in self.unheard if not each.done()]
        if under_way:
            await asyncio.wait(under_way)
        return bool(under_way)

    def wires_of(self, who: str) -> list[Wire]:
        return [each for each in self.wires if each.who == who]

    def calm(self) -> None:
        """From now on everything arrives, at once and once."""
        self.rates, self.is_calm = CALM, True
        self.refuses.clear()
        if self.held is not None:
            self.held.set()
        for wire in self.wires:
            wire.calm()


class Line:
    """A Transport of one process."""

    def __init__(self, network: Network, who: str, caller: Caller, chance: random.Random, *, is_shaken: bool) -> None:
        self._network = network
        self._who = who
        self._caller = caller
        self._chance = chance
        self._is_shaken = is_shaken  # machines that are not on trial have a quiet line
        self.is_cut = False
        self.latest = 0  # the highest number of what its watches have brought

    async def call(self, request: Request) -> Response:
        if is_dead() or self._network.is_over:
            await asyncio.Event().wait()
        self._network.on_send(self._who, request)
        if request.path.endswith("/binding"):
            self._network.bind_leaves(request)
        if self.is_cut:
            await asyncio.sleep(CONNECT_S)
            if self.is_cut:
                raise Unreachable("no connection", acted=False)
        fault = self._fault(request)
        if fault in _STATUS:
            return await self._answered_with(fault, request)
        if fault in _NO_ANSWER:
            await self._give_up(fault, request)
        after_s = self._chance.uniform(*((0.1, SLOW_S_MAX) if fault == "slow" else LATENCY_S))
        return await self._received(request, await self._network.server.serve(request, self._caller, after_s))

    async def _received(self, request: Request, response: Response) -> Response:
        if self.is_cut:
            await asyncio.sleep(GIVE_UP_S_MAX)
            raise Unreachable("the connection broke before the answer came")
        if response.stream is None:
            if response.status < 300:
                self._network.on_yes(self._who, request)
            return response
        wire = Wire(self, self._network, request.path, response.stream, self._chance)
        return msgspec.structs.replace(response, stream=wire)

    async def _answered_with(self, fault: str, request: Request) -> Response:
        """A no of the server's, who has done it all the same where it failed late."""
        after_s = self._chance.uniform(*LATENCY_S)
        if fault == "error_acted":
            await self._network.server.serve(request, self._caller, after_s)
        else:
            await asyncio.sleep(after_s)
        is_told_when = fault == "throttled" and self._chance.random() < 0.5
        return _failure(fault, {"retry-after": "1"} if is_told_when else {})

    async def _give_up(self, fault: str, request: Request) -> NoReturn:
        """No answer: it never left, it is done and nobody knows, or it is still on its way."""
        if fault == "refused":
            raise Unreachable("connection refused", acted=False)
        seconds = self._chance.uniform(*_ARRIVES_S.get(fault, LATENCY_S))
        if fault == "held":
            after_s = self._chance.uniform(*LATENCY_S)
            self._network.park(request, lambda: self._arrive(request, after_s), seconds)
        else:
            arriving = self._arrive(request, seconds)
            if fault == "lost":
                await asyncio.wait((arriving,))
        await asyncio.sleep(self._chance.uniform(0.0, GIVE_UP_S_MAX))
        raise Unreachable("the answer was lost, or the call is on its way")

    def _arrive(self, request: Request, after_s: float) -> asyncio.Future[Response]:
        arriving = self._network.server.serve(request, self._caller, after_s)
        arriving.add_done_callback(_unheard)
        self._network.unheard.append(arriving)
        return arriving

    def _fault(self, request: Request) -> str:
        if not self._is_shaken:
            return ""
        if self._network.refuses and request.path.endswith("/binding") and _target(request) in self._network.refuses:
            self._network.count("forbidden", self._who, request.path)
            return "forbidden"
        if self._network.held is not None and request.path.endswith("/binding"):
            self._network.count("held", self._who, request.path)
            self._network.held.set()
            return "held"
        if self._network.is_calm:
            return ""
        roll, rates = self._chance.random(), self._network.rates
        for fault in CALL_FAULTS:
            roll -= getattr(rates, fault)
            if roll < 0:
                break
        else:
            return ""
        is_read = request.method == "GET"
        if is_read and fault in {"conflict", "error_acted", "late"}:
            return ""
        if (fault in {"lost", "gone"}) and is_stream(request) is (fault == "lost"):
            return ""
        self._network.count(fault, self._who, f"{request.method} {request.path}")
        return fault

    @property
    def is_shaken(self) -> bool:
        return self._is_shaken

    @property
    def who(self) -> str:
        return self._who

    async def close(self) -> None:
        """Nothing is held."""


class Wire:
    """One watch on its way: a task brings chunks along, as late as chance wants, and the reader takes them."""

    def __init__(
        self, line: Line, network: Network, path: str, stream: AsyncIterator[bytes], chance: random.Random
    ) -> None:
        self._line = line
        self._network = network
        self.who = line.who
        self._what = f"{line.who} {path}"
        self._stream = stream
        self._chance = chance
        self._chunks: collections.deque[bytes | Unreachable | None] = collections.deque()
        self._news = asyncio.Event()
        self._ending = ""
        loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        if line.is_shaken and network.rates.watch_s:
            ending = chance.choice(WATCH_ENDS)
            self._timer = loop.call_later(chance.expovariate(1.0 / network.rates.watch_s), self._end, ending)
        self._pump = loop.create_task(self._bring())
        network.wires.append(self)

    async def _bring(self) -> None:
        async for chunk in self._stream:
            number = next(self._network.numbers)
            if self._strikes("lag"):
                await asyncio.sleep(self._chance.uniform(0.0, LAG_S_MAX))
            while self._line.is_cut:  # noqa: ASYNC110  polled by the second: a cut has many ends
                await asyncio.sleep(CONNECT_S)
            if not self._ending and self._strikes("dropped"):
                self._break_after(self._chance.uniform(0.0, GIVE_UP_S_MAX))
            if self._ending:
                return
            if number < self._line.latest:
                self._network.done["reordered"] += 1
            self._line.latest = max(number, self._line.latest)
            self._put(chunk)
            if self._strikes("twice"):
                self._put(chunk)
        self._put(None)

    def _strikes(self, fault: str) -> bool:
        rate = getattr(self._network.rates, fault) if self._line.is_shaken else 0.0
        if rate == 0.0 or self._chance.random() >= rate:
            return False
        self._network.done[fault] += 1
        return True

    def _break_after(self, seconds: float) -> None:
        """Nothing arrives any more, and after so long the connection is known to be broken."""
        self._ending = "dropped"
        broken = Unreachable("the connection broke")
        self._timer = asyncio.get_running_loop().call_later(seconds, self._put, broken, context=contextvars.Context())

    def _put(self, chunk: bytes | Unreachable | None) -> None:
        self._chunks.append(chunk)
        self._news.set()

    def _end(self, how: str) -> None:
        if self._ending or self._network.rates.watch_s == 0:
            return
        if how == "expired":
            self.expire(self._chance.uniform(0.0, LAG_S_MAX))
            return
        self._ending = how
        self._network.count(how, "watch", self._what)
        if how == "broken":
            self._put(b'{"type":"MODI')
            self._put(Unreachable("the connection broke"))
        elif how == "closed":
            self._put(None)

    def expire(self, after_s: float) -> None:
        """It is told so after a while: what happens until then, nobody tells it but a new list."""
        if not self._ending:
            self._ending = "expired"
            self._network.count("expired", "watch", self._what)
            self._timer = asyncio.get_running_loop().call_later(after_s, self._expire, context=contextvars.Context())

    def _expire(self) -> None:
        self._put(watching.line("ERROR", watching.too_old(1, 2)))
        self._put(None)

    def server_died(self) -> None:
        self._pump.cancel()
        self._ending = self._ending or "broken"
        self._put(Unreachable("the server died"))

    def calm(self) -> None:
        """A watch that fell silent is found out now; one that is well lives on."""
        if self._timer is not None and not self._ending:
            self._timer.cancel()
        if self._ending == "silent":
            self._put(Unreachable("the connection broke"))

    def __aiter__(self) -> Wire:
        return self

    async def __anext__(self) -> bytes:
        while not self._chunks:
            self._news.clear()
            await self._news.wait()
        chunk = self._chunks.popleft()
        if chunk is None:
            raise StopAsyncIteration
        if isinstance(chunk, Unreachable):
            raise chunk
        return chunk

    async def aclose(self) -> None:
        self._pump.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self in self._network.wires:
            self._network.wires.remove(self)


def _unheard(reply: asyncio.Future[Response]) -> None:
    """Nobody waits for the answer."""
    if not reply.cancelled():
        reply.exception()


def _target(request: Request) -> str:
    return str(msgspec.json.decode(request.body or b"{}")["target"]["name"])


def _failure(fault: str, headers: dict[str, str]) -> Response:
    code, reason = _STATUS[fault]
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": f"a fault of the world: {fault}",
    }
    return Response(code, {"content-type": "application/json", **headers}, msgspec.json.encode(status))
