"""Leader election on the embedded server, under virtual time."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.integration.kube.faults import Faulty

from pumice import instant
from pumice.api.coordination import Lease
from pumice.clock import VirtualClock
from pumice.kube import lease
from pumice.kube.client import Client
from pumice.kube.lease import Election, NotLeading
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings

NOON = instant.parse_instant("2026-11-15T12:00:00Z")


class World:
    """Candidates for one lease, each behind a network of its own."""

    def __init__(self) -> None:
        self.clock = VirtualClock(NOON)
        self.story = []
        self.networks = {}
        self.elections = {}

    def run(self, script):
        async def main():
            async with Server(Settings(now=self.clock.now, chance=random.Random(0))) as self.server:
                try:
                    return await script(self)
                finally:
                    others = asyncio.all_tasks() - {asyncio.current_task(), self.server._task}
                    for task in others:  # all at once: none of them is to see another one stop
                        task.cancel()
                    if others:
                        await asyncio.wait(others)

        return self.clock.run(main())

    def client(self, transport=None):
        return Client(transport or LocalTransport(self.server), clock=self.clock, chance=random.Random(0))

    def candidate(self, name):
        self.networks[name] = Faulty(LocalTransport(self.server))
        self.elections[name] = Election(
            self.client(self.networks[name]),
            namespace="default",
            name="leader",
            identity=name,
            clock=self.clock,
            chance=random.Random(name),
        )
        return asyncio.create_task(self.life(name))

    async def a_leads_and_b_comes(self):
        """A second apart; the task of the first."""
        first = self.candidate("a")
        await self.clock.sleep(1)
        self.candidate("b")
        return first

    async def life(self, name):
        try:
            return await self.elections[name].lead(lambda: self.work(name))
        except NotLeading:
            self.note(name, "lost")
            raise

    async def work(self, name):
        self.note(name, "leads")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.note(name, "stops")

    def note(self, name, what):
        self.story.append((round(self.clock.monotonic(), 1), name, what))

    def leaders(self):
        """Who would write now."""
        return [name for name, each in self.elections.items() if self.clock.monotonic() < each.deadline()]

    async def lease(self):
        return (await self.client().get(Lease, "leader", namespace="default")).into(Lease)


def test_the_first_leads_and_the_second_waits_as_long_as_it_renews():
    async def script(world):
        await world.a_leads_and_b_comes()
        await world.clock.sleep(600)
        return world.leaders()

    world = World()
    assert world.run(script) == ["a"]
    assert world.story[:1] == [(0, "a", "leads")]
    assert all(name == "a" for _, name, _ in world.story)


def test_who_waits_watches_once_however_often_the_leader_renews():
    async def script(world):
        await world.a_leads_and_b_comes()
        await world.clock.sleep(lease.WATCH_S - 10)
        return world.networks["a"].calls, world.networks["b"].calls

    renewals, calls = World().run(script)
    assert renewals > 100
    assert calls == 2  # who holds it, and the watch


def test_a_watch_that_falls_silent_is_not_believed_for_longer_than_the_lease():
    async def script(world):
        await world.a_leads_and_b_comes()
        await world.clock.sleep(60)
        world.networks["b"].wires[-1].harm("silence")
        await world.clock.sleep(lease.LEASE_S + 1)
        return world.leaders(), world.networks["b"].calls

    assert World().run(script) == (["a"], 4)  # it looked again, and watches again


def test_only_who_knows_another_leader_stands_by():
    async def script(world):
        await world.a_leads_and_b_comes()
        before_it_looked = world.elections["b"].stands_by
        await world.clock.sleep(60)
        return before_it_looked, {name: each.stands_by for name, each in world.elections.items()}

    assert World().run(script) == (False, {"a": False, "b": True})


def test_the_lease_says_where_its_holder_can_be_asked_and_keeps_what_others_wrote_onto_it():
    async def script(world):
        first = world.candidate("a")
        world.elections["a"].annotations = {"address": "at a"}
        await world.clock.sleep(1)
        patch = {"metadata": {"annotations": {"note": "of somebody else"}}}
        await world.client().patch(Lease, "leader", patch, namespace="default")
        world.candidate("b")
        world.elections["b"].annotations = {"address": "at b"}
        await world.clock.sleep(60)
        before = (await world.lease()).metadata.annotations
        first.cancel()
        await asyncio.wait({first})
        await world.clock.sleep(60)
        return before, (await world.lease()).metadata.annotations, world.elections["b"].holder

    note = {"note": "of somebody else"}
    assert World().run(script) == ({"address": "at a", **note}, {"address": "at b", **note}, "b")


def test_a_leader_that_dies_without_a_word_is_replaced_within_twenty_seconds():
    async def script(world):
        await world.a_leads_and_b_comes()
        await world.clock.sleep(60)
        world.networks["a"].mode = "hang"  # as a killed process: nothing comes from it any more
        died = world.clock.monotonic()
        while "b" not in world.leaders():
            await world.clock.sleep(0.1)
        return world.clock.monotonic() - died

    assert 12 <= World().run(script) <= 20


def test_a_leader_that_stops_is_replaced_at_once():
    async def script(world):
        first = await world.a_leads_and_b_comes()
        await world.clock.sleep(60)
        first.cancel()
        await asyncio.wait({first})
        stopped = world.clock.monotonic()
        while "b" not in world.leaders():
            await world.clock.sleep(0.01)
        found = await world.lease()
        return world.clock.monotonic() - stopped, found.spec.holder_identity, found.spec.lease_transitions

    waited, holder, transitions = World().run(script)
    assert waited < 0.1
    assert (holder, transitions) == ("b", 1)


def test_a_leader_that_cannot_renew_stops_by_itself_before_anyone_else_may_lead():
    async def script(world):
        world.candidate("a")
        await world.clock.sleep(61)
        deadline = world.elections["a"].deadline()
        world.networks["a"].mode = "hang"
        await world.clock.sleep(30)
        return deadline

    world = World()
    deadline = world.run(script)
    assert 61 < deadline <= 71
    assert world.story[1:] == [
        (pytest.approx(deadline, abs=0.1), "a", "stops"),
        (pytest.approx(deadline, abs=0.1), "a", "lost"),
    ]


@pytest.mark.parametrize("mode", ["refuse", "lose"])
def test_a_short_trouble_costs_nothing(mode):
    async def script(world):
        world.candidate("a")
        await world.clock.sleep(5)
        for _ in range(5):
            world.networks["a"].mode = mode
            await world.clock.sleep(6)
            world.networks["a"].mode = "ok"
            await world.clock.sleep(6)
        return world.leaders()

    world = World()
    assert world.run(script) == ["a"]
    assert world.story[0] == (0, "a", "leads")
    assert (0, "a", "lost") not in world.story


def test_one_renewal_that_is_never_answered_costs_nothing():
    async def script(world):
        world.candidate("a")
        await world.clock.sleep(5)
        world.networks["a"].mode = "hang"
        before = world.networks["a"].calls
        while world.networks["a"].calls == before:
            await world.clock.sleep(0.1)
        world.networks["a"].mode = "ok"  # the call that hangs stays so
        await world.clock.sleep(30)
        return world.leaders()

    world = World()
    assert world.run(script) == ["a"]
    assert world.story == [(0, "a", "leads"), (pytest.approx(world.clock.monotonic(), abs=0.1), "a", "stops")]


def test_a_bystander_who_touches_the_lease_does_not_unseat_the_leader():
    async def script(world):
        world.candidate("a")
        await world.clock.sleep(5)
        note = {"metadata": {"annotations": {"seen": "yes"}}}
        for _ in range(10):
            await world.client().patch(Lease, "leader", note, namespace="default")
            await world.clock.sleep(3)
        found = await world.lease()
        return world.leaders(), found.metadata.annotations

    assert World().run(script) == (["a"], {"seen": "yes"})


def test_a_deleted_lease_is_made_again():
    async def script(world):
        world.candidate("a")
        await world.clock.sleep(5)
        await world.client().delete(Lease, "leader", namespace="default")
        await world.clock.sleep(5)
        return (await world.lease()).spec.holder_identity, world.leaders()

    assert World().run(script) == ("a", ["a"])


def test_a_lease_that_somebody_else_wrote_over_is_lost_at_once():
    async def script(world):
        world.candidate("a")
        await world.clock.sleep(5)
        await world.client().patch(Lease, "leader", {"spec": {"holderIdentity": "thief"}}, namespace="default")
        await world.clock.sleep(3)
        return world.leaders()

    world = World()
    assert world.run(script) == []
    assert world.story[-1][1:] == ("a", "lost")


def test_work_may_still_write_while_it_ends_and_the_lease_is_released_only_after_that():
    seen = []

    async def script(world):
        world.candidate("unused").cancel()
        election = world.elections["unused"]

        async def work():
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                for _ in range(15):  # longer than one renewal lasts
                    await world.clock.sleep(1)
                    election.check()
                seen.append((await world.lease()).spec.holder_identity)

        leading = asyncio.create_task(election.lead(work))
        await world.clock.sleep(5)
        leading.cancel()
        await asyncio.wait({leading})
        seen.append((await world.lease()).spec.holder_identity or "")
        return leading.cancelled()

    assert World().run(script)
    assert seen == ["unused", ""]


@pytest.mark.parametrize("outcome", [7, ValueError("broken")])
def test_work_that_ends_by_itself_gives_its_outcome_and_the_lease_back(outcome):
    async def script(world):
        world.candidate("unused").cancel()

        async def work():
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        try:
            return await world.elections["unused"].lead(work)
        except ValueError as error:
            return error
        finally:
            assert not (await world.lease()).spec.holder_identity

    assert World().run(script) is outcome


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(Faulty.MODES), st.floats(0.1, 20.0, allow_nan=False)),
        max_size=25,
    )
)
def test_there_are_never_two_who_would_write_whatever_the_network_does(troubles):
    async def keep_alive(world, name):
        while True:
            task = world.candidate(name)
            await asyncio.wait({task})
            await world.clock.sleep(0.5)

    async def script(world):
        for name in ("a", "b"):
            asyncio.create_task(keep_alive(world, name))  # noqa: RUF006 - the world ends it
        await asyncio.sleep(0)
        for name, mode, seconds in troubles:
            await asyncio.sleep(0)
            world.networks[name].mode = mode
            until = world.clock.monotonic() + seconds
            while world.clock.monotonic() < until:
                await world.clock.sleep(0.25)
                assert len(world.leaders()) <= 1, world.story
        for network in world.networks.values():
            network.mode = "ok"
        await world.clock.sleep(lease.LEASE_S + 10)
        assert len(world.leaders()) == 1, "when all is well again, somebody leads"

    World().run(script)
