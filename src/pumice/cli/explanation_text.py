"""An explanation as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.cli.printing import aligned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CURES = {
    "eviction": "pods that end, or are evicted",
    "waiting": "time alone",
    "change": "a change of the job, its queue or the nodes",
}


def text(answer: Mapping[str, Any], nodes: int) -> str:
    """The whole explanation; `nodes` is how many the cluster has."""
    parts = [_head(answer)]
    if "reasons" in answer:
        parts += [
            _reasons(answer["reasons"], nodes, answer["verdict"]),
            _volumes(answer["volumes"]),
            _leaving(answer["leaving"]),
            _ahead(answer["ahead"]),
            _share(answer["queue"]),
            _cluster(answer["cluster"]),
            _room(answer["room"]),
            _eviction(answer["eviction"], answer["queue"]["name"]),
            _pods(answer["pods"]),
        ]
    return "\n".join(part for part in parts if part).rstrip("\n")


def _head(answer: Mapping[str, Any]) -> str:
    members, queue = answer["members"], answer["queue"]
    rows = [("PodGroup:", answer["podGroup"])]
    if "pod" in answer:
        rows.insert(0, ("Pod:", answer["pod"]))
    if "job" in answer:
        rows.append(("Job:", answer["job"]))
    rows.append(("Phase:", f"{answer['phase']}, {answer['age']} old"))
    about = [queue["state"]]
    if "weight" in queue:
        about.append(f"weight {queue['weight']}")
    if queue.get("parent"):
        about.append(f"below {queue['parent']}")
    rows.append(("Queue:", f"{queue['name']} ({', '.join(about)})"))
    counts = [f"{members['running']} run", f"{members['waiting']} wait"]
    if members["gated"]:
        counts.append(f"{members['gated']} of them behind a scheduling gate")
    if members["finished"]:
        counts.append(f"{members['finished']} have finished")
    need = f"{members['minimum']} must start together"
    rows.append(("Members:", f"{_counted(members['pods'], 'pod')}: {', '.join(counts)}; {need}"))
    if answer["asks"]:
        rows.append(("Asks for:", ", ".join(f"{name} {amount}" for name, amount in answer["asks"].items())))
    return aligned(rows)


def _share(queue: Mapping[str, Any]) -> str:
    if not queue.get("shares"):
        return ""
    words = ("asked", "allocated", "promised", "guarantee", "deserved", "capability")
    text = f"Queue {queue['name']}:\n{_amounts(queue['shares'], words)}"
    for each in queue["shares"]:
        if each["alone"]:
            text += (
                f"  {each['resource']}: {each['asked']} asked are more than the capability of {each['capability']}: "
                "waiting does not help; ask for less, or raise the capability\n"
            )
        elif each["over"]:
            text += f"  {_sum(each, 'allocated')} are {each['over']} more than the capability of {each['capability']}\n"
    return text


def _cluster(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    text = f"All nodes:\n{_amounts(rows, ('asked', 'used', 'promised', 'total'))}"
    return text + "".join(
        f"  {_sum(each, 'used')} are {each['over']} more than there are\n" for each in rows if each["over"]
    )


def _sum(row: Mapping[str, Any], held: str) -> str:
    return f"{row['resource']}: {row['asked']} asked, {row[held]} {held} and {row['promised']} promised to others"


def _amounts(rows: Sequence[Mapping[str, Any]], words: Sequence[str]) -> str:
    cells = [(each["resource"], *(each.get(word, "-") for word in words)) for each in rows]
    return _indented(aligned([("RESOURCE", *(word.upper() for word in words)), *cells]))


def _reasons(reasons: Sequence[Mapping[str, Any]], nodes: int, verdict: Mapping[str, str]) -> str:
    if not reasons:
        return (
            "Why it waits: no scheduler has said so far.\n"
            "  Is one running, and is it the one that the pods' schedulerName names?\n"
        )
    lines = []
    for each in reasons:
        of = f" of {nodes}" if nodes else ""  # unknown to a user who may not list nodes
        where = f"{each['nodes']}{of} nodes" if each["nodes"] else "the whole gang"
        cure = f"; what could change it: {CURES[each['cure']]}" if each["cure"] in CURES else ""
        lines.append(f"  {where}: {each['reason']}\n    says {each['plugin']}{cure}\n")
    return f"Why it waits{_source(verdict)}:\n{''.join(lines)}"


def _source(verdict: Mapping[str, str]) -> str:
    if verdict["from"] == "objects":
        return ""
    if verdict["from"] == "scheduler":
        return ", as the scheduler says now"
    age = f"{verdict['age']} ago" if verdict["age"] else "at an unknown time"
    return f", as the scheduler wrote {age}"


def _volumes(rows: Sequence[Mapping[str, str]]) -> str:
    lines = [
        f"  {each['claim']}: {each['phase']}{', storage class ' + each['storageClass'] if each['storageClass'] else ''}\n"
        for each in rows
    ]
    return f"Volume claims without a volume:\n{''.join(lines)}" if lines else ""


def _leaving(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        f"  {each['node']}, for {_counted(each['forPods'], 'pod')} of it: "
        f"{_counted(each['pods'], 'pod')} with {each['hold']} must end there, within {each['within']}\n"
        for each in rows
    ]
    return f"Room that is being made for it:\n{''.join(lines)}" if lines else ""


def _ahead(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        f"  {each['podGroup']}: {each['want']} on {each['node']}, for {_counted(each['pods'], 'pod')}\n"
        for each in rows
    ]
    return f"Room that others have claimed:\n{''.join(lines)}" if lines else ""


def _room(shapes: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for each in shapes:
        more = f" (and {each['fit'] - each['waiting']} more would)" if each["fit"] > each["waiting"] else ""
        fit = f"{min(each['fit'], each['waiting'])} of {each['waiting']} pods would fit{more}"
        lines.append(f"  {each['each']} each: {fit}; {each['mayTake']} of {each['nodes']} nodes may take them\n")
        lines += [
            f"    {one['resource']}: {one['free']} free on those, at most {one['mostOnOneNode']} on one of them\n"
            for one in each["short"]
            if each["mayTake"]
        ]
        if close := each.get("within"):
            best = (
                f"{close['hyperNode']} has most room, for {close['fit']} of them"
                if close["hyperNode"]
                else "there are none"
            )
            lines.append(f"    of hyper nodes within tier {close['tier']}, {best}\n")
    return f"Room now, by resources, taints and node labels alone:\n{''.join(lines)}" if lines else ""


def _eviction(short: Sequence[Mapping[str, Any]], queue: str) -> str:
    lines = []
    for each in short:
        name = each["resource"]
        if each["lowerPriorityPods"]:
            pods = _counted(each["lowerPriorityPods"], "pod")
            lines.append(f"  {pods} of lower priority in queue {queue}: {name} {each['heldByThem']}\n")
        lines += [
            f"  queue {other}, beyond what it deserves: {name} {excess}\n"
            for other, excess in each["beyondDeserved"].items()
        ]
        if not each["lowerPriorityPods"] and not each["beyondDeserved"]:
            lines.append(
                f"  nobody: no pod of lower priority in queue {queue} holds {name}, and no queue more than it deserves\n"
            )
    return f"Who could be evicted:\n{''.join(lines)}" if lines else ""


def _pods(messages: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"  {_counted(each['pods'], 'pod')}: {each['message']}\n" for each in messages]
    return f"What the pods were told:\n{''.join(lines)}" if lines else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _indented(lines: str) -> str:
    return "".join(f"  {line}\n" for line in lines.splitlines())
