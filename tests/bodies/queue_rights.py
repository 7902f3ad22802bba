"""Who may submit to which queue, on any API server with RBAC: users, groups, service accounts, kinds, and controllers for others."""

import contextlib
import functools
from typing import Any

from tests.bodies.webhooks import CONTROLLERS, Hooked, controlling, manifest, until

from pumice.api import kinds, names
from pumice.api.core import Namespace
from pumice.api.events import CoreEvent
from pumice.api.flow import JobFlow, JobTemplate
from pumice.api.kinds import Kind
from pumice.api.scheduling import PodGroup, Queue
from pumice.kube import errors
from pumice.kube.requests import PatchType

Json = dict[str, Any]
TEAM = "rights"  # the namespace
RBAC = "rbac.authorization.k8s.io"
ROLE = Kind(RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
BINDING = Kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
REVIEW = Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
WRITES = ["get", "list", "create", "update", "patch", "delete"]
# What everybody here may write, wherever it is; queues belong to their administrators.
WRITTEN = ["", "apps", "batch.volcano.sh", "bus.volcano.sh", "flow.volcano.sh"]
JOB = kinds.by_kind("batch.volcano.sh/v1alpha1", "Job")
CRON_JOB = kinds.by_kind("batch.volcano.sh/v1alpha1", "CronJob")
FLOW = kinds.by_kind("flow.volcano.sh/v1alpha1", "JobFlow")
TEMPLATE = kinds.by_kind("flow.volcano.sh/v1alpha1", "JobTemplate")
COMMAND = kinds.by_kind("bus.volcano.sh/v1alpha1", "Command")
GROUP = kinds.by_kind("scheduling.volcano.sh/v1beta1", "PodGroup")
POD = kinds.by_kind("v1", "Pod")
NATIVE = kinds.by_kind("scheduling.k8s.io/v1alpha2", "PodGroup")
SUBMITTED = (JOB, GROUP, POD, CRON_JOB, FLOW)
ROBOT = f"system:serviceaccount:{TEAM}:robot"
DEFAULT = f"system:serviceaccount:{TEAM}:default"

# (user, group, queue, may): alice by name, the group red, the service account robot.
MATRIX = (
    ("alice", "blue", "research", True),
    ("alice", "blue", "production", False),
    ("alice", "red", "production", True),
    ("bob", "blue", "research", False),
    ("bob", "red", "production", True),
    ("bob", "red", "research", False),
    (ROBOT, f"system:serviceaccounts:{TEAM}", "research", False),
    (ROBOT, f"system:serviceaccounts:{TEAM}", "production", True),
)
GRANTS = (("research", "User", "alice"), ("production", "Group", "red"), ("production", "ServiceAccount", "robot"))

WRITERS = [
    {"apiGroups": WRITTEN, "resources": ["*"], "verbs": WRITES},
    {"apiGroups": ["scheduling.volcano.sh", "scheduling.k8s.io"], "resources": ["podgroups"], "verbs": WRITES},
]


async def prepare(here: Hooked) -> None:
    """Queues, a namespace in which everybody may write everything, and the grants."""
    client = here.client
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(Namespace, {"metadata": {"name": TEAM}})
    for name in ("root", "default", "research", "production"):
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(
                Queue, manifest(kinds.by_struct(Queue), name, {} if name == "root" else {"parent": "root"})
            )
        await here.knows(Queue, name)
    for queue in ("research", "production"):
        await client.create(TEMPLATE, manifest(TEMPLATE, queue, job_spec(queue)), namespace=TEAM)
        await here.knows(JobTemplate, queue, TEAM)
    await client.create(ROLE, _role("writers", WRITERS))
    everybody = [{"kind": "Group", "name": "system:authenticated", "apiGroup": RBAC}]
    await client.create(BINDING, _binding("writers", everybody))
    for number, (queue, kind, name) in enumerate(GRANTS):
        rule = {
            "apiGroups": ["scheduling.volcano.sh"],
            "resources": ["queues"],
            "resourceNames": [queue],
            "verbs": ["use"],
        }
        await client.create(ROLE, _role(f"use-{number}", [rule]))
        subject = {"kind": kind, "name": name}
        subject |= {"namespace": TEAM} if kind == "ServiceAccount" else {"apiGroup": RBAC}
        await client.create(BINDING, _binding(f"use-{number}", [subject]))
    for user, group, queue, may in MATRIX:
        look = functools.partial(_is_in_force, here, user, group, queue, may=may)
        await until(look, f"{user} {group} {queue}: {may}")


async def _is_in_force(here: Hooked, user: str, group: str, queue: str, *, may: bool) -> bool:
    """Grants take a moment to reach a real server's authoriser."""
    attributes = {"verb": "use", "group": "scheduling.volcano.sh", "resource": "queues", "name": queue}
    body = {"spec": {"user": user, "groups": [group, "system:authenticated"], "resourceAttributes": attributes}}
    reply = await here.client.create(REVIEW, {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, **body})
    return bool(reply.json()["status"].get("allowed")) == may


def _role(name: str, rules: list[Json]) -> Json:
    return {
        "apiVersion": ROLE.api_version,
        "kind": "ClusterRole",
        "metadata": {"name": f"rights-{name}"},
        "rules": rules,
    }


def _binding(name: str, subjects: list[Json]) -> Json:
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"rights-{name}"}
    metadata = {"name": f"rights-{name}"}
    return {
        "apiVersion": ROLE.api_version,
        "kind": BINDING.kind,
        "metadata": metadata,
        "roleRef": role,
        "subjects": subjects,
    }


async def clean_up(here: Hooked) -> None:
    for name in ("writers", *(f"use-{number}" for number in range(len(GRANTS)))):
        for kind in (BINDING, ROLE):
            with contextlib.suppress(errors.NotFound):
                await here.client.delete(kind, f"rights-{name}")
    await here.client.delete(Namespace, TEAM)
    for queue in ("research", "production"):
        await here.client.delete(Queue, queue)


# ------------------------------------------------------------------------------------------------------------ objects


def job_spec(queue: str) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    task = {"name": "worker", "replicas": 1, "template": template}
    return {"queue": queue, "schedulerName": "volcano", "minAvailable": 1, "tasks": [task]}


def submission(kind: Kind, queue: str, name: str = "s", **annotations: str) -> Json:
    marks = dict(annotations)
    spec: Json = job_spec(queue)
    if kind is GROUP:
        spec = {"queue": queue, "minMember": 1}
    elif kind is POD:
        spec = {"schedulerName": "volcano", "containers": [{"name": "main", "image": "x"}]}
        marks[names.QUEUE_NAME] = queue
    elif kind is CRON_JOB:
        spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": spec}}
    elif kind is FLOW:
        spec = {"flows": [{"name": queue}]}
    return manifest(kind, name, spec, annotations=marks)


def record(user: str, group: str) -> dict[str, str]:
    return {names.SUBMITTED_BY: user, names.SUBMITTER_GROUPS: f"{group}\nsystem:authenticated"}


async def refusal(work: Any) -> str:
    """Why the server refused; empty where it did not."""
    try:
        await work
    except errors.Refused as error:
        return error.message
    return ""


# ------------------------------------------------------------------------------------------------------------ bodies


async def a_submission_needs_the_verb_use_on_its_queue(here: Hooked) -> None:
    """Every kind, every user, every queue: what is made directly, and what our controllers make for them."""
    controllers = here.as_user(CONTROLLERS, "system:serviceaccounts:pumice-system")
    wrong = []
    for kind in SUBMITTED:
        for user, group, queue, may in MATRIX:
            client = here.as_user(user, group)
            body = submission(kind, queue)
            own = await refusal(client.create(kind, body, namespace=TEAM, dry_run=True))
            body = submission(kind, queue, **record(user, group))
            handed_on = await refusal(controllers.create(kind, body, namespace=TEAM, dry_run=True))
            for way, said in (("itself", own), ("controllers", handed_on)):
                shown = user.removeprefix("system:serviceaccount:").replace(":", "/")
                is_named = f'"{shown}"' in said and f'queue "{queue}"' in said and "the verb use" in said
                if (said == "") != may or (not may and not is_named):
                    wrong.append((kind.kind, user, group, queue, way, said))
    assert wrong == []


async def the_submitter_is_recorded_and_nobody_else_can_say_who_it_is(here: Hooked) -> None:
    """Whoever submits is recorded, nobody can say otherwise, and what others leave out comes back."""
    alice, bob = here.as_user("alice", "blue"), here.as_user("bob", "blue")
    for kind in SUBMITTED:
        made = (await alice.create(kind, submission(kind, "research", "mine"), namespace=TEAM)).json()
        marks = made["metadata"]["annotations"]
        assert marks[names.SUBMITTED_BY] == "alice", kind.kind
        assert set(marks[names.SUBMITTER_GROUPS].split("\n")) >= {"blue", "system:authenticated"}
        forged = submission(kind, "research", "forged", **record("alice", "blue"))
        assert "may not set it" in await refusal(bob.create(kind, forged, namespace=TEAM)), kind.kind
        body = {"metadata": {"annotations": {names.SUBMITTED_BY: "bob"}}}
        assert "may not change it" in await refusal(bob.patch(kind, "mine", body, namespace=TEAM)), kind.kind
        if kind is not POD:  # what has no record gets it back; of a pod that is refused instead
            body = {"metadata": {"annotations": {names.SUBMITTED_BY: None, names.SUBMITTER_GROUPS: None}}}
            changed = (await bob.patch(kind, "mine", body, namespace=TEAM)).json()
            assert changed["metadata"]["annotations"][names.SUBMITTED_BY] == "alice", kind.kind
        await here.client.delete(kind, "mine", namespace=TEAM, grace_s=0)


async def members_and_movers_need_the_right_to_the_groups_queue(here: Hooked) -> None:
    """A pod joins a group only if its maker may use the group's queue; neither moves to a queue that its mover may not use."""
    alice, bob = here.as_user("alice", "blue"), here.as_user("bob", "blue")
    await alice.create(GROUP, submission(GROUP, "research", "gang"), namespace=TEAM)
    await here.knows(PodGroup, "gang", TEAM)
    pod = manifest(POD, "joins", submission(POD, "research")["spec"], annotations={names.GROUP_NAME: "gang"})
    assert 'may not use queue "research"' in await refusal(bob.create(POD, pod, namespace=TEAM, dry_run=True))
    assert await refusal(alice.create(POD, pod, namespace=TEAM, dry_run=True)) == ""
    await _check_adopting(here)
    grown = {"spec": {"minMember": 5, "priorityClassName": "high"}}
    assert 'user "bob" may not use queue "research"' in await refusal(bob.patch(GROUP, "gang", grown, namespace=TEAM))
    stolen = {"spec": {"queue": "production"}}
    red = here.as_user("bob", "red")
    assert 'user "bob" may not use queue "research"' in await refusal(red.patch(GROUP, "gang", stolen, namespace=TEAM))
    assert await refusal(alice.patch(GROUP, "gang", grown, namespace=TEAM)) == ""
    move = [{"op": "replace", "path": "/spec/queue", "value": "production"}]
    moving = alice.patch(GROUP, "gang", move, how=PatchType.JSON, namespace=TEAM)
    assert 'user "alice" may not use queue "production"' in await refusal(moving)
    await alice.create(POD, submission(POD, "research", "stays"), namespace=TEAM)
    body = {"metadata": {"annotations": {names.QUEUE_NAME: "production"}}}
    said = await refusal(alice.patch(POD, "stays", body, namespace=TEAM))
    assert 'user "alice" may not use queue "production"' in said
    await here.client.delete(POD, "stays", namespace=TEAM, grace_s=0)
    await here.client.delete(GROUP, "gang", namespace=TEAM)


async def a_pod_gets_to_no_other_queue_by_an_edit(here: Hooked) -> None:
    """A pod that has its group in one queue gets to no other by an edit: of group, queue or owner."""
    alice = here.as_user("alice", "blue")
    made = (await alice.create(POD, submission(POD, "research", "leaves"), namespace=TEAM)).json()
    group = f"podgroup-{made['metadata']['uid']}"
    await here.client.create(GROUP, submission(GROUP, "research", group), namespace=TEAM)
    await here.client.create(GROUP, submission(GROUP, "production", "podgroup-another"), namespace=TEAM)
    for name in (group, "podgroup-another"):
        await here.knows(PodGroup, name, TEAM)
    joined = {"metadata": {"annotations": {names.GROUP_NAME: group}}}
    await here.as_user(CONTROLLERS, "system:masters").patch(POD, "leaves", joined, namespace=TEAM)
    marks = {names.GROUP_NAME: None, names.QUEUE_NAME: "production"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "another", "controller": True}
    for edit in (
        {"annotations": marks},
        {"annotations": {names.GROUP_NAME: "podgroup-another"}},
        {"annotations": {names.GROUP_NAME: None}, "ownerReferences": [owner]},
    ):
        said = await refusal(alice.patch(POD, "leaves", {"metadata": edit}, namespace=TEAM, dry_run=True))
        assert 'user "alice" may not use queue "production"' in said, edit
    marks = {names.GROUP_NAME: None, names.QUEUE_NAME: "research"}
    assert await refusal(alice.patch(POD, "leaves", {"metadata": {"annotations": marks}}, namespace=TEAM)) == ""
    await here.client.delete(POD, "leaves", namespace=TEAM, grace_s=0)
    for name in (group, "podgroup-another"):
        await here.client.delete(GROUP, name, namespace=TEAM)


async def templates_are_written_by_those_who_may_use_their_queues(here: Hooked) -> None:
    """What a flow will run in its submitter's name is written by those alone who may use the queues that it leads to."""
    alice, bob = here.as_user("alice", "blue"), here.as_user("bob", "red")
    work = manifest(TEMPLATE, "step", job_spec("research"))
    said = await refusal(bob.create(TEMPLATE, work, namespace=TEAM, dry_run=True))
    assert 'user "bob" may not use queue "research"' in said
    await alice.create(TEMPLATE, work, namespace=TEAM)
    for value in (job_spec("research") | {"maxRetry": 9}, job_spec("production")):
        edit = [{"op": "replace", "path": "/spec", "value": value}]
        said = await refusal(bob.patch(TEMPLATE, "step", edit, how=PatchType.JSON, namespace=TEAM))
        assert 'user "bob" may not use queue "research"' in said
    part = {"name": "led", "patch": {"jobSpec": {"queue": "research"}}}
    await alice.create(FLOW, manifest(FLOW, "leading", {"flows": [part]}), namespace=TEAM)
    await here.knows(JobFlow, "leading", TEAM)
    led = manifest(TEMPLATE, "led", job_spec("production"))
    assert 'user "bob" may not use queue "research"' in await refusal(bob.create(TEMPLATE, led, namespace=TEAM))
    await here.client.delete(FLOW, "leading", namespace=TEAM)
    await here.client.delete(TEMPLATE, "step", namespace=TEAM)


async def _check_adopting(here: Hooked) -> None:
    """Whoever names another's workload as the owner of a pod joins the group of its pods, and needs the right to that queue."""
    uid = "1b0a3f5e-0000-4000-8000-000000000009"
    await here.as_user("alice", "blue").create(GROUP, submission(GROUP, "research", f"podgroup-{uid}"), namespace=TEAM)
    await here.knows(PodGroup, f"podgroup-{uid}", TEAM)
    pod = submission(POD, "production", "adopted")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    said = await refusal(here.as_user("bob", "red").create(POD, pod, namespace=TEAM, dry_run=True))
    assert 'user "bob" may not use queue "research"' in said
    await here.client.delete(GROUP, f"podgroup-{uid}", namespace=TEAM)


async def queues_are_opened_and_closed_by_those_who_administer_them(here: Hooked) -> None:
    """Controllers open and close queues for those alone who administer them."""
    target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "research", "uid": "1"}
    close = {"apiVersion": COMMAND.api_version, "kind": COMMAND.kind, "action": "CloseQueue", "target": target}
    close["metadata"] = {"name": "close"}
    said = await refusal(here.as_user("alice", "blue").create(COMMAND, close, namespace=TEAM, dry_run=True))
    assert 'user "alice" may not open or close queue "research": the verb update on' in said
    admin = here.as_user("carol", "system:masters")
    assert await refusal(admin.create(COMMAND, close, namespace=TEAM, dry_run=True)) == ""
    suspend = {**close, "target": {**target, "apiVersion": JOB.api_version, "kind": "Job"}}
    bob = here.as_user("bob", "blue")
    await bob.create(COMMAND, suspend, namespace=TEAM)
    patch = [{"op": "replace", "path": "/target", "value": target}]
    said = await refusal(bob.patch(COMMAND, "close", patch, how=PatchType.JSON, namespace=TEAM))
    assert 'user "bob" may not open or close queue "research"' in said
    await here.client.delete(COMMAND, "close", namespace=TEAM)


async def groups_of_kubernetes_own_are_led_to_queues_with_the_right_to_them(here: Hooked) -> None:
    """Groups of Kubernetes' own are led to a queue by those who may use it, and are none of ours otherwise."""
    alice, bob = here.as_user("alice", "blue"), here.as_user("bob", "blue")
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    led = manifest(NATIVE, "led", spec, annotations={names.QUEUE_NAME: "research"})
    assert 'user "bob" may not use queue "research"' in await refusal(bob.create(NATIVE, led, namespace=TEAM))
    await alice.create(NATIVE, led, namespace=TEAM)
    await bob.create(NATIVE, manifest(NATIVE, "plain", spec), namespace=TEAM)
    move = {"metadata": {"annotations": {names.QUEUE_NAME: "research"}}}
    assert 'user "bob" may not use queue "research"' in await refusal(bob.patch(NATIVE, "plain", move, namespace=TEAM))


async def without_a_record_only_the_default_account_counts(here: Hooked) -> None:
    """What controllers make without a record counts as the namespace's default service account, which may use nothing here."""
    for user in (CONTROLLERS, "system:serviceaccount:kube-system:replicaset-controller"):
        client = here.as_user(user, "system:masters")
        said = await refusal(client.create(POD, submission(POD, "research"), namespace=TEAM, dry_run=True))
        assert f'service account "{TEAM}/default"' in said


async def what_controllers_make_later_is_held_against_the_submitter(here: Hooked) -> None:
    """Flows may name templates that come later: what our controllers then make is held against whoever wrote the flow."""
    for user, name in (("alice", "own"), ("bob", "theirs")):
        flow = manifest(FLOW, name, {"flows": [{"name": "late"}]})
        await here.as_user(user, "blue").create(FLOW, flow, namespace=TEAM)
    await here.client.create(TEMPLATE, manifest(TEMPLATE, "late", job_spec("research")), namespace=TEAM)
    async with controlling(here.transport):
        job = await until(functools.partial(_found, here, JOB, "own-late"), "the flow of alice has its job")
        assert job["metadata"]["annotations"].items() >= {names.SUBMITTED_BY: "alice"}.items()
        name = f"own-late-{job['metadata']['uid']}"
        group = await until(functools.partial(_found, here, GROUP, name), "the job of alice has its group")
        assert group["metadata"]["annotations"].items() >= {names.SUBMITTED_BY: "alice"}.items()
        words = 'user "bob", for whom this Job is made, may not use queue "research"'
        await until(functools.partial(_told, here, "theirs", words), "bob is told why his flow has no job")
        assert await _found(here, JOB, "theirs-late") is None


async def _found(here: Hooked, kind: Kind, name: str) -> Json | None:
    try:
        return (await here.client.get(kind, name, namespace=TEAM)).json()
    except errors.NotFound:
        return None


async def _told(here: Hooked, flow: str, words: str) -> bool:
    events = await here.client.list_json(kinds.by_struct(CoreEvent), namespace=TEAM)
    return any(each["involvedObject"]["name"] == flow and words in each["message"] for each in events)


ALL = (
    a_submission_needs_the_verb_use_on_its_queue,
    the_submitter_is_recorded_and_nobody_else_can_say_who_it_is,
    members_and_movers_need_the_right_to_the_groups_queue,
    a_pod_gets_to_no_other_queue_by_an_edit,
    templates_are_written_by_those_who_may_use_their_queues,
    queues_are_opened_and_closed_by_those_who_administer_them,
    without_a_record_only_the_default_account_counts,
    what_controllers_make_later_is_held_against_the_submitter,
)
