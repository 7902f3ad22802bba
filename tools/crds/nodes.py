"""Schemas of the kinds that describe nodes: HyperNode, Numatopology, NodeShard, ColocationConfiguration."""

from tools.crds.schema import (
    Schema,
    array,
    conditions,
    count,
    instant,
    integer,
    label_selector,
    long,
    mapping,
    record,
    short,
    subdomain,
    text,
    texts,
    words,
)

from pumice.api.topology import MemberType
from pumice.api.validation.limits import TIER_MAX

_MATCHERS = ("exactMatch", "regexMatch", "labelMatch")
_ANY_MATCHER = " || ".join(f"has(self.{name})" for name in _MATCHERS)
_MATCHER_COUNT = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in _MATCHERS)


def hyper_node() -> dict[str, Schema]:
    selector = record(
        "How members are chosen.",
        {
            "exactMatch": record(
                "One member by name.",
                {"name": subdomain("Its name.") | {"minLength": 1}},
                required=("name",),
            ),
            "regexMatch": record(
                "Members whose whole or partial name fits.",
                {"pattern": text("Regular expression in RE2's syntax.", length=(1, None))},
                required=("pattern",),
            ),
            "labelMatch": label_selector("Nodes by label."),
        },
        rules=(
            (_ANY_MATCHER, "none of exactMatch, regexMatch and labelMatch is set: set one"),
            (f"{_MATCHER_COUNT} <= 1", "more than one of exactMatch, regexMatch and labelMatch is set: keep one"),
        ),
    )
    member = record(
        "Nodes, or HyperNodes of a lower tier.",
        {"type": text("What the selector chooses from.", enum=MemberType), "selector": selector},
        required=("type",),
    )
    spec = record(
        "Nodes that are close to one another.",
        {
            "tier": count("Level in the network; lower is closer.", most=TIER_MAX),
            "tierName": short("Name of the level."),
            "members": array("What belongs to it.", member, least=1),
        },
        required=("tier",),
    )
    status = record(
        "What was found; written by its controller.",
        {
            "conditions": conditions("Conditions of the HyperNode."),
            "nodeCount": long("Nodes that the members select.", minimum=0),
        },
    )
    return {"spec": spec, "status": status}


def numatopology() -> dict[str, Schema]:
    cpu = record(
        "One CPU.",
        {"numa": count("Its NUMA node."), "socket": count("Its socket."), "core": count("Its core.")},
    )
    container = record(
        "One container.",
        {"name": text("Its name."), "allocations": words("A cpuset for cpu, quantities for everything else.")},
    )
    pod = record(
        "One pod.",
        {
            "uid": text("Its uid."),
            "name": text("Its name."),
            "namespace": text("Its namespace."),
            "containerAllocations": array("What its containers have been given.", container),
        },
    )
    numa_resource = record(
        "One resource.",
        {"allocatable": text("What is free; a cpuset for cpu."), "capacity": integer("How much there is.")},
    )
    spec = record(
        "The node's topology; written by an exporter on the node.",
        {
            "policies": words("The kubelet's CPUManagerPolicy and TopologyManagerPolicy."),
            "resReserved": words("What is reserved for the system, by resource."),
            "numares": mapping("What the NUMA nodes have, by resource.", numa_resource),
            "cpuDetail": mapping("Where each CPU is, by its number.", cpu),
            "podAllocations": array("What pods have been given.", pod),
        },
    )
    return {"spec": spec}


def node_shard() -> dict[str, Schema]:
    spec = record(
        "Nodes that the scheduler of this name may use.",
        {"nodesDesired": texts("Their names.")},
        required=("nodesDesired",),
    )
    status = record(
        "Nodes that the scheduler does use.",
        {
            "lastUpdateTime": instant("When this was written."),
            "nodesInUse": texts("Nodes in use."),
            "nodesToRemove": texts("Nodes in use that are to be given up."),
            "nodesToAdd": texts("Nodes not yet in use."),
        },
    )
    return {"spec": spec, "status": status}


def colocation_configuration() -> dict[str, Schema]:
    memory = record(
        "How the memory of the pods is protected and throttled, in percent.",
        {
            "highRatio": integer("Of the limit, where throttling begins.", minimum=0, maximum=100, default=100),
            "lowRatio": integer(
                "Of the request, what is protected as well as can be.", minimum=0, maximum=100, default=0
            ),
            "minRatio": integer("Of the request, what is protected in any case.", minimum=0, maximum=100, default=0),
        },
    )
    spec = record(
        "How certain pods share a node with others.",
        {"selector": label_selector("Pods that this is about."), "memoryQos": memory},
    )
    status = record(
        "Whether it is in force.", {"conditions": conditions("Conditions of the configuration.", unique=True)}
    )
    return {"spec": spec, "status": status}
