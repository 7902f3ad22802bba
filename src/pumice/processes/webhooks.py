"""The webhooks as a process: every replica serves; what they share is the Secret with the keys."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from pumice import files
from pumice.api import defaults
from pumice.api.flow import JobFlow
from pumice.api.scheduling import PodGroup
from pumice.api.validation import Settings as RuleSettings
from pumice.errors import PumiceError
from pumice.kube import errors
from pumice.processes.health import Pulse
from pumice.telemetry.meters import Meters
from pumice.values import Value
from pumice.webhooks.access import QueueAccess
from pumice.webhooks.admission import Admission, QueueRights
from pumice.webhooks.ca_bundle import inject
from pumice.webhooks.certificate_store import Files, ServingContext, SharedSecret
from pumice.webhooks.keys import Lives
from pumice.webhooks.lookups import InformerLookup
from pumice.webhooks.registration import CONFIGURATION, AccessMode
from pumice.webhooks.reviews import PodRules, Reviewer
from pumice.webhooks.serving import ReviewServer
from pumice.webhooks.submission_limits import SubmissionLimits
from pumice.webhooks.submitters import Submitters
from pumice.webhooks.target_queues import Destinations

if TYPE_CHECKING:
    from pumice.kube.client import Client
    from pumice.kube.informer import Informers
    from pumice.runtime import Runtime
    from pumice.webhooks.certificate_store import Source

ADMISSION_CONF_BYTES_MAX: Final = 2**20  # as much as a ConfigMap holds
LOOK_S: Final = 10.0  # between two looks at keys, configurations and files


class WebhookSettings(Value, kw_only=True):
    """What an operator may choose."""

    bind: str = "127.0.0.1:8443"
    namespace: str = "pumice-system"
    service: str = CONFIGURATION
    hosts: tuple[str, ...] = ()  # more names and addresses under which we are reached
    secret: str = "pumice-webhooks-tls"  # noqa: S105  the name of an object
    certificate_folder: str = ""
    configuration: str = CONFIGURATION
    injects: bool = True
    rules: RuleSettings = msgspec.field(default_factory=RuleSettings)
    access: AccessMode = AccessMode.OFF
    controllers: tuple[str, ...] = ()
    admission_conf: str = ""
    queue_gate: bool = False
    lives: Lives = msgspec.field(default_factory=Lives)
    look_s: float = LOOK_S


class Webhooks:
    """One replica."""

    def __init__(self, client: Client, informers: Informers, settings: WebhookSettings, runtime: Runtime) -> None:
        self._client = client
        self._informers = informers
        self._settings = settings
        self._clock = runtime.clock
        self._log = runtime.log
        self.pulse = Pulse(runtime.clock)
        self.meters = Meters()
        self.port = 0
        self._serving = ServingContext()
        self._source = self._keys()
        self._trusted = b""
        self._pod_rules = PodRules(queue_gate=settings.queue_gate)
        self._read_pod_rules(must=True)
        lookup = InformerLookup(informers)
        reviewer = Reviewer(lookup, settings.rules, lambda: self._pod_rules)
        self._access = QueueAccess(client, clock=runtime.clock)
        rights = None
        if settings.access != AccessMode.OFF:
            for struct in (PodGroup, JobFlow):
                informers.of(struct)  # asked for now, so that no review is answered before it is filled
            destinations = Destinations(lookup, lookup.pod_group, lookup.job_flows, settings.rules.scheduler_names)
            limits = SubmissionLimits(lookup.queue, lookup.pod_groups)
            rights = QueueRights(settings.access, Submitters(settings.controllers), destinations, self._access, limits)
        self._server = ReviewServer(Admission(reviewer, rights), self.meters)

    def _keys(self) -> Source:
        settings = self._settings
        if settings.certificate_folder:
            return Files(Path(settings.certificate_folder))
        service = f"{settings.service}.{settings.namespace}.svc"
        return SharedSecret(
            self._client,
            namespace=settings.namespace,
            name=settings.secret,
            hosts=(service, *settings.hosts),
            lives=settings.lives,
            clock=self._clock,
            log=self._log,
        )

    async def run(self) -> None:
        """Serve until cancelled. Informers must be running."""
        await self._informers.synced()
        gc.freeze()  # what was listed stays: the collector need not look at it again
        await self._look()
        self.port = await self._server.start(self._settings.bind, self._serving.context)
        self.pulse.ready = True
        self._log("webhooks_started", port=self.port, queue_access=self._settings.access.value)
        try:
            while True:
                await self._clock.sleep(self._settings.look_s)
                self._read_pod_rules(must=False)
                try:
                    await self._look()
                except PumiceError as error:  # the pair that serves is good for a long while yet
                    self._log("certificates_not_looked_at", error=str(error))
        finally:
            self.pulse.ready = False
            await self._server.stop()

    async def _look(self) -> None:
        """The pair that serves and the bundle that API servers trust are up to date."""
        pair, bundle = await self._source.current(self._trusted)
        if self._serving.take_up(pair):
            self._log("certificate_taken_up", expires=str(pair.expires))
            self.meters.set("pumice_admission_certificate_expiry", pair.expires.timestamp())
        if not self._settings.injects:
            self._trusted = bundle
        elif bundle:
            try:
                changed = await inject(self._client, self._settings.configuration, bundle)
            except errors.NotFound as error:
                self._log("configurations_not_installed", error=str(error))
            else:
                self._trusted = bundle
                if changed:
                    self._log("authority_injected", webhooks=changed)
        self._count()

    def _count(self) -> None:
        asked, self._access.asked = self._access.asked, 0
        self.meters.count("pumice_admission_access_reviews_total", asked)

    def _read_pod_rules(self, *, must: bool) -> None:
        """The operator's file as it is now; a bad one is refused at the start, and later leaves the last good one."""
        name = self._settings.admission_conf
        if not name:
            return
        try:
            groups = read_resource_groups(name)
        except PumiceError as error:
            if must:
                raise
            self._log("admission_conf_refused", error=str(error))
            return
        self._pod_rules = PodRules(groups, queue_gate=self._settings.queue_gate)


def read_resource_groups(name: str) -> tuple[defaults.ResourceGroup, ...]:
    """The resource groups of a file, or BadInput."""
    try:
        text = files.read(name, ADMISSION_CONF_BYTES_MAX)
    except OSError as error:
        raise errors.BadConfig(f"{name}: {error.strerror}; name a file with resourceGroups") from error
    return defaults.resource_groups(text, source=name)
