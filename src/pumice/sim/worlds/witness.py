"""Sees every change that the store has kept, and says at once what must never be.

It believes nobody but the store. What only holds in the end is in `ending`.
"""

from __future__ import annotations

import collections
import re
from typing import TYPE_CHECKING, Any

import msgspec

from pumice.api import names, run_time
from pumice.api.batch import CronJob, Job
from pumice.api.coordination import Lease
from pumice.api.core import ConfigMap, Node, PersistentVolume, PersistentVolumeClaim
from pumice.api.flow import JobFlow
from pumice.api.pods import ENDED, Pod
from pumice.api.resource import ResourceClaim
from pumice.api.scheduling import PodGroup, Queue
from pumice.instant import SECOND
from pumice.local.nodes.pretend import GPU
from pumice.scheduling.core.memory import object_name
from pumice.scheduling.sharing import decayed_usage
from pumice.sim.worlds import lasting
from pumice.sim.worlds.apiserver import START
from pumice.sim.worlds.crons import Crons
from pumice.sim.worlds.devices import Devices
from pumice.sim.worlds.flows import Flows
from pumice.sim.worlds.leaders import Leaders
from pumice.sim.worlds.ledger import Ledger
from pumice.sim.worlds.recent import Recent
from pumice.sim.worlds.truth import Truth
from pumice.sim.worlds.volumes import Volumes, scratch_of
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pumice.api.meta import Struct
    from pumice.clock import VirtualClock
    from pumice.kube.transport import Request
    from pumice.local.apiserver.history import Change

USAGE = f"kube-system/{object_name(names.SCHEDULER_LEASE, decayed_usage.SLOT.name)}"
STALE_S = 150.0  # a process may know what was so this long ago: a silent watch is found out after 120 s
PROMPT_S = 6.0  # and where nothing keeps news from it, and no call is late
REPEATS_MAX = 20  # so many complaints tell enough
_TOLD_TO_GO = b'"DisruptionTarget"'
_GUARDED = re.compile(r"/(pods|podgroups)/")
_HOLDINGS = frozenset({"pods", "nodes"})
# Written though nothing happens; how many gangs of each phase queues have may be told half a minute late.
_FLEETING = frozenset({"leases.coordination.k8s.io", "nodes", "configmaps", "queues.scheduling.volcano.sh"})
_MARKED = frozenset({"pods", "resourceclaims.resource.k8s.io"})
_WAITING = frozenset({"Pending", "Inqueue"})
_STRUCTS: dict[str, type[Struct]] = {
    "pods": Pod,
    "nodes": Node,
    "podgroups.scheduling.volcano.sh": PodGroup,
    "queues.scheduling.volcano.sh": Queue,
    "jobs.batch.volcano.sh": Job,
    "leases.coordination.k8s.io": Lease,
    "jobflows.flow.volcano.sh": JobFlow,
    "cronjobs.batch.volcano.sh": CronJob,
    "configmaps": ConfigMap,
    "resourceclaims.resource.k8s.io": ResourceClaim,
    "persistentvolumes": PersistentVolume,
    "persistentvolumeclaims": PersistentVolumeClaim,
}


class PodSeen(Mutable, eq=False):
    uid: str
    key: str
    group: str  # namespace/name of its PodGroup
    node: str
    gpus: int
    is_over: bool
    is_leaving: bool
    is_ours: bool
    since: float  # when it came to its node
    job: str  # uid of what controls it
    version: int  # of its Job, when it was made
    nominated: str  # the node that it has been promised
    volumes: tuple[str, ...]  # claims that it mounts
    has_scratch: bool  # these are its own, and go with it
    shares: tuple[str, ...]  # claims of devices that others may use, too

    def holds_as(self, other: PodSeen) -> bool:
        """Whether it makes no difference to anybody's room which of the two it is."""
        return (self.node, self.is_over, self.is_leaving, self.nominated) == (
            other.node, other.is_over, other.is_leaving, other.nominated,
        )  # fmt: skip


class GangSeen(Mutable, eq=False):
    uid: str
    minimum: int
    queue: str
    was_whole: bool = False
    partial_since: float | None = None
    mute_since: float | None = None  # waits, and does not say why
    whole_since: float | None = None  # until it was asked what it says of that
    promised: tuple[str, str] | None = None  # the time of its reservation, and who led when it was told
    kept: str = ""  # a promise after which it was to start: whatever became of that, the next one is another


class Marks:
    """A leader marks every pod that waits, and its claims, once, before it decides anything: former writes are void then (docs/adr/0016)."""

    def __init__(self) -> None:
        self._written: set[str] = set()  # by uid

    def is_first(self, change: Change) -> bool:
        """Whether nothing but the mark was written, for the first time."""
        if change.collection not in _MARKED or change.before is None or change.after is None:
            return False
        before, after = (_unmarked(each.body) for each in (change.before, change.after))
        is_first = change.after.uid not in self._written
        self._written.add(change.after.uid)
        return is_first and before == after


class Witness:
    """`wrong` is what must not be, in sentences."""

    def __init__(self, clock: VirtualClock, grace_s: int) -> None:
        self._clock = clock
        self.grace_s = grace_s
        self.wrong: list[str] = []
        self.is_over = False
        self.calm_since: float | None = None
        self.is_still = False  # all that is to be done is done: whoever starts now has nothing to write
        self.is_quiet = False  # nothing goes wrong between processes: what must not last must not last now either
        self.pods: dict[str, PodSeen] = {}
        self.gangs: dict[str, GangSeen] = {}  # by namespace/name
        self.groups: dict[str, PodGroup] = {}
        self.jobs: dict[str, Job] = {}
        self.flows = Flows()
        self.crons = Crons()
        self.restarts: dict[str, tuple[int, float]] = {}  # by uid of the Job: its version, and since when
        self.queues: dict[str, Queue] = {}
        self.room: dict[str, Recent] = collections.defaultdict(Recent)
        self.limits: dict[str, Recent] = collections.defaultdict(Recent)
        self.guarantees: dict[str, int] = {}
        self.nodes: dict[str, Node] = {}
        self.ledger = Ledger()
        self.truth = Truth(self)
        self.devices = Devices(self)
        self.volumes = Volumes(self)
        self.leaders = Leaders(clock)
        self.binds = 0
        self._marks = Marks()
        self._answered: set[tuple[str, str]] = set()  # who has been told that which pod is bound
        self._decoders = {name: msgspec.json.Decoder(struct) for name, struct in _STRUCTS.items()}
        self._seers: dict[str, Callable[[str, Struct], None]] = {
            "pods": self._see_pod,  # type: ignore[dict-item]
            "nodes": self._see_node,  # type: ignore[dict-item]
            "podgroups.scheduling.volcano.sh": self._see_group,  # type: ignore[dict-item]
            "queues.scheduling.volcano.sh": self._see_queue,  # type: ignore[dict-item]
            "jobs.batch.volcano.sh": self._see_job,  # type: ignore[dict-item]
            "leases.coordination.k8s.io": self.leaders.see,  # type: ignore[dict-item]
            "jobflows.flow.volcano.sh": self._see_flow,  # type: ignore[dict-item]
            "cronjobs.batch.volcano.sh": self._see_cron,  # type: ignore[dict-item]
            "configmaps": self._see_config,  # type: ignore[dict-item]
            "resourceclaims.resource.k8s.io": self.devices.see,  # type: ignore[dict-item]
            "persistentvolumes": self.volumes.see_disk,  # type: ignore[dict-item]
            "persistentvolumeclaims": self.volumes.see_claim,  # type: ignore[dict-item]
        }

    def complain(self, text: str) -> None:
        if len(self.wrong) < REPEATS_MAX:
            self.wrong.append(f"at {self._clock.monotonic():.3f} s: {text}")

    def calm(self) -> None:
        """From now on nothing goes wrong by itself: what is half done has to be finished."""
        now = self.calm_since = self._clock.monotonic()
        for gang in self.gangs.values():
            if gang.partial_since is not None:
                gang.partial_since = now

    def now(self) -> float:
        return self._clock.monotonic()

    def known_since(self) -> float:
        """What was true only before that is known to nobody who decides."""
        return self._clock.monotonic() - (PROMPT_S if self.is_quiet else STALE_S)

    def known_room(self, node: str) -> int:
        """The most GPUs that somebody who decides now may take the node to have."""
        return self.room[node].most(self.known_since())

    # ------------------------------------------------------------------------------------------------- seeing

    def see(self, change: Change) -> None:
        see = self._seers.get(change.collection)
        if see is None:
            return
        entry = change.after or change.before
        assert entry is not None
        key = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
        if self.is_still and change.collection not in _FLEETING and not self._marks.is_first(change):
            self.complain(f"everything was started afresh, and {change.collection} {key} was written once more")
        if change.after is None:
            self._forget(change.collection, key, entry.uid)
        else:
            see(key, self._decoders[change.collection].decode(change.after.body))
        if change.collection in _HOLDINGS:
            total = sum(each.now() for each in self.room.values())
            self.ledger.put(self._clock.monotonic(), self.used(), total)
        self.look()
        self.truth.look(self._clock.monotonic())

    def _forget(self, collection: str, key: str, uid: str) -> None:
        self.truth.is_stale = True
        if collection == "pods":
            gone = self.pods.pop(uid, None)
            if gone is not None:
                self._count(gone.group)
        elif collection == "podgroups.scheduling.volcano.sh":
            self.gangs.pop(key, None)
            self.groups.pop(key, None)
            self.truth.forget(key)
        elif collection == "resourceclaims.resource.k8s.io":
            self.devices.claims.pop(key, None)
        elif collection == "persistentvolumes":
            self.volumes.disks.pop(key, None)
        elif collection == "persistentvolumeclaims":
            self.volumes.forget_claim(key)
        elif collection == "jobs.batch.volcano.sh":
            self.jobs.pop(key, None)
        elif collection == "cronjobs.batch.volcano.sh":
            self.crons.seen.pop(uid, None)
        elif collection == "nodes":
            self.nodes.pop(key, None)
            self.room[key].put(self._clock.monotonic(), 0)

    def _see_pod(self, key: str, pod: Pod) -> None:
        uid, now = pod.metadata.uid, self._clock.monotonic()
        before = self.pods.get(uid)
        seen = PodSeen(
            uid=uid,
            key=key,
            group=f"{pod.metadata.namespace}/{pod.metadata.annotations.get(names.GROUP_NAME, '')}",
            node=pod.spec.node_name,
            gpus=_gpus(pod),
            is_over=pod.status.phase in ENDED,
            is_leaving=pod.metadata.deletion_timestamp is not None,
            is_ours=names.ATTEMPT in pod.metadata.annotations,
            since=before.since if before is not None and before.node else now,
            job=pod.metadata.controller.uid if pod.metadata.controller is not None else "",
            version=int(pod.metadata.annotations.get(names.JOB_VERSION, 0)),
            nominated=pod.status.nominated_node_name,
            volumes=_claims_of(pod),
            has_scratch=bool(scratch_of(pod)),
            shares=_shared_claims_of(pod),
        )
        self.pods[uid] = seen
        self.truth.is_stale |= before is None or not seen.holds_as(before)
        if before is not None and before.node and before.node != seen.node:
            self.complain(f"pod {key} went from node {before.node} to {seen.node or 'none'}")
        if seen.node and (before is None or not before.node):
            self._bound(seen, pod.metadata.annotations.get(names.ATTEMPT, ""))
            self.devices.check_bound(seen)
            self.volumes.check_bound(seen)
        if seen.is_leaving and before is not None and before.node and not before.is_leaving:
            self.ledger.leave(now, self._queue_of(seen), seen.gpus, key)
        if seen.is_over and before is not None and before.node and not before.is_over:
            self.ledger.end(now, self._queue_of(seen), seen.gpus, run_time.ended_at(pod))
        self._count(seen.group)

    def _see_node(self, key: str, node: Node) -> None:
        before = self.nodes.get(key)
        self.nodes[key] = node
        if before is None or (before.spec, before.status.allocatable) != (node.spec, node.status.allocatable):
            self.truth.is_stale = True
            self.room[key].put(self._clock.monotonic(), int(node.status.allocatable.get(GPU, 0)))

    def _see_group(self, key: str, group: PodGroup) -> None:
        self.groups[key] = group
        self.truth.see_group(key, group)
        known = self.gangs.get(key)
        if known is None or known.uid != group.metadata.uid:
            known = self.gangs[key] = GangSeen(group.metadata.uid, 0, "")
        known.minimum, known.queue = group.spec.min_member, group.spec.queue
        if known.whole_since is not None:
            known.whole_since = self.now()  # a word from before that arrived late is corrected as any other
        is_mute = group.status.phase in _WAITING and names.VERDICT not in group.metadata.annotations
        if not is_mute:
            known.mute_since = None
        elif known.mute_since is None:
            known.mute_since = self._clock.monotonic()
        self.truth.check_reservation(key, known, group, self.leaders.of(names.SCHEDULER_LEASE).identity)
        self._count(key)

    def _see_queue(self, key: str, queue: Queue) -> None:
        self.truth.is_stale = True
        self.queues[key] = queue
        self.limits[key].put(self._clock.monotonic(), int(queue.spec.capability.get(GPU, 1_000_000)))
        self.guarantees[key] = int(queue.spec.guarantee.resource.get(GPU, 0))

    def _see_job(self, key: str, job: Job) -> None:
        self.jobs[key] = job
        for text in self.crons.see_job(job, self.jobs, is_quiet=self.is_quiet):
            self.complain(text)
        uid, version = job.metadata.uid, job.status.version
        if version and self.restarts.get(uid, (0, 0.0))[0] != version:
            self.restarts[uid] = version, self._clock.monotonic()

    def _see_cron(self, key: str, cron: CronJob) -> None:
        del key
        self.crons.seen[cron.metadata.uid] = cron

    def _see_flow(self, key: str, flow: JobFlow) -> None:
        for text in self.flows.see(key, flow):
            self.complain(text)

    def _see_config(self, key: str, config: ConfigMap) -> None:
        """Use that is written down is what was used until then."""
        if key == USAGE:
            told = decayed_usage.SLOT.decode(config.data[names.MEMORY_KEY].encode())
            for text in self.ledger.doubts(told, ((told.at or START) - START) / SECOND):
                self.complain(f"{text}, and has written that down")

    # ------------------------------------------------------------------------------------------------- judging

    def _bound(self, pod: PodSeen, attempt: str) -> None:
        """A pod has come to a node: neither the node nor the queue may hold more than it has, by our doing."""
        if not attempt:
            return
        self.binds += 1
        self.ledger.bind(self.now(), self._queue_of(pod), pod.gpus, int(attempt.partition("-")[0]))
        since = self.known_since()
        held = sum(
            each.gpus
            for each in self.pods.values()
            if each.node == pod.node and not each.is_over and (each.is_ours or each.since < since)
        )
        room = self.known_room(pod.node)
        if held > room:
            self.complain(f"node {pod.node} holds pods of {held} GPUs and has {room}, with {pod.key} bound last")
        gang = self.gangs.get(pod.group)
        if gang is not None:
            self._check_queue(gang.queue, pod, since)

    def _check_queue(self, queue: str, pod: PodSeen, since: float) -> None:
        used = self.used()
        limit = self.limits[queue].most(since)
        if used[queue] > limit:
            self.complain(f"queue {queue} uses {used[queue]} GPUs and may use {limit}, with {pod.key} bound last")
        room = {node: each.most(since) for node, each in self.room.items()}
        total, held = sum(room.values()), _held(self._holdings(), room)
        kept = sum(max(held[other], own) for other, own in self.guarantees.items() if own and other != queue)
        if held[queue] + kept > total:
            self.complain(f"queue {queue} uses {held[queue]} GPUs of {total}, and {kept} are kept for others")

    def used(self) -> collections.Counter[str]:
        """The GPUs that each queue is charged for: those of pods that have to go are not."""
        return _sums(self._holdings())

    def _holdings(self) -> Iterator[tuple[str, str, int]]:
        """Queue, node and GPUs of every pod that is charged."""
        for each in self.pods.values():
            if each.node and not each.is_over and not each.is_leaving:
                yield self._queue_of(each), each.node, each.gpus

    def _queue_of(self, pod: PodSeen) -> str:
        gang = self.gangs.get(pod.group)
        return gang.queue if gang is not None else ""

    def _count(self, group: str) -> None:
        """Whether the gang is whole, or only a part of it has places."""
        gang = self.gangs.get(group)
        if gang is None or gang.was_whole:
            return
        members = [each for each in self.pods.values() if each.group == group and each.node and not each.is_leaving]
        holds = any(not each.is_over for each in members)
        if len(members) >= gang.minimum:
            gang.was_whole, gang.partial_since, gang.whole_since = True, None, self._clock.monotonic()
        elif not holds:
            gang.partial_since = None
        elif gang.partial_since is None:
            gang.partial_since = self._clock.monotonic()

    def look(self) -> None:
        """What is wrong because it lasts, once nothing keeps it from being mended."""
        calm_since = 0.0 if self.is_quiet else self.calm_since
        if calm_since is None:
            return
        now = self._clock.monotonic()
        for text in (*lasting.of_gangs(self, now, calm_since), *self.devices.kept(now)):
            self.complain(text)
        for text in lasting.of_restarts(self, now, calm_since):
            self.complain(text)

    def sent(self, identity: str, request: Request) -> None:
        """Only who leads may write to pods and their groups, and nobody binds again what it knows to be bound."""
        if request.method == "GET" or not _GUARDED.search(request.path):
            return
        leader = self.leaders.of(names.SCHEDULER_LEASE)
        if leader.identity not in {"", identity}:
            self.complain(
                f"{identity} sends {request.method} {request.path} while {leader.identity} leads since {leader.since:.3f} s"
            )
        if request.path.endswith("/binding"):
            self._check_bind(identity, request)
        elif request.path.endswith("/eviction") or _TOLD_TO_GO in (request.body or b""):
            self.ledger.ask(self._clock.monotonic(), _pod_of(request.path))

    def _check_bind(self, identity: str, request: Request) -> None:
        uid = _uid(request)
        if (identity, uid) in self._answered:
            self.complain(f"{identity} sends a bind again: {request.path} was answered with a yes")
        gang = self.gangs.get(self.pods[uid].group) if uid in self.pods else None
        if gang is not None and gang.promised is not None:
            gang.kept, gang.promised = gang.promised[0], None

    def answered(self, identity: str, request: Request) -> None:
        """A yes has come back."""
        if request.path.endswith("/binding"):
            self._answered.add((identity, _uid(request)))


def _sums(holdings: Iterable[tuple[str, str, int]]) -> collections.Counter[str]:
    found: collections.Counter[str] = collections.Counter()
    for queue, _, gpus in holdings:
        found[queue] += gpus
    return found


def _held(holdings: Iterable[tuple[str, str, int]], room: Mapping[str, int]) -> collections.Counter[str]:
    """What queues use of what there is: a node that went, or shrank below its pods, takes nothing from the others."""
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    for queue, node, gpus in holdings:
        found[queue, node] += gpus
    return _sums((queue, node, min(gpus, room.get(node, 0))) for (queue, node), gpus in found.items())


def _unmarked(body: bytes) -> Any:
    """An object without what the mark of a leader changes."""
    thing = msgspec.json.decode(body)
    metadata = thing["metadata"]
    metadata.pop("resourceVersion")
    metadata.pop("managedFields", None)
    annotations = metadata.pop("annotations", {})
    return thing, {name: text for name, text in annotations.items() if name != names.LEADER}


def _pod_of(path: str) -> str:
    """Whose eviction or status it is."""
    _, namespace, _, name, _ = path.rsplit("/", 4)
    return f"{namespace}/{name}"


def _uid(request: Request) -> str:
    return str(msgspec.json.decode(request.body or b"{}")["metadata"]["uid"])


def _claims_of(pod: Pod) -> tuple[str, ...]:
    used = (each.persistent_volume_claim for each in pod.spec.volumes)
    found = [*(each.claim_name for each in used if each is not None), *scratch_of(pod)]
    return tuple(f"{pod.metadata.namespace}/{each}" for each in found)


def _shared_claims_of(pod: Pod) -> tuple[str, ...]:
    named = (each.resource_claim_name for each in pod.spec.resource_claims)
    return tuple(f"{pod.metadata.namespace}/{each}" for each in named if each is not None)


def _gpus(pod: Pod) -> int:
    return sum(int(each.resources.requests.get(GPU, each.resources.limits.get(GPU, 0))) for each in pod.spec.containers)
