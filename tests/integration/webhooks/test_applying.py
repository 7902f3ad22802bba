"""A manifest that is applied again with one change: what admission had filled in is nobody's wish, and no reason to refuse."""

import msgspec
import pytest
from tests.bodies import applying
from tests.bodies.webhooks import hooked

from pumice.api import kinds, names
from pumice.api.batch import Job
from pumice.api.core import Namespace
from pumice.api.scheduling import Queue
from pumice.kube import errors
from pumice.processes.webhooks import WebhookSettings

TEAM = "applying"


@pytest.fixture
async def here(transport):
    async with hooked(transport, WebhookSettings()) as made:
        await made.client.create(Namespace, {"metadata": {"name": TEAM}})
        await applying.prepare(made)
        yield made


async def by_merging(client, kind, body, namespace):
    """As `kubectl apply` does it with kinds that it has no Go types for."""
    marks = {names.LAST_APPLIED: msgspec.json.encode(body).decode(), **body["metadata"].get("annotations", {})}
    body = {**body, "metadata": {**body["metadata"], "annotations": marks}}
    try:
        await client.get(kind, "again", namespace=namespace)
    except errors.NotFound:
        return (await client.create(kind, body, namespace=namespace)).json()
    return (await client.patch(kind, "again", body, namespace=namespace)).json()


async def by_the_server(client, kind, body, namespace):
    return (await client.apply(kind, "again", body, field_manager="kubectl", namespace=namespace)).json()


@pytest.mark.parametrize("apply", [by_merging, by_the_server])
async def test_a_job_is_scaled_by_applying_its_manifest_again(here, apply):
    for replicas, minimum in applying.SCALED:
        made = await apply(here.client, kinds.by_struct(Job), applying.job(replicas), TEAM)
        applying.check_job(made, replicas, minimum)


@pytest.mark.parametrize("apply", [by_merging, by_the_server])
async def test_a_queue_keeps_what_was_filled_in_when_its_manifest_is_applied_again(here, apply):
    for priority in (1, 2):
        made = await apply(here.client, kinds.by_struct(Queue), applying.queue(priority), "")
        applying.check_queue(made, priority)
