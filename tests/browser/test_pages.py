"""Every page in a real browser, on a live cluster: what it shows, that it keeps up without loading again, and whom it lets see what.

Each test ends with: no console error, no exception in the page, no dialog, no request to any other host (`a_stage` asserts it).
"""

import asyncio
import base64
import os
import pathlib

import pytest
from tests.bodies.patience import PATIENCE_S
from tests.browser.stage import GPU, a_stage, something_to_see

from pumice.api.batch import Job

PAGES = (
    "/", "/gangs", "/nodes", "/queues", "/timeline", "/timeline?by=node", "/history", "/health", "/what-if?add-nodes=2&like=node-0",
)  # fmt: skip


async def href_of(page, stage, name):
    await page.goto(f"{stage.url}/gangs?q={name}")
    link = page.locator(f"td a.name:has-text('{name}')")
    await link.wait_for()
    return await link.get_attribute("href")


async def test_a_link_lets_one_browser_in_once(tmp_path):
    async with a_stage(tmp_path) as stage:
        first = stage.link[-1]
        page = await stage.enter()
        assert await page.get_by_role("heading", name="GPUs in use").is_visible()
        assert "token" not in page.url
        [cookie] = [each for each in await stage.context.cookies() if each["name"] == f"pumice-{stage.port}"]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
        assert len(stage.link) == 2
        await stage.context.clear_cookies()
        await page.goto(f"{stage.url}/sign-in#token={first}")
        await page.get_by_text("this link was used already").wait_for()
        stage.troubles.remove("Failed to load resource: the server responded with a status of 401 (Unauthorized)")
        await page.goto(f"{stage.url}/sign-in#token={stage.link[-1]}")
        await page.get_by_role("heading", name="GPUs in use").wait_for()


async def test_pages_show_what_happens_without_being_loaded_again(tmp_path):
    async with a_stage(tmp_path) as stage:
        page = await stage.enter()
        await page.evaluate("window.same = true")
        await stage.job("train", 2, gpus=8)
        await page.locator(".figure strong:has-text('16')").wait_for()
        await stage.job("huge", 9, gpus=8)
        await page.get_by_text("can never run here").wait_for()
        gangs = await stage.page()
        await gangs.goto(f"{stage.url}/gangs?state=waiting")
        await gangs.get_by_role("link", name="huge").wait_for()
        await stage.job("vast", 9, gpus=8)
        await gangs.get_by_role("link", name="vast").wait_for()
        nodes = await stage.page()
        await nodes.goto(f"{stage.url}/nodes")
        assert await nodes.locator(".tile rect.c0").count() == 16
        await stage.job("more", 1, gpus=3)
        await nodes.locator(".tile rect.c0 >> nth=18").wait_for(state="attached")
        assert await page.evaluate("window.same")


async def test_a_gang_page_says_why_it_waits_and_what_would_start_it(tmp_path):
    async with a_stage(tmp_path, nodes=1) as stage:
        page = await stage.enter()
        await stage.job("first", 1, gpus=6, minutes=30)
        await page.locator(".figure strong:has-text('6')").wait_for()
        await stage.job("second", 2, gpus=2)
        await page.goto(stage.url + await href_of(page, stage, "second"))
        assert await page.get_by_role("heading", name="second", exact=True).is_visible()
        await page.locator("#live_why .whys li").first.wait_for()
        await page.locator("#live_cures .whys li").first.wait_for()
        said = await page.locator("#live_cures").inner_text()
        assert "with 1 nvidia.com/gpu a pod instead of 2" in said
        await page.locator("#live_members td:has-text('second-worker-1')").wait_for()


async def test_names_that_people_chose_are_text_and_nothing_else(tmp_path):
    hostile = "<img src=x onerror=alert(1)>"
    async with a_stage(tmp_path) as stage:
        page = await stage.enter()
        await page.goto(f"{stage.url}/gangs?q={hostile}&queue={hostile}&user=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
        assert await page.locator("[data-search]").input_value() == hostile
        for path in ("/gangs/x/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/nodes?node=" + hostile, "/nodes?in=" + hostile):
            await page.goto(f"{stage.url}{path}")
            assert await page.locator("main script, main img").count() == 0
        stage.troubles[:] = [each for each in stage.troubles if "404" not in each]
        selector = {"schedulerName": "volcano", "nodeSelector": {"a": "b"}}
        await stage.job("odd", 1, plugins={}, tasks=[odd_task(selector)])
        await page.goto(stage.url + await href_of(page, stage, "odd"))
        await page.locator("#live_why").wait_for()
        assert await page.locator("main script, main img").count() == 0


def odd_task(spec):
    container = {"name": "c", "image": "<script>alert(1)</script>", "resources": {"limits": {GPU: "1"}}}
    return {
        "name": "w",
        "replicas": 1,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container], **spec}},
    }


async def test_what_ended_and_what_it_cost_is_told_and_can_be_downloaded(tmp_path):
    async with a_stage(tmp_path) as stage:
        page = await stage.enter()
        await stage.job("short", 1, gpus=2, tasks=[short_task()])
        row = page.locator("tr:has-text('short')")
        async with asyncio.timeout(PATIENCE_S):
            while not await row.count():  # the record is asked again after a while
                await asyncio.sleep(0.5)  # nobody may ask without end: the dashboard refuses them
                await page.goto(f"{stage.url}/history?days=1&name=short")
        assert "Completed" in await row.inner_text()
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Download as CSV").click()
        text = read(await (await download.value).path())
        assert text.splitlines()[1].startswith("default,short,")


def read(path):
    return pathlib.Path(path).read_text()


def short_task():
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "2"}}}
    template = {"metadata": {"annotations": {"pumice.dev/pretend-run": "1s"}}}
    return {
        "name": "w",
        "replicas": 1,
        "template": {**template, "spec": {"restartPolicy": "Never", "containers": [container]}},
    }


async def test_what_if_asks_the_engine(tmp_path):
    async with a_stage(tmp_path, nodes=1) as stage:
        page = await stage.enter()
        await stage.job("first", 1, gpus=6)
        await page.locator(".figure strong:has-text('6')").wait_for()
        await stage.job("second", 2, gpus=2)
        await page.goto(stage.url + await href_of(page, stage, "second"))
        await page.locator("#live_members td:has-text('second-worker-1')").wait_for()
        await page.goto(f"{stage.url}/what-if")
        await page.get_by_label("How many").fill("1")
        await page.get_by_label("Like").fill("node-0")
        await page.get_by_role("button", name="Ask the engine").click()
        await page.get_by_role("heading", name="Would start", exact=True).wait_for()
        await page.get_by_role("heading", name="When they would start").wait_for()
        assert "add-nodes=1" in page.url, "the address keeps what was asked"
        await page.get_by_label("Like").fill("nowhere")
        await page.get_by_role("button", name="Ask the engine").click()
        await page.get_by_role("alert").wait_for()
        assert "nowhere" in await page.get_by_role("alert").inner_text()
        await page.get_by_label("How many").fill("")
        await page.get_by_label("Like").fill("")
        await page.get_by_label("The whole file").fill("actions: nap")
        await page.get_by_role("button", name="Ask the engine").click()
        await page.get_by_text("policy of the question").wait_for()
        assert await page.get_by_label("The whole file").input_value() == "actions: nap"


async def test_people_see_what_they_may_list_and_sign_out(tmp_path):
    async with a_stage(tmp_path, tokens=True) as stage:
        for name in ("red", "blue"):
            await stage.namespace(name)
            await stage.job(f"{name}-work", 1, gpus=4, namespace=name)
        everything, red = await stage.person("admin", nodes=True), await stage.person("rita", "red")
        page = await signed_in(stage, everything)
        await page.goto(f"{stage.url}/gangs")
        await page.get_by_role("link", name="blue-work").wait_for()
        await page.get_by_role("link", name="red-work").wait_for()
        blue = await page.get_by_role("link", name="blue-work").get_attribute("href")
        await page.goto(f"{stage.url}/nodes")
        await page.locator("a.tile").first.wait_for()
        await page.get_by_role("button", name="Sign out").click()
        await page.wait_for_url(f"{stage.url}/sign-in")
        await page.goto(f"{stage.url}/gangs")
        assert page.url == f"{stage.url}/sign-in"

        page = await signed_in(stage, red)
        await page.goto(f"{stage.url}/gangs")
        await page.get_by_role("link", name="red-work").wait_for()
        assert "blue-work" not in await page.content()
        await page.goto(f"{stage.url}/nodes")
        await page.get_by_text("You may not list nodes.").wait_for()
        for path in ("/", "/queues"):
            await page.goto(f"{stage.url}{path}")
            assert "blue-work" not in await page.content()
        await page.goto(stage.url + blue)
        await page.get_by_text("may not get podgroups in namespace blue").wait_for()
        assert [each for each in stage.troubles if "403" not in each] == []
        stage.troubles.clear()


async def test_who_sees_one_namespace_follows_it_live_and_keeps_the_page_while_it_is_empty(tmp_path):
    async with a_stage(tmp_path, tokens=True) as stage:
        for name in ("red", "blue"):
            await stage.namespace(name)
            await stage.job(f"{name}-work", 1, gpus=4, namespace=name)
        page = await signed_in(stage, await stage.person("rita", "red"))
        await page.goto(f"{stage.url}/gangs")
        await page.get_by_role("link", name="red-work").wait_for()
        stage.troubles[:] = [each for each in stage.troubles if "403" not in each]  # before the first gang was seen
        await page.evaluate("window.same = true")
        await stage.job("red-more", 1, gpus=1, namespace="red")
        await page.get_by_role("link", name="red-more").wait_for()
        for name in ("red-work", "red-more"):
            await stage.client.delete(Job, name, namespace="red")
        await page.get_by_text("There are no gangs.").wait_for()
        await stage.job("red-again", 1, gpus=1, namespace="red")
        await page.get_by_role("link", name="red-again").wait_for()
        assert await page.evaluate("window.same")
        assert "blue-work" not in await page.content()


async def test_pages_are_used_with_the_keyboard_alone(tmp_path):
    async with a_stage(tmp_path) as stage:
        await stage.job("train", 2, gpus=8)
        page = await stage.enter()
        await page.goto(f"{stage.url}/gangs")
        await page.get_by_role("link", name="train").wait_for()
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "content"
        await page.keyboard.press("/")
        await page.keyboard.type("train")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{stage.url}/gangs?q=train*")
        await page.locator("td a.name").focus()
        await stage.job("train-more", 1, gpus=1)  # the list is replaced under the focus
        await page.get_by_role("link", name="train-more").wait_for()
        assert await page.evaluate("document.activeElement.className") == "name"
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="Members").wait_for()
        await page.goto(f"{stage.url}/timeline?by=node")
        await page.locator(".gantt a").first.focus()
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{stage.url}/nodes?node=node-0#node")
        await page.locator("#node td:has-text('train')").first.wait_for()


async def signed_in(stage, token):
    page = await stage.page()
    await page.goto(f"{stage.url}/")
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(f"{stage.url}/")
    return page


async def test_signing_out_closes_other_pages_of_the_session(tmp_path):
    async with a_stage(tmp_path) as stage:
        page = await stage.enter()
        other = await stage.page()
        await other.goto(f"{stage.url}/gangs")
        await other.locator("#connection:has-text('live')").wait_for()
        await page.get_by_role("button", name="Sign out").click()
        await other.wait_for_url(f"{stage.url}/sign-in")


async def test_a_page_whose_stream_is_refused_finds_out_that_its_session_is_over(tmp_path):
    async with a_stage(tmp_path) as stage:
        page = await stage.enter()
        other = await stage.page()
        # Its stream asks for what is not there, and is refused.
        await other.add_init_script(
            "const Stream = EventSource; EventSource = function () { return new Stream('/nothing'); }; EventSource.CLOSED = Stream.CLOSED"
        )
        await other.goto(f"{stage.url}/gangs")
        await other.locator("#connection:has-text('not connected')").wait_for()
        await page.get_by_role("button", name="Sign out").click()
        await other.wait_for_url(f"{stage.url}/sign-in")
        stage.troubles.clear()  # the browser tells of the stream that was refused


async def test_pages_can_be_read_without_javascript(tmp_path):
    async with a_stage(tmp_path, java_script_enabled=False) as stage:
        await stage.job("train", 2, gpus=8)
        page = await stage.page()
        await page.goto(f"{stage.url}/sign-in")
        await page.get_by_label("Or paste").fill(stage.link[-1])
        await page.get_by_role("button", name="Sign in").click()
        for path, words in (("/", "GPUs in use"), ("/gangs", "train"), ("/nodes", "node-0"), ("/queues", "default")):
            await page.goto(f"{stage.url}{path}")
            await page.get_by_text(words).first.wait_for()
        await page.goto(f"{stage.url}/gangs")
        await page.get_by_label("Name, job or user").fill("nobody")
        await page.get_by_role("button", name="Filter").click()
        await page.get_by_text("No gang is like that.").wait_for()


@pytest.mark.parametrize("script", [True, False])
async def test_people_act_from_the_pages_with_and_without_javascript(tmp_path, script):
    async with a_stage(tmp_path, writes=True, java_script_enabled=script) as stage:
        await stage.job("train", 2, gpus=8)
        page = await stage.page()
        await page.goto(f"{stage.url}/sign-in")
        await page.get_by_label("Or paste").fill(stage.link[-1])
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("heading", name="GPUs in use").wait_for()
        train = await href_of(page, stage, "train")
        await page.goto(stage.url + train)
        await page.get_by_role("link", name="Suspend").click()
        await page.get_by_text("can be resumed").wait_for()
        await page.get_by_role("link", name="Leave it as it is").click()
        await page.get_by_role("link", name="Suspend").click()
        await page.get_by_role("button", name="Suspend").click()
        await page.get_by_text("The controllers have been asked to suspend it").wait_for()
        await page.get_by_role("link", name="Back").click()
        async with asyncio.timeout(PATIENCE_S):
            while not script and not await page.get_by_role("link", name="Resume").count():
                await asyncio.sleep(0.2)  # a session may ask so often
                await page.reload()
        await page.get_by_role("link", name="Resume").click()
        await page.get_by_role("button", name="Resume").click()
        await page.get_by_text("The controllers have been asked to resume it").wait_for()
        await page.goto(f"{stage.url}/queues")
        await page.get_by_role("link", name="Close default").click()
        await page.get_by_role("button", name="Close").click()
        await page.get_by_text("The controllers have been asked to close it").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_what_asks_once_more_is_accessible_and_fits_a_telephone(tmp_path, theme, pictures):
    from axe_playwright_python.async_playwright import Axe

    async with a_stage(tmp_path, writes=True) as stage:
        await something_to_see(stage)
        page = await stage.enter()
        runs = await href_of(page, stage, "resnet-sweep")
        job = "kind=jobs&namespace=vision&name=resnet-sweep"
        await stage.context.add_cookies([{"name": "pumice-theme", "value": theme, "url": stage.url}])
        asks = {"delete": f"/actions?do=delete&{job}", "priority": f"/actions?do=priority&{job}"}
        for width in (1280, 390):
            await page.set_viewport_size({"width": width, "height": 900})
            for name, path in {**asks, "gang": runs, "queues": "/queues"}.items():
                await page.goto(stage.url + path)
                if name in {"gang", "queues"}:
                    await page.locator(".buttons a").first.wait_for()
                wide = await page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, f"{path} is {wide} wide"
                found = await Axe().run(page)
                serious = [each for each in found.response["violations"] if each["impact"] in {"serious", "critical"}]
                assert not serious, [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious]
                await page.screenshot(path=pictures / f"acts-{name}-{theme}-{width}.png", full_page=True)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_page_is_accessible_in_both_themes_and_fits_a_telephone(tmp_path, theme, pictures):
    from axe_playwright_python.async_playwright import Axe

    async with a_stage(tmp_path) as stage:
        await something_to_see(stage)
        page = await stage.enter()
        waits = await href_of(page, stage, "llm-finetune")
        runs = await href_of(page, stage, "resnet-sweep")
        await stage.context.add_cookies([{"name": "pumice-theme", "value": theme, "url": stage.url}])
        for width in (1280, 390):
            await page.set_viewport_size({"width": width, "height": 900})
            for path in (*PAGES, waits, runs):
                await page.goto(stage.url + path)
                if not path.startswith("/what-if"):  # an answer is of its moment
                    await page.locator("#connection:has-text('live')").wait_for()
                if path == waits:
                    await page.locator("#live_cures .whys li").first.wait_for()
                wide = await page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, f"{path} is {wide} wide"
                found = await Axe().run(page)
                serious = [each for each in found.response["violations"] if each["impact"] in {"serious", "critical"}]
                assert not serious, [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious]
                plain = path.partition("?")[0].strip("/") or "overview"
                plain += "-by-node" if "by=node" in path else ""
                name = {waits: "gang-waiting", runs: "gang-running"}.get(path, plain)
                await page.screenshot(path=pictures / f"{name}-{theme}-{width}.png", full_page=True)
                if (name, theme, width) in DOCUMENTED:
                    keep(await small_picture(page), f"dashboard-{name}.webp")


# Pictures of the documentation, taken here so that they cannot age: PUMICE_WRITE_PICTURES=1 puts them into docs/pictures.
DOCUMENTED = {("overview", "light", 1280), ("nodes", "light", 1280), ("gang-waiting", "light", 1280)}


async def small_picture(page):
    session = await page.context.new_cdp_session(page)
    taken = await session.send("Page.captureScreenshot", {"format": "webp", "quality": 70})
    return base64.b64decode(taken["data"])


def keep(picture, name):
    assert len(picture) < 100_000
    if os.environ.get("PUMICE_WRITE_PICTURES"):
        (pathlib.Path(__file__).parents[2] / "docs" / "pictures" / name).write_bytes(picture)
