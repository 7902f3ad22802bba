"""Which controllers run, and with what: Volcano's flags mean what they mean there."""

import asyncio
import random

import pytest

from pumice.cli.controllers import _THREADS, controllers
from pumice.clock import RealClock
from pumice.errors import BadInput
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.registry import ALPHA
from pumice.local.apiserver.server import Server, Settings
from pumice.processes import controller_settings
from pumice.processes.controller_settings import NAMES, ControllerSettings, enabled
from pumice.processes.controllers import Controllers
from pumice.runtime import Runtime

ALL = frozenset(NAMES.values())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("*", ALL),
        ("*,-gc-controller", ALL - {"garbage"}),
        ("-gc-controller,*", ALL - {"garbage"}),
        ("*,-sharding-controller", ALL),
        ("job-controller,+pg-controller", {"job", "podgroup"}),
        ("-job-controller", set()),
        (" job-controller , , queue-controller", {"job", "queue"}),
        ("", set()),
    ],
)
def test_a_list_of_controllers_reads_as_with_volcano(text, wanted):
    assert enabled(text) == wanted


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("*,jobs", "there is no controller 'jobs'; choose of"), ("job-controller,-job-controller", "is named twice")],
)
def test_a_list_that_makes_no_sense_is_refused(text, complaint):
    with pytest.raises(BadInput, match=complaint):
        enabled(text)


def made(settings: ControllerSettings) -> Controllers:
    clock, chance = RealClock(), random.Random(0)
    client = Client(None, clock=clock, chance=chance)  # nothing is sent before it runs
    return Controllers(
        client, Informers(client, clock=clock, chance=chance), Runtime(clock=clock, chance=chance), settings
    )


def test_every_controller_that_has_a_name_can_be_made_and_no_other():
    assert {driver.name for driver in made(ControllerSettings()).drivers} == ALL
    chosen = made(ControllerSettings(enabled=frozenset({"job", "queue"}))).drivers
    assert [driver.name for driver in chosen] == ["job", "queue"]


@pytest.mark.parametrize(
    ("alpha", "chosen", "added"),
    [(ALPHA, ALL, {"timelimit-native"}), (frozenset(), ALL, set()), (ALPHA, {"job"}, set())],
)
def test_limits_of_kubernetes_own_groups_are_held_where_the_server_has_such_groups(alpha, chosen, added):
    async def story() -> set[str]:
        clock, chance = RealClock(), random.Random(0)
        async with Server(Settings(now=clock.now, chance=chance, alpha=alpha)) as server:
            client = Client(LocalTransport(server), clock=clock, chance=chance)
            informers, runtime = Informers(client, clock=clock, chance=chance), Runtime(clock=clock, chance=chance)
            controllers = Controllers(client, informers, runtime, ControllerSettings(enabled=frozenset(chosen)))
            await controllers.discover()
            await controllers.discover()  # elected again
            names = [driver.name for driver in controllers.drivers]
            assert len(names) == len(set(names))
            return set(names) - chosen

    assert asyncio.run(story()) == added


def test_workers_are_as_many_as_wanted():
    drivers = made(ControllerSettings(workers={"job": 3})).drivers
    workers = {driver.name: driver._controller.workers for driver in drivers}
    assert (workers["job"], workers["queue"]) == (3, 8)


def test_options_for_workers_name_controllers_that_there_are():
    assert set(_THREADS.values()) <= ALL
    assert set(_THREADS) <= {parameter.name for parameter in controllers.params}


@pytest.mark.parametrize("text", ["soon", "-1m"])
def test_a_grace_that_is_no_duration_is_refused_before_anything_is_started(text):
    with pytest.raises(BadInput, match="--silent-node-grace"):
        controllers.main(["--silent-node-grace", text], standalone_mode=False)


def test_a_controller_that_does_not_exist_is_refused_before_anything_is_started():
    with pytest.raises(BadInput, match="there is no controller"):
        controllers.main(["--controllers", "nobody"], standalone_mode=False)


def test_volcanos_controllers_that_we_lack_may_be_named():
    assert controller_settings.ABSENT.isdisjoint(NAMES)
