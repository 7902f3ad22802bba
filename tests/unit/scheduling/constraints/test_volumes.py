"""Pods go where their volumes are, or can be: bound, free, new, shared and forbidden ones."""

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_gang,
    a_node,
    a_pod,
    a_priority_class,
    an_object,
    binds,
    evicted,
    plan_for,
    policy,
    report,
    session_for,
)  # fmt: skip

from pumice.api.changes import Assumed, PodRef
from pumice.scheduling.core.decisions import VolumeChoice

POLICY = policy("allocate, backfill", "gang predicates")
ZONE = "topology.kubernetes.io/zone"
DRIVER = "disk.example.com"


def a_class(name="local", provisioner="kubernetes.io/no-provisioner", mode="WaitForFirstConsumer", zones=()):
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}] if zones else []
    manifest = {"provisioner": provisioner, "volumeBindingMode": mode, "allowedTopologies": allowed}
    return an_object("storage.k8s.io/v1", "StorageClass", {"metadata": {"name": name}, **manifest})


def a_claim(name="data", size="1Gi", storage_class="local", volume="", modes=("ReadWriteOnce",), phase="", **metadata):
    if volume:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    spec = {
        "storageClassName": storage_class, "volumeName": volume, "accessModes": list(modes),
        "resources": {"requests": {"storage": size}},
    }  # fmt: skip
    meta = {"name": name, "namespace": "default", "uid": name, **metadata}
    manifest = {"metadata": meta, "spec": spec, "status": {"phase": phase}}
    return an_object("v1", "PersistentVolumeClaim", manifest)


def a_volume(name, size="1Gi", storage_class="local", node="", labels=None, claim=None, phase="Available", **spec):
    affinity = {}
    if node:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    own = {
        "capacity": {"storage": size}, "storageClassName": storage_class, "accessModes": ["ReadWriteOnce"],
        **affinity, **({"claimRef": claim} if claim else {}), **spec,
    }  # fmt: skip
    meta = {"name": name, "labels": labels or {}}
    return an_object("v1", "PersistentVolume", {"metadata": meta, "spec": own, "status": {"phase": phase}})


def owned_by(pod):
    return [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": f"default/{pod}", "controller": True}]


def with_claim(*claims):
    """A pod's spec that uses these claims."""
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}} for number, claim in enumerate(claims)
    ]
    # Every pod has a token volume whose name ends in five random letters.
    return {"volumes": [*volumes, {"name": "kube-api-access-x7k2p", "projected": {}}]}


def plan(*things):
    return plan_for(*things, policy=POLICY)


def first(decisions):
    return [each for commit in decisions.commits for bind in commit.binds for each in bind.first]


def why(decisions, pod):
    reasons = report(decisions, f"pod:{pod}").reasons
    return "; ".join(reason.text for reason in reasons if reason.plugin in {"predicates", "resources"})


# ------------------------------------------------------------------------------------------------- bound claims


def test_a_pod_follows_its_bound_volume():
    things = [a_node("n1"), a_node("n2"), a_volume("pv", node="n2", phase="Bound"), a_claim(volume="pv", phase="Bound")]
    decisions = plan(*things, a_pod("p", spec=with_claim("data")))
    assert binds(decisions) == {"p": "n2"}
    assert first(decisions) == []


def test_a_pod_whose_volume_is_on_a_full_node_waits_and_says_why():
    things = [a_node("n1"), a_node("n2", cpu="1"), a_volume("pv", node="n2", phase="Bound"), a_claim(volume="pv")]
    decisions = plan(*things, a_pod("p", cpu="2", spec=with_claim("data")))
    assert binds(decisions) == {}
    assert why(decisions, "p") == "Insufficient cpu; node(s) didn't match PersistentVolume's node affinity"


def test_a_claim_whose_volume_vanished_fits_nowhere():
    decisions = plan(a_node(), a_claim(volume="gone"), a_pod("p", spec=with_claim("data")))
    assert why(decisions, "p") == "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


@pytest.mark.parametrize(
    ("label", "zones", "home"),
    [
        (ZONE, "a", "n1"),
        ("failure-domain.beta.kubernetes.io/zone", "b", "n2"),
        (ZONE, "b__c", "n2"),
    ],
)
def test_a_volume_with_a_zone_label_keeps_its_pod_in_the_zone(label, zones, home):
    nodes = [a_node("n1", labels={ZONE: "a"}), a_node("n2", labels={ZONE: "b"})]
    volume = a_volume("pv", labels={label: zones}, phase="Bound")
    decisions = plan(nodes, volume, a_claim(volume="pv"), a_pod("p", spec=with_claim("data")))
    assert binds(decisions) == {"p": home}


def test_a_node_without_any_zone_label_is_in_every_zone():
    volume = a_volume("pv", labels={ZONE: "a"}, phase="Bound")
    decisions = plan(a_node("n1"), volume, a_claim(volume="pv"), a_pod("p", spec=with_claim("data")))
    assert binds(decisions) == {"p": "n1"}


# ------------------------------------------------------------------------------------------------- claims that are stuck


@pytest.mark.parametrize(
    ("things", "message"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        (
            [a_claim(phase="Lost", volume="pv")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
        ),
        ([a_claim(deletionTimestamp="2026-01-01T00:00:00Z")], 'persistentvolumeclaim "data" is being deleted'),
        ([a_claim(), a_class(mode="Immediate")], "pod has unbound immediate PersistentVolumeClaims"),
        ([a_claim(storage_class="unheard-of")], "pod has unbound immediate PersistentVolumeClaims"),
    ],
)
def test_a_pod_whose_claim_is_stuck_waits_for_somebody_else(things, message):
    decisions = plan(a_node(), *things, a_pod("p", spec=with_claim("data")))
    assert binds(decisions) == {}
    assert why(decisions, "p") == f"plugin VolumeBinding pre-predicates failed {message}"


def test_an_ephemeral_volume_waits_for_its_claim():
    pod = a_pod("p", spec={"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]})
    decisions = plan(a_node(), pod)
    text = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert why(decisions, "p") == f"plugin VolumeBinding pre-predicates failed {text}"
    claim = a_claim("p-scratch", storage_class="fast", ownerReferences=owned_by("p"))
    decisions = plan(a_node(), pod, claim, a_class("fast", DRIVER))
    assert first(decisions) == [VolumeChoice("default/p-scratch", "", "n1")]


@pytest.mark.parametrize("owners", [[], "former"])
def test_a_pod_does_not_take_the_ephemeral_volume_of_a_former_pod_of_its_name(owners):
    """A Job that starts again makes pods of the same names, perhaps before the claims of the former ones are gone."""
    pod = a_pod("p", spec={"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]})
    old = a_claim("p-scratch", volume="pv", phase="Bound", ownerReferences=owners and owned_by(owners))
    decisions = plan(a_node(), pod, old, a_volume("pv", phase="Bound"))
    assert binds(decisions) == {}
    assert "waiting for ephemeral volume controller" in why(decisions, "p")


@pytest.mark.parametrize("created", [0, 5])
def test_what_keeps_a_pod_from_the_claim_of_a_former_one_keeps_nobody_else_from_it(created):
    """Whoever of the two is looked at first."""
    pod = a_pod("p", created=created, spec={"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]})
    other = a_pod("q", created=3, spec=with_claim("p-scratch"))
    old = a_claim("p-scratch", volume="pv", phase="Bound", ownerReferences=owned_by("former"))
    decisions = plan(a_node(), pod, other, old, a_volume("pv", phase="Bound"))
    assert binds(decisions) == {"q": "n1"}


# ------------------------------------------------------------------------------------------------- claims to be bound


def test_a_waiting_claim_takes_the_smallest_free_volume_that_fits():
    volumes = [
        a_volume("tiny", "1Gi", node="n2"), a_volume("large", "9Gi", node="n2"), a_volume("right", "3Gi", node="n2"),
        a_volume("other", "3Gi", "fast", node="n1"), a_volume("taken", "3Gi", node="n1", phase="Bound"),
    ]  # fmt: skip
    decisions = plan(
        a_node("n1"), a_node("n2"), a_class(), volumes, a_claim(size="2Gi"), a_pod("p", spec=with_claim("data"))
    )
    assert binds(decisions) == {"p": "n2"}
    assert first(decisions) == [VolumeChoice("default/data", "right", "n2")]


def test_no_volume_is_promised_twice():
    """Three pods, two local volumes: two start, and the third is told what is missing."""
    volumes = [a_volume("pv1", node="n1"), a_volume("pv2", node="n1")]
    claims = [a_claim(f"data-{number}") for number in range(3)]
    pods = [a_pod(f"p{number}", spec=with_claim(f"data-{number}")) for number in range(3)]
    decisions = plan(a_node("n1"), a_class(), volumes, claims, pods)
    assert set(binds(decisions)) == {"p0", "p1"}
    assert {each.volume for each in first(decisions)} == {"pv1", "pv2"}
    assert why(decisions, "p2") == "node(s) didn't find available persistent volumes to bind"


def test_two_claims_of_one_pod_need_two_volumes_within_reach():
    volumes = [a_volume("pv1", "5Gi", node="n1"), a_volume("pv2", "1Gi", node="n2"), a_volume("pv3", "5Gi", node="n2")]
    claims = [a_claim("large", "4Gi"), a_claim("small", "1Gi")]
    pod = a_pod("p", spec=with_claim("large", "small"))
    decisions = plan(a_node("n1"), a_node("n2"), a_class(), volumes, claims, pod)
    assert binds(decisions) == {"p": "n2"}
    assert set(first(decisions)) == {
        VolumeChoice("default/small", "pv2", "n2"),
        VolumeChoice("default/large", "pv3", "n2"),
    }


def test_two_equal_claims_of_one_pod_do_not_share_a_volume():
    claims = [a_claim("one"), a_claim("two")]
    pod = a_pod("p", spec=with_claim("one", "two"))
    nodes = [a_node("n1"), a_node("n2")]
    assert binds(plan(nodes, a_class(), a_volume("pv1", node="n1"), claims, pod)) == {}
    volumes = [a_volume("pv1", node="n1"), a_volume("pv2", node="n2"), a_volume("pv3", node="n2")]
    assert binds(plan(nodes, a_class(), volumes, claims, pod)) == {"p": "n2"}


def test_access_modes_volume_mode_and_selector_must_match():
    modes = a_volume("modes", accessModes=["ReadOnlyMany"])
    block = a_volume("block", volumeMode="Block")
    plain = a_volume("plain")
    chosen = a_volume("chosen", "9Gi", labels={"tier": "gold"})
    claim = a_claim()
    wants_gold = an_object("v1", "PersistentVolumeClaim", {
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "selector": {"matchLabels": {"tier": "gold"}},
                 "resources": {"requests": {"storage": "1Gi"}}},
    })  # fmt: skip
    pod = a_pod("p", spec=with_claim("data"))
    assert binds(plan(a_node(), a_class(), modes, block, claim, pod)) == {}
    assert first(plan(a_node(), a_class(), modes, block, plain, claim, pod))[0].volume == "plain"
    assert first(plan(a_node(), a_class(), plain, chosen, wants_gold, pod))[0].volume == "chosen"


def test_a_volume_reserved_for_a_claim_is_its_only_choice():
    mine = {"namespace": "default", "name": "data", "uid": "data"}
    theirs = {"namespace": "default", "name": "data", "uid": "an older claim of that name"}
    nodes = [a_node("n1"), a_node("n2")]
    pod = a_pod("p", spec=with_claim("data"))
    volumes = [a_volume("pv1", node="n1"), a_volume("pv2", "9Gi", node="n2", claim=mine)]
    decisions = plan(nodes, a_class(), volumes, a_claim(), pod)
    assert first(decisions) == [VolumeChoice("default/data", "pv2", "n2")]
    assert binds(plan(nodes, a_class(), a_volume("pv", claim=theirs), a_claim(), pod)) == {}


def test_pods_that_share_a_waiting_claim_follow_the_first_of_them():
    volumes = [a_volume("pv1", node="n1"), a_volume("pv2", node="n2")]
    decisions = plan(
        a_node("n1"), a_node("n2"), a_class(), volumes, a_claim(), a_gang("train", 3, spec=with_claim("data"))
    )
    assert len(set(binds(decisions).values())) == 1
    assert len(binds(decisions)) == 3
    assert len(set(first(decisions))) == 1


def test_a_gang_that_does_not_start_gives_its_volumes_back():
    volumes = [a_volume("pv1", node="n1"), a_volume("pv2", node="n1")]
    claims = [a_claim(f"big-{number}") for number in range(3)] + [a_claim("small")]
    big = a_gang("big", 3, cpu="1")[0]
    members = [a_pod(f"big-{number}", gang="big", spec=with_claim(f"big-{number}")) for number in range(3)]
    decisions = plan(
        a_node("n1"), a_class(), volumes, claims, big, members, a_pod("late", created=9, spec=with_claim("small"))
    )
    assert binds(decisions) == {"late": "n1"}
    assert [each.claim for each in first(decisions)] == ["default/small"]


def being_bound(pod, node, notes):
    """Dispatch has the pod in hand, and the API server does not show it yet."""
    reference = PodRef(namespace="default", name=pod, uid=f"default/{pod}")
    return Assumed(pod=reference, node=node, attempt="a", at=NOW, annotations=notes)


def test_a_volume_stays_promised_while_its_pod_is_being_bound():
    claims = [a_claim("data-0"), a_claim("data-1")]
    pods = [a_pod(f"p{number}", spec=with_claim(f"data-{number}")) for number in range(2)]
    rest = [a_node("n1"), a_class(), claims, pods]
    one, two = a_volume("pv1", node="n1"), a_volume("pv2", node="n1")
    (bind,) = plan(a_node("n1"), a_class(), claims, one, two, pods[0]).commits[0].binds
    assert bind.annotations == {"pumice.dev/volumes": '{"data-0":"pv1"}'}
    earlier = being_bound("p0", "n1", bind.annotations)
    assert binds(plan(*rest, one, earlier)) == {}
    assert first(plan(*rest, one, two, earlier)) == [VolumeChoice("default/data-1", "pv2", "n1")]


def test_a_volume_that_goes_while_its_pod_is_being_bound_sets_nobody_aside():
    pods = [a_pod("p0", spec=with_claim("data")), a_pod("p1", created=5, spec=with_claim("data"))]
    earlier = being_bound("p0", "n1", {"pumice.dev/volumes": '{"data":"gone"}'})
    decisions = plan(a_node("n1"), a_node("n2"), a_class(), a_volume("pv1", node="n2"), a_claim("data"), pods, earlier)
    assert (binds(decisions), decisions.failures) == ({}, ()), "p0 is still to come to n1"


def test_a_note_that_makes_no_sense_promises_nothing():
    pods = [a_pod("p0", spec=with_claim("data")), a_pod("p1", created=5, spec=with_claim("data"))]
    earlier = being_bound("p0", "n1", {"pumice.dev/volumes": "[1, 2"})
    decisions = plan(a_node("n1"), a_node("n2"), a_class("fast", DRIVER), a_claim(storage_class="fast"), pods, earlier)
    assert binds(decisions) == {"p1": "n1"}, "where p0 is, their volume will be"


# ------------------------------------------------------------------------------------------------- claims to be provided


def test_a_new_volume_is_made_where_its_class_allows():
    nodes = [a_node("n1", labels={ZONE: "a"}), a_node("n2", labels={ZONE: "b"})]
    pod = a_pod("p", spec=with_claim("data"))
    claim = a_claim(storage_class="fast")
    decisions = plan(nodes, a_class("fast", DRIVER, zones=["b"]), claim, pod)
    assert binds(decisions) == {"p": "n2"}
    assert first(decisions) == [VolumeChoice("default/data", "", "n2")]
    assert binds(plan(nodes, a_class("fast", DRIVER, zones=["c"]), claim, pod)) == {}


def test_a_node_chosen_for_a_claim_in_an_earlier_cycle_stands():
    claim = a_claim(storage_class="fast", annotations={"volume.kubernetes.io/selected-node": "n2"})
    decisions = plan(a_node("n1"), a_node("n2"), a_class("fast", DRIVER), claim, a_pod("p", spec=with_claim("data")))
    assert binds(decisions) == {"p": "n2"}


def test_a_new_volume_needs_room_where_its_driver_publishes_capacity():
    driver = an_object(
        "storage.k8s.io/v1", "CSIDriver", {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}}
    )

    def room(zone, size, **more):
        return an_object("storage.k8s.io/v1", "CSIStorageCapacity", {
            "metadata": {"name": f"{zone}-{size}", "namespace": "kube-system"}, "storageClassName": "fast", "capacity": size,
            "nodeTopology": {"matchLabels": {ZONE: zone}}, **more,
        })  # fmt: skip

    nodes = [a_node("n1", labels={ZONE: "a"}), a_node("n2", labels={ZONE: "b"})]
    rest = [
        a_class("fast", DRIVER),
        driver,
        a_claim(size="4Gi", storage_class="fast"),
        a_pod("p", spec=with_claim("data")),
    ]
    assert binds(plan(nodes, room("a", "2Gi"), room("b", "8Gi"), rest)) == {"p": "n2"}
    decisions = plan(nodes, room("a", "2Gi"), room("b", "8Gi", maximumVolumeSize="3Gi"), rest)
    assert binds(decisions) == {}
    assert why(decisions, "p") == "node(s) did not have enough free storage"


def test_pods_with_new_volumes_of_their_own_are_of_one_shape():
    claims = [a_claim(f"w-{number}", storage_class="fast") for number in range(3)]
    pods = [a_pod(f"p{number}", spec=with_claim(f"w-{number}")) for number in range(3)]
    session = session_for(a_node(), a_class("fast", DRIVER), claims, pods, policy=POLICY)
    tasks = [task for gang in session.gangs.values() for task in gang.tasks]
    assert len({id(session.shape(task)) for task in tasks}) == 1
    assert not session.placer.is_live(session.shape(tasks[0]))


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
def test_where_one_pod_s_new_volume_is_made_does_not_bind_its_equals(mode):
    """Two nodes of one pod each, two gangs of equal pods with claims of their own."""
    claims = [a_claim(name, storage_class="fast", modes=[mode]) for name in ("a-w-0", "b-w-0")]
    nodes = [a_node("n1", cpu="1"), a_node("n2", cpu="1")]
    gangs = [a_gang(name, 1, spec=with_claim(f"{name}-w-0")) for name in ("a", "b")]
    assert binds(plan(nodes, a_class("fast", DRIVER), claims, gangs)) == {"a-w-0": "n1", "b-w-0": "n2"}


def test_token_volumes_do_not_tell_pods_apart():
    spec = {"volumes": [{"name": "kube-api-access-aaaaa", "projected": {}}]}
    other = {"volumes": [{"name": "kube-api-access-bbbbb", "projected": {}}]}
    session = session_for(a_node(), a_pod("p", spec=spec), a_pod("q", spec=other), policy=POLICY)
    tasks = [task for gang in session.gangs.values() for task in gang.tasks]
    assert session.shape(tasks[0]) is session.shape(tasks[1])


# ------------------------------------------------------------------------------------------------- who may share


def test_a_claim_for_one_pod_only_has_one_pod_only():
    claim = a_claim(volume="pv", modes=("ReadWriteOncePod",))
    user = a_pod("user", node="n1", spec=with_claim("data"))
    waiting = a_pod("p", spec=with_claim("data"))
    things = [a_node("n1"), a_node("n2"), a_volume("pv", phase="Bound"), claim]
    decisions = plan(*things, user, waiting)
    assert why(decisions, "p").startswith("node has pod using PersistentVolumeClaim with the same name")
    assert len(binds(plan(*things, a_pod("a", spec=with_claim("data")), a_pod("b", spec=with_claim("data"))))) == 1


def test_evicting_the_one_user_of_a_claim_helps():
    claim = a_claim(volume="pv", modes=("ReadWriteOncePod",))
    classes = [a_priority_class("high", 9), a_priority_class("low", 1)]
    low = a_gang("low", 1, running=["n1"], group={"priority_class": "low"}, spec=with_claim("data"), priority=1)
    high = a_gang("high", 1, group={"priority_class": "high"}, spec=with_claim("data"), priority=9)
    decisions = plan_for(
        a_node("n1"), a_volume("pv", phase="Bound"), claim, classes, low, high,
        policy=policy("allocate, preempt", ["priority", {"name": "gang", "enablePreemptable": False}, "predicates"]),
    )  # fmt: skip
    assert evicted(decisions) == ["low-w-0"]


def test_a_disk_is_on_a_node_once_unless_everybody_only_reads():
    def on(read_only):
        return {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "disk", "readOnly": read_only}}]}

    there = a_pod("there", node="n1", spec=on(read_only=True))
    assert binds(plan(a_node("n1"), there, a_pod("p", spec=on(read_only=True)))) == {"p": "n1"}
    decisions = plan(a_node("n1"), a_node("n2"), there, a_gang("train", 2, min_member=1, spec=on(read_only=False)))
    assert binds(decisions) == {"train-w-0": "n2"}
    assert [reason.text for reason in report(decisions, "train").reasons] == ["node(s) had no available disk"]


# ------------------------------------------------------------------------------------------------- attach limits


def a_limit(node, count):
    spec = {"drivers": [{"name": DRIVER, "nodeID": node, "allocatable": {"count": count}}]}
    return an_object("storage.k8s.io/v1", "CSINode", {"metadata": {"name": node}, "spec": spec})


def bound_disks(*names):
    """Claims with volumes of one driver."""
    volumes = [a_volume(f"pv-{name}", phase="Bound", csi={"driver": DRIVER, "volumeHandle": name}) for name in names]
    return [*volumes, *(a_claim(name, volume=f"pv-{name}") for name in names)]


def test_a_node_takes_as_many_volumes_as_it_says():
    disks = bound_disks("a", "b", "c")
    pods = [a_pod(name, spec=with_claim(name)) for name in ("a", "b", "c")]
    decisions = plan(a_node("n1"), a_limit("n1", 2), disks, pods)
    assert sorted(binds(decisions)) == ["a", "b"]
    assert why(decisions, "c") == "node(s) exceed max volume count"


def test_a_volume_that_several_pods_share_is_attached_once():
    disks = bound_disks("a", "b")
    users = [a_pod("u", node="n1", spec=with_claim("a")), a_pod("v", node="n1", spec=with_claim("b"))]
    decisions = plan(a_node("n1", cpu="8"), a_limit("n1", 2), disks, users, a_gang("train", 4, spec=with_claim("a")))
    assert len(binds(decisions)) == 4


def test_a_volume_still_attached_counts_though_its_pod_is_gone():
    attachment = an_object("storage.k8s.io/v1", "VolumeAttachment", {
        "metadata": {"name": "x"},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "pv-old"}},
    })  # fmt: skip
    disks = bound_disks("old", "new")
    decisions = plan(a_node("n1"), a_limit("n1", 1), disks, attachment, a_pod("p", spec=with_claim("new")))
    assert binds(decisions) == {}
    assert binds(plan(a_node("n1"), a_limit("n1", 1), disks, attachment, a_pod("p", spec=with_claim("old")))) == {
        "p": "n1"
    }


def test_a_volume_whose_claim_is_being_deleted_counts_while_a_pod_uses_it():
    old = a_claim("old", volume="pv-old", deletionTimestamp="2026-01-31T12:00:00Z")
    disks = [*bound_disks("old", "new")[:2], old, a_claim("new", volume="pv-new")]
    user = a_pod("u", node="n1", spec=with_claim("old"))
    nodes = [a_node("n1"), a_limit("n1", 1), a_node("n2"), a_limit("n2", 1)]
    decisions = plan(nodes, disks, user, a_gang("train", 2, spec=with_claim("new")))
    assert set(binds(decisions).values()) == {"n2"}


def test_a_volume_that_the_watch_has_not_shown_yet_counts_by_its_claim():
    claims = [a_claim("old", storage_class="fast", volume="pv-old"), a_claim("new", storage_class="fast")]
    user = a_pod("u", node="n1", spec=with_claim("old"))
    nodes = [a_node("n1"), a_limit("n1", 1), a_node("n2"), a_limit("n2", 1)]
    decisions = plan(nodes, a_class("fast", DRIVER), claims, user, a_gang("train", 2, spec=with_claim("new")))
    assert set(binds(decisions).values()) == {"n2"}


def test_new_volumes_fill_a_node_s_limit_in_one_operation():
    claims = [a_claim(f"w-{number}", storage_class="fast") for number in range(5)]
    group = a_gang("train", 0, min_member=4)[0]
    pods = [a_pod(f"p{number}", gang="train", spec=with_claim(f"w-{number}")) for number in range(5)]
    nodes = [a_node("n1", cpu="8"), a_node("n2", cpu="8")]
    decisions = plan(nodes, a_limit("n1", 1), a_limit("n2", 3), a_class("fast", DRIVER), claims, group, pods)
    assert sorted(binds(decisions).values()) == ["n1", "n2", "n2", "n2"]
