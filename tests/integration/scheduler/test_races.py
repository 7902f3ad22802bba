"""A race for room on the embedded server; the same body runs on the real one, against kube-scheduler."""

from tests.bodies import mishaps, races
from tests.bodies.job_world import job_world

from pumice.api.core import Namespace


async def test_a_race_that_the_api_server_allows_is_mended(client):
    await client.create(Namespace, {"metadata": {"name": "race"}})
    line = mishaps.Line(client._transport, hold_from=1)
    try:
        async with job_world(line, client._transport, "race", nodes=1, gpus=12) as world:
            node = {"schedulerName": "somebody-else", "nodeName": "race-0"}
            await races.half_of_a_gang_is_refused_and_finds_room_later(world, line, **node)
    finally:
        await line.hang_up()
