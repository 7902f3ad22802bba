"""The dashboard over HTTP on a live embedded cluster: what protects it, and who is told what. Browsers have tests of their own."""

import asyncio
import contextlib
import json
import random
import re

import aiohttp
import pytest
from tests.bodies.patience import PATIENCE_S
from tests.integration.processes.test_view_server import a_gang, post

from pumice.cli import dashboard
from pumice.cli.cluster_command import ClusterAccess
from pumice.clock import RealClock
from pumice.dashboard import guard
from pumice.dashboard.people import LinkAuthentication, TokenAuthentication
from pumice.dashboard.server import PAGES, Settings
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.kube.informer import silent
from pumice.local.apiserver.serving import Place
from pumice.local.nodes.pretend import pretend_nodes
from pumice.local.up import Up
from pumice.processes.controller_settings import ControllerSettings
from pumice.record.settings import RecordSettings

RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Site:
    """One cluster's pages, asked without a browser."""

    def __init__(self, cluster, session, port, links):
        self.cluster, self.session, self.links = cluster, session, links
        self.url = f"http://127.0.0.1:{port}"

    async def get(self, path, **headers):
        async with self.session.get(self.url + path, headers=headers, allow_redirects=False) as answer:
            return answer.status, await answer.text(), answer.headers

    async def post(self, path, form, **headers):
        async with self.session.post(self.url + path, data=form, headers=headers, allow_redirects=False) as answer:
            return answer.status, await answer.text(), answer.headers

    async def until(self, path, words, pause_s=0.05, **headers):
        async with asyncio.timeout(PATIENCE_S):
            while True:
                text = (await self.get(path, **headers))[1]
                if words in text:
                    return text
                await asyncio.sleep(pause_s)  # a session may ask ten times a second in the long run

    async def account(self, name, namespace=""):
        """An account that may list PodGroups in one namespace, or (without one) those of all and nodes; its token."""
        await post(self.cluster, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
        rules = [{"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["get", "list"]}]
        rules += [] if namespace else [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
        await post(self.cluster, f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        }
        where = f"{RBAC}/namespaces/{namespace}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
        await post(self.cluster, where, binding)
        return await self.token(name)

    async def token(self, name, audiences=("pumice.dev",)):
        """For looking; without audiences it is one for the API server itself."""
        path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
        spec = {"audiences": audiences} if audiences else {}
        return (await post(self.cluster, path, {"spec": spec}))["status"]["token"]


@contextlib.asynccontextmanager
async def a_site(folder, *, tokens=False, writes=False, log=silent):
    settings = ControllerSettings(record=RecordSettings(f"sqlite:///{folder / 'record.db'}", adopts=True))
    clock, links = RealClock(), []
    async with (
        Up(Place(folder), pretend_nodes(2, gpus=8), log=silent, settings=settings) as cluster,
        HttpTransport(config.find(str(cluster.kubeconfig), clock=clock), user_agent="test") as transport,
        HttpTransport(dashboard.bare(config.find(str(cluster.kubeconfig), clock=clock)), user_agent="test") as bare,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        client = Client(transport, clock=clock, chance=random.Random(1))
        access = ClusterAccess(client, config.find(str(cluster.kubeconfig), clock=clock), clock, "kube-system")
        authentication = (
            TokenAuthentication(client, clock, bare)
            if tokens
            else LinkAuthentication(client, clock, name="you", tell=links.append)
        )
        async with dashboard.serving(access, authentication, Settings(writes=writes), log=log) as served:
            if not tokens:
                authentication.renew()
            yield Site(cluster, session, served.port, links)


async def test_a_mistake_of_ours_is_told_with_its_number_and_logged_under_it(tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("of a page")

    logged = []
    async with a_site(tmp_path, log=lambda event, **facts: logged.append((event, facts))) as site:
        await site.post("/sign-in", {"secret": site.links[-1]})
        monkeypatch.setattr("pumice.dashboard.server.Dashboard._page_request", broken)
        status, text, headers = await site.get("/nodes")
        [(event, facts)] = logged
        assert (status, event, facts["path"]) == (500, "request_failed", "/nodes")
        assert "ZeroDivisionError" in facts["error"]
        assert "in broken" in facts["trace"]
        assert f"request {facts['request']}" in text
        assert "To the overview" in text  # in the dashboard's own look
        assert "content-security-policy" in headers
        status, text, headers = await site.get("/nosuch", accept="application/json")
        assert (status, json.loads(text)) == (404, {
            "title": "Not found", "cause": "There is no such page. The overview leads to all that there are."
        })  # fmt: skip
        status, text, headers = await site.get("/nodes", accept="application/json")
        assert (status, headers["content-type"].split(";")[0]) == (500, "application/json")
        assert logged[1][1]["request"] in json.loads(text)["cause"]


async def test_nobody_gets_in_without_the_link_or_by_a_strange_name(tmp_path):
    async with a_site(tmp_path) as site:
        for page in (each.path for each in PAGES if "{" not in each.path):
            status, _, headers = await site.get(page)
            assert (status, headers["location"]) == (303, "/sign-in")
        assert (await site.get("/live?page=/"))[0] == 401
        assert (await site.get("/history.csv"))[0] == 303
        assert (await site.get("/", host="evil.example"))[0] == 421
        for probe in ("/livez", "/readyz"):  # a kubelet asks by the pod's address, and signs in nowhere
            assert (await site.get(probe, host="10.0.0.7:8090"))[0] == 200
        assert (await site.post("/sign-in", {"secret": site.links[-1]}, origin="http://evil.example"))[0] == 403
        assert (await site.post("/sign-in", {"secret": "x" * 43}))[0] == 401
        status, _, headers = await site.post("/sign-in", {"secret": site.links[0]})
        assert status == 303
        assert "HttpOnly" in headers["set-cookie"]
        assert "SameSite=Lax" in headers["set-cookie"]
        assert (await site.post("/sign-in", {"secret": site.links[0]}))[0] == 401  # used
        await site.until("/", "GPUs in use")
        for path in ("/", "/sign-in", "/nothing", "/static/live.js", "/gangs?sort=wrong", "/gangs?page=-1"):
            _, text, headers = await site.get(path)
            assert {**headers, **{name.title(): value for name, value in guard.HEADERS.items()}} == {**headers}
            assert not re.search(r"<script(?! src=)|<style| style=|\son\w+=|javascript:", text.partition("// ")[0])


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("/gangs?q=a", "/gangs?q=a"),
        ("//evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("/\\evil.example", "/"),
        ("x", "/"),
    ],
)
async def test_after_a_choice_of_colours_one_is_where_one_was_and_nowhere_else(tmp_path, here, there):
    async with a_site(tmp_path) as site:
        status, _, headers = await site.post("/theme", {"theme": "dark", "here": here})
        assert (status, headers["location"]) == (303, there)


async def test_health_tells_of_the_controllers_and_the_record_where_all_is_one_process(tmp_path):
    async with a_site(tmp_path) as site:
        await site.post("/sign-in", {"secret": site.links[-1]})
        await a_gang(site.cluster, "train", 1, cpu="500")
        assert "Rows written" in await site.until("/health", "Record is behind by", pause_s=0.5)


async def test_guesses_of_others_behind_the_same_proxy_keep_nobody_out(tmp_path):
    async with a_site(tmp_path, tokens=True) as site:
        see = {"authorization": f"Bearer {await site.account('whole')}"}
        assert (await site.get("/gangs", **see))[0] in {200, 503}
        codes = [(await site.get("/", authorization=f"Bearer guess-{n}"))[0] for n in range(guard_limit() + 2)]
        assert codes[-1] == 429
        assert (await site.get("/gangs", **see))[0] in {200, 503}


async def test_signing_out_needs_the_sessions_own_word(tmp_path):
    async with a_site(tmp_path) as site:
        await site.post("/sign-in", {"secret": site.links[-1]})
        page = await site.until("/", "GPUs in use")
        assert (await site.post("/sign-out", {"csrf": "0" * 64}))[0] == 403
        assert (await site.get("/"))[0] == 200
        word = re.search(r'name="csrf" value="(\w+)"', page)[1]
        assert (await site.post("/sign-out", {"csrf": word}))[0] == 303
        assert (await site.get("/"))[0] == 303


async def test_a_proxys_token_is_reviewed_and_shows_what_its_owner_may_list(tmp_path):
    async with a_site(tmp_path, tokens=True) as site:
        for name in ("red", "blue"):
            await post(site.cluster, "/api/v1/namespaces", {"metadata": {"name": name}})
            await a_gang(site.cluster, f"{name}-gang", 1, namespace=name, cpu="500")
        whole, red = await site.account("whole"), await site.account("rita", "red")
        see = {"authorization": f"Bearer {whole}"}
        await site.until("/gangs", "red-gang", **see)
        await site.until("/gangs", "blue-gang", **see)
        only = {"authorization": f"Bearer {red}"}
        for page in ("/", "/gangs", "/nodes", "/queues", "/timeline", "/history", "/gangs?namespace=blue"):
            status, text, _ = await site.get(page, **only)
            assert status == 200, text
            assert "blue-gang" not in text
        assert "red-gang" in (await site.get("/gangs", **only))[1]
        for path in (
            "/gangs/blue/blue-gang",
            "/history?namespace=blue",
            "/history.csv?namespace=blue",
            "/what-if",
            "/health",
        ):
            assert (await site.get(path, **only))[0] == 403, path
        assert (await site.get("/gangs/red/red-gang", **only))[0] == 200
        assert (await site.get("/gangs/blue/blue-gang", **see))[0] == 200
        status, _, headers = await site.get("/sign-in", **see)  # whom a proxy has signed in sees no form
        assert (status, headers["location"]) == (303, "/")
        for wrong in ("nonsense", ""):
            assert (await site.get("/", authorization=f"Bearer {wrong}"))[0] in {303, 401}


async def test_a_stream_brings_only_what_its_reader_may_see(tmp_path):
    async with a_site(tmp_path, tokens=True) as site:
        await post(site.cluster, "/api/v1/namespaces", {"metadata": {"name": "red"}})
        await a_gang(site.cluster, "mine", 1, namespace="red", cpu="500")
        token = await site.account("rita", "red")
        headers = {"authorization": f"Bearer {token}"}
        await site.until("/gangs", "mine", **headers)
        told = []
        async with (
            asyncio.timeout(PATIENCE_S),
            site.session.get(f"{site.url}/live?page=/gangs&seen=", headers=headers) as answer,
        ):
            await a_gang(site.cluster, "secret", 1, namespace="default", cpu="500")
            await a_gang(site.cluster, "second", 1, namespace="red", cpu="500")
            async for line in answer.content:
                if line.startswith(b"data: "):
                    told.append(json.loads(line[6:])["parts"]["live_gangs"])
                    if "second" in told[-1]:
                        break
        assert all("secret" not in each for each in told)
        assert "mine" in told[0]


async def test_guessing_is_slowed_down(tmp_path):
    async with a_site(tmp_path, tokens=True) as site:
        codes = [(await site.get("/", authorization=f"Bearer guess-{n}"))[0] for n in range(guard_limit() + 2)]
        assert codes[0] == 401
        assert codes[-1] == 429


def guard_limit():
    return int(guard.SIGN_INS_AT_ONCE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "0.0.0.0:0", "--auth", "link", "--host", "a"], "a link is for one person on this machine"),
        (["--listen", "pumice.example.org"], "expected host:port, such as 127.0.0.1:8080"),
        (["--listen", "0.0.0.0:0"], "name the host under which browsers come"),
    ],
)
def test_what_would_be_unsafe_is_refused(arguments, said):
    from click.testing import CliRunner

    result = CliRunner().invoke(dashboard.dashboard, arguments)
    assert said in str(result.exception)
