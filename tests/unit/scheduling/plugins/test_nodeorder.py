"""kube-scheduler's scores, number by number: every expected value here can be computed by hand."""

import numpy as np
import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_node,
    a_pod,
    an_object,
    binds,
    plan_for,
    policy,
    session_for,
)

MEGABYTE = 1024 * 1024
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
NAMES = (
    "leastrequested", "mostrequested", "balancedresource", "nodeaffinity", "podaffinity", "tainttoleration",
    "imagelocality", "podtopologyspread",
)  # fmt: skip


def only(name, weight=1):
    """nodeorder with one score alone."""
    weights = {f"{each}.weight": weight if each == name else 0 for each in NAMES}
    return policy("allocate", [{"name": "nodeorder", "arguments": weights}])


def scores(chosen, *things):
    """Node -> score of the one waiting pod."""
    session = session_for(*things, policy=chosen)
    (task,) = [task for gang in session.gangs.values() for task in gang.tasks if not task.node]
    nodes = np.arange(len(session.room.table))
    found = session.placer.scores(session.shape(task), task, nodes)
    return dict(zip(session.room.table.names, found.tolist(), strict=True))


def preferring(kind, *terms):
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


# ------------------------------------------------------------------------------------------------- load


def test_least_requested_is_the_mean_room_left_rounded_down_twice():
    nodes = [a_node("n1", cpu="3", memory="7"), a_node("n2", cpu="4", memory="10")]
    there = a_pod("there", cpu="1", memory="1", node="n2")
    found = scores(only("leastrequested"), nodes, there, a_pod("p", cpu="1", memory="2"))
    # n1: cpu 2/3 = 66, memory 5/7 = 71; n2: cpu 2/4 = 50, memory 7/10 = 70
    assert found == {"n1": (66 + 71) // 2, "n2": (50 + 70) // 2}


def test_most_requested_is_the_mean_room_used():
    nodes = [a_node("n1", cpu="3", memory="7"), a_node("n2", cpu="1", memory="10")]
    found = scores(only("mostrequested"), nodes, a_pod("p", cpu="2", memory="2"))
    assert found == {"n1": (66 + 28) // 2, "n2": (100 + 20) // 2}, "more than all of it is all of it"


def test_a_container_without_requests_counts_as_a_little():
    node = a_node("n1", cpu="1", memory="1000Mi")
    assert scores(only("leastrequested"), node, a_pod("p", cpu=None)) == {"n1": (90 + 80) // 2}
    there = a_pod("there", cpu=None, node="n1")
    assert scores(only("leastrequested"), node, there, a_pod("p", cpu=None)) == {"n1": (80 + 60) // 2}


def test_a_resource_that_a_node_lacks_is_left_out():
    nodes = [a_node("n1", cpu="4", memory=None), a_node("n2", cpu=None, memory=None)]
    assert scores(only("leastrequested"), nodes, a_pod("p", cpu="1")) == {"n1": 75, "n2": 0}


def test_what_is_oversold_does_not_count_as_room():
    notes = {"volcano.sh/oversubscription-cpu": "4000", "volcano.sh/oversubscription-memory": str(2**30)}
    nodes = [a_node("n1", cpu="4", memory="1Gi"), a_node("n2", cpu="4", memory="1Gi", annotations=notes)]
    found = scores(only("leastrequested"), nodes, a_pod("p", cpu="1", memory="512Mi"))
    assert found["n1"] == found["n2"] == (75 + 50) // 2


def test_huge_capacities_are_divided_exactly():
    """Beyond 2**46 bytes a float may round a share up to the next percent; the numbers here are such that it would."""
    capacity = 4_400_000_000_000_003
    asked = (34 * capacity - 1) // 100
    node = a_node("n1", cpu=None, memory=str(capacity))
    found = scores(only("mostrequested"), node, a_pod("p", cpu=None, memory=str(asked)))
    assert int(np.float64(asked * 100) / np.float64(capacity)) == 34
    assert found == {"n1": asked * 100 // capacity} == {"n1": 33}


def test_balanced_compares_evenness_with_and_without_the_pod():
    nodes = [a_node("n1", cpu="10", memory="10"), a_node("n2", cpu="10", memory="10")]
    there = a_pod("there", cpu="5", memory="0", node="n2")
    found = scores(only("balancedresource"), nodes, there, a_pod("p", cpu="0", memory="4"))
    # n1: 100 -> (1 - 0.4/2) = 80; n2: (1 - 0.5/2) = 75 -> (1 - 0.1/2) = 95
    assert found == {"n1": 50 + (50 + 80 - 100) // 2, "n2": 50 + (50 + 95 - 75) // 2}


def test_balanced_looks_at_cards_only_where_some_are_asked_for():
    node = a_node("n1", cpu="10", memory="10", gpu=4)
    plain = scores(only("balancedresource"), node, a_pod("p", cpu="5", memory="5"))
    assert plain == {"n1": 75}
    # shares 0.5, 0.5, 1.0: mean 2/3, deviation sqrt((1/36 + 1/36 + 1/9) / 3) = 0.2357
    with_card = scores(only("balancedresource"), node, a_pod("p", cpu="5", memory="5", gpu=4))
    assert with_card == {"n1": 50 + (50 + 76 - 100) // 2}
    without_cards = scores(only("balancedresource"), a_node("n1", cpu="10", memory="10"), a_pod("p", cpu="5", gpu=4))
    assert without_cards == {"n1": 50 + (50 + 75 - 100) // 2}


def test_balanced_says_nothing_about_a_pod_that_asks_for_nothing():
    nodes = [a_node("n1"), a_node("n2"), a_pod("there", cpu="3", node="n2")]
    assert scores(only("balancedresource"), nodes, a_pod("p", cpu=None)) == {"n1": 0, "n2": 0}


def test_promised_pods_are_seen_and_evicted_ones_are_not():
    session = session_for(
        a_node("n1", cpu="4", memory="4"), a_pod("there", cpu="2", memory="2", node="n1"), a_pod("p", cpu="1", memory="1"),
        policy=only("leastrequested"),
    )  # fmt: skip
    gangs = {gang.spec.name: gang for gang in session.gangs.values()}
    (victim,), (task,) = gangs["there"].tasks, gangs["p"].tasks
    nodes = np.array([0])
    assert session.placer.scores(session.shape(task), task, nodes).tolist() == [25]
    session.statement().evict(victim, "preempt")
    assert session.placer.scores(session.shape(task), task, nodes).tolist() == [75]


# ------------------------------------------------------------------------------------------------- preferences


def test_preferred_nodes_are_scored_by_the_best_of_them():
    nodes = [a_node("n1", labels={"a": "1"}), a_node("n2", labels={"a": "1", "b": "1"}), a_node("n3")]
    terms = [
        {"weight": 10, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
        {"weight": 20, "preference": {"matchExpressions": [{"key": "b", "operator": "Exists"}]}},
        {"weight": 99, "preference": {}},
    ]
    pod = a_pod("p", spec=preferring("nodeAffinity", *terms))
    assert scores(only("nodeaffinity"), nodes, pod) == {"n1": 33, "n2": 100, "n3": 0}
    assert scores(only("nodeaffinity", 5), nodes, pod) == {"n1": 165, "n2": 500, "n3": 0}


def test_disliked_taints_are_counted_against_the_worst():
    nodes = [
        a_node("n1", taints=["a=:PreferNoSchedule", "b=:PreferNoSchedule", "c=:PreferNoSchedule"]),
        a_node("n2", taints=["a=:PreferNoSchedule", "hard=:NoSchedule"]),
        a_node("n3"),
    ]
    assert scores(only("tainttoleration"), nodes, a_pod("p")) == {"n1": 0, "n2": 100 - 33, "n3": 100}
    tolerant = a_pod("p", spec={"tolerations": [{"key": "a", "operator": "Exists"}]})
    assert scores(only("tainttoleration"), nodes, tolerant) == {"n1": 0, "n2": 100, "n3": 100}


def holding(name, **images):
    listed = [{"names": [image], "sizeBytes": size * MEGABYTE} for image, size in images.items()]
    return a_node(name, status={"images": listed})


def test_images_count_by_size_and_by_how_many_nodes_hold_them():
    nodes = [
        holding("n1", **{"repo/big:latest": 800}),
        holding("n2", **{"repo/big:latest": 800, "repo/side:v1": 90}),
        a_node("n3"),
    ]
    containers = [
        {"name": "main", "image": "repo/big", "resources": {"requests": {"cpu": "1"}}},
        {"name": "side", "image": "repo/side:v1"},
    ]
    found = scores(only("imagelocality"), nodes, a_pod("p", spec={"containers": containers}))
    big, side = int(800 * MEGABYTE * (2 / 3)), int(90 * MEGABYTE * (1 / 3))
    low, high = 23 * MEGABYTE, 2 * 1000 * MEGABYTE
    assert found == {
        "n1": 100 * (big - low) // (high - low),
        "n2": 100 * (big + side - low) // (high - low),
        "n3": 0,
    }


@pytest.mark.parametrize(
    ("image", "held"),
    [
        ("repo/app", "repo/app:latest"),
        ("host:5000/app", "host:5000/app:latest"),
        ("repo/app:v1", "repo/app:v1"),
        ("repo/app@sha256:abc", "repo/app@sha256:abc"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(image, held):
    spec = {"containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": "1"}}}]}
    assert scores(only("imagelocality"), holding("n1", **{held: 1000}), a_pod("p", spec=spec)) == {"n1": 100}


# ------------------------------------------------------------------------------------------------- company


def near(app, key=ZONE, weight=10):
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"weight": weight, "podAffinityTerm": term}


def zoned(*zones):
    return [a_node(f"n{number}", cpu="9", labels={ZONE: zone} if zone else {}) for number, zone in enumerate(zones, 1)]


def test_company_draws_and_repels_and_the_rest_lies_between():
    there = [
        a_pod("c1", node="n1", labels={"app": "cache"}), a_pod("c2", node="n1", labels={"app": "cache"}),
        a_pod("noise", node="n3", labels={"app": "noise"}),
    ]  # fmt: skip
    affinity = (
        preferring("podAffinity", near("cache"))["affinity"] | preferring("podAntiAffinity", near("noise"))["affinity"]
    )
    found = scores(only("podaffinity"), zoned("a", "a", "b", "c"), there, a_pod("p", spec={"affinity": affinity}))
    # raw: 20, 20, -10, 0
    assert found == {"n1": 100, "n2": 100, "n3": 0, "n4": 33}


def test_preferences_of_pods_on_nodes_count_as_well():
    fan = a_pod("fan", node="n1", spec=preferring("podAffinity", near("star", weight=30)))
    foe = a_pod("foe", node="n2", spec=preferring("podAntiAffinity", near("star", weight=10)))
    found = scores(only("podaffinity"), zoned("a", "b", "c", ""), fan, foe, a_pod("p", labels={"app": "star"}))
    assert found == {"n1": 100, "n2": 0, "n3": 25, "n4": 25}


def test_pods_that_draw_one_another_gather_by_the_batch():
    """The first goes where most room is, the others to its zone while that has room, and only then elsewhere."""
    nodes = [
        a_node("n1", cpu="2", labels={ZONE: "a"}),
        a_node("n2", cpu="9", labels={ZONE: "b"}),
        a_node("n3", cpu="2", labels={ZONE: "b"}),
    ]
    gang = a_gang("train", 12, labels={"app": "train"}, spec=preferring("podAffinity", near("train")))
    chosen = policy("allocate", ["gang", {"name": "nodeorder", "arguments": {"podaffinity.weight": 10}}])
    session = session_for(nodes, gang, policy=chosen)
    shape = session.shape(session.gangs["default/train"].tasks[0])
    assert not session.placer.is_live(shape)
    placed = [bind.node for bind in plan_for(nodes, gang, policy=chosen).commits[0].binds]
    assert sorted(placed[:11]) == ["n2"] * 9 + ["n3"] * 2
    assert placed[11] == "n1"


def test_what_others_require_of_the_pod_draws_nobody():
    """Volcano sets the weight of required affinity to zero."""
    required = {
        "affinity": {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near("star")["podAffinityTerm"]]}
        }
    }
    found = scores(
        only("podaffinity"), zoned("a", "b"), a_pod("fan", node="n1", spec=required), a_pod("p", labels={"app": "star"})
    )
    assert found == {"n1": 0, "n2": 0}


def test_shares_are_divided_first_and_truncated_last():
    """29/50 of 100 is 57.99999999999999 to a float, and so 57 to kube-scheduler."""
    there = [
        a_pod("one", node="n1", spec=preferring("podAffinity", near("star", weight=50))),
        a_pod("two", node="n2", spec=preferring("podAffinity", near("star", weight=29))),
    ]
    found = scores(only("podaffinity"), zoned("a", "b", "c"), there, a_pod("p", labels={"app": "star"}))
    assert found == {"n1": 100, "n2": 57, "n3": 0}


# ------------------------------------------------------------------------------------------------- spreading


def wishing(*keys, skew=1):
    rule = {"maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}}
    return {"topologySpreadConstraints": [{**rule, "topologyKey": key} for key in keys]}


def web(name, node):
    return a_pod(name, node=node, labels={"app": "web"})


def test_fewer_of_a_kind_are_better():
    there = [web("x", "n1"), web("y", "n2"), web("z", "n3")]
    pod = a_pod("p", labels={"app": "web"}, spec=wishing(ZONE))
    found = scores(only("podtopologyspread"), zoned("a", "a", "b", "c"), there, pod)
    # three zones: 2, 1 and 0 pods times ln(5) = 1.609, rounded 3, 2 and 0
    assert found == {"n1": 0, "n2": 0, "n3": 100 * (3 + 0 - 2) // 3, "n4": 100}


def test_a_node_without_the_label_is_worth_nothing():
    pod = a_pod("p", labels={"app": "web"}, spec=wishing(ZONE, skew=3))
    assert scores(only("podtopologyspread"), zoned("a", ""), pod) == {"n1": 100, "n2": 0}


def test_pods_that_a_service_selects_spread_by_themselves():
    service = an_object(
        "v1", "Service", {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
    )
    nodes = [a_node(f"n{number}", cpu="9", labels={ZONE: zone}) for number, zone in enumerate("aab", 1)]
    there = [web("x", "n1"), web("y", "n1")]
    pod = a_pod("p", labels={"app": "web"})
    assert scores(only("podtopologyspread"), nodes, there, pod) == {"n1": 0, "n2": 0, "n3": 0}
    # by host: 2, 0, 0 times ln(5), plus 2; by zone: 2, 2, 0 times ln(4), plus 4
    raw = [round(2 * 1.6094 + 2 + 2 * 1.3863 + 4), round(2 + 2 * 1.3863 + 4), 6]
    assert raw == [12, 9, 6]
    expected = {f"n{number}": 100 * (12 + 6 - each) // 12 for number, each in enumerate(raw, 1)}
    assert scores(only("podtopologyspread"), nodes, there, service, pod) == expected
    elsewhere = a_pod("p", labels={"app": "web"}, namespace="other")
    assert scores(only("podtopologyspread"), nodes, there, service, elsewhere) == {"n1": 0, "n2": 0, "n3": 0}


def test_pods_of_a_replica_set_spread_by_themselves():
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    replicas = an_object("apps/v1", "ReplicaSet", {
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "web"}}},
    })  # fmt: skip
    pod = a_pod("p", labels={"app": "web"}, metadata={"ownerReferences": [owner]})
    group = a_group("podgroup-u", 1)
    found = scores(only("podtopologyspread"), zoned("a", "b"), replicas, web("x", "n1"), group, pod)
    assert found["n1"] < found["n2"]


def test_equal_pods_of_a_service_take_turns():
    service = an_object(
        "v1", "Service", {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
    )
    decisions = plan_for(
        zoned("a", "b", "c"), service, a_gang("web", 6, labels={"app": "web"}), policy=only("podtopologyspread")
    )
    assert sorted(binds(decisions).values()) == ["n1", "n1", "n2", "n2", "n3", "n3"]


# ------------------------------------------------------------------------------------------------- all together


def test_the_default_weights_are_volcanos():
    nodes = [
        a_node("n1", cpu="4", memory="4Gi"),
        a_node("n2", cpu="4", memory="4Gi", taints=["slow=:PreferNoSchedule"]),
    ]
    found = scores(policy("allocate", "nodeorder"), nodes, a_pod("p", cpu="1", memory="1Gi"))
    assert found == {"n1": 75 + 75 + 300, "n2": 75 + 75}


def test_ordinary_pods_are_told_apart_by_nothing_but_what_scores_read():
    pods = [a_pod(f"p{number}", labels={"index": str(number)}) for number in range(2)]
    session = session_for(a_node(), pods, policy=policy("allocate", "nodeorder predicates"))
    one, other = (gang.tasks[0] for gang in session.gangs.values())
    assert session.shape(one) is session.shape(other)
    assert not session.placer.is_live(session.shape(one))
