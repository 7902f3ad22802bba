"""Whatever claims, devices and volumes there are, and whoever uses them how often: nobody is set aside, and no device is given twice."""

import collections
import random

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.unit.scheduling.clusters import a_group, a_node, a_pod, plan_for, policy
from tests.unit.scheduling.constraints import test_claims as devices
from tests.unit.scheduling.constraints import test_volumes as volumes

from pumice.scheduling.core import builtin
from pumice.scheduling.core.decisions import DeviceChoice

pytest.importorskip("cel_expr_python.cel", reason="no CEL engine for this machine")

POLICIES = (builtin.parse(builtin.TEXT, "built-in policy"),
            policy("allocate, preempt, backfill", "priority gang", "predicates binpack"))  # fmt: skip
LARGE = f'device.capacity["{devices.DRIVER}"].memory.compareTo(quantity("1Gi")) > 0'
REQUESTS = (
    devices.asking(),
    devices.asking("two", 2),
    devices.asking("large", 1, LARGE),
    {"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
    {"name": "any", "firstAvailable": [{"name": name, "deviceClassName": "gpu", "count": n} for name, n in (("a", 5), ("b", 1))]},
    {"name": "looks", "exactly": {"deviceClassName": "gpu", "adminAccess": True}},
    {"name": "nothing"},
)  # fmt: skip
NOTES = (
    {},
    {"pumice.dev/volumes": '{"data-0":"pv-0","data-1":"gone"}'},
    {"pumice.dev/devices": f'{{"claim-0":[["gpu","{devices.DRIVER}","n0","d0",false]],"claim-1":[]}}'},
)


def slices(chance, nodes):
    """Devices of most nodes; some can be used from several, some belong to pools of which a part is missing."""
    for number, node in enumerate(nodes):
        if chance.random() < 0.7:
            memory = chance.choice(("0", "a lot", "40Gi"))
            own = [devices.a_device(f"d{each}", memory=memory) for each in range(chance.randint(0, 3))]
            pool = {
                "pool": chance.choice(("", "p")),
                "generation": chance.choice((1, 2)),
                "slices": chance.choice((0, 1, 2)),
            }
            everywhere = {"allNodes": True} if chance.random() < 0.2 else {}
            yield devices.a_slice("" if everywhere else node, *own, name=f"s{number}", **pool, **everywhere)  # fmt: skip


def claims(chance, nodes):
    """Some are of one pod, some are given already, some ask for nothing."""
    for number in range(2):
        asked = {"requests": chance.choices(REQUESTS, k=chance.randint(0, 2))}
        given = {"request": "gpu", "driver": devices.DRIVER, "pool": chance.choice(nodes), "device": "d0"}
        status = {"allocation": {"devices": {"results": [given]}}} if chance.random() < 0.2 else {}
        owner = chance.choice(("", f"p{number}"))
        yield devices.a_claim(f"claim-{number}", owner=owner, spec={"devices": asked}, status=status)
        reserved = {"claim": {"namespace": "default", "name": f"data-{number}", "uid": chance.choice(("", "other"))}}
        yield volumes.a_volume(f"pv-{number}", node=chance.choice((*nodes, "gone")), **chance.choice(({}, reserved)))
        yield volumes.a_claim(f"data-{number}", storage_class=chance.choice(("local", "fast", "gone")))


def pods(chance, nodes):
    """Each uses any of the claims, there or not, once or twice; some run, and some are being bound."""
    for number in range(chance.randint(1, 5)):
        chosen = [f"claim-{chance.randint(0, 2)}" for _ in range(chance.randint(0, 2))]
        chosen = chosen[:1] * 2 if chance.random() < 0.3 else chosen
        spec = {"resourceClaims": [{"name": f"c{at}", "resourceClaimName": each} for at, each in enumerate(chosen)]}
        spec |= volumes.with_claim(*(f"data-{chance.randint(0, 2)}" for _ in range(chance.randint(0, 2))))
        name, node = f"p{number}", chance.choice(("", "", chance.choice(nodes)))
        yield a_pod(name, spec=spec, node=node, gang=chance.choice(("", "g")))
        if not node and chance.random() < 0.5:
            yield volumes.being_bound(name, chance.choice(nodes), chance.choice(NOTES))


def a_world(seed):
    chance = random.Random(seed)
    nodes = [f"n{number}" for number in range(chance.randint(1, 3))]
    return [
        *map(a_node, nodes),
        devices.a_class(),
        volumes.a_class(),
        volumes.a_class("fast", volumes.DRIVER),
        *slices(chance, nodes),
        *claims(chance, nodes),
        a_group("g", chance.randint(0, 3)),
        *pods(chance, nodes),
    ]


@pytest.mark.parametrize("rules", POLICIES, ids=["built-in", "small"])
def test_nobody_is_set_aside_and_no_device_is_given_twice(rounds, rules):
    @given(st.integers(0, 2**32))
    def holds(seed):
        note(f"seed {seed}")
        decisions = plan_for(*a_world(seed), policy=rules)
        assert decisions.failures == ()
        assert max(collections.Counter(given_away(decisions)).values(), default=1) == 1

    rounds(holds, 150)


def given_away(decisions):
    """Devices that claims get, once for each claim."""
    chosen = {each.claim: each for commit in decisions.commits for bind in commit.binds for each in bind.first}
    for each in chosen.values():
        allocation = each.allocation if isinstance(each, DeviceChoice) else None
        for result in allocation["devices"]["results"] if allocation is not None else ():
            if not result.get("adminAccess"):
                yield result["driver"], result["pool"], result["device"]
