"""Every reason that something waits, or has to go: one code each, the facts that go with it, and the sentence made of both.

A code is what programs match on, the sentence is what people read. Where Volcano says the same, the sentence is Volcano's to the
letter, because its users match on that. To add a reason: a member here, an example in
tools/docs/reasons.py and its sentence in tests/unit/scheduling/core/test_codes.py.
"""

from __future__ import annotations

import enum
import operator
from typing import TYPE_CHECKING, Annotated, Self

import msgspec
from msgspec import Meta, Struct

from pumice.cluster import amounts as units
from pumice.digits import counted

if TYPE_CHECKING:
    from collections.abc import Callable


class Amount(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a reason says of one resource, as Kubernetes quantities; only what it is about is there."""

    resource: str
    wanted: str = ""  # asked for
    held: str = ""  # in use
    promised: str = ""  # to others, who have not got it yet
    free: str = ""  # left
    limit: str = ""  # of all

    @classmethod
    def of(cls, resource: str, **numbers: float) -> Amount:
        """From numbers in the resource's own unit."""
        return cls(resource, **{name: units.quantity_text(resource, value) for name, value in numbers.items()})


def wanted_amounts(request: units.Amounts) -> tuple[Amount, ...]:
    """What is asked for, resource by resource."""
    return tuple(Amount.of(name, wanted=request[name]) for name in units.in_reading_order(request))


class Facts(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a reason is about; each code uses a few of these. Numbers, and where pods are, may change while the reason stays."""

    text: Annotated[str, Meta(description="words of a plugin, a program or a server that is not ours")] = ""
    resource: Annotated[str, Meta(description="name of a resource")] = ""
    amounts: Annotated[tuple[Amount, ...], Meta(description="of resources: wanted, held, promised, free, limit")] = ()
    queue: Annotated[str, Meta(description="name of a queue")] = ""
    state: Annotated[str, Meta(description="state of the queue")] = ""
    parent: Annotated[str, Meta(description="parent that a queue names")] = ""
    child: Annotated[str, Meta(description="queue that names the parent")] = ""
    gang: Annotated[str, Meta(description="namespace/name of a PodGroup, or `a gang of others`")] = ""
    role: Annotated[str, Meta(description="task of a Job, or sub group policy")] = ""
    names: Annotated[tuple[str, ...], Meta(description="several of what the reason is about")] = ()
    name: Annotated[str, Meta(description="a claim, quota, container, gate or policy, by its name")] = ""
    volume: Annotated[str, Meta(description="name of a PersistentVolume")] = ""
    zone: Annotated[str, Meta(description="revocable zone")] = ""
    window: Annotated[str, Meta(description="time of day in which the zone is open")] = ""
    tier_name: Annotated[str, Meta(description="name of a tier of hyper nodes")] = ""
    tier: Annotated[int | None, Meta(description="highest tier that is allowed")] = None
    own_tier: Annotated[int | None, Meta(description="tier of the hyper node")] = None
    hyper_node: Annotated[str, Meta(description="name of a hyper node")] = ""
    pod: Annotated[str, Meta(description="a pod, as an example for all that are equal")] = ""
    node: Annotated[str, Meta(description="name of a node")] = ""
    user: Annotated[str, Meta(description="the user to whom the gang is charged")] = ""
    limit: Annotated[int | None, Meta(description="how many there may be")] = None
    holders: Annotated[tuple[str, ...], Meta(description="gangs that take up a limit, some of them")] = ()
    until: Annotated[
        str,
        Meta(description="a time: when room is expected for the gang that it is reserved for, or a protection ends"),
    ] = ""
    former: Annotated[str, Meta(description="when that was expected before")] = ""
    wanted: Annotated[int | None, Meta(description="how many are needed")] = None
    free: Annotated[int | None, Meta(description="for how many there is room, or how many there are")] = None
    seconds: Annotated[int | None, Meta(description="how long it was waited")] = None

    @property
    def subject(self) -> tuple[object, ...]:
        """The facts that make it another reason when they change."""
        return (*_SUBJECT(self), *(each.resource for each in self.amounts))


_MOVES = {
    "amounts", "holders", "limit", "hyper_node", "own_tier", "pod", "node", "until", "former", "wanted", "free", "seconds",
}  # fmt: skip
_SUBJECT: Callable[[Facts], tuple[object, ...]] = operator.attrgetter(
    *(field for field in Facts.__struct_fields__ if field not in _MOVES)
)
NO_FACTS = Facts()
A_GANG_OF_OTHERS = "a gang of others"  # in place of a key, for readers who may not see whose


def _amounts_text(facts: Facts, pattern: str, separator: str = "; ") -> str:
    return separator.join(pattern.format_map(_for_people(each)) for each in facts.amounts)


def _for_people(own: Amount) -> dict[str, str]:
    """Half a GPU is 0.5, and not 500m as programs say; of a core everybody says 500m."""
    return {
        field: f"{int(text[:-1]) / 1000:g}"
        if text.endswith("m") and text[:-1].isdecimal() and (own.resource != "cpu" or len(text) > 4)
        else text
        for field, text in msgspec.structs.asdict(own).items()
    }


def _own_words(facts: Facts) -> str:
    """A plugin's text, with the other facts put in where it has `{names}` of them."""
    try:
        return facts.text.format_map(msgspec.structs.asdict(facts))
    except (LookupError, ValueError, AttributeError):
        return facts.text  # no pattern after all


def _queue_quota(facts: Facts) -> str:
    """Volcano's sentence, and in brackets who holds what where that is known."""
    text = f"queue resource quota insufficient: {_amounts_text(facts, 'insufficient {resource}', ', ')}"
    if not facts.queue:
        return text
    return f"{text} (queue {facts.queue}, {_amounts_text(facts, '{resource}: holds {held}, may hold {limit}')})"


def _namespace_quota(facts: Facts) -> str:
    wanted, held, limit = (
        _amounts_text(facts, f"{{resource}} {{{each}}}", ", ") for each in ("wanted", "held", "limit")
    )
    text = (
        f"resource quota insufficient, requested: {wanted}, used: {held}, limited: {limit} (ResourceQuota {facts.name}"
    )
    promised = any(each.promised for each in facts.amounts)
    others = _amounts_text(facts, "{resource} {promised}", ", ")
    return f"{text}, promised to admitted gangs: {others})" if promised else f"{text})"


def _none_left(what: str) -> Callable[[Facts], str]:
    pattern = "{resource}: {free} left of {limit}, the gang asks for {wanted}"
    return lambda facts: f"queue {facts.queue} has no {what} left ({_amounts_text(facts, pattern)})"


def _queue_share_too_small(facts: Facts) -> str:
    parts = _amounts_text(facts, "{limit} {resource}, the gang's minimum is {wanted}", " and ")
    return f"queue {facts.queue} deserves {parts}; it starts only while other queues want less, or with more weight"


def _held(facts: Facts) -> str:
    return _amounts_text(facts, "{held} {resource}", ", ")


def _holds_while_waiting(facts: Facts) -> str:
    text = (
        f"holds {_held(facts)} with {facts.free} of the {facts.wanted} members that must start together,"
        " and the others find no place"
    )
    if facts.names:
        text += f"; with that room {', '.join(facts.names)} would start"
    if facts.gang:
        text += f"; it would start with the room that {facts.gang} holds, which waits as well"
    leaving = facts.gang or "it"
    return f"{text}; unless that changes, {leaving} gives its room up at {facts.until}" if facts.until else text


def _quota_held(facts: Facts) -> str:
    text = f"was admitted, finds no room, and keeps {', '.join(facts.names)} out: {_held(facts)} are promised to it"
    return f"{text}; unless that changes, it gives its admission back at {facts.until}" if facts.until else text


def _holders(facts: Facts) -> str:
    more = (facts.free or 0) - len(facts.holders)
    return f"{', '.join(facts.holders)}{f' and {more} more' if more > 0 else ''}"


def _user_gangs(verb: str, has: str) -> Callable[[Facts], str]:
    return lambda facts: (
        f"user {facts.user} may {verb} {counted(facts.limit or 0, 'gang')} in queue {facts.queue} and {has} {facts.free}"
        + (f" ({_holders(facts)})" if facts.holders else "")
    )


def _user_resources(facts: Facts) -> str:
    parts = _amounts_text(facts, "{limit} {resource}, holds {held} and asks for {wanted}", "; ")
    by = f" ({_holders(facts)})" if facts.holders else ""
    return f"user {facts.user} may hold in queue {facts.queue} {parts}{by}"


def _exceeds_cluster(facts: Facts) -> str:
    parts = _amounts_text(facts, "{resource} {wanted} of {limit}")
    return f"can never run here: its minimum asks for more than the whole cluster has ({parts})"


def _exceeds_nodes(facts: Facts) -> str:
    each = _amounts_text(facts, "{resource} {wanted}", ", ")
    if facts.wanted == 1:
        return f"can never run here: no node could take such a pod ({each}), even when empty"
    return (
        f"can never run here: {facts.wanted} such pods must start together ({each} each), "
        f"and the nodes that may take them hold {facts.free} even when empty"
    )


def _no_hyper_node(what: str) -> Callable[[Facts], str]:
    return lambda facts: (
        f"no hyper node within tier {facts.tier} has room for {what} ({_amounts_text(facts, '{resource} {wanted}', ', ')})"
    )


def _queue_ring(facts: Facts) -> str:
    return (
        f"queue {facts.queue} is cut off: its ancestors form a ring ({' -> '.join(facts.names)}); "
        f"give one of them a parent that leads to {facts.parent}"
    )


def _tier_name_unknown(facts: Facts) -> str:
    return (
        f"no hyper node has the tier name {facts.tier_name!r} of highestTierName; "
        f"known are {', '.join(facts.names) or 'none'}: correct the one or the other"
    )


def _reservation_moved(cause: str) -> Callable[[Facts], str]:
    """From one time to a later one, or to none at all."""
    moved, ended = "its reservation moved from {former} to {until}", "its reservation for {former} has ended"
    return lambda facts: f"{moved if facts.until else ended}: {cause}".format_map(msgspec.structs.asdict(facts))


def _released_incomplete(facts: Facts) -> str:
    missing = (facts.wanted or 0) - (facts.free or 0)
    bound = f"{facts.free} of {facts.wanted} members were bound"
    return f"{bound}, {missing} found no room within {facts.seconds} s"


_VOLUMES = "plugin VolumeBinding pre-predicates failed "
_CLAIMS = "plugin DynamicResources pre-predicates failed "
_SPREAD = "node(s) didn't match pod topology spread constraints"


class Code(enum.Enum):
    """Why something waits, or has to go. The value is its name in JSON."""

    def __new__(cls, value: str, meaning: str, sentence: str | Callable[[Facts], str]) -> Self:
        member = object.__new__(cls)
        member._value_ = value
        member.meaning = meaning
        member.sentence = sentence
        return member

    meaning: str
    sentence: str | Callable[[Facts], str]  # a pattern over the facts, or what makes one of them

    def text(self, facts: Facts) -> str:
        """The sentence for people."""
        if callable(self.sentence):
            text = self.sentence(facts)
        elif "{" not in self.sentence:
            return self.sentence
        else:
            text = self.sentence.format_map({**msgspec.structs.asdict(facts), "names": ", ".join(facts.names)})
        return text.replace(f"gang {A_GANG_OF_OTHERS}", A_GANG_OF_OTHERS)

    # fmt: off
    PLUGIN = "Plugin", "a plugin from outside of Pumice says no, in its own words", _own_words

    # The queue.
    QUEUE_MISSING = "QueueMissing", "the gang's queue does not exist", (
        "queue {queue} does not exist; create it or name another one")
    QUEUE_NOT_OPEN = "QueueNotOpen", "the gang's queue is not open", "queue {queue} is {state}: open it to admit gangs"
    QUEUE_PARENT_MISSING = "QueueParentMissing", "the queue, or one above it, names a parent that does not exist", (
        "queue {queue} is cut off: the parent of queue {child}, {parent}, does not exist; "
        "create {parent} or give {child} another parent")
    QUEUE_RING = "QueueRing", "the parents of the queue lead back to themselves", _queue_ring
    QUEUE_HAS_CHILDREN = "QueueHasChildren", "gangs belong into queues without children", (
        "queue {queue} has child queues and so takes no gangs itself; use one of {names}, or give them another parent")
    BEHIND = "Behind", "the queue is of strict order, and a gang ahead does not fit", (
        "queue {queue} starts its gangs in order, and {gang} ahead of it does not fit yet")
    QUEUE_QUOTA_USED = "QueueQuotaUsed", "the queue, or one above it, may hold no more", _none_left("quota")
    QUEUE_SHARE_USED = "QueueShareUsed", "the queue holds all of its share by weight", _none_left("share")
    QUEUE_SHARE_TOO_SMALL = "QueueShareTooSmall", "the gang's minimum is larger than the queue's whole share", (
        _queue_share_too_small)
    QUEUE_DEVICES_USED = "QueueDevicesUsed", "the queue may hold no more devices of these classes", (
        "queue {queue} has no devices left: {names}")
    QUEUE_QUOTA_INSUFFICIENT = "QueueQuotaInsufficient", "admitting the gang would exceed what its queue may hold", (
        _queue_quota)
    QUEUE_DEVICES_INSUFFICIENT = "QueueDevicesInsufficient", "admitting the gang would exceed its queue's devices", (
        "queue resource quota insufficient: insufficient dra-resource-exceeded (queue {queue}, {names})")
    NAMESPACE_QUOTA = "NamespaceQuota", "a ResourceQuota of the namespace would refuse some of the gang's pods", (
        _namespace_quota)
    CLUSTER_OVERCOMMITTED = "ClusterOvercommitted", "gangs that are admitted already will take what the cluster has", (
        lambda facts: f"resource in cluster is overused: {', '.join(f'overused {name}' for name in facts.names)}")

    USER_RUNNING = "UserRunning", "as many gangs of the user run, or were admitted, as may", _user_gangs("run", "runs")
    USER_SUBMITTED = "UserSubmitted", "the user has as many gangs in the queue as it may have", _user_gangs("have", "has")
    USER_RESOURCES = "UserResources", "the user would hold more of a resource than it may", _user_resources
    USER_LIMITS_UNREADABLE = "UserLimitsUnreadable", "the queue's limits for users cannot be read", (
        "queue {queue} lets no gang start, because its annotation pumice.dev/user-limits cannot be read: {text}")

    # The gang.
    TASK_PODS_MISSING = "TaskPodsMissing", "fewer pods of a task exist than must start together", (
        "Not enough valid pods of each task for gang-scheduling, task {role!r}: {free}, min: {wanted}")
    SUB_GROUPS_MISSING = "SubGroupsMissing", "fewer sub groups exist than must start together", (
        "Not enough sub groups of policy {role}, valid: {free}, min: {wanted}")
    PODS_MISSING = "PodsMissing", "fewer pods exist than must start together", (
        "Not enough valid tasks for gang-scheduling, valid: {free}, min: {wanted}")
    NO_PODS = "NoPods", "the gang is admitted, and none of its pods exists yet", (
        "no pods yet: 0 of {wanted} members are created")
    POD_COUNT = "PodCount", "fewer pods exist than must start together, as a listing shows", (
        "{free} of the {wanted} pods that must start together exist")
    EVICTION_DELAYED = "EvictionDelayed", "others have to leave for the gang only once it has waited for a while", (
        "may not evict others before {until}: the policy lets gangs wait for {seconds} s first")
    VICTIMS_PROTECTED = "VictimsProtected", "pods that could make room are left alone for a while", (
        "gang {gang}, which could make room, is protected from eviction until {until}")
    EVICTION_BUDGET_USED = "EvictionBudgetUsed", "a queue whose gangs could make room has lost as many as it may in an hour", (
        "queue {queue} has lost as many gangs within an hour as it may, {limit}; the next one may go at {until}")
    DISRUPTION_BUDGET = "DisruptionBudget", "a PodDisruptionBudget keeps pods from leaving that could make room", (
        "PodDisruptionBudget {name} allows no eviction now: pods of gang {gang}, which could make room, stay")
    EVICTION_UNDONE = "EvictionUndone", "those that would have to leave would win their room back by the same rule", (
        "gang {gang} could make room, and would win it back at once: nobody is evicted for that")
    GATED = "Gated", "pods are held by a scheduling gate", "{free} of {wanted} pods are held by the scheduling gate {name}"
    PLACES_PROMISED = "PlacesPromised", "pods have places that others must leave first", (
        "{free} of its {wanted} pods have got a place that others must leave first")
    EXCEEDS_CLUSTER = "ExceedsCluster", "the gang's minimum is more than all nodes together have", _exceeds_cluster
    EXCEEDS_NODES = "ExceedsNodes", "even empty, the nodes that may take the gang's pods hold too few", _exceeds_nodes
    ATTEMPT_FAILED = "AttemptFailed", "binding the gang failed, and is tried again after a pause", (
        "the last attempt failed, and the next one follows: {text}")
    PLUGIN_FAILED = "PluginFailed", "a plugin raised an error; other gangs are served", (
        "not planned in this cycle: plugin {name} failed ({text}); see the scheduler's log, and correct the plugin or the object")
    ROLE_FAILED = "RoleFailed", "another pod of the same task found no node in this cycle", (
        "Task {pod} with role spec {role} has already predicated failed, skip")
    PREEMPTION_FALLS_SHORT = "PreemptionFallsShort", "evicting all gangs of lower priority would not be enough", (
        "evicting every gang of lower priority in queue {queue} would make room for {free} of {wanted} members "
        "that must start together")
    RECLAIM_FALLS_SHORT = "ReclaimFallsShort", "what other queues must give back would not be enough", (
        "evicting everything that other queues must give back would make room for {free} of {wanted} members "
        "that must start together")

    CONSOLIDATION_FALLS_SHORT = "ConsolidationFallsShort", "moving all that may be moved would not be enough", (
        "moving everything that may be moved would make room for {free} of {wanted} members that must start together")

    # Deadlocks.
    HOLDS_WHILE_WAITING = "HoldsWhileWaiting", "a gang that lost members holds room, and finds none for them", (
        _holds_while_waiting)
    QUOTA_HELD = "QuotaHeld", "an admitted gang finds no room, and what it was promised keeps others out", _quota_held
    QUOTA_GIVEN_BACK = "QuotaGivenBack", "the gang gave its admission back for others that have room", (
        lambda facts: f"gave its admission back: it found no room for {facts.seconds} s and kept {', '.join(facts.names)} out; "
        f"it may be admitted again from {facts.until} on")
    SURPLUS_AHEAD = "SurplusAhead", "members that other gangs run beyond their minimums hold room with which the gang would start", (
        lambda facts: f"would start with the room of {facts.free} that {', '.join(facts.names)} can spare; "
        f"unless that changes, they leave for it at {facts.until}")

    # Reservations.
    RESERVED = "Reserved", "room is reserved for the gang", (
        lambda facts: f"room for its minimum is reserved on {counted(facts.free or 0, 'node')}, from {facts.until} on at the latest")
    WOULD_DELAY = "WouldDelay", "the gang would take room that is reserved for another one", (
        "would delay gang {gang}, for which room is reserved from {until} on; a gang that is expected to end before that may pass")
    NOT_HELD = "NotHeld", "room for a part of the gang is left to others until there is enough for all of it", (
        "{free} of the {wanted} members that must start together would find a place; that room is not held, "
        "but reserved for the time at which there is enough for all of them")
    RESERVATION_OUTLIVED = "ReservationOutlived", "the reservation became later: a gang runs longer than expected", (
        _reservation_moved("gang {gang} runs longer than expected"))
    RESERVATION_NODE_LOST = "ReservationNodeLost", "the reservation became later: a node went", (
        _reservation_moved("node {node} is gone, or takes no such pods any more"))
    RESERVATION_OUTRANKED = "ReservationOutranked", "the reservation became later, or ended: a gang of higher rank came", (
        _reservation_moved("gang {gang} ranks higher"))
    RESERVATION_ROOM_TAKEN = "ReservationRoomTaken", "the reservation became later: pods of others, or less share", (
        _reservation_moved("pods that are not Pumice's took its room, or its queue's share became smaller"))
    RESERVATION_GANG_CHANGED = "ReservationGangChanged", "the reservation became later: the gang lacks other members than before", (
        _reservation_moved("the gang lacks other members than before, or places that were promised to some of them came to nothing"))

    # Hyper nodes.
    HYPER_NODES_UNUSABLE = "HyperNodesUnusable", "the tree of hyper nodes has a fault", (
        "the tree of hyper nodes cannot be used: {text}")
    TIER_NAME_UNKNOWN = "TierNameUnknown", "no hyper node has the tier name that the gang wants", _tier_name_unknown
    HYPER_NODE_FIXED = "HyperNodeFixed", "members run in a hyper node that others may not join", (
        "members run in hyper node {hyper_node} of tier {own_tier}, and tier {tier} allows no others to join them")
    NO_HYPER_NODE_FOR_GANG = "NoHyperNodeForGang", "no allowed hyper node has room for the gang's minimum", (
        _no_hyper_node("its minimum"))
    NO_HYPER_NODE_FOR_SUB_GROUP = "NoHyperNodeForSubGroup", "no allowed hyper node has room for the sub group", (
        _no_hyper_node("all that wait together"))
    HYPER_NODE_TOO_FULL = "HyperNodeTooFull", "not even the hyper node with most room has enough", (
        "hyper node {hyper_node} has room for {free} of the {wanted} members that must be close together,"
        " and no other within the allowed tiers has more")

    # Pods.
    PLACE_FOUND = "PlaceFound", "the pod would have a place, its gang as a whole has not", (
        "Pod {pod} can possibly be assigned to {node}, once minAvailable is satisfied")
    PLACE_BEING_FREED = "PlaceBeingFreed", "others must leave the pod's place first", (
        "Pod {pod} can possibly be assigned to {node}, once resource is released and minAvailable is satisfied")
    GROUP_MISSING = "GroupMissing", "the pod's PodGroup does not exist", (
        "waits for PodGroup {gang}, which does not exist; create it, or correct the pod's annotation")
    NATIVE_GROUP_MISSING = "NativeGroupMissing", "the pod's PodGroup of scheduling.k8s.io does not exist", (
        "waits for PodGroup {gang} of scheduling.k8s.io, which does not exist; create it")
    GROUP_NOT_MADE = "GroupNotMade", "the controllers have not made a PodGroup for the pod's workload", (
        "waits for PodGroup {gang}, which nobody has made for its workload; see that `pumice controllers` runs")
    VOLUME_CLAIM_AWAITED = "VolumeClaimAwaited", "the claim of an ephemeral volume is still to be made", (
        _VOLUMES + 'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"')
    VOLUME_CLAIM_MISSING = "VolumeClaimMissing", "the pod's claim does not exist", (
        _VOLUMES + 'persistentvolumeclaim "{name}" not found')
    VOLUME_CLAIM_LOST = "VolumeClaimLost", "the volume of the pod's claim is gone", (
        _VOLUMES + 'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"')
    VOLUME_CLAIM_DELETED = "VolumeClaimDeleted", "the pod's claim is being deleted", (
        _VOLUMES + 'persistentvolumeclaim "{name}" is being deleted')
    VOLUME_CLAIM_UNBOUND = "VolumeClaimUnbound", "the pod's claim is to be bound before the pod, and is not", (
        _VOLUMES + "pod has unbound immediate PersistentVolumeClaims")
    DEVICE_CLAIM_AWAITED = "DeviceClaimAwaited", "a claim is still to be made from its template", (
        _CLAIMS + "pod {pod}: ResourceClaim not created yet")
    DEVICE_CLAIM_MISSING = "DeviceClaimMissing", "the pod's ResourceClaim does not exist", (
        _CLAIMS + 'could not find ResourceClaim "{name}"')
    DEVICE_CLAIM_DELETED = "DeviceClaimDeleted", "the pod's ResourceClaim is being deleted", (
        _CLAIMS + 'resourceclaim "{name}" is being deleted')
    DEVICE_CLAIM_FULL = "DeviceClaimFull", "as many pods as can share the ResourceClaim do", (
        _CLAIMS + 'resourceclaim "{name}" in use')
    DEVICE_CLASS_MISSING = "DeviceClassMissing", "a claim asks for a device class that does not exist", (
        _CLAIMS + "request {name}: device class {resource} does not exist")
    DEVICE_SELECTOR_UNUSABLE = "DeviceSelectorUnusable", "a claim's CEL expression cannot be used", (
        _CLAIMS + "request {name}: {text}")

    # Nodes.
    NODE_RESERVED = "NodeReserved", "what is left of the node is reserved for another gang", (
        "node(s) were reserved for gangs that wait longer")
    INSUFFICIENT = "Insufficient", "too little of a resource is left", "Insufficient {resource}"
    UNSCHEDULABLE = "Unschedulable", "the node is cordoned", "node(s) were unschedulable"
    NODE_AFFINITY = "NodeAffinity", "selector or affinity name other nodes", (
        "node(s) didn't match Pod's node affinity/selector")
    TAINT = "Taint", "the pod does not tolerate a taint", "node(s) had untolerated taint(s)"
    POD_SLOTS = "PodSlots", "the node has as many pods as it takes", "node(s) pod number exceeded"
    HOST_PORTS = "HostPorts", "a host port is taken", "node(s) didn't have free ports for the requested pod ports"
    POD_AFFINITY = "PodAffinity", "the pods that it wants to be near are not there", (
        "node(s) didn't match pod affinity rules")
    POD_ANTI_AFFINITY = "PodAntiAffinity", "pods that it avoids are there", (
        "node(s) didn't match pod anti-affinity rules")
    REFUSED_BY_PODS = "RefusedByPods", "pods that avoid it are there", (
        "node(s) didn't satisfy existing pods anti-affinity rules")
    SPREAD = "Spread", "too many of its kind are in the node's domain", _SPREAD
    SPREAD_LABEL_MISSING = "SpreadLabelMissing", "the node has no label to spread by", (
        f"{_SPREAD} (missing required label)")
    VOLUME_AFFINITY = "VolumeAffinity", "the volume cannot be reached from the node", (
        "node(s) didn't match PersistentVolume's node affinity")
    VOLUME_MISSING = "VolumeMissing", "the claim's volume does not exist", (
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")
    VOLUME_ZONE = "VolumeZone", "the volume is in another zone", "node(s) had no available volume zone"
    VOLUME_NOT_FOUND = "VolumeNotFound", "there is no volume to bind, and none can be made here", (
        "node(s) didn't find available persistent volumes to bind")
    VOLUME_SPACE = "VolumeSpace", "the storage here has no space for a new volume", (
        "node(s) did not have enough free storage")
    VOLUME_IN_USE = "VolumeInUse", "another pod uses a claim for one pod alone", (
        "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode")
    VOLUME_LIMIT = "VolumeLimit", "the node can attach no more volumes", "node(s) exceed max volume count"
    DISK_TAKEN = "DiskTaken", "another pod here has the disk", "node(s) had no available disk"
    DEVICES_ELSEWHERE = "DevicesElsewhere", "the claim's devices are elsewhere", (
        "resourceclaim not available on the node")
    DEVICES_MISSING = "DevicesMissing", "too few devices are free for the pod's claims", "cannot allocate all claims"
    GPU_MEMORY = "GpuMemory", "no card has enough memory left", "GpuShare no enough gpu memory"
    GPU_MEMORY_NEVER = "GpuMemoryNever", "no card would have enough memory, even unused", (
        "GpuShare no enough gpu memory: no cards that would do")
    GPU_NUMBER = "GpuNumber", "too few cards are free", "GpuNumber no enough gpu number"
    GPU_NUMBER_NEVER = "GpuNumberNever", "the node has too few cards, even unused", (
        "GpuNumber no enough gpu number: no cards that would do")
    GPU_SLICES = "GpuSlices", "no card has such slices left", "hami-vgpuDeviceSharing error"
    GPU_SLICES_NEVER = "GpuSlicesNever", "no card would have such slices, even unused", (
        "hami-vgpuDeviceSharing error: no cards that would do")
    NUMA_UNKNOWN = "NumaUnknown", "no Numatopology describes the node", "numa info is empty"
    NUMA_NOT_STATIC = "NumaNotStatic", "the node's CPU manager gives no CPUs away", "cpu manager policy isn't static"
    NUMA_POLICY = "NumaPolicy", "the node's topology policy is another one than the pod's", (
        lambda facts: "task topology policy[{}] is different with node[{}]".format(*facts.names))
    NUMA_NO_CPUS = "NumaNoCpus", "the node reports no CPUs", "cpu allocatable map is empty"
    NUMA_CONTAINER = "NumaContainer", "a container would get no CPUs that the node's policy allows", (
        "container {name} cannot be assigned by numa")
    ZONE_CLOSED = "ZoneClosed", "the node's revocable zone is closed at this time of day", (
        "current time beyond revocable zone {zone}:{window}")
    ZONE_UNKNOWN = "ZoneUnknown", "the policy does not know the node's revocable zone", (
        "revocable zone {zone} not support")
    ZONE_REVOCABLE = "ZoneRevocable", "the node is for pods that may be revoked", "not allow to dispatch to revocable node"
    NODE_GROUP_LABEL = "NodeGroupLabel", "the node is in no group", "node group label not found"
    NODE_GROUP_UNSPECIFIED = "NodeGroupUnspecified", "the queue names no node groups", "node group affinity not specified"
    NODE_GROUP_AFFINITY = "NodeGroupAffinity", "the queue does not use the node's group", (
        "node does not satisfy the node group affinity")
    NODE_GROUP_LIMITS_INVALID = "NodeGroupLimitsInvalid", "the queue's limits by node group cannot be read", (
        "node group resource limit annotation invalid")
    NODE_GROUP_LIMIT = "NodeGroupLimit", "the queue holds all that it may in the node's group", (
        "node group resource limit exceeded")
    CPU_LOAD = "CpuLoad", "the node's measured CPU load is too high", "the CPU load of the node exceeds the upper limit."
    MEMORY_LOAD = "MemoryLoad", "the node's measured memory load is too high", (
        "the memory load of the node exceeds the upper limit.")
    PROPORTION = "Proportion", "CPU and memory are kept for pods that want a scarce resource", (
        "proportional of resource {resource} check failed")
    EXTENDER = "Extender", "the extender refuses, in its own words", "{text}"
    EXTENDER_FAILED = "ExtenderFailed", "the extender gave no answer", "extender failed: {text}"
    EXTENDER_NOT_ADMITTED = "ExtenderNotAdmitted", "the extender does not admit the gang", (
        "the extender does not admit the gang")

    # Pods that have to go.
    VICTIM_BREAKS_GANG = "VictimBreaksGang", "a victim whose gang falls below its minimum", (
        "gang {gang} falls below its minimum: {free} of {wanted} members stay")
    VICTIM_SPARED_BY_GANG = "VictimSparedByGang", "a victim that its gang can spare", (
        "gang {gang} keeps its minimum of {wanted}: {free} stay")
    VICTIM_OF_DEADLOCK = "VictimOfDeadlock", "a member of a gang that held room while others of its members found none", (
        lambda facts: f"gang {facts.gang} held its room with {facts.free} of {facts.wanted} members for {facts.seconds} s "
        f"and could not become whole; {', '.join(facts.names)} can start with it")
    RELEASED_INCOMPLETE = "ReleasedIncomplete", "a member of a gang that was bound in part and could not be completed", (
        _released_incomplete)
    RELEASED_NODE_FULL = "ReleasedNodeFull", "a pod that its node refused", "its node had no room for it"
    RELEASED_NODE_GONE = "ReleasedNodeGone", "a pod that was bound to a node that is no more", "its node is gone"
    # fmt: on


# What a gang is told while it holds something and waits for more.
DEADLOCKS = frozenset({Code.HOLDS_WHILE_WAITING, Code.QUOTA_HELD})

# Whose facts have gangs for names; with all others they are queues, resources or tiers.
NAMES_ARE_GANGS = frozenset(
    each.value
    for each in (
        Code.HOLDS_WHILE_WAITING,
        Code.QUOTA_HELD,
        Code.QUOTA_GIVEN_BACK,
        Code.SURPLUS_AHEAD,
        Code.VICTIM_OF_DEADLOCK,
    )
)

# Nothing but a change of the gang or of the cluster helps.
HOPELESS = frozenset({Code.EXCEEDS_CLUSTER, Code.EXCEEDS_NODES})
