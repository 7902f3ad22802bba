"""Queues that an operator declares, on the embedded server under virtual time."""

import random

import pytest
from tests.bodies.beside import beside

from pumice import instant
from pumice.api import kinds
from pumice.api.scheduling import Queue
from pumice.clock import VirtualClock
from pumice.errors import BadInput
from pumice.kube.client import Client
from pumice.local.apiserver.admission import Hook
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.up import install_kinds
from pumice.processes.queues import QUEUES_MAX, make_queues, read_queues

NOON = instant.parse_instant("2026-11-15T12:00:00Z")


def made(wanted, *, refused_for_s=0, before=()):
    """What stands in the server a minute after `make_queues` began: name -> spec."""
    clock = VirtualClock(NOON)

    def review(request):
        allowed = clock.monotonic() >= refused_for_s
        status = {} if allowed else {"status": {"code": 403, "message": "not yet"}}
        return {"uid": request["uid"], "allowed": allowed, **status}

    async def main():
        collection = frozenset({"queues.scheduling.volcano.sh"})
        hook = Hook("/queues/validate", collection, frozenset({"CREATE"}), False, review)
        async with Server(Settings(now=clock.now, chance=random.Random(0), hooks=[hook])) as server:
            client = Client(LocalTransport(server), clock=clock, chance=random.Random(0))
            await install_kinds(client)
            for name, spec in before:
                body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
                await client.create(Queue, {**body, "spec": spec})
            async with beside(make_queues(client, wanted, clock=clock, log=lambda *_, **__: None)) as (making,):
                await clock.sleep(60)
                assert not making.done()  # whoever runs it beside its work would end with it
                listed = await client.list_json(kinds.by_struct(Queue))
            return {each["metadata"]["name"]: each["spec"] for each in listed}

    return clock.run(main())


def test_declared_queues_are_made():
    found = made({"team-a": {"weight": 2}, "team-b": {"weight": 3, "reclaimable": False}})
    assert found["team-a"]["weight"] == 2
    assert found["team-b"]["reclaimable"] is False


def test_what_an_administrator_has_changed_stays():
    assert made({"team-a": {"weight": 2}}, before=[("team-a", {"weight": 7})])["team-a"]["weight"] == 7


def test_a_refusal_is_tried_again():
    assert "team-a" in made({"team-a": {"weight": 2}}, refused_for_s=12)


def test_queues_are_read_from_a_table_of_names(tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text("team-a: {weight: 2}\nteam-b:\n  capability: {nvidia.com/gpu: 16}\n")
    assert read_queues(str(file)) == {"team-a": {"weight": 2}, "team-b": {"capability": {"nvidia.com/gpu": 16}}}
    file.write_text("")
    assert read_queues(str(file)) == {}


@pytest.mark.parametrize(
    "text",
    ["- team-a\n", "team-a: 2\n", "a: {}\n---\nb: {}\n", "".join(f"q{n}: {{}}\n" for n in range(QUEUES_MAX + 1))],
)
def test_anything_else_is_refused_by_the_name_of_the_file(tmp_path, text):
    file = tmp_path / "queues.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=r"queues\.yaml"):
        read_queues(str(file))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match="no-such-file"):
        read_queues(str(tmp_path / "no-such-file"))
