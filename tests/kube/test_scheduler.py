"""The scheduler on the real API server; its bodies run on the embedded one too."""

import asyncio
import random
import sys

import pytest
from tests.bodies import scheduler as bodies
from tests.bodies import stormy
from tests.bodies.beside import scheduler_beside
from tests.bodies.scheduler import *  # noqa: F403
from tests.bodies.sharing import *  # noqa: F403

from pumice.api import kinds
from pumice.api.core import Namespace, Node, PersistentVolume, PersistentVolumeClaim
from pumice.api.scheduling import PodGroup
from pumice.api.storage import StorageClass
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.scheduling.core import builtin


@pytest.fixture
def policy():
    """Of the scheduler beside the test; a file that wants another one has a fixture of this name."""
    return builtin.parse(builtin.TEXT, "built-in policy")


@pytest.fixture
async def world(empty_plane, policy, request):
    clock, chance = RealClock(), random.Random(1)
    connection = config.find(str(empty_plane.kubeconfig), clock=clock)
    async with HttpTransport(connection, user_agent="pumice-test") as transport:
        client = Client(transport, clock=clock, chance=chance)
        name = f"team-{abs(hash(request.node.name)) % 10**8}"
        await client.create(Namespace, {"metadata": {"name": name}})
        await asyncio.sleep(0)
        async with scheduler_beside(client, policy) as scheduler:
            here = bodies.World(client, name, scheduler)
            # The real server creates pods only once the namespace has its service account.
            await here.until(lambda: _has_account(client, name), "the namespace should get its service account")
            yield here
            await here.leave()


async def _has_account(client, namespace):
    from pumice.api.core import ServiceAccount

    return await client.list_json(kinds.by_struct(ServiceAccount), namespace=namespace)


async def test_volumes_of_all_members_are_bound_before_the_first_pod(world):
    """Two pods, two local volumes on different nodes, a class that waits for the first consumer."""
    client, nodes = world.client, [await world.node("a", gpus=1), await world.node("b", gpus=1)]
    label = "kubernetes.io/hostname"
    for node in nodes:
        await client.patch(Node, node, {"metadata": {"labels": {label: node}}})
    storage = f"{world.namespace}-local"
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": storage},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await client.create(StorageClass, body)
    for number, node in enumerate(nodes):
        term = {"matchExpressions": [{"key": label, "operator": "In", "values": [node]}]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        name = f"{world.namespace}-{number}"
        await client.create(
            PersistentVolume, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
        )
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"data-{number}"},
            "spec": claim,
        }
        await client.create(PersistentVolumeClaim, body, namespace=world.namespace)
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {"minMember": 2},
    }
    await client.create(PodGroup, group, namespace=world.namespace)
    for number in range(2):
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}]
        await world.pod(f"train-worker-{number}", gang="train", volumes=volumes)
    bound = await world.until_bound("train", 2)
    assert set(bound.values()) == set(nodes)
    for number in range(2):
        claim = (await client.get(PersistentVolumeClaim, f"data-{number}", namespace=world.namespace)).json()
        volume = (await client.get(PersistentVolume, claim["spec"]["volumeName"])).json()
        values = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
        assert values == [bound[f"train-worker-{number}"]]


async def test_in_a_storm_every_gang_ends_whole(empty_plane):
    """Lost replies, refusals, 409, 429, 500 and broken watches between the scheduler and the real server."""
    seed = random.SystemRandom().getrandbits(32)
    sys.stdout.write(f"seed {seed}\n")
    clock, chance = RealClock(), random.Random(seed)
    connection = config.find(str(empty_plane.kubeconfig), clock=clock)
    async with (
        HttpTransport(connection, user_agent="pumice-test") as calm,
        HttpTransport(connection, user_agent="storm") as shaken,
    ):
        client = Client(calm, clock=clock, chance=chance)
        storm = stormy.Storm(shaken, seed)
        other = Client(storm, clock=clock, chance=chance)
        name = f"storm-{seed}"
        await client.create(Namespace, {"metadata": {"name": name}})
        async with scheduler_beside(other, seed=seed) as scheduler:
            here = bodies.World(client, name, scheduler)
            await here.until(lambda: _has_account(client, name), "the namespace should get its service account")
            await stormy.every_gang_ends_whole(client, name, scheduler, storm)
