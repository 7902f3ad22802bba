"""Rights to queues on the embedded server; the same bodies run on the real one."""

import pytest
from tests.bodies import queue_rights, webhooks

from pumice.processes.webhooks import WebhookSettings
from pumice.webhooks.registration import AccessMode


@pytest.fixture
async def here(transport):
    settings = WebhookSettings(access=AccessMode.ENFORCE, controllers=(webhooks.CONTROLLERS,))
    async with webhooks.hooked(transport, settings) as made:
        await queue_rights.prepare(made)
        yield made


# Groups of Kubernetes' own are served by the embedded server alone.
@pytest.mark.parametrize(
    "body",
    [*queue_rights.ALL, queue_rights.groups_of_kubernetes_own_are_led_to_queues_with_the_right_to_them],
    ids=lambda body: body.__name__,
)
async def test_who_may_use_which_queue(here, body):
    await body(here)
