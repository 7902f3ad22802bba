"""The table of admission rules through webhooks that the real API server calls over TLS."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.bodies import admission_cases, webhooks
from tests.cases import admission

from pumice.api.validation import Settings
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport
from pumice.processes.webhooks import WebhookSettings

if TYPE_CHECKING:
    from tools.kube.control_plane import ControlPlane

GROUPS = admission_cases.by_settings()


@pytest.mark.parametrize("settings", GROUPS)
async def test_webhooks_accept_and_refuse_what_the_rules_do(plane: ControlPlane, crds: None, settings: str) -> None:
    cases = GROUPS[settings]
    rules = Settings(**cases[0].settings)
    connection = await asyncio.to_thread(config.find, str(plane.kubeconfig), clock=RealClock())
    async with (
        HttpTransport(connection, user_agent="pumice-test") as transport,
        webhooks.hooked(transport, WebhookSettings(rules=rules), admission_cases.with_builder) as here,
    ):
        await webhooks.namespace_for_pods(here.client, admission.NAMESPACE)
        await admission_cases.check(here, cases)
