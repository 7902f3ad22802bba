"""docs/reference/json.md: the names that `-o json` of listings prints."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import msgspec

from pumice.cli import usage
from tools.docs.type_text import type_text

_HEAD = """# Listings as data

Every command that asks a cluster takes `-o json`, `-o yaml` and `-o jsonpath=TEMPLATE`, and listings of objects `-o name`. Programs may rely on the
names below: none goes and none changes its meaning without a note in the changelog; a later version may have further ones. What people read,
tables and sentences, may change.

| command | answer |
| --- | --- |
| `pumice top -o json` | [Usage](#usage) |
| `pumice queue list -o json` | a `List`: `items` are Queues as they stand in the API server ([kinds](kinds.md#queue)), each with a [`share`](#queueshare) where the scheduler or a listing tells it |
| `pumice queue get NAME -o json`, `pumice queue view NAME -o json` | one of them |
| `pumice job list -o json` | a `List`: `items` are Jobs as they stand in the API server ([kinds](kinds.md#job)) |
| `pumice pod list`, `pumice jobflow list`, `pumice jobtemplate list` `-o json` | a `List` of such objects |
| `pumice jobflow get`, `pumice jobtemplate get`, `pumice jobflow describe`, `pumice jobtemplate describe` `-o json` | such an object, or a `List` of several |
| `pumice job view`, `pumice job run`, `pumice job scale`, `pumice job suspend`, `pumice job resume`, `pumice job restart`, `pumice job wait` `-o json` | the Job as it stands then |
| `pumice queue create`, `pumice queue set`, `pumice queue operate` `-o json` | the Queue as it stands then |
| `pumice job delete`, `pumice queue delete`, `pumice jobflow delete`, `pumice jobtemplate delete`, `pumice scancel` `-o json` | the object as it was |
| `pumice nodes -o json` | [Nodes](#nodes) |
| `pumice prio -o json`, `pumice sprio -o json` | [Gangs that wait](#gangs-that-wait) |
| `pumice deadlocks -o json` | [Deadlocks](#deadlocks) |
| `pumice history -o json`, `pumice sacct -o json` | [Finished gangs](#finished-gangs); `-o csv` has the names of `gangs[]` as its heads |
| `pumice report -o json` | [Bill](#bill) |
| `pumice forecast -o json` | [Forecasts](#forecasts) |
| `pumice why-evicted JOB -o json` | `evictions`: a list of [Eviction](read-model.md#eviction) |
| `pumice consolidate --dry-run -o json` | [Moves](#moves) |
| `pumice what-if ... -o json` | [Differences](#differences) |
| `pumice squeue -o json` | [Jobs as Slurm lists them](#jobs-as-slurm-lists-them) |
| `pumice sinfo -o json` | [Partitions](#partitions) |
| `pumice simulate ... -o json` | [Simulations](#simulations) |
| `pumice replay FILE -o json` | [Cycles](#cycles); of one cycle its names and those of `schedule`, of one gang a [GangDetail](read-model.md#gangdetail) |
| `pumice migrate check -o json` | [Findings](#findings) |
| `pumice status -o json` | `clusters`: `pid`, `started` (of the process), `url`, `kubeconfig` and `nodes` of each `pumice up` |
| `pumice version -o json` | `client`: `version`, `python` and `platform`; `server`: what the API server says at `/version` |
| `pumice bench plan -o json` | figures of one run, for people who compare machines; their names are not promised |
| `pumice explain ... -o json` | `source`, `job` and `events`, and a [GangDetail](read-model.md#gangdetail); `podsOfOtherSchedulers` (a number by scheduler) where the gang has none of ours |
| `pumice schedule -f FILE -o json` | `binds`, `pipelined`, `evictions`, `podGroups`, and `volumesFirst` where volumes come first; [reasons](reasons.md) |

A `List` has `apiVersion`, `kind`, `metadata` and `items`. With `-w`, `top` prints one document after the other, and a listing each object that changes.
Errors go to stderr, never into the data; the exit code is 0, or 1 for what failed, 2 for a wrong command line, 3 for what is not there, 4 for what was
refused, 5 for a conflict or time that is up, and 130 after Ctrl-C.

```bash
pumice top -o jsonpath='{.queues[*].name}'
pumice queue get research -o jsonpath="{.share.left['nvidia.com/gpu']}"
```
"""
NODES = {
    "resource": "which card is counted",
    "nodes[].name": "",
    "nodes[].state": "Ready, NotReady or Unknown, then `,SchedulingDisabled` and `,Tainted`",
    "nodes[].cards": "cards that the node has",
    "nodes[].used": "cards that pods have",
    "nodes[].free": "cards that a pod could have",
    "nodes[].fragmented": "free ones beside used ones",
    "nodes[].pods": "pods on the node",
    "largestGangs[].cardsEach": "of workers with so many cards each ...",
    "largestGangs[].each": "(with `--each`, instead) of workers that ask for this each ...",
    "largestGangs[].workers": "... so many would start now",
    "leftOut[].nodes": "nodes that take no such worker",
    "leftOut[].because": "and why",
    "stranded[].cardsEach": "of workers with so many cards each ...",
    "stranded[].free": "... so many cards are free",
    "stranded[].usable": "... and so many of them could be used",
    "stranded[].dollarsPerHour": "(with `--price`) what the others cost",
}
PRIO = {
    "at": "time of the cycle, RFC 3339",
    "source": "leader, or listing",
    "policy": "file of the policy, or `built-in policy`",
    "weights": "of the factors, by their names; empty: the policy has no factors",
    "gangs[].namespace": "",
    "gangs[].name": "of the PodGroup",
    "gangs[].job": "of its Job; empty: it has none",
    "gangs[].user": "",
    "gangs[].queue": "",
    "gangs[].position": "place in its queue, from 1",
    "gangs[].priority": "value of its priority class",
    "gangs[].rank": "sum of the factors by their weights; null: the policy has no factors",
    "gangs[].used": "part of the cluster that its user has used through the queue, recent use counting most; or null",
    "gangs[].factors": "by their names, each between 0 and 1; empty: the policy has none",
}
DEADLOCKS = {
    "at": "time of the cycle, RFC 3339",
    "source": "leader, or listing",
    "policy": "file of the policy, or `built-in policy`",
    "gangs[].namespace": "",
    "gangs[].name": "of the PodGroup",
    "gangs[].job": "of its Job; empty: it has none",
    "gangs[].queue": "",
    "gangs[].code": "HoldsWhileWaiting or QuotaHeld ([reasons](reasons.md))",
    "gangs[].reason": "the sentence for people",
    "gangs[].members": "pods that run",
    "gangs[].minimum": "pods that must start together",
    "gangs[].holds": "what it holds, or was promised, by resource; cards alone where it has any",
    "gangs[].blocks": "gangs that could start with that, as namespace/name; at most four",
    "gangs[].waitsFor": "a gang in the same plight with whose room it would start, as namespace/name; empty: for room of any kind",
    "gangs[].givesUpAt": "time, RFC 3339, at which it has to give up what it holds; empty: never",
    "flows[].namespace": "of a JobFlow whose parts wait for one another",
    "flows[].name": "",
    "flows[].ring": "names of parts, each of which waits for the next, the first one again at the end",
}
HISTORY = {
    "prices": "dollars per hour and unit of a resource, as configured",
    "gangs[].namespace": "",
    "gangs[].name": "",
    "gangs[].kind": "of what made the gang: Job, PodGroup, or PodGroup.scheduling.k8s.io for Kubernetes' own",
    "gangs[].uid": "",
    "gangs[].user": "",
    "gangs[].queue": "",
    "gangs[].team": "",
    "gangs[].state": "how it ended",
    "gangs[].reason": "",
    "gangs[].submitted": "time, RFC 3339; this one and the next three are empty where it never came so far",
    "gangs[].admitted": "",
    "gangs[].started": "",
    "gangs[].ended": "",
    "gangs[].waitSeconds": "",
    "gangs[].runSeconds": "",
    "gangs[].attempts": "",
    "gangs[].evictions": "",
    "gangs[].lostSeconds": "run time that was thrown away",
    "gangs[].gpuHours": "",
    "gangs[].lostGpuHours": "",
    "gangs[].dollars": "null: nothing that it held has a price",
    "gangs[].held": "amount times hours, by resource",
    "gangs[].shapes": "its pods: what equal ones ask for, and how many there were",
}
BILL = {
    "title": "what the bill is about, for people",
    "bill.by": "team, user, queue or namespace",
    "bill.lines[].name": "of the account; the most expensive first",
    "bill.lines[].gpuHours": "GPU hours that it held",
    "bill.lines[].lostGpuHours": "those of them that evictions threw away",
    "bill.lines[].dollars": "null: nothing that it held has a price",
    "bill.lines[].lostDollars": "what was thrown away; or null",
    "bill.total": "the same names, of all accounts",
    "bill.capacityGpuHours": "GPU hours that the nodes had; null: nobody has counted",
    "bill.idleGpuHours": "those that nobody held; or null",
    "bill.idleDollars": "what these cost; or null",
    "gaps": "times for which rows were given up: first second, last second, number of rows",
}
FORECASTS = {
    "at": "time of the cycle or of the listing, RFC 3339",
    "forecasts[].gang": "namespace/name of the PodGroup",
    "forecasts[].p50": "the likely start, RFC 3339; null: not within the horizon",
    "forecasts[].p90": "the time that holds in nine of ten cases; or null",
    "forecasts[].runs": "how often the engine was run ahead; 0: the leader's own forecast",
    "forecasts[].ahead": "gangs that run and end, or start, before it",
    "forecasts[].withoutEstimate": "those of them that nobody has said a run time of",
    "forecasts[].nodes": "pods that start there, by node, in the run as expected",
    "forecasts[].victims": "pods that are evicted for it, by gang",
    "forecasts[].complete": "false: the time for looking ahead was used up",
    "score": "([ForecastScore](read-model.md#forecastscore)) how often the last ones held; null or absent: not known",
    "record.since": "(where there is a record) second since 1970 from which on forecasts of the namespace are counted",
    "record.forecasts": "those whose gangs have started since",
    "record.held": "the part of these that had started by the second time; null: none",
    "record.offSeconds": "half of them started within so many seconds of the likely time; null: none",
}
MOVES = {
    "moves[].for": "gang that would start",
    "moves[].moved[].pod": "namespace/name of a pod that would be moved",
    "moves[].moved[].gang": "",
    "moves[].moved[].from": "its node",
    "moves[].lostGpuHours": "work that the moved pods would lose",
}
DIFFERENCES = {
    "starts": "gangs that would start and do not as things are: namespace/name of the PodGroup, and how many pods",
    "admitted": "gangs without pods that would be admitted, with how many must start together",
    "startsNoMore": "gangs that start as things are, and would not",
    "evicted": "gangs that would be evicted, and how many pods",
    "evictedNoMore": "gangs that are evicted as things are, and would stay",
    "displaced": "gangs with pods on a drained node; true: they would start again elsewhere",
    "waiting": "how many gangs would go on waiting",
    "at": "the moment from which was looked ahead, RFC 3339",
    "forecasts.GANG.before": "when it starts as things are; null: it does not wait",
    "forecasts.GANG.after": "when it would start",
    "forecasts.GANG.after.p50": "as likely before as after; null: not within a week, or (see `complete`) not known; so of `before`",
    "forecasts.GANG.after.p90": "in nine of ten cases by then",
    "forecasts.GANG.after.ahead": "gangs that run and are expected to end before",
    "forecasts.GANG.after.withoutEstimate": "of those, gangs whose end nobody has estimated",
    "forecasts.GANG.after.complete": "false: the look ahead was cut short",
    "notForecast": "gangs in line that nobody looked ahead for",
    "noForecast": "why nobody looked ahead at all; else empty",
}
SQUEUE = {
    "jobs[].job": "",
    "jobs[].namespace": "",
    "jobs[].partition": "its queue",
    "jobs[].user": "who submitted it, as admission has recorded it; else as its label `pumice.dev/user` says; else its namespace",
    "jobs[].state": "Slurm's short word: PD, R, CG, S, RQ, CD, CA, F or TO",
    "jobs[].phase": "of the Job",
    "jobs[].time": "seconds of run time",
    "jobs[].timeLimit": "seconds; null: none",
    "jobs[].pods": "",
    "jobs[].nodes": "that its pods are on; empty while it waits",
    "jobs[].reason": "why it waits, or is over; empty while it runs",
    "jobs[].start": "when it is expected to start, RFC 3339; null: not known",
    "jobs[].isForecast": "true: that time is likely and no more; false: room is reserved for it from then on",
    "jobs[].startUnknown": "why that is not known",
}
SINFO = {
    "partitions[].partition": "a queue",
    "partitions[].available": "false: it takes no new jobs",
    "partitions[].state": "idle, mix, alloc, drain or down",
    "partitions[].nodes": "nodes in that state",
    "nodes[].node": "(with `-N`, instead of `partitions`)",
    "nodes[].state": "",
}
SIMULATIONS = {
    "workload": "as it was given",
    "cluster": "as it was given",
    "seed": "",
    "left_out": "jobs of the workload that are not simulated, by the reason: `never_ran`, `no_gpu`, `too_large` (for the cluster)",
    "policies.NAME.mean_wait_s": "seconds from submission to start; this one and the next two: null where there is nothing to take a mean of",
    "policies.NAME.bounded_slowdown": "wait and run time by run time, of which at least ten seconds count; the mean",
    "policies.NAME.utilisation": "0 to 1",
    "policies.NAME.makespan_s": "seconds from the first submission to the last end",
    "policies.NAME.evictions": "",
    "policies.NAME.lost_gpu_h": "slot hours that evictions threw away",
    "policies.NAME.idle_gpu_h": "slot hours that nobody held, from the first submission to the last end",
    "policies.NAME.blocked_gpu_h": "slot hours held by gangs that did not run, because too many of their pods had no place",
    "policies.NAME.deadlocked_s": "seconds in which none of those could have started even if everything had ended that ran",
    "policies.NAME.give_backs": "how often such a gang gave back what it held",
    "policies.NAME.stranded_gpu_h": "slot hours that were free although a gang waited that asks for no more",
    "policies.NAME.fairness": "Jain's index over users' slowdowns: 1 where all suffer alike; null: there are fewer than two users",
    "policies.NAME.jobs": "",
    "policies.NAME.never_started": "",
    "policies.NAME.never_ended": "",
    "policies.NAME.cycles": "of the engine",
    "policies.NAME.idle_dollars": "(with `--gpu-price`) what idle and blocked slots cost",
    "policies.NAME.cut_short_s": "(after Ctrl-C) the second that it had come to",
    "policies.NAME.wait_by_size": "by size of the gang: `jobs`, `median_wait_s`, `mean_wait_s`, `p95_wait_s`, `max_wait_s`",
    "policies.NAME.runs[].gang": "(with `--per-job`, as the next ones) its key in a dump; `sim/job-0000007` for number 7 of a trace, counted from 0 without those that are left out",
    "policies.NAME.runs[].queue": "",
    "policies.NAME.runs[].user": "empty: not known",
    "policies.NAME.runs[].submit_s": "seconds since the beginning",
    "policies.NAME.runs[].run_s": "seconds that it runs, if nobody evicts it",
    "policies.NAME.runs[].size": "pods",
    "policies.NAME.runs[].slots": "of all its pods",
    "policies.NAME.runs[].start_s": "null: it did not start",
    "policies.NAME.runs[].end_s": "null: it did not end",
    "policies.NAME.runs[].restarts": "how often it lost its work to an eviction",
}
CYCLES = {
    "cycles[].cycle": "its number",
    "cycles[].time": "RFC 3339",
    "cycles[].gangs": "gangs that it knew",
    "cycles[].waiting": "those of them with pods that waited",
    "cycles[].binds": "pods that it placed",
    "cycles[].evictions": "pods that it took away",
    "cycles[].planned": "seconds that it took when it was recorded; null: it was not recorded whole",
    "cycles[].same": "whether it decides the same again; or null",
}
FINDINGS = {
    "objects": "how many were read",
    "findings[].severity": "the worst first",
    "findings[].subject": "the object that it is about",
    "findings[].what": "the sentence for people",
    "findings[].see": "page of the documentation",
}
STRUCTS = (usage.Usage, usage.QueueUsage, usage.UserUsage, usage.JobUsage, usage.Others, usage.QueueShare)


def reference() -> str:
    parts = [_HEAD]
    for struct in STRUCTS:
        parts.append(f"\n## {struct.__name__}\n\n{inspect.cleandoc(struct.__doc__ or '')}\n\n")
        parts.append("| name | type | meaning |\n| --- | --- | --- |\n")
        hints = typing.get_type_hints(struct, include_extras=True)
        for field in msgspec.structs.fields(struct):
            kind, meaning = _parts(hints[field.name])
            parts.append(f"| `{field.encode_name}` | {kind} | {meaning} |\n")
    for title, names in (
        ("Nodes", NODES),
        ("Gangs that wait", PRIO),
        ("Deadlocks", DEADLOCKS),
        ("Finished gangs", HISTORY),
        ("Bill", BILL),
        ("Forecasts", FORECASTS),
        ("Moves", MOVES),
        ("Differences", DIFFERENCES),
        ("Jobs as Slurm lists them", SQUEUE),
        ("Partitions", SINFO),
        ("Simulations", SIMULATIONS),
        ("Cycles", CYCLES),
        ("Findings", FINDINGS),
    ):
        parts.append(f"\n## {title}\n\n| name | meaning |\n| --- | --- |\n")
        parts += [f"| `{name}` | {meaning} |\n" for name, meaning in names.items()]
    return "".join(parts)


def _parts(hint: Any) -> tuple[str, str]:
    if typing.get_origin(hint) is typing.Annotated:
        inner, *extras = typing.get_args(hint)
        meaning = next((each.description for each in extras if isinstance(each, msgspec.Meta)), "")
        return _type(inner), meaning or ""
    return _type(hint), ""


def _type(hint: Any) -> str:
    return type_text(hint, _link, nothing="null", key="resource")


def _link(hint: Any) -> str | None:
    return f"[{hint.__name__}](#{hint.__name__.lower()})" if hint in STRUCTS else None
