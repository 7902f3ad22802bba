"""kill -9 at named steps on the real API server; the same bodies run on the embedded one. A handful here, a hundred in `make soak`."""

import asyncio
import itertools
import random
import sys

import pytest
from tests.bodies import crashes
from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport

_numbers = itertools.count()
pytestmark = pytest.mark.timeout(300)  # processes start and die: a busy machine takes its time


@pytest.fixture(scope="module")
def crash_plane(binaries):
    with ControlPlane(durable=True) as plane:
        install_kinds(plane)
        yield plane


@pytest.fixture
async def crash_namespace(crash_plane):
    name = f"crash-{next(_numbers)}"
    await asyncio.to_thread(crash_plane.create_namespace, name)
    return name


@pytest.fixture
async def transport(crash_plane):
    connection = config.find(str(crash_plane.kubeconfig), clock=RealClock())
    async with HttpTransport(connection, user_agent="pumice-test") as opened:
        yield opened


async def die(transport, plane, namespace, log, *, deaths):
    seed = random.SystemRandom().getrandbits(32)
    sys.stdout.write(f"seed {seed}\n")
    await crashes.every_gang_ends_whole(transport, plane.kubeconfig, namespace, log, deaths=deaths, seed=seed)


async def test_after_deaths_at_any_step_every_gang_ends_whole(transport, crash_plane, crash_namespace, tmp_path):
    await die(transport, crash_plane, crash_namespace, tmp_path / "log", deaths=4)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_after_a_hundred_deaths_every_gang_ends_whole(transport, crash_plane, crash_namespace, tmp_path):
    await die(transport, crash_plane, crash_namespace, tmp_path / "log", deaths=100)


@pytest.mark.parametrize("fail_point", ["evicting:1", "evicting:3"])
async def test_an_eviction_cut_short_takes_no_more_than_it_needs(
    transport, crash_plane, crash_namespace, tmp_path, fail_point
):
    await crashes.an_eviction_cut_short_takes_no_more_than_it_needs(
        transport, crash_plane.kubeconfig, crash_namespace, tmp_path / "log", fail_point
    )
