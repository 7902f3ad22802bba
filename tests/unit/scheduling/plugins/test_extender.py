import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    binds,
    evicted,
    plan_for,
    policy,
    report,
    session_for,
    started,
)

from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.core.ports import ExtenderFailed, Ports
from pumice.scheduling.core.verdict import Cure
from pumice.scheduling.plugins.extender import FAILURES_MAX

GI = 2**30


class Program:
    """The user's program: answers by verb; whatever is callable is called with the body. Without an answer it fails."""

    def __init__(self, **answers):
        self.answers = answers
        self.calls = []

    def __call__(self, verb, body):
        self.calls.append((verb, body))
        answer = self.answers.get(verb)
        if answer is None:
            raise ExtenderFailed("connection refused")
        return answer(body) if callable(answer) else answer

    def bodies(self, verb):
        return [body for name, body in self.calls if name == verb]


def extender(actions="allocate", *verbs, plugins=("gang",), **more):
    """A policy in which the extender is asked for these verbs, each under its own name."""
    arguments = {
        "extender.urlPrefix": "http://127.0.0.1:1",
        **{f"extender.{key}": value for key, value in more.items()},
    }
    arguments |= {f"extender.{verb}Verb": verb for verb in verbs}
    return policy(actions, [*plugins, {"name": "extender", "arguments": arguments}])


def plan(*objects, policy, program=None):
    return plan_for(*objects, policy=policy, ports=Ports(extender=program))


# ----------------------------------------------------------------------------------------------- nodes


def not_on(name, code=3):
    return lambda body: {"status": "too noisy", "code": code} if body["node"]["Name"] == name else {"status": ""}


def test_a_node_that_the_extender_refuses_is_not_used_and_its_words_are_passed_on():
    program = Program(predicate=not_on("a"))
    decisions = plan(
        a_node("a"), a_node("b"), a_gang("g", 1), policy=extender("allocate", "predicate"), program=program
    )
    assert binds(decisions) == {"g-w-0": "b"}
    decisions = plan(a_node("a"), a_gang("g", 1), policy=extender("allocate", "predicate"), program=program)
    own = [(reason.text, reason.cure) for reason in report(decisions, "g").reasons if reason.nodes]
    assert own == [("too noisy", Cure.CHANGE)]


@pytest.mark.parametrize(("code", "cure"), [(0, Cure.CHANGE), (1, Cure.CHANGE), (2, Cure.EVICTION), (3, Cure.CHANGE)])
def test_only_the_code_unschedulable_is_a_matter_of_evictions(code, cure):
    program = Program(predicate=not_on("a", code))
    decisions = plan(a_node("a"), a_gang("g", 1), policy=extender("allocate", "predicate"), program=program)
    assert [reason.cure for reason in report(decisions, "g").reasons if reason.nodes] == [cure]


def test_a_node_is_asked_about_once_until_something_on_it_changes():
    program = Program(predicate={"status": ""})
    chosen = extender("allocate", "predicate")
    plan(a_node("a"), a_node("b"), a_gang("g", 3), policy=chosen, program=program)
    asked = [body["node"]["Name"] for body in program.bodies("predicate")]
    assert asked == ["a", "b", "a", "a"]  # all pods go to a


def test_nodes_that_others_refuse_or_that_are_too_small_are_not_asked_about():
    program = Program(predicate={"status": ""})
    nodes = [a_node("a", spec={"unschedulable": True}), a_node("b", cpu="500m"), a_node("c")]
    plan(
        *nodes,
        a_gang("g", 1),
        policy=extender("allocate", "predicate", plugins=("gang", "predicates")),
        program=program,
    )
    assert {body["node"]["Name"] for body in program.bodies("predicate")} == {"c"}


def test_the_best_scored_node_wins():
    program = Program(prioritize={"nodeScore": {"a": 1, "b": 7.5}})
    decisions = plan(
        a_node("a"), a_node("b"), a_gang("g", 1), policy=extender("allocate", "prioritize"), program=program
    )
    assert binds(decisions) == {"g-w-0": "b"}


@pytest.mark.parametrize(
    "answer",
    [None, {"errorMessage": "busy", "nodeScore": {"b": 9}}, {}, {"nodeScore": {"b": "much"}}, {"nodeScore": 3}],
)
def test_without_readable_scores_the_others_decide(answer):
    program = Program(prioritize=answer)
    decisions = plan(
        a_node("a"), a_node("b"), a_gang("g", 1), policy=extender("allocate", "prioritize"), program=program
    )
    assert binds(decisions) == {"g-w-0": "a"}


def test_pods_that_request_none_of_its_resources_are_not_its_business():
    program = Program(predicate={"status": "no"}, allocateFunc={})
    chosen = extender("allocate", "predicate", "allocateFunc", managedResources=["nvidia.com/gpu"])
    nodes = [a_node("a", gpu="2")]
    decisions = plan(*nodes, a_gang("g", 2), a_gang("h", 1, gpu="1"), policy=chosen, program=program)
    assert started(decisions) == {"g": 2}
    assert not program.bodies("allocateFunc")


# ----------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(("ignorable", "expected"), [(True, {"g": 1}), (False, {})])
def test_a_predicate_that_fails_counts_as_yes_or_no_as_configured(ignorable, expected):
    chosen = extender("allocate", "predicate", ignorable=ignorable)
    assert started(plan(a_node("a"), a_gang("g", 1), policy=chosen, program=Program())) == expected
    assert started(plan(a_node("a"), a_gang("g", 1), policy=chosen)) == expected  # nobody to ask at all


def test_a_dead_extender_is_not_asked_for_ever():
    program = Program()
    nodes = [a_node(f"n{number}") for number in range(9)]
    decisions = plan(*nodes, a_gang("g", 1), policy=extender("allocate", "predicate"), program=program)
    assert len(program.calls) == FAILURES_MAX
    texts = [reason.text for reason in report(decisions, "g").reasons if reason.nodes]
    assert "extender failed: connection refused" in texts
    assert f"extender failed: it failed {FAILURES_MAX} times in this cycle" in texts


def test_what_an_extender_says_is_cut_to_a_bearable_length():
    program = Program(predicate={"status": "x" * 9999, "code": 3})
    decisions = plan(a_node("a"), a_gang("g", 1), policy=extender("allocate", "predicate"), program=program)
    assert max(len(reason.text) for reason in report(decisions, "g").reasons if reason.nodes) == 256


# ----------------------------------------------------------------------------------------------- victims


def preempting(answer, *, ignorable=False):
    """Whom a higher-ranked gang evicts; priority in the same tier allows anybody of `low`."""
    chosen = extender("preempt", "preemptable", plugins=("priority",), ignorable=ignorable)
    low = a_gang("low", 2, running=["a"] * 2, group={"phase": "Running"})
    urgent = a_gang("urgent", 1, group={"priority_class": "high"})
    objects = [a_node("a", cpu="2"), a_priority_class("high", 9), low, urgent]
    return evicted(plan(*objects, policy=chosen, program=Program(preemptable=answer)))


def test_the_extender_chooses_among_the_candidates():
    first = {"status": 1, "victims": [{"UID": "default/low-w-0"}, {"UID": "nobody"}, "nonsense"]}
    assert preempting(first) == ["low-w-0"]
    assert preempting({"status": 1, "victims": []}) == []


def test_without_a_vote_it_has_no_opinion():
    assert preempting({"status": 0, "victims": []}) == ["low-w-1"]


def test_a_failed_call_protects_everybody_unless_it_may_be_ignored():
    assert preempting(None) == []
    assert preempting(None, ignorable=True) == ["low-w-1"]


def test_reclaiming_asks_under_its_own_verb():
    program = Program(reclaimable={"status": 1, "victims": []})
    session = session_for(
        a_node("a"),
        a_gang("low", 1, running=["a"], group={"phase": "Running"}),
        a_gang("g", 1),
        policy=extender("reclaim", "reclaimable"),
        ports=Ports(extender=program),
    )
    (hook,) = [hook for hook in session.points.reclaimable.hooks if hook.plugin == "extender"]
    low, claimant = session.gangs["default/low"].tasks, session.gangs["default/g"].tasks[0]
    assert hook.call.choose(claimant, low) == []
    (body,) = program.bodies("reclaimable")
    assert (body["evictor"]["Name"], [each["Name"] for each in body["evictees"]]) == ("g-w-0", ["low-w-0"])


# ----------------------------------------------------------------------------------------------- gangs and queues


def admitted(answer, **more):
    group = a_group("g", 1, phase="Pending", minimum={"cpu": "1"})
    chosen = extender("enqueue", "jobEnqueueable", plugins=(), **more)
    return report(plan(a_node("a"), group, policy=chosen, program=Program(jobEnqueueable=answer)), "g")


def test_it_votes_on_admission():
    assert admitted({"status": 1}).phase == "Inqueue"
    assert admitted({"status": 0}).phase == "Inqueue"
    refused = admitted({"status": -1})
    assert refused.phase == "Pending"
    assert [reason.text for reason in refused.reasons] == ["the extender does not admit the gang"]


def test_a_failed_vote_is_a_no_or_no_vote():
    refused = admitted(None)
    assert refused.phase == "Pending"
    assert [reason.text for reason in refused.reasons] == ["extender failed: connection refused"]
    assert admitted(None, ignorable=True).phase == "Inqueue"


def test_an_ignorable_failure_does_not_overrule_the_tiers_below():
    group = a_group("g", 1, phase="Pending", minimum={"cpu": "99"})
    arguments = {"extender.urlPrefix": "http://x", "extender.jobEnqueueableVerb": "v", "extender.ignorable": True}
    chosen = policy("enqueue", [{"name": "extender", "arguments": arguments}], "overcommit")
    assert report(plan(a_node("a"), group, policy=chosen, program=Program()), "g").phase == "Pending"


@pytest.mark.parametrize(
    ("answer", "ignorable", "expected"),
    [
        ({"overused": True}, False, {}),
        ({"overused": False}, False, {"g": 1}),
        (None, False, {}),
        (None, True, {"g": 1}),
    ],
)
def test_it_says_whether_a_queue_has_had_enough(answer, ignorable, expected):
    chosen = extender("allocate", "queueOverused", ignorable=ignorable)
    decisions = plan(a_node("a"), a_queue(), a_gang("g", 1), policy=chosen, program=Program(queueOverused=answer))
    assert started(decisions) == expected


@pytest.mark.parametrize(
    ("answer", "ignorable", "expected"),
    [
        ({"status": True}, False, {"g": 2}),
        ({"status": False}, False, {}),
        (None, False, {}),
        (None, True, {"g": 2}),
    ],
)
def test_it_says_whether_a_gang_is_ready_to_start(answer, ignorable, expected):
    chosen = extender("allocate", "jobReady", ignorable=ignorable)
    decisions = plan(a_node("a"), a_gang("g", 2), policy=chosen, program=Program(jobReady=answer))
    assert started(decisions) == expected


# ----------------------------------------------------------------------------------------------- news


def test_it_is_told_of_cycles_admissions_and_placements_and_their_undoing():
    verbs = ("onSessionOpen", "onSessionClose", "jobEnqueued", "allocateFunc", "deallocateFunc")
    program = Program(**{verb: {} for verb in verbs})
    objects = [
        a_node("a", cpu="2"),
        a_gang("big", 3, created=1),
        a_gang("small", 1, created=2, group={"phase": "Pending"}),
    ]
    plan(*objects, policy=extender("enqueue, allocate", *verbs), program=program)
    (opened,) = program.bodies("onSessionOpen")
    assert opened["Nodes"].keys() == {"a"}
    assert opened["Jobs"].keys() == {"default/big", "default/small"}
    assert opened["Queues"].keys() == {"default"}
    assert [body["job"]["Name"] for body in program.bodies("jobEnqueued")] == ["small"]
    placed = [body["task"]["Name"] for body in program.bodies("allocateFunc")]
    taken_back = [body["task"]["Name"] for body in program.bodies("deallocateFunc")]
    assert (placed, sorted(taken_back)) == (["big-w-0", "big-w-1", "small-w-0"], ["big-w-0", "big-w-1"])
    assert program.calls[-1] == ("onSessionClose", {})


def test_news_that_do_not_arrive_are_nobodys_problem():
    chosen = extender("allocate", "allocateFunc", "onSessionClose")
    assert started(plan(a_node("a"), a_gang("g", 1), policy=chosen, program=Program())) == {"g": 1}


def test_it_chooses_no_victims_for_pods_that_are_not_its_business():
    chosen = extender("preempt", "preemptable", plugins=("priority",), managedResources=["nvidia.com/gpu"])
    low = a_gang("low", 1, running=["a"], group={"phase": "Running"})
    urgent = a_gang("urgent", 1, group={"priority_class": "high"})
    program = Program(preemptable={"status": 1, "victims": []})
    objects = [a_node("a", cpu="1"), a_priority_class("high", 9), low, urgent]
    assert evicted(plan(*objects, policy=chosen, program=program)) == ["low-w-0"]
    assert not program.calls


def test_an_extender_that_did_not_hear_of_the_cycle_is_not_asked_about_it():
    program = Program(predicate={"status": ""})
    chosen = extender("allocate", "onSessionOpen", "predicate")
    assert started(plan(a_node("a"), a_gang("g", 1), policy=chosen, program=program)) == {}
    assert not program.bodies("predicate")
    chosen = extender("allocate", "onSessionOpen", "predicate", ignorable=True)
    assert started(plan(a_node("a"), a_gang("g", 1), policy=chosen, program=program)) == {"g": 1}
    assert program.bodies("predicate")


def test_bodies_carry_volcanos_names_and_units():
    program = Program(predicate={"status": ""})
    pod = a_pod(
        "p", gang="g", role="worker", cpu="2", memory="1Gi", gpu="1", more={"ephemeral-storage": "5"}, priority=7
    )
    node = a_node("a", cpu="4", memory="4Gi", gpu="2", more={"ephemeral-storage": "10"})
    plan(node, a_group("g"), pod, policy=extender("allocate", "predicate"), program=program)
    body = program.bodies("predicate")[0]
    task, node = body["task"], body["node"]
    assert task | {"Pod": None} == {
        "UID": "default/p", "Job": "default/g", "Name": "p", "Namespace": "default", "TaskRole": "worker",
        "Resreq": task["InitResreq"], "InitResreq": task["Resreq"], "NodeName": "", "Status": 1, "Priority": 7,
        "Preemptable": True, "BestEffort": False, "RevocableZone": "", "Pod": None,
    }  # fmt: skip
    assert task["Resreq"] == {
        "MilliCPU": 2000.0,
        "Memory": float(GI),
        "ScalarResources": {"nvidia.com/gpu": 1000.0, "ephemeral-storage": 5000.0, "pods": 1.0},
    }
    assert task["Pod"]["metadata"]["name"] == "p"
    assert node["Idle"]["MilliCPU"] == 4000.0
    assert node["Idle"]["ScalarResources"] == {"nvidia.com/gpu": 2000.0, "ephemeral-storage": 10_000.0, "pods": 110.0}
    assert node["Used"] == {"MilliCPU": 0.0, "Memory": 0.0, "ScalarResources": {}}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, r"extender\.urlPrefix: '' is no address; write for example"),
        ({"extender.urlPrefix": "ftp://x"}, r"extender\.urlPrefix"),
        ({"extender.urlPrefix": "http://x", "extender.httpTimeout": "-1s"}, r"extender\.httpTimeout: -1s"),
        ({"extender.urlPrefix": "http://x", "extender.predicate": "p"}, r"did you mean extender\.predicateVerb\?"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, complaint):
    with pytest.raises(PolicyError, match=complaint):
        plan_for(a_node(), policy=policy("allocate", [{"name": "extender", "arguments": arguments}]))
