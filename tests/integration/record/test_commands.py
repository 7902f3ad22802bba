"""`pumice history`, `report` and `job logs --attempt` on a whole cluster, and who may ask what."""

import asyncio
import csv
import io
import json
import os
import sys
import time

import aiohttp
import pytest
from tests.bodies.patience import PATIENCE_S
from tests.bodies.recorded import a_job, cluster, until_completed

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.core import Namespace
from pumice.kube.transport import Request
from pumice.local.nodes.process.machine import ProcessSettings
from pumice.record import writer

ROLES = "/apis/rbac.authorization.k8s.io/v1"
PODGROUPS = {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["get", "list"]}


async def pumice(up, *arguments):
    """The command line as a process of its own: code, output, errors."""
    environment = {**os.environ, "KUBECONFIG": str(up.kubeconfig)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pumice.cli",
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def recorded(up):
    """Everything is in the record, and the hours are summed up, as they are once a minute."""
    await up.controllers.record.flush()
    await asyncio.to_thread(up.controllers.record.store.sum_up, int(time.time()))


async def test_finished_gangs_are_listed_and_billed(tmp_path):
    async with cluster(tmp_path, f"sqlite:///{tmp_path}/record.db") as up:
        annotations = {names.SUBMITTED_BY: "=cmd|' /C calc'!A0"}
        await up.client.create(Job, a_job("train-1", pods=2, gpus=2, annotations=annotations), namespace="default")
        await up.client.create(Job, a_job("train-2", pods=1, gpus=1), namespace="default")
        await until_completed(up, "train-1", "train-2")
        await recorded(up)
        code, out, _ = await pumice(up, "history")
        lines = out.splitlines()
        assert (code, len(lines)) == (0, 3)
        assert lines[0].split() == [
            "NAME",
            "USER",
            "QUEUE",
            "STATE",
            "WAIT",
            "RUN",
            "ATTEMPTS",
            "EVICTIONS",
            "LOST",
            "GPU-HOURS",
            "COST",
            "ENDED",
        ]
        data = json.loads((await pumice(up, "sacct", "train-1", "-o", "json"))[1])
        [gang] = data["gangs"]
        assert (gang["name"], gang["state"], gang["attempts"], data["prices"]) == (
            "train-1",
            "Completed",
            1,
            {"nvidia.com/gpu": 2.0},
        )
        assert gang["dollars"] == pytest.approx(2.0 * gang["gpuHours"], abs=1e-3)
        assert gang["gpuHours"] > 0
        rows = list(csv.DictReader(io.StringIO((await pumice(up, "history", "-o", "csv"))[1])))
        assert {row["name"] for row in rows} == {"train-1", "train-2"}
        assert not [row for row in rows if row["user"].startswith("=")], "a spreadsheet would compute it"
        assert (await pumice(up, "history", "--state", "failed"))[1:] == (
            "",
            "No finished gangs found in namespace default; -A looks in all.\n",
        )
        code, out, _ = await pumice(up, "report", "--by", "queue")
        assert code == 0
        assert [line.split()[0] for line in out.splitlines()[1:]] == ["QUEUE", "default", "total", "idle"]
        code, page, _ = await pumice(up, "report", "--by", "user", "--format", "html")
        assert json.loads((await pumice(up, "report", "--by", "user", "-o", "json"))[1])["bill"]["by"] == "user"
        assert (code, page.count("<rect ")) == (0, 2)
        assert "' /C calc'" not in page, "escaped"
        assert (await pumice(up, "history", "--since", "yesterday"))[0] == 2


async def test_who_asks_as_soon_as_a_job_has_ended_finds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "READER_S_MAX", PATIENCE_S)
    monkeypatch.setattr(writer, "TICK_S", 100 * PATIENCE_S)  # nothing is written before somebody asks
    async with cluster(tmp_path, f"sqlite:///{tmp_path}/record.db") as up:
        await up.controllers.record.flush()
        await up.client.create(Job, a_job("train"), namespace="default")
        await until_completed(up, "train")
        [gang] = json.loads((await pumice(up, "history", "-o", "json"))[1])["gangs"]
        assert (gang["name"], gang["state"]) == ("train", "Completed")
        monkeypatch.setattr(writer, "SUM_UP_S_ASKED", 0.0)
        used = json.loads((await pumice(up, "report", "--format", "json"))[1])["bill"]["total"]
        assert used["gpuHours"] > 0, "summed up, though no minute has passed"


async def test_the_last_lines_of_each_attempt_are_kept(tmp_path):
    async with cluster(tmp_path / "data", f"sqlite:///{tmp_path}/record.db") as up:
        await up.add_process_node(ProcessSettings(name="machine", folder=tmp_path / "machine", capacity={"cpu": "8"}))
        job = a_job("flaky", pods=1)
        job["spec"] |= {"maxRetry": 2, "policies": [{"event": "PodFailed", "action": "RestartJob"}]}
        template = job["spec"]["tasks"][0]["template"]["spec"]
        template |= {"nodeSelector": {"kubernetes.io/hostname": "machine"}, "tolerations": [{"operator": "Exists"}]}
        command = f"echo began; test -e {tmp_path}/second && echo second || echo first; touch {tmp_path}/second; exit 3"
        template["containers"] = [
            {"name": "c", "image": "i", "command": ["sh", "-c", command], "resources": {"requests": {"cpu": "1"}}}
        ]
        await up.client.create(Job, job, namespace="default")
        await until_completed(up, "flaky", phase="Failed")
        await up.controllers.record.flush()
        assert (await pumice(up, "job", "logs", "flaky", "--attempt", "1"))[:2] == (0, "began\nfirst\n")
        code, out, err = await pumice(up, "job", "logs", "flaky", "--attempt", "2", "--tail", "1")
        assert (code, out, err) == (0, "second\n", "")
        code, _, err = await pumice(up, "job", "logs", "flaky", "--attempt", "9")
        assert (code, err) == (3, "pumice: job flaky: no such lines are kept of attempt 9; there are some of 1, 2\n")
        assert (await pumice(up, "job", "logs", "ghost", "--attempt", "1"))[0] == 3
        [gang] = json.loads((await pumice(up, "history", "-o", "json"))[1])["gangs"]
        assert (gang["state"], gang["attempts"]) == ("Failed", 2)


class Asker:
    def __init__(self, up, session, token):
        self._address, self._session = f"http://127.0.0.1:{up.port}", session
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    async def __call__(self, path):
        async with self._session.get(f"{self._address}{path}", headers=self._headers) as answer:
            return answer.status, await answer.json(content_type=None)


async def post(up, path, body):
    request = Request("POST", path, {}, {"content-type": "application/json"}, json.dumps(body).encode())
    return json.loads((await up.client.call(request)).body)


async def a_viewer_of(up, namespace):
    """The token of an account that may see the PodGroups of one namespace, as the guide tells teams to make it."""
    await post(up, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "pumice-viewer"}})
    where = f"{ROLES}/namespaces/{namespace}"
    await post(up, f"{where}/roles", {"metadata": {"name": "viewer"}, "rules": [PODGROUPS]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"}
    subject = {"kind": "ServiceAccount", "name": "pumice-viewer", "namespace": namespace}
    await post(up, f"{where}/rolebindings", {"metadata": {"name": "viewer"}, "roleRef": role, "subjects": [subject]})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/pumice-viewer/token"
    return (await post(up, path, {"spec": {"audiences": [names.VIEW_AUDIENCE]}}))["status"]["token"]


async def test_who_may_see_one_namespace_sees_nothing_of_the_others(tmp_path):
    async with cluster(tmp_path, f"sqlite:///{tmp_path}/record.db") as up, aiohttp.ClientSession() as session:
        for namespace in ("team-a", "team-b"):
            await up.client.create(Namespace, {"metadata": {"name": namespace}})
            await up.client.create(Job, a_job(f"job-{namespace}", pods=1), namespace=namespace)
        await until_completed(up, "job-team-a", "job-team-b")
        await recorded(up)
        ask, stranger = Asker(up, session, await a_viewer_of(up, "team-a")), Asker(up, session, "")
        status, found = await ask("/v1/history?namespace=team-a")
        assert (status, [each["name"] for each in found["gangs"]]) == (200, ["job-team-a"])
        denied = ["/v1/history", "/v1/history?namespace=team-b", "/v1/history/team-b/job-team-b", "/v1/report?by=team&since=1&until=2",
                  "/v1/report?by=team&since=1&until=2&namespace=team-b", "/v1/logs/team-a/job-team-a", "/v1/logs/team-b/job-team-b"]  # fmt: skip
        for path in denied:
            status, found = await ask(path)
            assert (status, "may not" in found["error"]) == (403, True), path
            assert (await stranger(path))[0] == 401, path
        status, found = await ask("/v1/report?by=user&since=0&until=9999999999&namespace=team-a")
        assert (status, {each["name"] for each in found["report"]["rows"]}) == (200, {"team-a"})
        assert found["report"]["capacity"] == {}, "what the cluster has is no business of one namespace"
        status, found = await ask("/v1/history/team-a/job-team-a")
        assert (status, found["gang"]["state"], len(found["attempts"]), len(found["runs"])) == (200, "Completed", 1, 1)
        for path in (
            "/v1/history?namespace=team-a&nonsense=1",
            "/v1/history?namespace=team-a&state=Odd",
            "/v1/history?namespace=team-a&since=x",
        ):
            assert (await ask(path))[0] == 400, path
        assert (await ask("/v1/history/team-a/ghost"))[0] == 404
