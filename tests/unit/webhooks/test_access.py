"""The same question is asked once in a moment, and never remembered for long."""

import asyncio
import random

import msgspec
import pytest

from pumice.clock import VirtualClock
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.transport import Response
from pumice.webhooks import access
from pumice.webhooks.access import ALLOWED_S, DENIED_S, REVIEW_S_MAX, USE, QueueAccess
from pumice.webhooks.submitters import Subject

ALICE = Subject("alice", ("blue",))


class Server:
    """Knows who may use what."""

    def __init__(self, *grants):
        self.grants = set(grants)
        self.asked = []
        self.silent = False

    async def call(self, request):
        spec = msgspec.json.decode(request.body)["spec"]
        self.asked.append(spec)
        if self.silent:
            await asyncio.Event().wait()
        allowed = (spec["user"], spec["resourceAttributes"]["name"]) in self.grants
        await asyncio.sleep(0.1)
        return Response(201, {}, msgspec.json.encode({"status": {"allowed": allowed}}))

    async def close(self):
        pass


def in_a_world(body, *grants):
    clock = VirtualClock(0)
    server = Server(*grants)
    client = Client(server, clock=clock, chance=random.Random(0))
    return clock.run(body(server, QueueAccess(client, clock=clock), clock))


def test_the_question_names_verb_resource_and_groups():
    async def body(server, rights, _):
        assert await rights.may(ALICE, USE, "q")
        assert server.asked == [
            {
                "user": "alice",
                "groups": ["blue"],
                "resourceAttributes": {
                    "verb": "use",
                    "group": "scheduling.volcano.sh",
                    "version": "*",
                    "resource": "queues",
                    "name": "q",
                },
            }
        ]

    in_a_world(body, ("alice", "q"))


def test_a_yes_is_remembered_for_a_while():
    async def body(server, rights, clock):
        await rights.may(ALICE, USE, "q")
        await clock.sleep(ALLOWED_S - 1)
        server.grants.clear()
        assert await rights.may(ALICE, USE, "q")
        await clock.sleep(2)
        assert not await rights.may(ALICE, USE, "q")

    in_a_world(body, ("alice", "q"))


def test_a_no_is_remembered_for_a_moment():
    async def body(server, rights, clock):
        assert not await rights.may(ALICE, USE, "q")
        server.grants.add(("alice", "q"))
        assert not await rights.may(ALICE, USE, "q")
        await clock.sleep(DENIED_S)
        assert await rights.may(ALICE, USE, "q")

    in_a_world(body)


def test_many_who_ask_at_once_are_one_question():
    async def body(server, rights, _):
        answers = await asyncio.gather(*(rights.may(ALICE, USE, "q") for _ in range(100)))
        assert all(answers)
        assert len(server.asked) == rights.asked == 1

    in_a_world(body, ("alice", "q"))


def test_who_stops_waiting_does_not_take_the_answer_from_others():
    async def body(server, rights, _):
        first = asyncio.create_task(rights.may(ALICE, USE, "q"))
        second = asyncio.create_task(rights.may(ALICE, USE, "q"))
        await asyncio.sleep(0.01)
        first.cancel()
        assert await second
        assert len(server.asked) == 1

    in_a_world(body, ("alice", "q"))


def test_other_groups_are_another_question():
    async def body(server, rights, _):
        await rights.may(ALICE, USE, "q")
        await rights.may(Subject("alice", ("red",)), USE, "q")
        assert len(server.asked) == 2

    in_a_world(body, ("alice", "q"))


def test_so_many_answers_are_remembered_at_most(monkeypatch):
    monkeypatch.setattr(access, "ANSWERS_MAX", 2)

    async def body(server, rights, _):
        for queue in ("a", "b", "c", "a"):
            await rights.may(ALICE, USE, queue)
        assert len(server.asked) == 4

    in_a_world(body, ("alice", "a"), ("alice", "b"), ("alice", "c"))


def test_a_silent_server_is_not_waited_for():
    async def body(server, rights, clock):
        server.silent = True
        began = clock.monotonic()
        with pytest.raises(errors.Unreachable, match="try again"):
            await rights.may(ALICE, USE, "q")
        assert clock.monotonic() - began == pytest.approx(REVIEW_S_MAX)

    in_a_world(body)


def test_what_is_remembered_does_not_grow_with_the_groups_of_whoever_asks():
    async def body(_, rights, __):
        await rights.may(Subject("alice", ("x" * 2**20,)), USE, "q")
        await rights.may(Subject("alice", ("x" * 2**20, "y")), USE, "q")
        assert [len(key) for key in rights._answers] == [32, 32]

    in_a_world(body)
