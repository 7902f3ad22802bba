"""Who looks, and what they may see. The API server is asked about both; nothing is decided here.

People sign in by a token or by a link. By a token: that of a person or an account, for the audience of the view or one that the API server itself takes, typed into a
form or sent by a proxy with each request. By a link: whoever has the one-time link that the process printed looks with the rights of
the kubeconfig that it was started with, for one person on one machine.

What somebody does, they do with the same token, or as the kubeconfig's user: `Person.client` shows no credentials of this process to
the API server on behalf of people who have their own.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import random
import secrets
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.transport import Request
from pumice.processes.access import NODES, PODGROUPS, Denied, Reviewer
from pumice.readmodel.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pumice.api.kinds import Kind
    from pumice.api.meta import Json
    from pumice.clock import Clock
    from pumice.kube.transport import Response, Transport
    from pumice.readmodel import model

REVIEW_S = 30.0  # an answer to "may they?" is believed for so long
OBJECT_S = 2.0  # and an object that was read as them
REVIEWS_KEPT_MAX = 2_000  # of one person
NAMESPACES_REVIEWED_MAX = 500  # for one person and view; gangs of further namespaces are not shown
REVIEWS_AT_ONCE = 16
_SELF = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Person:
    """Somebody who has shown who they are; with `client` the API server is asked as them."""

    def __init__(
        self,
        name: str,
        may: Callable[[str, Mapping[str, str]], Awaitable[bool]],
        clock: Clock,
        client: Client | None = None,
    ) -> None:
        self.name = name
        self.client = client
        self._may = may
        self._clock = clock
        self._known: dict[tuple[str, ...], tuple[float, Any]] = {}
        self._turns = asyncio.Semaphore(REVIEWS_AT_ONCE)
        self._own: tuple[str, ...] = ()  # namespaces that they saw last: theirs also while no gang is there

    async def may(self, verb: str, what: Mapping[str, str]) -> bool:
        key = (verb, *(f"{name}={value}" for name, value in sorted(what.items())))
        return bool(await self._asked(key, functools.partial(self._may, verb, what), REVIEW_S))

    async def can(self, verb: str, what: Mapping[str, str]) -> bool:
        """Whether the API server lets them do so when they ask it themselves: a token that is for looking only does not."""
        if self.client is None:
            return False
        key = ("as themselves", verb, *(f"{name}={value}" for name, value in sorted(what.items())))
        return bool(await self._asked(key, functools.partial(_allowed, self.client, verb, what), REVIEW_S))

    async def recent(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """An object as it was a moment ago, read as them; None where there is none for them, or it cannot be read now."""

        async def read() -> Json | None:
            try:
                return (await self.client.get(kind, name, namespace=namespace)).json() if self.client else None
            except errors.KubeError:
                return None

        found: Json | None = await self._asked(("object", kind.resource, namespace, name), read, OBJECT_S)
        return found

    def forget(self) -> None:
        """What was known is asked anew: they have changed something."""
        self._known.clear()

    async def _asked(self, key: tuple[str, ...], ask: Callable[[], Awaitable[Any]], for_s: float) -> Any:
        """The answer that is known and not too old, or a new one."""
        now = self._clock.monotonic()
        known = self._known.get(key)
        if known is not None and now - known[0] < for_s:
            return known[1]
        async with self._turns:
            answer = await ask()
        if len(self._known) >= REVIEWS_KEPT_MAX:
            self._known.clear()
        self._known[key] = (now, answer)
        return answer

    async def demand(self, verb: str, what: Mapping[str, str]) -> None:
        """Raises Denied unless they may."""
        if not await self.may(verb, what):
            where = f"in namespace {what['namespace']}" if what.get("namespace") else "in all namespaces"
            part = f"{what['resource']}/{what['subresource']}" if what.get("subresource") else what["resource"]
            raise Denied(403, f"{self.name} may not {verb} {part} {where}; ask your administrator for the right")

    async def sees(self, state: model.State) -> Selection:
        """What of a view they may see: gangs of namespaces whose PodGroups they may list, and nodes if they may list those."""
        everything, nodes = await asyncio.gather(self.may("list", PODGROUPS), self.may("list", NODES))
        if everything:
            return Selection(nodes=nodes)
        others = sorted({each.namespace for each in state.gangs}.difference(self._own))
        asked = [*self._own, *others][:NAMESPACES_REVIEWED_MAX]
        answers = await asyncio.gather(*(self.may("list", {**PODGROUPS, "namespace": each}) for each in asked))
        self._own = tuple(name for name, may in zip(asked, answers, strict=True) if may)
        return Selection(namespaces=frozenset(self._own), nodes=nodes)


class Authentication(Protocol):
    """How people sign in: by a token of their own, or by the one-time link."""

    takes_tokens: bool

    async def enter(self, secret: str) -> Person: ...


class TokenAuthentication:
    """Tokens, reviewed by the API server; `bare` carries what people do, and shows nothing but their tokens."""

    takes_tokens = True

    def __init__(self, client: Client, clock: Clock, bare: Transport | None = None) -> None:
        self._reviewer = Reviewer(client)
        self._clock = clock
        self._bare = bare

    async def enter(self, secret: str) -> Person:
        """Whose token it is; raises Denied."""
        try:
            user = await self._reviewer.user(secret)
        except Denied as denied:
            if denied.status != 401:
                raise
            user = await self._reviewer.user(secret, audiences=())

        async def may(verb: str, what: Mapping[str, str]) -> bool:
            return await self._reviewer.may(user, verb, what)

        own = None
        if self._bare is not None:
            chance = random.Random()  # noqa: S311  jitter, not secrets
            own = Client(_WithToken(self._bare, secret), clock=self._clock, chance=chance)
        return Person(str(user.get("username", "")), may, self._clock, own)


class _WithToken:
    """Calls that show somebody's token."""

    def __init__(self, bare: Transport, token: str) -> None:
        self._bare = bare
        self._token = token

    async def call(self, request: Request) -> Response:
        headers = {**request.headers, "authorization": f"Bearer {self._token}"}
        return await self._bare.call(msgspec.structs.replace(request, headers=headers))

    async def close(self) -> None:
        """The line is everybody's, and stays."""


class LinkAuthentication:
    """One-time links: each lets one person in, who then has the rights of this process's own credentials."""

    takes_tokens = False

    def __init__(self, client: Client, clock: Clock, *, name: str, tell: Callable[[str], None]) -> None:
        self._client = client
        self._clock = clock
        self._name = name
        self._tell = tell  # the next link, when one has been used
        self._secret = b""

    def renew(self) -> None:
        """Make a new secret and tell it; the one before opens nothing any more."""
        secret = secrets.token_urlsafe(32)
        self._secret = hashlib.sha256(secret.encode()).digest()
        self._tell(secret)

    async def enter(self, secret: str) -> Person:
        """Raises Denied where it is not the link's secret, or was used."""
        if not hmac.compare_digest(hashlib.sha256(secret.encode()).digest(), self._secret):
            raise Denied(401, "this link was used already, or is of another start; take the newest from the terminal")
        self.renew()
        return Person(self._name, functools.partial(_allowed, self._client), self._clock, self._client)


async def _allowed(client: Client, verb: str, what: Mapping[str, str]) -> bool:
    """The API server's answer to whoever the client asks as; nobody whom it does not know may do anything."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": verb, **what}},
    }
    request = Request("POST", _SELF, {}, {"content-type": "application/json"}, msgspec.json.encode(review))
    try:
        answer: dict[str, Any] = msgspec.json.decode((await client.call(request)).body)
    except errors.Refused:
        return False
    return bool((answer.get("status") or {}).get("allowed"))
