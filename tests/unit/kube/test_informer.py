import asyncio
import contextlib
import itertools
import random

import pytest
from tests.unit.kube.peers import (
    LiveStream,
    Scripted,
    added,
    bookmark,
    deleted,
    failure,
    listed,
    modified,
    pod,
    streaming,
)

from pumice.api.changes import Deleted, Relisted, Upserted
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.clock import VirtualClock
from pumice.kube import errors, informer
from pumice.kube.client import Client
from pumice.kube.informer import Informer, Informers

NO_STREAMED_LISTS = failure(422, "Invalid", "sendInitialEvents is forbidden for watch")
GONE = failure(410, "Expired", "too old resource version")


def tell(news):
    """News in words: `+name@version`, `-name@version`, and `=` with the names of a whole list."""
    words = []
    for each in news:
        if isinstance(each, Relisted):
            words.append("=" + ",".join(sorted(uid.removeprefix("uid-") for uid in each.uids)))
        else:
            metadata = each.object.metadata
            words.append(f"{'+' if isinstance(each, Upserted) else '-'}{metadata.name}@{metadata.resource_version}")
    return " ".join(words)


class World:
    """An informer under virtual time, and everything that was heard of it."""

    def __init__(self, *answers, **settings):
        self.clock = VirtualClock()
        self.transport = Scripted(*answers)
        self.settings = settings
        self.heard = []
        self.logged = []

    def run(self, script):
        async def main():
            client = Client(self.transport, clock=self.clock, chance=random.Random(0))
            self.informer = Informer(
                client,
                Pod,
                clock=self.clock,
                chance=random.Random(0),
                log=lambda event, **facts: self.logged.append(event),
                **self.settings,
            )
            self.informer.subscribe(lambda news: self.heard.append(tell(news)))
            running = asyncio.create_task(self.informer.run())
            try:
                return await script(self)
            finally:
                running.cancel()
                await asyncio.wait({running})
                assert running.cancelled(), running.exception()

        return self.clock.run(main())

    @property
    def watches(self):
        """The versions from which it watched; `list` where it asked for everything."""
        return [
            "list" if "sendInitialEvents" in call.query else call.query["resourceVersion"]
            for call in self.transport.calls
            if "watch" in call.query
        ]

    @property
    def names(self):
        return sorted(
            f"{key.namespace}/{key.name}@{each.metadata.resource_version}"
            for key, each in self.informer.objects.items()
        )


async def settle(world):
    """Lets everything happen that can happen without time passing."""
    for _ in range(50):
        await asyncio.sleep(0)


# ------------------------------------------------------------------------------------------------------ listing


def test_a_list_comes_through_the_watch_and_is_passed_on_whole_at_its_end():
    stream = LiveStream()

    async def script(world):
        stream.send(added(pod("a", 1)), added(pod("b", 2)))
        await settle(world)
        assert world.heard == []
        assert not world.informer.synced.is_set()
        stream.send(bookmark(5, ends_list=True))
        await world.informer.synced.wait()
        stream.send(modified(pod("a", 6)), deleted(pod("b", 7)))
        await settle(world)

    world = World(streaming(stream))
    world.run(script)
    assert world.heard == ["+a@1 +b@2 =a,b", "+a@6 -b@7"]
    assert world.names == ["team/a@6"]
    assert world.informer.get("team", "a").metadata.resource_version == "6"
    assert world.informer.get("team", "b") is None
    assert stream.closed.is_set()


def test_the_end_of_a_list_and_news_may_come_in_one_chunk():
    stream = LiveStream()

    async def script(world):
        stream.send(added(pod("a", 1)), bookmark(5, ends_list=True), modified(pod("a", 6)), bookmark(8))
        await settle(world)
        stream.end()
        await world.clock.sleep(10)

    world = World(streaming(stream), streaming(LiveStream()))
    world.run(script)
    assert world.heard == ["+a@1 =a", "+a@6"]
    assert world.watches == ["list", "8"]


def test_a_list_that_breaks_off_is_begun_anew_and_nothing_of_it_was_passed_on():
    first, second = LiveStream(), LiveStream()

    async def script(world):
        first.send(added(pod("a", 1)), added(pod("b", 2)))
        first.break_off()
        second.send(added(pod("a", 1)), bookmark(9, ends_list=True))
        await world.informer.synced.wait()

    world = World(streaming(first), streaming(second))
    world.run(script)
    assert world.heard == ["+a@1 =a"]
    assert world.watches == ["list", "list"]


def test_a_server_that_cannot_stream_lists_is_asked_for_pages():
    async def script(world):
        await world.informer.synced.wait()
        await settle(world)

    world = World(NO_STREAMED_LISTS, listed(5, pod("a", 1), pod("b", 2)), streaming(LiveStream()))
    world.run(script)
    assert world.heard == ["+a@1 +b@2 =a,b"]
    assert world.watches == ["list", "5"]


def test_a_server_that_never_marks_the_end_of_a_list_is_asked_for_pages():
    stream = LiveStream()

    async def script(world):
        stream.send(added(pod("a", 1)))
        await world.informer.synced.wait()

    world = World(streaming(stream), listed(5, pod("a", 1)), streaming(LiveStream()))
    world.run(script)
    assert world.heard == ["+a@1 =a"]
    assert world.clock.monotonic() > 120


def test_selectors_and_the_namespace_go_with_every_call():
    async def script(world):
        await world.informer.synced.wait()
        await settle(world)

    world = World(
        NO_STREAMED_LISTS,
        listed(5),
        streaming(LiveStream()),
        namespace="team",
        fields="spec.nodeName=n",
    )
    world.run(script)
    for call in world.transport.calls:
        assert call.path == "/api/v1/namespaces/team/pods"
        assert call.query["fieldSelector"] == "spec.nodeName=n"


# ------------------------------------------------------------------------------------------------------ watching


def test_a_watch_that_ends_is_resumed_from_the_last_version_heard_of():
    first, second = LiveStream(), LiveStream()

    async def script(world):
        first.send(bookmark(5, ends_list=True), added(pod("a", 7)))
        await world.clock.sleep(5)
        first.end()
        second.send(bookmark(20))
        await world.clock.sleep(5)
        second.break_off()
        await world.clock.sleep(5)

    world = World(streaming(first), streaming(second), streaming(LiveStream()))
    world.run(script)
    assert world.watches == ["list", "7", "20"]
    assert world.heard == ["=", "+a@7"]


def test_a_watch_that_falls_silent_is_resumed():
    first = LiveStream()

    async def script(world):
        first.send(bookmark(5, ends_list=True))
        await world.clock.sleep(200)

    world = World(streaming(first), streaming(LiveStream()))
    world.run(script)
    assert world.watches == ["list", "5"]
    assert first.closed.is_set()
    assert "watch_failed" in world.logged


@pytest.mark.parametrize("how", ["answer", "event"])
def test_a_version_that_is_too_old_means_a_new_list_and_what_vanished_meanwhile_is_told(how):
    first, second, third = LiveStream(), LiveStream(), LiveStream()

    async def script(world):
        first.send(
            *(added(pod(name, 1)) for name in ("same", "changed", "gone", "reborn")), bookmark(5, ends_list=True)
        )
        await world.informer.synced.wait()
        first.end()
        second.send({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}})
        third.send(
            added(pod("same", 1)),
            added(pod("changed", 8)),
            added(pod("reborn", 9, uid="uid-another")),
            added(pod("new", 7)),
            bookmark(10, ends_list=True),
        )
        await world.clock.sleep(30)

    world = World(streaming(first), GONE if how == "answer" else streaming(second), streaming(third))
    world.run(script)
    assert world.watches == ["list", "5", "list"]
    assert world.heard[1:] == ["-gone@1 -reborn@1 +changed@8 +reborn@9 +new@7 =another,changed,new,same"]
    assert world.names == ["team/changed@8", "team/new@7", "team/reborn@9", "team/same@1"]


def test_an_object_made_again_under_its_name_is_first_deleted():
    stream = LiveStream()

    async def script(world):
        stream.send(added(pod("a", 1)), bookmark(5, ends_list=True))
        await world.informer.synced.wait()
        stream.send(modified(pod("a", 6, uid="uid-second")))
        await settle(world)

    world = World(streaming(stream))
    world.run(script)
    assert world.heard[1:] == ["-a@1 +a@6"]


def test_an_unreadable_object_keeps_its_last_readable_state_and_is_not_taken_for_deleted():
    first, second = LiveStream(), LiveStream()
    broken = pod("b", 6) | {"spec": 7}

    async def script(world):
        first.send(added(pod("a", 1)), added(pod("b", 2)), bookmark(5, ends_list=True))
        await world.informer.synced.wait()
        first.send(modified(broken), modified(pod("a", 7)))
        await settle(world)
        first.end()
        await world.clock.sleep(30)

    world = World(streaming(first), GONE, NO_STREAMED_LISTS, listed(9, pod("a", 7), broken), streaming(second))
    world.run(script)
    assert world.heard == ["+a@1 +b@2 =a,b", "+a@7", "=a,b"]
    assert world.names == ["team/a@7", "team/b@2"]
    assert "object_unreadable" in world.logged


def test_failures_are_retried_ever_more_slowly_and_a_success_forgets_them():
    down = failure(403, "Forbidden")
    asked_at = []
    first = LiveStream()

    async def script(world):
        original = world.transport.call

        async def noting(request):
            asked_at.append(world.clock.monotonic())
            return await original(request)

        world.transport.call = noting
        await world.informer.synced.wait()
        first.break_off()
        await world.clock.sleep(100)

    first.send(bookmark(5, ends_list=True))
    world = World(*[down] * 12, streaming(first), streaming(LiveStream()))
    world.run(script)
    pauses = [later - earlier for earlier, later in itertools.pairwise(asked_at)]
    for nth, pause in enumerate(pauses[:12]):
        expected = min(informer.RETRY_S_MAX, informer.RETRY_S_FIRST * 2**nth)
        assert 0.5 * expected <= pause <= 1.5 * expected
    assert pauses[12] <= 1.5 * informer.RETRY_S_FIRST, "the list succeeded: begin with short pauses again"


def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_tight_loop():
    async def script(world):
        await world.clock.sleep(60)

    first = LiveStream()
    first.send(bookmark(5, ends_list=True))
    first.end()
    world = World(streaming(first), *(streaming(LiveStream(None)) for _ in range(100)))
    world.run(script)
    assert len(world.transport.calls) < 20


def test_a_409_gone_again_and_again_is_not_asked_in_a_tight_loop():
    async def script(world):
        await world.clock.sleep(60)

    first = LiveStream()
    first.send(bookmark(5, ends_list=True))
    first.end()
    world = World(streaming(first), GONE)
    world.run(script)
    assert len(world.transport.calls) < 20


def test_stopping_closes_the_stream_and_leaves_nothing_running():
    stream = LiveStream()

    async def script(world):
        stream.send(bookmark(5, ends_list=True))
        await world.informer.synced.wait()
        return asyncio.all_tasks()

    World(streaming(stream)).run(script)
    assert stream.closed.is_set()


# ------------------------------------------------------------------------------------------------------ subscribing


def test_who_subscribes_late_is_told_everything_first_and_who_leaves_hears_no_more():
    stream = LiveStream()
    late = []

    async def script(world):
        stream.send(added(pod("a", 1)), bookmark(5, ends_list=True))
        await world.informer.synced.wait()
        leave = world.informer.subscribe(lambda news: late.append(tell(news)))
        stream.send(modified(pod("a", 6)))
        await settle(world)
        leave()
        stream.send(modified(pod("a", 7)))
        await settle(world)

    world = World(streaming(stream))
    world.run(script)
    assert late == ["+a@1 =a", "+a@6"]
    assert world.heard[-1] == "+a@7"


# ------------------------------------------------------------------------------------------------------ sharing


def test_everyone_in_a_process_shares_one_informer_per_kind():
    clock = VirtualClock()
    streams = {"/api/v1/pods": LiveStream(), "/api/v1/nodes": LiveStream()}

    async def main():
        transport = Scripted(lambda request: streaming(streams[request.path]))
        shared = Informers(
            Client(transport, clock=clock, chance=random.Random(0)), clock=clock, chance=random.Random(0)
        )
        pods = shared.of(Pod)
        running = asyncio.create_task(shared.run())
        await asyncio.sleep(0)
        nodes = shared.of(Node)  # one that is asked for while the others run
        assert shared.of(Pod) is pods
        for stream in streams.values():
            stream.send(bookmark(5, ends_list=True))
        await shared.synced()
        assert pods.synced.is_set()
        assert nodes.synced.is_set()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert all(stream.closed.is_set() for stream in streams.values())
        assert len(transport.calls) == 2

    clock.run(main())


def test_a_subscriber_that_breaks_is_not_hidden():
    stream = LiveStream()
    clock = VirtualClock()

    async def main():
        client = Client(Scripted(streaming(stream)), clock=clock, chance=random.Random(0))
        made = Informer(client, Pod, clock=clock, chance=random.Random(0))

        def broken(_news):
            raise ZeroDivisionError

        made.subscribe(broken)
        stream.send(bookmark(5, ends_list=True))
        await made.run()

    with pytest.raises(ZeroDivisionError):
        clock.run(main())


def test_news_are_what_the_cluster_takes_in():
    assert {Upserted, Deleted, Relisted} == set(informer.News.__args__)


# ------------------------------------------------------------------------------------------------------ a server's return


class DeadUntil:
    """A transport to a server that comes back at a certain second."""

    def __init__(self, clock, second):
        self._clock = clock
        self._second = second

    async def call(self, request):
        if self._clock.monotonic() < self._second:
            raise errors.Unreachable("nobody listens there")
        stream = LiveStream()
        stream.send(bookmark(5, ends_list=True))
        return streaming(stream)


def test_the_first_informer_that_finds_the_server_back_wakes_those_that_sleep():
    clock = VirtualClock()
    kinds = (Pod, Node, PodGroup, Queue)

    async def main():
        chance = random.Random(3)
        client = Client(DeadUntil(clock, 200.0), clock=clock, chance=chance)
        informers = Informers(client, clock=clock, chance=chance)
        back_at = []
        for kind in kinds:
            informers.of(kind).subscribe(lambda _: back_at.append(clock.monotonic()))
        running = asyncio.create_task(informers.run())
        await informers.synced()
        running.cancel()
        await asyncio.wait({running})
        return set(back_at)

    assert len(clock.run(main())) == 1, "by themselves they would have come back many seconds after one another"


def test_an_informer_that_is_refused_sleeps_on_while_others_hear_of_the_server():
    clock = VirtualClock()
    asked = []

    class Refusing(DeadUntil):
        async def call(self, request):
            answer = await super().call(request)
            if request.path.endswith("/nodes"):
                asked.append(self._clock.monotonic())
                return failure(403, "Forbidden", "no nodes for you")
            return answer

    async def main():
        chance = random.Random(3)
        client = Client(Refusing(clock, 0.0), clock=clock, chance=chance)
        informers = Informers(client, clock=clock, chance=chance)
        informers.of(Pod)
        informers.of(Node)
        running = asyncio.create_task(informers.run())
        await clock.sleep(60.0)
        running.cancel()
        await asyncio.wait({running})

    clock.run(main())
    assert len(asked) < 12
