"""The server on a socket: TLS, certificates, tokens, limits, streams."""

import asyncio
import contextlib
import io
import json
import ssl

import aiohttp
import msgspec
import pytest
from tests.bodies.patience import PATIENCE_S
from tests.integration.apiserver.conftest import session, trusting

from pumice.kube.transport import BODY_BYTES_MAX
from pumice.local.apiserver import http
from pumice.local.apiserver.http import Address, Listener
from pumice.local.apiserver.serving import EmbeddedServer, Place

MAPS = "/api/v1/namespaces/default/configmaps"
JSON = {"content-type": "application/json"}


def a_map(name):
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})


@pytest.fixture
async def admin(embedded, tmp_path):
    async with session(tmp_path / "server") as opened:
        yield opened


@pytest.fixture
async def nobody(embedded, tmp_path):
    async with session(tmp_path / "server", client=False) as opened:
        yield opened


async def test_a_certificate_of_the_authority_names_the_caller(embedded, admin):
    async with admin.post(
        f"{embedded.url}/apis/authentication.k8s.io/v1/selfsubjectreviews",
        data=json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
        headers=JSON,
    ) as answer:
        user = (await answer.json())["status"]["userInfo"]
    assert user == {"username": "pumice-admin", "groups": ["system:masters", "system:authenticated"]}


async def test_without_credentials_there_is_health_and_nothing_else(embedded, nobody):
    async with nobody.get(f"{embedded.url}/readyz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok")
    async with nobody.get(f"{embedded.url}{MAPS}") as answer:
        assert answer.status == 403
        assert 'User "system:anonymous" cannot list' in (await answer.json())["message"]


async def test_a_wrong_token_is_refused_and_a_right_one_is_not(embedded, admin, nobody):
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"{embedded.url}/api/v1/namespaces/default/serviceaccounts/default/token"
    async with admin.post(path, data=json.dumps(body), headers=JSON) as answer:
        token = (await answer.json())["status"]["token"]
    for credential, status in ((f"Bearer {token}", 200), (f"Bearer {token}x", 401), ("Basic abc", 401)):
        async with nobody.get(f"{embedded.url}/apis", headers={"authorization": credential}) as answer:
            assert answer.status == status


async def test_impersonation_is_for_administrators(embedded, admin, nobody):
    async with admin.get(f"{embedded.url}{MAPS}", headers={"impersonate-user": "ann"}) as answer:
        assert (answer.status, 'User "ann" cannot list' in (await answer.json())["message"]) == (403, True)
    async with nobody.get(f"{embedded.url}{MAPS}", headers={"impersonate-user": "root"}) as answer:
        assert (answer.status, "cannot impersonate" in await answer.text()) == (403, True)


async def test_a_stranger_to_the_authority_gets_no_connection(embedded, tmp_path):
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context())
    async with aiohttp.ClientSession(connector=connector) as opened:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await opened.get(f"{embedded.url}/readyz")


async def test_a_body_over_the_limit_is_refused_before_it_is_read(embedded, admin):
    async def endless():
        for _ in range(BODY_BYTES_MAX // 2**16 + 2):
            yield b" " * 2**16

    async with admin.post(
        f"{embedded.url}{MAPS}", data=io.BytesIO(b" " * (BODY_BYTES_MAX + 1)), headers=JSON
    ) as answer:
        assert answer.status == 413
    async with admin.post(f"{embedded.url}{MAPS}", data=endless(), headers=JSON) as answer:
        assert answer.status == 413


async def test_who_sends_a_body_that_is_refused_to_its_end_hears_why():
    """Some clients read nothing before that, and a connection that is closed over unread bytes loses the answer."""
    listener, size = Listener(Address()), 2**25
    await listener.start()
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
        for _ in range(0, size, 2**20):
            writer.write(b" " * 2**20)
            await writer.drain()
        assert b" 503 " in await reader.readline()
        writer.close()
    await listener.stop()


async def test_a_watch_is_a_stream_of_lines(embedded, admin):
    async with admin.get(f"{embedded.url}{MAPS}?watch=true&fieldSelector=metadata.name%3Da") as watch:
        async with admin.post(f"{embedded.url}{MAPS}", data=a_map("a"), headers=JSON) as answer:
            assert answer.status == 201
        event = json.loads(await watch.content.readline())
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")


async def test_a_server_that_stops_ends_its_watches(tmp_path, embedded):
    folder = tmp_path / "server"
    address = Address(certificate=folder / "server.crt", key=folder / "server.key", client_authority=folder / "ca.crt")
    listener = Listener(address, embedded.server)
    await listener.start()
    async with session(folder) as opened, opened.get(f"https://127.0.0.1:{listener.port}{MAPS}?watch=true") as watch:
        reading = asyncio.create_task(watch.content.read())
        await listener.stop()
        await asyncio.gather(reading, return_exceptions=True)
    assert reading.done()


async def test_a_listener_without_its_server_asks_for_patience(tmp_path):
    listener = Listener(Address())
    await listener.start()
    async with aiohttp.ClientSession() as opened, opened.get(f"http://127.0.0.1:{listener.port}/readyz") as answer:
        assert (answer.status, (await answer.json())["reason"]) == (503, "ServiceUnavailable")
    await listener.stop()


async def test_connections_that_ask_nothing_keep_no_request_out_and_are_closed(monkeypatch):
    monkeypatch.setattr(http, "LIMITS", msgspec.structs.replace(http.LIMITS, connections=8, request_s=0.1))
    listener = Listener(Address())
    await listener.start()
    async with asyncio.timeout(PATIENCE_S):
        idle = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(50)]
        idle[-1][1].write(b"GET /readyz HTTP/1.1\r\nHost: x\r\nX-Half: ")
        async with aiohttp.ClientSession() as opened, opened.get(f"http://127.0.0.1:{listener.port}/readyz") as answer:
            assert answer.status == 503
        for reader, writer in idle:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
    await listener.stop()


@pytest.mark.parametrize(
    "name", ["ca.crt", "ca.key", "admin.crt", "admin.key", "server.crt", "server.key", "kubeconfig"]
)
async def test_a_file_that_a_full_disk_left_empty_is_made_anew(tmp_path, name):
    async with EmbeddedServer(Place(tmp_path)):
        pass
    (tmp_path / name).write_bytes(b"")
    async with (
        EmbeddedServer(Place(tmp_path)) as server,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(tmp_path))) as opened,
        opened.get(f"{server.url}/readyz") as answer,
    ):
        assert answer.status == 200
        assert (tmp_path / name).read_bytes()


async def test_keys_are_for_their_owner_alone(embedded, tmp_path):
    for name in ("ca.key", "server.key", "admin.key", "kubeconfig"):
        assert (tmp_path / "server" / name).stat().st_mode & 0o077 == 0


async def test_the_authority_outlives_the_server(embedded, tmp_path):
    assert trusting(tmp_path / "server").get_ca_certs()[0]["subject"] == ((("commonName", "pumice"),),)


class SlowPeer:
    """A client that stops in the middle of its TLS handshake until it is told to go on."""

    def __init__(self, context, port):
        self._port = port
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")

    async def begin(self):
        """Returns when the server has answered, so that it knows this connection."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self._writer.write(self._outgoing.read())
        self._incoming.write(await self._reader.read(2**16))

    async def ask(self, path):
        """Ends the handshake, asks, and gives the answer's first line."""
        with contextlib.closing(self._writer):
            await self._do(self._tls.do_handshake)
            self._tls.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
            answer = await self._do(self._tls.read)
        return answer.split(b"\r\n")[0]

    async def _do(self, step):
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self._writer.write(self._outgoing.read())
                chunk = await self._reader.read(2**16)
                self._incoming.write(chunk) if chunk else self._incoming.write_eof()
            finally:
                self._writer.write(self._outgoing.read())


async def test_whoever_is_in_the_handshake_when_the_server_stops_is_cut_off(tmp_path):
    """A watch that begins afterwards would never say anything, and the process would not end before it."""
    async with EmbeddedServer(Place(tmp_path / "server")) as embedded:
        peer = SlowPeer(trusting(tmp_path / "server"), int(embedded.url.rpartition(":")[2]))
        await peer.begin()
    with pytest.raises(OSError, match=r"EOF|reset"):
        await peer.ask(f"{MAPS}?watch=true")
