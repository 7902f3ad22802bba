"""To which queues an object leads."""

import pytest
from tests.cases import admission
from tests.cases.editing import edited
from tests.unit.webhooks.reviews import group, marked, native_group, pod, request

from pumice.api import names
from pumice.api.decoding import decode_value
from pumice.api.flow import JobFlow
from pumice.api.scheduling import PodGroup
from pumice.webhooks.target_queues import Destinations, is_submission

GROUPS = {
    ("team", "g"): decode_value(PodGroup, group("research")),
    ("team", "podgroup-7"): decode_value(PodGroup, group("research")),
}


def template(name, queue):
    return edited(admission.job_template(name), {"spec.queue": queue})


def queues(subject, *world, old=None, flows=()):
    lookup = admission.World(world)
    found = [decode_value(JobFlow, flow) for flow in flows]
    places = Destinations(lookup, lambda *key: GROUPS.get(key), lambda _: found, ("volcano", "pumice"))
    return places.of(request(subject, old=old))


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
    assert queues(owned("7")) == ["research", "q"], "the queue that it names counts as soon as the group is gone"


def bare(**annotations):
    return edited(pod(**annotations), {"metadata.uid": "7"})


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [
        (bare(**{names.QUEUE_NAME: "vip"}), bare(**{names.GROUP_NAME: "podgroup-7"}), ["research", "vip"]),
        (bare(**{names.QUEUE_NAME: "vip"}), bare(), ["research", "vip"]),
        (pod(**{names.QUEUE_NAME: "vip"}), pod(**{names.GROUP_NAME: "g"}), ["vip", "research"]),
        (pod(**{names.QUEUE_NAME: "vip", names.GROUP_NAME: "g"}), pod(), ["research", "vip", "default"]),
        (pod(**{names.GROUP_NAME: "unknown"}), pod(**{names.QUEUE_NAME: "q"}), ["q"]),
        (edited(owned("7"), {"metadata.annotations": {}}), pod(), ["research", "default"]),
    ],
    ids=[
        "leaves its implied group",
        "names a queue",
        "leaves a group",
        "joins a group",
        "names no group",
        "is adopted",
    ],
)
def test_a_changed_pod_leads_to_its_groups_queue_and_to_the_one_that_it_names_before_and_after(new, old, wanted):
    assert queues(new, old=old) == wanted


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (group("research"), group("q")),
        (template("a", "research"), template("a", "q")),
        (
            admission.cron_job({"spec.jobTemplate.spec.queue": "research"}),
            admission.cron_job({"spec.jobTemplate.spec.queue": "q"}),
        ),
    ],
    ids=lambda subject: subject["kind"],
)
def test_what_is_moved_leads_to_both_queues(new, old):
    assert queues(new, old=old) == ["research", "q"]


def test_a_template_leads_to_its_queue_and_to_those_that_flows_lay_over_it():
    flow = edited(
        admission.flow({}, ("a", []), ("b", []), ("c", [])),
        {
            "spec.flows[0].patch": {"jobSpec": {"queue": "research"}},
            "spec.flows[1].patch": {"jobSpec": {"queue": "production"}},
            "spec.flows[2].patch": {"jobSpec": {"queue": "default"}},
        },
    )
    assert queues(template("a", "q"), flows=[flow]) == ["q", "research"]
    assert queues(template("c", "q"), flows=[flow]) == ["q"]


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


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [
        (admission.JOB, None, True),
        (None, admission.JOB, False),
        (admission.JOB, admission.JOB, False),
        (marked(admission.JOB, note="x"), admission.JOB, False),
        (admission.job({"spec.tasks[0].replicas": 9}), admission.JOB, True),
        (group("research"), group("q"), True),
        (edited(group(), {"spec.minMember": 5}), group(), True),
        (edited(group(), {"spec.priorityClassName": "high"}), group(), True),
        (edited(group(), {"status": {"phase": "Running"}}), group(), False),
        (template("a", "q"), None, True),
        (edited(template("a", "q"), {"spec.tasks[0].replicas": 9}), template("a", "q"), True),
        (edited(template("a", "q"), {"status": {}}), template("a", "q"), False),
        (native_group(**{names.QUEUE_NAME: "q"}), native_group(), True),
        (native_group(note="x"), native_group(), False),
        (pod("pumice"), pod(), False),
        (pod(note="x"), pod(), False),
        (pod(**{names.QUEUE_NAME: "q"}), pod(), True),
        (pod(**{names.GROUP_NAME: "g"}), pod(), True),
        (pod(), pod(**{names.GROUP_NAME: "g"}), True),
        (owned("7"), owned("7", controller=False), True),
        (owned("7", controller=False), owned("7"), False),
    ],
)
def test_only_new_wishes_are_submissions(new, old, wanted):
    assert is_submission(request(new, old=old)) == wanted


def test_what_our_controllers_change_in_a_group_is_asked_about_only_where_they_move_it():
    grown, moved = edited(group(), {"spec.minMember": 5}), group("research")
    assert not is_submission(request(grown, old=group()), by_controllers=True)
    assert is_submission(request(moved, old=group()), by_controllers=True)
