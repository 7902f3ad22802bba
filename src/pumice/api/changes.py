"""What may change the cluster state: news from the API server, and what dispatch has done or learnt.

Both arrive through `cluster.intake`, the state's only writer, in one order. News may repeat, and may overtake or trail the
outcome of our own call; so every outcome names the pod by uid, because a restarted Job reuses names, and by attempt,
because a second attempt must not be undone by what the first one still has to say.

    pending --Assumed--> assumed --Upserted(with a node)--> bound --Evicting--> evicting --Deleted--> gone
       ^                  |    |                                                   |
       +----BindFailed----+    +--BindUnknown--> unknown, still charged            |
       +----Forgotten-----------------------------+                 Forgotten: bound as before
"""

from collections.abc import Mapping
from typing import TypeAlias

from pumice.api.meta import NOTHING, ObjectMeta, Struct
from pumice.instant import Instant


class Upserted(Struct):
    """An object as it is now; the state may know it already, and may know it exactly so."""

    object: Struct


class Deleted(Struct):
    """An object as it was last seen; it is gone."""

    object: Struct


class Relisted(Struct):
    """A whole list of one kind has been passed on; what is not in it vanished while there was no watch."""

    struct: type[Struct]
    uids: frozenset[str]


class PodRef(Struct):
    """A pod, told apart from its predecessors and successors of the same name."""

    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, metadata: ObjectMeta) -> "PodRef":
        """The reference to the pod that has this metadata."""
        return cls(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)


class Assumed(Struct):
    """A bind is about to be sent: the pod is charged to the node from now on, and carries what the bind will write onto it."""

    pod: PodRef
    node: str
    attempt: str
    at: Instant
    annotations: Mapping[str, str] = NOTHING


class BindFailed(Struct):
    """A bind was refused and never took effect: the charge is lifted, and the attempt lacks this member."""

    pod: PodRef
    node: str
    attempt: str
    at: Instant
    reason: str = ""


class BindUnknown(Struct):
    """It is unknown whether a bind took effect: the charge stays until the pod has been read back."""

    pod: PodRef
    node: str
    attempt: str
    at: Instant
    reason: str = ""


class AttemptSeen(Struct):
    """An attempt whose stamp lies in the future, by the clock of another machine: its age counts from now."""

    attempt: str
    at: Instant


class Evicting(Struct):
    """An eviction is under way: the pod's room becomes free, and the gang that asked for it has a claim to that room."""

    pod: PodRef
    node: str
    at: Instant
    claimant: str = ""  # key of the gang that the room is for; empty: for none
    reason: str = ""


class Forgotten(Struct):
    """What we said about a pod no longer holds: it is not assumed where it was, or not evicted after all.

    No failure of the node or the pod: a bind that was never sent, a pod that turned out unbound or deleted, an eviction that was given up.
    """

    pod: PodRef
    at: Instant
    attempt: str = ""  # empty: an eviction is forgotten, not an assumption
    reason: str = ""


class Claim(Struct):
    """The room that an eviction plan makes for a gang: no gang of lower rank may take it while its victims leave."""

    gang: str
    places: tuple[tuple[str, str], ...]  # (uid of the member, node)
    victims: tuple[str, ...]  # uids; while one of them still holds room, no pod is evicted for this gang again
    until: Instant


class Claimed(Struct):
    """An eviction plan was carried out: its gang has a claim, which replaces an older one."""

    claim: Claim


class Unclaimed(Struct):
    """A gang's claim ends: it was used, it expired, or its evictions were refused."""

    gang: str


class Admitted(Struct):
    """A gang was let into its queue: it counts as admitted from now on, until its group shows a phase that follows from it."""

    gang: str
    uid: str  # of its group: a restarted Job's next group has the same name, and is admitted for itself


Outcome: TypeAlias = (
    Admitted | Assumed | AttemptSeen | BindFailed | BindUnknown | Evicting | Forgotten | Claimed | Unclaimed
)
Change: TypeAlias = Upserted | Deleted | Relisted | Outcome
