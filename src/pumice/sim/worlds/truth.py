"""Holds what gangs say while they wait against the store, all the while: a reason is a claim, and a claim is true, or it is not.

Nothing here asks the scheduler, or uses what it counts with. Where the scheduler may know of something that the store does not tell
(who ranks first, what it has in mind), the claim gets the benefit of the doubt; `CLAIMS` says of each reason what has to be so.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

import msgspec

from pumice import quantity
from pumice.api import names
from pumice.local.nodes.pretend import GPU
from pumice.sim.worlds.recent import Recent
from pumice.sim.worlds.volumes import ATTACHED_MAX
from pumice.values import Mutable, once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pumice.api.core import Node
    from pumice.api.scheduling import PodGroup
    from pumice.sim.worlds.witness import GangSeen, PodSeen, Witness

# So long a reason may stand after it has ceased to be true, where nothing keeps news from those who decide.
TRUE_S = 8.0
TRUE_S_MAX = 40.0  # and after the faults, where a leader may just have been lost
# The cluster counts as so many times its size when gangs are admitted: the default of every policy of worlds.
OVERCOMMIT = 1.2
_WAITING = frozenset({"Pending", "Inqueue"})
_REPELLING = frozenset({"NoSchedule", "NoExecute"})

Claim = dict[str, Any]  # a reason as its PodGroup has it


class Said(Mutable, eq=False):
    """One claim of a gang, for as long as it is made."""

    claim: Claim
    untrue_since: float | None = None


class Truth:
    """The claims of all gangs that wait, looked at whenever the store changes in something that they are about."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._said: dict[str, list[Said]] = {}  # by gang
        self._texts: dict[str, str] = {}  # the verdicts that they were read from
        self.is_stale = False  # something has changed since claims were looked at
        self.gangs: set[str] = set()  # all that there have been
        self._totals = Recent()
        self._ceilings: dict[str, Recent] = collections.defaultdict(Recent)

    def see_group(self, key: str, group: PodGroup) -> None:
        self.gangs.add(key)
        self.is_stale = True
        text = group.metadata.annotations.get(names.VERDICT, "") if group.status.phase in _WAITING else ""
        if not text:
            self.forget(key)
        elif text != self._texts.get(key):
            former = {msgspec.json.encode(each.claim): each for each in self._said.get(key, ())}
            claims = msgspec.json.decode(text)["reasons"]
            self._texts[key] = text
            self._said[key] = [former.get(msgspec.json.encode(each), Said(each)) for each in claims]
            for each in claims:
                self._check_words(key, group, each)

    def forget(self, key: str) -> None:
        self.is_stale = True
        self._said.pop(key, None)
        self._texts.pop(key, None)

    def _check_words(self, key: str, group: PodGroup, claim: Claim) -> None:
        """What must be so at the moment at which it is said, and may change while the claim stays."""
        code, facts, complain = claim["code"], claim.get("facts", {}), self._witness.complain
        if code not in CLAIMS:
            complain(f"gang {key} says {code}, and worlds do not know what has to be so then")
        for gang in (*filter(None, [facts.get("gang")]), *(facts.get("names", ()) if code in _NAMES_GANGS else ())):
            if gang not in self.gangs:
                complain(f"gang {key} says {code} of gang {gang}, which has never been")
        if facts.get("queue", group.spec.queue) != group.spec.queue:
            complain(f"gang {key} is in queue {group.spec.queue}, and waits for queue {facts['queue']}")
        if facts.get("former") and facts.get("until") and facts["until"] <= facts["former"]:
            complain(f"gang {key} says that it was put off from {facts['former']} to {facts['until']}")
        if code == "Reserved" and names.RESERVATION not in group.metadata.annotations:
            complain(f"gang {key} says that room is reserved for it, and its group does not say from when on")
        for amount in facts.get("amounts", ()):
            if amount.get("limit") and not self._is_limit(
                code, group.spec.queue, quantity.parse_milli(amount["limit"])
            ):
                complain(f"gang {key} says that there are {amount['limit']} {amount['resource']}: {claim['reason']}")

    def _is_limit(self, code: str, queue: str, thousandths: int) -> bool:
        """Whether the cluster, or the queue, has had so many; a share is a part of that."""
        known = self._totals if code == "ExceedsCluster" else self._ceilings[queue]
        values = known.since(self._witness.known_since())
        if code in _OF_SHARES:
            return not values or thousandths <= max(values) * 1000
        return not values or thousandths in {value * 1000 for value in values}

    def _note_limits(self, view: View, now: float) -> None:
        self._totals.put(now, view.total)
        for queue in view.queues:
            self._ceilings[queue].put(now, view.ceiling(queue))

    def check_reservation(self, key: str, gang: GangSeen, group: PodGroup, leader: str) -> None:
        """A time that a gang was told becomes later only for a cause that it is told, too; a new leader may know nothing of it."""
        notes = group.metadata.annotations
        text = notes.get(names.RESERVATION, "")
        if not text:
            gang.promised = None
            return
        until = msgspec.json.decode(text)["time"]
        if until == gang.kept:
            return
        if gang.promised is not None and gang.promised[1] == leader and until > gang.promised[0]:
            causes = [each["code"] for each in msgspec.json.decode(notes.get(names.VERDICT) or "{}").get("reasons", ())]
            if not any(each.startswith("Reservation") for each in causes):
                self._witness.complain(f"gang {key} was promised {gang.promised[0]}, then {until}, and not told why")
        gang.promised = until, leader

    def look(self, now: float) -> None:
        """Called after every change."""
        if self.is_stale:
            self.is_stale = False
            view = View(self._witness)
            self._note_limits(view, now)
            for key, said in self._said.items():
                for each in said:
                    is_true = CLAIMS.get(each.claim["code"], _anything)(view, view.gang(key), each.claim)
                    if is_true:
                        each.untrue_since = None
                    elif each.untrue_since is None:
                        each.untrue_since = now
        calm_since = 0.0 if self._witness.is_quiet else self._witness.calm_since
        if calm_since is None:
            return
        limit = now - (TRUE_S if self._witness.is_quiet else TRUE_S_MAX)
        for key, said in self._said.items():
            for each in said:
                if each.untrue_since is not None and max(each.untrue_since, calm_since) < limit:
                    self._witness.complain(
                        f"gang {key} says since {each.untrue_since:.3f} s what is not so: {each.claim['reason']}"
                    )
                    each.untrue_since = float("inf")


class Gang(Mutable, eq=False):
    """One that waits."""

    key: str
    group: PodGroup
    pods: list[PodSeen]  # all of its members that are not on their way out

    @property
    def queue(self) -> str:
        return self.group.spec.queue

    @property
    def minimum(self) -> int:
        """In GPUs."""
        return wanted(self.group)

    @property
    def missing(self) -> int:
        """Members that it lacks to start."""
        return self.group.spec.min_member - sum(1 for each in self.pods if each.node)

    @property
    def nominated(self) -> int:
        """Members for whose places others leave."""
        return sum(1 for each in self.pods if not each.node and each.nominated)

    @property
    def shares(self) -> set[str]:
        """Claims of devices that all of its members use."""
        return {key for pod in self.pods for key in pod.shares}

    @property
    def gpus(self) -> int:
        """Of a member: worlds have gangs of equal ones."""
        return max((each.gpus for each in self.pods), default=0)


class View:
    """The store at one moment; what is asked for is counted once."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self.gangs = witness.gangs
        self.groups = witness.groups
        self.queues = witness.queues
        self.nodes = witness.nodes
        self.devices = witness.devices
        self.volumes = witness.volumes
        self._members: dict[str, list[PodSeen]] = collections.defaultdict(list)
        self.being_left: set[str] = set()  # nodes that somebody is on the way out of
        for pod in witness.pods.values():
            if not pod.is_leaving:
                self._members[pod.group].append(pod)
            elif pod.node:
                self.being_left.add(pod.node)

    def gang(self, key: str) -> Gang:
        return Gang(key, self.groups[key], self._members[key])

    def waiting(self, but: str) -> Iterator[Gang]:
        """The others."""
        for key, group in self.groups.items():
            if key != but and group.status.phase in _WAITING:
                yield self.gang(key)

    @once
    def total(self) -> int:
        return sum(map(gpus_of, self.nodes.values()))

    @once
    def free(self) -> dict[str, int]:
        """Of nodes that take pods; who is on the way out still holds its room."""
        found = {name: gpus_of(node) for name, node in self.nodes.items() if not is_closed(node)}
        for pod in self._witness.pods.values():
            if pod.node in found and not pod.is_over:
                found[pod.node] -= pod.gpus
        return found

    @once
    def held(self) -> collections.Counter[str]:
        """GPUs by queue; those of pods on their way out, and of pods of others (""), too."""
        found: collections.Counter[str] = collections.Counter()
        for pod in self._witness.pods.values():
            if pod.node and not pod.is_over:
                group = self.groups.get(pod.group)
                found[group.spec.queue if group is not None else ""] += pod.gpus
        return found

    def taken(self, gang: Gang) -> int:
        """GPUs that its queue is charged for: what it holds, and the places of its other gangs for which others still leave somewhere.

        Such a gang keeps all of them until the last has left, also those that were free already: no pod is nominated for these.
        """
        own = (each for each in self.waiting(gang.key) if each.queue == gang.queue)
        promised = ((each, {pod.nominated for pod in each.pods if not pod.node} - {""}) for each in own)
        claimed = (each for each, nodes in promised if not nodes.isdisjoint(self.being_left))
        return self.held[gang.queue] + sum(max(each.nominated, each.missing) * each.gpus for each in claimed)

    def has_places(self, gang: Gang) -> bool:
        """Whether all that it lacks would find room, with the devices that they claim, and nobody else is promised any."""
        room = {name: max(free, 0) // gang.gpus for name, free in self.free.items()} if gang.gpus else {}
        pods = {pod.uid for pod in gang.pods}
        if gang.shares or any(each.pod in pods for each in self.devices.claims.values()):
            # Where its first members took the GPUs that have devices beside them, the others lack GPUs there.
            room = self.beside_devices(gang, room)
        return self.places(gang, room) >= gang.missing and not self.is_promised(gang)

    def beside_devices(self, gang: Gang, room: Mapping[str, int]) -> dict[str, int]:
        """As far as there are devices for its members: one for each, or one for all."""
        left = self.devices.free()
        if not gang.shares:
            return {name: min(count, max(left[name], 0)) for name, count in room.items()}
        claims = (self.devices.claims[key] for key in gang.shares if key in self.devices.claims)
        given = {node for claim in claims for node, _ in claim.devices}
        return {name: count if name in given or (not given and left[name] > 0) else 0 for name, count in room.items()}

    def places(self, gang: Gang, room: Mapping[str, int]) -> int:
        """For how many of its members there is room; all are near their volume, where they have one."""
        claims = [claim for pod in gang.pods for claim in pod.volumes]
        if not claims:
            return max(room.values(), default=0) if gang.shares else sum(room.values())
        if any(pod.has_scratch for pod in gang.pods):  # each has one of its own
            is_fixed = any(self.volumes.node_of([claim]) for claim in claims)
            left = {name: ATTACHED_MAX - len(self.volumes.attached(name)) for name in room}
            return 0 if is_fixed else sum(min(count, max(left[name], 0)) for name, count in room.items())
        there = self.volumes.node_of(claims)
        free = {
            name: count
            for name, count in room.items()
            if there in {"", name} and self.volumes.attached(name).issubset(claims)
        }
        return max(free.values(), default=0)

    def is_promised(self, gang: Gang) -> bool:
        """Whether others that wait have something in view: a reservation, places, or a part of their members started."""
        return any(
            names.RESERVATION in each.group.metadata.annotations or any(pod.nominated or pod.node for pod in each.pods)
            for each in self.waiting(gang.key)
        )

    def ceiling(self, queue: str) -> int:
        """The GPUs that a queue may hold; its own guarantee is among them, also while the cluster is smaller than all guarantees."""
        return min(self._witness.limits[queue].now(), self._unkept + self._witness.guarantees.get(queue, 0))

    @once
    def _unkept(self) -> int:
        """What is guaranteed to nobody."""
        return max(self.total - sum(self._witness.guarantees.values()), 0)

    def admitted(self, but: Gang, queue: str | None = None) -> int:
        """GPUs that were promised to gangs when they were admitted."""
        others = (each for each in self.waiting(but.key) if each.group.status.phase == "Inqueue")
        return sum(each.minimum for each in others if queue in {None, each.queue})

    @once
    def shares(self) -> dict[str, float]:
        """The part of the cluster that each queue deserves: the same for the same weight, as far as it wants and may have that much."""
        wants: collections.Counter[str] = collections.Counter()
        for key, group in self.groups.items():
            wants[group.spec.queue] += sum(pod.gpus for pod in self._members[key] if not pod.is_over)
        most = {queue: min(want, self.ceiling(queue)) for queue, want in wants.items() if queue in self.queues}
        least = {queue: min(self._witness.guarantees.get(queue, 0), self.total) for queue in most}
        weights = {queue: max(self.queues[queue].spec.weight, 1) for queue in most}

        def filled(level: float) -> dict[str, float]:
            return {queue: max(least[queue], min(most[queue], level * weights[queue])) for queue in most}

        low, high = 0.0, float(self.total)
        for _ in range(40):
            level = (low + high) / 2
            low, high = (level, high) if sum(filled(level).values()) <= self.total else (low, level)
        return filled(high)


def wanted(group: PodGroup) -> int:
    return int((group.spec.min_resources or {}).get(GPU, 0))


def gpus_of(node: Node) -> int:
    return int(node.status.allocatable.get(GPU, 0))


def is_closed(node: Node) -> bool:
    return node.spec.unschedulable or any(taint.effect in _REPELLING for taint in node.spec.taints)


# ------------------------------------------------------------------------------------------------- what has to be so


def _anything(view: View, gang: Gang, claim: Claim) -> bool:
    """Of what has been, or of what only the scheduler knows."""
    del view, gang, claim
    return True


def _no_room(view: View, gang: Gang, claim: Claim) -> bool:
    del claim
    return not view.has_places(gang)


def _exceeds_cluster(view: View, gang: Gang, claim: Claim) -> bool:
    del claim
    return gang.minimum > view.total


def _exceeds_nodes(view: View, gang: Gang, claim: Claim) -> bool:
    """Nodes that take no pods now may be among those that would take them."""
    del claim
    open_nodes = {name: node for name, node in view.nodes.items() if not is_closed(node)}
    room = {name: gpus_of(node) // gang.gpus for name, node in open_nodes.items()} if gang.gpus else {}
    return gang.missing > view.places(gang, room)


def _overcommitted(view: View, gang: Gang, claim: Claim) -> bool:
    del claim
    return gang.minimum + view.held.total() + view.admitted(gang) > OVERCOMMIT * view.total


def _quota(view: View, gang: Gang, claim: Claim) -> bool:
    return _is_own_queue(gang, claim) and (
        gang.minimum + view.held[gang.queue] + view.admitted(gang, gang.queue) > view.ceiling(gang.queue)
    )


def _quota_used(view: View, gang: Gang, claim: Claim) -> bool:
    return _is_own_queue(gang, claim) and (view.taken(gang) + gang.missing * gang.gpus > view.ceiling(gang.queue))


def _share_used(view: View, gang: Gang, claim: Claim) -> bool:
    return _is_own_queue(gang, claim) and (view.taken(gang) + gang.missing * gang.gpus > view.shares.get(gang.queue, 0))


def _share_too_small(view: View, gang: Gang, claim: Claim) -> bool:
    return _is_own_queue(gang, claim) and gang.minimum > view.shares.get(gang.queue, 0)


def _is_own_queue(gang: Gang, claim: Claim) -> bool:
    return bool(claim["facts"].get("queue", gang.queue) == gang.queue)


def _queue_not_open(view: View, gang: Gang, claim: Claim) -> bool:
    queue = view.queues.get(gang.queue)
    return _is_own_queue(gang, claim) and queue is not None and queue.status.state != "Open"


def _queue_missing(view: View, gang: Gang, claim: Claim) -> bool:
    return _is_own_queue(gang, claim) and gang.queue not in view.queues


def _pods_missing(view: View, gang: Gang, claim: Claim) -> bool:
    del view
    return len(gang.pods) < int(claim["facts"]["wanted"])


def _no_pods(view: View, gang: Gang, claim: Claim) -> bool:
    del view, claim
    return not gang.pods


def _some_node(is_so: Callable[[Node], bool]) -> Callable[[View, Gang, Claim], bool]:
    return lambda view, _gang, _claim: any(map(is_so, view.nodes.values()))


def _reserved(view: View, gang: Gang, claim: Claim) -> bool:
    del view, claim
    return names.RESERVATION in gang.group.metadata.annotations


def _reserved_for_others(view: View, gang: Gang, claim: Claim) -> bool:
    named = claim.get("facts", {}).get("gang")
    return any(
        names.RESERVATION in each.group.metadata.annotations and named in {None, each.key}
        for each in view.waiting(gang.key)
    )


def _promised_places(view: View, gang: Gang, claim: Claim) -> bool:
    del gang, claim
    return bool(view.being_left)


def _keeps_out(view: View, gang: Gang, claim: Claim) -> bool:
    """It was admitted, and all that it names wait."""
    waiting = {each.key for each in view.waiting(gang.key)}
    return gang.group.status.phase == "Inqueue" and waiting.issuperset(claim["facts"]["names"])


def _can_be_spared(view: View, gang: Gang, claim: Claim) -> bool:
    """Those that are named run more members than they must."""
    del gang
    for key in claim["facts"]["names"]:
        group = view.groups.get(key)
        if group is None or sum(1 for pod in view.gang(key).pods if pod.node) <= group.spec.min_member:
            return False
    return True


def _no_devices(view: View, gang: Gang, claim: Claim) -> bool:
    """There are too few on nodes with room, or others have something in view."""
    del claim
    places = {name: max(free, 0) // max(gang.gpus, 1) for name, free in view.free.items()}
    return view.places(gang, view.beside_devices(gang, places)) < gang.missing or view.is_promised(gang)


def _has_volume(view: View, gang: Gang, claim: Claim) -> bool:
    """A member mounts one; not every node will do."""
    return any(pod.volumes for pod in gang.pods) and _no_room(view, gang, claim)


def _volume_missing(view: View, gang: Gang, claim: Claim) -> bool:
    """The claim of a member names a volume that is not there."""
    del claim
    named = (view.volumes.claims.get(each, "") for pod in gang.pods for each in pod.volumes)
    return any(name and name not in view.volumes.disks for name in named)


def _some_devices(view: View, gang: Gang, claim: Claim) -> bool:
    """A member was given some, and has not come to them yet; or all share what the first would be given, and would not find room there."""
    waiting = {pod.uid for pod in gang.pods if not pod.node}
    claims = view.devices.claims.items()
    if any(each.devices and (each.pod in waiting or key in gang.shares) for key, each in claims):
        return True
    return bool(gang.shares) and _no_room(view, gang, claim)


def _claims_missing(view: View, gang: Gang, claim: Claim) -> bool:
    del claim
    if gang.shares:
        return not gang.shares.issubset(view.devices.claims)
    return not {each.pod for each in view.devices.claims.values()}.issuperset(pod.uid for pod in gang.pods)


def _has_scratch(view: View, gang: Gang, claim: Claim) -> bool:
    del view, claim
    return any(pod.has_scratch for pod in gang.pods)


def _scratch_missing(view: View, gang: Gang, claim: Claim) -> bool:
    """The claim of a member is not there, or is that of a former pod of its name."""
    del claim
    own = [pod for pod in gang.pods if pod.has_scratch]
    return any(view.volumes.owners.get(each) != pod.uid for pod in own for each in pod.volumes)


CLAIMS: dict[str, Callable[[View, Gang, Claim], bool]] = {
    "Insufficient": _no_room,
    "NotHeld": _no_room,
    "ExceedsCluster": _exceeds_cluster,
    "ExceedsNodes": _exceeds_nodes,
    "ClusterOvercommitted": _overcommitted,
    "QueueQuotaInsufficient": _quota,
    "QueueQuotaUsed": _quota_used,
    "QueueShareUsed": _share_used,
    "QueueShareTooSmall": _share_too_small,
    "QueueNotOpen": _queue_not_open,
    "QueueMissing": _queue_missing,
    "TaskPodsMissing": _pods_missing,
    "PodsMissing": _pods_missing,
    "NoPods": _no_pods,
    "Unschedulable": _some_node(lambda node: node.spec.unschedulable),
    "Taint": _some_node(is_closed),
    "Reserved": _reserved,
    "NodeReserved": _reserved_for_others,
    "WouldDelay": _reserved_for_others,
    "PlacesPromised": _promised_places,
    "QuotaHeld": _keeps_out,
    "SurplusAhead": _can_be_spared,
    "DevicesMissing": _no_devices,
    "DevicesElsewhere": _some_devices,
    "DeviceClaimAwaited": _claims_missing,
    "DeviceClaimMissing": _claims_missing,
    "VolumeAffinity": _has_volume,
    "VolumeNotFound": _has_volume,
    "VolumeMissing": _volume_missing,
    "VolumeLimit": _has_volume,
    "VolumeClaimMissing": _anything,
    "VolumeClaimAwaited": _scratch_missing,
    "VolumeClaimDeleted": _has_scratch,
    "HoldsWhileWaiting": lambda _view, gang, _claim: any(pod.node for pod in gang.pods),
    # Of what has been.
    "AttemptFailed": _anything,
    "QuotaGivenBack": _anything,
    "ReservationOutlived": _anything,
    "ReservationNodeLost": _anything,
    "ReservationOutranked": _anything,
    "ReservationRoomTaken": _anything,
    "ReservationGangChanged": _anything,
    # Of what the scheduler has tried out.
    "PreemptionFallsShort": _anything,
    "ReclaimFallsShort": _anything,
    "ConsolidationFallsShort": _anything,
    "EvictionDelayed": _anything,
    "VictimsProtected": _anything,
    "EvictionBudgetUsed": _anything,
    "EvictionUndone": _anything,
    "RoleFailed": _anything,
}
_OF_SHARES = frozenset({"QueueShareUsed", "QueueShareTooSmall"})
_NAMES_GANGS = frozenset({"QuotaHeld", "QuotaGivenBack", "SurplusAhead", "HoldsWhileWaiting"})
