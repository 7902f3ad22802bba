"""The table of admission rules through webhooks on the embedded server; tests/kube holds it against the real one."""

import pytest
from tests.bodies import admission_cases, webhooks
from tests.cases import admission

from pumice.api.core import Namespace
from pumice.api.validation import Settings
from pumice.processes.webhooks import WebhookSettings

GROUPS = admission_cases.by_settings()
STRICTER = frozenset({"template written otherwise"})  # the embedded server refuses a null that the real one leaves out


@pytest.mark.parametrize("settings", GROUPS)
async def test_webhooks_accept_and_refuse_what_the_rules_do(transport, settings):
    cases = [case for case in GROUPS[settings] if case.id not in STRICTER]
    rules = Settings(**cases[0].settings)
    async with webhooks.hooked(transport, WebhookSettings(rules=rules), admission_cases.with_builder) as here:
        await here.client.create(Namespace, {"metadata": {"name": admission.NAMESPACE}})
        await admission_cases.check(here, cases)
