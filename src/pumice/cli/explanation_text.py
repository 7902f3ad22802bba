"""An explanation as a person reads it."""

from __future__ import annotations

from collections import Counter
from textwrap import indent
from typing import TYPE_CHECKING

from pumice import instant
from pumice.api.scheduling import SCHEDULER_NAMES
from pumice.cli import gang_names
from pumice.cli.colours import PLAIN
from pumice.cli.printing import align
from pumice.cli.sources import LEADER, LISTING, PODGROUP
from pumice.cluster import amounts
from pumice.digits import counted
from pumice.scheduling.core.codes import Code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.cli.colours import Paint
    from pumice.cli.sources import Answer
    from pumice.instant import Instant
    from pumice.readmodel import model
    from pumice.scheduling.whatif.suggestion import Suggestions

CURES = {
    "eviction": "pods that end, or are evicted",
    "waiting": "time alone",
    "change": "a change of the job, its queue or the nodes",
}
MESSAGES_SHOWN_MAX = 5
STARTED = frozenset({"Running", "Completed"})


def text(answer: Answer, now: Instant, *, job: str = "", pod: str = "", paint: Paint = PLAIN) -> str:
    """The whole explanation, of a pod if its name is given."""
    detail = answer.detail
    parts = [_head(answer, now, job, pod, paint)]
    if detail.gang.phase not in STARTED or detail.gang.members.waiting:
        parts += [
            _reasons(answer, now, paint),
            _times(detail.gang, now),
            _volumes(detail.volumes),
            _leaving(detail, now),
            _ahead(detail),
            _share(detail),
            _cluster(detail),
            _room(detail.room),
            _eviction(detail.evictable, detail.gang.queue),
            _suggestions(answer.suggestions),
            _pods(detail),
        ]
    return "\n".join(part for part in parts if part).rstrip("\n")


def _head(answer: Answer, now: Instant, job: str, pod: str, paint: Paint) -> str:
    gang, members = answer.detail.gang, answer.detail.gang.members
    rows = [("PodGroup:", gang.key)]
    if pod:
        rows.insert(0, ("Pod:", _one_pod(answer.detail, pod)))
    if job:
        rows.append(("Job:", job))
    age = instant.human_duration(now - instant.parse_instant(gang.created)) if gang.created else "an unknown time"
    line = f", number {gang.position} in its queue" if gang.position > 1 else ""
    rows.append(("Phase:", f"{paint.phase(gang.phase)}, {age} old{line}"))
    rows.append(("Queue:", f"{gang.queue} ({_about(answer, paint)})"))
    counts = [f"{members.running} run", f"{members.waiting} wait"]
    if members.gated:
        counts.append(f"{members.gated} of them behind a scheduling gate")
    if members.finished:
        counts.append(f"{members.finished} have finished")
    together = f"; {members.minimum} must start together" if members.minimum > 1 else ""
    rows.append(("Members:", f"{counted(members.pods, 'pod')}: {', '.join(counts)}{together}"))
    if gang.asks:
        least, whole = amounts.read(gang.asks), _whole(answer.detail)
        more = any(value > least.get(name, 0) for name, value in whole.items())
        rows.append(
            (
                "Asks for:",
                _amounts_text(gang.asks) + (f" to start, {amounts.text(whole)} for all its pods" if more else ""),
            )
        )
    return align(rows)


def others(schedulers: Mapping[str, int]) -> str:
    """Pods of the gang that no Pumice looks at: somebody forgot to name it, most of the time."""
    lines = [
        f"  {counted(pods, 'pod')} of the group {'name' if pods != 1 else 'names'} the scheduler {name}; members of a gang need "
        f"schedulerName: {' or '.join(SCHEDULER_NAMES)}"
        for name, pods in sorted(schedulers.items())
    ]
    return "\n\n" + "\n".join(["Pods that Pumice leaves alone:", *lines]) if lines else ""


def _whole(detail: model.GangDetail) -> amounts.Amounts:
    """What all its pods hold and wait for; a gang may have more of them than must start together."""
    whole = {**amounts.read(detail.gang.holds)}
    amounts.add(whole, _waiting(detail))
    return whole


def _waiting(detail: model.GangDetail) -> amounts.Amounts:
    """What all its waiting pods ask for."""
    total: amounts.MutableAmounts = {}
    for shape in detail.room:
        amounts.add(total, amounts.read(shape.each), shape.waiting)
    return total


def _lacks(detail: model.GangDetail) -> amounts.Amounts:
    """What it takes beside what the gang holds: the rest of its minimum, or once it has started, what its other pods ask for."""
    gang = detail.gang
    if gang.members.running >= gang.members.minimum:
        return _waiting(detail)
    held = amounts.read(gang.holds)
    return {name: max(value - held.get(name, 0), 0) for name, value in amounts.read(gang.asks).items()}


def _about(answer: Answer, paint: Paint) -> str:
    queue = answer.detail.queue
    if queue is None:
        return "not visible to you" if answer.source == PODGROUP else "does not exist"
    return ", ".join(
        [paint.phase(queue.state), f"weight {queue.weight}", *([f"below {queue.parent}"] if queue.parent else [])]
    )


def _one_pod(detail: model.GangDetail, name: str) -> str:
    """How one member stands, in a line."""
    key = f"{detail.gang.namespace}/{name}"
    pod = next((each for each in detail.pods if each.name == name), None)
    if pod is None:
        return f"{key}: not looked at yet"
    if pod.node:
        return f"{key}, {pod.status} on {pod.node}"
    said = f"held by its scheduling gates {', '.join(pod.gates)}" if pod.gates else _message(detail, pod)
    return f"{key}, {pod.status}: {said or 'waits as its gang does, for the reasons below'}"


def _amounts_text(values: model.Amounts) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _reasons(answer: Answer, now: Instant, paint: Paint) -> str:
    reasons, nodes = answer.detail.gang.reasons, answer.detail.totals.nodes
    if not reasons:
        return f"Why it waits: {_no_reason_text(answer)}\n"
    lines = []
    for each in reasons:
        of = f" of {nodes}" if nodes else ""  # unknown to a user who may not list nodes
        where = f"{each.nodes}{of} nodes" if each.nodes else "the whole gang"
        cure = f"; what could change it: {CURES[each.cure]}" if each.cure in CURES else ""
        lines.append(f"  {where}: {paint.reason(each.reason)}\n    says {each.plugin}{cure}\n")
    return f"Why it waits{_source(answer, now)}:\n{''.join(lines)}"


SOURCES = {
    "limit": "its time limit",
    "declared": "as its owner says",
    "recorded": "as its last runs took by the record",
    "learned": "as its last runs took",
    "queue": "its queue's default",
    "policy": "the policy's default: nobody says how long it runs",
}


_OF_TIME = frozenset({Code.WOULD_DELAY.value, Code.NODE_RESERVED.value})


def _times(gang: model.Gang, now: Instant) -> str:
    """What is reserved for it, and for how long it is expected to run, where that matters: whoever ends before a reserved time may pass."""
    lines = []
    if gang.reservation is None and not any(each.code in _OF_TIME for each in gang.reasons):
        return ""
    if gang.reservation is not None:
        time, since = (instant.parse_instant(each) for each in (gang.reservation.time, gang.reservation.since))
        wait = f"in {instant.human_duration(time - now)}" if time > now else "now"
        kept = instant.human_duration(max(now - since, 0))
        nodes = counted(gang.reservation.nodes, "node")
        lines.append(
            f"  room on {nodes} is reserved from {gang.reservation.time} on at the latest, {wait}; kept for {kept}\n"
        )
    if gang.expected is not None:
        right = "" if gang.expected.right is None else f", right for {gang.expected.right:.0%} of them"
        source = SOURCES.get(gang.expected.source, gang.expected.source)
        lines.append(f"  it is expected to run for {gang.expected.length} ({source}{right})\n")
    return (
        f"When it can start:\n{''.join(lines)}"
        if gang.reservation is not None
        else "".join(f"Run time:\n{line}" for line in lines)
    )


def _no_reason_text(answer: Answer) -> str:
    if answer.source not in {LEADER, LISTING, PODGROUP}:
        return f"nothing was in its way in {answer.source}."
    said = (
        "no scheduler has said so far."
        if answer.source == PODGROUP
        else "nothing is in its way: a scheduler would start it now."
    )
    return f"{said}\n  Is one running, and is it the one that the pods' schedulerName names?"


def _source(answer: Answer, now: Instant) -> str:
    if answer.source == LEADER:
        return ", as the scheduler says now"
    if answer.source == LISTING:
        return ", as one cycle over a listing finds"
    if answer.source != PODGROUP:
        return f", as {answer.source} found"
    ago = f"{instant.human_duration(now - instant.parse_instant(answer.at))} ago" if answer.at else "at an unknown time"
    return f", as the scheduler wrote {ago}"


def _volumes(rows: Sequence[model.Volume]) -> str:
    lines = [
        f"  {each.claim}: {each.phase}{', storage class ' + each.storage_class if each.storage_class else ''}\n"
        for each in rows
    ]
    return f"Volume claims without a volume:\n{''.join(lines)}" if lines else ""


def _leaving(detail: model.GangDetail, now: Instant) -> str:
    lines = []
    for each in (one for claim in detail.claims if claim.gang == detail.gang.key for one in claim.leaving if one.pods):
        ends = instant.parse_instant(each.until) - now if each.until else 0
        within = f", within {instant.human_duration(max(ends, 0))}" if each.until else ""
        lines.append(
            f"  {each.node}, for {counted(each.for_pods, 'pod')} of it: "
            f"{counted(each.pods, 'pod')} with {_amounts_text(each.hold)} must end there{within}\n"
        )
    return f"Room that is being made for it:\n{''.join(lines)}" if lines else ""


def _ahead(detail: model.GangDetail) -> str:
    lines = [
        f"  {claim.gang}: {_amounts_text(claim.want[node])} on {node}, for {counted(pods, 'pod')}\n"
        for claim in detail.claims
        if claim.gang != detail.gang.key
        for node, pods in claim.places.items()
    ]
    return f"Room that others have claimed:\n{''.join(lines)}" if lines else ""


def _others(promised: model.Amounts, gang: model.Gang) -> amounts.Amounts:
    """What was promised to gangs that have not started, without this one's own."""
    own = amounts.read(gang.asks) if gang.phase == "Inqueue" else {}
    return {name: value - own.get(name, 0) for name, value in amounts.read(promised).items()}


def _share(detail: model.GangDetail) -> str:
    queue, asks = detail.queue, _lacks(detail)
    if queue is None:
        return ""
    # What it deserves is what the policy in force entitles it to: by weights, nobody has written anything.
    limits = {"GUARANTEE": queue.guarantee, "DESERVED": queue.entitled, "CAPABILITY": queue.capability}
    names = sorted({*asks, *queue.guarantee, *queue.deserved, *queue.capability})
    if not names:
        return ""
    held, promised, capability = (
        amounts.read(queue.allocated),
        _others(queue.promised, detail.gang),
        amounts.read(queue.capability),
    )
    rows, notes = [("RESOURCE", "ASKED", "ALLOCATED", "PROMISED", *limits)], ""
    for name in names:
        numbers = (asks.get(name, 0), held.get(name, 0), promised.get(name, 0))
        rows.append(
            (
                name,
                *(amounts.quantity_text(name, each) for each in numbers),
                *(each.get(name, "-") for each in limits.values()),
            )
        )
        over, limit = sum(numbers) - capability.get(name, amounts.UNLIMITED), queue.capability.get(name, "")
        if numbers[0] > capability.get(name, amounts.UNLIMITED):
            notes += (
                f"  {name}: {amounts.quantity_text(name, numbers[0])} asked are more than the capability of {limit}: "
                "waiting does not help; ask for less, or raise the capability\n"
            )
        elif over > 0 and numbers[0]:
            notes += f"  {_sum(name, numbers, 'allocated')} are {amounts.quantity_text(name, over)} more than the capability of {limit}\n"
    return f"Queue {queue.name}:\n{indent(align(rows), '  ')}{notes}"


def _cluster(detail: model.GangDetail) -> str:
    asks, totals = _lacks(detail), detail.totals
    if not asks or not totals.nodes:
        return ""
    total, used, promised = (
        amounts.read(totals.allocatable),
        amounts.read(totals.used),
        _others(totals.promised, detail.gang),
    )
    rows: list[tuple[str, ...]] = [("RESOURCE", "ASKED", "USED", "PROMISED", "TOTAL")]
    notes = ""
    for name in sorted(asks):
        numbers = (asks[name], used.get(name, 0), promised.get(name, 0))
        rows.append((name, *(amounts.quantity_text(name, each) for each in (*numbers, total.get(name, 0)))))
        over = sum(numbers) - total.get(name, 0)
        if over > 0:
            notes += f"  {_sum(name, numbers, 'used')} are {amounts.quantity_text(name, over)} more than there are\n"
    return f"All nodes:\n{indent(align(rows), '  ')}{notes}"


def _sum(name: str, numbers: tuple[float, float, float], held: str) -> str:
    asked, taken, promised = (amounts.quantity_text(name, each) for each in numbers)
    return f"{name}: {asked} asked, {taken} {held} and {promised} promised to others"


def _room(shapes: Sequence[model.Room]) -> str:
    lines = []
    for each in shapes:
        more = f" (and {each.fit - each.waiting} more would)" if each.fit > each.waiting else ""
        fit = f"{min(each.fit, each.waiting)} of {counted(each.waiting, 'pod')} would fit{more}"
        lines.append(
            f"  {_amounts_text(each.each) or 'nothing'} each: {fit}; {each.may_take} of {each.nodes} nodes may take them\n"
        )
        lines += [
            f"    {one.resource}: {one.free} free on those, at most {one.most_on_one_node} on one of them\n"
            for one in each.short
            if each.may_take
        ]
        if close := each.within:
            best = (
                f"{close.hyper_node} has most room, for {close.fit} of them" if close.hyper_node else "there are none"
            )
            lines.append(f"    of hyper nodes within tier {close.tier}, {best}\n")
    return f"Room now, each pod by itself:\n{''.join(lines)}" if lines else ""


def _eviction(short: Sequence[model.Evictable], queue: str) -> str:
    lines = []
    for each in short:
        name = each.resource
        if each.lower_priority_pods:
            pods = counted(each.lower_priority_pods, "pod")
            lines.append(f"  {pods} of lower priority in queue {queue}: {name} {each.held_by_them}\n")
        lines += [
            f"  queue {other}, beyond what it deserves: {name} {excess}\n"
            for other, excess in each.beyond_deserved.items()
        ]
        if not each.lower_priority_pods and not each.beyond_deserved:
            lines.append(
                f"  none: no pod of lower priority in queue {queue} holds {name}, and no queue more than it deserves\n"
            )
    return f"What could be evicted:\n{''.join(lines)}" if lines else ""


def _suggestions(found: Suggestions | None) -> str:
    """Single changes, each tried by the engine; that none was found is worth knowing, too."""
    if found is None:
        return ""
    plans = counted(found.tried, "plan")
    if not found.found:
        return f"What would start it: no single change that was tried ({plans})\n" if found.tried else ""
    lines = "".join(f"  {gang_names.by_job(each.text)}\n" for each in found.found)
    return f"What would start it, one change by itself, each tried by the engine ({plans}):\n{lines}"


def _message(detail: model.GangDetail, pod: model.Pod) -> str:
    """What was said of the pod; its own name in it would make every pod's a different one."""
    return pod.message.replace(f"Pod {detail.gang.namespace}/{pod.name} ", "")


def _pods(detail: model.GangDetail) -> str:
    said = Counter(message for pod in detail.pods if not pod.node and (message := _message(detail, pod)))
    lines = [f"  {counted(count, 'pod')}: {message}\n" for message, count in said.most_common(MESSAGES_SHOWN_MAX)]
    return f"What the pods were told:\n{''.join(lines)}" if lines else ""
