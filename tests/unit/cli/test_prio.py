"""Who is next, and each factor of the rank, from literal views."""

import msgspec
import pytest

from pumice.cli import prio
from pumice.errors import NotFound
from pumice.readmodel import model

WEIGHTS = {"priority-class": 0.0, "fair-share": 1.0, "age": 0.5, "size": 0.0, "queue": 0.0}


def a_gang(name, queue, user, position, *, fair_share=1.0, phase="Pending", **more):
    factors = model.Factors(fair_share=fair_share, age=0.25, total=fair_share + 0.125, used=0.031) if position else None
    return model.Gang(
        key=f"ml/{name}", namespace="ml", name=name, queue=queue, user=user, phase=phase, position=position,
        members=model.Members(minimum=1), factors=factors, **more,
    )  # fmt: skip


def a_state(*gangs, weights=WEIGHTS, plugins=("priority", "gang", "fairshare")):
    return model.State(
        version=1, leader="me", cycle=7, at="2026-11-15T11:59:59Z", gangs=gangs,
        policy=model.Policy(source="policy.yaml", actions=(), plugins=plugins, factors=weights),
        totals=model.Totals(nodes=2, allocatable={}, used={}),
    )  # fmt: skip


STATE = a_state(
    a_gang("late", "b", "tom", 2, fair_share=0.25),
    a_gang("runs", "b", "tom", 0, phase="Running"),
    a_gang("soon", "b", "mia", 1, job="train", priority=5),
    a_gang("other", "a", "mia", 1),
)


def test_gangs_stand_by_queue_and_position():
    assert [gang.name for gang in prio.waiting(STATE)] == ["other", "soon", "late"]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"queue": "b"}, ["soon", "late"]),
        ({"user": "mia"}, ["other", "soon"]),
        ({"job": "train"}, ["soon"]),
        ({"job": "late"}, ["late"]),
    ],
)
def test_one_may_ask_for_a_queue_a_user_or_a_job(asked, names):
    assert [gang.name for gang in prio.waiting(STATE, **asked)] == names


@pytest.mark.parametrize(("job", "words"), [("runs", "does not wait"), ("gone", "is not known")])
def test_a_job_that_does_not_wait_is_told_so(job, words):
    with pytest.raises(NotFound, match=words):
        prio.waiting(STATE, job=job)


def test_a_person_reads_every_factor_and_what_decides_before_them():
    lines = prio.text(STATE, prio.waiting(STATE), 2, "leader").splitlines()
    assert (
        lines[0]
        == "As the scheduler says now. PRIORITY decides first, then RANK, with the weights fair-share 1, age 0.5."
    )
    assert lines[2].split() == [
        "QUEUE", "POSITION", "JOB", "NAMESPACE", "USER", "PRIORITY", "RANK",
        "PRIORITY-CLASS", "FAIR-SHARE", "AGE", "SIZE", "QUEUE-PRIORITY", "USED",
    ]  # fmt: skip
    assert lines[4].split() == ["b", "1", "train", "ml", "mia", "5", "1.125", "0", "1", "0.25", "0", "0", "3.10%"]
    assert lines[-1] == "... and 1 more; --rows shows them"


def test_without_fair_share_there_are_no_factors():
    state = a_state(a_gang("g", "a", "mia", 1), weights={}, plugins=("gang",))
    found = prio.text(state, prio.waiting(state), 9, "listing")
    assert "Plugin fairshare is not in the policy" in found
    assert "RANK" not in found


def test_nobody_waits():
    assert prio.text(a_state(), [], 9, "leader") == "no gang waits"


def test_a_program_reads_the_same_with_stable_names():
    found = prio.data(STATE, prio.waiting(STATE, job="train"), "leader")
    assert msgspec.json.decode(msgspec.json.encode(found)) == {
        "at": "2026-11-15T11:59:59Z",
        "source": "leader",
        "policy": "policy.yaml",
        "weights": WEIGHTS,
        "gangs": [
            {
                "namespace": "ml", "name": "soon", "job": "train", "user": "mia", "queue": "b", "position": 1, "priority": 5,
                "rank": 1.125, "used": 0.031,
                "factors": {"priority-class": 0.0, "fair-share": 1.0, "age": 0.25, "size": 0.0, "queue": 0.0},
            }
        ],
    }  # fmt: skip
