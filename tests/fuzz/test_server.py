"""The embedded API server under requests that nobody meant, over every path that its OpenAPI document names: it answers each, and never with 5xx."""

import json
import random

from tests.fuzz.mutations import VALUES, mutated
from tests.fuzz.targets import GROUP, JOB, POD, QUEUE

from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.kube.transport import Request
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.up import install_kinds

REQUESTS = 400
SEED = 1
MEDIA = (
    "application/json", "application/yaml", "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml", "application/vnd.kubernetes.protobuf", "text/plain", "",
)  # fmt: skip
QUERIES = {
    "labelSelector": ("app=train", "a in (", "\x00"), "fieldSelector": ("metadata.name=a", "spec.nodeName", "=,"), "limit": ("1", "-1", "x", "9" * 30), "continue": ("x", "e30="),
    "resourceVersion": ("0", "7", "-1", "x"), "resourceVersionMatch": ("Exact", "NotOlderThan", "x"), "fieldManager": ("me", "x" * 300), "force": ("true", "x"), "dryRun": ("All", "x"),
    "propagationPolicy": ("Foreground", "x"), "fieldValidation": ("Strict", "x"), "pretty": ("true",), "gracePeriodSeconds": ("0", "-1", "x"),
}  # fmt: skip
BODIES = [
    json.dumps(body).encode()
    for body in (POD, JOB, GROUP, QUEUE, [{"op": "add", "path": "/metadata/labels", "value": {}}], {})
]

ROOTS = {"pods": "/api/v1/", "jobs": "/apis/batch.volcano.sh/", "podgroups": "/apis/scheduling.volcano.sh/", "queues": "/apis/scheduling.volcano.sh/"}  # fmt: skip
BODY_OF = dict(zip(ROOTS, BODIES, strict=False))


async def paths_of(transport):
    """Every path that the server documents."""
    index = json.loads((await transport.call(Request("GET", "/openapi/v3", {}, {}))).body)
    found = []
    for entry in index["paths"].values():
        path, _, query = entry["serverRelativeURL"].partition("?")
        answer = await transport.call(Request("GET", path, dict([query.split("=", 1)]) if query else {}, {}))
        found += json.loads(answer.body)["paths"]
    return sorted(found)


def a_request(paths, chance):
    ours = [path for path in paths if any(root in path and f"/{plural}" in path for plural, root in ROOTS.items())]
    path = chance.choice(ours if chance.random() < 0.6 else paths)
    path = path.replace("{namespace}", chance.choice(("default", "default", "team", "", "x/y", "..")))
    path = path.replace("{name}", chance.choice(("a", "train", "g", "default", "\x00", "A" * 300, "..")))
    query = {name: chance.choice(values) for name, values in QUERIES.items() if chance.random() < 0.15}
    method = chance.choice(("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
    headers = {
        "content-type": chance.choice(MEDIA),
        "accept": chance.choice(("application/json", "*/*", "application/yaml", "x", "")),
    }
    fitting = [body for plural, body in BODY_OF.items() if f"/{plural}" in path and path.startswith(ROOTS[plural])]
    body = b"" if method == "GET" else mutated(chance.choice(fitting or BODIES), chance)
    if chance.random() < 0.1:
        body = json.dumps(chance.choice(VALUES)).encode()
    return Request(method, path, query, headers, body)


async def test_every_request_is_answered_and_none_with_an_error_of_the_servers_own():
    chance, wrong = random.Random(SEED), []
    async with Server(Settings(chance=random.Random(0))) as server:
        transport = LocalTransport(server)
        await install_kinds(Client(transport, clock=RealClock(), chance=random.Random(0)))
        paths = await paths_of(transport)
        assert len(paths) > 100
        for number in range(REQUESTS):
            request = a_request(paths, chance)
            try:
                answer = await transport.call(request)
            except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
                wrong.append(f"{number}: {request}: raised {error!r}")
                continue
            if answer.status >= 500:
                wrong.append(f"{number}: {request}: {answer.status} {answer.body[:300]!r}")
    assert not wrong, f"seed {SEED}: {len(wrong)} of {REQUESTS}\n" + "\n".join(wrong[:5])
