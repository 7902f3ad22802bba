"""A race for room on the embedded server; the same body runs on the real one, against kube-scheduler."""

import contextlib

from tests.bodies import mishaps, races
from tests.bodies.job_world import job_world

from pumice.api.core import Namespace

THEIRS = {"schedulerName": "somebody-else", "nodeName": "race-0"}


@contextlib.asynccontextmanager
async def a_race(client, grace_s):
    await client.create(Namespace, {"metadata": {"name": "race"}})
    line = mishaps.Line(client._transport, hold_from=1)
    try:
        async with job_world(line, client._transport, "race", nodes=1, gpus=12, grace_s=grace_s) as world:
            yield world, line
    finally:
        await line.hang_up()


async def test_a_race_that_the_api_server_allows_is_mended(client):
    async with a_race(client, races.UNHURRIED_S) as (world, line):
        await races.half_of_a_gang_is_refused_and_finds_room_later(world, line, **THEIRS)


async def test_a_gang_whose_binds_took_longer_than_the_grace_time_is_given_up_whole_when_half_of_it_is_refused(client):
    async with a_race(client, 0) as (world, line):
        await races.a_gang_half_of_which_is_refused_too_late_is_given_up_and_starts_whole(world, line, **THEIRS)
