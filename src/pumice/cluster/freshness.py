"""News that is older than what is known already, and how that is told (docs/adr/0016)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pumice.api import versions
from pumice.api.core import Node
from pumice.api.native import NativePodGroup
from pumice.api.pods import ENDED, Pod
from pumice.api.scheduling import PodGroup
from pumice.cluster.state import native_key

if TYPE_CHECKING:
    from pumice.cluster.state import Cluster

V = TypeVar("V")


def remember(memory: dict[str, V], key: str, value: V, *, most: int) -> None:
    """Keep the first value of a key, and of too many keys those that came last."""
    memory.setdefault(key, value)
    if len(memory) > most:
        del memory[next(iter(memory))]


def last_seen(cluster: Cluster, thing: Any) -> Any:
    """The object of that name, no pod, as it was last taken in; None where there is none, or where its version is not kept."""
    meta = thing.metadata
    match thing:
        case Node():
            slot = cluster.nodes.get(meta.name)
            return None if slot is None else slot.node
        case PodGroup() | NativePodGroup():
            is_ours = isinstance(thing, PodGroup)
            gang = cluster.gangs.get(meta.key if is_ours else native_key(meta.namespace, meta.name))
            return None if gang is None else gang.group
        case _:
            return cluster.others.get(type(thing), {}).get(meta.key)


def all_seen(cluster: Cluster, kind: type[Any]) -> list[Any]:
    """All objects of a kind, pods and queues not among them, as they were last taken in."""
    if kind is Node:
        return [slot.node for slot in cluster.nodes.values() if slot.node is not None]
    if kind is PodGroup or kind is NativePodGroup:
        return [slot.group for slot in cluster.gangs.values() if isinstance(slot.group, kind)]
    return list(cluster.others.get(kind, {}).values())


def is_past(thing: Any, known: Any) -> bool:
    """Whether an object says nothing new: by its version, which an answer may have told before, or because it lacks what a pod never loses."""
    had, has = known.metadata.resource_version, thing.metadata.resource_version
    # Equal by content, too: forecasts and what-if change objects that keep their version.
    is_same = bool(has) and has == had and thing == known
    if is_same or (has != had and versions.is_older(has, than=had)):
        return True
    if not isinstance(thing, Pod) or thing.metadata.uid != known.metadata.uid:
        return False
    return any(had and not has for had, has in zip(_progress(known), _progress(thing), strict=True))


def _progress(pod: Pod) -> tuple[bool, bool, bool]:
    """Bound, asked to leave, ended: Kubernetes takes none of them back."""
    meta, status = pod.metadata, pod.status
    return bool(pod.spec.node_name), meta.deletion_timestamp is not None, status.phase in ENDED
