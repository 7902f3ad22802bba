"""The order in which the pods of many gangs are bound, on a server that takes a second for each call."""

import asyncio
import random

from tests.unit.scheduling.clusters import NOW, a_cluster, a_group, a_node, a_pod

from pumice.clock import VirtualClock
from pumice.cluster.intake import Intake
from pumice.dispatch.binder import BIND_WINDOW, Binder
from pumice.kube.client import Client
from pumice.kube.transport import Response
from pumice.runtime import Runtime
from pumice.scheduling.core.decisions import Bind, GangCommit


class SlowServer:
    """Binds after a second, and notes whose pods it has bound when."""

    def __init__(self, clock):
        self.clock = clock
        self.ends = {}

    async def call(self, request):
        await self.clock.sleep(1)
        pod = request.path.split("/")[-2]
        self.ends[pod.partition("-")[0]] = self.clock.monotonic()
        return Response(201, {}, b'{"kind": "Status", "status": "Success"}')

    async def close(self):
        pass


def bound_after(sizes):
    """When the last pod of each gang was bound, in seconds; all of them are committed at once, in this order."""
    clock = VirtualClock(NOW)
    server = SlowServer(clock)
    gangs = {f"g{number}": size for number, size in enumerate(sizes)}
    pods = [a_pod(f"{gang}-{number}", gang=gang) for gang, size in gangs.items() for number in range(size)]
    cluster = a_cluster(a_node("n1", pods="9999", cpu="9999"), *(a_group(gang) for gang in gangs), *pods)
    runtime = Runtime(clock=clock, chance=random.Random(0))

    async def main():
        client = Client(server, clock=clock, chance=random.Random(0))
        binder = Binder(client, cluster, Intake(cluster).apply, runtime)
        began = clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for gang, size in gangs.items():
                binds = tuple(Bind(task, "n1") for task in cluster.gangs[f"default/{gang}"].tasks.values())
                group.create_task(binder.commit(GangCommit(f"default/{gang}", binds, size), "1-a"))
        return [round(server.ends[gang] - began) for gang in gangs]

    return clock.run(main())


def test_gangs_are_bound_one_after_the_other_not_side_by_side():
    assert bound_after([BIND_WINDOW] * 5) == [1, 2, 3, 4, 5]


def test_gangs_smaller_than_the_window_share_it():
    assert bound_after([BIND_WINDOW // 4] * 8) == [1, 1, 1, 1, 2, 2, 2, 2]


def test_a_large_gang_lets_others_pass():
    large, small, last = bound_after([BIND_WINDOW * 20, BIND_WINDOW, BIND_WINDOW])
    assert (large, small, last) == (22, 3, 4)
