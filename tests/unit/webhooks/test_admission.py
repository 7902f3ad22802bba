"""The deny matrix: users, queues and kinds, with queue rights off, warned about and enforced."""

import asyncio
import base64
import weakref

import msgspec
import pytest
from tests.cases import admission
from tests.cases.editing import edited
from tests.unit.webhooks.reviews import CONTROLLERS, command, group, marked, native_group, pod, request

from pumice.api import names
from pumice.api.validation import Settings
from pumice.kube import errors
from pumice.webhooks.admission import Admission, QueueRights
from pumice.webhooks.registration import AccessMode
from pumice.webhooks.reviews import PATHS, Reviewer
from pumice.webhooks.submitters import Submitters
from pumice.webhooks.target_queues import QUEUES_MAX, Destinations

WORLD = admission.World([*admission.QUEUES, admission.queue("research", parent="root"), admission.job_template("a")])
# Alice may use research by name, the group red may use q; nobody else anything.
GRANTS = {("alice", "use", "research"), ("red", "use", "q"), ("carol", "update", "research")}
RECORD = {names.SUBMITTED_BY: "alice", names.SUBMITTER_GROUPS: "blue"}


class Rights:
    """An API server's answers, from a literal."""

    def __init__(self, *, fails=False):
        self.fails = fails

    async def may(self, subject, verb, queue):
        if self.fails:
            raise errors.Unreachable("nobody answers")
        return any((name, verb, queue) in GRANTS for name in (subject.user, *subject.groups))


def admitting(mode=AccessMode.ENFORCE, **rights):
    reviewer = Reviewer(WORLD, Settings(scheduler_names=("volcano", "pumice")))
    if mode == AccessMode.OFF:
        return Admission(reviewer)
    destinations = Destinations(WORLD, lambda *_: None, lambda _: (), ("volcano", "pumice"))
    return Admission(reviewer, QueueRights(mode, Submitters([CONTROLLERS]), destinations, Rights(**rights)))


def path(subject, verb):
    wanted = f"/{subject['kind'].lower()}s/{verb}"
    return next(each for each in PATHS if each.path == wanted)


async def answer(review, verb="validate", **how):
    return await answer_of(admitting(**how), path(review["object"], verb), review)


async def answer_of(admitting, path, review):
    return await admitting.authorise(admitting.judge(path, review))


def submission(kind, queue):
    return {
        "Job": admission.job({"spec.queue": queue}),
        "JobTemplate": edited(admission.job_template("a"), {"spec.queue": queue}),
        "PodGroup": group(queue),
        "Pod": pod(**{names.QUEUE_NAME: queue}),
        "CronJob": admission.cron_job({"spec.jobTemplate.spec.queue": queue}),
        "JobFlow": edited(admission.flow({}, ("a", [])), {"spec.flows[0].patch": {"jobSpec": {"queue": queue}}}),
    }[kind]


each_kind = pytest.mark.parametrize("kind", ["Job", "PodGroup", "Pod", "CronJob", "JobFlow"])
MATRIX = [
    ("alice", ("blue",), "research", True),
    ("alice", ("blue",), "q", False),
    ("alice", ("red",), "q", True),
    ("bob", ("blue",), "research", False),
    ("bob", ("red",), "q", True),
    ("bob", ("red",), "research", False),
    ("system:serviceaccount:team:robot", ("system:serviceaccounts",), "q", False),
    ("system:serviceaccount:team:robot", ("system:serviceaccounts", "red"), "q", True),
]


@each_kind
@pytest.mark.parametrize(("user", "groups", "queue", "may"), MATRIX)
async def test_a_submission_needs_the_right_to_its_queue(kind, user, groups, queue, may):
    review = request(submission(kind, queue), user=user, groups=groups)
    response = await answer(review)
    assert response["allowed"] == may
    if not may:
        message = response["status"]["message"]
        shown = user.removeprefix("system:serviceaccount:").replace(":", "/")
        assert f'"{shown}"' in message
        assert f'"{queue}"' in message
        assert "the verb use on queues.scheduling.volcano.sh is missing" in message


@each_kind
@pytest.mark.parametrize(("user", "groups", "queue", "may"), MATRIX)
async def test_what_our_controllers_make_needs_the_right_of_the_submitter(kind, user, groups, queue, may):
    record = {names.SUBMITTED_BY: user, names.SUBMITTER_GROUPS: "\n".join(groups)}
    review = request(marked(submission(kind, queue), **record), user=CONTROLLERS, groups=("red",))
    response = await answer(review)
    assert response["allowed"] == may
    if not may:
        assert f"for whom this {kind} is made" in response["status"]["message"]


@each_kind
async def test_a_warning_lets_pass(kind):
    response = await answer(request(submission(kind, "research"), user="bob"), mode=AccessMode.WARN)
    assert response["allowed"]
    assert 'user "bob" may not use queue "research"' in response["warnings"][0]


@each_kind
async def test_switched_off_nobody_is_asked_and_nothing_recorded(kind):
    review = request(submission(kind, "research"), user="bob")
    response = await answer(review, mode=AccessMode.OFF)
    assert response["allowed"]
    assert not any("use queue" in text for text in response.get("warnings", ()))
    mutated = await answer(review, "mutate", mode=AccessMode.OFF)
    assert "submitted-by" not in base64.b64decode(mutated.get("patch", "")).decode()


@each_kind
async def test_mutation_records_the_submitter_beside_the_defaults(kind):
    response = await answer(request(submission(kind, "q")), "mutate")
    patch = msgspec.json.decode(base64.b64decode(response["patch"]))
    values = {each["path"].rpartition("/")[2]: each["value"] for each in patch}
    assert values[names.SUBMITTED_BY.replace("/", "~1")] == "alice"


@each_kind
@pytest.mark.parametrize("verb", ["mutate", "validate"])
async def test_a_forged_record_is_refused(kind, verb):
    review = request(marked(submission(kind, "research"), **RECORD), user="bob")
    response = await answer(review, verb)
    assert not response["allowed"]
    assert "may not set it to 'alice'" in response["status"]["message"]


async def test_whoever_changes_what_another_submitted_needs_the_right_as_well():
    old = marked(submission("CronJob", "research"), **RECORD)
    new = edited(old, {"spec.schedule": "1 * * * *"})
    assert not (await answer(request(new, old=old, user="bob")))["allowed"]
    assert (await answer(request(new, old=old, user="alice", groups=("blue",))))["allowed"]


async def test_whoever_only_labels_it_needs_none():
    old = marked(submission("CronJob", "research"), **RECORD)
    new = edited(old, {"metadata.labels": {"a": "b"}})
    assert (await answer(request(new, old=old, user="bob")))["allowed"]


async def test_a_group_is_not_moved_into_a_queue_without_the_right_to_it():
    old = marked(group("q"), **RECORD)
    assert not (await answer(request(edited(old, {"spec.queue": "research"}), old=old, user="bob")))["allowed"]


async def test_a_refused_object_is_refused_for_its_own_faults_first():
    review = request(admission.job({"spec.queue": "research", "spec.tasks": []}), user="bob")
    assert "use queue" not in (await answer(review))["status"]["message"]


@each_kind
async def test_where_nobody_can_be_asked_only_pods_pass(kind):
    response = await answer(request(submission(kind, "q")), fails=True)
    assert response["allowed"] == (kind == "Pod")
    if kind != "Pod":
        assert response["status"]["code"] == 503
        assert "try again" in response["status"]["message"]


async def test_where_the_right_cannot_be_asked_for_a_pod_stays_where_it_is():
    response = await answer(request(submission("Pod", "research"), old=submission("Pod", "q")), fails=True)
    assert not response["allowed"]
    assert response["status"]["code"] == 503


async def test_an_object_that_leads_to_more_queues_than_can_be_asked_about_is_refused():
    parts = [(f"t{number}", []) for number in range(QUEUES_MAX + 1)]
    templates = [edited(admission.job_template(name), {"spec.queue": f"q-{name}"}) for name, _ in parts]
    world = admission.World([*admission.QUEUES, *templates])
    destinations = Destinations(world, lambda *_: None, lambda _: (), ("volcano",))
    rights = QueueRights(AccessMode.ENFORCE, Submitters([CONTROLLERS]), destinations, Rights())
    flow = request(admission.flow({}, *parts))
    response = await answer_of(Admission(Reviewer(world), rights), path(flow["object"], "validate"), flow)
    assert "leads to 65 queues, at most 64 can be asked about" in response["status"]["message"]


@each_kind
async def test_where_nobody_can_be_asked_a_warning_says_so(kind):
    response = await answer(request(submission(kind, "q")), mode=AccessMode.WARN, fails=True)
    assert response["allowed"]
    assert "could not be asked" in response["warnings"][0]


@pytest.mark.parametrize("old", [None, command("Job", "mine"), command("Queue", "q")], ids=["new", "job", "queue"])
async def test_whoever_has_a_queue_opened_or_closed_administers_it(old):
    said = (await answer(request(command(), user="alice", old=old)))["status"]["message"]
    assert 'user "alice" may not open or close queue "research": the verb update on' in said
    assert (await answer(request(command(), user="carol", old=old)))["allowed"]


async def test_a_group_of_kubernetes_own_is_led_to_a_queue_only_with_the_right_to_it():
    path = next(each for each in PATHS if each.path == "/native-podgroups/validate")
    led = native_group(**{names.QUEUE_NAME: "research"})
    for user, may in (("alice", True), ("bob", False)):
        for old in (None, native_group()):
            assert (await answer_of(admitting(), path, request(led, user=user, old=old)))["allowed"] == may


async def test_commands_to_jobs_are_nobodys_business_here():
    assert (await answer(request(command("Job", "research"), user="bob")))["allowed"]


class Tracked(dict):
    """A request whose end can be seen."""


async def test_a_request_is_forgotten_while_its_answer_waits_for_the_api_server():
    asked, may = asyncio.Event(), asyncio.Event()

    class Slow:
        async def may(self, *_):
            asked.set()
            await may.wait()
            return True

    destinations = Destinations(WORLD, lambda *_: None, lambda _: (), ("volcano", "pumice"))
    rights = QueueRights(AccessMode.ENFORCE, Submitters([CONTROLLERS]), destinations, Slow())
    admission_ = Admission(Reviewer(WORLD, Settings(scheduler_names=("volcano", "pumice"))), rights)
    review = Tracked(request(group("research")))
    seen = weakref.ref(review)
    answering = admission_.authorise(admission_.judge(path(review["object"], "validate"), review))
    del review
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(answering)
        await asked.wait()
        assert seen() is None
        may.set()
    assert task.result() == {"uid": "1", "allowed": True}
