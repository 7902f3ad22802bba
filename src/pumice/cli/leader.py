"""The leading scheduler or the leading controllers, asked with a kubeconfig alone: the lease says where it is, a token of its own kind says who asks.

A leader in a pod is asked through the API server, which keeps the user's own credentials to itself; so a token for the audience
of the read model is asked for first, which is good for nothing else, and travels in a header of its own. A leader that is no
pod, as in tests and `pumice up`, is asked directly, and only on this machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from pumice.api import names
from pumice.api.meta import NOTHING
from pumice.errors import NotFound, PumiceError, Refused
from pumice.kube.connection import Connection
from pumice.kube.credentials import Access
from pumice.kube.one_shot import BriefTransport
from pumice.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pumice.cli.cluster_command import ClusterAccess

LEADERS_MAX = 3  # leases of that name in different namespaces; more are no accident
TOKEN_S = 600  # the shortest that an API server gives
_JSON = {"content-type": "application/json"}


class Unanswered(PumiceError):
    """No leader said anything; the text says why."""


async def ask(
    access: ClusterAccess, path: str, *, query: Mapping[str, str] = NOTHING, lease_name: str = names.SCHEDULER_LEASE
) -> bytes:
    """What a leader answers to GET `path`; raises Unanswered where none does."""
    causes = []
    for lease in await _leases(access, lease_name):
        address = lease["metadata"]["annotations"][names.VIEW_ADDRESS]
        try:
            token = await _token(access, lease["metadata"]["namespace"])
            return await _through(access, address, Request("GET", path, query), token)
        except (PumiceError, msgspec.MsgspecError) as error:
            causes.append(f"{address}: {error}")
    raise Unanswered("; ".join(causes) or f"no lease {lease_name} tells of a leading {_word(lease_name)}")


async def _leases(access: ClusterAccess, name: str) -> list[dict[str, Any]]:
    """Leases that say where a leader is, the one that was renewed last first."""
    query = {"fieldSelector": f"metadata.name={name}"}
    try:
        answer = await access.client.call(Request("GET", "/apis/coordination.k8s.io/v1/leases", query))
    except PumiceError as error:
        raise Unanswered(f"the lease of the leading {_word(name)} cannot be read: {error}") from error
    items = msgspec.json.decode(answer.body).get("items") or ()
    found = [each for each in items if names.VIEW_ADDRESS in (each["metadata"].get("annotations") or {})]
    found.sort(key=lambda each: (each.get("spec") or {}).get("renewTime") or "", reverse=True)
    return found[:LEADERS_MAX]


def _word(lease_name: str) -> str:
    return lease_name.removeprefix("pumice-")


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


async def _through(access: ClusterAccess, address: str, asked: Request, token: str) -> bytes:
    if address.startswith("pods/"):
        _, namespace, pod = address.split("/", 2)
        where = f"/api/v1/namespaces/{namespace}/pods/{pod}/proxy{asked.path}"
        request = Request("GET", where, asked.query, {names.VIEW_HEADER: token})
        return (await access.client.call(request, retry=False)).body
    host = urlsplit(address).hostname or ""
    if not _is_here(host):
        raise Unanswered("it is not on this machine, and no pod")
    connection = Connection(server=address, credentials=_Token(f"Bearer {token}"), origin="the leader's lease")
    async with BriefTransport(connection, user_agent="pumice-cli") as transport:
        response = await transport.call(asked)
    if response.status != 200:
        raise Unanswered(next(_error(response.body), f"status {response.status}"))
    return response.body


def _error(body: bytes) -> Iterator[str]:
    with contextlib.suppress(msgspec.MsgspecError):
        yield msgspec.json.decode(body, type=dict[str, str]).get("error", "")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclasses.dataclass(frozen=True, slots=True)
class _Token:
    """The token for the leader, and nothing of what the user shows the API server."""

    authorization: str

    async def access(self) -> Access:
        return Access(self.authorization)

    def rejected(self, _: Access) -> bool:
        return False
