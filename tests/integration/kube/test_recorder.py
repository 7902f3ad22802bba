"""Events on the embedded server, under virtual time."""

import asyncio
import random

from tests.integration.kube.faults import Faulty

from pumice import instant
from pumice.api.events import CoreEvent
from pumice.api.meta import ObjectReference
from pumice.clock import VirtualClock
from pumice.kube import recorder as module
from pumice.kube.client import Client
from pumice.kube.recorder import Recorder, shorten
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings

NOON = instant.parse_instant("2026-11-15T12:00:00Z")


def gang(name):
    return ObjectReference(
        api_version="scheduling.volcano.sh/v1beta1", kind="PodGroup", namespace="default", name=name, uid=f"uid-{name}"
    )


def play(script):
    clock = VirtualClock(NOON)

    async def main():
        async with Server(Settings(now=clock.now, chance=random.Random(0))) as server:
            network = Faulty(LocalTransport(server))
            client = Client(network, clock=clock, chance=random.Random(0))
            recorder = Recorder(client, component="pumice-scheduler", instance="pod-1", clock=clock)
            running = asyncio.create_task(recorder.run())
            try:
                return await script(recorder, client, clock, network)
            finally:
                running.cancel()
                await asyncio.wait({running})
                assert running.cancelled(), running.exception()

    return clock.run(main())


async def events(client):
    found = (await client.list(CoreEvent)).items
    return sorted((each.involved_object.name, each.type, each.reason, each.message, each.count) for each in found)


def test_an_event_says_what_happened_to_whom_when_and_who_says_so():
    async def script(recorder, client, clock, _network):
        recorder.record(gang("g"), "Warning", "Unschedulable", "no room", action="Scheduling")
        await clock.sleep(1)
        (found,) = (await client.list(CoreEvent)).items
        return found

    found = play(script)
    assert found.involved_object == gang("g")
    assert (found.type, found.reason, found.message, found.action) == (
        "Warning",
        "Unschedulable",
        "no room",
        "Scheduling",
    )
    assert (found.source.component, found.reporting_component, found.reporting_instance) == (
        "pumice-scheduler",
        "pumice-scheduler",
        "pod-1",
    )
    assert (found.first_timestamp, found.last_timestamp, found.count) == (
        "2026-11-15T12:00:00Z",
        "2026-11-15T12:00:00Z",
        1,
    )


def test_what_repeats_is_counted_in_memory_and_written_now_and_then():
    async def script(recorder, client, clock, network):
        for _ in range(600):
            recorder.record(gang("g"), "Warning", "Unschedulable", "no room")
            await clock.sleep(0.1)
        await clock.sleep(module.COUNT_S_MIN + 2)
        writes = network.calls
        return await events(client), writes

    found, writes = play(script)
    assert found == [("g", "Warning", "Unschedulable", "no room", 600)]
    assert writes <= 1 + 72 / module.COUNT_S_MIN + 1


def test_another_object_reason_message_or_type_is_another_event():
    async def script(recorder, client, clock, _network):
        for name, type_, reason, message in (
            ("g", "Normal", "A", "m"),
            ("h", "Normal", "A", "m"),
            ("g", "Warning", "A", "m"),
            ("g", "Normal", "B", "m"),
            ("g", "Normal", "A", "n"),
        ):
            recorder.record(gang(name), type_, reason, message)
        await clock.sleep(1)
        return await events(client)

    assert len(play(script)) == 5


def test_one_chatty_object_is_cut_short_and_the_others_are_heard():
    async def script(recorder, client, clock, _network):
        for number in range(100):
            recorder.record(gang("chatty"), "Normal", "Says", f"word {number}")
        recorder.record(gang("quiet"), "Normal", "Says", "something")
        await clock.sleep(2)
        found = await events(client)
        return len([each for each in found if each[0] == "chatty"]), len(found), recorder.dropped

    chatty, all_, dropped = play(script)
    assert chatty == module.OBJECT_EVENTS_BURST
    assert all_ == chatty + 1
    assert dropped == 100 - module.OBJECT_EVENTS_BURST


def test_a_flood_of_objects_is_limited_and_counted():
    async def script(recorder, client, clock, _network):
        for number in range(module.EVENTS_BURST + 50):
            recorder.record(gang(f"g{number}"), "Normal", "Says", "x")
        await clock.sleep(2)
        return len(await events(client)), recorder.dropped

    assert play(script) == (module.EVENTS_BURST, 50)


def test_memory_is_bounded_whatever_is_recorded(monkeypatch):
    monkeypatch.setattr(module, "SERIES_MAX", 5)

    async def script(recorder, client, clock, _network):
        for number in range(50):
            recorder.record(gang(f"g{number}"), "Normal", "Says", "x")
        return len(recorder._series), len(recorder._buckets)

    assert play(script) == (5, 5)


def test_a_server_that_cannot_be_reached_costs_events_never_the_caller():
    async def script(recorder, client, clock, network):
        network.mode = "refuse"
        recorder.record(gang("g"), "Normal", "Lost", "x")
        await clock.sleep(30)
        network.mode = "ok"
        recorder.record(gang("g"), "Normal", "Kept", "x")
        recorder.record(gang("g"), "Normal", "Lost", "x")
        await clock.sleep(30)
        return await events(client), recorder.dropped

    found, dropped = play(script)
    assert [each[2] for each in found] == ["Kept", "Lost"]
    assert dropped == 1


def ended(mode_at_the_end):
    """What a process has written that was told to end while it waited for its next round, and what it says of the rest."""
    said = []

    async def script(_recorder, client, clock, network):
        ending = Recorder(client, component="ending", clock=clock, log=lambda name, **facts: said.append((name, facts)))
        running = asyncio.create_task(ending.run())
        ending.record(gang("first"), "Normal", "Scheduled", "placed")
        await clock.sleep(module.WRITE_S / 2)
        ending.record(gang("second"), "Normal", "Scheduled", "placed")
        network.mode = mode_at_the_end
        running.cancel()
        await asyncio.wait({running})
        network.mode = "ok"
        return [each[0] for each in await events(client)], running.cancelled()

    return *play(script), said


def test_a_process_that_is_told_to_end_writes_what_happened_last():
    assert ended("ok") == (["first", "second"], True, [])


def test_a_process_that_is_told_to_end_does_not_wait_for_a_dead_server():
    gave_up = ("events_not_written", {"events": 1, "error": "no answer within 3 s"})
    assert ended("hang") == (["first"], True, [gave_up])


def test_what_was_being_written_when_a_process_was_told_to_end_is_written_before_it_ends():
    async def script(_recorder, client, clock, network):
        ending = Recorder(client, component="ending", clock=clock)
        network.mode = "hang"
        for name in ("first", "second"):
            ending.record(gang(name), "Normal", "Scheduled", "placed")
        running = asyncio.create_task(ending.run())
        await clock.sleep(0.1)
        network.mode = "ok"
        running.cancel()
        await asyncio.wait({running})
        return await events(client)

    assert play(script) == [(name, "Normal", "Scheduled", "placed", 1) for name in ("first", "second")]


def test_events_wait_in_a_queue_with_an_end(monkeypatch):
    monkeypatch.setattr(module, "PENDING_MAX", 3)

    async def script(recorder, client, clock, network):
        network.mode = "hang"
        for number in range(10):
            recorder.record(gang(f"g{number}"), "Normal", "Says", "x")
        return len(recorder._pending), recorder.dropped

    assert play(script) == (3, 7)


def test_a_message_is_cut_between_two_characters():
    assert shorten("short") == "short"
    assert shorten("x" * 1_024) == "x" * 1_024
    assert shorten("x" * 1_025) == "x" * 1_021 + "..."
    wide = shorten("ä" * 1_000)
    assert len(wide.encode()) <= 1_024
    assert wide.endswith("ä...")


def test_the_name_of_an_event_fits_whatever_the_objects_name():
    async def script(recorder, client, clock, _network):
        recorder.record(gang("x" * 253), "Normal", "Says", "x")
        await clock.sleep(1)
        return [each.metadata.name for each in (await client.list(CoreEvent)).items]

    (name,) = play(script)
    assert len(name) <= 253
