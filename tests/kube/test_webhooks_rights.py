"""Rights to queues on the real API server, with RBAC."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.bodies import queue_rights, webhooks

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport
from pumice.processes.webhooks import WebhookSettings
from pumice.webhooks.registration import AccessMode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tools.kube.control_plane import ControlPlane


@pytest.fixture
async def here(plane: ControlPlane, crds: None) -> AsyncIterator[webhooks.Hooked]:
    connection = await asyncio.to_thread(config.find, str(plane.kubeconfig), clock=RealClock())
    settings = WebhookSettings(access=AccessMode.ENFORCE, controllers=(webhooks.CONTROLLERS,))
    async with (
        HttpTransport(connection, user_agent="pumice-test") as transport,
        webhooks.hooked(transport, settings) as made,
    ):
        await webhooks.namespace_for_pods(made.client, queue_rights.TEAM)
        await queue_rights.prepare(made)
        yield made
        await queue_rights.clean_up(made)


async def test_submissions_need_the_verb_use_on_their_queues(here: webhooks.Hooked) -> None:
    for body in queue_rights.ALL:
        await body(here)
