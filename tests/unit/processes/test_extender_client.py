"""The HTTP extender over real sockets: what an extender says is read within limits, and nothing else is done for it."""

import json

import pytest
from tests.unit.processes.peers import Peer, always, answer

from pumice.processes.extender_client import ANSWER_BYTES_MAX, Extending, HttpExtender, extender_of, read_address
from pumice.scheduling.core import builtin
from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.core.ports import ExtenderFailed

LONG_S = 30.0  # never reached: whatever a test shows happens before
SHORT_S = 0.05


def extender(peer, *, path="", timeout_s=LONG_S):
    return HttpExtender(read_address(peer.address + path), timeout_s)


def a_policy(**named):
    lines = "".join(f"\n      extender.{name}: {value}" for name, value in named.items())
    text = (
        f'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: extender\n    arguments:{lines}\n'
    )
    return builtin.parse(text, "test policy")


def test_a_question_is_posted_below_the_prefix_and_the_answer_returned():
    with Peer(always(answer(b'{"status": "busy", "code": 2}'))) as peer:
        ask = extender(peer, path="/v1/")
        assert ask("predicate", {"task": {"Name": "p"}}) == {"status": "busy", "code": 2}
        ask.close()
        first, headers, body = peer.requests[0]
    assert first == "POST /v1/predicate HTTP/1.1"
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == {"task": {"Name": "p"}}


def test_questions_share_a_connection():
    with Peer(always(answer(b"{}"))) as peer:
        ask = extender(peer)
        for _ in range(5):
            ask("predicate", {})
        ask.close()
        assert (peer.connections, len(peer.requests)) == (1, 5)


def test_a_connection_that_was_closed_meanwhile_is_made_anew():
    def once(peer, connection):
        peer.request(connection)
        connection.sendall(answer(b'{"n": 1}'))

    with Peer(once) as peer:
        ask = extender(peer)
        assert [ask("predicate", {}) for _ in range(3)] == [{"n": 1}] * 3
        ask.close()
        assert peer.connections == 3


def test_an_answer_that_announces_the_end_of_its_connection_is_read_whole():
    body = json.dumps({"text": "x" * 500_000}).encode()
    with Peer(always(answer(body, headers=["connection: close"]))) as peer:
        ask = extender(peer)
        assert [len(ask("predicate", {})["text"]) for _ in range(2)] == [500_000, 500_000]
        ask.close()


def test_cve_2025_32777_an_endless_answer_is_cut_off_at_the_limit():
    sent = []

    def endless(peer, connection):
        peer.request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[")
        while True:
            connection.sendall(b"1," * 2**19)
            sent.append(2**20)

    with Peer(endless) as peer:
        ask = extender(peer)
        with pytest.raises(ExtenderFailed, match=f"longer than {ANSWER_BYTES_MAX} bytes"):
            ask("predicate", {})
        ask.close()
    assert sum(sent) < 3 * ANSWER_BYTES_MAX  # what the sockets hold on top


def test_a_length_beyond_the_limit_is_cut_off_too():
    body = b"[" + b"1," * (ANSWER_BYTES_MAX // 2) + b"1]"
    with Peer(always(answer(body))) as peer:
        ask = extender(peer)
        with pytest.raises(ExtenderFailed, match="longer than"):
            ask("predicate", {})


def test_an_extender_that_says_nothing_is_given_up():
    def dumb(peer, connection):
        peer.request(connection)
        peer.ended.wait()

    with Peer(dumb) as peer, pytest.raises(ExtenderFailed, match=r"predicate: no answer within 0.05 s"):
        extender(peer, timeout_s=SHORT_S)("predicate", {})


@pytest.mark.parametrize("slow", [b"HTTP/1.1 200 OK\r\nx-slow: ", b"HTTP/1.1 200 OK\r\n\r\n["], ids=["header", "body"])
def test_an_extender_that_speaks_byte_by_byte_is_given_up_all_the_same(slow):
    def drip(peer, connection):
        peer.request(connection)
        connection.sendall(slow)
        while not peer.ended.wait(SHORT_S / 10):
            connection.sendall(b"1")

    with Peer(drip) as peer, pytest.raises(ExtenderFailed, match="no answer within"):
        extender(peer, timeout_s=SHORT_S)("predicate", {})


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (answer(b'{"status": ""}', "500 Internal Server Error"), "answered 500 instead of 200"),
        (answer(b"<html>busy</html>"), "the answer is not JSON"),
        (answer(b'{"status": '), "the answer is not JSON"),
        (answer(b"\xff\xfe"), "the answer is not JSON"),
        (answer(b"[" * 100_000), "the answer is not JSON"),
        (answer(b"[1, 2]"), "the answer is JSON, but no object"),
        (b"SSH-2.0-OpenSSH\r\n", "predicate: "),
    ],
    ids=["500", "html", "cut", "bytes", "deep", "list", "other protocol"],
)
def test_a_wrong_answer_is_a_failure_that_names_the_verb_and_the_cause(said, cause):
    with Peer(always(said)) as peer:
        ask = extender(peer)
        with pytest.raises(ExtenderFailed, match=cause):
            ask("predicate", {})
        ask.close()


def test_a_redirect_is_not_followed():
    with Peer(always(answer(b"{}"))) as elsewhere:
        sent_on = answer(b"", "307 Temporary Redirect", headers=[f"location: {elsewhere.address}/predicate"])
        with Peer(always(sent_on)) as peer:
            with pytest.raises(ExtenderFailed, match="answered 307"):
                extender(peer)("predicate", {})
            assert elsewhere.requests == []


def test_an_extender_that_is_not_there_is_a_failure():
    with Peer(always(answer(b"{}"))) as peer:
        gone = extender(peer)
    with pytest.raises(ExtenderFailed, match="predicate: "):
        gone("predicate", {})


def test_the_extender_of_a_policy_is_kept_until_the_policy_changes():
    extending = Extending()
    policy, other = (
        a_policy(urlPrefix="http://127.0.0.1:1", httpTimeout="2s"),
        a_policy(urlPrefix="https://127.0.0.1:1/x"),
    )
    first = extending.of(policy)
    assert extending.of(policy) is first
    assert extending.of(other) is not first
    assert extending.of(builtin.parse(builtin.TEXT, "built-in policy")) is None
    extending.close()


@pytest.mark.parametrize(
    "address", ["http://", "http://me:secret@127.0.0.1", "http://127.0.0.1:99999", "https://127.0.0.1/?a=b"]
)
def test_an_address_that_cannot_be_used_is_refused_with_the_policy(address):
    with pytest.raises(PolicyError, match=r"test policy: plugin extender: extender.urlPrefix: "):
        extender_of(a_policy(urlPrefix=f'"{address}"'))
