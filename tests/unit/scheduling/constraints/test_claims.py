"""Devices of resource claims: counted, selected, shared, and never given twice."""

import sys

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_gang,
    a_group,
    a_node,
    a_pod,
    an_object,
    binds,
    plan_for,
    policy,
    report,
    session_for,
)

from pumice import cel
from pumice.api.changes import Assumed, Claim, Claimed, PodRef
from pumice.api.resource import Device
from pumice.instant import MINUTE
from pumice.scheduling.core.decisions import DeviceChoice
from pumice.scheduling.placing.constraints import device_cel

pytest.importorskip("cel_expr_python.cel", reason="no CEL engine for this machine")

POLICY = policy("allocate, backfill", "gang predicates")
DRIVER = "gpu.example.com"
RESOURCE = "resource.k8s.io/v1"


def a_slice(node, *devices, pool="", generation=1, slices=1, name="", **spec):
    """The devices of a node: plain names, or whole manifests."""
    listed = [{"name": each} if isinstance(each, str) else each for each in devices]
    where = {"nodeName": node} if node else {}
    pooled = {"name": pool or node, "generation": generation, "resourceSliceCount": slices}
    own = {"driver": DRIVER, "pool": pooled, "devices": listed, **where, **spec}
    return an_object(
        RESOURCE, "ResourceSlice", {"metadata": {"name": name or f"{node}-{pool}-{generation}"}, "spec": own}
    )


def a_device(name, model="A100", memory="40Gi", **more):
    attributes = {"model": {"string": model}, "driverVersion": {"version": "1.2.3"}}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}, **more}


def a_class(name="gpu", *expressions):
    selectors = [{"cel": {"expression": each}} for each in expressions or (f'device.driver == "{DRIVER}"',)]
    config = [{"opaque": {"driver": DRIVER, "parameters": {"from": "class"}}}]
    return an_object(
        RESOURCE, "DeviceClass", {"metadata": {"name": name}, "spec": {"selectors": selectors, "config": config}}
    )


def asking(name="gpu", count=1, *expressions, **more):
    selectors = [{"cel": {"expression": each}} for each in expressions]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, "selectors": selectors, **more}
    return {"name": name, "exactly": exactly}


def a_claim(name="claim", *requests, owner="", constraints=(), **manifest):
    owners = (
        [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"default/{owner}", "controller": True}]
        if owner
        else []
    )
    meta = {"name": name, "namespace": "default", "uid": name, "ownerReferences": owners}
    devices = {"requests": list(requests or (asking(),)), "constraints": list(constraints)}
    return an_object(RESOURCE, "ResourceClaim", {"metadata": meta, "spec": {"devices": devices}, **manifest})


def user(name, claim="claim", **more):
    return a_pod(name, spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}, **more)


def own_user(number, gang=""):
    """A pod with a claim of its own, made from a template."""
    name, claim = f"p{number}", f"p{number}-gpu-x7k2p"
    return a_pod(
        name, gang=gang, spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]},
        status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claim}]},
    )  # fmt: skip


def plan(*things):
    return plan_for(*things, policy=POLICY)


def allocations(decisions):
    """Claim -> devices that it is given."""
    return {
        each.claim.partition("/")[2]: [result["device"] for result in each.allocation["devices"]["results"]]
        for commit in decisions.commits
        for bind in commit.binds
        for each in bind.first
        if each.allocation is not None
    }


def why(decisions, pod):
    reasons = report(decisions, f"pod:{pod}").reasons
    return "; ".join(reason.text for reason in reasons if reason.plugin in {"predicates", "resources"})


# ------------------------------------------------------------------------------------------------- where devices are


def test_a_pod_that_names_a_claim_twice_has_its_devices_once_and_gives_them_back_once():
    """It is placed first, and makes way again: its gang is not whole."""
    twice = {"resourceClaims": [{"name": name, "resourceClaimName": "claim"} for name in ("one", "two")]}
    half = [a_group("half", 2, created=0), a_pod("p0", gang="half", spec=twice, created=0)]
    half.append(a_pod("p1", gang="half", cpu="99", created=1))
    others = [a_claim("other"), user("p2", "other", created=9)]
    decisions = plan(a_node("n1"), a_class(), a_slice("n1", "d0", "d1"), a_claim(), half, others)
    assert (binds(decisions), decisions.failures) == ({"p2": "n1"}, ())
    alone = plan(a_node("n1"), a_class(), a_slice("n1", "d0"), a_claim(), a_pod("p0", spec=twice))
    assert allocations(alone) == {"claim": ["d0"]}


def test_an_amount_that_cannot_be_read_is_absent_and_keeps_no_device_from_anybody():
    wrong, right = a_device("wrong", memory="a lot"), a_device("right")
    large = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("1Gi")) > 0'
    claims = [a_claim("any"), a_claim("large", asking("gpu", 1, large))]
    users = [user("p0", "large", created=0), user("p1", "any", created=1)]
    decisions = plan(a_node("n1"), a_class(), a_slice("n1", wrong, right), claims, users)
    assert (allocations(decisions), decisions.failures) == ({"large": ["right"], "any": ["wrong"]}, ())


@pytest.mark.parametrize("devices", [[], ["d0", "d1"]])
def test_claims_that_ask_for_no_device_keep_their_pods_from_nowhere(devices):
    def empty(name, **manifest):
        return a_claim(name, **manifest, spec={"devices": {"requests": []}})

    claims = [empty("claim"), empty("p1-gpu-x7k2p", owner="p1")]
    decisions = plan(a_node("n1"), a_class(), a_slice("n1", *devices), claims, user("p0"), own_user(1))
    assert binds(decisions) == {"p0": "n1", "p1": "n1"}
    assert allocations(decisions) == {"claim": [], "p1-gpu-x7k2p": []}


def test_a_pod_goes_where_its_devices_are_and_the_claim_is_told():
    decisions = plan(a_node("n1"), a_node("n2"), a_slice("n2", a_device("gpu-0")), a_class(), a_claim(), user("p"))
    assert binds(decisions) == {"p": "n2"}
    (choice,) = decisions.commits[0].binds[0].first
    assert choice.claim == "default/claim"
    assert choice.allocation == {
        "devices": {
            "results": [{"request": "gpu", "driver": DRIVER, "pool": "n2", "device": "gpu-0"}],
            "config": [{
                "source": "FromClass", "requests": ["gpu"], "opaque": {"driver": DRIVER, "parameters": {"from": "class"}},
            }],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]
        },
    }  # fmt: skip


def test_a_device_that_another_claim_has_is_not_given_again():
    taken = a_claim("taken", status={"allocation": {"devices": {"results": [
        {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0"},
    ]}}})  # fmt: skip
    things = [a_node("n1"), a_class(), taken, a_claim(), user("p")]
    decisions = plan(*things, a_slice("n1", a_device("gpu-0")))
    assert binds(decisions) == {}
    assert why(decisions, "p") == "cannot allocate all claims"
    assert allocations(plan(*things, a_slice("n1", a_device("gpu-0"), a_device("gpu-1")))) == {"claim": ["gpu-1"]}


def test_an_allocated_claim_holds_its_pods_to_its_nodes():
    where = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]}
    claim = a_claim(status={"allocation": {"devices": {"results": []}, "nodeSelector": where}})
    decisions = plan(a_node("n1"), a_node("n2"), a_class(), claim, user("p"))
    assert binds(decisions) == {"p": "n2"}
    (choice,) = decisions.commits[0].binds[0].first
    assert choice.allocation is None, "it only has to be told that the pod uses it"
    decisions = plan(a_node("n1"), a_class(), claim, user("p"))
    assert why(decisions, "p") == "resourceclaim not available on the node"


def test_a_claim_that_has_devices_for_the_pod_already_is_looked_at_again_before_the_bind():
    users = [{"resource": "pods", "name": "p", "uid": "default/p"}]
    claim = a_claim(status={"allocation": {"devices": {"results": []}}, "reservedFor": users})
    decisions = plan(a_node("n1"), a_class(), claim, user("p"))
    assert decisions.commits[0].binds[0].first == (DeviceChoice("default/claim", None),)


def test_an_incomplete_pool_and_an_old_generation_offer_nothing():
    rest = [a_node("n1"), a_class(), a_claim(), user("p")]
    assert binds(plan(*rest, a_slice("n1", a_device("gpu-0"), slices=2))) == {}
    old, new = a_slice("n1", a_device("gpu-0")), a_slice("n1", generation=2)
    assert binds(plan(*rest, old, new)) == {}


def test_a_device_on_the_network_serves_all_nodes_that_its_selector_names():
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}
    offer = a_slice("", a_device("nic"), pool="net", nodeSelector={"nodeSelectorTerms": [term]})
    nodes = [a_node("n1", labels={"rack": "b"}), a_node("n2", labels={"rack": "a"})]
    decisions = plan(nodes, offer, a_class(), a_claim(), user("p"))
    assert binds(decisions) == {"p": "n2"}
    allocation = decisions.commits[0].binds[0].first[0].allocation
    assert allocation["nodeSelector"]["nodeSelectorTerms"] == [term]


# ------------------------------------------------------------------------------------------------- which devices


def test_selectors_of_class_and_request_must_both_agree():
    devices = [a_device("small", memory="40Gi"), a_device("other", "T4", "80Gi"), a_device("right", memory="80Gi")]
    kind = a_class("gpu", f'device.attributes["{DRIVER}"].model == "A100"')
    claim = a_claim("claim", asking("gpu", 1, f'device.capacity["{DRIVER}"].memory.compareTo(quantity("64Gi")) >= 0'))
    assert allocations(plan(a_node("n1"), a_slice("n1", *devices), kind, claim, user("p"))) == {"claim": ["right"]}


def test_all_means_every_matching_device_and_every_one_free():
    devices = [a_device("gpu-0"), a_device("gpu-1"), a_device("cpu", "none")]
    kind = a_class("gpu", f'device.attributes["{DRIVER}"].model != "none"')
    things = [a_node("n1"), a_slice("n1", *devices), kind, a_claim("claim", asking("gpu", 1, allocationMode="All"))]
    assert allocations(plan(*things, user("p"))) == {"claim": ["gpu-0", "gpu-1"]}
    one = a_claim("one", asking())
    decisions = plan(*things, one, user("first", "one", created=0), user("p", created=5))
    assert binds(decisions) == {"first": "n1"}


def test_constraints_make_devices_agree_or_differ():
    def socket(name, number):
        return {"name": name, "attributes": {"socket": {"int": number}}}

    offer = a_slice("n1", socket("a", 0), socket("b", 1), socket("c", 1), {"name": "odd"})
    rest = [a_node("n1"), offer, a_class(), user("p")]
    together = a_claim("claim", asking("gpu", 2), constraints=[{"matchAttribute": f"{DRIVER}/socket"}])
    apart = a_claim("claim", asking("gpu", 2), constraints=[{"distinctAttribute": f"{DRIVER}/socket"}])
    too_many = a_claim("claim", asking("gpu", 3), constraints=[{"matchAttribute": f"{DRIVER}/socket"}])
    assert allocations(plan(*rest, together)) == {"claim": ["b", "c"]}
    assert allocations(plan(*rest, apart)) == {"claim": ["a", "b"]}
    assert binds(plan(*rest, too_many)) == {}


def test_an_earlier_request_gives_way_when_a_later_one_finds_nothing_else():
    devices = [a_device("good"), a_device("plain", "T4")]
    claim = a_claim("claim", asking("any"), asking("good", 1, f'device.attributes["{DRIVER}"].model == "A100"'))
    assert allocations(plan(a_node("n1"), a_slice("n1", *devices), a_class(), claim, user("p"))) == {
        "claim": ["plain", "good"]
    }


def test_the_first_available_alternative_is_taken():
    def alternative(name, model):
        expression = f'device.attributes["{DRIVER}"].model == "{model}"'
        return {"name": name, "deviceClassName": "gpu", "count": 1, "selectors": [{"cel": {"expression": expression}}]}

    claim = a_claim(
        "claim", {"name": "gpu", "firstAvailable": [alternative("best", "H100"), alternative("ok", "A100")]}
    )
    decisions = plan(a_node("n1"), a_slice("n1", a_device("gpu-0")), a_class(), claim, user("p"))
    (choice,) = decisions.commits[0].binds[0].first
    assert [result["request"] for result in choice.allocation["devices"]["results"]] == ["gpu/ok"]


def test_who_only_looks_on_takes_nothing_away():
    looks = a_claim("looks", asking("gpu", 1, adminAccess=True))
    decisions = plan(
        a_node("n1"), a_slice("n1", a_device("gpu-0")), a_class(), looks, a_claim(), user("watcher", "looks"), user("p")
    )
    assert set(binds(decisions)) == {"watcher", "p"}


def test_a_tainted_device_must_be_tolerated():
    device = a_device("gpu-0", taints=[{"key": "broken", "value": "x", "effect": "NoSchedule"}])
    rest = [a_node("n1"), a_slice("n1", device), a_class(), user("p")]
    assert binds(plan(*rest, a_claim())) == {}
    tolerant = a_claim("claim", asking("gpu", 1, tolerations=[{"key": "broken", "operator": "Exists"}]))
    assert binds(plan(*rest, tolerant)) == {"p": "n1"}


def test_parts_of_one_card_share_its_counters():
    def part(name, slices):
        return {"name": name, "consumesCounters": [{"counterSet": "card", "counters": {"slices": {"value": slices}}}]}

    counters = [{"name": "card", "counters": {"slices": {"value": "3"}}}]
    offer = a_slice("n1", part("a", "2"), part("b", "2"), part("c", "1"), sharedCounters=counters)
    claims = [a_claim("one"), a_claim("two"), a_claim("three")]
    pods = [user(name, name, created=number) for number, name in enumerate(("one", "two", "three"))]
    decisions = plan(a_node("n1"), offer, a_class(), claims, pods)
    assert allocations(decisions) == {"one": ["a"], "two": ["c"]}


def test_a_counter_that_cannot_be_read_costs_nobody_else_a_device():
    counters = [{"name": "card", "counters": {"slices": {"value": "three"}}}]
    taking = {"name": "part", "consumesCounters": [{"counterSet": "card", "counters": {"slices": {"value": "two"}}}]}
    broken = [a_slice("n1", "gpu-0", sharedCounters=counters), a_slice("n2", taking)]
    rest = [a_node("n1"), a_node("n2"), a_node("n3"), a_slice("n3", "gpu-0"), a_class(), user("p"), a_claim()]
    assert binds(plan(*broken, *rest)) == {"p": "n3"}


# ------------------------------------------------------------------------------------------------- many pods


def test_equal_pods_with_claims_of_their_own_are_placed_together():
    pods = [own_user(number, "train") for number in range(5)]
    claims = [a_claim(f"p{number}-gpu-x7k2p", owner=f"p{number}") for number in range(5)]
    offers = [
        a_slice("n1", *(f"gpu-{number}" for number in range(2))),
        a_slice("n2", *(f"gpu-{number}" for number in range(3))),
    ]
    nodes = [a_node("n1", cpu="8"), a_node("n2", cpu="8")]
    things = [nodes, offers, a_class(), claims, a_group("train", 5), pods]
    session = session_for(*things, policy=POLICY)
    shapes = {id(session.shape(task)) for gang in session.gangs.values() for task in gang.tasks}
    assert len(shapes) == 1
    decisions = plan(*things)
    assert sorted(binds(decisions).values()) == ["n1", "n1", "n2", "n2", "n2"]
    given = [(bind.node, *bind.first[0].allocation["devices"]["results"]) for bind in decisions.commits[0].binds]
    assert len({(node, result["device"]) for node, result in given}) == 5


def test_a_gang_that_lacks_one_device_takes_none():
    pods = [own_user(number, "train") for number in range(3)]
    claims = [a_claim(f"p{number}-gpu-x7k2p", owner=f"p{number}") for number in range(3)]
    late = user("late", created=9)
    decisions = plan(
        a_node("n1", cpu="8"), a_slice("n1", "a", "b"), a_class(), claims, a_group("train", 3), pods, a_claim(), late
    )
    assert binds(decisions) == {"late": "n1"}
    assert allocations(decisions) == {"claim": ["a"]}


def test_pods_that_share_a_claim_follow_the_first_of_them():
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}]}
    nodes = [a_node("n1"), a_node("n2")]
    offers = [a_slice("n1", "a"), a_slice("n2", "a")]
    decisions = plan(nodes, offers, a_class(), a_claim(), a_gang("train", 3, spec=spec))
    assert len(binds(decisions)) == 3
    assert len(set(binds(decisions).values())) == 1


def test_a_device_stays_given_while_its_pod_is_being_bound():
    claims = [a_claim("one"), a_claim("two")]
    things = [a_node("n1"), a_class(), claims]
    (bind,) = plan(*things, a_slice("n1", "a"), user("p", "one")).commits[0].binds
    assert bind.annotations == {"pumice.dev/devices": f'{{"one":[["gpu","{DRIVER}","n1","a",false]]}}'}
    reference = PodRef(namespace="default", name="p", uid="default/p")
    earlier = Assumed(pod=reference, node="n1", attempt="x", at=NOW, annotations=bind.annotations)
    pods = [user("p", "one"), user("q", "two")]
    assert binds(plan(*things, a_slice("n1", "a"), pods, earlier)) == {}
    assert allocations(plan(*things, a_slice("n1", "a", "b"), pods, earlier)) == {"two": ["b"]}


def test_a_device_stays_given_where_it_is_first_asked_about_while_an_eviction_is_tried_out():
    note = {"pumice.dev/devices": f'{{"one":[["gpu","{DRIVER}","n1","a",false]]}}'}
    binding = Assumed(
        pod=PodRef(namespace="default", name="p", uid="default/p"), node="n1", attempt="x", at=NOW, annotations=note
    )
    pods = [a_group("g"), user("p", "one", gang="g"), user("q", "two")]
    session = session_for(
        a_node("n1"), a_class(), a_claim("one"), a_claim("two"), a_slice("n1", "a"), pods, binding, policy=POLICY
    )
    statement = session.statement()
    statement.evict(session.gangs["default/g"].tasks[0], "preempt")
    (waiting,) = [gang.tasks[0] for gang in session.restless if gang.key != "default/g"]
    assert not session.placer.feasible(session.shape(waiting), None).any()
    statement.rollback()
    assert not session.placer.feasible(session.shape(waiting), None).any()


def test_room_that_is_held_for_a_pod_whose_devices_were_taken_meanwhile_ends_nothing_but_its_hope():
    taken = a_claim("taken", status={"allocation": {"devices": {"results": [
        {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "a"},
    ]}}})  # fmt: skip
    held = Claim(gang="default/g", places=(("default/p", "n1"),), victims=(), until=NOW + MINUTE)
    decisions = plan(
        a_node("n1"), a_node("n2"), a_slice("n1", "a"), a_slice("n2", "b"), a_class(), taken, a_claim(), a_claim("other"),
        a_group("g"), user("p", gang="g"), user("q", "other"), Claimed(claim=held),
    )  # fmt: skip
    assert binds(decisions) == {"p": "n2"}
    assert decisions.failures == ()


@pytest.mark.parametrize(
    ("things", "message"),
    [
        ([user("p")], 'could not find ResourceClaim "default/claim"'),
        ([user("p"), a_claim()], "request gpu: device class gpu does not exist"),
        ([user("p"), a_claim("claim", metadata={"name": "claim", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"})],
         'resourceclaim "default/claim" is being deleted'),
        ([a_pod("p", spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]})],
         "pod default/p: ResourceClaim not created yet"),
    ],
)  # fmt: skip
def test_a_pod_whose_claim_is_not_ready_says_so(things, message):
    decisions = plan(a_node(), things)
    assert why(decisions, "p") == f"plugin DynamicResources pre-predicates failed {message}"


def test_a_selector_that_does_not_compile_is_named():
    claim = a_claim("claim", asking("gpu", 1, "device.driver =="))
    decisions = plan(a_node(), a_slice("n1", "a"), a_class(), claim, user("p"))
    assert why(decisions, "p").startswith(
        "plugin DynamicResources pre-predicates failed request gpu: device selector 'device.driver ==':"
    )


# ------------------------------------------------------------------------------------------------- expressions


DEVICE = Device(
    name="gpu-0",
    attributes={
        "model": {"string": "A100-SXM"}, "ecc": {"bool": True}, "cores": {"int": 108},
        "driverVersion": {"version": "1.10.0"}, "other.example.com/zone": {"string": "b"},
    },
    capacity={"memory": {"value": "80Gi"}},
)  # fmt: skip


def device():
    return an_object(RESOURCE, "ResourceSlice", {"spec": {"devices": [{
        "name": DEVICE.name, "attributes": DEVICE.attributes, "capacity": DEVICE.capacity,
    }]}}).spec.devices[0]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        (f'device.driver == "{DRIVER}"', True),
        (f'device.attributes["{DRIVER}"].model.lowerAscii().matches("^a100")', True),
        (f'device.attributes["{DRIVER}"]["cores"] > 100 && device.attributes["{DRIVER}"].ecc', True),
        ('device.attributes["other.example.com"].zone == "b"', True),
        (f'device.attributes["{DRIVER}"].driverVersion.isGreaterThan(semver("1.9.0"))', True),
        (f'device.attributes["{DRIVER}"].driverVersion.compareTo(semver("1.10.0-rc.1")) > 0', True),
        (f'device.attributes["{DRIVER}"].driverVersion.major() == 1', True),
        (f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("79Gi"))', True),
        (f'device.capacity["{DRIVER}"].memory == quantity("81920Mi")', True),
        (f'device.capacity["{DRIVER}"].memory.sub(quantity("80Gi")).sign() == 0', True),
        (f'cel.bind(own, device.attributes["{DRIVER}"], own.ecc)', True),
        ('isQuantity("1Gi") && !isQuantity("much") && isSemver("1.2.3") && !isSemver("1.2")', True),
        # A domain that the device lacks is empty, and not there.
        ('!has(device.attributes["unknown.example.com"].model)', True),
        ('"unknown.example.com" in device.attributes', False),
        (f'"{DRIVER}" in device.attributes', True),
        # What cannot be evaluated selects nothing.
        ('device.attributes["unknown.example.com"].model == "x"', False),
        (f'device.attributes["{DRIVER}"].model > 3', False),
        (f'device.attributes["{DRIVER}"].model', False),
    ],
)
def test_expressions_mean_what_kubernetes_means(expression, selected):
    assert device_cel.compile_selector(expression).selects(DRIVER, device()) is selected


def test_devices_that_an_expression_cannot_tell_apart_are_evaluated_once():
    selector = device_cel.Selector(f'device.attributes["{DRIVER}"].model == "A100"')
    devices = [an_object(RESOURCE, "ResourceSlice", {"spec": {"devices": [{
        "name": f"gpu-{number}", "attributes": {"model": {"string": "A100"}, "uuid": {"string": str(number)}},
    }]}}).spec.devices[0] for number in range(9)]  # fmt: skip
    assert all(selector.selects(DRIVER, each) for each in devices)
    assert len(selector._answers) == 1


def test_without_a_cel_engine_the_pod_waits_and_says_what_to_install(monkeypatch):
    forget_programs()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    decisions = plan(a_node("n1"), a_slice("n1", "a"), a_class("gpu", "device.driver != ''"), a_claim(), user("p"))
    assert "install it" in why(decisions, "p")
    monkeypatch.undo()
    forget_programs()


def forget_programs():
    for kept in (device_cel.compile_selector, device_cel._environment, cel.engine):
        kept.cache_clear()
