"""The scheduler on the embedded server; its bodies run on the real one too."""

from tests.bodies.scheduler import *  # noqa: F403
from tests.bodies.sharing import *  # noqa: F403

from pumice.api import kinds
from pumice.api.core import Node
from pumice.api.events import CoreEvent


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


async def test_a_refused_policy_file_is_an_event_of_the_whole_cluster_and_a_number(world):
    def numbers():
        text = world.scheduler.meters.text().decode()
        return [line for line in text.splitlines() if line.startswith("pumice_policy_refus")]

    world.scheduler.policy_refused("policy p.yaml: unknown action 'alocate'; did you mean allocate?")

    async def told():
        events = await world.client.list_json(kinds.by_struct(CoreEvent), namespace="default")
        return [each for each in events if each["reason"] == "PolicyRefused"]

    (event,) = await world.until(told, "an event should tell of the refusal")
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Queue", "root")
    assert event["message"].startswith("the last good policy stays in force: policy p.yaml: unknown action")
    assert numbers() == ["pumice_policy_refused 1.0", "pumice_policy_refusals_total 1.0"]
    world.scheduler.policy_refused("")
    assert numbers() == ["pumice_policy_refused 0.0", "pumice_policy_refusals_total 1.0"]
