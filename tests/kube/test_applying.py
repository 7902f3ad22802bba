"""`kubectl apply` again, on the client's side and on the server's, and `kubectl diff`: with webhooks that the real server asks."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from tests.bodies import applying, webhooks

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport
from pumice.processes.webhooks import WebhookSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.kube.conftest import Kubectl
    from tools.kube.control_plane import ControlPlane


@pytest.fixture
async def here(plane: ControlPlane, crds: None) -> AsyncIterator[webhooks.Hooked]:
    connection = await asyncio.to_thread(config.find, str(plane.kubeconfig), clock=RealClock())
    async with (
        HttpTransport(connection, user_agent="pumice-test") as transport,
        webhooks.hooked(transport, WebhookSettings()) as made,
    ):
        await applying.prepare(made)
        yield made


@pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["client", "server"])
async def test_manifests_are_applied_again(here: webhooks.Hooked, kubectl: Kubectl, flags: tuple[str, ...]) -> None:
    for replicas, minimum in applying.SCALED:
        manifest = json.dumps(applying.job(replicas))
        made = await asyncio.to_thread(kubectl, "apply", *flags, "-o", "json", "-f", "-", input=manifest)
        applying.check_job(json.loads(made.stdout), replicas, minimum)
    for priority in (1, 2):
        manifest = json.dumps(applying.queue(priority))
        made = await asyncio.to_thread(kubectl, "apply", *flags, "-o", "json", "-f", "-", input=manifest)
        applying.check_queue(json.loads(made.stdout), priority)
    await asyncio.to_thread(kubectl, "delete", "queues.scheduling.volcano.sh", "again")


async def test_a_diff_shows_the_replicas_and_what_follows(here: webhooks.Hooked, kubectl: Kubectl) -> None:
    await asyncio.to_thread(kubectl, "apply", "-f", "-", input=json.dumps(applying.job(3)))
    shown = await asyncio.to_thread(kubectl, "diff", "-f", "-", input=json.dumps(applying.job(5)), check=False)
    changed = [line for line in shown.stdout.splitlines() if line.startswith(("+ ", "- "))]
    assert shown.returncode == 1, shown.stderr
    fields = {line.lstrip("+- ").partition(":")[0] for line in changed}
    assert fields - {"kubectl.kubernetes.io/last-applied-configuration"} == {"generation", "minAvailable", "replicas"}
