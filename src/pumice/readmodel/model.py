"""What the leading scheduler tells: the structures of /v1/state, /v1/gangs and /v1/changes.

Amounts are Kubernetes quantities by resource name. Times are RFC 3339. `cycle` counts the leader's cycles and rises by one with each;
another leader begins anew, and `leader` tells them apart. A field that has its default is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pumice.api.disruptions import Party
from pumice.api.meta import Struct
from pumice.scheduling.core.codes import NO_FACTS, Facts
from pumice.scheduling.whatif.outcome import Outcome
from pumice.scheduling.whatif.suggestion import Suggestions

VERSION = 1  # rises when a field changes its meaning or goes; new fields do not change it

Amounts = Mapping[str, str]


class Reason(Struct):
    """Why something waits: on so many nodes, or (0) for the whole gang; `cure` is eviction, waiting or change.

    Programs match on the code and read the facts; `reason` is the sentence that both make.
    """

    code: str
    plugin: str
    reason: str
    facts: Facts = NO_FACTS
    nodes: int = 0
    cure: str = "change"


class Members(Struct):
    """The pods of a gang, counted; `minimum` of them start together."""

    minimum: int
    pods: int = 0
    running: int = 0
    waiting: int = 0
    gated: int = 0
    leaving: int = 0
    finished: int = 0


class Factors(Struct):
    """What makes up the rank of a gang that waits in its queue, each from 0 to 1 (a priority class may be below 0).

    `total` is their sum with the weights of the policy; plugins that come before fairshare in the policy decide before it.
    """

    priority_class: float = 0.0
    fair_share: float = 1.0  # 1: its user has used nothing; 0.5: as much as its weight says; and so on by halves
    age: float = 0.0
    size: float = 0.0
    queue: float = 0.0
    total: float = 0.0
    used: float = 0.0  # the part of the cluster that its user has used through the queue, recent use counting most


class Expected(Struct):
    """How long a gang is expected to run: by its limit, as declared, as learned of past runs, by its queue's or the policy's default."""

    length: str  # a duration
    source: str  # limit, declared, recorded, learned, queue or policy
    right: float | None = None  # recorded, learned: the part of past runs that ended in time
    end: str = ""  # when it is expected to end, if it runs


class Reservation(Struct):
    """Room that is reserved for a gang: from when on at the latest, on how many nodes, and since when it has had a reservation."""

    time: str
    nodes: int
    since: str


class Forecast(Struct):
    """When a gang that waits will start, as far as anybody can know."""

    made: str
    p50: str = ""  # as likely before as after; empty: not within a week, or not known
    p90: str = ""  # in nine of ten cases by then
    ahead: int = 0  # gangs that run now and are expected to end before it starts
    without_estimate: int = 0  # of those
    # Its pods by node if all goes as expected, some of them.
    nodes: Mapping[str, int] = msgspec.field(default_factory=dict)


class ForecastScore(Struct):
    """How far forecasts can be believed: of the last so many, the part whose p90 held."""

    forecasts: int
    held: float


class GpuUse(Struct):
    """What the pods of a gang use of their GPUs, where that is measured (NVML on process nodes, DCGM through Prometheus)."""

    pods: int  # that were measured
    percent: float  # the mean of their GPUs
    memory_mib: int = 0
    idle: bool = False  # all of its pods have GPUs and have used less than 5 % of them for ten minutes


class Gang(Struct):
    """How a gang stands after the cycle."""

    key: str
    namespace: str
    name: str
    queue: str
    phase: str
    members: Members
    uid: str = ""
    job: str = ""  # that the group was made for
    user: str = ""  # who submitted it; else the label pumice.dev/user, where the policy trusts it, or its namespace
    priority: int = 0
    created: str = ""
    since: str = ""  # it has been schedulable, or not, since then
    position: int = 0  # among those that wait in its queue, from 1
    asks: Amounts = msgspec.field(default_factory=dict)  # its minimum, as admission counts it
    holds: Amounts = msgspec.field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    rests: str = ""  # what failed in its last attempts, after which it is not tried for a while
    reservation: Reservation | None = None  # where plugin reservation keeps room for it
    expected: Expected | None = None  # its run time, where the last cycle wanted to know it
    factors: Factors | None = None  # where plugin fairshare is in force, and the gang waits
    forecast: Forecast | None = None  # of the first in line
    gpu_use: GpuUse | None = None


class Pod(Struct):
    """A member: bound, hoping for a node, or waiting; the message is its own, or empty where it waits as its gang does."""

    name: str
    status: str
    node: str = ""
    nominated_node: str = ""
    gates: tuple[str, ...] = ()
    message: str = ""


class Shortage(Struct):
    """A resource of which there is too little on the nodes that may take such pods."""

    resource: str
    free: str
    most_on_one_node: str


class HyperNodeRoom(Struct):
    """The hyper node within a tier that has room for the most of them; the name is empty where there is none."""

    tier: int
    hyper_node: str = ""
    fit: int = 0


class Room(Struct):
    """Equal members that wait, and how many of them would fit now, each pod looked at by itself."""

    each: Amounts
    waiting: int
    fit: int
    nodes: int
    may_take: int
    short: tuple[Shortage, ...] = ()
    within: HyperNodeRoom | None = None


class Volume(Struct):
    """A claim of the gang's pods that has no volume."""

    claim: str
    phase: str
    storage_class: str = ""


class Leaving(Struct):
    """Pods that have to end on a node before others get their room."""

    node: str
    for_pods: int
    pods: int
    hold: Amounts
    until: str = ""  # when the last of them has to be gone


class Claim(Struct):
    """Room that is kept for a gang while others leave it."""

    gang: str
    until: str
    places: Mapping[str, int]  # pods by node
    want: Mapping[str, Amounts]  # by node
    leaving: tuple[Leaving, ...] = ()


class Queue(Struct):
    """A queue's limits and what is held of them; `promised` is for gangs that were admitted and have not started.

    `deserved`, `guarantee` and `capability` are what its owner wrote; `entitled`, `limit` and `left` are what that means under the
    policy in force, by weights where it shares by weights. No `entitled`: the policy gives no shares. No `limit`: it has none.
    """

    name: str
    state: str = "Open"
    weight: int = 1
    parent: str = ""
    reclaimable: bool = True
    allocated: Amounts = msgspec.field(default_factory=dict)
    promised: Amounts = msgspec.field(default_factory=dict)
    deserved: Amounts = msgspec.field(default_factory=dict)
    guarantee: Amounts = msgspec.field(default_factory=dict)
    capability: Amounts = msgspec.field(default_factory=dict)
    entitled: Amounts = msgspec.field(default_factory=dict)  # what it deserves, however little it wants now
    limit: Amounts = msgspec.field(default_factory=dict)  # the most that it may hold now
    left: Amounts = msgspec.field(default_factory=dict)  # what its gangs may still start, by the rules of sharing
    fair: Amounts = msgspec.field(default_factory=dict)  # what the plugin gives it in this cycle, of what it wants
    borrowed: Amounts = msgspec.field(default_factory=dict)  # held beyond `entitled`
    overused: bool = False
    # The part of the cluster that it has used, recent use counting most, where fairshare is in force.
    usage: float = 0.0
    fair_usage: float = 0.0  # the part that is its own by weight
    running: int = 0  # gangs
    waiting: int = 0


class Node(Struct):
    """A node with what this cycle placed there; `gangs` counts pods by gang, pods without a gang under an empty name."""

    name: str
    allocatable: Amounts
    used: Amounts
    free: Amounts
    gangs: Mapping[str, int]
    devices: Mapping[str, Amounts] = msgspec.field(default_factory=dict)  # held by each gang, beside cpu and memory
    hyper_node: str = ""  # the lowest one that holds it; empty where none does
    closed: bool = False  # it takes no pods: cordoned


class Attempt(Struct):
    """A gang whose pods were sent to nodes."""

    cycle: int
    at: str
    gang: str
    pods: int
    nodes: int
    mends: bool = False  # completes an attempt that was cut short


class Eviction(Struct):
    """A victim: which gang it made room for, by which action, and what that did to its own gang; `why` is the sentence.

    Programs match on the code and read the facts, as with reasons.
    """

    cycle: int
    at: str
    pod: str
    node: str
    gang: str = ""
    action: str = ""
    claimant: str = ""
    code: str = ""
    facts: Facts = NO_FACTS
    why: str = ""
    resource: str = ""  # that was fought for
    victim: Party = Party()
    room_for: Party = Party()  # whose gang the claimant is
    lost_seconds: int = 0  # run time since the start, or since the last checkpoint


class Policy(Struct):
    """The policy in force, and why a newer one was refused (empty: it was not)."""

    source: str
    actions: tuple[str, ...]
    plugins: tuple[str, ...]
    refused: str = ""
    factors: Mapping[str, float] = msgspec.field(default_factory=dict)  # weights of what ranks gangs within a queue


class Stranded(Struct):
    """GPUs that are free, and how many of them workers with so many each could use: a size that waits, or a whole node."""

    resource: str
    each: int
    free: int
    usable: int
    waiting: int = 0  # pods of that size


class Totals(Struct):
    """All nodes together."""

    nodes: int
    allocatable: Amounts
    used: Amounts
    promised: Amounts = msgspec.field(default_factory=dict)
    stranded: tuple[Stranded, ...] = ()  # by resource and size of a worker


class Evictable(Struct):
    """Who holds what a gang is short of: pods of lower priority in its queue, and queues beyond what they deserve."""

    resource: str
    lower_priority_pods: int = 0
    held_by_them: str = "0"
    beyond_deserved: Amounts = msgspec.field(default_factory=dict)  # by queue


class Head(Struct):
    """What every answer begins with: who says it, when, and by which policy."""

    version: int
    leader: str
    cycle: int
    at: str
    policy: Policy
    totals: Totals

    @property
    def head(self) -> dict[str, Any]:
        """The fields of the head by name, for another answer about the same cycle."""
        return {name: getattr(self, name) for name in Head.__struct_fields__}


class State(Head):
    """/v1/state: everything; filters leave lists empty. The histories hold the newest entries, oldest first.

    Who may see one namespace only is told of its gangs alone; what queues hold, and how many gangs run and wait there, counts all.
    """

    namespace: str = ""  # whose gangs are told; empty: those of all
    nodes: tuple[Node, ...] = ()
    queues: tuple[Queue, ...] = ()
    gangs: tuple[Gang, ...] = ()
    claims: tuple[Claim, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    forecasts: ForecastScore | None = None  # none where no forecast has been held against what came of it


class GangDetail(Head):
    """/v1/gangs/NAMESPACE/NAME: one gang, and what it waits for."""

    gang: Gang
    queue: Queue | None = None  # none where it does not exist
    pods: tuple[Pod, ...] = ()
    room: tuple[Room, ...] = ()
    volumes: tuple[Volume, ...] = ()
    claims: tuple[Claim, ...] = ()  # its own, and those of others that come first
    evictable: tuple[Evictable, ...] = ()


class Gone(Struct):
    """Names of what is no longer there."""

    nodes: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    gangs: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


class Changes(State):
    """A line of /v1/changes: what differs from the line before; the first one holds everything."""

    gone: Gone = Gone()


def schema() -> Mapping[str, object]:
    """The JSON Schema of all that is told."""
    _, parts = msgspec.json.schema_components(
        (State, GangDetail, Changes, Suggestions, Outcome), ref_template="#/$defs/{name}"
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": parts}
