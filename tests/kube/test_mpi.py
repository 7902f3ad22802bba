"""Debian's Open MPI, started over Debian's OpenSSH by the ssh and mpi plugins, on process nodes: nothing here is played.

The first Job is the one that the guide shows. On process nodes all pods share the machine's loopback interface, which Open MPI
leaves out unless it is told otherwise. It is also kept from trying whatever network hardware the machine may have.
"""

import contextlib
import os
import shutil
import sys
import textwrap
import types

import pytest
from tests.bodies import frameworks, jobs
from tests.bodies.gate import an_agent, log, require_namespaces
from tests.bodies.world import running

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport
from pumice.local.nodes.process.machine import ProcessSettings

NAMESPACE = "team"
ROOM = {"cpu": "8"}  # of the process node, however small the machine is
SESSIONS = (
    "/run/openmpi"  # a folder in each pod: /tmp is the machine's, where pods of the same name in other runs would meet
)
ON_LOOPBACK = {
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_orte_tmpdir_base": SESSIONS,
}
GUIDES_PROGRAM = "sh -c 'echo \"rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)\"'"

# Debian's library without a compiler: Python calls it by its C names.
ADDS_UP = """
    import ctypes, socket

    mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)

    def named(symbol):
        return ctypes.byref(ctypes.c_char.in_dll(mpi, symbol))

    world, rank, size = named("ompi_mpi_comm_world"), ctypes.c_int(), ctypes.c_int()
    assert mpi.MPI_Init(None, None) == 0
    assert mpi.MPI_Comm_rank(world, ctypes.byref(rank)) == 0
    assert mpi.MPI_Comm_size(world, ctypes.byref(size)) == 0
    mine, total = ctypes.c_double(rank.value + 1), ctypes.c_double()
    double, add = named("ompi_mpi_double"), named("ompi_mpi_op_sum")
    assert mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(total), 1, double, add, world) == 0
    print(f"rank {rank.value} of {size.value} on {socket.gethostname()} has {total.value:g}", flush=True)
    assert mpi.MPI_Finalize() == 0
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Skips where the programs cannot be; in CI they must be."""
    missing = [name for name in ("mpirun", "ssh", "/usr/sbin/sshd") if shutil.which(name) is None]
    if missing:
        assert not os.environ.get("CI"), f"{missing} missing: tools/kube/packages should have installed them"
        pytest.skip(f"{missing} not installed: apt-get install openmpi-bin openssh-server")
    if os.geteuid() != 0:
        pytest.skip("Debian's sshd serves root's keys: run as root")
    require_namespaces(tmp_path_factory.mktemp("probe"))


@pytest.fixture(scope="module")
def real_plane(empty_plane):
    empty_plane.create_namespace(NAMESPACE)
    return empty_plane


@contextlib.asynccontextmanager
async def on_the_embedded_server(request, folder):
    async with frameworks.a_cluster(folder / "server", nodes=0) as (up, world):
        await up.add_process_node(ProcessSettings(name="machine", folder=folder / "machine", capacity=ROOM))
        yield world


@contextlib.asynccontextmanager
async def on_the_real_server(request, folder):
    plane = request.getfixturevalue("real_plane")
    connection = config.find(str(plane.kubeconfig), clock=RealClock())
    async with (
        HttpTransport(connection, user_agent="pumice") as transport,
        HttpTransport(connection, user_agent="pumice-test") as other,
        jobs.job_world(transport, other, NAMESPACE, nodes=0) as world,
    ):
        place = types.SimpleNamespace(
            client=world.client,
            informers=world.informers,
            clock=RealClock(),
            authority=plane.ca.read_bytes(),
            server=plane.url,
        )
        async with running(an_agent(place, folder, "machine", capacity=ROOM)):
            yield world


def a_job(name, program=GUIDES_PROGRAM):
    """The guide's Job, with another program."""
    job = frameworks.job_of(frameworks.manifests("mpi.yaml"))
    job["metadata"]["name"] = name
    for task in job["spec"]["tasks"]:
        task["template"]["spec"]["volumes"] = [{"name": "sessions", "emptyDir": {}}]
        container = frameworks.only_container(job, task["name"])
        container["volumeMounts"] = [{"name": "sessions", "mountPath": SESSIONS}]
    launcher = frameworks.only_container(job, "launcher")
    launcher["env"] += [{"name": key, "value": value} for key, value in ON_LOOPBACK.items()]
    (script,) = launcher["args"]
    assert GUIDES_PROGRAM in script
    launcher["args"] = [script.replace(GUIDES_PROGRAM, program)]
    return job


async def printed(world, job):
    """What the launcher's log holds of the ranks once the Job has completed, in the order of ranks."""
    name = job["metadata"]["name"]
    await frameworks.submit(world, [job])
    ended = await frameworks.over(world, name)
    said = (await log(world, f"{name}-launcher-0")).splitlines()
    assert ended["status"]["state"]["phase"] == "Completed", said
    return sorted(line for line in said if line.startswith("rank "))


@pytest.mark.parametrize("place", [on_the_embedded_server, on_the_real_server], ids=lambda place: place.__name__)
async def test_an_mpi_job_prints_from_all_ranks_and_adds_up(place, programs, request, tmp_path):
    program = tmp_path / "adds_up.py"
    program.write_text(textwrap.dedent(ADDS_UP))
    async with place(request, tmp_path) as world:
        assert await printed(world, a_job("hello")) == [
            "rank 0 of 2 on hello-worker-0",
            "rank 1 of 2 on hello-worker-1",
        ]
        assert await printed(world, a_job("sum", f"{sys.executable} {program}")) == [
            "rank 0 of 2 on sum-worker-0 has 3",
            "rank 1 of 2 on sum-worker-1 has 3",
        ]
