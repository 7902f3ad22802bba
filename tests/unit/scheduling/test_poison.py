"""Objects that the API server's schemas let pass and that make no sense: they harm themselves, and other gangs start."""

import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_node,
    a_queue,
    an_object,
    plan_for,
    policy,
    report,
    started,
)

from pumice.scheduling.core import builtin

BUILT_IN = builtin.parse(builtin.TEXT, "built-in policy")

# The pattern that CRDs compare quantities with lets all of these pass, and none is a quantity.
NO_QUANTITIES = ("1e1.5", "1e99999999999", "9" * 5000)


@pytest.mark.parametrize("text", NO_QUANTITIES)
def test_a_group_whose_minimum_is_no_quantity_waits_alone(text):
    poison = a_group("poison", 1, phase="Pending", minimum={"cpu": text})
    decisions = plan_for(a_node(), poison, a_gang("train", 2, cpu="1"), policy=BUILT_IN)
    assert started(decisions) == {"train": 2}
    assert report(decisions, "poison").phase == "Pending"


@pytest.mark.parametrize("text", NO_QUANTITIES)
@pytest.mark.parametrize("field", ["capability", "deserved", "guarantee"])
@pytest.mark.parametrize("shares", ["proportion", "capacity"])
def test_a_queue_with_a_limit_that_is_no_quantity_stops_no_other_queue(text, field, shares):
    poison = a_queue("poison", **{field: {"cpu": text}})
    decisions = plan_for(
        a_node(),
        a_queue("default"),
        poison,
        a_gang("train", 2, cpu="1"),
        policy=policy("enqueue, allocate", f"gang {shares} predicates"),
    )
    assert started(decisions) == {"train": 2}


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
def test_nothing_starts_in_a_queue_whose_limit_cannot_be_read(shares):
    decisions = plan_for(
        a_node(),
        a_queue("poison", capability={"cpu": "1e1.5"}),
        a_gang("train", 2, cpu="1", group={"queue": "poison"}),
        policy=policy("enqueue, allocate", f"gang {shares} predicates"),
    )
    assert started(decisions) == {}


def test_a_numa_topology_without_cpus_harms_its_node_alone():
    empty = an_object("nodeinfo.volcano.sh/v1alpha1", "Numatopology", {"metadata": {"name": "n1"}})
    decisions = plan_for(
        a_node("n1"), empty, a_gang("train", 2, cpu="1"), policy=policy("allocate", "gang numa-aware predicates")
    )
    assert started(decisions) == {"train": 2}
    assert decisions.failures == ()
