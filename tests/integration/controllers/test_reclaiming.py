"""What reclaiming costs on the embedded server; the same body runs on the real one."""

from tests.bodies import reclaiming
from tests.bodies.job_world import job_world

from pumice.local.apiserver.local import LocalTransport


async def test_a_pod_that_others_leave_for_is_told_once(server):
    transports = LocalTransport(server), LocalTransport(server)
    async with job_world(*transports, "team", nodes=reclaiming.NODES) as world:
        await reclaiming.a_pod_that_others_leave_for_is_told_once(world)
