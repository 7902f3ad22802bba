"""A process node that the cluster took for dead contradicts."""

from tests.bodies.gate import an_agent
from tests.bodies.world import running, world

from pumice.api.core import Node
from pumice.clock import RealClock
from pumice.kube.requests import PatchType
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server


def readiness(node):
    return next(each["status"] for each in node["status"]["conditions"] if each["type"] == "Ready")


async def test_a_process_node_that_was_marked_unknown_says_that_it_is_ready(tmp_path):
    async with Server() as server, world(LocalTransport(server), RealClock(), "default") as place:
        place.authority = b""
        async with running(an_agent(place, tmp_path, "paused")):
            status = {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}
            written = await place.client.patch(
                Node, "paused", {"status": status}, how=PatchType.STRATEGIC, subresource="status"
            )
            assert readiness(written.json()) == "Unknown"
            await place.node_until("paused", lambda node: readiness(node) == "True")
