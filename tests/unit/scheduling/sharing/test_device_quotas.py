import pytest
from tests.unit.scheduling.clusters import a_group, a_node, a_pod, an_object, policy, session_for

from pumice.cluster.tasks import task_of
from pumice.scheduling.sharing.device_quotas import Claims, DeviceAccount


def a_claim(name, *requests, given=()):
    """A ResourceClaim; `given` names the requests that were met, one entry a device."""
    manifest = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": list(requests)}},
    }
    if given:
        manifest["status"] = {"allocation": {"devices": {"results": [{"request": request} for request in given]}}}
    return an_object("resource.k8s.io/v1", "ResourceClaim", manifest)


def exactly(device_class, count=1, name="r", **more):
    return {"name": name, "exactly": {"deviceClassName": device_class, "count": count, **more}}


def claims_of(*claims):
    return Claims({claim.metadata.key: claim for claim in claims})


def a_task(*names, made=()):
    """A pod that uses claims by name, or those made for it from templates."""
    spec = [{"name": f"c{number}", "resourceClaimName": name} for number, name in enumerate(names)]
    spec += [{"name": name, "resourceClaimTemplateName": "t"} for name, _ in made]
    statuses = [{"name": name, "resourceClaimName": claim} for name, claim in made]
    pod = a_pod("p", spec={"resourceClaims": spec}, status={"resourceClaimStatuses": statuses})
    return task_of(pod, gang="default/g")


def test_a_pod_uses_the_claims_that_it_names_and_those_made_for_it():
    claims = claims_of(a_claim("shared"), a_claim("p-gpu-x1"))
    task = a_task("shared", "not-made-yet", made=[("gpu", "p-gpu-x1")])
    assert claims.of(task) == ("default/p-gpu-x1", "default/shared")
    assert claims.of(a_task()) == ()


@pytest.mark.parametrize(
    ("claim", "demand"),
    [
        (a_claim("c", exactly("gpu", 2)), {"deviceclass/gpu": 2000}),
        (a_claim("c", exactly("gpu"), exactly("nic", name="s")), {"deviceclass/gpu": 1000, "deviceclass/nic": 1000}),
        (
            a_claim("c", exactly("gpu", 2, capacity={"requests": {"memory": "8"}})),
            {"deviceclass/gpu": 2000, "memory.deviceclass/gpu": 16_000},
        ),
        # Every device of the class: only the allocation knows how many that were.
        (a_claim("c", exactly("gpu", allocationMode="All"), given=["r"] * 8), {"deviceclass/gpu": 8000}),
        (a_claim("c", {"name": "r"}), {}),
    ],
)
def test_a_claim_asks_for_devices_of_its_classes_and_parts_of_them(claim, demand):
    assert claims_of(claim).demand("default/c") == demand


def test_a_claim_with_alternatives_counts_as_its_first_wish_until_another_one_is_met():
    wishes = [
        {"name": "big", "deviceClassName": "h100", "count": 1},
        {"name": "small", "deviceClassName": "l4", "count": 4},
    ]
    request = {"name": "r", "firstAvailable": wishes}
    assert claims_of(a_claim("c", request)).demand("default/c") == {"deviceclass/h100": 1000}
    met = a_claim("c", request, given=["r/small"] * 4)
    assert claims_of(met).demand("default/c") == {"deviceclass/l4": 4000}


def test_a_shared_claim_is_paid_for_by_its_first_user_and_given_back_by_its_last():
    claims = claims_of(a_claim("shared", exactly("gpu")))
    account = DeviceAccount({"deviceclass/gpu": 1000}, claims, dimensions=True)
    keys = ["default/shared"]
    account.move(keys, 2)
    assert account.allocated == {"deviceclass/gpu": 1000}
    assert account.lacking(keys) == []
    account.move(keys, -1)
    assert account.allocated == {"deviceclass/gpu": 1000}
    account.move(keys, -1)
    assert account.allocated == {"deviceclass/gpu": 0}


def test_a_queue_lacks_devices_beyond_its_limit_and_those_promised_to_others():
    claims = claims_of(a_claim("one", exactly("gpu")), a_claim("two", exactly("gpu", 2)))
    account = DeviceAccount({"deviceclass/gpu": 2000}, claims, dimensions=True)
    assert account.lacking(["default/two"]) == []
    account.admitted = {"deviceclass/gpu": 1000}
    assert account.lacking(["default/two"], with_admitted=True) == ["deviceclass/gpu"]
    assert account.lacking(["default/one"], with_admitted=True) == []
    account.move(["default/one"], 1)
    assert account.lacking(["default/two"]) == ["deviceclass/gpu"]


def test_a_class_that_the_queue_does_not_mention_is_not_limited_nor_is_a_count_of_zero():
    claims = claims_of(a_claim("nic", exactly("nic", 100)))
    assert DeviceAccount({"deviceclass/gpu": 1000}, claims, dimensions=True).lacking(["default/nic"]) == []
    assert DeviceAccount({"deviceclass/nic": 0}, claims, dimensions=True).lacking(["default/nic"]) == []


def test_dimensions_of_shared_devices_must_be_listed_and_fit_unless_they_are_switched_off():
    claims = claims_of(a_claim("part", exactly("gpu", capacity={"requests": {"memory": "40"}})))
    keys = ["default/part"]

    def lacking(limits, *, dimensions=True):
        return DeviceAccount(limits, claims, dimensions=dimensions).lacking(keys)

    assert lacking({"memory.deviceclass/gpu": 40_000}) == []
    assert lacking({"memory.deviceclass/gpu": 39_000}) == ["memory.deviceclass/gpu"]
    assert lacking({"deviceclass/gpu": 1000}) == ["memory.deviceclass/gpu"]
    assert lacking({"deviceclass/gpu": 1000}, dimensions=False) == []


def test_a_gangs_minimum_uses_the_claims_of_each_roles_minimum_or_of_its_first_members():
    claims = claims_of(*[a_claim(name, exactly("gpu")) for name in ("m", "w0", "w1")])

    def with_claim(name, role):
        uses = {"resourceClaims": [{"name": "d", "resourceClaimName": name}]}
        return a_pod(name, gang="g", role=role, spec=uses)

    pods = [with_claim("m", "master"), with_claim("w0", "worker"), with_claim("w1", "worker")]

    def needed(**group):
        session = session_for(a_node(), a_group("g", **group), pods, policy=policy("enqueue", "gang"))
        return claims.of_minimum(session.gangs["default/g"])

    assert needed(min_member=2, roles={"master": 1, "worker": 1}) == {"default/m", "default/w0"}
    assert needed(min_member=2, roles={"worker": 2}) == {"default/w0", "default/w1"}
    assert needed(min_member=1) == {"default/m"}
