"""Probes pods over the network for as long as a flow waits for them, and wakes the flow when an answer changes."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from typing import TYPE_CHECKING, TypeAlias

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from pumice.controllers.jobflow.probes import Question
    from pumice.kube.informer import Key

ASK_S = 1.0  # pause between two rounds
ANSWER_S_MAX = 2.0  # who has not answered by then has not answered
ASKED_AT_ONCE = 32
QUESTIONS_MAX = 4_096  # of all flows; what is beyond waits until others are answered
BUFFER_BYTES_MAX = 2**14  # of an answer; only its first line counts
_GOOD = range(200, 400)

Ask: TypeAlias = "Callable[[Question], Awaitable[bool]]"


class Prober:
    """Keeps the last answer to every open question; belongs to one event loop."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._wanted: dict[Key, tuple[Question, ...]] = {}
        self._answers: dict[Question, bool] = {}
        self._news = asyncio.Event()

    @property
    def answers(self) -> Mapping[Question, bool]:
        return self._answers

    def want(self, key: Key, questions: Iterable[Question]) -> None:
        """From now on these are the questions of this flow; none end the asking."""
        wanted = tuple(questions)
        if wanted:
            self._wanted[key] = wanted
            self._news.set()
        else:
            self._wanted.pop(key, None)

    async def run(self, wake: Callable[[Key], None]) -> None:
        """Asks until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._wanted:
                await self._round(wake)
                self._news.set()
                await asyncio.sleep(ASK_S)

    async def _round(self, wake: Callable[[Key], None]) -> None:
        wanted = dict(self._wanted)
        every = list(dict.fromkeys(question for questions in wanted.values() for question in questions))
        unasked = [question for question in every if question not in self._answers]
        asked = [*unasked, *(question for question in every if question in self._answers)][:QUESTIONS_MAX]
        window = asyncio.Semaphore(ASKED_AT_ONCE)

        async def one(question: Question) -> bool:
            async with window:
                return await self._ask(question)

        found = dict(zip(asked, await asyncio.gather(*map(one, asked)), strict=True))
        changed = {question for question, answer in found.items() if answer != self._answers.get(question)}
        self._answers = {question: found.get(question, self._answers.get(question, False)) for question in every}
        for key, questions in wanted.items():
            if not changed.isdisjoint(questions):
                wake(key)


class Network:
    """Asks over the network. Redirects are not followed, and of an answer only its first line is read."""

    def __init__(self, answer_s_max: float = ANSWER_S_MAX) -> None:
        self._answer_s_max = answer_s_max

    async def __call__(self, question: Question) -> bool:
        try:
            ipaddress.ip_address(question.address)  # a pod's address, never a name to be looked up
            async with asyncio.timeout(self._answer_s_max):
                return await (_get(question) if question.path else _connect(question))
        except (TimeoutError, OSError, ValueError, aiohttp.ClientError):
            return False  # no listener there, or none that speaks HTTP


async def _connect(question: Question) -> bool:
    _, writer = await asyncio.open_connection(question.address, question.port)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


async def _get(question: Question) -> bool:
    host = f"[{question.address}]" if ":" in question.address else question.address
    url = f"http://{host}:{question.port}{question.path}"
    headers = dict([question.header]) if question.header is not None else {}
    async with (
        aiohttp.ClientSession(read_bufsize=BUFFER_BYTES_MAX) as session,
        session.get(url, headers=headers, allow_redirects=False) as response,
    ):
        good = response.status in _GOOD
        response.close()  # whatever it would say
        return good
