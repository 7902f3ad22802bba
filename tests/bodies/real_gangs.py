"""Gangs of real processes: ranks that find their master by the pytorch plugin's variables, reduce, and resume from checkpoints.

The program is torch.distributed in small, in the standard library: rank 0 listens at MASTER_ADDR:MASTER_PORT, every step sums one
number of each rank, and every rank keeps its step in a file that outlives its pod.
"""

import sys
import types

from tests.bodies.gate import a_gate, an_agent, log, python
from tests.bodies.world import running

from pumice.clock import RealClock

RANKS = 3
STEPS = 6
PAUSE = 3  # where the first life of each rank waits for what happens to it

PROGRAM = """
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    steps, pause = int(sys.argv[2]), int(sys.argv[3])
    checkpoint = pathlib.Path(sys.argv[1]) / f"rank-{rank}"
    resumed = checkpoint.exists()
    step = int(checkpoint.read_text()) if resumed else 0
    print("resumed at" if resumed else "began at", step)

    def connected():
        while True:
            try:
                return socket.create_connection(where)
            except OSError:
                time.sleep(0.01)


    if rank == 0:
        server = socket.create_server((socket.gethostbyname(where[0]), where[1]))
        peers = [server.accept()[0] for _ in range(size - 1)]
        files = [peer.makefile("r") for peer in peers]
    else:
        peer = connected()
        stream = peer.makefile("r")
    while step < steps:
        mine = rank + 1 + step
        if rank == 0:
            total = mine + sum(int(each.readline()) for each in files)
            for each in peers:
                each.sendall(f"{total}\\n".encode())
        else:
            peer.sendall(f"{mine}\\n".encode())
            total = int(stream.readline())
        step += 1
        checkpoint.write_text(str(step))
        print("step", step, "sum", total)
        if step == pause and not resumed:
            wait(f"rank {rank} at {step}")
    print("done")
"""


def sums(first, last):
    """What every rank prints from one step to another: the sum of rank + 1 + step over all ranks."""
    return [f"step {step + 1} sum {sum(rank + 1 + step for rank in range(RANKS))}" for step in range(first, last)]


async def a_gang_finds_its_master_reduces_and_resumes_from_its_checkpoint_after_an_eviction(
    world, machine, folder, *, program=PROGRAM, interpreter=sys.executable
):
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    place = types.SimpleNamespace(
        client=world.client,
        informers=world.informers,
        clock=RealClock(),
        authority=machine.authority,
        server=machine.server,
    )
    node = f"{world.namespace}-machine"
    async with a_gate() as gate, running(an_agent(place, folder, node)):
        container = python(program, str(checkpoints), str(STEPS), str(PAUSE), gate=gate)
        container["command"][0] = interpreter
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        }
        tasks = [{"name": "master", "replicas": 1, "template": {"spec": spec}}]
        tasks += [{"name": "worker", "replicas": RANKS - 1, "template": {"spec": spec}}]
        await world.submit(tasks=tasks, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
        for rank in range(RANKS):
            await gate.arrival(f"rank {rank} at {PAUSE}")
        first = await world.uids()
        assert (await log(world, "train-master-0")).splitlines() == ["began at 0", *sums(0, PAUSE)]
        await world.evict("train-worker-1")
        job = await world.phase("Completed", "Failed")
        assert job["status"]["state"]["phase"] == "Completed"
        assert job["status"]["retryCount"] == 1
        second = await world.uids()
        assert set(second) == set(first)
        assert not set(second.values()) & set(first.values())
        for pod in second:
            assert (await log(world, pod)).splitlines() == [f"resumed at {PAUSE}", *sums(PAUSE, STEPS), "done"]


BODIES = [a_gang_finds_its_master_reduces_and_resumes_from_its_checkpoint_after_an_eviction]
