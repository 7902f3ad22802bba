"""What is written to a queue, and what is refused before the server is asked."""

import pytest

from pumice.cli import queue_changes
from pumice.errors import BadInput
from pumice.readmodel.model import Policy

NOTHING = dict.fromkeys(("weight", "reclaimable", "parent", "guarantee", "deserved", "capability"))


def test_only_what_is_named_is_changed():
    assert queue_changes.spec(**NOTHING) == {}
    named = {"weight": 3, "reclaimable": False, "parent": "team", "guarantee": "cpu=1", "deserved": "cpu=2,gpu/x=1"}
    assert queue_changes.spec(**NOTHING | named) == {
        "weight": 3,
        "reclaimable": False,
        "parent": "team",
        "deserved": {"cpu": "2", "gpu/x": "1"},
        "guarantee": {"resource": {"cpu": "1"}},
    }


def test_a_resource_is_taken_out_by_a_minus_behind_its_name_and_the_rest_stays():
    change = queue_changes.spec(**NOTHING | {"capability": "cpu-,memory=1Gi", "guarantee": "cpu-"}, removing=True)
    old = {"spec": {"weight": 2, "capability": {"cpu": "4", "pods": "9"}, "guarantee": {"resource": {"cpu": "1"}}}}
    assert queue_changes.changed(old, change)["spec"] == {
        "weight": 2,
        "capability": {"pods": "9", "memory": "1Gi"},
        "guarantee": {"resource": {}},
    }


def test_a_resource_that_no_node_can_have_is_taken_out_again():
    assert queue_changes.amounts("gpu-,hugepages-2Mi=1Gi", "--capability", removing=True) == {
        "gpu": None,
        "hugepages-2Mi": "1Gi",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu", "--deserved 'gpu': expected NAME=AMOUNT"),
        ("=4", "--deserved '=4': names no resource"),
        ("cpu=x", "--deserved 'cpu=x': quantity 'x'"),
        ("cpu=-1", "--deserved 'cpu=-1': below zero"),
        ("cpu=1,cpu=2", "--deserved: cpu is given twice"),
        ("gpu=4", "--deserved 'gpu=4': no node can have a resource 'gpu'; write cpu, memory, pods, ephemeral-storage"),
        (" , ", "no amounts"),
        ("cpu-", "--deserved 'cpu-': expected NAME=AMOUNT"),  # of a queue that is made nothing can be taken out
    ],
)
def test_amounts_that_cannot_be_read_say_what_to_write(text, said):
    with pytest.raises(BadInput) as caught:
        queue_changes.amounts(text, "--deserved")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("plugins", "said"),
    [
        (
            ("fairshare", "proportion"),
            [("deserved has no effect under the policy in force (p.yaml): plugin proportion shares by weight; set the weight, or "
             "give the scheduler a policy with plugin capacity")],
        ),
        (
            ("capacity",),
            [("weight has no effect under the policy in force (p.yaml): plugin capacity shares what is written as deserved; set "
             "what it deserves, or give the scheduler a policy with plugin proportion or fairshare")],
        ),
        (("capacity", "proportion"), []),
        (("capacity", "fairshare"), []),
    ],
)  # fmt: skip
def test_what_no_plugin_of_the_policy_reads_is_told(plugins, said):
    fields = {
        "weight": 2,
        "deserved": {"cpu": "2"},
        "guarantee": {"resource": {"cpu": "1"}},
        "capability": {"cpu": "4"},
    }
    assert queue_changes.without_effect(fields, Policy("p.yaml", ("allocate",), plugins)) == said


@pytest.mark.parametrize(("parent", "plugins", "told"), [
    ("org", ("proportion",), True), ("root", ("proportion",), False), ("org", ("capacity",), False),
])  # fmt: skip
def test_limits_of_a_parent_that_do_not_hold_are_told(parent, plugins, told):
    said = queue_changes.without_effect({"parent": parent}, Policy("p.yaml", ("allocate",), plugins))
    assert [line.partition(" under")[0] for line in said] == (["limits of org do not hold for it"] if told else [])


def test_without_shares_only_order_is_left_and_what_is_not_written_is_not_told():
    policy = Policy("p.yaml", ("allocate",), ("fairshare", "drf"))
    fields = {"weight": 2, "deserved": {"cpu": None}, "guarantee": {"resource": {"cpu": "1"}}, "capability": {}}
    assert queue_changes.without_effect(fields, policy) == [
        (
            "guarantee has no effect under the policy in force (p.yaml): no plugin proportion or capacity; give the scheduler a "
            "policy with plugin proportion or capacity"
        )
    ]
