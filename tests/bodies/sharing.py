"""Who gets how much, on every API server: shares of queues by their weights, and rank between gangs of one queue.

The same bodies run on the embedded server and on the real one, in the world of tests/bodies/scheduler.py.
"""

from pumice.api.priority import PriorityClass

WEIGHTS = {"light": 1, "middle": 2, "heavy": 3}
SHARES = {"light": 2, "middle": 4, "heavy": 6}  # of 12 cards
CARDS = sum(SHARES.values())


async def three_queues(world):
    for name, weight in WEIGHTS.items():
        await world.queue(f"{world.namespace}-{name}", weight=weight)


async def elastic(world, name, *, minimum=1):
    """A gang in the queue of its name that would take everything."""
    await world.gang(name, size=CARDS, minimum=minimum, queue=f"{world.namespace}-{name}")


async def shares(world):
    return {name: len(await world.bound(name)) for name in WEIGHTS}


async def test_three_gangs_in_three_queues_share_as_their_weights_say(world):
    await three_queues(world)
    for name in WEIGHTS:
        await elastic(world, name)
    await world.node("a", gpus=CARDS)

    async def as_deserved():
        return await shares(world) == SHARES

    await world.until(as_deserved, f"the queues should hold {SHARES}")
    await world.stir()
    assert await shares(world) == SHARES


async def test_queues_that_come_late_get_their_deserved_shares_back_and_not_a_card_more(world):
    await three_queues(world)
    await world.node("a", gpus=CARDS)
    await elastic(world, "heavy")
    await world.until_bound("heavy", CARDS)
    await world.run_bound("heavy")
    await elastic(world, "light", minimum=SHARES["light"])
    await elastic(world, "middle", minimum=SHARES["middle"])
    await world.until_bound_as_pods_leave("light", SHARES["light"])
    await world.until_bound_as_pods_leave("middle", SHARES["middle"])
    await world.stir()
    pods = await world.pods("heavy")
    assert [pod["metadata"]["name"] for pod in pods if pod["metadata"].get("deletionTimestamp")] == []
    assert await shares(world) == SHARES


async def test_of_two_gangs_of_64_on_100_slots_the_better_one_takes_over_whole(world):
    urgent = f"{world.namespace}-urgent"
    await world.client.create(PriorityClass, {"metadata": {"name": urgent}, "value": 1000})
    nodes = [await world.node(name, gpus=50, cpu="640") for name in ("a", "b")]
    await world.gang("first", size=64)
    await world.until_bound("first", 64)
    await world.run_bound("first")
    await world.gang("second", size=64, priorityClassName=urgent)
    bound = await world.until_bound_as_pods_leave("second", 64)
    await world.client.delete(PriorityClass, urgent)
    held = [*bound.values(), *(await world.bound("first")).values()]
    assert {node: held.count(node) for node in nodes} == dict.fromkeys(nodes, 50)  # nobody left without need
    group = await world.group("second")
    assert group["spec"]["priorityClassName"] == urgent
