"""Why something waits, from what the objects say: pure. The scheduler's verdict is read, not guessed again.

The verdict is what the scheduler answered just now or, where it was not asked, what stands in the PodGroup: with the numbers of
the moment when its reasons last changed, which is why its age is told. Queues' holdings, members and room are reckoned from
the listing itself.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.api import names
from pumice.cli import explain_facts, room
from pumice.cli.explain_facts import FINISHED
from pumice.cluster import amounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup
    from pumice.cli.explain_facts import Facts

REASONS_SHOWN_MAX = 10
MESSAGES_SHOWN_MAX = 5
_OF_THE_GANG = "pod group is not ready"
STARTED = frozenset({"Running", "Completed"})


def explain(facts: Facts, now: instant.Instant) -> dict[str, Any]:
    """Everything that is known about a gang's waiting, as data."""
    group = facts.group
    waiting = [pod for pod in facts.members if not pod.spec.node_name and pod.status.phase not in FINISHED]
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
        verdict = _verdict(facts)
        reasons = [*_gates(facts), *_reasons(facts, verdict)]
        answer["verdict"] = _source(facts, verdict, now)
        if hopeless := _is_hopeless(reasons, answer["queue"]):
            reasons = [{**each, "cure": "change"} for each in reasons]  # neither time nor eviction would help
        answer["reasons"] = reasons
        answer["room"] = explain_facts.room_for(facts, waiting)
        answer["leaving"] = explain_facts.leaving(facts, waiting, now)
        answer["ahead"] = explain_facts.ahead(facts)
        answer["volumes"] = explain_facts.volumes(facts)
        answer["eviction"] = [] if hopeless else explain_facts.eviction(facts, reasons)
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
            "over": _over(each, asked, held, promised, limits["capability"]),
            "alone": asked.get(each, 0) > limits["capability"].get(each, amounts.UNLIMITED),
        }
        for each in shown
    ]
    state = queue.status.state or "Open"
    return {"name": name, "state": state, "weight": spec.weight, "parent": spec.parent or "", "shares": shares}


def _over(name: str, *parts: amounts.Amounts) -> str:
    """By how much all but the last of the parts together are more than the last one allows; empty where they are not."""
    *taken, limit = parts
    excess = sum(each.get(name, 0) for each in taken) - limit.get(name, amounts.UNLIMITED)
    return amounts.quantity_text(name, excess) if excess > 0 else ""


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
            "over": _over(name, asked, used, promised, {name: total.get(name, 0)}),
        }
        for name in sorted(set(asked) - {amounts.PODS})
    ]


def _verdict(facts: Facts) -> Mapping[str, Any]:
    """What the scheduler said: just now, or when it last wrote it down."""
    if facts.answer is not None:
        return facts.answer
    try:
        verdict = json.loads(facts.group.metadata.annotations.get(names.VERDICT, "{}"))
    except ValueError:
        return {}  # somebody else wrote it
    return verdict if isinstance(verdict, dict) else {}


def _source(facts: Facts, verdict: Mapping[str, Any], now: instant.Instant) -> dict[str, str]:
    """Whose words the reasons are, and how old."""
    if facts.answer is not None:
        return {"from": "scheduler", "age": "0s"}
    if not verdict.get("reasons"):
        return {"from": "objects", "age": "0s"}
    try:
        return {"from": "podgroup", "age": instant.human_duration(now - instant.parse_instant(str(verdict["at"])))}
    except (KeyError, ValueError):
        return {"from": "podgroup", "age": ""}


def _reasons(facts: Facts, verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The verdict's reasons; where there is none, what the conditions say."""
    try:
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
    if any(pod.spec.scheduling_gates for pod in facts.members):
        return []  # the gates are the reason, and they are told
    placed = sum(bool(pod.status.nominated_node_name and not pod.spec.node_name) for pod in facts.members)
    if placed:
        text = f"{placed} of its {len(facts.members)} pods have got a place that others must leave first"
        return [_reason("claims", text, "waiting")]
    said = [
        _reason("condition", each.message or each.reason)
        for each in facts.group.status.conditions
        if each.type == "Unschedulable" and each.status == "True"
    ]
    return said or _plain_reasons(facts)


def _is_hopeless(reasons: Sequence[Mapping[str, Any]], queue: Mapping[str, Any]) -> bool:
    """Whether the gang can never start as things are: it is too large for the cluster, or for its queue."""
    too_large = any(each["alone"] for each in queue.get("shares", ()))
    return too_large or any(each["plugin"] == "cluster" for each in reasons)


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


def _messages(waiting: Sequence[Pod]) -> list[dict[str, Any]]:
    """What stands in the waiting pods' PodScheduled conditions, the commonest first; not what all were told of the gang."""
    said = Counter(
        # A pod's own name in its message would make every pod's a different one.
        condition.message.replace(f"Pod {pod.metadata.key} ", "")
        for pod in waiting
        for condition in pod.status.conditions
        if condition.type == "PodScheduled" and condition.status == "False" and condition.message
        if not condition.message.startswith(_OF_THE_GANG)
    )
    return [{"pods": count, "message": message} for message, count in said.most_common(MESSAGES_SHOWN_MAX)]


def one_pod(facts: Facts, name: str) -> str:
    """How one member stands, in a line."""
    pod = next(each for each in facts.members if each.metadata.name == name)
    if pod.spec.node_name:
        return f"{pod.metadata.key}, {pod.status.phase} on {pod.spec.node_name}"
    gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    told = next((each["message"] for each in _messages([pod])), "")
    looked_at = any(each.type == "PodScheduled" for each in pod.status.conditions)
    said = f"held by its scheduling gates {gates}" if gates else told
    said = said or ("waits for the rest of its gang" if looked_at else "not looked at yet")
    return f"{pod.metadata.key}, {pod.status.phase or 'Pending'}: {said}"
