"""May a subject `use` or `update` a queue? The API server knows; what it said is remembered for a moment."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pumice.kube import errors
from pumice.kube.transport import Request

if TYPE_CHECKING:
    from pumice.clock import Clock
    from pumice.kube.client import Client
    from pumice.webhooks.submitters import Subject

USE: Final = "use"
ADMINISTER: Final = "update"
GROUP: Final = "scheduling.volcano.sh"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REVIEW_S_MAX: Final = 2.0  # within the time that an API server waits for us
ALLOWED_S: Final = 10.0  # how long a yes is believed: so late a withdrawn right may still be used
DENIED_S: Final = 1.0  # and a no: a right that was just granted should work
ANSWERS_MAX: Final = 10_000


class QueueAccess:
    """Asks SubjectAccessReviews; the same question twice in a moment is asked once."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._answers: dict[bytes, tuple[bool, float]] = {}  # by digest: users and groups may be as long as a body
        self._asking: dict[tuple[Subject, str, str], asyncio.Task[bool]] = {}
        self.asked = 0

    async def may(self, subject: Subject, verb: str, queue: str) -> bool:
        """The API server's answer, at most ALLOWED_S old; a KubeError where it cannot be had."""
        question = (subject, verb, queue)
        answer, until = self._answers.get(_digest(*question), (False, float("-inf")))
        if self._clock.monotonic() < until:
            return answer
        task = self._asking.get(question)
        if task is None:
            task = self._asking[question] = asyncio.create_task(self._ask(*question))
            task.add_done_callback(lambda _: self._asking.pop(question, None))
        return await asyncio.shield(task)  # others may wait for the same answer

    async def _ask(self, subject: Subject, verb: str, queue: str) -> bool:
        self.asked += 1
        attributes = {"verb": verb, "group": GROUP, "version": "*", "resource": "queues", "name": queue}
        spec: dict[str, Any] = {"user": subject.user, "groups": list(subject.groups), "resourceAttributes": attributes}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        request = Request("POST", REVIEWS, {}, {"content-type": "application/json"}, msgspec.json.encode(body))
        try:
            async with asyncio.timeout(REVIEW_S_MAX):
                reply = await self._client.call(request, retry=False)
        except TimeoutError as error:
            text = f"the API server did not say within {REVIEW_S_MAX:.0f} s who may {verb} queue {queue!r}; try again"
            raise errors.Unreachable(text) from error
        allowed = bool((msgspec.json.decode(reply.body).get("status") or {}).get("allowed"))
        self._remember(_digest(subject, verb, queue), allowed=allowed)
        return allowed

    def _remember(self, question: bytes, *, allowed: bool) -> None:
        self._answers.pop(question, None)
        while len(self._answers) >= ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]
        until = self._clock.monotonic() + (ALLOWED_S if allowed else DENIED_S)
        self._answers[question] = (allowed, until)


def _digest(subject: Subject, verb: str, queue: str) -> bytes:
    """What stands for a question, and for no other one, in the memory for answers."""
    return hashlib.sha256(msgspec.json.encode([subject.user, subject.groups, verb, queue])).digest()
