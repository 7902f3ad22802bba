"""What a process node has of this machine: a folder, addresses, GPUs, and the pods that live on them.

<folder>/lock                          held while an agent uses the folder
<folder>/running/<pid>                 processes that run, for a successor to end
<folder>/pods/<uid>/{hosts,volumes,containers,logs}
<folder>/claims/<namespace>/<claim>-<uid>     unless claims are kept elsewhere
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
from typing import IO, TYPE_CHECKING, Self
from urllib.parse import urlsplit

import msgspec

from pumice import quantity
from pumice.api.names import NODE_AGENT
from pumice.errors import BadInput, Conflict
from pumice.local.nodes.containers import BACK_OFF_S_FIRST
from pumice.local.nodes.process import devices
from pumice.local.nodes.process.addresses import HOSTS, AddressBlock
from pumice.local.nodes.process.downward import Facts
from pumice.local.nodes.process.leftovers import Leftovers
from pumice.local.nodes.process.lifecycle import PodLife
from pumice.local.nodes.process.logs import PodLogs
from pumice.local.nodes.process.runner import Surroundings
from pumice.local.nodes.process.sources import PodSources
from pumice.local.nodes.process.volumes import PodVolumes, Storage
from pumice.local.nodes.registration import LEASE_S, NodeFacts
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pumice.api.pods import Pod
    from pumice.clock import Clock
    from pumice.kube.client import Client
    from pumice.local.nodes.containers import PodReport
    from pumice.local.nodes.process.devices import Given, Gpu
    from pumice.local.nodes.process.nvml import Nvml
    from pumice.local.nodes.process.podspec import ProcessPod
    from pumice.local.nodes.process.runner import Tell
    from pumice.local.nodes.process.sources import SourceWatches

PODS_MAX = 110  # a kubelet's default, and well within a block of addresses
SHUTDOWN_GRACE_S = 5.0


class ProcessSettings(Value, kw_only=True):
    """How a process node is set up; what is left out is taken from the machine."""

    name: str
    folder: Path
    gpus: Sequence[Gpu] = ()
    nvml: Nvml | None = None  # whom to ask what pods use of them; None: they are fake
    capacity: Mapping[str, str] = msgspec.field(default_factory=dict)
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    claims: Path | None = None  # nodes of one machine that share it share their claims
    host_roots: tuple[Path, ...] = ()  # hostPath volumes must lie beneath one of them
    server: str = ""  # the API server's address, for programs in pods that want to talk to it
    authority: bytes = b""  # PEM: certificates that it signed prove who asks for logs
    lease_s: int = LEASE_S
    shutdown_grace_s: float = SHUTDOWN_GRACE_S  # how long pods have to end when the agent does
    back_off_s_first: float = BACK_OFF_S_FIRST

    def facts(self, address: str, port: int) -> NodeFacts:
        """What the node says of itself."""
        capacity = machine_capacity(self.folder) | devices.capacity_of(self.gpus) | dict(self.capacity)
        return NodeFacts(
            name=self.name,
            runtime="process",
            capacity=capacity,
            labels=devices.labels_of(self.gpus) | dict(self.labels),
            annotations={NODE_AGENT: f"{socket.gethostname()}:{self.folder.resolve()}"} | devices.register(self.gpus),
            taints=self.taints,
            address=address,
            port=port,
        )

    def server_env(self) -> dict[str, str]:
        """By these a program in a pod finds the API server, as in any cluster."""
        parts = urlsplit(self.server)
        if not parts.hostname:
            return {}
        port = str(parts.port or 443)
        return {
            "KUBERNETES_SERVICE_HOST": parts.hostname,
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
        }


def machine_capacity(folder: Path) -> dict[str, str]:
    """All of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    disk = os.statvfs(folder)
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": quantity.format_bytes(memory),
        "ephemeral-storage": quantity.format_bytes(disk.f_frsize * disk.f_blocks),
        "pods": str(min(PODS_MAX, len(HOSTS))),
    }


class Machine:
    """One node's share of the machine; no other process uses its folder while it is open."""

    def __init__(self, settings: ProcessSettings, *, clock: Clock) -> None:
        self.settings = settings
        self.devices = devices.Devices(settings.gpus)
        self._clock = clock
        self._folder = settings.folder.resolve()
        self._stack = contextlib.ExitStack()
        self._logs: dict[str, PodLogs] = {}  # by the pod's uid
        self.addresses: AddressBlock
        self.records: Leftovers

    def __enter__(self) -> Self:
        with self._stack:
            self._open()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self) -> None:
        pods = self._folder / "pods"
        for folder in (self._folder, pods):
            folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)  # secrets lie in it as files
        self._stack.enter_context(_lock(self._folder / "lock"))
        self.addresses = self._stack.enter_context(AddressBlock())
        self.records = Leftovers(self._folder / "running")
        self._storage = Storage(
            claims=(self.settings.claims or self._folder / "claims").resolve(),
            host_roots=tuple(root.resolve() for root in self.settings.host_roots),
        )
        self._storage.claims.mkdir(parents=True, exist_ok=True)

    @property
    def probe_folder(self) -> Path:
        folder = self._folder / "probe"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def tls_folder(self) -> Path:
        return self._folder / "tls"

    def pod_folder(self, uid: str) -> Path:
        if not uid or "/" in uid or uid.startswith("."):
            raise BadInput(f"uid {uid!r} of a pod cannot be a folder's name; is this an API server?")
        return self._folder / "pods" / uid

    def logs(self, uid: str) -> PodLogs:
        if uid not in self._logs:
            self._logs[uid] = PodLogs(self.pod_folder(uid) / "logs", self._clock.now)
        return self._logs[uid]

    def known_pods(self) -> list[str]:
        """The uids of all pods that have a folder here."""
        return [path.name for path in (self._folder / "pods").iterdir() if not path.name.startswith(".")]

    def forget(self, uid: str) -> None:
        """Removes all that is left of a pod."""
        self._logs.pop(uid, None)
        shutil.rmtree(self.pod_folder(uid), ignore_errors=True)

    def give_back(self, uid: str) -> None:
        """The pod's address and GPUs may be used by others."""
        self.addresses.give_back(uid)
        self.devices.give_back(uid)

    def new_life(
        self,
        pod: Pod,
        full: ProcessPod,
        report: PodReport,
        *,
        client: Client,
        watches: SourceWatches,
        gpus: Given,
        changed: Callable[[], None],
        tell: Tell,
    ) -> PodLife:
        """The PodLife of a pod, ready to be run."""
        uid, folder = pod.metadata.uid, self.pod_folder(pod.metadata.uid)
        (folder / "volumes").mkdir(parents=True, exist_ok=True)
        facts = Facts(self.addresses.node, report.pod_ip, self.settings.facts(self.addresses.node, 0).capacity)
        sources = PodSources(watches, namespace=pod.metadata.namespace, uid=uid)
        volumes = PodVolumes(
            full,
            folder / "volumes",
            storage=self._storage,
            client=client,
            clock=self._clock,
            sources=sources,
            facts=facts,
        )
        surroundings = Surroundings(
            folder=folder,
            clock=self._clock,
            facts=facts,
            sources=sources,
            volumes=volumes,
            logs=self.logs(uid),
            records=self.records,
            given=self._extra_environment(pod, gpus),
            changed=changed,
            tell=tell,
            back_off_s_first=self.settings.back_off_s_first,
        )
        life = PodLife(full, report, surroundings)
        sources.changed = life.source_changed
        return life

    def _extra_environment(self, pod: Pod, gpus: Given) -> dict[str, dict[str, str]]:
        """What each container finds in its environment without asking; on a node with GPUs, also that it has none."""
        given = {
            name: self.settings.server_env()
            for name in (c.name for c in (*pod.spec.init_containers, *pod.spec.containers))
        }
        if self.settings.gpus:
            for name in given:
                given[name] |= devices.environment(gpus.get(name, ()))
        return given


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[IO[str]]:
    with path.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(
                f"{path.parent} is used by another node's agent; give this one a --data-dir of its own"
            ) from error
        yield held
