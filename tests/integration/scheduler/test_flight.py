"""A scheduler on the embedded server, recorded: every cycle planned again from the file gives the same bytes."""

import asyncio
import contextlib

import msgspec
import pytest
from tests.bodies import scheduler as bodies
from tests.bodies.beside import scheduler_beside

from pumice.api.core import Namespace
from pumice.flight import frames
from pumice.flight.recorder import FlightRecorder
from pumice.flight.replay import play
from pumice.local.apiserver.serving import Place
from pumice.local.nodes.pretend import pretend_nodes
from pumice.local.up import Up
from pumice.processes.scheduler import Scheduler, Served
from pumice.runtime import silent
from pumice.sim.worlds import draw, replicas
from pumice.sim.worlds import play as play_world

SCENES = [
    bodies.test_a_gang_of_eight_waits_for_its_last_two_gpus_and_then_starts_whole,
    bodies.test_of_two_gangs_of_64_on_100_slots_one_runs_and_the_other_follows,
    bodies.test_a_pod_behind_the_queue_gate_passes_it_when_its_queue_has_a_share,
]


@contextlib.asynccontextmanager
async def recorded(client, policy, path):
    """A scheduler whose flight is in the file when this is left."""
    with contextlib.suppress(Exception):
        await client.create(Namespace, {"metadata": {"name": "team"}})
    served = Served(flight=FlightRecorder(str(path), extra_plugins={}, log=silent))
    async with scheduler_beside(client, policy, served=served) as scheduler:
        yield bodies.World(client, "team", scheduler)


def played(path):
    return list(play(frames.unpack(path.read_bytes(), path.name), {}))


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
async def test_every_cycle_of_a_recorded_scheduler_is_planned_again_to_the_same_bytes(client, policy, tmp_path, scene):
    path = tmp_path / "flight"
    async with recorded(client, policy, path) as world:
        await scene(world)
        await world.leave()
        cycles = world.scheduler.cycles
    found = played(path)
    assert [each.number for each in found] == list(range(len(found)))
    assert len(found) >= cycles
    assert all(each.recorded is not None for each in found[:cycles])  # one may have been cut off by the end
    assert {each.number: each.differs for each in found if each.differs} == {}
    assert any(each.decisions.commits for each in found)


async def test_the_next_process_begins_with_what_is_there_and_keeps_the_recording_of_the_last(client, policy, tmp_path):
    path = tmp_path / "flight"
    async with recorded(client, policy, path) as world:
        await world.node("a", gpus=4)
        await world.gang("first", size=4)
        await world.until_bound("first", 4)
    async with recorded(client, policy, path) as world:
        await world.gang("second", size=2)
        await world.until_said("second", "queue default has no share left")
        await world.finish("first")
        await world.until_bound("second", 2)
    for file in (path, tmp_path / "flight.1"):
        found = played(file)
        assert found
        assert not any(each.differs for each in found)
    assert "team/first" in played(path)[0].snapshot.gangs


async def test_a_cluster_on_this_machine_can_be_recorded(tmp_path):
    """What `pumice up --flight-recorder` does."""
    path = tmp_path / "flight"
    flight = FlightRecorder(str(path), extra_plugins={}, log=silent)
    async with Up(Place(tmp_path / "data"), pretend_nodes(1, gpus=4), log=silent, flight=flight) as cluster:
        told = asyncio.Event()
        cluster.scheduler.tell(lambda _: told.set())
        await cluster.add_nodes(pretend_nodes(1, prefix="more-", gpus=8))
        await told.wait()
    assert not any(each.differs for each in played(path))
    assert played(path)


def test_what_schedulers_do_in_a_world_full_of_faults_is_planned_again_to_the_same_bytes(tmp_path, monkeypatch):
    """They die, come back, lose their lease and their watches; each life has a recording of its own."""
    recorders = []

    def scheduler(client, informers, policy, runtime, served):
        path = tmp_path / f"flight-{len(recorders)}"
        recorders.append((path, FlightRecorder(str(path), extra_plugins=served.extra_plugins, log=silent)))
        return Scheduler(client, informers, policy, runtime, msgspec.structs.replace(served, flight=recorders[-1][1]))

    monkeypatch.setattr(replicas, "Scheduler", scheduler)
    play_world(draw(3, "processes"))
    cycles = 0
    for path, recorder in recorders:
        recorder.close()
        for each in played(path) if path.stat().st_size else ():
            cycles += 1
            assert not each.differs, f"{path.name}, cycle {each.number}: {each.differs}"
    assert cycles > 10
    assert len(recorders) > 1
