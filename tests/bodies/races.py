"""Races for room that the API server allows: it does not check capacity, so a node's agent has the last word.

The world is that of tests/bodies/jobs.py with one node of twelve cards, and a Line (tests/bodies/mishaps.py) for our binds.
"""

from pumice.api.pods import Pod

MEMBERS = 8
REFUSED = 4


async def half_of_a_gang_is_refused_and_finds_room_later(world, line, **theirs):
    """While the binds of eight are on the way, somebody else fills eight of twelve cards; `theirs` says how."""
    await world.submit("ours", plugins={})
    await line.reached.wait()
    spec = {**world.task("any", 1)["template"]["spec"], **theirs}
    for number in range(8):
        body = {"metadata": {"name": f"theirs-{number}"}, "spec": spec}
        await world.client.create(Pod, body, namespace=world.namespace)

    async def pods_of(owner):
        return [pod for name, pod in (await world.pods()).items() if name.startswith(owner)]

    async def theirs_run():
        return all(pod["status"]["phase"] == "Running" for pod in await pods_of("theirs"))

    await world.until(theirs_run, "the others' pods should run")
    line.go.set()

    async def some_wait():
        pods = await pods_of("ours")
        waiting = [pod["status"]["phase"] for pod in pods if "nodeName" not in pod["spec"]]
        return len(pods) == MEMBERS and waiting == ["Pending"] * REFUSED

    await world.until(some_wait, "four members should have been refused and made anew")
    assert await theirs_run()
    for number in range(REFUSED):
        await world.client.delete(Pod, f"theirs-{number}", namespace=world.namespace, grace_s=0)
    job = await world.phase("Running", name="ours", running=MEMBERS)
    assert len(line.bound) == MEMBERS + REFUSED
    assert job["status"].get("retryCount", 0) == 0
