"""Races for room that the API server allows: it does not check capacity, so a node's agent has the last word.

The world is that of tests/bodies/jobs.py with one node of twelve cards, and a Line (tests/bodies/mishaps.py) for our binds.
"""

from pumice.api.pods import Pod

MEMBERS = 8
REFUSED = 4
UNHURRIED_S = 3600  # a grace time that no machine is too slow for


async def half_of_a_gang_is_refused_and_finds_room_later(world, line, **theirs):
    """While the binds of eight are on the way, somebody else fills eight of twelve cards; `theirs` says how.

    The world's grace time is long: it counts from the plan on, so on a slow machine it could be over before the binds arrive.
    """
    first = await _four_are_refused(world, line, theirs)
    await _made_anew(world, first, REFUSED, "four members should have been refused and made anew")
    await _room_for_all(world)
    assert len(line.bound) == MEMBERS + REFUSED


async def a_gang_half_of_which_is_refused_too_late_is_given_up_and_starts_whole(world, line, **theirs):
    """The same in a world without grace time: it is over when the nodes refuse four."""
    first = await _four_are_refused(world, line, theirs)
    await _made_anew(world, first, MEMBERS, "four members should have been refused, four given up, and all made anew")
    await _room_for_all(world)
    assert len(line.bound) == MEMBERS + MEMBERS


async def _four_are_refused(world, line, theirs):
    """The uids of our pods before that."""
    await world.submit("ours", plugins={})
    await line.reached.wait()
    spec = {**world.task("any", 1)["template"]["spec"], **theirs}
    for number in range(8):
        body = {"metadata": {"name": f"theirs-{number}"}, "spec": spec}
        await world.client.create(Pod, body, namespace=world.namespace)
    await world.until(lambda: _theirs_run(world), "the others' pods should run")
    first = {pod["metadata"]["uid"] for pod in await _pods_of(world, "ours")}
    line.go.set()
    return first


async def _made_anew(world, first, count, what):
    async def some_wait():
        pods = await _pods_of(world, "ours")
        fresh = [pod for pod in pods if pod["metadata"]["uid"] not in first]
        waiting = [pod["status"]["phase"] for pod in fresh if "nodeName" not in pod["spec"]]
        return len(pods) == MEMBERS and waiting == ["Pending"] * count

    await world.until(some_wait, what)
    assert await _theirs_run(world)


async def _room_for_all(world):
    for number in range(REFUSED):
        await world.client.delete(Pod, f"theirs-{number}", namespace=world.namespace, grace_s=0)
    job = await world.phase("Running", name="ours", running=MEMBERS)
    assert job["status"].get("retryCount", 0) == 0


async def _pods_of(world, owner):
    return [pod for name, pod in (await world.pods()).items() if name.startswith(owner)]


async def _theirs_run(world):
    return all(pod["status"]["phase"] == "Running" for pod in await _pods_of(world, "theirs"))
