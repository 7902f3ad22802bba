"""Every change that is suggested for a waiting gang starts it, once it is made to the objects themselves."""

import msgspec
import pytest
from hypothesis import given
from tests.properties.worlds import World, worlds
from tests.unit.scheduling.clusters import NOW, a_cluster, policy

from pumice.api.core import Node
from pumice.api.pods import Pod, Toleration
from pumice.api.scheduling import PodGroup
from pumice.scheduling.core import builtin
from pumice.scheduling.core.shortcuts import Shortcuts
from pumice.scheduling.whatif import single_changes
from pumice.scheduling.whatif.suggestion import Kind
from pumice.scheduling.whatif.trial import Question, start_of

POLICIES = {
    "built in": builtin.parse(builtin.TEXT, "built-in policy"),
    "capacity": policy(
        "enqueue, allocate, preempt, reclaim, backfill", "priority gang conformance", "predicates capacity"
    ),
}
GPUS = (0, 0, 2, 4)  # so that gangs wait for GPUs of which they could ask fewer
GROUP = "scheduling.k8s.io/group-name"


def replace(thing, part, **fields):
    return msgspec.structs.replace(thing, **{part: msgspec.structs.replace(getattr(thing, part), **fields)})


def key_of(pod):
    return f"{pod.metadata.namespace}/{pod.metadata.annotations.get(GROUP)}"


def made(objects, gang, suggestion, asked):
    """The objects as they are once somebody has followed the suggestion."""
    if suggestion.kind is Kind.NODES:
        model = next(each for each in objects if isinstance(each, Node) and each.metadata.name == suggestion.name)
        names = [f"new-{number}" for number in range(suggestion.number)]
        labels = {name: {**model.metadata.labels, "kubernetes.io/hostname": name} for name in names}
        born = {"creation_timestamp": "2026-01-01T00:59:00Z"}
        new = [replace(model, "metadata", name=name, uid=name, labels=labels[name], **born) for name in names]
        return [*objects, *new]
    if suggestion.kind is Kind.GANG_ENDS:
        return [
            each
            for each in objects
            if not (isinstance(each, Pod) and key_of(each) == suggestion.name)
            and not (isinstance(each, PodGroup) and each.metadata.key == suggestion.name)
        ]
    return [follow(each, gang, suggestion, asked) for each in objects]


def follow(thing, gang, suggestion, asked):
    if isinstance(thing, PodGroup) and thing.metadata.key == gang:
        match suggestion.kind:
            case Kind.QUEUE:
                return replace(thing, "spec", queue=suggestion.name)
            case Kind.MINIMUM:
                least = thing.spec.min_resources and {name: asked[name] for name in thing.spec.min_resources}
                return replace(thing, "spec", min_member=suggestion.number, min_resources=least)
            case Kind.PRIORITY if suggestion.name:
                return replace(thing, "spec", priority_class_name=suggestion.name)
    if isinstance(thing, Pod) and key_of(thing) == gang and not thing.spec.node_name:
        match suggestion.kind:
            case Kind.TOLERATION:
                name, _, effect = suggestion.name.partition(":")
                key, _, value = name.partition("=")
                return replace(thing, "spec", tolerations=(Toleration(key, "Equal", value, effect),))
            case Kind.SELECTOR:
                return replace(thing, "spec", node_selector={})
            case Kind.RESOURCE:
                requests = {**thing.spec.containers[0].resources.requests, suggestion.name: str(suggestion.number)}
                return replace(
                    thing, "spec", containers=(replace(thing.spec.containers[0], "resources", requests=requests),)
                )
            case Kind.PRIORITY:  # as admission does for a pod that names the class
                return replace(thing, "spec", priority=asked["priority"])
    return thing


@pytest.mark.parametrize("name", POLICIES)
def test_every_suggestion_starts_the_gang(name, rounds):
    @given(world=worlds(gpus=GPUS))
    def check(world):
        question = Question(a_cluster(world.objects).snapshot(), POLICIES[name], NOW)
        decisions = question.plan(question.snapshot)
        for key, report in decisions.gangs.items():
            if report.reasons and start_of(question.snapshot, decisions, key) is None:
                for each in single_changes.suggestions(question, decisions, key).found:
                    check_suggestion(world, question, key, each)

    rounds(check, 15)


@pytest.mark.parametrize("name", POLICIES)
def test_a_plan_that_ends_when_the_gang_has_started_says_the_same_of_it(name, rounds):
    @given(world=worlds(gpus=GPUS))
    def check(world):
        question = Question(a_cluster(world.objects).snapshot(), POLICIES[name], NOW)
        snapshot, whole = question.snapshot, question.plan(question.snapshot)
        for key in whole.gangs:
            short = question.plan(snapshot, explain=False, shortcuts=Shortcuts(until=key))
            assert start_of(snapshot, short, key) == start_of(snapshot, whole, key), f"{world}: {key}"

    rounds(check, 20)


def check_suggestion(world, question, key, suggestion):
    if suggestion.kind is Kind.PRIORITY and not suggestion.name:
        return  # there is no class that one could name
    values = {each.metadata.name: each.value for each in world.classes}
    asked = {"cpu": str(suggestion.number), "priority": values.get(suggestion.name)}
    changed = a_cluster(made(world.objects, key, suggestion, asked)).snapshot()
    start = start_of(changed, question.plan(changed), key)
    assert start is not None, f"{world}: {key} does not start {suggestion.text}"
    assert bool(start.victims) is bool(suggestion.victims), f"{world}: {key}, {suggestion.text}: {start}"


def test_worlds_of_this_kind_have_gangs_with_suggestions_of_many_kinds():
    """The property above is worth something only where something is suggested."""
    kinds = set()
    for seed in range(40):
        world = World(seed, 4, 4, 4, gpus=GPUS)
        question = Question(a_cluster(world.objects).snapshot(), POLICIES["built in"], NOW)
        decisions = question.plan(question.snapshot)
        for report in decisions.gangs.values():
            if report.reasons and start_of(question.snapshot, decisions, report.gang) is None:
                kinds |= {each.kind for each in single_changes.suggestions(question, decisions, report.gang).found}
    assert kinds >= {Kind.MINIMUM, Kind.GANG_ENDS, Kind.NODES, Kind.QUEUE, Kind.RESOURCE, Kind.PRIORITY}
