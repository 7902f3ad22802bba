"""Which requests are let in: by host, by origin, by how often, by the session's word."""

import asyncio

import pytest
from aiohttp.test_utils import make_mocked_request

from pumice.clock import VirtualClock
from pumice.dashboard import guard
from pumice.dashboard.people import Person
from pumice.dashboard.sessions import SESSION_S, SESSIONS_MAX, TOKEN_REVIEW_S, Sessions
from pumice.processes.access import Denied


def hosts(*names, local=True):
    found = guard.Hosts(names, local=local)
    found.port = 8090
    return found


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8090", "localhost:8090", "[::1]:8090", "pumice.example.org", "PUMICE.example.org:443"]
)
def test_our_own_names_are_served(host):
    hosts("pumice.example.org").check(make_mocked_request("GET", "/", headers={"host": host}))


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:9", "localhost", "", "pumice.example.org.evil.example"])
def test_other_names_are_not_whatever_address_they_lead_to(host):
    with pytest.raises(Denied, match="is not served here"):
        hosts("pumice.example.org").check(make_mocked_request("GET", "/", headers={"host": host}))


def test_in_a_cluster_this_machines_own_names_mean_nothing():
    with pytest.raises(Denied):
        hosts("a.example", local=False).check(make_mocked_request("GET", "/", headers={"host": "127.0.0.1:8090"}))


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_what_changes_something_must_come_from_our_own_pages(headers):
    request = make_mocked_request("POST", "/sign-out", headers={"host": "localhost:8090", **headers})
    with pytest.raises(Denied, match="was made by a page of"):
        hosts().check(request)


def test_our_own_forms_are_taken():
    headers = {"host": "localhost:8090", "origin": "http://localhost:8090", "sec-fetch-site": "same-origin"}
    hosts().check(make_mocked_request("POST", "/sign-out", headers=headers))


def test_who_asks_too_often_waits_and_others_do_not():
    clock = VirtualClock()
    rate = guard.Rate(1.0, 3.0, clock)
    for _ in range(3):
        rate.take("a")
    with pytest.raises(Denied, match="too many requests") as denied:
        rate.take("a")
    assert denied.value.status == 429
    rate.take("b")
    clock.jump(1.0)
    rate.take("a")


def test_no_more_callers_are_counted_than_a_limit():
    rate = guard.Rate(1.0, 3.0, VirtualClock())
    for caller in range(guard.CALLERS_MAX + 10):
        rate.take(caller)
    assert len(rate._left) == guard.CALLERS_MAX


# ------------------------------------------------------------------------------------------------ sessions


class AnAuthentication:
    """Lets in whoever has a token in `good`."""

    takes_tokens = True

    def __init__(self, clock, *good):
        self.good, self.clock, self.asked = set(good), clock, 0

    async def enter(self, secret):
        self.asked += 1
        if secret not in self.good:
            raise Denied(401, "no such token")
        return Person(f"owner of {secret}", None, self.clock)


async def test_a_cookie_opens_its_session_until_it_ends():
    clock = VirtualClock()
    sessions = Sessions(AnAuthentication(clock, "t"), clock)
    cookie, session = await sessions.begin("t")
    assert await sessions.find(cookie, "") is session
    assert await sessions.find("other", "") is None
    assert cookie not in str(sessions._sessions)
    sessions.end(cookie)
    assert await sessions.find(cookie, "") is None
    assert not sessions.holds(session)


async def test_a_session_that_is_quiet_for_long_is_over():
    clock = VirtualClock()
    sessions = Sessions(AnAuthentication(clock, "t"), clock)
    cookie, _ = await sessions.begin("t")
    clock.jump(SESSION_S)
    assert await sessions.find(cookie, "") is None


async def test_a_token_that_was_taken_away_signs_out():
    clock = VirtualClock()
    authentication = AnAuthentication(clock, "t")
    sessions = Sessions(authentication, clock)
    cookie, _ = await sessions.begin("t")
    authentication.good.clear()
    assert await sessions.find(cookie, "") is not None
    clock.jump(TOKEN_REVIEW_S)
    with pytest.raises(Denied, match="no such token"):
        await sessions.find(cookie, "")
    assert await sessions.find(cookie, "") is None


async def test_while_a_token_is_reviewed_other_requests_of_its_session_are_served():
    clock = VirtualClock()
    is_asked, may_answer = asyncio.Event(), asyncio.Event()

    class Slow(AnAuthentication):
        async def enter(self, secret):
            if self.asked:
                is_asked.set()
                await may_answer.wait()
            return await super().enter(secret)

    sessions = Sessions(Slow(clock, "t"), clock)
    cookie, session = await sessions.begin("t")
    clock.jump(TOKEN_REVIEW_S)
    asking = asyncio.create_task(sessions.find(cookie, ""))
    await is_asked.wait()
    assert sessions.holds(session)
    other = asyncio.create_task(sessions.find(cookie, ""))
    may_answer.set()
    assert await asking is await other is session


async def test_signing_out_while_a_token_is_reviewed_holds():
    clock = VirtualClock()

    class Leaving(AnAuthentication):
        async def enter(self, secret):
            if self.asked:
                sessions.end(cookie)
            return await super().enter(secret)

    sessions = Sessions(Leaving(clock, "t"), clock)
    cookie, session = await sessions.begin("t")
    clock.jump(TOKEN_REVIEW_S)
    await sessions.find(cookie, "")
    assert not sessions.holds(session)


async def test_an_api_server_that_is_away_for_a_moment_signs_nobody_out():
    clock = VirtualClock()

    class Away(AnAuthentication):
        async def enter(self, secret):
            if self.asked == 1:
                self.asked += 1
                raise Denied(503, "the API server cannot be asked")
            return await super().enter(secret)

    sessions = Sessions(Away(clock, "t"), clock)
    cookie, session = await sessions.begin("t")
    clock.jump(TOKEN_REVIEW_S)
    with pytest.raises(Denied, match="cannot be asked"):
        await sessions.find(cookie, "")
    assert await sessions.find(cookie, "") is session


async def test_a_proxys_token_is_reviewed_once_a_minute_and_never_mixed_with_anothers():
    clock = VirtualClock()
    authentication = AnAuthentication(clock, "a", "b")
    sessions = Sessions(authentication, clock)
    first = await sessions.find("", "a")
    assert await sessions.find("", "a") is first
    assert (await sessions.find("", "b")).person.name == "owner of b"
    assert authentication.asked == 2
    clock.jump(TOKEN_REVIEW_S)
    await sessions.find("", "a")
    assert authentication.asked == 3
    with pytest.raises(Denied):
        await sessions.find("", "c")


async def test_a_proxys_token_stays_one_session_when_it_is_reviewed():
    clock = VirtualClock()
    sessions = Sessions(AnAuthentication(clock, "a"), clock)
    first, second = await asyncio.gather(sessions.find("", "a"), sessions.find("", "a"))
    assert first is second
    clock.jump(TOKEN_REVIEW_S)
    assert await sessions.find("", "a") is first  # or its open pages would be sent to the sign-in page
    assert sessions.holds(first)
    assert sessions.knows("a")
    assert not sessions.knows("b")


@pytest.mark.parametrize("cookie", [True, False])
async def test_an_open_page_asks_whether_its_token_is_still_good(cookie):
    clock = VirtualClock()
    authentication = AnAuthentication(clock, "a")
    sessions = Sessions(authentication, clock)
    session = (await sessions.begin("a"))[1] if cookie else await sessions.find("", "a")
    clock.jump(TOKEN_REVIEW_S)
    await sessions.review(session)
    authentication.good.clear()
    await sessions.review(session)  # asked a moment ago
    clock.jump(TOKEN_REVIEW_S)
    for said in ("no such token", "signed out"):
        with pytest.raises(Denied, match=said):
            await sessions.review(session)


async def test_sessions_have_a_limit_and_the_quietest_gives_way():
    clock = VirtualClock()
    sessions = Sessions(AnAuthentication(clock, "t"), clock)
    first, _ = await sessions.begin("t")
    second, _ = await sessions.begin("t")
    await sessions.find(first, "")
    for _ in range(SESSIONS_MAX - 1):
        await sessions.begin("t")
    assert await sessions.find(second, "") is None
    assert await sessions.find(first, "") is not None


async def test_a_form_carries_its_own_sessions_word():
    clock = VirtualClock()
    sessions = Sessions(AnAuthentication(clock, "t"), clock)
    (_, one), (_, other) = await sessions.begin("t"), await sessions.begin("t")
    guard.check_csrf(one, one.csrf)
    for word in (other.csrf, "", "é"):
        with pytest.raises(Denied, match="of another session"):
            guard.check_csrf(one, word)
