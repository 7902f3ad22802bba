"""The scheduler on the embedded server; its bodies run on the real one too."""

from tests.bodies.scheduler import *  # noqa: F403

from pumice.api.core import Node


async def test_an_idle_scheduler_plans_only_when_something_matters(world):
    """Here only: on the real server a node controller stirs at times of its own."""
    node = await world.node("a", gpus=1)
    await world.gang("train", size=2)
    await world.until_said("train", "can never run here")
    await world.stir()
    before = world.scheduler.cycles
    for number in range(5):  # what a kubelet writes every few seconds
        heartbeat = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": f"posting {number}"}
        await world.client.patch(Node, node, {"status": {"conditions": [heartbeat]}}, subresource="status")
    await world.stir()
    assert world.scheduler.cycles - before <= 3  # the stirring alone, whose news may come in pieces
