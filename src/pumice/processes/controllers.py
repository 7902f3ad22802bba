"""The controllers as a process: all of them over one client, one set of informers and one window of writes."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import msgspec

from pumice.api.core import ConfigMap
from pumice.api.native import NativePodGroup
from pumice.controllers.cache import Cache
from pumice.controllers.cronjob import loop as cronjob
from pumice.controllers.driver import Driver
from pumice.controllers.executor import Executor
from pumice.controllers.garbage import loop as garbage
from pumice.controllers.hypernode import loop as hypernode
from pumice.controllers.job import keys
from pumice.controllers.job import loop as job
from pumice.controllers.job.plugins import ssh
from pumice.controllers.jobflow import loop as jobflow
from pumice.controllers.jobtemplate import loop as jobtemplate
from pumice.controllers.podgroup import loop as podgroup
from pumice.controllers.queue import loop as queue
from pumice.controllers.timelimit import loop as timelimit
from pumice.kube.discovery import served_kinds
from pumice.kube.informer import Informer
from pumice.kube.recorder import Recorder
from pumice.processes.controller_metrics import JobObserver
from pumice.processes.controller_settings import ControllerSettings
from pumice.processes.health import Pulse
from pumice.telemetry.meters import Meters

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.controllers.driver import Controller
    from pumice.kube.client import Client
    from pumice.kube.informer import Informers
    from pumice.kube.lease import Election
    from pumice.processes.record_server import RecordServer
    from pumice.record.writer import Writer
    from pumice.runtime import Runtime

DEFAULT_SETTINGS = ControllerSettings()
OBSERVE_S = 5.0  # who scrapes does so less often
COMPONENT = "vc-controller-manager"  # the source of events, by the name that Volcano's users look for


def _controllers(cache: Cache, settings: ControllerSettings, discovery: Informer[ConfigMap]) -> list[Controller]:
    """One line for each controller; those that are wanted, with as many workers as wanted."""
    makers: dict[str, Callable[[], Controller]] = {
        "job": lambda: job.controller(cache, silence=settings.silence, restore_s=settings.restore_s),
        "podgroup": lambda: podgroup.controller(
            cache, settings.scheduler_names, inherits=settings.inherits_annotations
        ),
        "queue": lambda: queue.controller(cache),
        "cronjob": lambda: cronjob.controller(cache),
        "jobflow": lambda: jobflow.controller(cache),
        "jobtemplate": lambda: jobtemplate.controller(cache),
        "garbage": lambda: garbage.controller(cache),
        "hypernode": lambda: hypernode.controller(cache, discovery),
        "timelimit": lambda: timelimit.controller(cache),
    }
    made = [make() for name, make in makers.items() if name in settings.enabled]
    return [msgspec.structs.replace(each, workers=settings.workers.get(each.name, each.workers)) for each in made]


def _discovery_config(client: Client, runtime: Runtime) -> Informer[ConfigMap]:
    """The ConfigMap that says which HyperNodes to discover, found as Volcano's controllers find it."""
    name = f"{os.environ.get('HELM_RELEASE_NAME', 'volcano')}-controller-configmap"
    namespace = os.environ.get("KUBE_POD_NAMESPACE", "volcano-system")
    fields = f"metadata.name={name}"
    return Informer(
        client,
        ConfigMap,
        clock=runtime.clock,
        chance=runtime.chance,
        namespace=namespace,
        fields=fields,
        log=runtime.log,
    )


def _record(
    client: Client, informers: Informers, settings: ControllerSettings, runtime: Runtime, meters: Meters
) -> Writer | None:
    """Imported only where there is a record."""
    if settings.record is None:
        return None
    from pumice.record.writer import Writer

    return Writer(client, informers, settings.record, runtime, meters)


def record_server(
    controllers: Controllers,
    client: Client,
    runtime: Runtime,
    settings: ControllerSettings,
    election: Election | None = None,
) -> RecordServer | None:
    """What answers about the record; None where there is none."""
    if controllers.record is None:
        return None
    from pumice.processes.record_server import RecordServer

    return RecordServer(controllers.record, client, runtime.clock, prices=settings.prices, election=election)


class Controllers:
    """All controllers over one API server."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        runtime: Runtime,
        settings: ControllerSettings = DEFAULT_SETTINGS,
        meters: Meters | None = None,
    ) -> None:
        self.cache = Cache(informers, runtime.clock)
        self._recorder = Recorder(client, component=COMPONENT, clock=runtime.clock, log=runtime.log)
        self._clock = runtime.clock
        self._log = runtime.log
        self.pulse = Pulse(runtime.clock)
        self.meters = meters or Meters()
        self._observer = JobObserver(self.meters, self.cache)
        self.record = _record(client, informers, settings, runtime, self.meters)
        self.executor = Executor(
            client,
            self.cache,
            self._recorder,
            guard=runtime.guard,
            fail_point=runtime.fail_point,
            fillings={ssh.KEYS: keys.fill},
            before_pod_goes=self.record.keep_lines_first if self.record is not None else None,
        )
        self._client = client
        self._runtime = runtime
        self._limits_time = "timelimit" in settings.enabled
        found = _controllers(self.cache, settings, _discovery_config(client, runtime))
        self.drivers = [self._driver(each) for each in found]

    def _driver(self, controller: Controller) -> Driver:
        return Driver(controller, self.cache, self.executor, self._runtime, observe=self._observer.looked)

    async def discover(self) -> None:
        """Adds controllers of kinds that not every API server has: Kubernetes' own groups are alpha."""
        if self._limits_time and await served_kinds(self._client, [NativePodGroup]):
            self.drivers.append(self._driver(timelimit.native_controller(self.cache)))
            self._limits_time = False  # once, however often it is elected

    async def run(self) -> None:
        """Control until cancelled. Informers must be running."""
        await self.discover()
        await self.cache.synced()
        self._observer.start()
        self.pulse.ready = True
        self._log("controllers_started", controllers=len(self.drivers))
        async with asyncio.TaskGroup() as crew:
            crew.create_task(self._recorder.run())
            crew.create_task(self._observe())
            if self.record is not None:
                crew.create_task(self.record.run())
            for driver in self.drivers:
                crew.create_task(driver.run())

    async def _observe(self) -> None:
        while True:
            self._observer.tell(self.executor, self.drivers)
            await self._clock.sleep(OBSERVE_S)

    def close(self) -> None:
        """For the end of the process."""
        if self.record is not None:
            self.record.close()
