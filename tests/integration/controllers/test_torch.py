"""Gangs of real processes with the real torch on CPU, over gloo. They run where PUMICE_TEST_TORCH names a Python that has torch.

In all other runs test_real_gangs.py does the same with a program of the standard library that reads the same variables.
"""

import importlib.util
import os
import random
import sys
import types

import pytest
from tests.bodies import frameworks, jobs, real_gangs
from tests.bodies.gate import log, require_namespaces

from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.serving import EmbeddedServer, Place
from pumice.local.nodes.process.machine import ProcessSettings
from pumice.local.up import install_kinds

TORCH = os.environ.get("PUMICE_TEST_TORCH") or (sys.executable if importlib.util.find_spec("torch") else "")
pytestmark = pytest.mark.skipif(not TORCH, reason="no torch: set PUMICE_TEST_TORCH to a Python that has it")

PROGRAM = """
    import torch, torch.distributed as dist
    rank, steps, pause = int(os.environ["RANK"]), int(sys.argv[2]), int(sys.argv[3])
    checkpoint = pathlib.Path(sys.argv[1]) / f"rank-{rank}"
    resumed = checkpoint.exists()
    step = torch.load(checkpoint)["step"] if resumed else 0
    print("resumed at" if resumed else "began at", step)
    dist.init_process_group("gloo")
    while step < steps:
        total = torch.tensor([rank + 1 + step])
        dist.all_reduce(total)
        step += 1
        torch.save({"step": step}, checkpoint)
        print("step", step, "sum", int(total))
        if step == pause and not resumed:
            wait(f"rank {rank} at {step}")
    print("done")
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory):
    require_namespaces(tmp_path_factory.mktemp("probe"))


async def test_a_gang_of_torch_ranks_resumes_from_its_checkpoint_after_an_eviction(namespaces, tmp_path):
    async with EmbeddedServer(Place(tmp_path / "server")) as served:
        transport = LocalTransport(served.server)
        await install_kinds(Client(transport, clock=RealClock(), chance=random.Random(0)))
        authority = (tmp_path / "server" / "ca.crt").read_bytes()
        machine = types.SimpleNamespace(authority=authority, server=served.url)
        async with jobs.job_world(transport, LocalTransport(served.server), "default", nodes=0) as world:
            body = real_gangs.BODIES[0]
            await body(world, machine, tmp_path, program=PROGRAM, interpreter=TORCH)


async def test_the_guides_torchrun_job_trains_and_leaves_its_checkpoint(namespaces, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(frameworks.shown("train.py"))
    objects = frameworks.manifests("pytorch.yaml")
    job = frameworks.job_of(objects)
    for task in ("master", "worker"):  # images are not pulled: what would be in one is named by its path
        container = frameworks.only_container(job, task)
        container["command"] = [TORCH, "-m", "torch.distributed.run"]
        container["args"] = [str(program) if word == "/app/train.py" else word for word in container["args"]]
    async with frameworks.a_cluster(tmp_path / "server", nodes=0) as (up, world):
        settings = ProcessSettings(name="machine", folder=tmp_path / "machine", capacity={"cpu": "8"})
        await up.add_process_node(settings)
        await frameworks.submit(world, objects)
        ended = await frameworks.over(world, "train")
        logs = {pod: (await log(world, pod, "rank")).splitlines() for pod in await world.pods()}
    assert ended["status"]["state"]["phase"] == "Completed", logs
    for rank, pod in enumerate(["train-master-0", "train-worker-0", "train-worker-1"]):
        assert [line for line in logs[pod] if line.startswith("rank")] == [
            f"rank {rank} of 3 begins at step 0",
            f"rank {rank} of 3 ends with 36",  # six steps of 1 + 2 + 3
        ]
    assert list((tmp_path / "machine" / "claims").rglob("latest.pt"))
