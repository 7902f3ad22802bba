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


async def test_a_submission_needs_the_verb_use_on_its_queue(here):
    await queue_rights.check_matrix(here)


async def test_the_submitter_is_recorded_and_nobody_else_can_say_who_it_is(here):
    await queue_rights.check_records(here)


async def test_members_and_movers_need_the_right_to_the_groups_queue(here):
    await queue_rights.check_joining(here)


async def test_a_pod_gets_to_no_other_queue_by_an_edit(here):
    await queue_rights.check_leaving(here)


async def test_templates_are_written_by_those_who_may_use_their_queues(here):
    await queue_rights.check_templates(here)


async def test_queues_are_opened_and_closed_by_those_who_administer_them(here):
    await queue_rights.check_commands(here)


async def test_groups_of_kubernetes_own_are_led_to_queues_with_the_right_to_them(here):
    await queue_rights.check_native(here)


async def test_without_a_record_only_the_default_account_counts(here):
    await queue_rights.check_unrecorded(here)


async def test_what_controllers_make_later_is_held_against_the_submitter(here):
    await queue_rights.check_controllers(here)
