"""Admission: hooks in this process and webhooks elsewhere, asked with the same review."""

import asyncio
import base64
import json
import random

import pytest
from tests.unit.local.apiserver.words import MAPS, PODS, Api, a_map, a_pod

from pumice.local.apiserver.admission import Hook
from pumice.local.apiserver.server import Server, Settings

ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def a_patch(*operations):
    return base64.b64encode(json.dumps(operations).encode()).decode()


def label(value):
    return {"op": "add", "path": "/metadata/labels", "value": {"by": value}}


class Webhook:
    """A webhook's other end: records what it is asked and answers as it is told."""

    def __init__(self, **answer):
        self.answer = {"allowed": True} | answer
        self.asked = []

    async def __call__(self, config, body, seconds):
        review = json.loads(body)
        self.asked.append(review["request"])
        if isinstance(self.answer.get("raises"), BaseException):
            raise self.answer["raises"]
        if self.answer.get("sleeps"):
            await asyncio.sleep(60)
        answer = {"uid": review["request"]["uid"]} | self.answer
        return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}).encode()


def with_webhook(webhook, *hooks):
    return Api(Server(Settings(dispatch=webhook, hooks=hooks, chance=random.Random(3))))


async def configure(api, kind="Validating", resources="pods", operations="CREATE", **more):
    webhook = {
        "name": "check.example.com",
        "clientConfig": {"url": "https://127.0.0.1/check"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [
            {"operations": operations.split(), "apiGroups": [""], "apiVersions": ["v1"], "resources": resources.split()}
        ],
    } | more
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "w"},
    }
    await api.create(f"{ADMISSION}/{kind.lower()}webhookconfigurations", body | {"webhooks": [webhook]})
    assert api.status == 201


async def test_a_webhook_is_asked_what_a_real_server_would_ask():
    webhook = Webhook()
    api = with_webhook(webhook)
    await configure(api)
    await api.create(PODS, a_pod("p"))
    (request,) = webhook.asked
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["operation"], request["name"], request["namespace"]) == ("CREATE", "p", "default")
    assert request["userInfo"]["username"] == "system:admin"
    assert request["object"]["spec"]["restartPolicy"] == "Always"
    assert request["oldObject"] is None


async def test_a_webhook_can_refuse():
    api = with_webhook(Webhook(allowed=False, status={"message": "not today", "code": 418}))
    await configure(api)
    answer = await api.create(PODS, a_pod("p"))
    assert (api.status, answer["message"]) == (
        418,
        'admission webhook "check.example.com" denied the request: not today',
    )
    await api.get(f"{PODS}/p")
    assert api.status == 404


async def test_a_webhook_can_change_the_object_and_warn():
    api = with_webhook(Webhook(patchType="JSONPatch", patch=a_patch(label("webhook")), warnings=["careful"]))
    await configure(api, "Mutating")
    pod = await api.create(PODS, a_pod("p"))
    assert pod["metadata"]["labels"] == {"by": "webhook"}
    assert api.headers["warning"] == '299 - "careful"'


async def test_what_a_webhook_writes_is_checked_too():
    api = with_webhook(
        Webhook(patchType="JSONPatch", patch=a_patch({"op": "remove", "path": "/spec/containers/0/image"}))
    )
    await configure(api, "Mutating")
    await api.create(PODS, a_pod("p"))
    assert api.status == 422


@pytest.mark.parametrize(
    "trouble", [{"raises": OSError("refused")}, {"uid": "wrong"}, {"patch": "%%%", "patchType": "JSONPatch"}]
)
async def test_a_webhook_that_fails_is_ignored_or_not_as_it_says(trouble):
    for policy, status in (("Fail", 500), ("Ignore", 201)):
        if "patch" in trouble and policy == "Ignore":
            continue  # it answered: what it said is wrong, which no policy forgives
        api = with_webhook(Webhook(**trouble))
        await configure(api, "Mutating", failurePolicy=policy)
        await api.create(PODS, a_pod("p"))
        assert api.status == status


async def test_a_webhook_that_sleeps_is_not_waited_for():
    api = with_webhook(Webhook(sleeps=True))
    await configure(api, timeoutSeconds=1)
    answer = await api.create(PODS, a_pod("p"))
    assert (api.status, 'failed calling webhook "check.example.com"' in answer["message"]) == (500, True)


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        ({"objectSelector": {"matchLabels": {"app": "db"}}}, False),
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}, False),
        ({"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'p'"}]}, True),
        ({"matchConditions": [{"name": "c", "expression": "request.operation == 'DELETE'"}]}, False),
        ({"resources": "configmaps"}, False),
        ({"resources": "pods/status"}, False),
        ({"resources": "*"}, True),
        ({"operations": "UPDATE DELETE"}, False),
        ({"operations": "*"}, True),
    ],
)
async def test_a_webhook_is_asked_only_about_what_it_wants(config, asked):
    webhook = Webhook()
    api = with_webhook(webhook)
    await configure(api, **config)
    await api.create(PODS, a_pod("p") | {"metadata": {"name": "p", "labels": {"app": "web"}}})
    assert (api.status, bool(webhook.asked)) == (201, asked)


async def test_a_deletion_is_asked_about_with_the_old_object():
    webhook = Webhook()
    api = with_webhook(webhook)
    await api.create(PODS, a_pod("p"))
    await configure(api, operations="DELETE")
    webhook.answer["allowed"] = False
    await api.delete(f"{PODS}/p")
    assert (api.status, webhook.asked[0]["oldObject"]["metadata"]["name"]) == (403, "p")


async def test_a_dry_run_needs_a_webhook_without_side_effects():
    api = with_webhook(Webhook())
    await configure(api, sideEffects="Some")
    await api.create(PODS, a_pod("p"), dryRun="All")
    assert api.status == 400


async def test_a_broken_webhook_configuration_can_still_be_removed():
    api = with_webhook(Webhook(raises=OSError("down")))
    await configure(api, resources="*", operations="*")
    await api.delete(f"{ADMISSION}/validatingwebhookconfigurations/w")
    assert api.status == 200
    await api.create(PODS, a_pod("p"))
    assert api.status == 201


async def test_hooks_in_this_process_change_and_refuse():
    def mutate(request):
        return {"allowed": True, "patchType": "JSONPatch", "patch": a_patch(label("hook"))}

    async def validate(request):
        return {"allowed": request["object"]["metadata"]["name"] != "bad", "status": {"message": "bad name"}}

    maps, create = frozenset({"configmaps"}), frozenset({"CREATE"})
    api = with_webhook(
        None,
        Hook("m", maps, create, mutates=True, review=mutate),
        Hook("v", maps, create, mutates=False, review=validate),
    )
    assert (await api.create(MAPS, a_map("good")))["metadata"]["labels"] == {"by": "hook"}
    answer = await api.create(MAPS, a_map("bad"))
    assert (api.status, "bad name" in answer["message"]) == (403, True)
    await api.merge(f"{MAPS}/good", {"data": {"k": "v"}})
    assert api.status == 200
