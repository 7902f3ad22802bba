import asyncio
import gzip
import ssl

import pytest
import trustme
from aiohttp import web
from tests.unit.kube.peers import serve

from pumice.api.pods import Pod
from pumice.kube import answers, credentials, direct, http
from pumice.kube.connection import Connection
from pumice.kube.credentials import Access, Fixed, Presented
from pumice.kube.errors import BadConfig, Malformed, NoCredentials, Unreachable
from pumice.kube.transport import Request


def answering(body=b"{}", status=200, headers=None):
    async def handler(_request):
        return web.Response(body=body, status=status, headers=headers)

    return handler


async def test_a_call_carries_method_path_query_headers_and_body(server, transport):
    server.handler = answering(b'{"ok":true}', headers={"X-Some": "Thing"})
    request = Request(
        "POST", "/api/v1/pods", {"dryRun": "All", "fieldManager": "a b&c"}, {"content-type": "application/json"}, b"{}"
    )
    response = await transport.call(request)
    (seen,) = server.requests
    assert (seen.method, seen.path, dict(seen.query)) == (
        "POST",
        "/api/v1/pods",
        {"dryRun": "All", "fieldManager": "a b&c"},
    )
    assert seen.headers["user-agent"] == "pumice-test/1"
    assert seen.headers["content-type"] == "application/json"
    assert (response.status, response.body, response.headers["x-some"]) == (200, b'{"ok":true}', "Thing")


async def test_names_with_odd_characters_arrive_as_they_were(server, transport):
    server.handler = answering()
    await transport.call(Request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a b#?c"))
    assert server.requests[0].path == "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a b#?c"


async def test_a_prefix_in_the_servers_address_stays_in_front(carrier, server):
    server.handler = answering()
    async with carrier(Connection(server=f"{server.url}/k8s/c-1/"), user_agent="x") as transport:
        await transport.call(Request("GET", "/api/v1/pods"))
    assert server.requests[0].path == "/k8s/c-1/api/v1/pods"


async def test_an_error_answer_is_a_response_with_its_body(server, transport):
    server.handler = answering(b'{"kind":"Status"}', status=409)
    response = await transport.call(Request("GET", "/api/v1/pods"))
    assert (response.status, response.body) == (409, b'{"kind":"Status"}')


async def test_headers_that_come_twice_are_joined(server, transport):
    async def handler(_request):
        response = web.Response(body=b"{}")
        response.headers.add("Warning", '299 - "one"')
        response.headers.add("Warning", '299 - "two"')
        return response

    server.handler = handler
    response = await transport.call(Request("GET", "/api/v1/pods"))
    assert response.headers["warning"] == '299 - "one", 299 - "two"'


async def test_a_redirect_is_not_followed_because_a_token_must_not_travel(server, transport):
    server.handler = answering(status=307, headers={"Location": f"{server.url}/elsewhere"})
    response = await transport.call(Request("GET", "/api/v1/pods"))
    assert response.status == 307
    assert len(server.requests) == 1


async def test_gzip_is_asked_for_in_reads_but_not_in_streams_or_writes(server, transport):
    server.handler = answering(gzip.compress(b'{"items":[]}'), headers={"Content-Encoding": "gzip"})
    response = await transport.call(Request("GET", "/api/v1/pods"))
    server.handler = answering()
    stream = await transport.call(Request("GET", "/api/v1/pods", {"watch": "true"}))
    await stream.stream.aclose()
    await transport.call(Request("POST", "/api/v1/pods"))
    assert response.body == b'{"items":[]}'
    assert [seen.headers["accept-encoding"] for seen in server.requests] == ["gzip", "identity", "identity"]


async def test_disable_compression_asks_for_none(carrier, server):
    server.handler = answering()
    async with carrier(Connection(server=server.url, compress=False), user_agent="x") as transport:
        await transport.call(Request("GET", "/api/v1/pods"))
    assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("compressed", [True, False])
async def test_an_answer_beyond_the_limit_is_refused_though_it_is_small_on_the_wire(
    server, transport, monkeypatch, compressed
):
    for module in (http, answers):
        monkeypatch.setattr(module, "RESPONSE_BYTES_MAX", 2**20)
    body = b" " * (2**20 + 1)
    if compressed:
        server.handler = answering(gzip.compress(body), headers={"Content-Encoding": "gzip"})
    else:
        server.handler = answering(body)
    with pytest.raises(Malformed, match="beyond 1048576 bytes; ask for smaller pages"):
        await transport.call(Request("GET", "/api/v1/pods"))


async def test_a_stream_is_passed_on_chunk_by_chunk_before_it_ends(server, transport):
    go_on = asyncio.Event()

    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"half')
        await go_on.wait()
        await response.write(b'":1}\n')
        return response

    server.handler = handler
    response = await transport.call(Request("GET", "/api/v1/pods", {"watch": "1"}))
    assert await anext(response.stream) == b'{"half'
    go_on.set()
    assert [chunk async for chunk in response.stream] == [b'":1}\n']


async def test_a_stream_that_breaks_off_says_so(server, transport):
    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"some")
        request.transport.abort()
        return response

    server.handler = handler
    response = await transport.call(Request("GET", "/api/v1/namespaces/a/pods/b/log", {"follow": "true"}))
    assert await anext(response.stream) == b"some"
    with pytest.raises(Unreachable, match=r"broke off a stream: .*; open it again"):
        await anext(response.stream)


async def test_a_stream_that_is_refused_is_an_ordinary_answer(server, transport):
    server.handler = answering(b'{"kind":"Status","code":403}', status=403)
    response = await transport.call(Request("GET", "/api/v1/pods", {"watch": "true"}))
    assert response.stream is None
    assert response.body == b'{"kind":"Status","code":403}'


async def test_closing_a_stream_ends_the_connection_to_the_server(server, transport):
    gone = asyncio.Event()

    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"a")
        try:
            while True:
                await response.write(b"b")
                await asyncio.sleep(0.01)
        finally:
            gone.set()

    server.handler = handler
    response = await transport.call(Request("GET", "/api/v1/pods", {"watch": "true"}))
    await anext(response.stream)
    await response.stream.aclose()
    await gone.wait()


async def test_a_server_that_is_not_there_cannot_have_acted(carrier, unused_tcp_port):
    async with carrier(
        Connection(server=f"http://127.0.0.1:{unused_tcp_port}", origin="context 'x'"), user_agent="x"
    ) as transport:
        with pytest.raises(
            Unreachable,
            match=r"gave no answer to POST /api/v1/pods: Connection refused; check the address .* in context 'x'",
        ) as caught:
            await transport.call(Request("POST", "/api/v1/pods", body=b"{}"))
    assert caught.value.acted is False


async def test_a_server_that_hangs_up_may_have_acted(server, transport):
    async def handler(request):
        request.transport.abort()
        return web.Response()

    server.handler = handler
    with pytest.raises(Unreachable, match="POST /api/v1/pods") as caught:
        await transport.call(Request("POST", "/api/v1/pods", body=b"{}"))
    assert caught.value.acted is True


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_call_whose_kept_connection_breaks_is_sent_once_and_its_repetition_left_to_the_caller(
    server, transport, method
):
    server.handler = answering()
    await transport.call(Request("GET", "/version"))

    async def handler(request):
        request.transport.abort()
        return web.Response()

    server.handler = handler
    with pytest.raises(Unreachable) as caught:
        await transport.call(Request(method, "/api/v1/namespaces/a/pods/p"))
    assert caught.value.acted is True
    assert len(server.requests) == 2


async def test_a_server_that_says_when_to_come_back_is_asked_again_then(server, client):
    async def handler(_request):
        if len(server.requests) == 1:
            return web.Response(status=429, headers={"Retry-After": "0"}, body=b'{"kind":"Status","code":429}')
        return web.Response(body=b'{"metadata":{"name":"p"}}')

    server.handler = handler
    reply = await client.create(Pod, {}, namespace="a")
    assert reply.into(Pod).metadata.name == "p"
    assert len(server.requests) == 2


async def test_a_body_that_never_ends_is_given_up(server, transport, monkeypatch):
    monkeypatch.setattr(http, "_CALL_TIMEOUT", http.aiohttp.ClientTimeout(total=None, sock_read=0.05))
    monkeypatch.setattr(direct, "CALL_S_MAX", 0.05)

    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"items":[')
        await asyncio.get_running_loop().create_future()

    server.handler = handler
    with pytest.raises(Unreachable, match=r"no data for 60 s|not all of it within 0.05 s"):
        await transport.call(Request("GET", "/api/v1/pods"))


# ------------------------------------------------------------------------------------------------------ credentials


class Renewing:
    """Credentials whose first token is no longer good."""

    def __init__(self, *tokens):
        self.tokens = list(tokens)

    async def access(self):
        return Access(f"Bearer {self.tokens[0]}")

    def rejected(self, access):
        assert access == Access(f"Bearer {self.tokens[0]}")
        if len(self.tokens) == 1:
            return False
        self.tokens.pop(0)
        return True


async def only_new(request):
    return web.Response(status=200 if request.headers["authorization"] == "Bearer new" else 401)


async def test_after_a_401_the_call_is_sent_once_more_with_fresher_credentials(carrier, server):
    server.handler = only_new
    async with carrier(Connection(server=server.url, credentials=Renewing("old", "new")), user_agent="x") as transport:
        response = await transport.call(Request("POST", "/api/v1/pods", body=b"{}"))
    assert response.status == 200
    assert len(server.requests) == 2


@pytest.mark.parametrize("fetched_s_min", [0.0, 60.0], ids=["fetching took long", "fetching took no time"])
async def test_the_guard_is_asked_again_before_a_call_leaves_late(carrier, server, monkeypatch, fetched_s_min):
    """After a 401, and where somebody had to be asked for credentials."""
    monkeypatch.setattr(credentials, "FETCHED_S_MIN", fetched_s_min)
    server.handler = only_new
    asked = []

    def guard():
        asked.append(len(server.requests))
        if server.requests:
            raise NoCredentials("the lease is over")

    async with carrier(Connection(server=server.url, credentials=Renewing("old", "new")), user_agent="x") as transport:
        with pytest.raises(NoCredentials, match="the lease is over"):
            await transport.call(Request("POST", "/api/v1/pods/p/binding", body=b"{}", guard=guard))
    assert asked == ([0, 1] if fetched_s_min == 0.0 else [1])
    assert len(server.requests) == 1


async def test_a_401_without_anything_fresher_is_the_answer(carrier, server):
    server.handler = only_new
    async with carrier(Connection(server=server.url, credentials=Renewing("old")), user_agent="x") as transport:
        response = await transport.call(Request("GET", "/api/v1/pods"))
    assert response.status == 401
    assert len(server.requests) == 1


async def test_impersonation_headers_go_with_every_call_each_as_often_as_it_was_given(carrier, server):
    server.handler = answering()
    headers = (("impersonate-user", "alice"), ("impersonate-group", "a"), ("impersonate-group", "b"))
    async with carrier(Connection(server=server.url, headers=headers), user_agent="x") as transport:
        await transport.call(Request("GET", "/api/v1/pods"))
    seen = server.requests[0].headers
    assert (seen["impersonate-user"], seen.getall("impersonate-group")) == ("alice", ["a", "b"])


# ------------------------------------------------------------------------------------------------------ TLS


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
async def tls_server(authority):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "kubernetes.default").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    async with serve(context) as running:
        yield running


def authority_of(authority):
    return Fixed(authority.cert_pem.bytes())


async def call_once(carrier, connection):
    async with carrier(connection, user_agent="x") as transport:
        return await transport.call(Request("GET", "/version"))


async def test_a_server_that_its_authority_vouches_for_is_trusted(carrier, tls_server, authority):
    tls_server.handler = answering(b"yes")
    assert (
        await call_once(carrier, Connection(server=tls_server.url, authority=authority_of(authority)))
    ).body == b"yes"


async def test_a_server_of_another_authority_is_not_trusted_and_saw_nothing(carrier, tls_server):
    with pytest.raises(Unreachable, match="certificate verify failed") as caught:
        await call_once(carrier, Connection(server=tls_server.url, authority=authority_of(trustme.CA())))
    assert caught.value.acted is False
    assert tls_server.requests == []


async def test_insecure_skip_tls_verify_trusts_anyone(carrier, tls_server):
    tls_server.handler = answering(b"yes")
    assert (await call_once(carrier, Connection(server=tls_server.url, verify=False))).body == b"yes"


@pytest.mark.parametrize(("name", "is_trusted"), [("kubernetes.default", True), ("another.name", False)])
async def test_tls_server_name_is_the_name_that_is_checked(carrier, tls_server, authority, name, is_trusted):
    tls_server.handler = answering(b"yes")
    connection = Connection(server=tls_server.url, authority=authority_of(authority), tls_server_name=name)
    if is_trusted:
        assert (await call_once(carrier, connection)).body == b"yes"
    else:
        with pytest.raises(Unreachable, match="Hostname mismatch"):
            await call_once(carrier, connection)


async def common_name(request):
    certificate = request.transport.get_extra_info("peercert")
    return web.Response(
        text=dict(part for (part,) in certificate["subject"])["commonName"] if certificate else "nobody"
    )


class Swappable(Fixed):
    """A Source that somebody replaces while the client runs."""

    def replace(self, content):
        self._content = content


def pair(authority, name):
    issued = authority.issue_cert(f"{name}.example", common_name=name)
    return issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()


def alice(tls_server, authority):
    """A connection that shows alice's certificate to a server that answers with its name, and the two files."""
    tls_server.handler = common_name
    certificate, key = files = tuple(map(Swappable, pair(authority, "alice")))
    shown = Presented(certificate=certificate, key=key)
    return Connection(server=tls_server.url, authority=authority_of(authority), credentials=shown), files


async def test_a_client_certificate_is_shown_and_a_rotated_one_replaces_it_without_a_restart(
    carrier, tls_server, authority
):
    connection, files = alice(tls_server, authority)
    async with carrier(connection, user_agent="x") as transport:
        first = await transport.call(Request("GET", "/version"))
        for source, content in zip(files, pair(authority, "bob"), strict=True):
            source.replace(content)
        second = await transport.call(Request("GET", "/version"))
    assert (first.body, second.body) == (b"alice", b"bob")


async def test_while_only_one_file_of_a_pair_has_been_replaced_the_last_good_pair_stays_in_use(
    carrier, tls_server, authority
):
    connection, files = alice(tls_server, authority)
    seen = []
    async with carrier(connection, user_agent="x") as transport:
        await transport.call(Request("GET", "/version"))
        for source, content in zip(files, pair(authority, "bob"), strict=True):
            source.replace(content)
            seen.append((await transport.call(Request("GET", "/version"))).body)
    assert seen == [b"alice", b"bob"]


async def test_a_certificate_with_the_key_of_another_is_told_by_name(carrier, tls_server, authority):
    certificate, key = pair(authority, "alice")[0], pair(authority, "bob")[1]
    connection = Connection(
        server=tls_server.url,
        authority=authority_of(authority),
        credentials=Presented(certificate=Fixed(certificate), key=Fixed(key)),
        origin="context 'prod'",
    )
    with pytest.raises(
        NoCredentials, match="context 'prod': the client certificate and its key do not belong together"
    ):
        await call_once(carrier, connection)


async def test_an_authority_that_is_no_certificate_is_told_by_name(carrier, tls_server):
    with pytest.raises(BadConfig, match="context 'prod': the certificate authority is not a PEM certificate"):
        await call_once(
            carrier, Connection(server=tls_server.url, authority=Fixed(b"nonsense"), origin="context 'prod'")
        )


# ------------------------------------------------------------------------------------------------------ proxies


async def test_a_proxy_is_asked_to_connect_to_the_server(carrier, server):
    server.handler = answering(b"via proxy")
    connection = Connection(server="http://api.invalid:6443", proxy=server.url)
    response = await call_once(carrier, connection)
    assert response.body == b"via proxy"
    assert str(server.requests[0].url) == "http://api.invalid:6443/version"


async def test_a_tunnel_through_a_proxy_ends_at_the_server_whose_name_is_checked(carrier, tls_server, authority):
    tls_server.handler = answering(b"through a tunnel")
    asked = []

    async def tunnel(reader, writer):
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        port = int(tls_server.url.rpartition(":")[2])
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def pump(source, sink):
            while data := await source.read(2**16):
                sink.write(data)
            sink.close()

        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)

    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    connection = Connection(
        server="https://kubernetes.default:6443", authority=authority_of(authority), proxy=f"http://127.0.0.1:{port}"
    )
    async with proxy:
        assert (await call_once(carrier, connection)).body == b"through a tunnel"
    assert asked == [b"CONNECT kubernetes.default:6443 HTTP/1.1"]
