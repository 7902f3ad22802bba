"""kube-scheduler and Pumice side by side: each takes the pods that name it, and no node holds more than it has."""

import asyncio
import contextlib
import random

import pytest
from tests.bodies import mishaps, races
from tests.bodies import scheduler as bodies
from tests.bodies.beside import scheduler_beside
from tests.bodies.job_world import job_world
from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds
from tools.kube.nodes import pretend_nodes

from pumice.api import kinds
from pumice.api.core import Namespace, ServiceAccount
from pumice.api.pods import Pod
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport

IN_FLIGHT = 16


@pytest.fixture(scope="module")
def shared_plane(binaries):
    nodes = [
        *pretend_nodes(10, prefix="ours-", labels={"side": "ours"}),
        *pretend_nodes(10, prefix="theirs-", labels={"side": "theirs"}),
    ]
    with ControlPlane(nodes=nodes, scheduler=True) as plane:
        install_kinds(plane)
        yield plane


@pytest.fixture
async def client(shared_plane):
    clock = RealClock()
    connection = config.find(str(shared_plane.kubeconfig), clock=clock)
    async with HttpTransport(connection, user_agent="pumice-test") as transport:
        yield Client(transport, clock=clock, chance=random.Random(1))


@pytest.fixture
async def scheduler(client):
    async with scheduler_beside(client) as scheduler:
        yield scheduler


def a_pod(name, scheduler, selector):
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "300m"}}}
    spec = {
        "schedulerName": scheduler,
        "nodeSelector": selector,
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def all_bound(client, scheduler, namespace, count, sides):
    await client.create(Namespace, {"metadata": {"name": namespace}})
    world = bodies.World(client, namespace, scheduler)

    async def has_account():
        return await client.list_json(kinds.by_struct(ServiceAccount), namespace=namespace)

    await world.until(has_account, "the namespace should get its service account")
    window = asyncio.Semaphore(IN_FLIGHT)

    async def create(body):
        async with window:
            await client.create(Pod, body, namespace=namespace)

    pods = [a_pod(f"{name}-{number}-0", who, selector) for number in range(count) for name, who, selector in sides]
    await asyncio.gather(*(create(body) for body in pods))
    placed = {}

    async def everyone():
        listed = await client.list_json(kinds.by_struct(Pod), namespace=namespace)
        placed.clear()
        placed.update({pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in listed})
        return all(placed.values())

    await world.until(everyone, "every pod should find a node")
    return placed


def held(placed):
    counts = {}
    for node in placed.values():
        counts[node] = counts.get(node, 0) + 1
    return counts


DISJOINT = (("ours", "pumice", {"side": "ours"}), ("theirs", "default-scheduler", {"side": "theirs"}))


async def check_disjoint(client, scheduler, namespace, count):
    placed = await all_bound(client, scheduler, namespace, count, DISJOINT)
    for name, node in placed.items():
        assert node.startswith(name.split("-")[0])
    assert max(held(placed).values()) <= min(110, 32_000 // 300)


async def test_on_disjoint_nodes_each_scheduler_takes_its_own(client, scheduler):
    await check_disjoint(client, scheduler, "disjoint", 100)


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_a_thousand_pods_each_on_disjoint_nodes(client, scheduler, monkeypatch):
    monkeypatch.setattr(bodies, "WAIT_S", 300.0)
    await check_disjoint(client, scheduler, "thousand", 1000)


async def test_on_shared_nodes_what_others_have_bound_is_used_room(client, scheduler):
    shared = (("ours", "pumice", {"side": "ours"}), ("theirs", "default-scheduler", {"side": "ours"}))
    placed = await all_bound(client, scheduler, "shared", 60, shared)
    assert max(held(placed).values()) <= 110


async def test_on_shared_nodes_a_race_that_the_api_server_allows_is_mended(shared_plane):
    """While the binds of eight are on the way, kube-scheduler fills eight of twelve cards; the agent refuses half of the gang."""
    await asyncio.to_thread(shared_plane.create_namespace, "race")
    connection = config.find(str(shared_plane.kubeconfig), clock=RealClock())
    async with (
        HttpTransport(connection, user_agent="pumice") as transport,
        HttpTransport(connection, user_agent="pumice-test") as other,
        contextlib.AsyncExitStack() as stack,
    ):
        line = mishaps.Line(transport, hold_from=1)
        stack.push_async_callback(line.hang_up)
        place = job_world(line, other, "race", nodes=1, gpus=12, grace_s=races.UNHURRIED_S)
        world = await stack.enter_async_context(place)
        await races.half_of_a_gang_is_refused_and_finds_room_later(world, line, schedulerName="default-scheduler")
