"""The leader's view over HTTP, on a whole embedded cluster: who may read what, filters, and a stream that sees a change."""

import asyncio
import contextlib
import dataclasses
import json
from urllib.parse import urlencode

import aiohttp
import pytest
from tests.bodies.patience import PATIENCE_S

from pumice.api import names
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.kube.informer import silent
from pumice.kube.transport import Request
from pumice.local.apiserver.serving import Place
from pumice.local.nodes.pretend import pretend_nodes
from pumice.local.up import Up
from pumice.processes import view_server
from pumice.processes.health import HealthServer
from pumice.processes.view_server import ViewServer
from pumice.readmodel.build import Views

ACCOUNTS = "/api/v1/namespaces/kube-system/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Asker:
    """Asks one cluster's view as one account."""

    def __init__(self, cluster, session, token):
        self.address = f"http://127.0.0.1:{cluster.port}"
        self.session = session
        self.headers = {"authorization": f"Bearer {token}"} if token else {}

    async def __call__(self, path, **headers):
        async with self.session.get(f"{self.address}{path}", headers={**self.headers, **headers}) as answer:
            return answer.status, await answer.json(content_type=None)


async def post(cluster, path, body):
    request = Request("POST", path, {}, {"content-type": "application/json"}, json.dumps(body).encode())
    return json.loads((await cluster.client.call(request)).body)


async def token_of(cluster, account="pumice-viewer", audience=names.VIEW_AUDIENCE):
    spec = {"audiences": [audience]} if audience else {}
    return (await post(cluster, f"{ACCOUNTS}/{account}/token", {"spec": spec}))["status"]["token"]


async def a_gang(cluster, name, pods, *, namespace="default", cpu="1"):
    group = {"metadata": {"name": name}, "spec": {"minMember": pods, "queue": "default"}}
    await cluster.client.create(PodGroup, group, namespace=namespace)
    for number in range(pods):
        container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu}}}
        metadata = {"name": f"{name}-{number}", "annotations": {names.GROUP_NAME: name}}
        spec = {"schedulerName": "volcano", "containers": [container]}
        await cluster.client.create(Pod, {"metadata": metadata, "spec": spec}, namespace=namespace)


@contextlib.asynccontextmanager
async def started(folder):
    async with Up(Place(folder), pretend_nodes(2, gpus=8), log=silent) as cluster, aiohttp.ClientSession() as session:
        yield cluster, session, Asker(cluster, session, await token_of(cluster))


async def until(ask, path, wanted):
    """Asks after each change of the view until the answer is as wanted."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            status, body = await ask(path)
            if status == 200 and wanted(body):
                return body
            await asyncio.sleep(0.02)


async def test_the_whole_view_and_parts_of_it_are_told(tmp_path):
    async with started(tmp_path) as (cluster, _, ask):
        await a_gang(cluster, "huge", 3, cpu="500")
        one = await until(
            ask, "/v1/gangs/default/huge", lambda body: body["gang"]["members"]["pods"] == 3 and "room" in body
        )
        assert one["room"][0]["fit"] == 0
        assert one["room"][0]["waiting"] == 3
        state = await until(ask, "/v1/state", lambda body: body.get("gangs"))
        assert (state["version"], len(state["nodes"]), state["gangs"][0]["key"]) == (1, 2, "default/huge")
        assert state["policy"]["source"] == "built-in policy"
        assert set((await ask("/v1/state?kind=queues"))[1]) == {
            "version", "leader", "cycle", "at", "policy", "totals", "queues",
        }  # fmt: skip
        assert "gangs" not in (await ask("/v1/state?namespace=elsewhere"))[1]
        assert "nodes" not in (await ask("/v1/state?namespace=default"))[1]
        assert [each["name"] for each in (await ask("/v1/state?queue=root&kind=queues"))[1]["queues"]] == ["root"]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/v1/state?kind=cats", 400, "kind 'cats': there are nodes, queues, gangs, claims, attempts, evictions"),
        ("/v1/state?name=x", 400, "unknown parameter 'name'; there are kind, queue and namespace"),
        ("/v1/gangs/default/ghost", 404, "no gang default/ghost was seen in the last cycle of this scheduler"),
    ],
)
async def test_what_cannot_be_told_says_why(tmp_path, path, status, said):
    async with started(tmp_path) as (_, _, ask):
        await until(ask, "/v1/state", lambda body: body["cycle"] > 0)
        assert await ask(path) == (status, {"error": said})


TINY = "actions: enqueue, allocate\ntiers: [{plugins: [{name: priority}, {name: gang}, {name: predicates}]}]"


async def test_a_question_may_name_another_policy(tmp_path):
    async with started(tmp_path) as (cluster, _, ask):
        await a_gang(cluster, "huge", 3, cpu="500")
        await until(ask, "/v1/gangs/default/huge", lambda body: body["gang"]["members"]["pods"] == 3)
        status, told = await ask(f"/v1/what-if?{urlencode({'policy': TINY})}")
        assert (status, told["waiting"], told["starts"]) == (200, 1, {})
        assert told["forecasts"]["default/huge"]["after"]["p50"] is None
        for text, said in (
            ("actions: nap", "policy of the question: "),
            (TINY.replace("predicates", "shares-of-nothing"), "policy of the question: "),
            (TINY + "#" * 2**14, f"the policy has {len(TINY) + 2**14} bytes, 16384 at most; "),
            (TINY.replace("{name: gang}", EXTENDER), "policy of the question: plugin extender: no program is asked"),
        ):
            status, told = await ask(f"/v1/what-if?{urlencode({'policy': text})}")
            assert (status, told["error"][: len(said)]) == (400, said)


EXTENDER = "{name: extender, arguments: {extender.urlPrefix: 'http://127.0.0.1:1'}}"


async def let_see_groups(cluster, account):
    """The account may get and list the PodGroups of the namespace default."""
    rule = {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["get", "list"]}
    await post(cluster, f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "see"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "see"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "see"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": account}],
    }
    await post(cluster, f"{RBAC}/namespaces/default/rolebindings", binding)


async def test_only_tokens_for_this_audience_and_accounts_with_the_right_are_answered(tmp_path):
    async with started(tmp_path) as (cluster, session, ask):
        await a_gang(cluster, "mine", 1, cpu="500")
        await until(ask, "/v1/gangs/default/mine", lambda body: body["gang"]["members"]["pods"] == 1)
        await post(cluster, ACCOUNTS, {"metadata": {"name": "narrow"}})
        for token in ("", "nonsense", await token_of(cluster, audience="")):
            assert (await Asker(cluster, session, token)("/v1/state"))[0] == 401
        narrow = Asker(cluster, session, await token_of(cluster, "narrow"))
        assert (await narrow("/v1/gangs/default/mine"))[0] == 403
        await let_see_groups(cluster, "narrow")
        assert (await narrow("/v1/gangs/default/mine"))[0] == 200
        assert (await narrow("/v1/state?namespace=default"))[0] == 200
        for path in ("/v1/state", "/v1/changes", "/v1/state?namespace=kube-system", "/v1/gangs/kube-system/x"):
            status, body = await narrow(path)
            assert (status, "may not" in body["error"]) == (403, True), path


async def test_who_may_see_one_namespace_is_told_its_gangs_and_nothing_but_sums_of_others(tmp_path):
    async with started(tmp_path) as (cluster, session, ask):
        await post(cluster, "/api/v1/namespaces", {"metadata": {"name": "secret"}})
        await a_gang(cluster, "mine", 1)
        await a_gang(cluster, "hidden", 3, namespace="secret")
        await until(
            ask, "/v1/state", lambda body: {each["running"] for each in body["queues"] if "running" in each} == {2}
        )
        await post(cluster, ACCOUNTS, {"metadata": {"name": "narrow"}})
        await let_see_groups(cluster, "narrow")
        narrow = Asker(cluster, session, await token_of(cluster, "narrow"))
        status, seen = await narrow("/v1/state?namespace=default")
        assert (status, seen["namespace"]) == (200, "default")
        assert [each["key"] for each in seen["gangs"]] == ["default/mine"]
        [queue] = [each for each in seen["queues"] if each["name"] == "default"]
        assert (queue["allocated"]["cpu"], queue["running"]) == ("4", 2)
        for path in ("/v1/state?namespace=default", "/v1/gangs/default/mine"):
            status, seen = await narrow(path)
            assert (status, "hidden" in json.dumps(seen), "secret" in json.dumps(seen)) == (200, False, False)


async def test_through_the_api_server_the_token_travels_in_a_header_of_its_own(tmp_path):
    async with started(tmp_path) as (cluster, session, ask):
        await until(ask, "/v1/state", lambda body: body["cycle"] > 0)
        nobody = Asker(cluster, session, "")
        assert (await nobody("/v1/state", **{names.VIEW_HEADER: await token_of(cluster)}))[0] == 200
        assert (await nobody("/v1/state", **{names.VIEW_HEADER: "nonsense"}))[0] == 401


async def test_a_stream_tells_everything_and_then_what_changes(tmp_path):
    async with started(tmp_path) as (cluster, session, ask):
        await until(ask, "/v1/state", lambda body: len(body.get("nodes", ())) == 2)
        async with (
            asyncio.timeout(PATIENCE_S),
            session.get(f"{ask.address}/v1/changes", headers=ask.headers) as answer,
        ):
            lines = (json.loads(line) async for line in answer.content if line.strip())
            first = await anext(lines)
            assert [each["name"] for each in first["nodes"]] == ["node-0", "node-1"]
            await a_gang(cluster, "fresh", 1)
            told = set()
            async for line in lines:
                assert line["cycle"] > first["cycle"]
                told |= {gang["key"] for gang in line.get("gangs", ())}
                if any(attempt["gang"] == "default/fresh" for attempt in line.get("attempts", ())):
                    break
            assert told == {"default/fresh"}


async def test_streams_have_a_limit_and_end_with_the_server(tmp_path, monkeypatch):
    monkeypatch.setattr(view_server, "STREAMS_MAX", 1)
    async with aiohttp.ClientSession() as session:
        async with started(tmp_path) as (_, _, ask):
            await until(ask, "/v1/state", lambda body: body["cycle"] > 0)
            answer = await session.get(f"{ask.address}/v1/changes", headers=ask.headers)
            await answer.content.readline()
            assert (await ask("/v1/changes"))[0] == 503
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(aiohttp.ClientError):
                await answer.content.read()
        answer.close()


@dataclasses.dataclass
class Standby:
    """As much of an Election as the view asks for."""

    stands_by: bool = True
    identity: str = "scheduler-b_8"
    holder: str = "scheduler-a_7"


async def test_who_does_not_lead_names_the_leader(tmp_path):
    async with (
        started(tmp_path) as (cluster, session, _),
        served(cluster, Standby()) as address,
        session.get(f"{address}/v1/state") as answer,
    ):
        assert answer.status == 503
        assert (await answer.json())["error"].startswith("another process leads: scheduler-a_7")


async def test_before_the_first_cycle_nobody_learns_more_than_he_may(tmp_path):
    async with started(tmp_path) as (cluster, session, ask), served(cluster, None) as address:
        for headers, status, said in (
            ({}, 401, ""),
            (ask.headers, 503, "no cycle has been planned yet"),
        ):
            for path in ("state", "gangs/default/some", "gangs/default/some/suggestions", "what-if", "changes"):
                async with session.get(f"{address}/v1/{path}", headers=headers) as answer:
                    assert answer.status == status
                    assert (await answer.json())["error"].startswith(said)


@contextlib.asynccontextmanager
async def served(cluster, election):
    """A view that no cycle was published to."""
    view = ViewServer(Views(), cluster.client, election)
    health = HealthServer(cluster.scheduler.pulse, cluster.scheduler.meters, view=view)
    port = await health.start("127.0.0.1:0")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await health.stop()
