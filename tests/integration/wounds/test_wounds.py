"""Wounds of the neighbours, each a test of ours: what happened elsewhere must not happen here.

Every test names its case: an advisory, an audit or an issue of a scheduler, a queueing system or a library in this field.
"""

import asyncio
import contextlib
import datetime as dt
import itertools
import json
import ssl
import stat
from pathlib import Path

import aiohttp
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.bodies.patience import PATIENCE_S
from tests.cases import admission
from tests.unit.processes.peers import Peer
from tests.unit.scheduling import clusters
from tests.unit.webhooks.reviews import request

from pumice import certificates, quantity, yamltext
from pumice.api import names
from pumice.api.validation.hypernodes import review_hyper_node
from pumice.api.validation.request import Operation, Request, Settings
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.errors import KubeError
from pumice.local.apiserver.serving import EmbeddedServer, Place
from pumice.processes.extender_client import ANSWER_BYTES_MAX, HttpExtender, read_address
from pumice.processes.health import HealthServer, Pulse
from pumice.scheduling.core.ports import ExtenderFailed
from pumice.telemetry.meters import Meters
from pumice.webhooks.admission import Admission
from pumice.webhooks.certificate_store import ServingContext
from pumice.webhooks.keys import Lives, renew
from pumice.webhooks.reviews import Reviewer
from pumice.webhooks.serving import BODY_BYTES_MAX, ReviewServer

ROOT = Path(__file__).parents[3]
SLOW_BODIES = 200
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
FOREIGN = {"Origin": "https://evil.example", "Host": "evil.example"}


@contextlib.asynccontextmanager
async def reviewing():
    """The review server over TLS: its port, and a context that trusts it."""
    made = renew(None, ["127.0.0.1"], now=dt.datetime.now(dt.UTC), lives=Lives(), trusted=b"")
    serving = ServingContext()
    serving.take_up(made.pair)
    server = ReviewServer(Admission(Reviewer(admission.World(admission.QUEUES))), Meters())
    port = await server.start("127.0.0.1:0", serving.context)
    try:
        yield port, ssl.create_default_context(cadata=made.bundle.decode())
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def healthy():
    """The health server of a process: its address."""
    health = HealthServer(Pulse(RealClock()), Meters())
    port = await health.start("127.0.0.1:0")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await health.stop()


@contextlib.asynccontextmanager
async def connection(port, context):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()


# ---------------------------------------------------------------------------------------------------------- the network


async def test_cve_2026_44247_no_body_is_too_large_or_too_slow_for_the_webhooks():
    """Volcano's webhook read bodies without a limit: any pod could end it."""
    head = b"POST /jobs/validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request(admission.JOB)}
    async with asyncio.timeout(PATIENCE_S), reviewing() as (port, context), contextlib.AsyncExitStack() as stack:
        for _ in range(SLOW_BODIES):
            _, writer = await stack.enter_async_context(connection(port, context))
            writer.write(head % BODY_BYTES_MAX + b"[")  # and then nothing more
        session = await stack.enter_async_context(aiohttp.ClientSession())
        url = f"https://127.0.0.1:{port}/jobs/validate"
        usual = {"data": msgspec.json.encode(review), "headers": {"content-type": "application/json"}, "ssl": context}
        async with session.post(url, **usual) as answer:
            assert (await answer.json())["response"]["allowed"] is True
        reader, writer = await stack.enter_async_context(connection(port, context))
        writer.write(head % (4 * 2**20))
        assert b" 413 " in await reader.readline()


async def test_cve_2023_44487_http_2_is_not_spoken():
    """Rapid reset: a stream costs its sender nothing, and the server much."""
    async with reviewing() as (port, context):
        context.set_alpn_protocols(["h2", "http/1.1"])
        async with connection(port, context) as (_, writer):
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"


def test_cve_2025_32777_an_extender_that_never_ends_costs_a_limit():
    """Volcano's scheduler read what an extender answered until the memory was full."""

    def endless(peer, socket):
        peer.request(socket)
        socket.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        while not peer.ended.is_set():
            socket.sendall(b"[" * 65_536)

    with Peer(endless) as peer:
        extender = HttpExtender(read_address(peer.address), timeout_s=PATIENCE_S)
        with contextlib.closing(extender), pytest.raises(ExtenderFailed, match=f"longer than {ANSWER_BYTES_MAX} bytes"):
            extender("predicate", {})


async def test_kueueviz_12531_a_page_of_another_origin_gets_nothing_to_read():
    """A dashboard accepted WebSockets of any origin: every page that a user visited could read the cluster."""
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "eA==",
    }
    async with healthy() as address, aiohttp.ClientSession() as session:
        for path in ("/metrics", "/readyz", "/v1/gangs/team/train"):
            async with session.get(f"{address}{path}", headers={**FOREIGN, **upgrade}) as answer:
                assert answer.status != 101
                assert "access-control-allow-origin" not in answer.headers


async def test_cve_2023_48022_nothing_can_be_changed_without_saying_who_one_is(tmp_path):
    """Ray's dashboard ran anybody's code; later its guard forgot DELETE (CVE-2026-27482). Also by a rebound DNS name."""
    async with healthy() as address, aiohttp.ClientSession() as session:
        for method, path in itertools.product(UNSAFE, ("/livez", "/readyz", "/metrics", "/v1/gangs/team/train", "/")):
            async with session.request(method, f"{address}{path}", headers=FOREIGN) as answer:
                assert answer.status in {404, 405}, f"{method} {path}"
    async with EmbeddedServer(Place(tmp_path)) as embedded, aiohttp.ClientSession() as session:
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        for method, path in itertools.product((*UNSAFE, "GET"), ("/api/v1/namespaces/default/pods", "/api/v1/nodes/n")):
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
            url = f"{embedded.url}{path}"
            async with session.request(method, url, json=body, headers=FOREIGN, ssl=context) as answer:
                assert answer.status in {401, 403}, f"{method} {path}"
                assert "access-control-allow-origin" not in answer.headers


async def test_volcano_graduation_audit_no_debug_endpoint_no_readable_key_no_privilege(tmp_path):
    """pprof was on by default, files were readable by all, and containers had no security context."""
    async with healthy() as address, aiohttp.ClientSession() as session:
        for path in ("/debug/pprof", "/debug/pprof/heap", "/debug", "/configz", "/flags", "/dump"):
            async with session.get(f"{address}{path}") as answer:
                assert answer.status == 404, path
    pair = certificates.authority("test", now=dt.datetime.now(dt.UTC))
    pair.write(tmp_path / "a.crt", tmp_path / "a.key")
    assert stat.S_IMODE((tmp_path / "a.key").stat().st_mode) == 0o600
    deployments = [each for each in plain_manifest() if each["kind"] == "Deployment"]
    assert len(deployments) == 3
    for container in (each for one in deployments for each in one["spec"]["template"]["spec"]["containers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not any("pprof" in argument or "debug" in argument for argument in container["args"])


# ---------------------------------------------------------------------------------------------------------- rights


def plain_manifest():
    return [each for each in yamltext.load_all((ROOT / "deploy/pumice.yaml").read_text(), source="plain") if each]


def granted():
    """One line for each verb of each role, by the account that has it."""
    objects = plain_manifest()
    roles = {
        (each["kind"], each["metadata"]["name"]): each for each in objects if each["kind"] in {"Role", "ClusterRole"}
    }
    for binding in (each for each in objects if each["kind"] in {"RoleBinding", "ClusterRoleBinding"}):
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        where = "its own namespace" if binding["kind"] == "RoleBinding" else "the cluster"
        for rule, subject in itertools.product(role["rules"], binding["subjects"]):
            for group, resource in itertools.product(rule["apiGroups"], rule["resources"]):
                what = f"{resource}.{group}".rstrip(".")
                only = f" named {', '.join(rule['resourceNames'])}" if "resourceNames" in rule else ""
                yield f"{subject['name']}: {' '.join(rule['verbs'])} {what}{only} in {where}"


def test_cve_2024_36533_no_account_has_more_rights_than_were_agreed_on():
    """Volcano's accounts could read every Secret and create CRDs. A new right is a new line here, for a reviewer to see.

    That each right is used, and none is missing, is tested on the real server (tests/kube/test_rbac.py).
    """
    agreed = (Path(__file__).parent / "rights.txt").read_text().splitlines()
    assert sorted(granted()) == agreed
    for line in agreed:
        assert "*" not in line
        assert not {"escalate", "bind", "impersonate"} & set(line.split())
        assert "customresourcedefinitions" not in line
        assert "secrets" not in line or line.startswith("pumice-controllers:") or " named " in line


TENANTS = ("red", "blue")
annotation = st.sampled_from(["g", "red/g", "blue/g", "../red/g", "red", "", "g/../../red"])


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(TENANTS), annotation, annotation), max_size=6))
def test_cve_2026_24176_a_pod_joins_groups_of_its_own_namespace_alone(pods):
    """In KAI a pod of one tenant could name, and change, the group of another."""
    made = [
        clusters.a_pod(
            f"p{number}",
            namespace=tenant,
            annotations={
                key: value
                for key, value in zip((names.GROUP_NAME, names.VOLCANO_GROUP_NAME), wanted, strict=True)
                if value
            },
        )
        for number, (tenant, *wanted) in enumerate(pods)
    ]
    groups = [clusters.a_group("g", 1, namespace=tenant) for tenant in TENANTS]
    cluster = clusters.a_cluster(clusters.a_node("n1", cpu="8"), *groups, *made)
    for key, gang in cluster.gangs.items():
        for task in gang.tasks.values():
            assert task.namespace == key.partition("/")[0]


# ---------------------------------------------------------------------------------------------------------- parsers


def test_alias_bombs_overflows_and_costly_patterns_are_refused_or_cheap():
    """The classics of a parser's undoing."""
    laughs = "a0: &a0 [lol, lol]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
    with pytest.raises(yamltext.YamlError, match="alias"):
        yamltext.load_all(laughs, source="bomb")
    with pytest.raises(yamltext.YamlError):
        yamltext.load_all("[" * 100_000, source="deep")
    for text in ("1e1000000000", "9" * 100_000, "1Ei" * 1000):
        with contextlib.suppress(quantity.QuantityError):
            quantity.parse_value(text)  # an error or a number, but at once
    costly = {"exactMatch": None, "regexMatch": {"pattern": "(a+)+$"}}
    members = [{"type": "Node", "selector": {key: value for key, value in costly.items() if value}}]
    node = {"metadata": {"name": "s0"}, "spec": {"tier": 1, "members": members}}
    asked = Request(Operation.CREATE, new=node, old=None, lookup=admission.World(admission.QUEUES), settings=Settings())
    assert not review_hyper_node(asked).errors
    backtracking = {
        **node,
        "spec": {**node["spec"], "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": r"(a)\1"}}}]},
    }
    refused = Request(
        Operation.CREATE, new=backtracking, old=None, lookup=admission.World(admission.QUEUES), settings=Settings()
    )
    assert review_hyper_node(refused).errors


def test_a_kubeconfig_cannot_make_a_server_process_run_a_command(tmp_path):
    """Exec plugins run whatever the file says; processes of a cluster have no business with them."""
    ran = tmp_path / "ran"
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(ran)]}}
    file = tmp_path / "config"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )

    async def ask():
        connection = config.find(str(file), clock=RealClock())
        await connection.credentials.access()

    with pytest.raises(KubeError):
        asyncio.run(ask())
    assert not ran.exists()
