"""HyperNodes from labels, their counts, and the configuration that asks for them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.api import names
from pumice.api.core import ConfigMap, Node
from pumice.api.meta import LabelSelector, ObjectMeta
from pumice.api.topology import (
    ExactMatch,
    HyperNode,
    HyperNodeSpec,
    HyperNodeStatus,
    Member,
    MemberSelector,
    RegexMatch,
)
from pumice.cluster.columns import Axis, NodeTable
from pumice.cluster.topology import hyper_tree
from pumice.controllers.hypernode.configuration import KEY, NO_CONFIGURATION, Configuration, read
from pumice.controllers.hypernode.counting import node_counts
from pumice.controllers.hypernode.discovery import discover
from pumice.controllers.hypernode.plan import View, plan
from pumice.controllers.operations import Create, Delete, Emit, Patch

TOR, SPINE = "volcano.sh/tor", "volcano.sh/hypercluster"
TWO_TIERS = {"rail": (TOR, SPINE)}


def a_node(name, **labels):
    keys = {"tor": TOR, "spine": SPINE}
    return Node(metadata=ObjectMeta(name=name, labels={keys.get(key, key): value for key, value in labels.items()}))


NODES = [
    a_node("n1", tor="t1", spine="s1"),
    a_node("n2", tor="t1", spine="s1"),
    a_node("n3", tor="t2", spine="s1"),
    a_node("n4", tor="t3", spine="s2"),
    a_node("n5", tor="t4"),
    a_node("n6", spine="s2"),
    a_node("n7"),
]


def exact(name, kind="Node"):
    return Member(kind, MemberSelector(exact_match=ExactMatch(name)))


def a_hyper_node(name, *members, tier=1, tier_name="", count=0, **labels):
    return HyperNode(
        metadata=ObjectMeta(name=name, uid=f"u-{name}", labels=labels),
        spec=HyperNodeSpec(tier=tier, tier_name=tier_name, members=members),
        status=HyperNodeStatus(node_count=count),
    )


def applied(view):
    """What there is after the plan was carried out, as HyperNodes."""
    present = {each.metadata.name: each for each in view.hyper_nodes}
    for operation in plan(view):
        match operation:
            case Create(body=body):
                name, spec = body["metadata"]["name"], body["spec"]
                present[name] = made(name, spec, body["metadata"]["labels"])
            case Patch(body={"spec": spec}, name=name):
                present[name] = made(name, spec, present[name].metadata.labels)
            case Delete(name=name):
                del present[name]
    return list(present.values())


def made(name, spec, labels):
    members = [exact(each["selector"]["exactMatch"]["name"], each["type"]) for each in spec["members"]]
    return a_hyper_node(name, *members, tier=spec["tier"], tier_name=spec["tierName"], **labels)


def in_words(groups):
    """value -> what it holds, in values."""
    value_of = {group.name: group.value for group in groups.values()}
    return {
        group.value: (group.tier, sorted(value_of.get(name, name) for name in group.members))
        for group in groups.values()
    }


def test_nodes_that_share_a_label_are_a_hyper_node_and_those_of_the_next_tier_hold_them():
    assert in_words(discover(TWO_TIERS, NODES, [])) == {
        "t1": (1, ["n1", "n2"]),
        "t2": (1, ["n3"]),
        "t3": (1, ["n4"]),
        "t4": (1, ["n5"]),  # it lacks the next label, and climbs no further
        "s1": (2, ["t1", "t2"]),
        "s2": (2, ["t3"]),  # n6 has no lower tier to come from
    }


def test_a_hyper_node_is_named_and_labelled_as_volcano_does_it_and_always_alike():
    view = View([a_node("n1", tor="t1")], [], Configuration({"Rail_1": (TOR,)}))
    (create,) = plan(view)
    metadata = create.body["metadata"]
    assert metadata["name"].startswith("hypernode-rail-1-tier1-")
    assert metadata["labels"] == {names.NETWORK_TOPOLOGY_SOURCE: "label", TOR: "t1"}
    assert create.body["spec"] == {
        "tier": 1,
        "tierName": TOR,
        "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}],
    }
    assert list(plan(view)) == [create]


def test_what_volcano_discovered_before_keeps_its_name():
    mark = {names.NETWORK_TOPOLOGY_SOURCE: "label", TOR: "t1"}
    there = a_hyper_node("hypernode-rail-tier1-x7k2q", exact("n1"), tier_name=TOR, **mark)
    (patch,) = plan(View(NODES[:2], [there], Configuration({"rail": (TOR,)})))
    assert (patch.name, patch.uid) == ("hypernode-rail-tier1-x7k2q", "u-hypernode-rail-tier1-x7k2q")
    assert [each["selector"]["exactMatch"]["name"] for each in patch.body["spec"]["members"]] == ["n1", "n2"]


def test_what_no_label_asks_for_goes_and_what_people_made_stays():
    mark = {names.NETWORK_TOPOLOGY_SOURCE: "label", TOR: "gone"}
    old = a_hyper_node("hypernode-rail-tier1-aaaaa", exact("n9"), **mark)
    by_hand = a_hyper_node("mine", exact("n9"))
    other_source = a_hyper_node("leaf-hn-1", exact("n9"), **{names.NETWORK_TOPOLOGY_SOURCE: "ufm"})
    found = list(plan(View([], [old, by_hand, other_source], Configuration({"rail": (TOR,)}))))
    assert [(type(each), each.name) for each in found] == [(Delete, "hypernode-rail-tier1-aaaaa")]


@pytest.mark.parametrize("configuration", [NO_CONFIGURATION, Configuration({}, ("a type is ignored",))])
def test_nothing_goes_where_discovery_is_off_or_cannot_be_read(configuration):
    mark = {names.NETWORK_TOPOLOGY_SOURCE: "label", TOR: "t1"}
    old = a_hyper_node("hypernode-rail-tier1-aaaaa", exact("n9"), **mark)
    assert [each for each in plan(View([], [old], configuration)) if isinstance(each, Delete)] == []


def test_a_switch_under_two_spines_goes_where_most_of_its_nodes_are():
    nodes = [a_node("n1", tor="t", spine="s1"), a_node("n2", tor="t", spine="s2"), a_node("n3", tor="t", spine="s2")]
    assert in_words(discover(TWO_TIERS, nodes, [])) == {"t": (1, ["n1", "n2", "n3"]), "s2": (2, ["t"])}


def test_two_types_over_one_label_have_hyper_nodes_of_their_own():
    found = discover({"a": (TOR,), "b": (TOR,)}, NODES[:1], [])
    assert len(found) == 2


VALUES = st.sampled_from(["", "a", "b", "c"])


@settings(deadline=None)
@given(
    st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=12), st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=12)
)
def test_whatever_the_labels_the_tree_is_sound_and_a_second_plan_asks_for_nothing(first, second):
    types = {"x": ("l1", "l2", "l3"), "y": ("l1", "l3")}

    def nodes_of(labels):
        return [
            Node(metadata=ObjectMeta(name=f"n{number}", labels=dict(zip(("l1", "l2", "l3"), values, strict=True))))
            for number, values in enumerate(labels)
        ]

    present = []
    for labels in (first, second):
        nodes = nodes_of(labels)
        present = applied(View(nodes, present, Configuration(types)))
        assert [each for each in plan(View(nodes, present, Configuration(types))) if not is_count(each)] == []
        for topology in types:
            own = [each for each in present if each.metadata.name.startswith(f"hypernode-{topology}-")]
            assert hyper_tree({HyperNode: {each.metadata.name: each for each in own}}, a_table(nodes)).fault == ""


def is_count(operation):
    return isinstance(operation, Patch) and operation.subresource == "status"


def a_table(nodes):
    axis, empty = Axis(), np.zeros((0, len(nodes)), dtype=np.int64)
    found = [node.metadata.name for node in nodes]
    index = {name: number for number, name in enumerate(found)}
    return NodeTable(axis, found, index, nodes, [()] * len(nodes), empty, empty, empty)


# ----------------------------------------------------------------------------------------------------------- counts


def test_nodes_are_counted_by_name_by_pattern_and_by_label_each_once():
    members = [
        exact("n1"),
        exact("missing"),
        Member("Node", MemberSelector(regex_match=RegexMatch("^n[12]$"))),
        Member("Node", MemberSelector(label_match=LabelSelector(match_labels={TOR: "t2"}))),
    ]
    assert node_counts([a_hyper_node("h", *members)], NODES) == {"h": 3}


def test_a_hyper_node_of_hyper_nodes_counts_the_nodes_below_it():
    low = [a_hyper_node("a", exact("n1"), exact("n2")), a_hyper_node("b", exact("n2"), exact("n3"))]
    high = a_hyper_node("top", exact("a", "HyperNode"), exact("b", "HyperNode"), exact("gone", "HyperNode"), tier=2)
    assert node_counts([*low, high], NODES) == {"a": 2, "b": 2, "top": 3}


def test_a_ring_of_members_is_counted_and_ends():
    ring = [
        a_hyper_node("a", exact("b", "HyperNode"), exact("n1")),
        a_hyper_node("b", exact("a", "HyperNode"), exact("n2")),
    ]
    assert node_counts(ring, NODES) == {"a": 2, "b": 2}


def test_counts_are_written_where_they_differ_and_without_hurry():
    right, wrong = a_hyper_node("right", exact("n1"), count=1), a_hyper_node("wrong", exact("n1"), count=5)
    (patch,) = plan(View(NODES, [right, wrong]))
    assert (patch.name, patch.body, patch.subresource, patch.hurry) == (
        "wrong",
        {"status": {"nodeCount": 1}},
        "status",
        False,
    )


# ---------------------------------------------------------------------------------------------------- configuration

CONFIG = """
networkTopologyDiscovery:
- source: label
  enabled: true
  interval: 10m
  config:
    networkTopologyTypes:
      rail:
      - nodeLabel: volcano.sh/hypercluster
      - nodeLabel: volcano.sh/tor
      - nodeLabel: kubernetes.io/hostname
"""


def configured(text):
    return read({KEY: text}, subject="ConfigMap s/c")


def test_tiers_are_read_from_the_bottom_and_the_last_label_is_the_node():
    assert configured(CONFIG) == Configuration({"rail": (TOR, SPINE)})


def test_a_source_that_is_off_discovers_nothing():
    assert configured(CONFIG.replace("true", "false")) == NO_CONFIGURATION
    assert configured("") == NO_CONFIGURATION
    assert read({}, subject="ConfigMap s/c") == NO_CONFIGURATION


def test_another_source_is_refused_with_a_way_out():
    (problem,) = configured(CONFIG.replace("label\n", "ufm\n")).problems
    assert problem == (
        "ConfigMap s/c: discovery from 'ufm' is not supported; "
        "label the nodes and use source: label, or create HyperNodes by hand"
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("networkTopologyDiscovery: [", "cannot be read"),
        ("networkTopologyDiscovery: 7", "cannot be read"),
        (CONFIG.replace("rail:", "a-name-of-more-than-twenty:"), "1 to 20 characters"),
        (CONFIG.replace("volcano.sh/hypercluster", "volcano.sh/tor"), "a label occurs twice"),
        (CONFIG.replace("volcano.sh/tor", "bad label!"), "label 'bad label!'"),
        (CONFIG.replace("networkTopologyTypes:", "networkTopologyTypes: []\n    other:"), "cannot be read"),
        (
            "networkTopologyDiscovery: [{source: label, enabled: true, config: {networkTopologyTypes: {a: []}}}]",
            "needs a label",
        ),
    ],
)
def test_what_cannot_be_read_is_a_problem(text, cause):
    (problem,) = configured(text).problems
    assert cause in problem
    assert problem.startswith("ConfigMap s/c: ")


def test_problems_are_told_of_the_config_map():
    about = ConfigMap(metadata=ObjectMeta(name="c", namespace="s"))
    (word,) = plan(View([], [], Configuration(None, ("a problem",)), about))
    assert word == Emit(about, "Warning", "DiscoveryProblem", "a problem")
