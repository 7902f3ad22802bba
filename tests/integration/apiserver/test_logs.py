"""Logs come from the node's agent, asked as a kubelet is asked."""

import json
import ssl

import pytest
from aiohttp import web
from tests.integration.apiserver.conftest import session

JSON = {"content-type": "application/json"}
POD = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture
async def agent(embedded, tmp_path):
    """A node's agent that lets only the API server in; returns what it was asked."""
    folder, asked = tmp_path / "server", []

    async def answer(request):
        peer = request.transport.get_extra_info("peercert")
        names = [value for relative in peer["subject"] for key, value in relative if key == "commonName"]
        asked.append((request.path, dict(request.query), names))
        if "previous" in request.query:
            return web.Response(status=400, text="previous terminated container not found")
        return web.Response(text="hello\nworld\n")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.load_verify_locations(folder / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    port = runner.addresses[0][1]
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    async with session(folder) as opened:
        for path, body in (
            ("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status}),
            ("/api/v1/nodes", {"metadata": {"name": "mute"}}),
            ("/api/v1/namespaces/default/pods", POD),
            (
                "/api/v1/namespaces/default/pods",
                POD | {"metadata": {"name": "q"}, "spec": POD["spec"] | {"nodeName": "mute"}},
            ),
        ):
            async with opened.post(f"{embedded.url}{path}", data=json.dumps(body), headers=JSON) as made:
                assert made.status == 201, await made.text()
        yield opened, asked
    await runner.cleanup()


async def test_a_log_is_fetched_with_what_was_asked_for(embedded, agent):
    opened, asked = agent
    path = f"{embedded.url}/api/v1/namespaces/default/pods/p/log"
    async with opened.get(path, params={"tailLines": "5", "pretty": "true"}) as answer:
        assert (answer.status, await answer.text()) == (200, "hello\nworld\n")
    async with opened.get(path, params={"follow": "true"}) as answer:
        assert await answer.text() == "hello\nworld\n"
    assert asked == [
        ("/containerLogs/default/p/c", {"tailLines": "5"}, ["kube-apiserver-kubelet-client"]),
        ("/containerLogs/default/p/c", {"follow": "true"}, ["kube-apiserver-kubelet-client"]),
    ]


async def test_what_the_agent_refuses_is_told(embedded, agent):
    opened, _ = agent
    async with opened.get(
        f"{embedded.url}/api/v1/namespaces/default/pods/p/log", params={"previous": "true"}
    ) as answer:
        assert (answer.status, (await answer.json())["message"]) == (400, "previous terminated container not found")


async def test_a_node_that_keeps_no_logs_is_named_in_the_log_itself(embedded, agent):
    opened, _ = agent
    async with opened.get(f"{embedded.url}/api/v1/namespaces/default/pods/q/log") as answer:
        assert (answer.status, "(node mute is a pretend node" in await answer.text()) == (200, True)
