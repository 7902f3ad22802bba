"""What the scheduler asks of other people's programs while it runs: an extender's opinion, and what nodes really use."""

import contextlib
import json
from urllib.parse import unquote

import pytest
from tests.bodies import scheduler as bodies
from tests.bodies.beside import scheduler_beside
from tests.unit.processes.peers import Peer, always, answer

from pumice.api.core import Namespace
from pumice.scheduling.core import builtin


@pytest.fixture
async def start(client):
    """Starts a scheduler with a policy; the world to try it in."""
    async with contextlib.AsyncExitStack() as stack:

        async def begin(text):
            await client.create(Namespace, {"metadata": {"name": "team"}})
            scheduler = await stack.enter_async_context(scheduler_beside(client, builtin.parse(text, "test policy")))
            world = bodies.World(client, "team", scheduler)
            stack.push_async_callback(world.leave)
            return world

        yield begin


async def places(world, gang, size):
    """The nodes of a gang, once it is bound whole."""

    async def whole():
        bound = await world.bound(gang)
        return bound if len(bound) == size else None

    return set((await world.until(whole, f"{gang} should be bound")).values())


def policy(name, *, metrics=None, **arguments):
    plugins = [{"name": "gang"}, {"name": "predicates"}, {"name": name, "arguments": arguments}]
    text = {"actions": "enqueue, allocate", "tiers": [{"plugins": plugins}], "metrics": metrics or {}}
    return json.dumps(text)


def picky(*refused):
    """An extender that refuses some nodes."""

    def serve(peer, connection):
        while True:
            _, _, body = peer.request(connection)
            name = json.loads(body)["node"]["Name"]
            said = {"status": "reserved for somebody", "code": 3} if name in refused else {"status": "", "code": 0}
            connection.sendall(answer(json.dumps(said).encode()))

    return serve


async def test_pods_go_only_where_the_extender_lets_them(start):
    with Peer(picky("team-a", "team-c")) as peer:
        asked = {
            "extender.urlPrefix": peer.address,
            "extender.predicateVerb": "predicate",
            "extender.httpTimeout": "30s",
        }
        world = await start(policy("extender", **asked))
        for name in ("a", "b", "c"):
            await world.node(name, gpus=8)
        await world.gang("g", size=4)
        assert await places(world, "g", 4) == {"team-b"}
        assert peer.connections == 1


async def test_an_extender_that_fails_keeps_the_gang_waiting_with_its_reason(start):
    with Peer(always(answer(b"", "500 Internal Server Error"))) as peer:
        asked = {"extender.urlPrefix": peer.address, "extender.predicateVerb": "predicate"}
        world = await start(policy("extender", **asked))
        await world.node("a", gpus=8)
        await world.gang("g", size=2)

        async def explained():
            conditions = (await world.group("g")).get("status", {}).get("conditions", ())
            return any("answered 500 instead of 200" in each["message"] for each in conditions)

        await world.until(explained, "the group should say that its extender failed")
        assert await world.bound("g") == {}


async def test_busy_nodes_take_nobody(start):
    def prometheus(peer, connection):
        first, _, _ = peer.request(connection)
        busy = {"team-a": "95", "team-b": "10"} if "cpu" in unquote(first) else {"team-a": "10", "team-b": "10"}
        result = [{"metric": {"instance": node}, "value": [1.0, value]} for node, value in busy.items()]
        connection.sendall(answer(json.dumps({"status": "success", "data": {"result": result}}).encode()))

    with Peer(prometheus) as peer:
        metrics = {"type": "prometheus", "address": peer.address, "interval": "1s"}
        world = await start(policy("usage", metrics=metrics))
        await world.node("a", gpus=8)
        await world.node("b", gpus=8)

        async def measured():
            return world.scheduler._loads.current

        await world.until(measured, "loads should be measured")
        await world.gang("g", size=4)
        assert await places(world, "g", 4) == {"team-b"}
