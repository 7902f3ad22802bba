"""Why something waits, from what the objects say: pure. The scheduler's verdict is read, not guessed again.

The numbers of nodes stand in the PodGroup's verdict as the scheduler wrote them when the reasons last changed; queues' holdings,
members and room are reckoned from the listing itself.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from pumice import instant, quantity
from pumice.api import names
from pumice.cli import room
from pumice.cluster import amounts, requests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.api.core import Node
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup, Queue

REASONS_SHOWN_MAX = 10
SHAPES_SHOWN_MAX = 5
MESSAGES_SHOWN_MAX = 5
_SHORT_OF = re.compile(r"Insufficient (\S+)")
_FINISHED = frozenset({"Succeeded", "Failed"})
STARTED = frozenset({"Running", "Completed"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was read of the cluster. `pods` and `groups` are everybody's, `members` the gang's own."""

    group: PodGroup
    members: Sequence[Pod]
    queue: Queue | None
    queues: Sequence[Queue] = ()
    groups: Sequence[PodGroup] = ()
    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    job: str = ""
    unseen: Sequence[str] = ()  # kinds that the user may not list: what they would tell is left out


def group_of(pod: Pod) -> str:
    """The name of the PodGroup that a pod is a member of; empty for none."""
    annotations = pod.metadata.annotations
    return annotations.get(names.GROUP_NAME) or annotations.get(names.VOLCANO_GROUP_NAME) or ""


def explain(facts: Facts, now: instant.Instant) -> dict[str, Any]:
    """Everything that is known about a gang's waiting, as data."""
    group = facts.group
    waiting = [pod for pod in facts.members if not pod.spec.node_name and pod.status.phase not in _FINISHED]
    reasons = [*_gates(facts), *_reasons(facts)]
    phase = group.status.phase or "Pending"
    answer: dict[str, Any] = {
        "podGroup": group.metadata.key,
        **({"job": facts.job} if facts.job else {}),
        "phase": phase,
        "age": _age(group.metadata.creation_timestamp, now),
        "members": _members(facts, waiting),
        "asks": _asks(group),
        "queue": _queue(facts),
        "cluster": _cluster(facts),
    }
    if phase not in STARTED or waiting:
        answer["reasons"] = reasons
        answer["room"] = _room(facts, waiting)
        answer["eviction"] = _eviction(facts, reasons)
        answer["pods"] = _messages(waiting)
    return answer


def _age(created: str | None, now: instant.Instant) -> str:
    return instant.human_duration(now - instant.parse_instant(created)) if created else "an unknown time"


def _members(facts: Facts, waiting: Sequence[Pod]) -> dict[str, int]:
    phases = Counter(pod.status.phase for pod in facts.members)
    return {
        "minimum": facts.group.spec.min_member,
        "pods": len(facts.members),
        "running": phases["Running"],
        "waiting": len(waiting),
        "gated": sum(bool(pod.spec.scheduling_gates) for pod in waiting),
        "finished": phases["Succeeded"] + phases["Failed"],
    }


def _asks(group: PodGroup) -> dict[str, str]:
    minimum = amounts.read_minimum(group.spec.min_resources or {})
    return {name: amounts.quantity_text(name, value) for name, value in minimum.items() if name != amounts.PODS}


def _queue(facts: Facts) -> dict[str, Any]:
    queue, name = facts.queue, facts.group.spec.queue
    if queue is None:
        return {"name": name, "state": "not visible to you" if "queues" in facts.unseen else "does not exist"}
    spec, held = queue.spec, amounts.read(queue.status.allocated)
    listed = {"deserved": spec.deserved, "guarantee": spec.guarantee.resource, "capability": spec.capability}
    limits = {word: amounts.read(given) for word, given in listed.items()}
    asked = amounts.read_minimum(facts.group.spec.min_resources or {})
    promised = _promised(facts, name)
    shown = sorted({*asked, *(each for limit in limits.values() for each in limit)} - {amounts.PODS})
    shares = [
        {
            "resource": each,
            "asked": amounts.quantity_text(each, asked.get(each, 0)),
            "allocated": amounts.quantity_text(each, held.get(each, 0)),
            "promised": amounts.quantity_text(each, promised.get(each, 0)),
            **{word: amounts.quantity_text(each, limit[each]) for word, limit in limits.items() if each in limit},
            "alone": asked.get(each, 0) > limits["capability"].get(each, amounts.UNLIMITED),
        }
        for each in shown
    ]
    state = queue.status.state or "Open"
    return {"name": name, "state": state, "weight": spec.weight, "parent": spec.parent or "", "shares": shares}


def _promised(facts: Facts, queue: str = "") -> amounts.Amounts:
    """What gangs that were admitted and have not started will take, in one queue or in all; our own gang's is not among it."""
    return amounts.summed(
        amounts.read_minimum(group.spec.min_resources or {})
        for group in facts.groups
        if group.status.phase == "Inqueue"
        and queue in {"", group.spec.queue}
        and group.metadata.key != facts.group.metadata.key
    )


def _cluster(facts: Facts) -> list[dict[str, str]]:
    """What the gang asks for, against what all nodes have."""
    if "nodes" in facts.unseen:
        return []
    asked = amounts.read_minimum(facts.group.spec.min_resources or {})
    table, promised = room.table_of(facts.nodes, facts.pods), _promised(facts)
    total = table.total()
    used = {name: sum(table.used[row].tolist()) for name, row in table.axis.rows.items()}
    return [
        {
            "resource": name,
            "asked": amounts.quantity_text(name, asked[name]),
            "used": amounts.quantity_text(name, used.get(name, 0)),
            "promised": amounts.quantity_text(name, promised.get(name, 0)),
            "total": amounts.quantity_text(name, total.get(name, 0)),
        }
        for name in sorted(set(asked) - {amounts.PODS})
    ]


def _reasons(facts: Facts) -> list[dict[str, Any]]:
    """The verdict's reasons; where there is no verdict, what the conditions say."""
    try:
        verdict = json.loads(facts.group.metadata.annotations.get(names.VERDICT, "{}"))
        found = [
            {
                "plugin": str(each.get("plugin", "")),
                "reason": str(each.get("reason", "")),
                "nodes": int(each.get("nodes", 0)),
                "cure": str(each.get("cure", "change")),
            }
            for each in verdict.get("reasons", ())[:REASONS_SHOWN_MAX]
        ]
    except (ValueError, AttributeError, TypeError):
        found = []  # somebody else wrote it
    if found:
        return found
    said = [
        _reason("condition", each.message or each.reason)
        for each in facts.group.status.conditions
        if each.type == "Unschedulable" and each.status == "True"
    ]
    return said or _plain_reasons(facts)


def _plain_reasons(facts: Facts) -> list[dict[str, Any]]:
    """What anybody can see while the scheduler has not spoken: no queue, a closed one, missing members."""
    found = []
    queue, least = facts.queue, facts.group.spec.min_member
    if queue is None and "queues" not in facts.unseen:
        found.append(_reason("queue", f"queue {facts.group.spec.queue} does not exist", "change"))
    elif queue is not None and queue.status.state in {"Closed", "Closing"}:
        found.append(_reason("queue", f"queue {queue.metadata.name} is {queue.status.state.lower()}", "change"))
    if len(facts.members) < least:
        text = f"{len(facts.members)} of the {least} pods that must start together exist"
        found.append(_reason("members", text, "waiting"))
    return found


def _gates(facts: Facts) -> list[dict[str, Any]]:
    """Gates come first whatever the scheduler said: it does not look at pods behind one."""
    gates = Counter(gate.name for pod in facts.members for gate in pod.spec.scheduling_gates)
    text = "{} of {} pods are held by the scheduling gate {}"
    return [_reason("gates", text.format(count, len(facts.members), name), "change") for name, count in gates.items()]


def _reason(plugin: str, text: str, cure: str = "") -> dict[str, Any]:
    return {"plugin": plugin, "reason": text, "nodes": 0, "cure": cure}


def _room(facts: Facts, waiting: Sequence[Pod]) -> list[dict[str, Any]]:
    """For each shape of waiting pods, how many of them the nodes' free resources would take."""
    if not facts.nodes or not waiting:
        return []
    table = room.table_of(facts.nodes, facts.pods)
    shapes = Counter(requests.request_of(pod) for pod in waiting)
    found = []
    for shape, count in shapes.most_common(SHAPES_SHOWN_MAX):
        each = {name: value for name, value in shape.amounts.items() if name != amounts.PODS}
        counts = room.fits(table, each)
        text = amounts.text(each) or "nothing"
        found.append({"each": text, "waiting": count, "fit": sum(counts), "onNodes": sum(map(bool, counts))})
    return found


def _eviction(facts: Facts, reasons: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Who holds what is short: pods of lower priority in the same queue, and queues beyond what they deserve."""
    short = [match[1] for each in reasons if (match := _SHORT_OF.fullmatch(each["reason"]))]
    own, rank = facts.group.spec.queue, max((pod.spec.priority or 0 for pod in facts.members), default=0)
    queue_of = {group.metadata.key: group.spec.queue for group in facts.groups}
    lower = [
        pod
        for pod in facts.pods
        if pod.spec.node_name
        and pod.status.phase not in _FINISHED
        and (pod.spec.priority or 0) < rank
        and queue_of.get(f"{pod.metadata.namespace}/{group_of(pod)}") == own
    ]
    found = []
    for name in dict.fromkeys(short):
        held = [value for pod in lower if (value := requests.request_of(pod).amounts.get(name, 0)) > 0]
        found.append(
            {
                "resource": name,
                "lowerPriorityPods": len(held),
                "heldByThem": amounts.quantity_text(name, sum(held)),
                "beyondDeserved": _beyond_deserved(facts, name),
            }
        )
    return found


def _beyond_deserved(facts: Facts, name: str) -> dict[str, str]:
    found = {}
    for queue in facts.queues:
        written = queue.spec.deserved.get(name)
        if written is None or queue.metadata.name == facts.group.spec.queue or queue.spec.reclaimable is False:
            continue
        held = queue.status.allocated.get(name, "0")
        if quantity.compare(held, written) > 0:
            excess = amounts.amount(name, held) - amounts.amount(name, written)
            found[queue.metadata.name] = amounts.quantity_text(name, excess)
    return found


def _messages(waiting: Sequence[Pod]) -> list[dict[str, Any]]:
    """What stands in the waiting pods' PodScheduled conditions, the commonest first."""
    said = Counter(
        # A pod's own name in its message would make every pod's a different one.
        condition.message.replace(f"Pod {pod.metadata.key} ", "")
        for pod in waiting
        for condition in pod.status.conditions
        if condition.type == "PodScheduled" and condition.status == "False" and condition.message
    )
    return [{"pods": count, "message": message} for message, count in said.most_common(MESSAGES_SHOWN_MAX)]


def one_pod(facts: Facts, name: str) -> str:
    """How one member stands, in a line."""
    pod = next(each for each in facts.members if each.metadata.name == name)
    if pod.spec.node_name:
        return f"{pod.metadata.key}, {pod.status.phase} on {pod.spec.node_name}"
    gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    told = next((each for each in _messages([pod])), None)
    said = f"held by its scheduling gates {gates}" if gates else told["message"] if told else "not looked at yet"
    return f"{pod.metadata.key}, {pod.status.phase or 'Pending'}: {said}"
