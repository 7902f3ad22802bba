import contextlib
import json
import random

import pytest
from tests.unit.kube.peers import Scripted, failure, ok

from pumice.api.core import Node
from pumice.api.kinds import by_struct
from pumice.api.meta import Object
from pumice.api.pods import Pod
from pumice.api.scheduling import Queue
from pumice.clock import VirtualClock
from pumice.errors import BadInput
from pumice.kube import client as client_module
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.requests import PatchType, Propagation
from pumice.kube.transport import BODY_BYTES_MAX, Request, Response


def play(transport, script, **settings):
    """Runs `script(client)` under virtual time; returns its result and the seconds that passed."""
    clock = VirtualClock()

    async def main():
        return await script(Client(transport, clock=clock, chance=random.Random(0), **settings))

    return clock.run(main()), clock.monotonic()


def body_of(request):
    return json.loads(request.body)


# ------------------------------------------------------------------------------------------------------ verbs


@pytest.mark.parametrize(
    ("call", "method", "path", "query"),
    [
        (lambda c: c.get(Pod, "p", namespace="a"), "GET", "/api/v1/namespaces/a/pods/p", {}),
        (lambda c: c.get(Node, "n"), "GET", "/api/v1/nodes/n", {}),
        (lambda c: c.get(Queue, "q"), "GET", "/apis/scheduling.volcano.sh/v1beta1/queues/q", {}),
        (
            lambda c: c.get(by_struct(Pod), "p", namespace="a", subresource="status"),
            "GET",
            "/api/v1/namespaces/a/pods/p/status",
            {},
        ),
        (
            lambda c: c.create(Pod, {}, namespace="a", dry_run=True, field_manager="me"),
            "POST",
            "/api/v1/namespaces/a/pods",
            {"dryRun": "All", "fieldManager": "me"},
        ),
        (lambda c: c.update(Pod, "p", {}, namespace="a"), "PUT", "/api/v1/namespaces/a/pods/p", {}),
        (
            lambda c: c.apply(Queue, "q", {}, field_manager="me", force=True),
            "PATCH",
            "/apis/scheduling.volcano.sh/v1beta1/queues/q",
            {"fieldManager": "me", "force": "true"},
        ),
        (
            lambda c: c.delete_collection(Pod, namespace="a", labels="x=y", fields="spec.nodeName=n"),
            "DELETE",
            "/api/v1/namespaces/a/pods",
            {"labelSelector": "x=y", "fieldSelector": "spec.nodeName=n"},
        ),
        (
            lambda c: c.log("p", namespace="a", container="main", previous=True, tail_lines=0),
            "GET",
            "/api/v1/namespaces/a/pods/p/log",
            {"container": "main", "previous": "true", "tailLines": "0"},
        ),
    ],
)
def test_a_verb_is_one_call_to_the_right_place(call, method, path, query):
    transport = Scripted(ok({}))
    play(transport, call)
    (sent,) = transport.calls
    assert (sent.method, sent.path, dict(sent.query)) == (method, path, query)


@pytest.mark.parametrize("how", list(PatchType))
def test_a_patch_says_how_it_is_to_be_read(how):
    transport = Scripted(ok({}))
    play(transport, lambda c: c.patch(Pod, "p", [], how=how, namespace="a", subresource="status"))
    assert transport.calls[0].headers["content-type"] == how.value
    assert transport.calls[0].path == "/api/v1/namespaces/a/pods/p/status"


def test_an_apply_is_a_patch_in_yaml_of_which_json_is_a_part():
    transport = Scripted(ok({}))
    play(transport, lambda c: c.apply(Queue, "q", {"spec": {"weight": 1}}, field_manager="me"))
    assert transport.calls[0].headers["content-type"] == "application/apply-patch+yaml"
    assert body_of(transport.calls[0]) == {"spec": {"weight": 1}}


def test_a_deletion_carries_its_conditions():
    transport = Scripted(ok({}))
    play(
        transport,
        lambda c: c.delete(
            Pod,
            "p",
            namespace="a",
            propagation=Propagation.FOREGROUND,
            grace_s=0,
            uid="u",
            resource_version="7",
            dry_run=True,
        ),
    )
    assert body_of(transport.calls[0]) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "dryRun": ["All"],
    }


def test_a_binding_names_the_pod_by_uid_and_carries_annotations_for_it():
    transport = Scripted(ok({}))
    play(transport, lambda c: c.bind("p", namespace="a", uid="u", node="n", annotations={"pumice.dev/attempt": "1"}))
    (sent,) = transport.calls
    assert sent.path == "/api/v1/namespaces/a/pods/p/binding"
    assert body_of(sent) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "a", "uid": "u", "annotations": {"pumice.dev/attempt": "1"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }


def test_an_eviction_is_of_that_pod_and_no_namesake():
    transport = Scripted(ok({}))
    play(transport, lambda c: c.evict("p", namespace="a", uid="u", grace_s=5))
    (sent,) = transport.calls
    assert sent.path == "/api/v1/namespaces/a/pods/p/eviction"
    assert body_of(sent)["deleteOptions"]["preconditions"] == {"uid": "u"}
    assert body_of(sent)["deleteOptions"]["gracePeriodSeconds"] == 5


@pytest.mark.parametrize("name", ["", "../secrets/x", "a/b", "..", "%2e%2e"])
def test_a_name_that_would_lead_elsewhere_is_never_sent(name):
    transport = Scripted(ok({}))
    with pytest.raises(BadInput, match="name"):
        play(transport, lambda c: c.delete(Pod, name, namespace="a"))
    assert transport.calls == []


def test_an_object_that_no_server_takes_is_not_sent():
    transport = Scripted(ok({}))
    with pytest.raises(errors.TooLarge, match="and API servers take 3145728; make it smaller"):
        play(transport, lambda c: c.create(Pod, b" " * (BODY_BYTES_MAX + 1), namespace="a"))
    assert transport.calls == []


def test_bytes_go_in_as_they_are_and_come_out_in_any_form():
    answer = Response(200, {}, b'{"metadata":{"name":"p"},"other":1}')
    transport = Scripted(answer)
    reply, _ = play(transport, lambda c: c.create(Pod, b'{"a":  1}', namespace="a"))
    assert transport.calls[0].body == b'{"a":  1}'
    assert reply.raw == answer.body
    assert reply.json()["other"] == 1
    assert reply.into(Pod).metadata.name == "p"


@pytest.mark.parametrize("status", [200, 422])
def test_the_servers_warnings_are_passed_on_whether_it_did_what_was_asked_or_not(status):
    told = []
    answer = Response(status, {"warning": '299 - "old \\"field\\"", 299 - "and another"'}, b"{}")
    with contextlib.suppress(errors.StatusError):
        play(Scripted(answer), lambda c: c.create(Pod, {}, namespace="a"), warn=told.append)
    assert told == ['old "field"', "and another"]


@pytest.mark.parametrize("body", [b"<html>", b'{"metadata":7}', b""])
def test_an_answer_that_is_no_object_is_malformed(body):
    reply, _ = play(Scripted(Response(200, {}, body)), lambda c: c.get(Pod, "p", namespace="a"))
    with pytest.raises(errors.Malformed):
        reply.into(Object)


# ------------------------------------------------------------------------------------------------------ lists


def page(*names, more="", version="9"):
    return ok(
        {
            "metadata": {"resourceVersion": version, "continue": more},
            "items": [{"metadata": {"name": name}} for name in names],
        }
    )


def names_of(objects):
    return [each.metadata.name for each in objects]


def test_a_list_reads_page_after_page():
    transport = Scripted(page("a", "b", more="x"), page("c", more="y"), page("d"))
    listing, _ = play(transport, lambda c: c.list(Pod, namespace="team", labels="app=x"))
    assert names_of(listing.items) == ["a", "b", "c", "d"]
    assert listing.resource_version == "9"
    assert [dict(call.query) for call in transport.calls] == [
        {"labelSelector": "app=x", "limit": "500"},
        {"labelSelector": "app=x", "limit": "500", "continue": "x"},
        {"labelSelector": "app=x", "limit": "500", "continue": "y"},
    ]


def test_a_list_whose_version_is_forgotten_between_two_pages_is_read_again_at_once():
    transport = Scripted(page("a", more="x"), failure(410, "Expired"), page("a", "b", version="12"))
    listing, _ = play(transport, lambda c: c.list(Pod))
    assert names_of(listing.items) == ["a", "b"]
    assert listing.resource_version == "12"
    assert "limit" not in transport.calls[2].query


def test_one_unreadable_object_is_told_apart_from_the_others():
    told = []
    items = [
        {"metadata": {"name": "good"}},
        {"metadata": {"name": "bad", "namespace": "team"}, "spec": 7},
        {"metadata": {"name": "fine"}},
    ]
    transport = Scripted(ok({"metadata": {"resourceVersion": "3"}, "items": items}))
    listing, _ = play(transport, lambda c: c.list(Pod, bad=told.append))
    assert names_of(listing.items) == ["good", "fine"]
    assert [bad.key for bad in told] == ["team/bad"]
    with pytest.raises(errors.Malformed, match=r"Pod 'team/bad' cannot be read: .*spec"):
        play(transport, lambda c: c.list(Pod))


def test_an_empty_list_may_be_null():
    listing, _ = play(Scripted(ok({"metadata": {"resourceVersion": "3"}, "items": None})), lambda c: c.list(Pod))
    assert listing.items == []


def test_whole_objects_are_listed_with_their_kind():
    found, _ = play(Scripted(page("a", more="x"), page("b")), lambda c: c.list_json(by_struct(Pod)))
    assert [(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in found] == [
        ("v1", "Pod", "a"),
        ("v1", "Pod", "b"),
    ]


# ------------------------------------------------------------------------------------------------------ retries


LOST = errors.Unreachable("lost", acted=True)
NEVER_SENT = errors.Unreachable("refused", acted=False)
BUSY = failure(429, "TooManyRequests", headers={"retry-after": "2"})
STARTING = failure(503, "ServiceUnavailable", headers={"retry-after": "1"})


def read(client):
    return client.get(Pod, "p", namespace="a")


def write(client):
    return client.create(Pod, {}, namespace="a")


@pytest.mark.parametrize("trouble", [LOST, NEVER_SENT, BUSY, STARTING, failure(500), failure(429), failure(504)])
def test_a_read_is_repeated_until_it_succeeds(trouble):
    transport = Scripted(trouble, trouble, ok({}))
    _, seconds = play(transport, read)
    assert len(transport.calls) == 3
    assert seconds > 0


@pytest.mark.parametrize("trouble", [NEVER_SENT, BUSY, STARTING])
def test_a_write_is_repeated_where_the_server_cannot_have_acted(trouble):
    transport = Scripted(trouble, ok({}))
    play(transport, write)
    assert len(transport.calls) == 2


@pytest.mark.parametrize(
    "trouble", [LOST, failure(429), failure(500), failure(503), failure(504), failure(409, "Conflict")]
)
def test_a_write_whose_outcome_is_unknown_is_not_repeated(trouble):
    transport = Scripted(trouble, ok({}))
    with pytest.raises(errors.KubeError):
        play(transport, write)
    assert len(transport.calls) == 1


@pytest.mark.parametrize("trouble", [NEVER_SENT, BUSY, STARTING])
@pytest.mark.parametrize(
    "call", [lambda c: c.bind("p", namespace="a", uid="u", node="n"), lambda c: c.evict("p", namespace="a")]
)
def test_binds_and_evictions_are_never_repeated_because_their_callers_have_deadlines(trouble, call):
    transport = Scripted(trouble, ok({}))
    with pytest.raises(errors.KubeError):
        play(transport, call)
    assert len(transport.calls) == 1


def test_the_server_says_when_to_come_back():
    _, seconds = play(Scripted(BUSY, ok({})), write)
    assert 2 <= seconds <= 2.2


def test_a_server_that_wants_to_be_left_alone_for_long_is_the_callers_business():
    transport = Scripted(failure(429, headers={"retry-after": "60"}), ok({}))
    with pytest.raises(errors.TooManyRequests) as caught:
        play(transport, read)
    assert caught.value.retry_after == 60
    assert len(transport.calls) == 1


def test_retries_end():
    transport = Scripted(LOST)
    with pytest.raises(errors.Unreachable):
        play(transport, read)
    assert len(transport.calls) == 1 + client_module.RETRIES_MAX


def test_a_bind_does_not_leave_if_its_guard_refuses():
    transport = Scripted(ok({}))

    def guard():
        raise errors.NoCredentials("the lease is over")

    with pytest.raises(errors.NoCredentials, match="the lease is over"):
        play(transport, lambda client: client.with_guard(guard).bind("p", namespace="a", uid="u", node="n"))
    assert transport.calls == []


@pytest.mark.parametrize("answer", [BUSY, NEVER_SENT], ids=["turned away", "never left"])
def test_a_write_that_is_repeated_asks_the_guard_again(answer):
    transport = Scripted(answer, ok({}))
    clock = VirtualClock()

    def guard():
        if transport.calls:
            raise errors.NoCredentials("the lease is over")

    async def main():
        client = Client(transport, clock=clock, chance=random.Random(0)).with_guard(guard)
        with pytest.raises(errors.NoCredentials, match="the lease is over"):
            await client.delete(Pod, "p", namespace="a")

    clock.run(main())
    assert len(transport.calls) == 1


# ------------------------------------------------------------------------------------------------------ streams


class Chunks:
    def __init__(self, *chunks):
        self.chunks = list(chunks)
        self.closed = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.chunks:
            raise StopAsyncIteration
        return self.chunks.pop(0)

    async def aclose(self):
        self.closed = True


def test_a_followed_log_comes_in_chunks_and_is_closed_when_nobody_reads_on():
    chunks = Chunks(b"one\n", b"two\n", b"three\n")

    async def script(client):
        log = client.follow_log("p", namespace="a", container="main")
        first = await anext(log)
        await log.aclose()
        return first

    transport = Scripted(Response(200, {}, stream=chunks))
    assert play(transport, script)[0] == b"one\n"
    assert transport.calls[0] == Request(
        "GET", "/api/v1/namespaces/a/pods/p/log", {"container": "main", "follow": "true"}
    )
    assert chunks.closed


def test_a_stream_that_the_server_answers_whole_is_one_chunk():
    async def script(client):
        return [chunk async for chunk in client.follow_log("p", namespace="a")]

    assert play(Scripted(Response(200, {}, b"all of it")), script)[0] == [b"all of it"]
