"""A cluster on this machine with something to see in it, its dashboard, and a browser that looks."""

import contextlib
import dataclasses
import json
import os
import random
import shutil
from pathlib import Path

from tests.bodies.patience import PATIENCE_S

from pumice.api.batch import Job
from pumice.api.scheduling import Queue
from pumice.cli import dashboard
from pumice.cli.cluster_command import ClusterAccess
from pumice.clock import RealClock
from pumice.dashboard.people import LinkAuthentication, TokenAuthentication
from pumice.dashboard.server import Settings
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.kube.transport import Request
from pumice.local.apiserver.serving import Place
from pumice.local.nodes.pretend import pretend_nodes
from pumice.local.up import Up
from pumice.processes.controller_settings import ControllerSettings
from pumice.record.settings import RecordSettings
from pumice.runtime import silent
from pumice.scheduling.core import builtin

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
JSON = {"content-type": "application/json"}
GPU = "nvidia.com/gpu"
POLICY = builtin.parse(builtin.TEXT.replace("patience: 5m", "patience: 0s"), "policy of the browser tests")


@dataclasses.dataclass
class Stage:
    """`visit` opens a page of the dashboard in a browser of its own; what went wrong in it is in `troubles`."""

    cluster: Up
    client: Client
    port: int
    link: list
    context: object
    troubles: list

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def post(self, path, body):
        return json.loads((await self.client.call(Request("POST", path, {}, JSON, json.dumps(body).encode()))).body)

    async def queue(self, name, weight=1, **spec):
        await self.client.create(Queue, {"metadata": {"name": name}, "spec": {"weight": weight, **spec}})

    async def namespace(self, name):
        await self.post("/api/v1/namespaces", {"metadata": {"name": name}})

    async def job(self, name, pods, *, gpus=1, queue="default", namespace="default", minutes=0, **spec):
        container = {"name": "train", "image": "i", "resources": {"limits": {GPU: str(gpus), "cpu": "4"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        annotations = {"pumice.dev/running-estimate": f"{minutes}m"} if minutes else {}
        task = {"name": "worker", "replicas": pods, "template": template}
        spec = {"minAvailable": pods, "schedulerName": "volcano", "queue": queue, "tasks": [task], **spec}
        job = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
        await self.client.create(Job, job, namespace=namespace)

    async def person(self, name, *namespaces, nodes=False):
        """An account that may look at the gangs of some namespaces; its token."""
        await self.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        rules = [{"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["get", "list"]}]
        if nodes:
            rules.append({"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]})
        await self.post(f"{RBAC}/clusterroles", {"metadata": {"name": f"sees-{name}"}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"sees-{name}"}
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        for each in namespaces:
            await self.post(f"{RBAC}/namespaces/{each}/rolebindings", binding)
        if not namespaces:
            await self.post(f"{RBAC}/clusterrolebindings", binding)
        spec = {"spec": {"audiences": ["pumice.dev"]}}
        return (await self.post(f"/api/v1/namespaces/default/serviceaccounts/{name}/token", spec))["status"]["token"]

    async def enter(self):
        """A page that came in by the one-time link."""
        page = await self.page()
        await page.goto(f"{self.url}/sign-in#token={self.link[-1]}")
        await page.wait_for_url(f"{self.url}/")
        return page

    async def page(self):
        page = await self.context.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        self.watch(page)
        return page

    def watch(self, page):
        """Notes console errors, exceptions of the page, and requests to anybody else."""
        page.on("console", lambda message: message.type == "error" and self.troubles.append(message.text))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith(self.url) or self.troubles.append(f"asks {asked.url}"))
        page.on("dialog", lambda dialog: self.troubles.append(f"dialog {dialog.message}"))


@contextlib.asynccontextmanager
async def a_browser():
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def a_stage(folder, *, nodes=4, gpus=8, tokens=False, width=1280, prices=True, writes=False, **context):
    """The whole: cluster, dashboard and browser; a test must leave no trouble behind."""
    record = RecordSettings(f"sqlite:///{Path(folder) / 'record.db'}", adopts=True)
    settings = ControllerSettings(record=record, prices={GPU: 2.5} if prices else {})
    facts = pretend_nodes(nodes, gpus=gpus)
    clock, link, troubles = RealClock(), [], []
    async with (
        Up(Place(Path(folder)), facts, log=silent, policy=lambda: POLICY, settings=settings) as cluster,
        HttpTransport(config.find(str(cluster.kubeconfig), clock=clock), user_agent="test") as transport,
        a_browser() as browser,
    ):
        client = Client(transport, clock=clock, chance=random.Random(1))
        access = ClusterAccess(client, config.find(str(cluster.kubeconfig), clock=clock), clock, "kube-system")
        authentication = (
            TokenAuthentication(client, clock)
            if tokens
            else LinkAuthentication(client, clock, name="you", tell=link.append)
        )
        async with dashboard.serving(access, authentication, Settings(title="test cluster", writes=writes)) as served:
            if not tokens:
                authentication.renew()
            own = await browser.new_context(viewport={"width": width, "height": 900}, **context)
            yield Stage(cluster, client, served.port, link, own, troubles)
            await own.close()
        assert not troubles, troubles


async def something_to_see(stage):
    """Teams with work that runs, waits for several reasons, and was evicted."""
    for name in ("research", "vision"):
        await stage.namespace(name)
    await stage.queue("research", 3, deserved={GPU: "16"}, capability={GPU: "24"})
    await stage.queue("vision", 2, deserved={GPU: "8"})
    await stage.queue("batch", 1)
    await stage.job("llm-pretrain", 2, gpus=8, queue="research", namespace="research", minutes=240)
    await stage.job("resnet-sweep", 6, gpus=1, queue="vision", namespace="vision", minutes=45)
    await stage.job("nightly-eval", 3, gpus=1, queue="batch", minutes=20)
    await stage.job("embeddings", 1, gpus=4, queue="vision", namespace="vision", minutes=90)
    await stage.job("llm-finetune", 2, gpus=8, queue="research", namespace="research", minutes=120)
    await stage.job("too-big", 64, gpus=8, queue="research", namespace="research")
    await stage.job("scratch", 2, gpus=2, queue="batch", minutes=10)
