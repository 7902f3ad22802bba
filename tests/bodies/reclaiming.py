"""A queue takes back what it has lent, on the embedded server or on the real one; the world has NODES nodes of eight cards."""

from pumice.api import names
from pumice.api.scheduling import Queue

NODES = 18  # a sixth of them may be promised to those who wait, by the built-in policy
STOPS = ("500ms", "4s", "8s")  # how long pods take to leave, by the lender's Job: one node after the other becomes free
LENT = 6  # Jobs of three nodes


async def a_pod_that_others_leave_for_is_told_once(world):
    """Jobs that need one pod each hold all nodes, and a gang of another queue takes three of them back."""
    lender, owner = f"{world.namespace}-lender", f"{world.namespace}-owner"
    for name in (lender, owner):
        named = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        await world.client.create(Queue, {**named, "spec": {"weight": 1, "reclaimable": True}})
    for number in range(LENT):
        task = world.task("worker", 3, gpus=8, minAvailable=1)
        task["template"]["metadata"]["annotations"] = {names.PRETEND_STOP: STOPS[number % len(STOPS)]}
        await world.submit(f"lent-{number}", queue=lender, plugins={}, tasks=[task])
    for number in range(LENT):
        await world.phase("Running", name=f"lent-{number}", running=3)
    world.counted.writes.clear()
    await world.submit("taken", queue=owner, plugins={}, tasks=[world.task("worker", 3, gpus=8)])
    await world.phase("Running", name="taken", running=3)
    assert world.counted.writes["POST eviction"] == 3
    told = {pod: times for pod, times in world.counted.told.items() if pod.startswith("taken-")}
    assert told == {f"taken-worker-{number}": 1 for number in range(3)}
