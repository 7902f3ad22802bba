"""Schemas of PodGroup, Queue and Command."""

from tools.crds.jobs import network_topology
from tools.crds.schema import (
    Schema,
    array,
    count,
    flag,
    instant,
    integer,
    label_selector,
    mapping,
    record,
    resources,
    short,
    subdomain,
    text,
    texts,
)

from pumice.api.batch import DEFAULT_QUEUE
from pumice.api.scheduling import DequeueStrategy, PodGroupPhase, QueueState

QUEUE_WEIGHT_MAX = 65535


def pod_group() -> dict[str, Schema]:
    sub_group = record(
        "One way to split the gang into sub groups.",
        {
            "name": short("Its name."),
            "networkTopology": network_topology("How far apart the pods of one sub group may be."),
            "subGroupSize": count("Pods of a sub group that are placed together.", least=1, default=1),
            "minSubGroups": count("Sub groups that must be able to start together.", default=0),
            "labelSelector": label_selector("Pods that this is about; absent is all."),
            "matchLabelKeys": texts("Labels whose values tell sub groups apart; none is one sub group.", atomic=True),
        },
    )
    spec = record(
        "What the gang needs.",
        {
            "minMember": count("Pods that must be able to start together: the size of the gang."),
            "minTaskMember": mapping("The same for each task by name.", integer()),
            "queue": subdomain("Queue that the gang draws from.", default=DEFAULT_QUEUE),
            "priorityClassName": short("Priority class of the gang."),
            "minResources": resources("What the gang needs before it may enter its queue; absent enters unasked."),
            "networkTopology": network_topology("How far apart the pods of the gang may be."),
            "subGroupPolicy": array("Sub groups of the gang.", sub_group),
        },
    )
    condition = record(
        "One condition.",
        {
            "type": text("Scheduled or Unschedulable."),
            "status": text("Whether it holds."),
            "reason": text("The cause in one word."),
            "message": text("The cause in a sentence."),
            "transitionID": text("Scheduling cycle that wrote it."),
            "lastTransitionTime": instant("When it was written."),
        },
    )
    status = record(
        "How the gang is doing; written by the scheduler through the object itself.",
        {
            "phase": text("Its phase.", enum=PodGroupPhase),
            "conditions": array("Why it waits, or that it does not.", condition),
            "running": count("Pods that are running."),
            "succeeded": count("Pods that have succeeded."),
            "failed": count("Pods that have failed."),
        },
    )
    return {"spec": spec, "status": status}


def queue() -> dict[str, Schema]:
    cluster = record(
        "One cluster.",
        {
            "name": text("Its name."),
            "weight": integer("Its weight."),
            "capacity": resources("What it offers."),
        },
    )
    spec = record(
        "The queue's share of the cluster.",
        {
            "weight": integer("Share relative to its siblings.", minimum=1, maximum=QUEUE_WEIGHT_MAX, default=1),
            "capability": resources("The most that the queue may ever use."),
            "deserved": resources("What the queue is entitled to: more is lent, and may be reclaimed."),
            "guarantee": record("What is kept free for the queue.", {"resource": resources("The amounts.")}),
            "reclaimable": flag("Whether others may reclaim what the queue uses beyond its share; absent is yes."),
            "parent": subdomain("Queue that this one takes its share from; absent is root."),
            "priority": count("Queues of higher priority come first."),
            "dequeueStrategy": text(
                "fifo: a gang that does not fit holds up those behind it; traverse: they are tried, too.",
                enum=DequeueStrategy,
                default=DequeueStrategy.TRAVERSE,
            ),
            "affinity": _queue_affinity(),
            "extendClusters": array("Other clusters that jobs may be sent to.", cluster),
            "type": short("Kept for old manifests; means nothing."),
        },
    )
    counters = {
        name: count(f"Gangs that are {name}.") for name in ("unknown", "pending", "running", "inqueue", "completed")
    }
    status = record(
        "How the queue is doing.",
        {
            "state": text("Whether gangs may enter.", enum=QueueState),
            "allocated": resources("What pods of the queue, and of those below it, use."),
            **counters,
            "reservation": record(
                "Kept for old objects; means nothing.",
                {"nodes": texts("Nodes that were reserved."), "resource": resources("Amounts that were reserved.")},
            ),
        },
    )
    return {"spec": spec, "status": status}


def _queue_affinity() -> Schema:
    return record(
        "Node groups that the queue's pods must or should use.",
        {
            "nodeGroupAffinity": _node_groups("Node groups to use."),
            "nodeGroupAntiAffinity": _node_groups("Node groups to avoid."),
        },
    )


def _node_groups(description: str) -> Schema:
    return record(
        description,
        {
            "requiredDuringSchedulingIgnoredDuringExecution": texts("Must."),
            "preferredDuringSchedulingIgnoredDuringExecution": texts("Should."),
        },
    )


def command() -> dict[str, Schema]:
    target = record(
        "What to act on.",
        {
            "apiVersion": text("Its API version."),
            "kind": text("Its kind: Job or Queue."),
            "name": text("Its name."),
            "uid": text("Its uid."),
            "controller": flag("Not looked at."),
            "blockOwnerDeletion": flag("Not looked at."),
        },
        required=("apiVersion", "kind", "name", "uid"),
        atomic=True,
    )
    return {
        "action": text("What to do, such as AbortJob, ResumeJob, OpenQueue or CloseQueue."),
        "target": target,
        "reason": text("Why, in one word."),
        "message": text("Why, in a sentence."),
    }
