"""Patches and applies, hand-picked and random, on the real and on the embedded server: the same objects come out."""

from __future__ import annotations

import asyncio
import difflib
import json
import random

import pytest

from pumice.kube.transport import Request
from pumice.local.apiserver.request_parsing import ROOT
from pumice.local.apiserver.server import Server, Settings

STRATEGIC, MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
IDENTITY = ("uid", "resourceVersion", "creationTimestamp", "generation", "namespace")


class Ours:
    """The embedded server, called without a socket, in the same words as the real one."""

    def __init__(self):
        self.server = Server(Settings(chance=random.Random(0)))

    def __call__(self, method, path, body, media):
        bare, _, text = path.partition("?")
        query = dict(part.split("=") for part in text.split("&") if part)
        headers = {"content-type": media, "user-agent": "test/1"}
        request = Request(method, bare, query, headers, json.dumps(body).encode())
        response = asyncio.run(self.server.handle(request, ROOT))
        return response.status, json.loads(response.body)


@pytest.fixture
def both(plane, namespace):
    """Sends a call to both; the real one's namespace stands for `default`."""
    ours = Ours()

    def send(method, path, body, media="application/json"):
        answer = plane.request(method, f"/api/v1/namespaces/{namespace}/{path}", body, content_type=media)
        return (answer.status, answer.body), ours(method, f"/api/v1/namespaces/default/{path}", body, media)

    return send


def essence(answer, *, managers=False):
    """What must be alike: everything but identity and times; of a refusal its code and reason."""
    status, body = answer
    if status >= 400:
        return f"{status} {body.get('reason', '')}"
    metadata = {key: value for key, value in body["metadata"].items() if key not in IDENTITY}
    entries = metadata.pop("managedFields", [])
    if managers:
        owned = [
            (e["manager"], e["operation"], e.get("subresource", ""), json.dumps(e["fieldsV1"], sort_keys=True))
            for e in entries
        ]
        metadata["managed"] = sorted(owned)
    return json.dumps([status, body | {"metadata": metadata}], indent=1, sort_keys=True)


def assert_alike(real, ours, *, managers=False):
    lines = [essence(answer, managers=managers).splitlines() for answer in (real, ours)]
    difference = list(difflib.unified_diff(*lines, "real", "ours", lineterm="", n=2))
    assert not difference, "\n".join(difference)


def a_template(**spec):
    base = {
        "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1", "env": [{"name": "X", "value": "1"}]}]
    }
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": {"spec": base | spec}}


def inside(**spec):
    return {"template": {"spec": spec}}


PATCHES = {
    "an item merges by name": inside(containers=[{"name": "b", "image": "2"}]),
    "an item is added": inside(containers=[{"name": "c", "image": "3"}]),
    "an item is deleted": inside(containers=[{"$patch": "delete", "name": "a"}]),
    "a list is replaced": inside(containers=[{"name": "z", "image": "9"}, {"$patch": "replace"}]),
    "an inner list merges": inside(containers=[{"name": "b", "env": [{"name": "Y", "value": "2"}]}]),
    "an inner item goes": inside(containers=[{"name": "b", "env": [{"name": "X", "$patch": "delete"}]}]),
    "an atomic list is replaced": inside(containers=[{"name": "a", "args": ["x", "y"]}]),
    "a field goes with null": inside(containers=[{"name": "b", "env": None}]),
    "an order is given": {
        "template": {
            "spec": {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": [{"name": "a", "image": "5"}],
            }
        }
    },
    "an order alone": {"template": {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}},
    "a map is replaced": {"metadata": {"labels": {"$patch": "replace", "only": "this"}}},
    "labels merge": {"metadata": {"labels": {"new": "1", "old": None}}},
    "a volume changes its kind": inside(
        volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]
    ),
    "a finalizer is taken from a list": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one"]}},
    "finalizers are added": {"metadata": {"finalizers": ["example.com/three"]}},
    "tolerations are replaced": inside(tolerations=[{"key": "b", "operator": "Exists"}]),
    "an item without its key": inside(containers=[{"image": "2"}]),
    "an unknown directive": inside(containers=[{"$patch": "dance", "name": "a"}]),
    "a wrong type": inside(containers="none"),
    "nothing at all": {},
}


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES.keys())
def test_a_strategic_patch_does_the_same_on_both(both, patch):
    original = a_template(volumes=[{"name": "v", "emptyDir": {}}], tolerations=[{"key": "a", "operator": "Exists"}])
    original["metadata"] |= {"labels": {"old": "1"}, "finalizers": ["example.com/one", "example.com/two"]}
    for answer in both("POST", "podtemplates", original):
        assert answer[0] == 201, answer
    real, ours = both("PATCH", "podtemplates/t", patch, STRATEGIC)
    both("PATCH", "podtemplates/t", {"metadata": {"finalizers": None}}, MERGE)
    assert_alike(real, ours)


def a_random_template(chance):
    """A pod's template, or a patch of one: few names, so that they meet."""
    spec = {}
    if chance.random() < 0.8:
        names = chance.sample("abc", chance.randint(1, 3))
        spec["containers"] = [a_random_container(chance, name) for name in names]
    if chance.random() < 0.4:
        spec["nodeSelector"] = {key: chance.choice(["1", "2"]) for key in chance.sample("xyz", chance.randint(0, 2))}
    if chance.random() < 0.3:
        spec["hostAliases"] = [
            {"ip": f"10.0.0.{n}", "hostnames": [chance.choice("pq")]} for n in chance.sample([1, 2, 3], 2)
        ]
    if chance.random() < 0.3:
        spec["imagePullSecrets"] = [{"name": name} for name in chance.sample("st", chance.randint(1, 2))]
    return spec


def a_random_container(chance, name):
    container = {"name": name, "image": chance.choice("12")}
    if chance.random() < 0.5:
        container["env"] = [
            {"name": n, "value": chance.choice("12")} for n in chance.sample("XYZ", chance.randint(1, 3))
        ]
    if chance.random() < 0.3:
        container["ports"] = [
            {"containerPort": p, "name": f"p{p}"} for p in chance.sample([80, 81], chance.randint(1, 2))
        ]
    if chance.random() < 0.3:
        container["args"] = chance.sample("uvw", chance.randint(1, 2))
    return container


def with_directives(chance, patch):
    for container in patch.get("containers", []):
        if chance.random() < 0.2:
            container["$patch"] = "delete"
        elif chance.random() < 0.2 and "env" in container:
            container["env"][0] = {"name": container["env"][0]["name"], "$patch": "delete"}
    if chance.random() < 0.3:
        patch["nodeSelector"] = chance.choice([None, {"x": None}, {"$patch": "replace", "z": "3"}])
    return patch


@pytest.mark.parametrize("seed", range(40))
def test_random_strategic_patches_do_the_same_on_both(both, seed):
    chance = random.Random(seed)
    spec = {"containers": [{"name": "a", "image": "0"}]} | a_random_template(chance)
    body = a_template()
    body["template"]["spec"] = spec
    both("POST", "podtemplates", body)
    for _ in range(3):
        real, ours = both(
            "PATCH", "podtemplates/t", inside(**with_directives(chance, a_random_template(chance))), STRATEGIC
        )
        assert_alike(real, ours)


def applied(manager, *, force=False):
    return f"?fieldManager={manager}" + ("&force=true" if force else "")


@pytest.mark.parametrize("seed", range(40))
def test_random_applies_leave_the_same_objects_and_owners_on_both(both, seed):
    """Two appliers and a patcher take turns on one object; conflicts and owners must agree at every step."""
    chance = random.Random(1000 + seed)
    for turn in range(6):
        manager = chance.choice(["one", "two"])
        body = a_template()
        body["template"]["spec"] = {"containers": [{"name": "a", "image": "0"}]} if turn == 0 else {}
        body["template"]["spec"] |= a_random_template(chance)
        if chance.random() < 0.3:
            body["metadata"]["labels"] = {key: chance.choice("12") for key in chance.sample("lm", chance.randint(1, 2))}
        if turn and chance.random() < 0.25:
            patch = inside(**a_random_template(chance))
            real, ours = both("PATCH", "podtemplates/t?fieldManager=patcher", patch, STRATEGIC)
        else:
            query = applied(manager, force=chance.random() < 0.4)
            real, ours = both("PATCH", f"podtemplates/t{query}", body, APPLY)
        assert_alike(real, ours, managers=True)


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "add", "path": "/data/x", "value": "1"}],
        [{"op": "remove", "path": "/data/none"}],
        [{"op": "test", "path": "/data/k", "value": "other"}],
        [{"op": "move", "from": "/data/k", "path": "/data/l"}],
        [{"op": "copy", "from": "/data/k", "path": "/metadata/labels"}],
        [{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}],
        [{"op": "replace", "path": "/data", "value": {"n": 5}}],
    ],
)
def test_a_json_patch_does_the_same_on_both(both, operations):
    both("POST", "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "v"}})
    real, ours = both("PATCH", "configmaps/m", operations, JSON_PATCH)
    assert_alike(real, ours)
