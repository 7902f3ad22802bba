"""Objects described for people: one line a fact, events last."""

from __future__ import annotations

import re
from textwrap import indent
from typing import TYPE_CHECKING, Any

from pumice.api import cells, names
from pumice.api.events import CoreEvent
from pumice.api.kinds import by_struct
from pumice.api.scheduling import PodGroup
from pumice.cli import tables
from pumice.cli.colours import PLAIN
from pumice.cli.printing import align

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.meta import Json
    from pumice.cli.colours import Paint
    from pumice.instant import Instant
    from pumice.kube.client import Client

EVENTS_SHOWN_MAX = 20
_WAITS = "Unschedulable"  # the group's reason
_WAITING = frozenset({_WAITS, "FailedScheduling", "PodGroupPending"})
_PREFIX = re.compile(r"^(PodGroup \S+ \w+, reason: )?(\d+/\d+ tasks in gang unschedulable: )?")
_SECONDS = len("2026-01-01T00:00:00")  # what timestamps with and without fractions have in common


async def events_of(client: Client, obj: Json) -> list[Json]:
    """What was recorded about the object, oldest first."""
    meta = obj["metadata"]
    fields = f"involvedObject.uid={meta['uid']}"
    found = await client.list_json(by_struct(CoreEvent), namespace=meta.get("namespace", ""), fields=fields)
    return sorted(found, key=when)


async def events_of_job(client: Client, job: Json) -> list[Json]:
    """What was recorded about the Job, its groups and its pods, oldest first; what was said of several of them comes once.

    Pods of a former attempt count as well: why they ended is what one looks for.
    """
    meta = job["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    groups = await client.list_json(by_struct(PodGroup), namespace=namespace)
    uids = {meta["uid"]}
    uids |= {
        each["metadata"]["uid"]
        for each in groups
        if any(owner.get("uid") == meta["uid"] for owner in each["metadata"].get("ownerReferences") or ())
    }
    pods = {f"{name}-{task.get('name')}" for task in (job.get("spec") or {}).get("tasks") or ()}

    def concerns(about: Json) -> bool:
        is_pod = about.get("kind") == "Pod" and about.get("name", "").rpartition("-")[0] in pods
        return about.get("uid") in uids or is_pod

    found = await client.list_json(by_struct(CoreEvent), namespace=namespace)
    own = [each for each in found if concerns(each.get("involvedObject") or {})]
    born = (meta.get("creationTimestamp") or "")[:_SECONDS]  # an earlier Job of this name had pods of the same names
    return merge([each for each in own if when(each)[:_SECONDS] >= born])


def is_trouble(event: Json) -> bool:
    """A warning that says more than that the gang waits."""
    return event.get("type") == "Warning" and event.get("reason") not in _WAITING


def merge(events: Sequence[Json]) -> list[Json]:
    """Each thing that was said once, by its last time, oldest first; `about` says of what: `pod/w-0`, or `3 pods`."""
    said: dict[tuple[str, str], dict[str, Json]] = {}
    for each in sorted(events, key=when):
        about = each.get("involvedObject") or {}
        named = f"{about.get('kind', '').lower()}/{about.get('name', '')}"
        topic = _topic(each, f"{about.get('namespace', '')}/{about.get('name', '')}")
        same = said.pop(topic, {})
        same.pop(named, None)  # so that it stands last now
        said[topic] = {**same, named: each}
    return [{**_representative(list(found.values())), "about": _subjects(list(found))} for found in said.values()]


def _topic(event: Json, own_name: str) -> tuple[str, str]:
    """Equal for what says the same: why a gang waits is told on its group, its first pods and its Job, each in its own words."""
    reason, message = event.get("reason") or "", (event.get("message") or "").replace(own_name, "").strip()
    return (_WAITS, _PREFIX.sub("", message)) if reason in _WAITING else (reason, message)


def _representative(events: Sequence[Json]) -> Json:
    """The group's own word where there is one, else the latest."""
    of_group = [each for each in events if each.get("reason") == _WAITS]
    latest: Json = (of_group or events)[-1]
    return {**latest, "lastTimestamp": max(when(each) for each in events)}


def _subjects(named: Sequence[str]) -> str:
    """One name as it is; several pods as their number."""
    pods = [each for each in named if each.startswith("pod/")]
    others = [each for each in named if each not in pods]
    return ", ".join([*others, *(pods if len(pods) < 2 else [f"{len(pods)} pods"])])


def when(event: Json) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def facts(pairs: Sequence[tuple[str, Any]]) -> str:
    return align([(f"{name}:", tables.text(value)) for name, value in pairs])


def job_text(job: Json, events: Sequence[Json], now: Instant, paint: Paint = PLAIN, *, starts: str = "") -> str:
    """A Job as `pumice job view` shows it; `starts` says when it will, where it waits and that is foreseen."""
    meta, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
    state = status.get("state") or {}
    parts = [
        facts(
            [
                ("Name", meta["name"]),
                ("Namespace", meta.get("namespace")),
                ("Labels", cells.labels_text(meta.get("labels"))),
                ("Created", f"{meta.get('creationTimestamp')} ({tables.age(job, now)} ago)"),
                ("Queue", spec.get("queue") or "default"),
                ("Scheduler", spec.get("schedulerName")),
                ("Priority class", spec.get("priorityClassName")),
                ("Min available", f"{spec.get('minAvailable', 0)} of {_total(spec)}"),
                ("Max retry", spec.get("maxRetry", 0)),
                *([("Time limit", limit)] if (limit := _time_limit(meta)) else []),
                ("Plugins", ", ".join(sorted(spec.get("plugins") or {}))),
                ("Phase", paint.phase(tables.text(state.get("phase")))),
                ("Reason", " ".join(filter(None, (state.get("reason"), state.get("message"))))),
                *([("Starts again" if status.get("version") else "Starts", starts)] if starts else []),
                ("Retries", status.get("retryCount", 0)),
            ]
        ),
        "\nTasks:\n"
        + indent(align([_TASK_HEADS, *(_task_row(task, status) for task in spec.get("tasks") or ())]), "  "),
    ]
    if conditions := status.get("conditions") or ():
        rows = [(each.get("status", ""), tables.since(each.get("lastTransitionTime"), now)) for each in conditions]
        parts.append("\nConditions:\n" + indent(align([("PHASE", "AGE"), *rows]), "  "))
    parts.append("\n" + events_text(events, now))
    return "".join(parts).rstrip("\n")


def _total(spec: Json) -> int:
    """Members of all tasks together; of these, minAvailable must start together."""
    return sum(task.get("replicas", 0) for task in spec.get("tasks") or ())


def _time_limit(metadata: Json) -> str:
    annotations = metadata.get("annotations") or {}
    limit, warning = (annotations.get(key, "") for key in (names.TIME_LIMIT, names.TIME_LIMIT_WARNING))
    return f"{limit}, told {warning} before" if limit and warning else limit


def queue_text(queue: Json, events: Sequence[Json], now: Instant, paint: Paint = PLAIN) -> str:
    """A Queue as `pumice queue view` shows it."""
    meta, spec, status = queue["metadata"], queue.get("spec") or {}, queue.get("status") or {}
    share = queue.get("share") or {}
    parts = [
        facts(
            [
                ("Name", meta["name"]),
                ("Created", f"{meta.get('creationTimestamp')} ({tables.age(queue, now)} ago)"),
                ("State", paint.phase(tables.text(status.get("state")))),
                ("Parent", spec.get("parent")),
                ("Weight", spec.get("weight", 1)),
                ("Priority", spec.get("priority", 0)),
                ("Reclaimable", "no" if spec.get("reclaimable") is False else "yes"),
                ("Gangs", f"{share['running']} run, {share['waiting']} wait" if share else None),
            ]
        ),
        _share_text(spec, share),
        "\n" + events_text(events, now),
    ]
    return "".join(parts).rstrip("\n")


def _share_text(spec: Json, share: Json) -> str:
    """What was written, and what it means under the policy in force."""
    from pumice.cli import usage

    columns = {
        "GUARANTEE": (spec.get("guarantee") or {}).get("resource"),
        "CAPABILITY": spec.get("capability"),
        **{name.upper(): share.get(name) for name in ("used", "deserved", "borrowed", "limit", "left")},
    }
    names = sorted({name for values in columns.values() for name in values or {}})
    rows = [
        (name, *(usage.quantity_text(name, str((values or {}).get(name, "-"))) for values in columns.values()))
        for name in names
    ]
    return "\nResources:\n" + indent(align([("RESOURCE", *columns), *rows]), "  ") if rows else ""


_COUNTED = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_TASK_HEADS = ("NAME", "REPLICAS", "MIN", *(name.upper() for name in _COUNTED))


def _task_row(task: Json, status: Json) -> list[str]:
    name = task.get("name", "")
    counts = ((status.get("taskStatusCount") or {}).get(name) or {}).get("phase") or {}
    numbers = [
        task.get("replicas", 0),
        task.get("minAvailable", cells.NONE),
        *(counts.get(each, 0) for each in _COUNTED),
    ]
    return [name or cells.NONE, *map(str, numbers)]


def events_text(events: Sequence[Json], now: Instant) -> str:
    if not events:
        return "Events: <none>\n"
    merged = any("about" in each for each in events)
    rows = [
        (
            each.get("type") or "",
            each.get("reason") or "",
            tables.since(when(each), now),
            *([each["about"]] if merged else []),
            ((each.get("source") or {}).get("component")) or each.get("reportingComponent") or "",
            each.get("message") or "",
        )
        for each in events[-EVENTS_SHOWN_MAX:]
    ]
    heads = ("TYPE", "REASON", "AGE", *(["OBJECT"] if merged else []), "FROM", "MESSAGE")
    return "Events:\n" + indent(align([heads, *rows]), "  ")
