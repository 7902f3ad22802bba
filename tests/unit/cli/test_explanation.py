"""The whole text of an explanation, from literal objects."""

import msgspec
import pytest

from pumice.api import decoding
from pumice.api.batch import NetworkTopology
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.api.topology import HyperNode
from pumice.cli import explanation, explanation_text
from pumice.cli.explain_facts import Facts
from pumice.instant import parse_instant

NOW = parse_instant("2026-11-15T12:00:00Z")

VERDICT = (
    '{"phase":"Inqueue","at":"2026-11-15T11:59:00Z","reasons":['
    '{"plugin":"resources","reason":"Insufficient nvidia.com/gpu","nodes":3,"cure":"eviction"},'
    '{"plugin":"predicates","reason":"node(s) were unschedulable","nodes":1,"cure":"change"}]}'
)


def a_group(name, *, verdict="", phase="Inqueue", queue="a", gpus="4"):
    return decoding.decode_value(
        PodGroup,
        {
            "metadata": {
                "name": name,
                "namespace": "ml",
                "creationTimestamp": "2026-11-15T11:56:00Z",
                "annotations": {"pumice.dev/verdict": verdict} if verdict else {},
            },
            "spec": {"minMember": 2, "queue": queue, "minResources": {"nvidia.com/gpu": gpus}},
            "status": {"phase": phase},
        },
    )


def a_pod(name, group, *, node="", priority=0, told=""):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": told}
    return decoding.decode_value(
        Pod,
        {
            "metadata": {
                "name": name,
                "namespace": "ml",
                "uid": name,
                "annotations": {"scheduling.k8s.io/group-name": group},
            },
            "spec": {
                "nodeName": node,
                "priority": priority,
                "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "2"}}}],
            },
            "status": {"phase": "Running" if node else "Pending", "conditions": [condition] if told else []},
        },
    )


def a_queue(name, held, *, deserved, capability="12", reclaimable=True, state="Open"):
    return decoding.decode_value(
        Queue,
        {
            "metadata": {"name": name},
            "spec": {
                "weight": 2,
                "reclaimable": reclaimable,
                "deserved": {"nvidia.com/gpu": deserved},
                "capability": {"nvidia.com/gpu": capability},
            },
            "status": {"state": state, "allocated": {"nvidia.com/gpu": held}},
        },
    )


def test_every_number_has_its_place():
    queue, group = a_queue("a", "2", deserved="8"), a_group("train", verdict=VERDICT)
    members = [a_pod(f"w-{each}", "train", priority=5, told="0/4 nodes are unavailable") for each in range(2)]
    facts = Facts(
        group=group,
        job="ml/train",
        members=members,
        queue=queue,
        queues=[
            queue,
            a_queue("b", "7", deserved="4"),
            a_queue("kept", "9", deserved="1", reclaimable=False),
            a_queue("modest", "4", deserved="4"),
        ],
        groups=[
            group,
            a_group("small", phase="Running"),
            a_group("next", gpus="6"),
            a_group("other", queue="b", gpus="1"),
        ],
        pods=[*members, a_pod("low", "small", node="n1", priority=1), a_pod("same", "small", node="n1", priority=5)],
    )
    assert explanation_text.text(explanation.explain(facts, NOW), 4) == (
        "PodGroup:   ml/train\n"
        "Job:        ml/train\n"
        "Phase:      Inqueue, 4m old\n"
        "Queue:      a (Open, weight 2)\n"
        "Members:    2 pods: 0 run, 2 wait; 2 must start together\n"
        "Asks for:   nvidia.com/gpu 4\n"
        "\n"
        "Why it waits, as the scheduler wrote 60s ago:\n"
        "  3 of 4 nodes: Insufficient nvidia.com/gpu\n"
        "    says resources; what could change it: pods that end, or are evicted\n"
        "  1 of 4 nodes: node(s) were unschedulable\n"
        "    says predicates; what could change it: a change of the job, its queue or the nodes\n"
        "\n"
        "Queue a:\n"
        "  RESOURCE         ASKED   ALLOCATED   PROMISED   GUARANTEE   DESERVED   CAPABILITY\n"
        "  nvidia.com/gpu   4       2           6          -           8          12\n"
        "\n"
        "All nodes:\n"
        "  RESOURCE         ASKED   USED   PROMISED   TOTAL\n"
        "  nvidia.com/gpu   4       0      7          0\n"
        "  nvidia.com/gpu: 4 asked, 0 used and 7 promised to others are 11 more than there are\n"
        "\n"
        "Who could be evicted:\n"
        "  1 pod of lower priority in queue a: nvidia.com/gpu 2\n"
        "  queue b, beyond what it deserves: nvidia.com/gpu 3\n"
        "\n"
        "What the pods were told:\n"
        "  2 pods: 0/4 nodes are unavailable"
    )


def reasons(facts):
    return [each["reason"] for each in explanation.explain(facts, NOW)["reasons"]]


def test_without_a_verdict_it_says_what_anybody_can_see():
    group = a_group("train", phase="Pending")
    assert reasons(Facts(group=group, members=[], queue=None)) == [
        "queue a does not exist",
        "0 of the 2 pods that must start together exist",
    ]
    closed = a_queue("a", "0", deserved="1", state="Closed")
    members = [a_pod("w-0", "train"), a_pod("w-1", "train")]
    assert reasons(Facts(group=group, members=members, queue=closed)) == ["queue a is closed"]
    silent = explanation.explain(Facts(group=group, members=members, queue=a_queue("a", "0", deserved="1")), NOW)
    assert "Why it waits: no scheduler has said so far." in explanation_text.text(silent, 0)


def test_a_verdict_that_somebody_else_wrote_is_no_verdict():
    for text in ("not json", "[]", '{"reasons": 5}', '{"reasons": [5]}', '{"reasons": [{"nodes": "x"}]}'):
        facts = Facts(group=a_group("train", verdict=text), members=[], queue=a_queue("a", "0", deserved="1"))
        assert reasons(facts) == ["0 of the 2 pods that must start together exist"]


def test_nobody_to_evict_is_said():
    facts = Facts(group=a_group("train", verdict=VERDICT), members=[], queue=None)
    assert (
        "  nobody: no pod of lower priority in queue a holds nvidia.com/gpu, and no queue more than it deserves"
        in explanation_text.text(explanation.explain(facts, NOW), 4)
    )


def test_gates_are_named_beside_the_verdict():
    gated = decoding.decode_value(
        Pod,
        {
            "metadata": {"name": "w", "namespace": "ml"},
            "spec": {"containers": [{"name": "c"}], "schedulingGates": [{"name": "example.com/hold"}]},
        },
    )
    facts = Facts(group=a_group("train", verdict=VERDICT), members=[gated, a_pod("v", "train")], queue=None)
    assert reasons(facts)[:2] == [
        "1 of 2 pods are held by the scheduling gate example.com/hold",
        "Insufficient nvidia.com/gpu",
    ]


def text_of(facts):
    return explanation_text.text(explanation.explain(facts, NOW), 4)


def test_what_the_scheduler_answers_just_now_is_believed_before_what_it_wrote():
    answer = {"reasons": [{"plugin": "resources", "reason": "Insufficient cpu", "nodes": 2, "cure": "eviction"}]}
    facts = Facts(group=a_group("train", verdict=VERDICT), members=[], queue=None, answer=answer)
    assert "Why it waits, as the scheduler says now:\n  2 of 4 nodes: Insufficient cpu\n" in text_of(facts)


def test_a_verdict_without_a_time_is_of_an_unknown_one():
    verdict = VERDICT.replace('"at":"2026-11-15T11:59:00Z",', "")
    facts = Facts(group=a_group("train", verdict=verdict), members=[], queue=None)
    assert "Why it waits, as the scheduler wrote at an unknown time:\n" in text_of(facts)


def test_time_is_no_cure_where_the_gang_can_never_start():
    never = '{"plugin":"cluster","reason":"can never run here: x","nodes":0,"cure":"change"}'
    later = '{"plugin":"overcommit","reason":"overused cpu","nodes":0,"cure":"waiting"}'
    both = a_group("train", verdict=f'{{"reasons":[{never},{later}]}}')
    alone = a_group("train", verdict=f'{{"reasons":[{later}]}}')
    beyond = a_group("train", verdict=f'{{"reasons":[{later}]}}', gpus="13")
    queue = a_queue("a", "0", deserved="1", capability="12")

    def cures(group):
        answer = explanation.explain(Facts(group=group, members=[], queue=queue), NOW)
        return [each["cure"] for each in answer["reasons"]]

    assert (cures(both), cures(alone), cures(beyond)) == (["change", "change"], ["waiting"], ["change"])


def test_what_all_pods_were_told_of_their_gang_is_not_told_again_for_each():
    gang = "pod group is not ready, 2 Pending, 4 minAvailable"
    members = [a_pod("one", "train", told="0/4 nodes are unavailable"), a_pod("two", "train", told=gang)]
    facts = Facts(group=a_group("train", verdict=VERDICT), members=[*members, a_pod("three", "train")], queue=None)
    assert explanation.explain(facts, NOW)["pods"] == [{"pods": 1, "message": "0/4 nodes are unavailable"}]
    assert [explanation.one_pod(facts, name) for name in ("one", "two", "three")] == [
        "ml/one, Pending: 0/4 nodes are unavailable",
        "ml/two, Pending: waits for the rest of its gang",
        "ml/three, Pending: not looked at yet",
    ]


def a_hyper_node(name, node, *, tier=1):
    members = [{"type": "Node", "selector": {"exactMatch": {"name": node}}}]
    spec = {"tier": tier, "tierName": f"tier-{tier}", "members": members}
    return decoding.decode_value(HyperNode, {"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize(
    ("topology", "told"),
    [
        (
            {"mode": "hard", "highestTierAllowed": 1},
            "    of hyper nodes within tier 1, b has most room, for 2 of them\n",
        ),
        (
            {"mode": "hard", "highestTierName": "tier-1"},
            "    of hyper nodes within tier 1, b has most room, for 2 of them\n",
        ),
        ({"mode": "hard", "highestTierAllowed": 0}, "    of hyper nodes within tier 0, there are none\n"),
        ({"mode": "hard", "highestTierName": "nobody's"}, ""),
        ({"mode": "soft", "highestTierAllowed": 1}, ""),
    ],
)
def test_a_gang_that_must_stay_close_is_told_where_most_of_it_would_fit(topology, told):
    group = a_group("train", verdict=VERDICT)
    group = msgspec.structs.replace(
        group,
        spec=msgspec.structs.replace(group.spec, network_topology=decoding.decode_value(NetworkTopology, topology)),
    )
    members = [a_pod(f"w-{each}", "train") for each in range(3)]
    nodes = [
        decoding.decode_value(
            Node,
            {
                "metadata": {"name": name, "uid": name},
                "status": {
                    "allocatable": {"pods": "10", "nvidia.com/gpu": gpus},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )
        for name, gpus in (("n1", "2"), ("n2", "4"))
    ]
    facts = Facts(
        group=group,
        members=members,
        queue=None,
        nodes=nodes,
        pods=members,
        hyper_nodes=[a_hyper_node("a", "n1"), a_hyper_node("b", "n2")],
    )
    found = (
        text_of(facts).partition("Room now, by resources, taints and node labels alone:\n")[2].splitlines(keepends=True)
    )
    assert found[0] == "  nvidia.com/gpu 2 each: 3 of 3 pods would fit; 2 of 2 nodes may take them\n"
    assert (found[1] if found[1].startswith("    ") else "") == told
