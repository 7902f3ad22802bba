"""The admission policies on the real API server: they refuse less than the webhooks, never more, and each rule refuses something."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.bodies.admission_cases import kind_of, place
from tests.bodies.queue_rights import (
    BINDING,
    COMMAND,
    CRON_JOB,
    FLOW,
    JOB,
    POD,
    RBAC,
    ROLE,
    TEMPLATE,
    record,
    refusal,
    submission,
)
from tests.bodies.queue_rights import GROUP as QUEUE_GROUP
from tests.bodies.webhooks import CONTROLLERS, HOME, Impersonating, client_of, namespace_for_pods, until
from tests.cases import admission

from pumice import yamltext
from pumice.api import defaults, names
from pumice.api.core import Namespace
from pumice.api.kinds import Kind
from pumice.clock import RealClock
from pumice.kube import config, errors
from pumice.kube.http import HttpTransport
from pumice.webhooks import policies
from pumice.webhooks.policy_rules import PATTERNS, RULES
from pumice.webhooks.registration import AccessMode, Registration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tools.kube.control_plane import ControlPlane

Json = dict[str, Any]
GROUP = "admissionregistration.k8s.io"
WRITERS = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "create"]}
USERS = {
    "apiGroups": ["scheduling.volcano.sh"],
    "resources": ["queues"],
    "resourceNames": ["research"],
    "verbs": ["use"],
}
TASK: Json = {
    "replicas": 4,
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}},
}


def policy_kind(manifest: Json) -> Kind:
    kind = manifest["kind"]
    plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
    return Kind(GROUP, "v1", kind, plural, namespaced=False)


@pytest.fixture
async def transport(plane: ControlPlane, crds: None) -> AsyncIterator[HttpTransport]:
    connection = await asyncio.to_thread(config.find, str(plane.kubeconfig), clock=RealClock())
    async with HttpTransport(connection, user_agent="pumice-test") as made:
        await namespace_for_pods(client_of(made), admission.NAMESPACE)
        yield made


@contextlib.asynccontextmanager
async def applied(transport: HttpTransport, access: AccessMode) -> AsyncIterator[None]:
    """The policies are in force; afterwards none is."""
    client = client_of(transport)
    manifests = policies.manifests(Registration(namespace=HOME, access=access, controllers=(CONTROLLERS,)))
    try:
        for manifest in manifests:
            await client.create(policy_kind(manifest), yamltext.load_all(yamltext.dump(manifest), source="m")[0])
        await until(lambda: in_force(client), "the policies are in force")
        yield
    finally:
        for manifest in reversed(manifests):
            with contextlib.suppress(errors.NotFound):
                await client.delete(policy_kind(manifest), manifest["metadata"]["name"])
        await until(lambda: out_of_force(client), "the policies are gone")


async def in_force(client: Any) -> bool:
    job = admission.job({"spec.queue": "root"})
    try:
        hierarchy = await hierarchy_of_a_new_queue(client)
    except errors.ServerError:
        return False  # a mutating policy waits for the schemas of its kinds
    refused = await refusal(client.create(kind_of(job), job, dry_run=True, **place(job)))
    return hierarchy == "root/a" and "root queue" in refused


async def out_of_force(client: Any) -> bool:
    """Each policy leaves the server's memory in its own time, and the tests that come next send what they would refuse or change."""
    job = admission.job({"spec.queue": "root"})
    del job["spec"]["minAvailable"]
    try:
        made = (await client.create(kind_of(job), job, dry_run=True, **place(job))).json()
        return "minAvailable" not in made["spec"] and await hierarchy_of_a_new_queue(client) == "a"
    except (errors.Refused, errors.ServerError):
        return False


async def hierarchy_of_a_new_queue(client: Any) -> str:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "canary"}, "spec": {}}
    queue["metadata"]["annotations"] = {names.HIERARCHY: "a", names.HIERARCHY_WEIGHTS: "1"}
    made = (await client.create(kind_of(queue), queue, dry_run=True)).json()
    return str(made["metadata"]["annotations"][names.HIERARCHY])


async def send(client: Any, case: admission.Case) -> str:
    """What the server says to the case: a refusal, `invalid` for what schemas say and what cannot be evaluated, `impossible`, or nothing."""
    subject = case.new or case.old
    assert subject is not None
    kind, where, name = kind_of(subject), place(subject), subject["metadata"].get("name", "")
    try:
        if case.old is None:
            return await refusal(client.create(kind, copy.deepcopy(case.new), dry_run=True, **where))
        async with standing(client, case.old) as old:
            if case.new is None:
                return await refusal(client.delete(kind, name, dry_run=True, **where))
            body = {**copy.deepcopy(case.new), "metadata": {**old["metadata"], **case.new["metadata"]}}
            return await refusal(client.update(kind, name, body, dry_run=True, **where))
    except errors.Invalid as error:
        return f"invalid: {error.message}"
    except errors.Refused:
        return "impossible"


@contextlib.asynccontextmanager
async def standing(client: Any, subject: Json) -> AsyncIterator[Json]:
    """The object, while somebody changes it; root and default queues stay for good."""
    kind, where, name = kind_of(subject), place(subject), subject["metadata"]["name"]
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(kind, copy.deepcopy(subject), **where)
    try:
        yield (await client.get(kind, name, **where)).json()
    finally:
        with contextlib.suppress(errors.NotFound, errors.Refused):
            await client.delete(kind, name, grace_s=0, **where)


async def test_policies_refuse_nothing_that_the_rules_accept_and_every_one_refuses_something(
    transport: HttpTransport,
) -> None:
    client = client_of(transport)
    accepted = [case for case in admission.CASES if not case.refused]
    silent = {(collection, rule.text) for (collection, _), rules in RULES.items() for rule in rules}

    async def all_speak() -> bool:
        """Each policy is in force at a moment of its own."""
        for case in admission.CASES:
            collection = kind_of(case.new or case.old or {}).resource
            waiting = {rule for rule in silent if rule[0] == collection}
            if case.refused and waiting:
                said = await send(client, case)
                silent.difference_update({rule for rule in waiting if rule[1] in said})
                if "error parsing regexp" in said:
                    silent.discard((collection, PATTERNS.text))
        return not silent

    async with applied(transport, AccessMode.OFF):
        try:
            await until(all_speak, "every rule refuses something")
        finally:
            assert silent == set()
        wrong = {}
        for case in accepted:
            if (said := await send(client, case)) not in {"", "impossible"} and not said.startswith("invalid"):
                wrong[case.kind, case.operation, case.id] = said
        assert wrong == {}


DEFAULTED = [
    {"tasks": [TASK, TASK]},
    {"tasks": [TASK], "plugins": {"mpi": []}},
    {"tasks": [{**TASK, "name": "master"}], "plugins": {"pytorch": []}, "minAvailable": 0, "maxRetry": 0},
    {"tasks": [{**TASK, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}}]},
    {"tasks": [{**TASK, "template": {"spec": {**TASK["template"]["spec"], "hostNetwork": True}}}]},
    {"tasks": [TASK], "queue": "q", "schedulerName": "pumice", "maxRetry": 5, "minAvailable": 2},
]


async def test_policies_fill_in_what_the_webhooks_do(transport: HttpTransport) -> None:
    client = client_of(transport)
    async with applied(transport, AccessMode.OFF):
        for spec in DEFAULTED:
            job = {"apiVersion": JOB.api_version, "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
            made = (await client.create(JOB, job, namespace=admission.NAMESPACE, dry_run=True)).json()
            assert made["spec"] == defaults.apply_patch(made, defaults.job_patch(made))["spec"], (
                "nothing is left to fill in"
            )
            unshared = msgspec.json.decode(msgspec.json.encode(job))
            wanted = defaults.apply_patch(unshared, defaults.job_patch(unshared))["spec"]
            assert {key: made["spec"][key] for key in wanted if key != "tasks"} == {
                key: value for key, value in wanted.items() if key != "tasks"
            }
            for task, expected in zip(made["spec"]["tasks"], wanted["tasks"], strict=True):
                fields = ("name", "minAvailable", "maxRetry")
                assert [task[field] for field in fields] == [expected[field] for field in fields]
                assert task["template"]["spec"].get("dnsPolicy") == expected["template"]["spec"].get("dnsPolicy")


# ------------------------------------------------------------------------------------------------------------ rights


async def test_policies_ask_for_the_verb_use_and_guard_the_record(transport: HttpTransport) -> None:
    client = client_of(transport)
    grants = (("policies-writers", WRITERS, "system:authenticated"), ("policies-use", USERS, "red"))
    for name, rule, group in grants:
        await client.create(ROLE, {"metadata": {"name": name}, "rules": [rule]})
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        subjects = [{"kind": "Group", "name": group, "apiGroup": RBAC}]
        await client.create(BINDING, {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects})
    try:
        async with applied(transport, AccessMode.ENFORCE):
            await until(lambda: submits(transport, JOB, "alice", "red"), "the grants are in force")
            for kind in (JOB, QUEUE_GROUP, CRON_JOB, TEMPLATE, POD):
                await until(functools.partial(said_to, transport, kind, "bob", "blue"), f"{kind.kind} is asked about")
            for kind in (JOB, QUEUE_GROUP, CRON_JOB, POD):
                await until(functools.partial(is_recorded, transport, kind), f"{kind.kind} says who submitted it")
            wrong = []
            for kind in (JOB, QUEUE_GROUP, CRON_JOB, TEMPLATE, POD):
                for user, group, may in (("alice", "red", True), ("alice", "blue", False), ("bob", "blue", False)):
                    said = await said_to(transport, kind, user, group)
                    is_named = f'"{user}"' in said and '"research"' in said and "the verb use" in said
                    if (said == "") != may or (not may and not is_named):
                        wrong.append((kind.kind, user, group, said))
            assert wrong == []
            await check_the_record(transport)
            await check_flows(transport)
            await check_commands(transport)
            await check_homes(transport)
    finally:
        for name, _, _ in grants:
            await client.delete(BINDING, name)
            await client.delete(ROLE, name)


async def said_to(transport: HttpTransport, kind: Kind, user: str, group: str, **marks: str) -> str:
    client = client_of(Impersonating(transport, user, group))
    body = submission(kind, "research", **marks)
    return await refusal(client.create(kind, body, namespace=admission.NAMESPACE, dry_run=True))


async def said_to_flow(transport: HttpTransport, user: str, group: str, *queues: str) -> str:
    """What is said to a flow that leads its templates to these queues."""
    client = client_of(Impersonating(transport, user, group))
    body = submission(FLOW, "any")
    body["spec"]["flows"] = [
        {"name": f"part-{number}", "patch": {"jobSpec": {"queue": queue}}} for number, queue in enumerate(queues)
    ]
    return await refusal(client.create(FLOW, body, namespace=admission.NAMESPACE, dry_run=True))


async def check_flows(transport: HttpTransport) -> None:
    """The schema writes the default queue into every patch, and nobody may use any other here than alice research."""

    async def is_asked_about() -> bool:
        return await said_to_flow(transport, "bob", "blue", "research") != ""

    await until(is_asked_about, "patches of flows are asked about")
    assert 'user "bob" may not use queue "research"' in await said_to_flow(transport, "bob", "blue", "research")
    assert await said_to_flow(transport, "bob", "blue", *["default"] * 9) == ""
    assert await said_to_flow(transport, "alice", "red", *["research"] * 9, "default") == ""
    assert 'may not use queue "q"' in await said_to_flow(transport, "alice", "red", "research", "default", "q")
    nine = [f"q-{number}" for number in range(policies.FLOW_QUEUES_MAX + 1)]
    assert "more than 8 queues" in await said_to_flow(transport, "alice", "system:masters", *nine)
    assert await said_to_flow(transport, "alice", "system:masters", *nine[1:]) == ""


async def check_commands(transport: HttpTransport) -> None:
    """Queues are opened and closed by those who administer them; Jobs by everybody who may write Commands."""

    async def said(kind: str, user: str, group: str) -> str:
        version = "scheduling.volcano.sh/v1beta1" if kind == "Queue" else JOB.api_version
        target = {"apiVersion": version, "kind": kind, "name": "research", "uid": "1"}
        body = {"apiVersion": COMMAND.api_version, "kind": "Command", "metadata": {"name": "c"}, "target": target}
        client = client_of(Impersonating(transport, user, group))
        return await refusal(client.create(COMMAND, body, namespace=admission.NAMESPACE, dry_run=True))

    async def is_asked_about() -> bool:
        return await said("Queue", "alice", "red") != ""

    await until(is_asked_about, "Commands are asked about")
    assert 'user "alice" may not open or close queue "research"' in await said("Queue", "alice", "red")
    assert await said("Queue", "carol", "system:masters") == ""
    assert await said("Job", "alice", "red") == ""


async def check_homes(transport: HttpTransport) -> None:
    """What asks for no queue needs the right to its namespace's: our controllers will make the group there."""
    client = client_of(transport)

    async def said(kind: Kind, group: str) -> str:
        sender = client_of(Impersonating(transport, "alice", group))
        body = submission(kind, "default")
        return await refusal(sender.create(kind, body, namespace=admission.NAMESPACE, dry_run=True))

    async def leads_home() -> bool:
        return 'queue "research"' in await said(JOB, "blue")

    marks = {"metadata": {"annotations": {names.QUEUE_NAME: "research"}}}
    await client.patch(Namespace, admission.NAMESPACE, marks)
    try:
        await until(leads_home, "the namespace's queue is asked about")
        for kind in (JOB, CRON_JOB, TEMPLATE, POD, QUEUE_GROUP):
            assert 'may not use queue "research"' in await said(kind, "blue"), kind.kind
            assert await said(kind, "red") == "", kind.kind
        group = submission(QUEUE_GROUP, "default")
        made = (await client.create(QUEUE_GROUP, group, namespace=admission.NAMESPACE, dry_run=True)).json()
        assert made["spec"]["queue"] == "research"
    finally:
        marks = {"metadata": {"annotations": {names.QUEUE_NAME: None}}}
        await client.patch(Namespace, admission.NAMESPACE, marks)


async def submits(transport: HttpTransport, kind: Kind, user: str, group: str) -> bool:
    return await said_to(transport, kind, user, group) == ""


async def is_recorded(transport: HttpTransport, kind: Kind) -> bool:
    """Both policies of the record are in force: one writes it, one guards it."""
    alice = client_of(Impersonating(transport, "alice", "red"))
    body = submission(kind, "research")
    made = (await alice.create(kind, body, namespace=admission.NAMESPACE, dry_run=True)).json()
    is_written = names.SUBMITTED_BY in made["metadata"].get("annotations", {})
    return is_written and await said_to(transport, kind, "alice", "red", **record("bob", "red")) != ""


async def check_the_record(transport: HttpTransport) -> None:
    alice = client_of(Impersonating(transport, "alice", "red"))
    for kind in (JOB, QUEUE_GROUP, CRON_JOB, POD):
        made = await alice.create(kind, submission(kind, "research"), namespace=admission.NAMESPACE, dry_run=True)
        marks = made.json()["metadata"]["annotations"]
        assert marks.items() >= {names.SUBMITTED_BY: "alice"}.items(), kind.kind
        assert marks[names.SUBMITTER_GROUPS].split("\n")[0] == "red"
        forged = await said_to(transport, kind, "alice", "red", **record("bob", "red"))
        assert "written by admission" in forged, kind.kind
        handed_on = await said_to(transport, kind, CONTROLLERS, "system:masters", **record("bob", "red"))
        assert handed_on == "", kind.kind
