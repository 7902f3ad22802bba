"""How long a gang rests whose attempts fail."""

from pumice import instant
from pumice.clock import VirtualClock
from pumice.dispatch.bind_backoff import FORGOTTEN_S, REST_S_FIRST, REST_S_MAX, BindBackoff

NOON = instant.parse_instant("2026-01-31T12:00:00Z")


def under_virtual_time(story):
    clock = VirtualClock(NOON)
    clock.run(story(clock, BindBackoff(clock)))


def test_one_failure_is_mended_at_once_and_further_ones_rest_twice_as_long_each_up_to_a_limit():
    async def story(clock, refusals):
        refusals.note("ns/g", "no")
        assert refusals.resting() == {}
        rest_s = REST_S_FIRST
        for _ in range(12):
            refusals.note("ns/g", "no")
            await clock.sleep(rest_s * 0.9)
            assert {gang: each.why for gang, each in refusals.resting().items()} == {"ns/g": "no"}
            await clock.sleep(rest_s * 0.1)
            assert refusals.resting() == {}
            rest_s = min(2 * rest_s, REST_S_MAX)
        assert rest_s == REST_S_MAX

    under_virtual_time(story)


def test_a_long_time_without_failures_wipes_the_slate():
    async def story(clock, refusals):
        refusals.note("ns/once", "no")
        refusals.note("ns/again", "no")
        await clock.sleep(FORGOTTEN_S / 2)
        refusals.note("ns/again", "no")
        await clock.sleep(FORGOTTEN_S / 2)
        refusals.resting()
        refusals.note("ns/once", "once more")
        refusals.note("ns/again", "once more")
        assert {gang: each.why for gang, each in refusals.resting().items()} == {"ns/again": "once more"}

    under_virtual_time(story)
