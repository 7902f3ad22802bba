"""Where Kubernetes lets a pod run, one rule after the other; volumes and devices have files of their own."""

import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_node,
    a_pod,
    a_priority_class,
    an_object,
    binds,
    evicted,
    plan_for,
    policy,
    promised,
    report,
    session_for,
)  # fmt: skip

from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.core.verdict import Cure

POLICY = policy("allocate, backfill", "gang predicates")
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def plan(*things, **arguments):
    return plan_for(*things, policy=POLICY, **arguments)


def why(decisions, pod):
    reasons = report(decisions, f"pod:{pod}").reasons
    return [(reason.text, reason.nodes) for reason in reasons if reason.plugin in {"predicates", "resources"}]


def without(switch):
    return policy("allocate", [{"name": "predicates", "arguments": {f"predicate.{switch}Enable": False}}])


def affinity(kind, *terms):
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def near(app, key=ZONE, **more):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


# ------------------------------------------------------------------------------------------------- nodes


def test_a_cordoned_node_takes_only_pods_that_tolerate_that():
    node = a_node("n1", spec={"unschedulable": True})
    decisions = plan(node, a_pod("p"))
    assert why(decisions, "p") == [("node(s) were unschedulable", 1)]
    tolerant = {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}
    assert binds(plan(node, a_pod("p", spec=tolerant))) == {"p": "n1"}


@pytest.mark.parametrize(
    ("term", "chosen"),
    [
        ({"matchExpressions": [{"key": "size", "operator": "In", "values": ["3", "5"]}]}, {"n2", "n3"}),
        ({"matchExpressions": [{"key": "size", "operator": "NotIn", "values": ["3"]}]}, {"n1", "n3", "n4"}),
        ({"matchExpressions": [{"key": "size", "operator": "Exists"}]}, {"n1", "n2", "n3"}),
        ({"matchExpressions": [{"key": "size", "operator": "DoesNotExist"}]}, {"n4"}),
        ({"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["1"]}]}, {"n2", "n3"}),
        ({"matchExpressions": [{"key": "size", "operator": "Lt", "values": ["5"]}]}, {"n1", "n2"}),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n4"]}]}, {"n4"}),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n4"]}]}, {"n1", "n2", "n3"}),
        ({}, set()),
    ],
)
def test_node_affinity_selects_by_labels_and_names(term, chosen):
    sizes = {"n1": {"size": "1"}, "n2": {"size": "3"}, "n3": {"size": "5"}, "n4": {}}
    nodes = [a_node(name, labels=labels) for name, labels in sizes.items()]
    required = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    }
    session = session_for(nodes, a_pod("p", spec=required), policy=POLICY)
    (task,) = next(iter(session.gangs.values())).tasks
    allowed = session.placer.allowed(session.shape(task))
    assert {name for name, good in zip(session.room.table.names, allowed, strict=True) if good} == chosen


def test_a_node_must_meet_the_selector_and_the_affinity():
    zones = [
        a_node("n1", labels={"a": "1"}),
        a_node("n2", labels={"b": "1"}),
        a_node("n3", labels={"a": "1", "b": "1"}),
    ]
    term = {"matchExpressions": [{"key": "b", "operator": "Exists"}]}
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    decisions = plan(zones, a_pod("p", spec={"nodeSelector": {"a": "1"}, "affinity": required}))
    assert binds(decisions) == {"p": "n3"}
    decisions = plan(zones, a_pod("p", spec={"nodeSelector": {"a": "2"}}))
    assert why(decisions, "p") == [("node(s) didn't match Pod's node affinity/selector", 3)]


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "5"}, True),
        ({"key": "gpu", "value": "5", "effect": "NoSchedule"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Gt", "value": "4"}, True),
        ({"key": "gpu", "operator": "Lt", "value": "4"}, False),
        ({"key": "gpu", "operator": "Gt", "value": "many"}, False),
        ({"key": "gpu", "operator": "Equal", "value": "6"}, False),
        ({"key": "cpu", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "operator": "Matches", "value": "5"}, False),
    ],
)
def test_a_taint_keeps_pods_away_that_do_not_tolerate_it(toleration, tolerated):
    decisions = plan(a_node("n1", taints=["gpu=5:NoSchedule"]), a_pod("p", spec={"tolerations": [toleration]}))
    assert bool(binds(decisions)) is tolerated
    if not tolerated:
        assert why(decisions, "p") == [("node(s) had untolerated taint(s)", 1)]


def test_a_taint_that_only_prefers_keeps_nobody_away():
    assert binds(plan(a_node("n1", taints=["slow=:PreferNoSchedule"]), a_pod("p"))) == {"p": "n1"}


def test_pods_beyond_a_nodes_number_wait_even_without_requests():
    """Best-effort pods ask for no room, and still take a slot."""
    decisions = plan(a_node("n1", pods="2"), a_gang("idle", 3, min_member=1, cpu=None))
    assert len(binds(decisions)) == 2


# ------------------------------------------------------------------------------------------------- ports


def with_port(number=80, address="", protocol="TCP"):
    port = {"hostPort": number, "containerPort": 80, "hostIP": address, "protocol": protocol}
    return {"containers": [{"name": "main", "ports": [port], "resources": {"requests": {"cpu": "1"}}}]}


@pytest.mark.parametrize(
    ("mine", "theirs", "conflict"),
    [
        ((80,), (80,), True),
        ((80,), (81,), False),
        ((80, "", "UDP"), (80, "", "TCP"), False),
        ((80, "10.0.0.1"), (80, "10.0.0.2"), False),
        ((80, "10.0.0.1"), (80, "10.0.0.1"), True),
        ((80, ""), (80, "10.0.0.1"), True),
        ((80, "10.0.0.1"), (80, "0.0.0.0"), True),
    ],
)
def test_a_host_port_is_taken_once(mine, theirs, conflict):
    decisions = plan(
        a_node("n1"), a_pod("there", node="n1", spec=with_port(*theirs)), a_pod("p", spec=with_port(*mine))
    )
    assert bool(binds(decisions)) is not conflict
    if conflict:
        assert why(decisions, "p") == [("node(s) didn't have free ports for the requested pod ports", 1)]


def test_equal_pods_with_a_host_port_take_a_node_each():
    nodes = [a_node(f"n{number}", cpu="8") for number in range(3)]
    assert sorted(binds(plan(nodes, a_gang("web", 3, spec=with_port()))).values()) == ["n0", "n1", "n2"]
    assert binds(plan(nodes, a_gang("web", 4, spec=with_port()))) == {}


# ------------------------------------------------------------------------------------------------- company


def test_the_first_of_a_kind_may_go_anywhere_and_the_others_follow():
    nodes = [
        a_node("n1", cpu="1", labels={ZONE: "a"}),
        a_node("n2", labels={ZONE: "b"}),
        a_node("n3", labels={ZONE: "b"}),
    ]
    spec = affinity("podAffinity", near("train"))
    decisions = plan(nodes, a_gang("train", 4, labels={"app": "train"}, spec=spec, group={"annotations": {}}))
    assert binds(decisions) == {}, "only the first found room in zone a, and a gang is all or nothing"
    nodes[0] = a_node("n1", cpu="1")
    decisions = plan(nodes, a_gang("train", 4, labels={"app": "train"}, spec=spec))
    assert set(binds(decisions).values()) <= {"n2", "n3"}
    assert len(binds(decisions)) == 4


def test_a_pod_waits_for_company_that_is_nowhere():
    decisions = plan(a_node("n1", labels={ZONE: "a"}), a_pod("p", spec=affinity("podAffinity", near("cache"))))
    assert why(decisions, "p") == [("node(s) didn't match pod affinity rules", 1)]


def test_company_must_meet_all_terms_at_once():
    """Two pods that meet one term each are not one pod that meets both."""
    nodes = [a_node("n1", labels={ZONE: "a"})]
    half = [a_pod("x", node="n1", labels={"app": "a"}), a_pod("y", node="n1", labels={"tier": "b"})]
    terms = (near("a"), {"labelSelector": {"matchLabels": {"tier": "b"}}, "topologyKey": ZONE})
    pod = a_pod("p", spec=affinity("podAffinity", *terms))
    assert binds(plan(nodes, half, pod)) == {}
    whole = a_pod("z", node="n1", labels={"app": "a", "tier": "b"})
    assert binds(plan(nodes, half, whole, pod)) == {"p": "n1"}


def test_anti_affinity_works_in_both_directions():
    nodes = [a_node("n1", labels={ZONE: "a"}), a_node("n2", labels={ZONE: "b"})]
    loud = a_pod("loud", node="n1", labels={"app": "loud"})
    shy = affinity("podAntiAffinity", near("loud"))
    decisions = plan(nodes[0], loud, a_pod("p", spec=shy))
    assert why(decisions, "p") == [("node(s) didn't match pod anti-affinity rules", 1)]
    decisions = plan(nodes[0], a_pod("shy", node="n1", spec=shy), a_pod("p", labels={"app": "loud"}))
    assert why(decisions, "p") == [("node(s) didn't satisfy existing pods anti-affinity rules", 1)]
    assert binds(plan(nodes, a_pod("shy", node="n1", spec=shy), a_pod("p", labels={"app": "loud"}))) == {"p": "n2"}


def test_pods_placed_in_the_same_cycle_refuse_one_another_too():
    nodes = [a_node("n1"), a_node("n2")]
    shy = a_gang("shy", 1, spec=affinity("podAntiAffinity", near("loud", HOST)), created=0)
    loud = a_gang("loud", 1, labels={"app": "loud"}, created=5)
    placed = binds(plan(nodes, shy, loud))
    assert sorted(placed.values()) == ["n1", "n2"]


def test_one_pod_per_node_is_placed_by_the_batch():
    nodes = [a_node(f"n{number}") for number in range(4)]
    gang = a_gang("train", 3, labels={"app": "train"}, spec=affinity("podAntiAffinity", near("train", HOST)))
    session = session_for(nodes, gang, policy=POLICY)
    shape = session.shape(session.gangs["default/train"].tasks[0])
    assert not session.placer.is_live(shape)
    assert len(set(session.placer.fill(shape, 3).nodes)) == 3
    assert len(set(binds(plan(nodes, gang)).values())) == 3


@pytest.mark.parametrize(
    ("more", "meant"),
    [
        ({}, False),
        ({"namespaces": ["other"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, False),
    ],
)
def test_terms_mean_pods_of_their_own_namespace_unless_they_say_otherwise(more, meant):
    other = an_object("v1", "Namespace", {"metadata": {"name": "other", "labels": {"team": "red"}}})
    there = a_pod("there", namespace="other", node="n1", labels={"app": "a"})
    pod = a_pod("p", spec=affinity("podAntiAffinity", near("a", HOST, **more)))
    assert bool(binds(plan(a_node("n1"), other, there, pod))) is not meant


@pytest.mark.parametrize(("keys", "meant"), [("matchLabelKeys", False), ("mismatchLabelKeys", True)])
def test_label_keys_narrow_a_term_by_the_pods_own_labels(keys, meant):
    there = a_pod("there", node="n1", labels={"app": "a", "version": "1"})
    term = near("a", HOST, **{keys: ["version", "absent"]})
    pod = a_pod("p", labels={"app": "a", "version": "2"}, spec=affinity("podAntiAffinity", term))
    assert bool(binds(plan(a_node("n1"), there, pod))) is not meant


def test_labels_alone_do_not_tell_pods_apart():
    """Every pod of a job has its index as a label; only what somebody's term means matters."""
    gang = [
        a_gang("train", 0, min_member=2)[0],
        *(a_pod(f"p{number}", gang="train", labels={"index": str(number), "app": "train"}) for number in range(2)),
    ]
    shy = a_pod("shy", node="n1", spec=affinity("podAntiAffinity", near("train", HOST)))
    session = session_for(a_node("n1"), a_node("n2"), gang, shy, policy=POLICY)
    one, other = session.gangs["default/train"].tasks
    assert session.shape(one) is session.shape(other)
    picky = affinity("podAntiAffinity", {"labelSelector": {"matchLabels": {"index": "1"}}, "topologyKey": HOST})
    session = session_for(a_node("n1"), a_node("n2"), gang, a_pod("picky", node="n1", spec=picky), policy=POLICY)
    one, other = session.gangs["default/train"].tasks
    assert session.shape(one) is not session.shape(other)


# ------------------------------------------------------------------------------------------------- spreading


def spread(skew=1, key=ZONE, app="web", **more):
    rule = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**rule, "labelSelector": {"matchLabels": {"app": app}}, **more}]}


def per_zone(decisions, nodes):
    zones = {node.metadata.name: node.metadata.labels[ZONE] for node in nodes}
    found = {}
    for name in binds(decisions).values():
        found[zones[name]] = found.get(zones[name], 0) + 1
    return found


def test_equal_pods_spread_over_zones():
    nodes = [
        a_node("n1", cpu="9", labels={ZONE: "a"}),
        a_node("n2", labels={ZONE: "b"}),
        a_node("n3", labels={ZONE: "b"}),
    ]
    decisions = plan(nodes, a_gang("web", 5, labels={"app": "web"}, spec=spread()))
    assert per_zone(decisions, nodes) == {"a": 3, "b": 2}


def test_a_zone_that_is_ahead_takes_no_more_and_says_so():
    nodes = [a_node("n1", labels={ZONE: "a"}), a_node("n2", cpu="1", labels={ZONE: "b"}), a_node("n3")]
    there = a_pod("there", node="n1", labels={"app": "web"})
    decisions = plan(nodes, there, a_pod("p", cpu="2", labels={"app": "web"}, spec=spread()))
    assert sorted(why(decisions, "p")) == [
        ("Insufficient cpu", 1),
        ("node(s) didn't match pod topology spread constraints", 1),
        ("node(s) didn't match pod topology spread constraints (missing required label)", 1),
    ]


def test_too_few_domains_count_as_an_empty_one():
    there = a_pod("there", node="n1", labels={"app": "web"})
    node = a_node("n1", labels={ZONE: "a"})
    assert binds(plan(node, there, a_pod("p", labels={"app": "web"}, spec=spread()))) == {"p": "n1"}
    decisions = plan(node, there, a_pod("p", labels={"app": "web"}, spec=spread(minDomains=2)))
    assert binds(decisions) == {}


def test_nodes_that_the_pod_cannot_use_are_no_domains_unless_asked_for():
    nodes = [a_node("n1", labels={ZONE: "a", "disk": "ssd"}), a_node("n2", labels={ZONE: "b"})]
    there = a_pod("there", node="n1", labels={"app": "web"})

    def waiting(**more):
        return a_pod("p", labels={"app": "web"}, spec={**spread(**more), "nodeSelector": {"disk": "ssd"}})

    assert binds(plan(nodes, there, waiting())) == {"p": "n1"}
    assert binds(plan(nodes, there, waiting(nodeAffinityPolicy="Ignore"))) == {}
    tainted = [nodes[0], a_node("n2", labels={ZONE: "b"}, taints=["x=:NoSchedule"])]
    pod = a_pod("p", labels={"app": "web"}, spec=spread())
    assert binds(plan(tainted, there, pod)) == {}
    pod = a_pod("p", labels={"app": "web"}, spec=spread(nodeTaintsPolicy="Honor"))
    assert binds(plan(tainted, there, pod)) == {"p": "n1"}


def test_pods_that_are_being_deleted_are_not_counted():
    nodes = [a_node("n1", labels={ZONE: "a"}), a_node("n2", cpu="1", labels={ZONE: "b"})]
    leaving = a_pod("old", node="n1", labels={"app": "web"}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    decisions = plan(nodes, leaving, a_pod("p", cpu="2", labels={"app": "web"}, spec=spread()))
    assert binds(decisions) == {"p": "n1"}


# ------------------------------------------------------------------------------------------------- evictions


PREEMPT = policy("allocate, preempt", ["priority", {"name": "gang", "enablePreemptable": False}, "predicates"])
CLASSES = [a_priority_class("high", 9), a_priority_class("low", 1)]


def low(name, node, **pods):
    return a_gang(name, 1, running=[node], group={"priority_class": "low"}, priority=1, **pods)


def high(**pods):
    return a_gang("high", 1, group={"priority_class": "high"}, priority=9, **pods)


@pytest.mark.parametrize(
    ("victim", "claimant", "labels"),
    [
        ({"spec": with_port()}, {"spec": with_port()}, {}),
        ({"labels": {"app": "loud"}}, {"spec": affinity("podAntiAffinity", near("loud", HOST))}, {}),
        ({"spec": affinity("podAntiAffinity", near("loud", HOST))}, {"labels": {"app": "loud"}}, {}),
    ],
    ids=["port", "anti-affinity", "anti-affinity of the victim"],
)
def test_who_stands_in_the_way_is_evicted_though_there_is_room(victim, claimant, labels):
    decisions = plan_for(a_node("n1"), CLASSES, low("low", "n1", **victim), high(**claimant), policy=PREEMPT)
    assert evicted(decisions) == ["low-w-0"]
    assert promised(decisions) == {"high-w-0": "n1"}


def test_evicting_evens_out_a_zone_that_is_ahead():
    nodes = [a_node("n1", labels={ZONE: "a"}), a_node("n2", cpu="1", labels={ZONE: "b"})]
    decisions = plan_for(
        nodes, CLASSES, low("low", "n1", labels={"app": "web"}),
        high(cpu="2", labels={"app": "web"}, spec=spread()), policy=PREEMPT,
    )  # fmt: skip
    assert evicted(decisions) == ["low-w-0"]


@pytest.mark.parametrize(
    "claimant",
    [
        {"spec": {"nodeSelector": {"disk": "ssd"}}},
        {"spec": affinity("podAffinity", near("cache", HOST))},
        {"spec": spread(key="rack"), "labels": {"app": "web"}},
    ],
    ids=["node affinity", "pod affinity", "missing label"],
)
def test_nobody_is_evicted_where_that_cannot_help(claimant):
    victims = low("low", "n1", cpu="4")
    assert evicted(plan_for(a_node("n1"), CLASSES, victims, high(**claimant), policy=PREEMPT)) == []


def test_reasons_say_what_could_help():
    nodes = [a_node("n1", taints=["x=:NoSchedule"]), a_node("n2")]
    loud = a_pod("loud", node="n2", labels={"app": "loud"})
    decisions = plan(nodes, loud, a_pod("p", spec=affinity("podAntiAffinity", near("loud", HOST))))
    cures = {reason.text: reason.cure for reason in report(decisions, "pod:p").reasons}
    assert cures["node(s) had untolerated taint(s)"] is Cure.CHANGE
    assert cures["node(s) didn't match pod anti-affinity rules"] is Cure.EVICTION


# ------------------------------------------------------------------------------------------------- switches


@pytest.mark.parametrize(
    ("switch", "nodes", "pod"),
    [
        ("NodeAffinity", [a_node("n1")], a_pod("p", spec={"nodeSelector": {"disk": "ssd"}})),
        ("TaintToleration", [a_node("n1", taints=["x=:NoSchedule"])], a_pod("p")),
        ("NodePorts", [a_node("n1"), a_pod("there", node="n1", spec=with_port())], a_pod("p", spec=with_port())),
        ("PodAffinity", [a_node("n1")], a_pod("p", spec=affinity("podAffinity", near("cache")))),
        ("PodTopologySpread", [a_node("n1")], a_pod("p", labels={"app": "web"}, spec=spread(key="rack"))),
        ("VolumeBinding", [a_node("n1")], a_pod("p", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]})),
        ("DynamicResourceAllocation", [a_node("n1")], a_pod("p", spec={"resourceClaims": [{"name": "g", "resourceClaimName": "x"}]})),
    ],
)  # fmt: skip
def test_each_rule_has_a_switch(switch, nodes, pod):
    assert binds(plan(nodes, pod)) == {}
    assert binds(plan_for(nodes, pod, policy=without(switch))) == {"p": "n1"}


def test_switches_may_be_quoted_and_a_wrong_one_is_named():
    quoted = [{"name": "predicates", "arguments": {"predicate.NodeAffinityEnable": "false"}}]
    pod = a_pod("p", spec={"nodeSelector": {"disk": "ssd"}})
    assert binds(plan_for(a_node("n1"), pod, policy=policy("allocate", quoted))) == {"p": "n1"}
    wrong = [{"name": "predicates", "arguments": {"predicate.NodeAffinityEnabled": True}}]
    with pytest.raises(PolicyError, match=r"did you mean predicate\.NodeAffinityEnable"):
        plan_for(a_node("n1"), pod, policy=policy("allocate", wrong))


def test_arguments_that_only_volcano_needs_are_accepted():
    arguments = {"predicate.CacheEnable": True, "volumebinding.bindTimeoutSeconds": 10, "volumebinding.weight": 1}
    accepted = policy("allocate", [{"name": "predicates", "arguments": arguments}])
    assert binds(plan_for(a_node("n1"), a_pod("p"), policy=accepted)) == {"p": "n1"}
