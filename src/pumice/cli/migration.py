"""What will behave differently when Pumice takes over from Volcano: objects in, findings out. Pure.

Every rule looks at one kind of object as Volcano's users write it, and points to the section of docs/differences.md that says
what Volcano does, what Pumice does, and why.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from pumice.api import decoding, kinds, names, validation
from pumice.api.flow import JobTemplate
from pumice.api.scheduling import ROOT_QUEUE, VOLCANO, Queue
from pumice.api.validation import Operation, Request, Settings
from pumice.controllers.hypernode import configuration
from pumice.errors import BadInput
from pumice.processes import policies
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pumice.api.meta import Json
    from pumice.api.priority import PriorityClass
    from pumice.api.validation import ClusterSize
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import Policy


DOCUMENT = "docs/differences.md"
POLICY_KEY = "volcano-scheduler.conf"
VOLCANO_PROGRAMS = ("vc-scheduler", "vc-controller-manager", "vc-webhook-manager")
_CONTROLLERS, _QUEUES, _NODES, _VICTIMS = "other-controllers", "queues", "nodes", "victims-and-shuffling"
_PREEMPTION, _TOPOLOGY = "preemption-and-reclaim", "topology-numa-and-devices"


class Severity(enum.StrEnum):
    """How much it matters, the worst first."""

    BREAKS = "breaks"  # it will not work until it is changed
    DIFFERS = "differs"  # it works, and does something else
    HINT = "hint"  # good to know


class Finding(Value):
    severity: Severity
    subject: str
    what: str
    section: str = ""

    @property
    def see(self) -> str:
        return f"{DOCUMENT}#{self.section}" if self.section else ""

    def as_data(self) -> Json:
        return {"severity": self.severity.value, "subject": self.subject, "what": self.what, "see": self.see}


def findings(objects: Sequence[Mapping[str, Any]], extra: Mapping[str, type[Plugin]]) -> list[Finding]:
    """Everything that is found, the worst first, each once."""
    world = World(objects, extra)
    found = dict.fromkeys(finding for each in objects for rule in _rules(each) for finding in rule(world, dict(each)))
    order = list(Severity)
    return sorted(found, key=lambda each: (order.index(each.severity), each.subject, each.what))


class World:
    """All objects together; what a single one refers to is found here."""

    def __init__(self, objects: Sequence[Mapping[str, Any]], extra: Mapping[str, type[Plugin]]) -> None:
        self.extra = extra
        self.lookup = _Dump(objects)
        self.budgets = sum(each.get("kind") == "PodDisruptionBudget" for each in objects)
        self.tiers = {_spec(each).get("tierName") for each in objects if each.get("kind") == "HyperNode"}


class _Dump:
    """The Lookup of api.validation over what was read; where no queue was read, every queue is there."""

    def __init__(self, objects: Iterable[Mapping[str, Any]]) -> None:
        self._queues: dict[str, Queue] = {}
        self._templates: dict[tuple[str, str], JobTemplate] = {}
        for each in objects:
            kind = kinds.by_kind(str(each.get("apiVersion", "")), str(each.get("kind", "")))
            if kind is None or kind.struct not in {Queue, JobTemplate}:
                continue
            value = decoding.decode_value(kind.struct, each)
            if isinstance(value, Queue):
                self._queues[value.metadata.name] = value
            elif isinstance(value, JobTemplate):
                self._templates[value.metadata.namespace, value.metadata.name] = value

    def queue(self, name: str) -> Queue | None:
        if not self._queues:
            body = {"metadata": {"name": name}, "status": {"state": "Open"}}
            return decoding.decode_value(Queue, body)
        return self._queues.get(name)

    def queues(self) -> Iterable[Queue]:
        return self._queues.values()

    def children(self, queue: str) -> Sequence[Queue]:
        return [
            each
            for each in self._queues.values()
            if each.metadata.name != ROOT_QUEUE and (each.spec.parent or ROOT_QUEUE) == queue
        ]

    def job_template(self, namespace: str, name: str) -> JobTemplate | None:
        return self._templates.get((namespace, name))

    def namespace_annotations(self, namespace: str) -> Mapping[str, str]:
        del namespace
        return {}

    def priority_class(self, name: str) -> PriorityClass | None:
        del name
        return None

    def cluster_size(self) -> ClusterSize | None:
        return None


def _spec(each: Mapping[str, Any]) -> Json:
    spec = each.get("spec")
    return spec if isinstance(spec, dict) else {}


def _subject(each: Mapping[str, Any]) -> str:
    metadata = each.get("metadata") or {}
    namespace = metadata.get("namespace")
    return f"{each['kind']} {f'{namespace}/' if namespace else ''}{metadata.get('name', '')}"


# ------------------------------------------------------------------------------------------------------------ policy file

# Plugin or action of a policy -> what is different about it, and where that is written.
IN_USE: Mapping[str, tuple[str, str]] = {
    "preempt": (
        "spares victims that it can do without, asks disruption budgets, and holds the room it made",
        _PREEMPTION,
    ),
    "reclaim": ("spares victims, keeps guarantees, and holds the room it made", _PREEMPTION),
    "gangpreempt": ("evicts for the minimum of a gang, and only where it can run afterwards", _TOPOLOGY),
    "gangreclaim": ("evicts for the minimum of a gang, and only where it can run afterwards", _TOPOLOGY),
    "shuffle": ("never touches system pods, and keeps budgets", _VICTIMS),
    "capacity": ("refuses single branches or gangs instead of stopping, and keeps ancestors' guarantees", _QUEUES),
    "resourcequota": ("counts members that have no pod yet, and reads all spellings of a resource", _QUEUES),
    "pdb": ("protects always, and counts one cycle's evictions together", _VICTIMS),
    "cdp": ("protects always", _VICTIMS),
    "tdm": ("reads windows in `tdm.time-zone`, UTC by default, and knows windows over midnight", _VICTIMS),
    "rescheduling": ("uses the measurements that there are, and takes only preemptable pods", _VICTIMS),
    "usage": ("asks two queries for all nodes, and estimates what nobody has measured yet", _NODES),
    "nodegroup": ("a queue that only names groups to avoid may use all others", _NODES),
    "resource-strategy-fit": ("a weight of 0 switches a score off", _NODES),
    "extender": ("a failure that may be ignored is no opinion, and one that may not is a no", _NODES),
    "deviceshare": ("locks a node right before the bind, not while it plans", _NODES),
    "sla": ("a gang that is due holds free room, but nobody is evicted for half of it", _PREEMPTION),
    "network-topology-aware": ("finds a gang's hyper node again after a restart", _TOPOLOGY),
    "task-topology": ("reads labels too, and looks at running members", _TOPOLOGY),
    "numa-aware": ("tries an eviction where an empty node would do", _TOPOLOGY),
}


def _config_map(world: World, each: Json) -> Iterator[Finding]:
    data = each.get("data") or {}
    subject = _subject(each)
    for key, text in data.items():
        if key == configuration.KEY:
            read = configuration.read({key: text}, subject=subject)
            yield from (Finding(Severity.BREAKS, subject, problem, _CONTROLLERS) for problem in read.problems)
        elif key == POLICY_KEY or key.endswith("scheduler.conf"):
            yield from _policy(world, f"{subject} {key}", text)


def _policy(world: World, subject: str, text: str) -> Iterator[Finding]:
    try:
        policy = policies.parse_policy(text, subject, world.extra)
    except BadInput as error:
        yield Finding(Severity.BREAKS, subject, str(error).removeprefix(f"policy {subject}: "), "policy-file")
        return
    for name in (*policy.actions, *(option.name for option in policy.options)):
        if name in IN_USE:
            what, section = IN_USE[name]
            yield Finding(Severity.DIFFERS, subject, f"{name} {what}", section)
    yield from _eviction(world, subject, policy)


def _eviction(world: World, subject: str, policy: Policy) -> Iterator[Finding]:
    evicting = {"preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle"} & set(policy.actions)
    if evicting and world.budgets:
        what = f"{world.budgets} PodDisruptionBudgets are asked before a pod is evicted; Volcano deletes past them"
        yield Finding(Severity.DIFFERS, subject, what, _PREEMPTION)


# ------------------------------------------------------------------------------------------------------------ how Volcano runs

# Flag of Volcano's programs -> what becomes of it.
FLAGS: Mapping[str, tuple[Severity, str]] = {
    "--plugins-dir": (
        Severity.BREAKS,
        "plugins are Python packages here: rewrite yours (docs/guides/writing-a-plugin.md)",
    ),
    "--scheduler-sharding-mode": (Severity.BREAKS, "one scheduler serves all nodes: there are no shards"),
    "--node-selector": (Severity.BREAKS, "all nodes are used: keep others away with taints"),
    "--ignored-provisioners": (Severity.DIFFERS, "every provisioner counts: leave the storage class unlimited instead"),
    "--percentage-nodes-to-find": (Severity.HINT, "all nodes are looked at: columns need no sample"),
    "--schedule-period": (Severity.HINT, "a cycle begins when something changes, not after a period"),
    "--max-requeue-num": (Severity.DIFFERS, "controllers never give up; they try more and more rarely"),
}


def _deployment(_: World, each: Json) -> Iterator[Finding]:
    subject = _subject(each)
    containers = (_spec(each).get("template") or {}).get("spec", {}).get("containers") or ()
    for container in containers:
        words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
        image = str(container.get("image", ""))
        if not any(program in image or f"/{program}" in words for program in VOLCANO_PROGRAMS):
            continue
        given = {flag: value for flag, _, value in (word.partition("=") for word in " ".join(words).split())}
        for flag, (severity, what) in FLAGS.items():
            if flag in given and given[flag] not in {"none", ""}:
                yield Finding(severity, subject, f"{flag}={given[flag]}: {what}")
        served = given.get("--scheduler-name", VOLCANO)
        if served != VOLCANO:
            yield Finding(Severity.BREAKS, subject, f"serves {served!r}: set schedulerNames of the chart to it")
    if _spec(each).get("replicas") != 0 and any(program in str(each) for program in VOLCANO_PROGRAMS):
        what = "is still there: while it holds its lease, Pumice refuses to start; scale it to 0 first"
        yield Finding(Severity.HINT, subject, what)


def _agent(_: World, each: Json) -> Iterator[Finding]:
    if "vc-agent" in str(_spec(each)):
        what = "colocation by an agent on the nodes has no counterpart; pods that count on it compete as usual"
        yield Finding(Severity.BREAKS, _subject(each), what)


def _unread(_: World, each: Json) -> Iterator[Finding]:
    yield Finding(Severity.BREAKS, _subject(each), "nobody reads objects of this kind here; they stay, without effect")


def _webhook_configuration(_: World, each: Json) -> Iterator[Finding]:
    hooks = [hook for hook in each.get("webhooks") or () if "volcano" in str(hook.get("clientConfig", ""))]
    closed = [hook["name"] for hook in hooks if hook.get("failurePolicy", "Fail") == "Fail"]
    if closed:
        what = (
            f"refuses everything once Volcano's admission is gone ({len(closed)} webhooks fail closed): delete it then"
        )
        yield Finding(Severity.BREAKS, _subject(each), what)


# ------------------------------------------------------------------------------------------------------------ objects


def _review(world: World, each: Json) -> Iterator[Finding]:
    """What admission would say if the object were submitted again; what is there already is not asked about."""
    settings = Settings()
    new = {key: value for key, value in each.items() if key != "status"}
    request = Request(Operation.CREATE, new=new, old=None, lookup=world.lookup, settings=settings)
    found = validation.review(each["kind"], request)
    if found.errors:
        text = validation.message(found.errors)
        yield Finding(
            Severity.DIFFERS, _subject(each), f"would be refused if it were submitted again: {text}", "admission"
        )


def _job(_: World, each: Json) -> Iterator[Finding]:
    spec, subject = _spec(each), _subject(each)
    tasks = [task for task in spec.get("tasks") or () if isinstance(task, dict)]
    rules = [*(spec.get("policies") or ()), *(rule for task in tasks for rule in task.get("policies") or ())]
    events = {event for rule in rules for event in (rule.get("event"), *(rule.get("events") or ())) if event}
    if any(rule.get("timeout") for rule in rules):
        what = "delayed actions survive a restart of the controller, and end when their cause does"
        yield Finding(Severity.DIFFERS, subject, what, "jobs")
    if events & {"PodEvicted", "*"}:
        yield Finding(Severity.DIFFERS, subject, "scaling down no longer raises PodEvicted", "jobs")
    if "Unknown" in events:
        yield Finding(Severity.DIFFERS, subject, "the Unknown policy works after the first restart, too", "jobs")


def _pod_group(world: World, each: Json) -> Iterator[Finding]:
    spec, subject = _spec(each), _subject(each)
    queue = spec.get("queue") or "default"
    if world.lookup.queue(queue) is None:
        yield Finding(Severity.DIFFERS, subject, f"its queue {queue!r} does not exist: it waits, and says so", "gangs")
    wished = [spec.get("networkTopology"), *(each.get("networkTopology") for each in spec.get("subGroupPolicy") or ())]
    for topology in wished:
        tier = (topology or {}).get("highestTierName")
        if tier and world.tiers and tier not in world.tiers:
            what = f"no HyperNode has the tier name {tier!r}: it waits instead of being scattered"
            yield Finding(Severity.DIFFERS, subject, what, _TOPOLOGY)


def _queue(world: World, each: Json) -> Iterator[Finding]:
    spec, subject = _spec(each), _subject(each)
    parent = spec.get("parent")
    if parent and parent != ROOT_QUEUE and world.lookup.queue(parent) is None:
        what = f"its parent {parent!r} does not exist: only this branch is refused, and told so"
        yield Finding(Severity.DIFFERS, subject, what, _QUEUES)
    if each.get("metadata", {}).get("name") == ROOT_QUEUE and spec.get("capability"):
        yield Finding(Severity.DIFFERS, subject, "its capability limits what it names, and nothing else", _QUEUES)


def _cron_job(_: World, each: Json) -> Iterator[Finding]:
    spec, subject = _spec(each), _subject(each)
    if not spec.get("timeZone") and not str(spec.get("schedule", "")).startswith("@every"):
        what = "has no timeZone: it runs by UTC, not by the clock of whichever machine the controller is on"
        yield Finding(Severity.DIFFERS, subject, what, _CONTROLLERS)


def _job_flow(_: World, each: Json) -> Iterator[Finding]:
    flows = [part for part in _spec(each).get("flows") or () if isinstance(part, dict)]
    subject = _subject(each)
    if any((part.get("dependsOn") or {}).get("probe") for part in flows):
        yield Finding(Severity.DIFFERS, subject, "its probes work: its Jobs wait for them", _CONTROLLERS)
    if any(part.get("patch") for part in flows):
        yield Finding(Severity.DIFFERS, subject, "its patches work: they change its Jobs", _CONTROLLERS)


def _pod(_: World, each: Json) -> Iterator[Finding]:
    annotations = (each.get("metadata") or {}).get("annotations") or {}
    if names.VOLCANO_GROUP_NAME in annotations and names.GROUP_NAME not in annotations:
        what = f"is a member of the group that {names.VOLCANO_GROUP_NAME} names"
        yield Finding(Severity.DIFFERS, _subject(each), what, "gangs")


# Kinds of Volcano; Kubernetes has a Job, a CronJob and a PodGroup of its own.
RULES: Mapping[str, tuple[Callable[[World, Json], Iterator[Finding]], ...]] = {
    "ColocationConfiguration": (_unread,),
    "CronJob": (_cron_job,),
    "HyperNode": (_review,),
    "Job": (_job, _review),
    "JobFlow": (_job_flow, _review),
    "NodeShard": (_unread,),
    "PodGroup": (_pod_group,),
    "Queue": (_queue,),
}
BESIDE: Mapping[str, tuple[Callable[[World, Json], Iterator[Finding]], ...]] = {
    "ConfigMap": (_config_map,),
    "DaemonSet": (_agent,),
    "Deployment": (_deployment,),
    "MutatingWebhookConfiguration": (_webhook_configuration,),
    "Pod": (_pod,),
    "ValidatingWebhookConfiguration": (_webhook_configuration,),
}


def _rules(each: Mapping[str, Any]) -> tuple[Callable[[World, Json], Iterator[Finding]], ...]:
    group, _, _ = str(each.get("apiVersion", "")).rpartition("/")
    return (RULES if group.endswith(".volcano.sh") else BESIDE).get(str(each.get("kind", "")), ())
