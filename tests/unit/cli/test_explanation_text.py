"""What an explanation says of literal answers; the causes of waiting themselves are in tests/integration/cli/test_causes.py."""

import msgspec
import pytest

from pumice.cli import explanation_text
from pumice.cli.colours import PAINT
from pumice.cli.sources import LEADER, LISTING, PODGROUP, Answer
from pumice.instant import parse_instant
from pumice.readmodel import model

NOW = parse_instant("2026-11-15T12:00:00Z")
GATED = model.Reason(
    code="Gated", plugin="gates", reason="1 of 2 pods are held by the scheduling gate x", cure="change"
)


def an_answer(source=LEADER, *, at="", **more):
    gang = {
        "key": "ml/train", "namespace": "ml", "name": "train", "queue": "a", "phase": "Inqueue",
        "created": "2026-11-15T11:56:00Z", "members": model.Members(minimum=2, pods=2, waiting=2), **more.pop("gang", {}),
    }  # fmt: skip
    detail = model.GangDetail(
        version=1, leader="", cycle=1, at=at, policy=model.Policy(source="", actions=(), plugins=()),
        totals=model.Totals(nodes=4, allocatable={}, used={}), gang=model.Gang(**gang), **more,
    )  # fmt: skip
    return Answer(detail, source, at)


def text_of(answer, **more):
    return explanation_text.text(answer, NOW, **more)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (an_answer(gang={"reasons": (GATED,)}), "Why it waits, as the scheduler says now:\n"),
        (an_answer(LISTING, gang={"reasons": (GATED,)}), "Why it waits, as one cycle over a listing finds:\n"),
        (
            an_answer(PODGROUP, at="2026-11-15T11:59:00Z", gang={"reasons": (GATED,)}),
            "Why it waits, as the scheduler wrote 60s ago:\n",
        ),
        (an_answer(PODGROUP, gang={"reasons": (GATED,)}), "Why it waits, as the scheduler wrote at an unknown time:\n"),
        (an_answer(PODGROUP), "Why it waits: no scheduler has said so far.\n"),
        (an_answer(LISTING), "Why it waits: nothing is in its way: a scheduler would start it now.\n"),
    ],
)
def test_it_says_who_says_so_and_when(answer, words):
    assert words in text_of(answer)


def test_phases_states_and_reasons_are_coloured_and_nothing_else():
    queue = model.Queue(name="a", state="Closed")
    answer = an_answer(gang={"reasons": (GATED,), "name": "Failed", "phase": "Pending"}, queue=queue)
    painted, plain = text_of(answer, paint=PAINT), text_of(answer)
    for word, colour in (("Pending", 33), ("Closed", 31), (GATED.reason, 33)):
        styled = f"\x1b[{colour}m{word}\x1b[0m"
        assert painted.count(styled) == 1
        painted = painted.replace(styled, word)
    assert painted == plain


def test_a_queue_that_cannot_be_seen_is_told_from_one_that_is_not_there():
    assert "Queue:      a (not visible to you)\n" in text_of(an_answer(PODGROUP))
    assert "Queue:      a (does not exist)\n" in text_of(an_answer())


def test_a_gang_that_runs_is_explained_only_while_members_of_it_wait():
    running = {"phase": "Running", "members": model.Members(minimum=2, pods=2, running=2), "reasons": (GATED,)}
    assert "Why it waits" not in text_of(an_answer(gang=running))
    elastic = {**running, "members": model.Members(minimum=2, pods=3, running=2, waiting=1)}
    assert "Why it waits" in text_of(an_answer(gang=elastic))


def test_what_a_gang_that_has_started_holds_is_not_asked_for_again():
    """Four must start together, six run on all six cards, three more wait: three are missing, and not four."""
    members = model.Members(minimum=4, pods=9, running=6, waiting=3)
    gang = {"phase": "Running", "members": members, "asks": {"cpu": "4"}, "holds": {"cpu": "6"}, "reasons": (GATED,)}
    room = (model.Room(each={"cpu": "1"}, waiting=3, fit=0, nodes=4, may_take=4),)
    full = model.Totals(nodes=4, allocatable={"cpu": "6"}, used={"cpu": "6"})
    answer = an_answer(gang=gang, room=room)
    text = text_of(msgspec.structs.replace(answer, detail=msgspec.structs.replace(answer.detail, totals=full)))
    assert "cpu: 3 asked, 6 used and 0 promised to others are 3 more than there are\n" in text


def test_a_gang_that_has_lost_members_asks_for_those_alone():
    members = model.Members(minimum=4, pods=4, running=3, waiting=1)
    gang = {"members": members, "asks": {"cpu": "4"}, "holds": {"cpu": "3"}, "reasons": (GATED,)}
    answer = an_answer(gang=gang)
    full = model.Totals(nodes=4, allocatable={"cpu": "6"}, used={"cpu": "6"})
    text = text_of(msgspec.structs.replace(answer, detail=msgspec.structs.replace(answer.detail, totals=full)))
    assert "cpu: 1 asked, 6 used and 0 promised to others are 1 more than there are" in text


def test_who_could_be_evicted_is_said_by_resource():
    short = (
        model.Evictable(resource="cpu", lower_priority_pods=1, held_by_them="2", beyond_deserved={"b": "3"}),
        model.Evictable(resource="memory"),
    )
    assert text_of(an_answer(evictable=short)).endswith(
        "What could be evicted:\n"
        "  1 pod of lower priority in queue a: cpu 2\n"
        "  queue b, beyond what it deserves: cpu 3\n"
        "  none: no pod of lower priority in queue a holds memory, and no queue more than it deserves"
    )


def test_what_was_promised_to_the_gang_itself_is_not_promised_to_others():
    queue = model.Queue(name="a", allocated={"cpu": "3"}, promised={"cpu": "6"}, capability={"cpu": "8"})
    told = text_of(an_answer(queue=queue, gang={"asks": {"cpu": "4"}}))
    assert "  cpu: 4 asked, 3 allocated and 2 promised to others are 1 more than the capability of 8\n" in told


@pytest.mark.parametrize(
    ("pod", "line"),
    [
        (model.Pod(name="w", status="Running", node="n1"), "ml/w, Running on n1"),
        (model.Pod(name="w", status="Pending", gates=("x", "y")), "ml/w, Pending: held by its scheduling gates x, y"),
        (model.Pod(name="w", status="Pending"), "ml/w, Pending: waits as its gang does, for the reasons below"),
        (
            model.Pod(name="w", status="Pending", message="Pod ml/w can possibly be assigned to n1"),
            "ml/w, Pending: can possibly be assigned to n1",
        ),
        (model.Pod(name="other", status="Pending"), "ml/w: not looked at yet"),
    ],
)
def test_one_member_stands_in_a_line(pod, line):
    assert text_of(an_answer(pods=(pod,)), pod="w").splitlines()[0] == f"Pod:        {line}"
