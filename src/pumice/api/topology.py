"""HyperNode (topology.volcano.sh/v1alpha1): nodes that are close to one another, and groups of such groups."""

import enum

from pumice.api.meta import NO_METADATA, Condition, LabelSelector, ObjectMeta, Struct


class MemberType(enum.StrEnum):
    NODE = "Node"
    HYPER_NODE = "HyperNode"


class ExactMatch(Struct):
    name: str = ""


class RegexMatch(Struct):
    pattern: str = ""


class MemberSelector(Struct):
    """Exactly one of the three is set."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(Struct):
    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Struct):
    tier: int = 0
    tier_name: str = ""
    members: tuple[Member, ...] = ()


class HyperNodeStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    node_count: int = 0


class HyperNode(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()
