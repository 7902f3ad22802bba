"""Pods that cannot end because no kubelet is left on their node to end them: when they are given up, and by whose word.

A pod that is being deleted keeps its name until its node says that its processes are gone, and a restarted Job needs the name. A dead
node says nothing, so a restart, a suspension or a deletion would wait for ever. Such a pod is removed by force as soon as that is safe:

    the node no longer exists                                        at once, on the API server's own word
    it is not ready and tainted node.kubernetes.io/out-of-service    at once: an operator says that it is switched off
    it has been silent, and the pod due to be gone, for `silence`    then; before that people are told, with the way to hurry it

A node that is not ready and speaks ends its pods itself, sooner or later. One that is silent may be cut off and still run them, so the
silence is long, and 0 means never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api.core import Node
from pumice.controllers.operations import Blame, Delete, Emit, Look, target_of
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.api.meta import Struct
    from pumice.api.pods import Pod
    from pumice.controllers.operations import Operation
    from pumice.instant import Duration, Instant

SILENCE = 10 * 60 * instant.SECOND
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class Nodes(Value):
    """What is known of the nodes that pods have to leave: by name, and the names of which the API server has said that none has them."""

    known: Mapping[str, Node] = msgspec.field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    silence: Duration = SILENCE


class Removals(Value):
    """What to do about pods that cannot end, and when to look again."""

    operations: tuple[Operation, ...] = ()
    again_at: Instant | None = None


def plan_removals(pods: Iterable[Pod], nodes: Nodes, now: Instant, regarding: Struct | None) -> Removals:
    """Removes those of the pods whose node can no longer end them; events are about `regarding`, or the pod where that is gone."""
    operations: list[Operation] = []
    later: list[Instant] = []
    for pod in pods:
        if pod.metadata.deletion_timestamp is None or not pod.spec.node_name:
            continue
        node = nodes.known.get(pod.spec.node_name)
        if node is None and pod.spec.node_name not in nodes.gone:
            operations.append(Look(kind=Node, name=pod.spec.node_name, listed=True))
            continue
        why, due = _why(pod, node, nodes.silence)
        if why and due <= now:
            operations += _removal(pod, why, regarding or pod)
        elif why and now < (ends := instant.parse_instant(pod.metadata.deletion_timestamp)):
            later.append(ends)  # until then nothing is wrong
        elif why:
            later.append(due)
            operations.append(_warning(pod, due, regarding or pod))
    return Removals(tuple(operations), min(later, default=None))


def _why(pod: Pod, node: Node | None, silence: Duration) -> tuple[str, Instant]:
    """Why the pod is given up, and when; no reason where its node can still end it."""
    name = pod.spec.node_name
    if node is None:
        return f"node {name} no longer exists", 0
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status == "True":
        return "", 0
    if any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints):
        return f"node {name} is out of service", 0
    if ready.status != "Unknown" or silence <= 0:
        return "", 0
    since = max(_when(pod.metadata.deletion_timestamp), _when(ready.last_transition_time))
    return f"node {name} has said nothing for {instant.format_duration(silence)}", since + silence


def _when(text: str | None) -> Instant:
    return instant.parse_instant(text) if text else 0


def _removal(pod: Pod, why: str, regarding: Struct) -> list[Operation]:
    metadata = pod.metadata
    text = f"pod {metadata.name} is removed by force, because nobody is left to end it: {why}"
    delete = Delete(**target_of(pod), grace_s=0, blame=Blame(regarding, "FailedDelete"))
    return [delete, Emit(regarding, "Warning", "PodGivenUp", text)]


def _warning(pod: Pod, due: Instant, regarding: Struct) -> Emit:
    node = pod.spec.node_name
    text = (
        f"pod {pod.metadata.name} does not end, because node {node} says nothing: it is removed by force at "
        f"{instant.format_instant(due)}; if the node is switched off, delete it or taint it {OUT_OF_SERVICE}:NoExecute to go on now"
    )
    return Emit(regarding, "Warning", "PodStuck", text)
