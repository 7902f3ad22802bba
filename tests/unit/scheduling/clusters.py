"""Small clusters as literals: what a test does not mention has a boring default.

    decisions = plan_for(a_node("n1", cpu="2"), a_gang("train", 3, cpu="1"), policy=policy("allocate", "gang"))
    assert binds(decisions) == {}

Whatever a builder has no word for goes in as Kubernetes writes it: `a_pod("p", spec={"nodeSelector": {"zone": "a"}})`.
"""

from collections.abc import Iterable

import msgspec

from pumice import instant
from pumice.api import changes, decoding, kinds
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin, cycle
from pumice.yamltext import load_all

DAY = instant.parse_instant("2026-01-01T00:00:00Z")
NOW = DAY + instant.HOUR
GROUP = "scheduling.k8s.io/group-name"
ROLE = "volcano.sh/task-spec"
SCHEDULING = "scheduling.volcano.sh/v1beta1"


def when(seconds):
    """A time of day, in seconds since midnight, as the API server writes it; objects are made at midnight."""
    return instant.format_instant(DAY + seconds * instant.SECOND)


def an_object(api_version, kind, manifest):
    """Any object from its manifest, without apiVersion and kind."""
    return decoding.decode_value(kinds.by_kind(api_version, kind).struct, manifest)


def objects(text):
    """Objects from YAML documents."""
    documents = [document for document in load_all(text, source="test") if document]
    return [an_object(document["apiVersion"], document["kind"], document) for document in documents]


def merged(left, right):
    """Two manifests laid over one another; the right one wins."""
    if not isinstance(left, dict) or not isinstance(right, dict):
        return right
    return {**left, **{key: merged(left[key], value) if key in left else value for key, value in right.items()}}


def resources(cpu=None, memory=None, gpu=None, more=()):
    named = {"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpu, **dict(more)}
    return {name: str(value) for name, value in named.items() if value}


def _metadata(name, created, labels, annotations, namespace=None, uid=None):
    identity = f"{namespace}/{name}" if namespace else name
    return {
        "name": name, "uid": uid or identity, "creationTimestamp": when(created), "labels": labels or {},
        "annotations": annotations or {}, **({"namespace": namespace} if namespace else {}),
    }  # fmt: skip


def a_node(
    name="n1", *, cpu="4", memory="16Gi", gpu=None, pods="110", more=(), labels=None, annotations=None, taints=(),
    created=0, **manifest,
):  # fmt: skip
    """A node; taints as `key=value:effect`."""
    room = resources(cpu, memory, gpu, {"pods": pods, **dict(more)})
    own = {
        "metadata": _metadata(name, created, {"kubernetes.io/hostname": name, **(labels or {})}, annotations),
        "spec": {"taints": [_taint(text) for text in taints]},
        "status": {"allocatable": room, "capacity": room},
    }
    return an_object("v1", "Node", merged(own, manifest))


def _taint(text):
    pair, _, effect = text.partition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def a_pod(
    name="p1", *, gang="", role="", cpu="1", memory=None, gpu=None, more=(), node="", phase=None, priority=None,
    namespace="default", uid=None, created=0, labels=None, annotations=None, **manifest,
):  # fmt: skip
    """A pod of ours: waiting, or running on `node`."""
    notes = {**({GROUP: gang} if gang else {}), **({ROLE: role} if role else {}), **(annotations or {})}
    own = {
        "metadata": _metadata(name, created, labels, notes, namespace, uid),
        "spec": {
            "schedulerName": "volcano", "nodeName": node, "priority": priority,
            "containers": [{"name": "main", "resources": {"requests": resources(cpu, memory, gpu, more)}}],
        },
        "status": {"phase": phase or ("Running" if node else "Pending")},
    }  # fmt: skip
    return an_object("v1", "Pod", merged(own, manifest))


def a_group(
    name="g1", min_member=1, *, queue="default", phase="Inqueue", minimum=None, roles=None, priority_class="",
    conditions=(), namespace="default", uid=None, created=0, labels=None, annotations=None, **manifest,
):  # fmt: skip
    """A PodGroup; `minimum` is its minResources, `roles` its minTaskMember."""
    own = {
        "metadata": _metadata(name, created, labels, annotations, namespace, uid),
        "spec": {
            "minMember": min_member, "queue": queue, "minTaskMember": roles, "minResources": minimum,
            "priorityClassName": priority_class,
        },
        "status": {"phase": phase, "conditions": list(conditions)},
    }  # fmt: skip
    return an_object(SCHEDULING, "PodGroup", merged(own, manifest))


def a_gang(name, size, *, min_member=None, running=(), group=None, namespace="default", created=0, **pods):
    """A PodGroup and its pods `<name>-w-0`, `<name>-w-1`...; the first ones run on the nodes in `running`.

    `group` holds further arguments of a_group; everything else is for each pod.
    """
    group = {"namespace": namespace, "created": created, **(group or {})}
    members = [
        a_pod(
            f"{name}-w-{number}", gang=name, namespace=namespace, created=created,
            node=running[number] if number < len(running) else "", **pods,
        )
        for number in range(size)
    ]  # fmt: skip
    return [a_group(name, size if min_member is None else min_member, **group), *members]


def a_queue(
    name="default", *, weight=1, priority=0, capability=None, deserved=None, guarantee=None, reclaimable=None,
    parent="", state="Open", annotations=None, created=0, **manifest,
):  # fmt: skip
    own = {
        "metadata": _metadata(name, created, None, annotations),
        "spec": {
            "weight": weight, "priority": priority, "reclaimable": reclaimable, "parent": parent,
            "capability": capability, "deserved": deserved, "guarantee": {"resource": guarantee},
        },
        "status": {"state": state},
    }  # fmt: skip
    return an_object(SCHEDULING, "Queue", merged(own, manifest))


def a_priority_class(name, value, *, default=False):
    return an_object(
        "scheduling.k8s.io/v1", "PriorityClass",
        {"metadata": _metadata(name, 0, None, None), "value": value, "globalDefault": default},
    )  # fmt: skip


def a_hyper_node(name, tier, *, nodes=(), children=(), tier_name="", members=()):
    """A HyperNode of named nodes and hyper nodes; `members` as Kubernetes writes them."""
    listed = [{"type": "Node", "selector": {"exactMatch": {"name": each}}} for each in nodes]
    listed += [{"type": "HyperNode", "selector": {"exactMatch": {"name": each}}} for each in children]
    return an_object(
        "topology.volcano.sh/v1alpha1", "HyperNode",
        {
            "metadata": _metadata(name, 0, None, None),
            "spec": {"tier": tier, "tierName": tier_name, "members": [*listed, *members]},
        },
    )  # fmt: skip


def flat(things):
    for thing in things:
        if isinstance(thing, Iterable):
            yield from flat(thing)
        else:
            yield thing


def a_cluster(*things):
    """A Cluster that has seen all objects (lists are opened); where no queue is given there is an open `default`."""
    cluster = Cluster()
    intake = Intake(cluster)
    found = list(flat(things))
    if not any(type(thing).__name__ == "Queue" for thing in found):
        found.append(a_queue())
    for thing in found:
        intake.apply(thing if isinstance(thing, changes.Change) else changes.Upserted(thing))
    cluster.check()
    return cluster


def policy(text, *tiers, configurations=()):
    """A Policy from its YAML text, or in short: `policy("enqueue, allocate", "priority gang", ["drf", {"name": ...}])`."""
    if not tiers:
        return builtin.parse(text, "test")
    listed = [tier.split() if isinstance(tier, str) else tier for tier in tiers]
    plugins = [{"plugins": [{"name": each} if isinstance(each, str) else each for each in tier]} for tier in listed]
    document = {"actions": text, "tiers": plugins, "configurations": list(configurations)}
    return builtin.parse(msgspec.json.encode(document), "test")


def plan_for(*things, policy, now=NOW, **arguments):
    """The decisions of one cycle over these objects."""
    return cycle.plan(a_cluster(*things).snapshot(), policy, now=now, **arguments)


def session_for(*things, policy, now=NOW, **arguments):
    """An open session over these objects, before any action."""
    return cycle.open_session(a_cluster(*things).snapshot(), policy, now=now, **arguments)


# ------------------------------------------------------------------------------------------------- reading decisions


def binds(decisions):
    """Pod name -> node, of all pods that start."""
    return {bind.task.name: bind.node for commit in decisions.commits for bind in commit.binds}


def started(decisions):
    """Gang name -> how many of its pods start."""
    return {commit.gang.partition("/")[2]: len(commit.binds) for commit in decisions.commits}


def evicted(decisions):
    return [eviction.task.name for eviction in decisions.evictions]


def promised(decisions):
    """Pod name -> node that it waits for."""
    return {key.partition("/")[2]: node for key, node in decisions.pipelined.items()}


def report(decisions, gang):
    return decisions.gangs[f"default/{gang}"]
