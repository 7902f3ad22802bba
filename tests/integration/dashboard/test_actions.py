"""What people do from the pages, over HTTP on a live embedded cluster: as themselves, asked once more, and only where it was allowed."""

import asyncio
import html
import re

import pytest
from tests.bodies.patience import PATIENCE_S
from tests.integration.dashboard.test_dashboard import RBAC, a_site
from tests.integration.processes.test_view_server import a_gang, post

from pumice.api.batch import Job
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup, Queue
from pumice.errors import NotFound

LOOK = [
    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups", "queues"], "verbs": ["get", "list"]},
    {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
]
ACT = [
    *LOOK,
    {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["delete", "patch"]},
    {"apiGroups": ["bus.volcano.sh"], "resources": ["commands"], "verbs": ["create"]},
]


async def an_account(site, name, rules):
    await post(site.cluster, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    await post(site.cluster, f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }
    await post(site.cluster, f"{RBAC}/clusterrolebindings", binding)
    return {"authorization": f"Bearer {await site.token(name, audiences=())}"}


async def a_job(site, name="train"):
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    task = {"name": "worker", "replicas": 1, "template": template}
    spec = {"schedulerName": "volcano", "minAvailable": 1, "queue": "default", "tasks": [task]}
    await site.cluster.client.create(Job, {"metadata": {"name": name}, "spec": spec}, namespace="default")
    await site_until(site, Job, name, lambda job: phase(job) == "Running")


def phase(job):
    return job.get("status", {}).get("state", {}).get("phase")


async def site_until(site, kind, name, wanted, namespace="default"):
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await read(site, kind, name, namespace)
            if wanted(found):
                return found
            await asyncio.sleep(0.05)


async def read(site, kind, name, namespace="default"):
    return (await site.cluster.client.get(kind, name, namespace=namespace)).json()


def buttons(page):
    return {html.unescape(href) for href in re.findall(r'href="(/actions\?[^"]*)"', page)}


def fields(page):
    return {
        name: html.unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)
    }


async def press(site, path, **headers):
    """The page that asks, and its form's hidden fields."""
    status, page, _ = await site.get(path, **headers)
    assert status == 200, page
    return {name: value for name, value in fields(page).items() if name != "here"}


async def offered(site, page, href, **headers):
    """Looks until the button is there."""
    return buttons(await site.until(page, html.escape(href), **headers))


SUSPEND, RESUME, DELETE, PRIORITY = (
    f"/actions?do={word}&kind=jobs&namespace=default&name=train" for word in ("suspend", "resume", "delete", "priority")
)
CLOSE, OPEN = (f"/actions?do={word}&kind=queues&name=default" for word in ("close", "open"))
GANG = "/gangs/default/train"


async def test_a_job_is_suspended_resumed_ranked_and_deleted_as_the_person(tmp_path):
    told = []
    async with a_site(
        tmp_path, tokens=True, writes=True, log=lambda event, **facts: told.append((event, facts))
    ) as site:
        await site.cluster.client.create(PriorityClass, {"metadata": {"name": "urgent"}, "value": 1000})
        ann = await an_account(site, "ann", ACT)
        await a_job(site)
        assert await offered(site, GANG, SUSPEND, **ann) == {SUSPEND, DELETE, PRIORITY}

        status, page, _ = await site.post("/actions", await press(site, SUSPEND, **ann), **ann)
        assert (status, "asked to suspend it" in page) == (200, True)
        await site_until(site, Job, "train", lambda job: phase(job) == "Aborted")
        assert await offered(site, GANG, RESUME, **ann) == {RESUME, DELETE, PRIORITY}
        status, page, _ = await site.get(SUSPEND, **ann)
        assert (status, "default/train is Aborted, where Suspend has no effect" in page) == (409, True)

        assert (await site.post("/actions", await press(site, RESUME, **ann), **ann))[0] == 200
        await site_until(site, Job, "train", lambda job: phase(job) == "Running")

        form = await press(site, PRIORITY, **ann)
        status, page, _ = await site.post("/actions", {**form, "priority": "urgent"}, **ann)
        assert status == 200, page
        assert (await read(site, Job, "train"))["spec"]["priorityClassName"] == "urgent"
        await site.until(GANG, "<dt>Priority</dt><dd>1000</dd>", **ann)

        assert DELETE in await offered(site, GANG, DELETE, **ann)
        form = await press(site, DELETE, **ann)
        assert (await site.post("/actions", form, **ann))[0] == 200
        assert not buttons((await site.get(GANG, **ann))[1]), "what was known of the Job is forgotten"
        with pytest.raises(NotFound):
            await site_until(site, Job, "train", lambda _: False)
        status, page, _ = await site.post("/actions", form, **ann)
        assert (status, "Not done" in page) == (404, True)
    who = "system:serviceaccount:default:ann"
    assert [(event, each["person"], each["action"], each["object"], each["status"]) for event, each in told] == [
        ("dashboard_action", who, "suspend", "default/train", 200),
        ("dashboard_action", who, "resume", "default/train", 200),
        ("dashboard_action", who, "priority", "default/train", 200),
        ("dashboard_action", who, "delete", "default/train", 200),
        ("dashboard_action", who, "delete", "default/train", 404),
    ]


async def test_a_queue_is_closed_and_opened_by_whoever_has_the_link(tmp_path):
    async with a_site(tmp_path, writes=True) as site:
        await site.cluster.client.create(Queue, {"metadata": {"name": "research"}, "spec": {"weight": 1}})
        await site.post("/sign-in", {"secret": site.links[-1]})
        close, reopen = CLOSE.replace("default", "research"), OPEN.replace("default", "research")
        assert close in await offered(site, "/queues", close)
        status, page, _ = await site.post("/actions", await press(site, close))
        assert (status, "asked to close it" in page) == (200, True)
        await site_until(site, Queue, "research", lambda queue: queue["status"]["state"] == "Closed", namespace="")
        found = await offered(site, "/queues", reopen)
        assert close not in found
        assert (await site.post("/actions", await press(site, reopen)))[0] == 200
        await site_until(site, Queue, "research", lambda queue: queue["status"]["state"] == "Open", namespace="")


async def test_who_may_only_look_gets_no_buttons_and_the_api_servers_refusal(tmp_path):
    told = []
    async with a_site(tmp_path, tokens=True, writes=True, log=lambda _, **facts: told.append(facts)) as site:
        await a_job(site)
        ann, leo = await an_account(site, "ann", ACT), await an_account(site, "leo", LOOK)
        looking = {"authorization": f"Bearer {await site.token('ann')}"}  # Ann's, too, but not for the API server
        await offered(site, GANG, SUSPEND, **ann)
        await offered(site, "/queues", CLOSE, **ann)
        for who in (leo, looking):
            for page in (GANG, "/queues"):
                status, text, _ = await site.get(page, **who)
                assert (status, buttons(text)) == (200, set())
            for path in (SUSPEND, DELETE, PRIORITY, CLOSE):
                status, text, _ = await site.get(path, **who)
                assert (status, "ask your administrator for the right" in text) == (403, True)
        await site.post("/sign-in", {"secret": leo["authorization"].partition(" ")[2]})
        word = fields((await site.get("/"))[1])["csrf"]
        for path in (SUSPEND, DELETE, PRIORITY, CLOSE):
            status, page, _ = await site.post("/actions", {**await press(site, path, **ann), "csrf": word})
            assert status == 403
            assert "system:serviceaccount:default:leo&#34; cannot" in page
        assert [each["status"] for each in told] == [403] * 4
        job = await read(site, Job, "train")
        assert (phase(job), "priorityClassName" in job["spec"]) == ("Running", False)
        assert (await read(site, Queue, "default", namespace=""))["status"]["state"] == "Open"


async def test_a_form_needs_its_sessions_word_and_a_page_of_ours(tmp_path):
    async with a_site(tmp_path, tokens=True, writes=True) as site:
        await a_job(site)
        ann, bob = await an_account(site, "ann", ACT), await an_account(site, "bob", ACT)
        await offered(site, GANG, DELETE, **ann)
        form, of_bob = await press(site, DELETE, **ann), await press(site, DELETE, **bob)
        without = {name: value for name, value in form.items() if name != "csrf"}
        for wrong in (without, {**form, "csrf": ""}, {**form, "csrf": of_bob["csrf"]}):
            assert (await site.post("/actions", wrong, **ann))[0] == 403
        assert (await site.post("/actions", form, origin="http://evil.example", **ann))[0] == 403
        assert (await site.post("/actions", form))[0] == 303  # nobody: to the sign-in page
        assert phase(await read(site, Job, "train")) == "Running"


async def test_what_was_made_anew_is_not_what_was_asked_about(tmp_path):
    async with a_site(tmp_path, writes=True) as site:
        await a_job(site)
        await site.post("/sign-in", {"secret": site.links[-1]})
        await site.until("/", "GPUs in use")
        forms = [await press(site, path) for path in (DELETE, SUSPEND, PRIORITY)]
        await site.cluster.client.delete(Job, "train", namespace="default")
        with pytest.raises(NotFound):
            await site_until(site, Job, "train", lambda _: False)
        await a_job(site)
        for form in forms:
            status, page, _ = await site.post("/actions", form)
            assert (status, "made anew" in page) == (409, True)
        assert phase(await read(site, Job, "train")) == "Running"


async def test_a_group_without_a_job_is_ranked_and_hostile_words_stay_words(tmp_path):
    async with a_site(tmp_path, writes=True) as site:
        await site.post("/sign-in", {"secret": site.links[-1]})
        await a_gang(site.cluster, "lone", 1, cpu="500")
        rank = "/actions?do=priority&kind=podgroups&namespace=default&name=lone"
        assert await offered(site, "/gangs/default/lone", rank) == {rank}
        hostile = {"spec": {"priorityClassName": "<img src=x onerror=alert(1)>"}}
        await site.cluster.client.patch(PodGroup, "lone", hostile, namespace="default")
        status, page, _ = await site.get(rank)
        assert (status, "<img" in page, "&lt;img src=x" in page) == (200, False, True)
        form = await press(site, rank)
        for wrong, code in (("<script>alert(1)</script>", 400), ("no-such-class", 400), ("system-node-critical", 200)):
            status, page, _ = await site.post("/actions", {**form, "priority": wrong})
            assert (status, "<script>alert" in page) == (code, False), page
        assert (await read(site, PodGroup, "lone"))["spec"]["priorityClassName"] == "system-node-critical"
        for wrong in (
            "/actions",
            "/actions?do=<script>&kind=jobs&namespace=default&name=x",
            "/actions?do=delete&kind=queues&name=default",
            "/actions?do=delete&kind=jobs&namespace=default&name=<script>alert(1)</script>",
            "/actions?do=delete&kind=jobs&namespace=default&name=../pods/x",
            "/actions?do=delete&kind=jobs&name=train",
            "/actions?do=close&kind=queues&namespace=default&name=default",
        ):
            status, page, _ = await site.get(wrong)
            assert (status, "<script>" in page) == (400, False)
        assert (await site.get("/actions?do=delete&kind=jobs&namespace=default&name=nothing"))[0] == 404


async def test_a_jobs_own_group_is_not_ranked_behind_its_back(tmp_path):
    """Its controller would put the Job's class back."""
    groups = {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["get", "list", "patch"]}
    async with a_site(tmp_path, tokens=True, writes=True) as site:
        await a_job(site)
        uma = await an_account(site, "uma", [groups])  # she may not read Jobs
        page = await site.until("/gangs", "train", **uma)
        group = re.search(r'href="/gangs/default/([^"]*)"', page)[1]
        assert buttons((await site.get(f"/gangs/default/{group}", **uma))[1]) == set()
        rank = f"/actions?do=priority&kind=podgroups&namespace=default&name={group}"
        status, page, _ = await site.get(rank, **uma)
        assert (status, "belongs to Job train, whose controller would undo it" in page) == (409, True)


async def test_without_the_flag_nothing_can_be_done(tmp_path):
    async with a_site(tmp_path) as site:
        await a_job(site)
        await site.post("/sign-in", {"secret": site.links[-1]})
        page = await site.until("/gangs", "train")
        word = fields(page)["csrf"]
        for path in (GANG, "/queues"):
            status, text, _ = await site.get(path)
            assert (status, buttons(text)) == (200, set())
        assert (await site.get(DELETE))[0] == 404
        form = dict(each.split("=") for each in DELETE.partition("?")[2].split("&"))
        uid = (await read(site, Job, "train"))["metadata"]["uid"]
        assert (await site.post("/actions", {**form, "csrf": word, "uid": uid}))[0] == 404
        assert phase(await read(site, Job, "train")) == "Running"
