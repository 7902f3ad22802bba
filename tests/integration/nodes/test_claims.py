"""Claims on an embedded server: bound to what they are promised, to a new volume, or left to others."""

import asyncio
import random

import pytest
from tests.bodies.beside import beside
from tests.bodies.patience import PATIENCE_S

from pumice.api.core import PersistentVolume, PersistentVolumeClaim
from pumice.api.pods import Pod
from pumice.api.storage import StorageClass
from pumice.clock import RealClock
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.nodes.claims import PROVISIONER, FolderClaims
from pumice.runtime import Runtime


def a_claim(name, **spec):
    fixed = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": fixed | spec}


def a_volume(name, **spec):
    fixed = {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany"], "hostPath": {"path": "/data"}}
    return {"metadata": {"name": name}, "spec": fixed | spec}


def a_class(name, *, provisioner=PROVISIONER, mode="Immediate"):
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


class World:
    def __init__(self, client, server):
        self.client = client
        self._histories = {
            struct: server.backend.store.collection(plural).history
            for struct, plural in (
                (PersistentVolumeClaim, "persistentvolumeclaims"),
                (PersistentVolume, "persistentvolumes"),
            )
        }

    async def claim(self, name, **spec):
        await self.client.create(PersistentVolumeClaim, a_claim(name, **spec), namespace="default")

    async def get(self, struct, name):
        """The object, or None."""
        namespace = "default" if struct is PersistentVolumeClaim else ""
        try:
            return (await self.client.get(struct, name, namespace=namespace)).json()
        except errors.NotFound:
            return None

    async def until(self, struct, name, holds):
        async with asyncio.timeout(PATIENCE_S):
            while True:
                news = self._histories[struct].news()
                found = await self.get(struct, name)
                if holds(found):
                    return found
                await news

    async def bound(self, name):
        return await self.until(PersistentVolumeClaim, name, lambda claim: claim["status"]["phase"] == "Bound")


@pytest.fixture
async def world():
    async with Server(Settings(chance=random.Random(0))) as server:
        clock, chance = RealClock(), random.Random(0)
        client = Client(LocalTransport(server), clock=clock, chance=chance)
        informers = Informers(client, clock=clock, chance=chance)
        claims = FolderClaims(client, informers, Runtime(clock=clock, chance=random.Random(0)))
        async with beside(informers.run(), claims.run()):
            yield World(client, server)


async def test_a_claim_without_a_class_gets_a_volume_of_its_own_that_goes_with_it(world):
    await world.claim("data")
    claim = await world.bound("data")
    assert claim["status"]["capacity"] == {"storage": "1Gi"}
    name = claim["spec"]["volumeName"]
    volume = await world.get(PersistentVolume, name)
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    await world.client.delete(PersistentVolumeClaim, "data", namespace="default")
    await world.until(PersistentVolume, name, lambda found: found is None)


async def test_a_claim_of_our_class_waits_for_its_first_pod_where_the_class_says_so(world):
    await world.client.create(StorageClass, a_class("late", mode="WaitForFirstConsumer"))
    await world.client.create(StorageClass, a_class("now"))
    await world.claim("waits", storageClassName="late")
    await world.claim("at-once", storageClassName="now")
    await world.bound("at-once")  # they are looked at in turn: by now the first one was, too
    assert (await world.get(PersistentVolumeClaim, "waits"))["status"]["phase"] == "Pending"
    chosen = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}
    await world.client.patch(PersistentVolumeClaim, "waits", chosen, namespace="default")
    await world.bound("waits")


async def test_a_claim_of_another_class_is_left_to_others(world):
    await world.client.create(StorageClass, a_class("disks", provisioner="disks.example.com"))
    await world.claim("theirs", storageClassName="disks")
    await world.claim("unknown", storageClassName="missing")
    await world.claim("ours")
    await world.bound("ours")
    for name in ("theirs", "unknown"):
        assert (await world.get(PersistentVolumeClaim, name))["status"]["phase"] == "Pending"


async def test_a_claim_is_bound_to_the_volume_that_is_promised_to_it(world):
    reference = {"namespace": "default", "name": "promised"}
    await world.client.create(PersistentVolume, a_volume("disk-1", claimRef=reference))
    await world.client.create(PersistentVolume, a_volume("disk-2"))
    await world.claim("promised")
    await world.claim("named", volumeName="disk-2")
    assert (await world.bound("promised"))["spec"]["volumeName"] == "disk-1"
    claim = await world.bound("named")
    assert claim["status"]["capacity"] == {"storage": "5Gi"}
    await world.client.delete(PersistentVolumeClaim, "named", namespace="default")
    await world.claim("after")
    await world.bound("after")  # by now the end of the other was seen
    assert await world.get(PersistentVolume, "disk-2")  # not ours to delete


@pytest.mark.parametrize("end", ["Succeeded", "deleted"])
async def test_a_claim_that_is_deleted_stays_while_a_pod_on_a_node_uses_it(world, end):
    await world.claim("data")
    volume = (await world.bound("data"))["spec"]["volumeName"]
    uses = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}], "volumes": uses}
    await world.client.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, namespace="default")
    await world.client.delete(PersistentVolumeClaim, "data", namespace="default")
    await world.claim("after")
    await world.bound("after")  # by now the deletion of the other was seen
    assert (await world.get(PersistentVolumeClaim, "data"))["metadata"]["deletionTimestamp"]
    if end == "deleted":
        await world.client.delete(Pod, "p", namespace="default", grace_s=0)
    else:
        ended = {"status": {"phase": end}}
        await world.client.patch(Pod, "p", ended, namespace="default", subresource="status")
    await world.until(PersistentVolumeClaim, "data", lambda found: found is None)
    await world.until(PersistentVolume, volume, lambda found: found is None)


async def test_a_volume_of_somebody_else_is_not_taken(world):
    taken = {"namespace": "default", "name": "wants", "uid": "another-life"}
    await world.client.create(PersistentVolume, a_volume("old", claimRef=taken))
    await world.claim("wants", volumeName="old")
    await world.claim("ours")
    await world.bound("ours")
    assert (await world.get(PersistentVolumeClaim, "wants"))["status"]["phase"] == "Pending"
