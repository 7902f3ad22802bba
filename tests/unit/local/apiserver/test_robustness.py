"""No request, however strange, makes the server stumble: every answer is a success or a refusal with a reason."""

import asyncio
import copy
import json
import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.local.apiserver.test_crds import CRDS, GANGS, a_definition, a_gang
from tests.unit.local.apiserver.words import MAPS, PODS, Api, a_map, a_pod

from pumice.local.apiserver.server import Server, Settings

SCALAR = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.just(2**70) | st.floats(allow_nan=False) | st.text(max_size=4)
)
KEYS = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "name",
        "labels",
        "annotations",
        "containers",
        "ports",
        "resources",
        "finalizers",
        "a",
        "$patch",
        "ownerReferences",
        "managedFields",
        "preconditions",
        "propagationPolicy",
        "target",
        "uid",
        "tasks",
        "limits",
        "cpu",
        "$retainKeys",
        "$setElementOrder/containers",
        "deleteOptions",
        "apiVersion",
        "kind",
        "schema",
        "versions",
        "names",
        "rules",
        "resourceVersion",
    ]
)
JSON = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
PATHS = [
    (PODS, f"{PODS}/p", a_pod("p")),
    (MAPS, f"{MAPS}/m", a_map("m", {"k": "v"})),
    (GANGS, f"{GANGS}/g", a_gang(tasks=[{"name": "t"}])),
    (CRDS, f"{CRDS}/gangs.example.com", a_definition()),
    (
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/apps/v1/namespaces/default/deployments/d",
        {"metadata": {"name": "d"}},
    ),
    (
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b",
        {},
    ),
    ("/api/v1/namespaces/default/resourcequotas", "/api/v1/namespaces/default/resourcequotas/q", {}),
    ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", f"{PODS}/p/binding", {}),
    (f"{PODS}/p/eviction", f"{PODS}/p/status", {}),
    ("/apis/authorization.k8s.io/v1/subjectaccessreviews", f"{GANGS}/g/scale", {}),
    ("/api/v1/namespaces/default/serviceaccounts/default/token", f"{GANGS}/g/status", {}),
    ("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "/api/v1/namespaces/other", {}),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", "/api/v1/nodes/n", {}),
]


def grafted(obj, path, value):
    """The object with one place of it replaced."""
    obj = copy.deepcopy(obj)
    place = obj
    for step in path[:-1]:
        place = place.setdefault(step, {}) if isinstance(place, dict) else {}
    if isinstance(place, dict):
        place[path[-1]] = value
    return obj


async def tell(place, body, how, query):
    api = Api(Server(Settings(chance=random.Random(1))))
    await api.create(CRDS, a_definition())
    for collection, _, valid in PATHS[:3]:
        await api.create(collection, valid)
    collection, single, _ = place
    if how == "POST":
        await api.create(collection, body, **query)
    elif how in {"PUT", "DELETE"}:
        await api.call(how, single, body, **query)
    else:
        await api.call("PATCH", single, body, media=how, **query)
    assert api.status in {200, 201, 400, 403, 404, 405, 409, 413, 415, 422, 429, 500, 501}
    await api.settle()
    assert (await api.get("/api/v1/pods", accept="application/json;as=Table;v=v1;g=meta.k8s.io"))["kind"] == "Table"


HOW = st.sampled_from(
    [
        "POST",
        "PUT",
        "DELETE",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
    ]
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATHS), st.lists(KEYS, min_size=1, max_size=4), JSON, HOW, st.booleans())
def test_a_strange_part_in_a_sensible_object(place, path, value, how, applied):
    query = {"fieldManager": "x", "force": "true"} if applied else {}
    asyncio.run(tell(place, grafted(place[2], path, value), how, query))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATHS), JSON, HOW)
def test_any_json_at_all(place, body, how):
    asyncio.run(tell(place, json.dumps(body).encode(), how, {"fieldManager": "x"}))


OPERATION = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
        "path": st.sampled_from(["", "/", "/spec", "/metadata/name", "/spec/containers/0", "/a/b"]),
    },
    optional={"value": JSON, "from": st.sampled_from(["", "/spec", "/metadata/labels"])},
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(OPERATION, max_size=3))
def test_any_json_patch(operations):
    asyncio.run(tell(PATHS[0], operations, "application/json-patch+json", {}))


@given(
    st.text(max_size=20),
    st.dictionaries(
        st.sampled_from(["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "watch"]),
        st.text(max_size=8),
    ),
)
def test_any_path_and_query(path, query):
    async def ask():
        api = Api(Server(Settings(chance=random.Random(1))))
        for each in (f"/{path}", f"/api/v1/{path}", f"/apis/{path}", PODS):
            await api.get(each, **query)
            assert api.status in {200, 400, 403, 404, 405, 410, 504}

    asyncio.run(ask())
