"""The embedded API server as its OpenAPI document describes it: bodies are drawn from the document's own schemas, and what a client may rely on holds.

Schemas are walked here and not by a library: a kind's schema refers to itself through others, its quantities and patterns are Kubernetes' own, and a
body that is drawn evenly from all fields is never accepted. So each object has few fields, and a name, a kind and a namespace that are right.
"""

import asyncio
import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.test_server import AS_REAL_SERVERS

from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.kube.transport import Request
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.up import install_kinds

EXAMPLES, EXAMPLES_SOAK = 60, 5_000
FIELDS_MAX = 4  # of one object
DEPTH_MAX = 7
JSON = {"content-type": "application/json"}
WORDS = st.sampled_from(["a", "train", "w-0", "default", "", "A b", "x" * 64, "é", "1"])
QUANTITIES = st.sampled_from(["1", "500m", "2Gi", 3, "-1", "x"])
KEPT_OUT = {"resourceVersion", "uid", "deletionTimestamp", "generateName", "finalizers", "managedFields", "ownerReferences", "namespace", "name"}  # fmt: skip


@pytest.fixture(scope="module")
def server():
    """A server that answers, and the operations that it documents: path, kind, schema and all schemas."""
    with asyncio.Runner() as runner:
        made = Server(Settings(chance=random.Random(0)))
        runner.run(made.__aenter__())
        transport = LocalTransport(made)
        runner.run(install_kinds(Client(transport, clock=RealClock(), chance=random.Random(0))))

        def call(method, path, body=None, query=None, headers=None):
            data = b"" if body is None else json.dumps(body).encode()
            return runner.run(transport.call(Request(method, path, query or {}, headers or JSON, data)))

        yield call, list(operations(call))
        runner.run(made.__aexit__(None, None, None))


def operations(call):
    for entry in json.loads(call("GET", "/openapi/v3").body)["paths"].values():
        path, _, query = entry["serverRelativeURL"].partition("?")
        document = json.loads(call("GET", path, query=dict([query.split("=", 1)]) if query else {}).body)
        for each, methods in document["paths"].items():
            if {"post", "get"} <= methods.keys() and f"{each}/{{name}}" in document["paths"]:
                kind = methods["post"]["x-kubernetes-group-version-kind"]
                body = methods["post"]["requestBody"]["content"]["application/json"]["schema"]
                yield each.replace("{namespace}", "default"), kind, body, document["components"]["schemas"]


def drawn(draw, schema, known, depth=0):
    """A value that the schema allows."""
    while "$ref" in schema or "allOf" in schema:
        schema = known[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema["allOf"][0]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if schema.get("x-kubernetes-int-or-string"):
        return draw(QUANTITIES)
    match schema.get("type"):
        case "object":
            return drawn_object(draw, schema, known, depth)
        case "array":
            count = draw(st.integers(0, 2)) if depth < DEPTH_MAX else 0
            return [drawn(draw, schema.get("items", {}), known, depth + 1) for _ in range(count)]
        case "integer" | "number":
            return draw(st.integers(schema.get("minimum", -1), schema.get("maximum", 10)))
        case "boolean":
            return draw(st.booleans())
        case "string" if schema.get("format") == "date-time":
            return draw(st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+01:00"]))
    return draw(WORDS)


def drawn_object(draw, schema, known, depth):
    fields, more = schema.get("properties", {}), schema.get("additionalProperties")
    chosen = [name for name in schema.get("required", ()) if name in fields]
    if depth < DEPTH_MAX and fields:
        chosen += draw(st.lists(st.sampled_from(sorted(fields)), max_size=FIELDS_MAX, unique=True))
    found = {name: drawn(draw, fields[name], known, depth + 1) for name in dict.fromkeys(chosen)}
    if isinstance(more, dict) and depth < DEPTH_MAX:
        found |= {key: drawn(draw, more, known, depth + 1) for key in draw(st.lists(WORDS, max_size=2, unique=True))}
    return found


def an_object(draw, kind, schema, known):
    body = drawn(draw, schema, known)
    meta = {key: value for key, value in (body.get("metadata") or {}).items() if key not in KEPT_OUT}
    version = f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"]
    return {**body, "apiVersion": version, "kind": kind["kind"], "metadata": {**meta, "name": "drawn"}}


def check(answer, what):
    """No error of the server's own; and what is refused is refused in Kubernetes' words."""
    if answer.status >= 500:
        assert any(text in answer.body for text in AS_REAL_SERVERS), (what, answer.status, answer.body[:300])
    body = json.loads(answer.body)
    if answer.status >= 400:
        assert (body["kind"], body["status"], body["code"]) == ("Status", "Failure", answer.status), what
        assert body["message"], what
        assert body["reason"], what
    return body


def without_status(obj):
    """What only its owner writes."""
    meta = {key: obj["metadata"].get(key) for key in ("name", "namespace", "uid", "labels", "annotations")}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": meta}


def told_once(call, path, body):
    """An object's life, as a client sees it."""
    tried = call("POST", path, body, {"dryRun": "All"})
    check(tried, ("dry run", path, body))
    assert call("GET", f"{path}/drawn").status == 404
    made = call("POST", path, body)
    answer = check(made, ("POST", path, body))
    assert (made.status < 300) == (tried.status < 300), (path, body, tried.body[:300], made.body[:300])
    if made.status >= 300:
        return
    name = f"{path}/drawn"
    try:
        seen = check(call("GET", name), name)
        assert without_status(seen) == without_status(answer)
        again = call("PUT", name, seen)
        check(again, ("PUT", name, seen))
        assert again.status in {200, 409}, (name, seen, again.body[:300])  # 409: a controller of the server was quicker
        assert call("POST", path, body).status == 409
        merged = call(
            "PATCH",
            name,
            {"metadata": {"labels": {"drawn": "yes"}}},
            headers={"content-type": "application/merge-patch+json"},
        )
        assert check(merged, ("PATCH", name, seen))["metadata"]["labels"]["drawn"] == "yes", (name, seen)
        listed = check(call("GET", path), path)
        assert [each["metadata"]["name"] for each in listed["items"] if each["metadata"]["name"] == "drawn"] == [
            "drawn"
        ]
    finally:
        gone = call("DELETE", name, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        check(gone, ("DELETE", name))
    assert call("GET", name).status == 404, (name, gone.body[:300])


def play(server, examples):
    call, found = server

    @settings(
        max_examples=examples, deadline=None, derandomize=examples == EXAMPLES, database=None,
        suppress_health_check=list(HealthCheck), print_blob=True,
    )  # fmt: skip
    @given(st.data())
    def lives(data):
        path, kind, schema, known = found[data.draw(st.integers(0, len(found) - 1))]
        told_once(call, path, an_object(data.draw, kind, schema, known))

    lives()


def test_an_object_that_the_document_allows_is_refused_in_words_or_lives_as_clients_expect(server):
    assert len(server[1]) > 20
    play(server, EXAMPLES)


@pytest.mark.soak
def test_the_same_for_long(server):
    play(server, EXAMPLES_SOAK)
