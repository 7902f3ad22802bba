"""The webhooks' process beside the real API server: certificates rotate under load, and its death harms nobody else."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import json
import ssl
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.bodies import webhooks
from tests.bodies.webhooks import CONTROLLERS, HOME, client_of, until

from pumice.api import kinds, names
from pumice.api.batch import Job
from pumice.api.core import Namespace, Secret
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.clock import RealClock
from pumice.kube import config, errors
from pumice.kube.http import HttpTransport
from pumice.processes.webhooks import WebhookSettings
from pumice.webhooks import keys
from pumice.webhooks.ca_bundle import CONFIGURATIONS
from pumice.webhooks.keys import Lives
from pumice.webhooks.registration import Registration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tools.kube.control_plane import ControlPlane

    from pumice.kube.client import Client

Json = dict[str, Any]
WRITERS = 4
# Short enough to see a rotation, long enough for a machine that stops for some seconds.
LIVES = Lives(authority=dt.timedelta(seconds=36), pair=dt.timedelta(seconds=24), settle=dt.timedelta(seconds=1))


@pytest.fixture
async def transport(plane: ControlPlane, crds: None) -> AsyncIterator[HttpTransport]:
    connection = await asyncio.to_thread(config.find, str(plane.kubeconfig), clock=RealClock())
    async with HttpTransport(connection, user_agent="pumice-test") as made:
        client = client_of(made)
        for name in ("root", "default"):
            with contextlib.suppress(errors.AlreadyExists):
                await client.create(Queue, webhooks.manifest(kinds.by_struct(Queue), name, {}))
        yield made


def job(name: str, **fields: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    spec = {"tasks": [{"replicas": 1, "template": template}], **fields}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def pod(name: str, scheduler: str) -> Json:
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


# ------------------------------------------------------------------------------------------------------------ rotation


async def test_no_review_fails_while_authority_and_pair_are_replaced(transport: HttpTransport, namespace: str) -> None:
    client = client_of(transport)
    with contextlib.suppress(errors.NotFound):
        await client.delete(Secret, "pumice-webhooks-tls", namespace=HOME)
    settings = WebhookSettings(lives=LIVES)
    async with webhooks.hooked(transport, settings) as here:
        first = await stored(here.client)
        # A second replica shares the Secret and renews it as well.
        beside = WebhookSettings(lives=LIVES, bind="127.0.0.1:0", hosts=("127.0.0.1",), look_s=0.1)
        async with webhooks.running(client, beside):
            over = asyncio.Event()
            async with asyncio.TaskGroup() as crew:
                writers = [crew.create_task(write(here, namespace, over)) for _ in range(WRITERS)]
                seen: set[bytes] = set()
                crew.create_task(shake_hands(here, seen, over))
                await until(lambda: serves_anew(here, first, seen), "a new authority has signed what is served")
                over.set()
        assert sum(writer.result() for writer in writers) > 0
        assert len(seen) >= 3, "the first pair, one more of the first authority, and one of the next"


async def stored(client: Client) -> keys.Keys:
    secret = (await client.get(Secret, "pumice-webhooks-tls", namespace=HOME)).json()
    found = keys.read(secret["data"])
    assert found is not None
    return found


async def serves_anew(here: webhooks.Hooked, first: keys.Keys, seen: set[bytes]) -> bool:
    now = await stored(here.client)
    shown = ssl.PEM_cert_to_DER_cert(now.pair.certificate.decode())
    return now.authorities[0] not in first.authorities and keys.is_signed(now) and shown in seen


async def write(here: webhooks.Hooked, namespace: str, over: asyncio.Event) -> int:
    """Jobs, one after the other, each mutated and validated over TLS; an error ends the test."""
    number = 0
    while not over.is_set():
        made = (await here.client.create(Job, job("train"), namespace=namespace, dry_run=True)).json()
        assert made["spec"]["tasks"][0]["name"] == "default0"
        number += 1
    return number


async def shake_hands(here: webhooks.Hooked, seen: set[bytes], over: asyncio.Event) -> None:
    """What the server shows to those who trust what the configurations say, and nothing else."""
    while not over.is_set():
        found = (await here.client.get(CONFIGURATIONS[0], here.registration.configuration)).json()
        bundle = base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"]).decode()
        context = ssl.create_default_context(cadata=bundle)
        _, writer = await asyncio.open_connection("127.0.0.1", here.webhooks.port, ssl=context)
        try:
            seen.add(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        finally:
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()


# ------------------------------------------------------------------------------------------------------------ death


@contextlib.asynccontextmanager
async def process(plane: ControlPlane) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """`pumice webhooks`, serving, and its port."""
    command = [sys.executable, "-m", "pumice.cli", "webhooks", f"--kubeconfig={plane.kubeconfig}"]
    command += ["--bind=127.0.0.1:0", "--listen=127.0.0.1:0", "--host=127.0.0.1"]
    running = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert running.stdout is not None
    try:
        async with asyncio.timeout(webhooks.PATIENCE_S):
            port = await _port(running.stdout)
        yield running, port
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.kill()
        await running.communicate()


async def _port(log: asyncio.StreamReader) -> int:
    said_before = b""
    while line := await log.readline():
        said_before += line
        with contextlib.suppress(ValueError):
            said = json.loads(line)
            if said.get("event") == "webhooks_started":
                return int(said["port"])
    raise AssertionError(f"the process ended before it served: {said_before.decode()}")


async def test_a_dead_process_keeps_nobody_from_creating_pods_and_gangs_are_repaired(
    plane: ControlPlane, transport: HttpTransport, namespace: str
) -> None:
    client = client_of(transport)
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(Namespace, {"metadata": {"name": HOME}})
    try:
        async with process(plane) as (running, port):
            # It would write its authority into the configurations by itself, but looks only now and then.
            authority = (await stored(client)).bundle
            registration = Registration(
                namespace=HOME, url=f"https://127.0.0.1:{port}", controllers=(CONTROLLERS,), ca=authority
            )
            for kind, manifest in zip(CONFIGURATIONS, registration.manifests(), strict=True):
                await client.create(kind, manifest)
            await until(lambda: webhooks.asks(client), "the API server asks")
            before = (await client.create(Job, job("before"), namespace=namespace)).json()
            running.kill()
            await running.wait()
            with pytest.raises(errors.ServerError, match="failed calling webhook"):
                await client.create(Job, job("after"), namespace=namespace)
            await client.create(Pod, pod("unrelated", "default-scheduler"), namespace=namespace)
            await client.create(Pod, pod("batch", "volcano"), namespace=namespace)
            async with webhooks.controlling(transport):
                await until(lambda: grouped(transport, namespace, "batch"), "the pod has a group")
                group = f"before-{before['metadata']['uid']}"
                await until(lambda: exists(transport, namespace, group), "the Job has its group")
    finally:
        await webhooks.unregister(client, "pumice-webhooks")


async def grouped(transport: HttpTransport, namespace: str, name: str) -> bool:
    client = client_of(transport)
    found = (await client.get(Pod, name, namespace=namespace)).json()
    group = (found["metadata"].get("annotations") or {}).get(names.GROUP_NAME)
    return bool(group) and (await client.get(PodGroup, group, namespace=namespace)).json()["spec"]["minMember"] == 1


async def exists(transport: HttpTransport, namespace: str, name: str) -> bool:
    try:
        await client_of(transport).get(PodGroup, name, namespace=namespace)
    except errors.NotFound:
        return False
    return True
