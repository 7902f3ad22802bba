"""Who may read logs on a node's port: whoever the API server says may, and nobody else."""

import datetime as dt
import ssl

import aiohttp
import pytest
from tests.bodies.world import world

from pumice import certificates
from pumice.api.core import ServiceAccount
from pumice.clock import RealClock
from pumice.errors import BadInput, NotFound
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.serving import EmbeddedServer, Place
from pumice.local.nodes.serving import LogServer

PATH = "/containerLogs/default/p/main"


class Source:
    """A pod p whose container main said something."""

    def open_log(self, namespace, pod, container, query):
        if pod != "p":
            raise NotFound(f'pod "{pod}" does not exist')
        if container != "main":
            raise BadInput("waiting to start: ContainerCreating")
        return self._chunks(query)

    async def _chunks(self, query):
        yield b"said "
        yield repr(sorted(query.items())).encode()


@pytest.fixture
async def served(tmp_path):
    async with EmbeddedServer(Place(tmp_path / "server")) as server:
        yield server


@pytest.fixture
async def port(served, tmp_path):
    authority = (tmp_path / "server" / "ca.crt").read_bytes()
    async with world(LocalTransport(served.server), RealClock(), "default") as place:
        server = LogServer(
            Source(), place.client, node="n1", address="127.0.0.1", folder=tmp_path / "tls", authority=authority
        )
        async with server:
            yield server.port


def context(tmp_path, *, authority=None, user="", groups=()):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    if user:
        now = dt.datetime.now(dt.UTC)
        certificates.client_pair(authority, user, groups, now=now).write(tmp_path / "u.crt", tmp_path / "u.key")
        made.load_cert_chain(tmp_path / "u.crt", tmp_path / "u.key")
    return made


@pytest.fixture
def authority(served, tmp_path):
    folder = tmp_path / "server"
    return certificates.Pair((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes())


async def ask(port, context, path=PATH, **headers):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}{path}", ssl=context, headers=headers) as answer,
    ):
        return answer.status, await answer.text()


async def test_who_proves_nothing_is_not_answered(port, tmp_path):
    assert await ask(port, context(tmp_path)) == (401, "Unauthorized")
    assert (await ask(port, context(tmp_path), Authorization="Bearer made-up"))[0] == 401


async def test_a_certificate_of_the_authority_is_not_enough_without_the_right(port, tmp_path, authority):
    status, text = await ask(port, context(tmp_path, authority=authority, user="alice"))
    assert (status, text) == (403, "alice may not get nodes/proxy of n1")


async def test_a_token_tells_who_asks(port, tmp_path, served):
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    async with world(LocalTransport(served.server), RealClock(), "default") as place:
        made = await place.client.create(
            ServiceAccount, asked, namespace="default", name="default", subresource="token"
        )
    token = made.json()["status"]["token"]
    status, text = await ask(port, context(tmp_path), Authorization=f"Bearer {token}")
    assert (status, text) == (403, "system:serviceaccount:default:default may not get nodes/proxy of n1")


async def test_who_may_is_answered_with_what_was_asked_for(port, tmp_path, authority):
    admin = context(tmp_path, authority=authority, user="root", groups=["system:masters"])
    assert await ask(port, admin, f"{PATH}?tailLines=3") == (200, "said [('tailLines', '3')]")
    assert await ask(port, admin, "/containerLogs/default/other/main") == (404, 'pod "other" does not exist')
    assert await ask(port, admin, "/containerLogs/default/p/init") == (400, "waiting to start: ContainerCreating")
    assert (await ask(port, admin, "/pods"))[0] == 404


async def test_a_certificate_of_a_strange_authority_is_refused(port, tmp_path):
    stranger = certificates.authority("stranger", now=dt.datetime.now(dt.UTC))
    admin = context(tmp_path, authority=stranger, user="root", groups=["system:masters"])
    with pytest.raises(aiohttp.ClientError):
        await ask(port, admin)


async def test_health_needs_no_proof(port, tmp_path):
    assert await ask(port, context(tmp_path), "/healthz") == (200, "ok")
