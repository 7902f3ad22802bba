"""The leading scheduler or the leading controllers, asked with a kubeconfig alone: the lease says where it is, a token of its own kind says who asks.

A leader in a pod is asked through the API server, which keeps the user's own credentials to itself; so a token for the audience
of the read model is asked for first, which is good for nothing else, and travels in a header of its own. A leader that is no
pod, as in tests and `pumice up`, is asked directly, and only on this machine.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from pumice.api import names
from pumice.errors import NotFound, PumiceError, Refused
from pumice.kube.connection import Connection
from pumice.kube.credentials import Access
from pumice.kube.direct import DirectTransport
from pumice.kube.errors import StatusError
from pumice.kube.transport import Request
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from pumice.cli.cluster_command import ClusterAccess

LEADERS_MAX = 3  # leases that name a leader; more are no accident
LINE_BYTES_MAX = 128 * 2**20  # the whole view of the largest cluster is a line
TOKEN_S = 600  # the shortest that an API server gives
TOKEN_USED_S = 480.0  # then another one is asked for
_JSON = {"content-type": "application/json"}
_NO_SENSE = frozenset({400, 404})
_LEASES = "/apis/coordination.k8s.io/v1/leases"


class Role(NamedTuple):
    """Whose leader: the usual name of its lease, the variable that names another one, and the label's value."""

    lease: str
    variable: str
    word: str

    @property
    def name(self) -> str:
        return os.environ.get(self.variable) or self.lease


SCHEDULER = Role(names.SCHEDULER_LEASE, "PUMICE_LEASE", names.VIEW_OF_SCHEDULER)
CONTROLLERS = Role(names.CONTROLLERS_LEASE, "PUMICE_CONTROLLERS_LEASE", names.VIEW_OF_CONTROLLERS)

Question = tuple[str, Mapping[str, str]]  # path and query


class Unanswered(PumiceError):
    """No leader said anything; the text says why."""


class Forbidden(Unanswered):
    """A leader knows who asks, and that they may not."""


class Rejected(Unanswered):
    """A leader says that the question makes no sense, in its own words; no other one would say anything else."""


class Leader:
    """A leader, asked as often as one likes: where it is, and the token for it, are found once."""

    def __init__(self, access: ClusterAccess, role: Role = SCHEDULER) -> None:
        self._access = access
        self._role = role
        self._found: tuple[str, str, float] | None = None  # address, token, when

    async def ask(self, question: Question, *otherwise: Question) -> bytes:
        """What a leader answers to GET; where it forbids the first question, to the next. Raises Unanswered where none does."""
        questions, clock = (question, *otherwise), self._access.clock
        if self._found is not None and clock.monotonic() - self._found[2] < TOKEN_USED_S:
            try:
                return await self._answer(*self._found[:2], questions)
            except Rejected:
                raise
            except PumiceError:
                pass  # it leads no more, or its token is too old
        causes = []
        for lease in await _leases(self._access, self._role):
            address = lease["metadata"]["annotations"][names.VIEW_ADDRESS]
            try:
                token = await _token(self._access, lease["metadata"]["namespace"])
                answer = await self._answer(address, token, questions)
            except Rejected:
                raise
            except (PumiceError, msgspec.MsgspecError) as error:
                causes.append(f"{address}: {error}")
            else:
                self._found = (address, token, clock.monotonic())
                return answer
        raise Unanswered("; ".join(causes) or _nobody(self._role))

    async def lines(self, question: Question) -> AsyncGenerator[bytes, None]:
        """The lines of an answer that goes on, until the leader ends it. Raises Unanswered where none begins or it breaks off."""
        causes = []
        for lease in await _leases(self._access, self._role):
            address, begun = lease["metadata"]["annotations"][names.VIEW_ADDRESS], False
            try:
                token = await _token(self._access, lease["metadata"]["namespace"])
                async with contextlib.aclosing(_lines(self._access, address, question, token)) as lines:
                    async for line in lines:
                        begun = True
                        yield line
            except (PumiceError, msgspec.MsgspecError) as error:
                causes.append(f"{address}: {error}")
                if begun:
                    break
            else:
                return
        raise Unanswered("; ".join(causes) or _nobody(self._role))

    async def _answer(self, address: str, token: str, questions: Sequence[Question]) -> bytes:
        for question in questions[:-1]:
            with contextlib.suppress(Forbidden):
                return await _through(self._access, address, question, token)
        return await _through(self._access, address, questions[-1], token)


def _nobody(role: Role) -> str:
    return (
        f"no lease {role.name} tells of {'leading controllers' if role is CONTROLLERS else 'a leading scheduler'}; one of another name is found with "
        f"{role.variable}=NAME in the environment"
    )


async def _leases(access: ClusterAccess, role: Role) -> list[dict[str, Any]]:
    """Leases that say where a leader is, the one that was renewed last first: by name, else by the label that they have."""
    try:
        found = await _leases_with(access, {"fieldSelector": f"metadata.name={role.name}"})
        if not found and role.variable not in os.environ:
            with contextlib.suppress(Refused):  # users may be allowed to look at the one lease only
                found = await _leases_with(access, {"labelSelector": f"{names.VIEW_LABEL}={role.word}"})
    except PumiceError as error:
        raise Unanswered(f"the lease of the leading {role.word} cannot be read: {error}") from error
    found.sort(key=lambda each: (each.get("spec") or {}).get("renewTime") or "", reverse=True)
    return found[:LEADERS_MAX]


async def _leases_with(access: ClusterAccess, query: dict[str, str]) -> list[dict[str, Any]]:
    answer = await access.client.call(Request("GET", _LEASES, query))
    items = msgspec.json.decode(answer.body).get("items") or ()
    return [each for each in items if names.VIEW_ADDRESS in (each["metadata"].get("annotations") or {})]


async def _token(access: ClusterAccess, namespace: str) -> str:
    """A token of the viewer's account, that of the user's namespace if there is one, else that beside the scheduler."""
    spec = {"audiences": [names.VIEW_AUDIENCE], "expirationSeconds": TOKEN_S}
    body = msgspec.json.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
    for place in dict.fromkeys((access.namespace, namespace)):
        where = f"/api/v1/namespaces/{place}/serviceaccounts/{names.VIEWER_ACCOUNT}/token"
        with contextlib.suppress(*((NotFound, Refused) if place != namespace else ())):
            answer = await access.client.call(Request("POST", where, {}, _JSON, body))
            return str(msgspec.json.decode(answer.body)["status"]["token"])
    raise Unanswered(f"no account {names.VIEWER_ACCOUNT} gives a token")


async def _lines(access: ClusterAccess, address: str, question: Question, token: str) -> AsyncGenerator[bytes, None]:
    from pumice.kube.client import Client
    from pumice.kube.http import HttpTransport

    path, query = question
    async with contextlib.AsyncExitStack() as stack:
        if address.startswith("pods/"):
            client, path = access.client, _proxied(address, path)
        else:
            connection = _direct(address, token)
            transport = await stack.enter_async_context(HttpTransport(connection, user_agent="pumice-cli"))
            client = Client(transport, clock=access.clock, chance=random.Random())  # noqa: S311  jitter, not secrets
        request = Request("GET", path, query, {names.VIEW_HEADER: token})
        chunks = await stack.enter_async_context(client.stream(request))
        rest = b""
        async for chunk in chunks:
            *whole, rest = (rest + chunk).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                raise Unanswered(f"it sends a line of more than {LINE_BYTES_MAX} bytes")
            for line in whole:
                yield line


def _proxied(address: str, path: str) -> str:
    """The path through the API server to the pod that leads."""
    _, namespace, pod = address.split("/", 2)
    return f"/api/v1/namespaces/{namespace}/pods/{pod}/proxy{path}"


def _direct(address: str, token: str) -> Connection:
    """To a leader that is no pod."""
    if not _is_here(urlsplit(address).hostname or ""):
        raise Unanswered("it is not on this machine, and no pod")
    return Connection(server=address, credentials=_Token(f"Bearer {token}"), origin="the leader's lease")


async def _through(access: ClusterAccess, address: str, question: Question, token: str) -> bytes:
    path, query = question
    if address.startswith("pods/"):
        request = Request("GET", _proxied(address, path), query, {names.VIEW_HEADER: token})
        try:
            return (await access.client.call(request, retry=False)).body
        except Refused as error:
            raise Forbidden(str(error)) from error
        except StatusError as error:
            if error.code in _NO_SENSE and not error.reason:  # the API server's own answers have one
                raise Rejected(error.message) from error
            raise
    async with DirectTransport(_direct(address, token), user_agent="pumice-cli") as transport:
        response = await transport.call(Request("GET", path, query))
    if response.status != 200:
        kind = Forbidden if response.status == 403 else Rejected if response.status in _NO_SENSE else Unanswered
        raise kind(next(_error(response.body), f"status {response.status}"))
    return response.body


def _error(body: bytes) -> Iterator[str]:
    with contextlib.suppress(msgspec.MsgspecError):
        yield msgspec.json.decode(body, type=dict[str, str]).get("error", "")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Token(Value):
    """The token for the leader, and nothing of what the user shows the API server."""

    authorization: str

    async def access(self) -> Access:
        return Access(self.authorization)

    def rejected(self, _: Access) -> bool:
        return False
