"""To which queues an object leads."""

import pytest
from tests.cases import admission
from tests.cases.editing import edited
from tests.unit.webhooks.reviews import group, marked, native_group, pod, request

from pumice.api import names
from pumice.api.decoding import decode_value
from pumice.api.scheduling import PodGroup
from pumice.webhooks.target_queues import QUEUES_MAX, Destinations, is_submission

GROUPS = {
    ("team", "g"): decode_value(PodGroup, group("research")),
    ("team", "podgroup-7"): decode_value(PodGroup, group("research")),
}


def template(name, queue):
    return edited(admission.job_template(name), {"spec.queue": queue})


def queues(subject, *world):
    lookup = admission.World(world)
    return Destinations(lookup, lambda *key: GROUPS.get(key), ("volcano", "pumice")).of(request(subject))


def namespace(queue):
    return {"kind": "Namespace", "metadata": {"name": "team", "annotations": {names.QUEUE_NAME: queue}}}


@pytest.mark.parametrize(
    ("subject", "wanted"),
    [
        (admission.job({"spec.queue": "research"}), ["research"]),
        (admission.job({"spec.queue": ""}), ["default"]),
        (group("research"), ["research"]),
        (admission.cron_job({"spec.jobTemplate.spec.queue": "research"}), ["research"]),
        (pod(**{names.QUEUE_NAME: "research"}), ["research"]),
        (pod(), ["default"]),
        (native_group(**{names.QUEUE_NAME: "research"}), ["research"]),
        (native_group(), ["default"]),
        (pod(**{names.GROUP_NAME: "g"}), ["research"]),
        (pod(**{names.VOLCANO_GROUP_NAME: "g"}), ["research"]),
        (pod(**{names.GROUP_NAME: "g", names.QUEUE_NAME: "q"}), ["research"]),
        (pod(**{names.GROUP_NAME: "unknown"}), []),
        (pod("default-scheduler", **{names.QUEUE_NAME: "research"}), []),
        (admission.queue(), []),
    ],
    ids=str,
)
def test_an_object_leads_to_its_queue(subject, wanted):
    assert queues(subject) == wanted


@pytest.mark.parametrize(
    "subject",
    [
        pod(),
        admission.job({"spec.queue": "default"}),
        admission.cron_job({"spec.jobTemplate.spec.queue": "default"}),
        admission.flow({}, ("a", [])),
    ],
    ids=lambda subject: subject["kind"],
)
def test_what_asks_for_no_queue_leads_to_its_namespaces(subject):
    assert queues(subject, namespace("research"), template("a", "default")) == ["research"]


def owned(uid, *, controller=True):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": controller}
    return edited(pod(**{names.QUEUE_NAME: "q"}), {"metadata.ownerReferences": [owner]})


def test_a_pod_that_names_somebody_elses_workload_joins_the_group_of_its_pods():
    assert queues(owned("7")) == ["research"]


@pytest.mark.parametrize("subject", [owned("8"), owned("7", controller=False)], ids=["no group yet", "no controller"])
def test_a_pod_whose_group_is_yet_to_be_made_leads_to_the_queue_that_it_names(subject):
    assert queues(subject) == ["q"]


def test_what_asks_for_a_queue_does_not():
    assert queues(admission.job({"spec.queue": "q"}), namespace("research")) == ["q"]


def test_a_flow_leads_to_the_queues_of_its_templates_each_once():
    flow = admission.flow({}, ("a", []), ("b", []), ("c", []), ("unknown", []))
    world = (template("a", "q"), template("b", "research"), template("c", "q"))
    assert queues(flow, *world) == ["q", "research"]


def test_a_flow_that_changes_a_templates_queue_leads_to_the_other_one():
    flow = edited(admission.flow({}, ("a", [])), {"spec.flows[0].patch": {"jobSpec": {"queue": "research"}}})
    assert queues(flow, template("a", "q")) == ["research"]


def test_a_flow_leads_to_so_many_queues_at_most():
    parts = [(f"t{number}", []) for number in range(QUEUES_MAX + 1)]
    world = [template(name, f"q-{name}") for name, _ in parts]
    assert len(queues(admission.flow({}, *parts), *world)) == QUEUES_MAX


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [
        (admission.JOB, None, True),
        (None, admission.JOB, False),
        (admission.JOB, admission.JOB, False),
        (marked(admission.JOB, note="x"), admission.JOB, False),
        (admission.job({"spec.tasks[0].replicas": 9}), admission.JOB, True),
        (group("research"), group("q"), True),
        (edited(group(), {"spec.minMember": 5}), group(), False),
        (native_group(**{names.QUEUE_NAME: "q"}), native_group(), True),
        (native_group(note="x"), native_group(), False),
        (pod("pumice"), pod(), False),
        (pod(note="x"), pod(), False),
        (pod(**{names.QUEUE_NAME: "q"}), pod(), True),
        (pod(**{names.GROUP_NAME: "g"}), pod(), True),
    ],
)
def test_only_new_wishes_are_submissions(new, old, wanted):
    assert is_submission(request(new, old=old)) == wanted
