"""What leaves the server, page by page, stream by stream: nothing of gangs that a reader may not see, and hostile names as text only.

The server is the real one, over HTTP; leader and record answer from literals that name everything they can, as a careless one would.
"""

import asyncio
import contextlib
import html
import json
import re

import aiohttp
import msgspec
import pytest
from tests.bodies.patience import PATIENCE_S

from pumice.api.disruptions import Party
from pumice.clock import RealClock
from pumice.dashboard.people import Person
from pumice.dashboard.server import PAGES, Dashboard, Settings
from pumice.dashboard.source import Source
from pumice.errors import PumiceError
from pumice.kube.transport import Response
from pumice.readmodel import changes, model
from pumice.record import model as record
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.whatif.outcome import Outcome, StartTimes, When
from pumice.scheduling.whatif.suggestion import Kind, Suggestion, Suggestions

GPU = "nvidia.com/gpu"
AT, LATER = "2026-11-16T10:00:00Z", "2026-11-16T12:00:00Z"
HOSTILE = "\"'><script>alert(1)</script>"
SECRET = "secret"


def a_gang(namespace, name, *, queue="q", waits=True, who="", reasons=()):
    return model.Gang(
        key=f"{namespace}/{name}", namespace=namespace, name=name, queue=queue, job=name, user=who or namespace,
        phase="Inqueue" if waits else "Running", position=1 if waits else 0, created=AT, since=AT, reasons=tuple(reasons),
        members=model.Members(1, 1, waiting=1) if waits else model.Members(1, 1, running=1), asks={GPU: "1"},
        holds={} if waits else {GPU: "1"}, expected=model.Expected("1h", "declared", end="" if waits else LATER),
        forecast=model.Forecast(AT, LATER, LATER, nodes={"n1": 1}) if waits else None,
    )  # fmt: skip


def a_reason(code, **facts):
    return model.Reason(code.value, "plugin", code.text(Facts(**facts)), Facts(**facts))


def two_teams(mine="mine", queue="q", node="n1", who="red"):
    """Red waits behind blue, was evicted for it, and shares a node with it."""
    other = f"blue/{SECRET}"
    reasons = (
        a_reason(Code.BEHIND, queue=queue, gang=other),
        a_reason(Code.USER_RUNNING, queue=queue, user=who, limit=1, free=1, holders=(other,)),
        a_reason(Code.QUOTA_HELD, names=(other, f"red/{mine}")),
    )
    waits = a_gang("red", mine, queue=queue, who=who, reasons=reasons)
    why = Code.VICTIM_OF_DEADLOCK.text(Facts(gang=waits.key, names=(other,), free=1, wanted=1, seconds=1))
    eviction = model.Eviction(
        1, AT, f"red/{mine}-0", node, waits.key, "deadlock", other, Code.VICTIM_OF_DEADLOCK.value,
        Facts(gang=waits.key, names=(other,), free=1, wanted=1, seconds=1), why, room_for=Party(gang=other, job=SECRET),
    )  # fmt: skip
    held, room = {GPU: "2", "cpu": "8"}, {GPU: "8", "cpu": "64"}
    return model.State(
        1, "me", 1, AT, model.Policy("policy", ("allocate",), ("gang",)), model.Totals(1, room, held),
        nodes=(
            model.Node(
                node, room, held, room, {other: 1, f"red/{mine}-runs": 1},
                {other: {GPU: "1"}, f"red/{mine}-runs": {GPU: "1"}}, hyper_node=f"rack-{node}",
            ),
        ),
        queues=(model.Queue(queue, allocated=held, entitled=held, limit=room, running=2, waiting=1),),
        gangs=(waits, a_gang("red", f"{mine}-runs", queue=queue, who=who, waits=False), a_gang("blue", SECRET, waits=False)),
        claims=(model.Claim(other, LATER, {node: 1}, {}),),
        attempts=(model.Attempt(1, AT, other, 1, 1),),
        evictions=(eviction,),
    )  # fmt: skip


class Leader:
    """Tells a state and every detail of it; also the record, of whatever namespace it is asked for."""

    def __init__(self, state):
        self.state, self.asked = state, []
        self.news = asyncio.Queue()
        self.news.put_nowait(state)

    async def lines(self, _):
        former = None
        while True:
            told = await self.news.get()
            yield msgspec.json.encode(changes.between(former, told))
            former = told

    async def ask(self, question):
        path, query = question
        self.asked.append((path, dict(query)))
        if path == "/metrics":
            return b"# TYPE pumice_cycles_total counter\npumice_cycles_total 1\n"
        return msgspec.json.encode(self._answer(path, query))

    def _answer(self, path, query):
        mine, other = self.state.gangs[0], f"blue/{SECRET}"
        if path.endswith("/suggestions"):
            ends = Suggestion(Kind.GANG_ENDS, name=other)
            evicts = Suggestion(Kind.PRIORITY, number=1, victims={other: 1})
            return Suggestions((ends, evicts), 2, 2)
        if path.startswith("/v1/gangs/"):
            gang = next(each for each in self.state.gangs if path == f"/v1/gangs/{each.key}")
            text = gang.reasons[0].reason if gang.reasons else ""
            head = {field: getattr(self.state, field) for field in model.Head.__struct_fields__}
            pods = (model.Pod(f"{gang.name}-0", "Pending", message=text),)
            return model.GangDetail(**head, gang=gang, pods=pods, claims=self.state.claims)
        if path == "/v1/what-if":
            if query.get("policy") == "nonsense":
                raise PumiceError("policy of the question: expected a mapping; write actions and tiers")
            forecasts = {mine.key: StartTimes(When(LATER, None), When(complete=False)), other: StartTimes(None, When())}
            return Outcome(
                {mine.key: 1}, {f"{mine.key}-runs": 2}, waiting=1, at=AT, forecasts=forecasts, not_forecast=3
            )
        if path == "/v1/report":
            row = record.UsageRow(mine.queue, GPU, 2.0, 1.0)
            since, until = int(query["since"]), int(query["until"])
            report = record.Report(since, until, query["by"], [row], [(since, mine.queue, 2.0)], {GPU: 9.0}, [])
            return record.Usage(1, {GPU: 2.5}, report)
        if path == "/v1/history":
            space = query.get("namespace") or "blue"
            name = mine.name if space == "red" else SECRET
            return record.History(1, {}, [self._ended(space, name, mine)])
        if path.startswith("/v1/history/"):
            evictions = [
                {"pod": "p", "at": 1, "rule": "preempt", "claimant": other, "why": f"for {other}", "lost_s": 9}
            ]
            attempts = [{"attempt": 1, "pods": 1, "started": 1, "ended": 2, "state": mine.job}]
            return record.Detail(1, {}, None, attempts, evictions, [])
        if path.startswith("/v1/logs/"):
            return record.Logs(1, [1, 2], [record.Lines(mine.name, "w", "c", 2, 1, f"last words of {mine.name}")])
        if path == "/v1/forecasts":
            return record.ForecastRecord(1, 0, 4, 0.75, 60)
        raise AssertionError(path)

    def _ended(self, namespace, name, like):
        return record.GangRow(
            "u", "Job", namespace, name, like.user, like.queue, like.user, "Completed", "", 1, 1, 1, 2, 1, 1, 1, 0, 0, 1.0,
            0.0, {}, [],
        )  # fmt: skip


class Events:
    """An API server that tells one event, with the name that it was asked for."""

    async def call(self, request):
        name = request.query["fieldSelector"].partition("=")[2]
        event = {"reason": name, "message": f"of {name}", "lastTimestamp": AT, "metadata": {}}
        return Response(200, {}, json.dumps({"items": [event]}).encode())


class Authentication:
    """`red` sees red's namespace, and nodes; `all` sees everything."""

    takes_tokens = True

    async def enter(self, secret):
        async def may(verb, what):
            if secret == "all" or what["resource"] == "nodes":
                return True
            return bool(verb) and what.get("namespace") == "red"

        return Person(secret, may, RealClock())


@contextlib.asynccontextmanager
async def a_site(state):
    clock, leader = RealClock(), Leader(state)
    source = Source(leader, clock)
    served = Dashboard(source, leader, leader, Events(), Authentication(), clock=clock, settings=Settings())
    following = asyncio.create_task(source.run())
    url = f"http://127.0.0.1:{await served.start()}"
    await source.newer_than(0, within_s=PATIENCE_S)
    try:
        async with aiohttp.ClientSession() as session:
            yield Site(session, url, leader)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await served.stop()


class Site:
    def __init__(self, session, url, leader):
        self.session, self.url, self.leader = session, url, leader

    async def get(self, who, path):
        headers = {"authorization": f"Bearer {who}"}
        async with self.session.get(self.url + path, headers=headers, allow_redirects=False) as answer:
            return answer.status, await answer.text()

    async def post(self, who, path, form):
        headers = {"authorization": f"Bearer {who}"}
        async with self.session.post(self.url + path, data=form, headers=headers, allow_redirects=False) as answer:
            return answer.status, answer.headers.get("location") or await answer.text()

    async def live(self, who, path, words=""):
        """The first patch of a page's stream that has these words, as text."""
        headers, query = {"authorization": f"Bearer {who}"}, {"page": path, "seen": ""}
        async with (
            asyncio.timeout(PATIENCE_S),
            self.session.get(f"{self.url}/live", params=query, headers=headers) as answer,
        ):
            async for line in answer.content:
                if line.startswith(b"data: "):
                    parts = "".join(json.loads(line[6:])["parts"].values()) if b"parts" in line else line.decode()
                    if words in parts:
                        return parts
        raise AssertionError(f"{path}: nothing came")


def pages(gang):
    """Every page that there is, in every way that it can be looked at."""
    plain = [each.path for each in PAGES if "{" not in each.path]
    more = [
        "/nodes?by=gang", "/nodes?node=n1", "/timeline?by=node", "/gangs?state=waiting&sort=size", "/history?days=1&by=user",
        "/history?namespace=red", f"/gangs/red/{gang}", f"/gangs/red/{gang}?attempt=1", "/what-if?add-nodes=1&like=n1",
    ]  # fmt: skip
    return plain + more


async def test_who_sees_one_namespace_is_told_no_name_of_anothers_gangs_by_any_page_or_stream():
    async with a_site(two_teams()) as site:
        for path in (*pages("mine"), "/history.csv", "/history.csv?what=bill&namespace=red"):
            status, text = await site.get("red", path)
            assert SECRET not in text, path
            assert status == (403 if path.startswith(("/what-if", "/health")) else 200), path
            if status == 200 and not path.startswith(("/history", "/what-if")):
                assert SECRET not in await site.live("red", path), path
        for path in ("/gangs/blue/secret", "/history?namespace=blue", "/history.csv?namespace=blue"):
            assert (await site.get("red", path))[0] == 403, path
        spaces = {query.get("namespace", "") for path, query in site.leader.asked if path in RECORD}
        assert spaces == {"red"}, "the record is never asked for more than the reader may see"
        for path in ("/gangs", "/nodes", "/timeline?by=node"):  # the check above would find it
            assert SECRET in (await site.get("all", path))[1], path


RECORD = ("/v1/history", "/v1/report", "/v1/forecasts")


@pytest.mark.parametrize(
    "path", ["/gangs?sort=size&order=down&user=red&state=waiting", "/history?user=red&queue=q&days=30&by=user"]
)
async def test_a_form_keeps_what_the_address_says(path):
    async with a_site(two_teams()) as site:
        _, text = await site.get("all", path)
        for each in path.partition("?")[2].split("&"):
            name, _, value = each.partition("=")
            is_hidden = f'type="hidden" name="{name}" value="{value}"' in text
            assert is_hidden or re.search(rf'name="{name}">.*<option value="{value}" selected', text), each


async def test_a_gang_that_may_be_seen_tells_in_words_that_others_are_in_its_way():
    async with a_site(two_teams()) as site:
        _, text = await site.get("red", "/gangs/red/mine")
        assert "a gang of others ahead of it does not fit yet" in text
        assert "Attempt 1" in text
        assert "half of the gangs started within 60s of the likely time" in text
        assert "evicts 1 pod of others" in await site.live("red", "/gangs/red/mine", "evicts")
        assert "last words of mine" in text
        _, text = await site.get("all", "/what-if?add-nodes=1&like=n1")
        assert all(words in text for words in ("Would start", "Would be admitted", "Would go on waiting"))


async def test_the_times_of_another_cluster_are_told_with_what_nobody_knows():
    async with a_site(two_teams()) as site:
        _, text = await site.get("all", "/what-if?add-nodes=1&like=n1")
        first, second = (re.sub(r"<[^>]+>", " ", row).split()[1:] for row in re.findall(r"<tr><td>.*?</tr>", text))
        assert "not known not known" in " ".join(first)
        assert " ".join(second).endswith("runs not within a week not within a week")
        assert "3 more in line were not looked ahead for" in text
        assert "the cluster is too large to look so far ahead" in text


async def test_another_policy_is_asked_about_by_a_form_and_nothing_else_is():
    async with a_site(two_teams()) as site:
        _, text = await site.get("all", "/what-if")
        word = re.search(r'name="csrf" value="([^"]+)"', text)[1]
        form = {"csrf": word, "add-nodes": "1", "like": "n1", "drain": "", "policy": ""}
        assert await site.post("all", "/what-if", form) == (303, "/what-if?add-nodes=1&like=n1")
        assert (await site.post("all", "/what-if", {"csrf": word})) == (303, "/what-if")
        status, text = await site.post("all", "/what-if", {**form, "policy": "actions: allocate\n"})
        assert (status, "Would start" in text, "data-live" in text) == (200, True, False)
        assert site.leader.asked[-1] == ("/v1/what-if", {"add-nodes": "1", "like": "n1", "policy": "actions: allocate"})
        assert ">\nactions: allocate</textarea>" in text, "it is there to be changed"
        status, text = await site.post("all", "/what-if", {"csrf": word, "policy": "nonsense"})
        assert (status, "policy of the question: expected a mapping" in text) == (200, True)
        hostile = "</textarea><script>alert(1)</script>"
        check("/what-if", (await site.post("all", "/what-if", {"csrf": word, "policy": hostile}))[1])
        assert (await site.post("all", "/what-if", {"csrf": "wrong", "policy": "x"}))[0] == 403
        assert (await site.post("all", "/what-if", {"csrf": word, "policy": "x" * 2**17}))[0] == 413
        asked = len(site.leader.asked)
        assert (await site.post("red", "/what-if", {"csrf": word, "policy": "x"}))[0] == 403
        status, _ = await site.get("all", "/live?page=/what-if%3Fadd-nodes%3D1%26like%3Dn1")
        assert status == 404, "an answer is not asked for again with every cycle"
        assert len(site.leader.asked) == asked


@pytest.mark.parametrize("who", ["all", "red"])
async def test_whatever_people_call_things_pages_show_it_as_text(who):
    quoted = "%22%27%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    for state, gang in ((two_teams("mine", *[HOSTILE] * 3), "mine"), (two_teams(*[HOSTILE] * 4), quoted)):
        async with a_site(state) as site:
            for path in (*pages(gang), f"/nodes?node={quoted}", f"/timeline?queue={quoted}", f"/gangs?q={quoted}"):
                status, text = await site.get(who, path)
                assert status in ({404} if path.startswith(f"/gangs/red/{quoted}") else {200, 403}), (path, status)
                check(path, text)
                if status == 200 and not path.startswith(("/history", "/what-if")):
                    check(path, await site.live(who, path))
            shown = (await site.get(who, "/gangs"))[1]
            assert html.escape(HOSTILE) in shown.replace("&#34;", "&quot;").replace("&#39;", "&#x27;")


async def test_an_empty_cluster_says_that_it_has_no_nodes():
    full = two_teams()
    empty = msgspec.structs.replace(full, totals=model.Totals(0, {}, {}), nodes=(), gangs=full.gangs[:1])
    for state, is_told in ((empty, True), (full, False)):
        async with a_site(state) as site:
            status, text = await site.get("all", "/")
            assert (status, "The cluster has no nodes" in text) == (200, is_told)


@pytest.mark.parametrize("name", ["x%2F..%2F..%2Fblue%2Fsecret", "..", "%2e%2e%2fsecret", "native:..", "x%3Fa=b"])
async def test_a_name_is_no_way_to_another_namespace(name):
    async with a_site(two_teams()) as site:
        for path in (f"/gangs/red/{name}", f"/gangs/{name}/mine"):
            assert (await site.get("red", path))[0] in {403, 404}, path
            assert SECRET not in await site.live("red", path.replace("..", "%2e%2e")) if "/.." not in path else True
        assert [path for path, _ in site.leader.asked if SECRET in path or ".." in path] == []


def check(path, text):
    assert "<script>alert" not in text, path
    for tag in re.findall(r"<[a-z][^>]*>", text):
        assert not re.search(r"\s(on\w+|style)=", re.sub(r'"[^"]*"', '""', tag)), (path, tag)
    assert not re.search(r"(href|action)=\"(?!/|\?|#)", text), path


async def test_a_spreadsheet_is_given_text_where_a_name_looks_like_a_formula():
    async with a_site(two_teams("=1+1", "@q", who="-2+3")) as site:
        for query in ("", "?what=bill"):
            _, text = await site.get("all", f"/history.csv?namespace=red{query.replace('?', '&')}")
            cells = [cell for line in text.splitlines()[1:] for cell in line.split(",")]
            risky = [cell for cell in cells if cell[:1] in "=+-@" and cell]
            assert risky == [], text
        assert "'=1+1" in (await site.get("all", "/history.csv?namespace=red"))[1]


async def test_without_a_scheduler_pages_and_terminal_say_why_until_it_answers():
    class Away(Leader):
        async def lines(self, question):
            if not self.asked:
                self.asked.append(question)
                raise PumiceError("nobody leads")
            async for each in super().lines(question):
                yield each

    clock = RealClock()
    leader = Away(two_teams())
    source = Source(leader, clock)
    served = Dashboard(source, leader, leader, Events(), Authentication(), clock=clock, settings=Settings())
    url = f"http://127.0.0.1:{await served.start()}"
    headers, problems = {"authorization": "Bearer all"}, served.problems()
    try:
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession(headers=headers) as session:
            async with session.get(url) as answer:
                assert (answer.status, answer.headers["refresh"]) == (503, "5")
                assert "the scheduler has not told anything yet" in await answer.text()
            following = asyncio.create_task(source.run())
            assert [await anext(problems), await anext(problems)] == ["nobody leads", ""]
            async with session.get(url) as answer:
                assert answer.status == 200
                assert "refresh" not in answer.headers
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await problems.aclose()
        await served.stop()
