"""As whom the API server is asked: people's own token, and nothing of this process."""

import asyncio
import json
import random

from tests.unit.readmodel.test_build import views_of
from tests.unit.scheduling.clusters import a_gang, a_node

from pumice.cli.dashboard import bare
from pumice.clock import VirtualClock
from pumice.dashboard.people import REVIEW_S, LinkAuthentication, Person, TokenAuthentication
from pumice.kube.client import Client
from pumice.kube.connection import Connection
from pumice.kube.credentials import Access, Fixed, Presented
from pumice.kube.transport import Response

USER = {"username": "ann", "groups": []}


class Line:
    """An API server that keeps what it was shown, and allows what it is asked about."""

    def __init__(self, status=201):
        self.status = status
        self.shown = []

    async def call(self, request):
        self.shown.append((request.path.rpartition("/")[2], request.headers.get("authorization", "")))
        told = {"authenticated": True, "audiences": ["pumice.dev"], "user": USER, "allowed": True}
        body = {"status": told} if self.status < 400 else {"kind": "Status", "code": self.status, "message": "no"}
        return Response(self.status, {}, json.dumps(body).encode())

    async def close(self):
        raise AssertionError("the line is everybody's")


def client(line):
    return Client(line, clock=VirtualClock(), chance=random.Random(1))


def test_a_bare_connection_shows_neither_our_token_nor_our_certificate_nor_whom_we_impersonate():
    ours = Connection(
        server="https://api.example",
        credentials=Presented(token=Fixed(b"ours"), certificate=Fixed(b"pem"), key=Fixed(b"key")),
        headers=(("impersonate-user", "admin"),),
    )
    found = bare(ours)
    assert asyncio.run(found.credentials.access()) == Access()
    assert (found.headers, found.server) == ((), "https://api.example")


def test_people_with_a_token_ask_with_it_and_over_the_bare_line():
    ours, line = Line(), Line()

    async def go():
        person = await TokenAuthentication(client(ours), VirtualClock(), line).enter("secret-of-ann")
        assert await person.can("delete", {"resource": "jobs"})
        assert await person.can("delete", {"resource": "jobs"})  # known
        await person.client.close()

    asyncio.run(go())
    assert ours.shown == [("tokenreviews", "")]
    assert line.shown == [("selfsubjectaccessreviews", "Bearer secret-of-ann")]


def test_a_token_that_the_api_server_does_not_take_can_do_nothing():
    async def go():
        person = await TokenAuthentication(client(Line()), VirtualClock(), Line(401)).enter("for-looking-only")
        return await person.can("delete", {"resource": "jobs"})

    assert not asyncio.run(go())


def test_without_a_line_of_their_own_nobody_acts():
    async def go():
        person = await TokenAuthentication(client(Line()), VirtualClock()).enter("secret")
        return person.client, await person.can("delete", {"resource": "jobs"})

    assert asyncio.run(go()) == (None, False)


def test_by_a_link_one_acts_as_the_kubeconfigs_user():
    secrets, ours = [], client(Line())
    authentication = LinkAuthentication(ours, VirtualClock(), name="you", tell=secrets.append)
    authentication.renew()
    assert asyncio.run(authentication.enter(secrets[0])).client is ours


def test_a_namespace_stays_somebodys_own_while_no_gang_is_in_it():
    clock, allowed = VirtualClock(), {"red"}

    async def may(verb, what):
        return verb == "list" and what.get("namespace") in allowed

    async def go():
        person = Person("rita", may, clock)
        mine = views_of(a_node("n1"), a_gang("mine", 1, namespace="red"), a_gang("other", 1, namespace="blue")).state()
        gone = views_of(a_node("n1"), a_gang("other", 1, namespace="blue")).state()
        assert (await person.sees(gone)).namespaces == frozenset()
        assert (await person.sees(mine)).namespaces == {"red"}
        assert (await person.sees(gone)).namespaces == {"red"}
        allowed.clear()
        clock.jump(REVIEW_S)
        assert (await person.sees(gone)).namespaces == frozenset()

    asyncio.run(go())
