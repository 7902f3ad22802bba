"""The leading scheduler's own answer: what it knows of a gang at this moment, not when it last wrote it down."""

from __future__ import annotations

import dataclasses
import ipaddress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
import msgspec

from pumice.errors import BadInput
from pumice.kube.connection import Connection
from pumice.kube.credentials import Access
from pumice.kube.errors import KubeError
from pumice.kube.one_shot import BriefTransport
from pumice.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.cli.cluster_command import Reach


async def ask(reach: Reach, url: str, gang: str) -> Mapping[str, Any] | None:
    """The verdict of this moment; None, and a word on stderr, where the scheduler does not give one."""
    address = urlsplit(url)
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise BadInput(f"--scheduler {url!r}: expected an address such as http://127.0.0.1:8080")
    if address.scheme == "http" and not _is_here(address.hostname):
        raise BadInput(
            f"--scheduler {url}: your token would travel there for all to read; use `kubectl port-forward` and 127.0.0.1"
        )
    try:
        return await _answer(reach, url, gang)
    except (KubeError, msgspec.MsgspecError) as error:
        click.echo(
            f"pumice: {url} was asked and did not say why {gang} waits: {error}; the verdict in the PodGroup is shown",
            err=True,
        )
        return None


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _answer(reach: Reach, url: str, gang: str) -> Mapping[str, Any]:
    access = await reach.connection.credentials.access()
    connection = Connection(server=url, credentials=_Token(access.authorization), origin="--scheduler")
    async with BriefTransport(connection, user_agent="pumice-explain") as transport:
        response = await transport.call(Request("GET", f"/explain/{gang}"))
    answer: dict[str, Any] = msgspec.json.decode(response.body, type=dict[str, Any])
    if response.status != 200:
        raise KubeError(str(answer.get("error") or f"status {response.status}"))
    return answer


@dataclasses.dataclass(frozen=True, slots=True)
class _Token:
    """The user's token and nothing else of what he shows the API server."""

    authorization: str

    async def access(self) -> Access:
        return Access(self.authorization)

    def rejected(self, _: Access) -> bool:
        return False
