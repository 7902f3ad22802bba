"""How answers combine: tier by tier, in file order, by Volcano's rules."""

import itertools
from types import SimpleNamespace

import pytest
from tests.unit.scheduling.clusters import a_node, a_queue, policy, session_for

from pumice.scheduling.core.points import EvictionKind, Points, Vote
from pumice.scheduling.core.policy import PluginOption
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Reason

PERMIT, ABSTAIN, REJECT = Vote.PERMIT, Vote.ABSTAIN, Vote.REJECT


def registered(method, *tiers, flags=None):
    """Points with plugins p0, p1... in tiers; each registers its callable by `method`."""
    points = Points()
    names = itertools.count()
    for tier, calls in enumerate(tiers):
        for call in calls:
            points.registering(PluginOption(f"p{next(names)}", tier, {}, flags or {}))
            getattr(points, method)(call)
    return points


def task(name):
    return SimpleNamespace(uid=name)


A, B, C, D = (task(name) for name in "ABCD")


def returning(answer):
    return lambda *_: answer


# ------------------------------------------------------------------------------------------------------ votes


@pytest.mark.parametrize("point", ["enqueueable", "pipelined", "sub_pipelined"])
@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], True),
        ([[ABSTAIN]], True),
        ([[PERMIT]], True),
        ([[REJECT]], False),
        ([[PERMIT, REJECT]], False),
        ([[REJECT, PERMIT]], False),
        ([[ABSTAIN, REJECT]], False),
        ([[PERMIT], [REJECT]], True),
        ([[ABSTAIN], [REJECT]], False),
        ([[ABSTAIN], [PERMIT]], True),
        ([[ABSTAIN], [ABSTAIN], [REJECT]], False),
        ([[REJECT], [PERMIT]], False),
        ([[PERMIT, ABSTAIN], [REJECT]], True),
        ([[ABSTAIN], [PERMIT], [REJECT]], True),
    ],
)
def test_a_reject_ends_its_tier_and_a_permit_ends_the_asking_after_it(point, tiers, expected):
    points = registered(point, *[[returning(vote) for vote in tier] for tier in tiers])
    assert getattr(points, point).passes(None) is expected


def test_a_reason_rejects_and_the_asker_learns_it():
    reason = Reason("p1", "no room")
    points = registered("enqueueable", [returning(ABSTAIN), returning(reason)], [returning(REJECT)])
    assert points.enqueueable.outcome(None) is reason
    assert not points.enqueueable.passes(None)


def test_a_rejection_below_a_permit_is_still_an_objection():
    points = registered("pipelined", [returning(PERMIT)], [returning(REJECT)])
    assert points.pipelined.passes(None)
    assert not points.pipelined.is_unopposed(None)


def test_after_a_tier_with_a_permit_nobody_below_is_asked():
    asked = []
    points = registered(
        "enqueueable", [lambda _: asked.append("first") or PERMIT], [lambda _: asked.append("second") or PERMIT]
    )
    points.enqueueable.passes(None)
    assert asked == ["first"]


# ------------------------------------------------------------------------------------------------------ starving


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], False),
        ([[True]], True),
        ([[False]], False),
        ([[True, False]], False),
        ([[True], [False]], True),
        ([[False], [True]], False),
        ([[], [True]], True),
        ([[], [True, True]], True),
    ],
)
def test_the_first_tier_with_an_opinion_decides_who_starves(tiers, expected):
    points = registered("starving", *[[returning(answer) for answer in tier] for tier in tiers])
    assert points.starving.holds(None) is expected


# ------------------------------------------------------------------------------------------------------ victims

ALL = [A, B, C, D]


@pytest.mark.parametrize("point", ["preemptable", "reclaimable"])
@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], []),
        ([[None]], []),
        ([[[A, B]]], [A, B]),
        ([[[]]], []),
        ([[[C, A, B], [A, B, C]]], [C, A, B]),
        ([[[A, B], [B, C]]], [B]),
        ([[None, [A]]], [A]),
        ([[[A], None]], [A]),
        ([[[A], []]], []),
        ([[[], [A]]], []),
        ([[[A, B]], [[C]]], [A, B]),
        ([[[]], [[C]]], [C]),
        ([[None], [[C]]], [C]),
        ([[[A], []], [[A]]], [A]),
        # An intersection that comes out empty is forgotten: the next plugin of the tier starts afresh.
        ([[[A], [B], [C, D]]], [C, D]),
        ([[[A], [B], [C, D], [D]]], [D]),
        # ... and where nobody follows, the next tier decides.
        ([[[A], [B]], [[D]]], [D]),
        ([[[A], [B], []], [[D]]], [D]),
        ([[[A], [B], None], [[D]]], [D]),
    ],
)
def test_victims_are_intersected_within_a_tier_and_tiers_are_fallbacks(point, tiers, expected):
    points = registered(point, *[[returning(answer) for answer in tier] for tier in tiers])
    assert getattr(points, point).of(None, ALL) == expected


def test_everybody_is_asked_about_all_candidates():
    seen = []

    def choose(_, candidates):
        seen.append(list(candidates))
        return [A]

    points = registered("preemptable", [choose, choose])
    points.preemptable.of(None, ALL)
    assert seen == [ALL, ALL]


def test_gang_wise_victims_combine_alike():
    points = registered(
        "evictable", [lambda kind, _, candidates: candidates[:2] if kind is EvictionKind.PREEMPT else []]
    )
    assert points.evictable.of(EvictionKind.PREEMPT, None, ALL) == [A, B]
    assert points.evictable.of(EvictionKind.RECLAIM, None, ALL) == []


# ------------------------------------------------------------------------------------------------------ shields


def shielded(kept, *tiers, flags=None):
    points = registered("preemptable", *[[returning(answer) for answer in tier] for tier in tiers])
    points.registering(PluginOption("shield", 9, {}, flags or {}))
    points.preemptable.shield(lambda _, candidates: [each for each in candidates if each in kept])
    return points


def test_whom_a_shield_protects_is_no_candidate_in_any_tier():
    seen = []

    def everybody(_, candidates):
        seen.append(list(candidates))
        return candidates

    points = registered("preemptable", [returning([])], [everybody])
    points.registering(PluginOption("shield", 9, {}, {}))
    points.preemptable.shield(lambda _, candidates: [each for each in candidates if each is not A])
    assert points.preemptable.of(None, ALL) == [B, C, D]
    assert seen == [[B, C, D]]


def test_where_everybody_is_protected_nobody_is_asked():
    points = registered("preemptable", [lambda *_: pytest.fail("was asked")])
    points.registering(PluginOption("shield", 9, {}, {}))
    points.preemptable.shield(returning([]))
    assert points.preemptable.of(None, ALL) == []


def test_a_shield_falls_with_its_flag():
    assert shielded([B], [ALL], flags={"enablePreemptable": False}).preemptable.of(None, ALL) == ALL


# ------------------------------------------------------------------------------------------------------ flags, orders


@pytest.mark.parametrize(
    ("method", "flag"),
    [
        ("gang_order", "enableJobOrder"),
        ("sub_order", "enabledSubJobOrder"),
        ("task_order", "enableTaskOrder"),
        ("queue_order", "enableQueueOrder"),
        ("ready", "enableJobReady"),
        ("sub_ready", "enabledSubJobReady"),
        ("pipelined", "enableJobPipelined"),
        ("sub_pipelined", "enabledSubJobPipelined"),
        ("starving", "enableJobStarving"),
        ("enqueueable", "enableJobEnqueued"),
        ("enqueued", "enableJobEnqueued"),
        ("overused", "enabledOverused"),
        ("preemptive", "enablePreemptive"),
        ("preemptable", "enablePreemptable"),
        ("reclaimable", "enableReclaimable"),
        ("shuffled", "enabledVictim"),
        ("prefilter", "enablePredicate"),
        ("filter", "enablePredicate"),
        ("fixed_score", "enableNodeOrder"),
        ("load_score", "enableNodeOrder"),
        ("hyper_score", "enabledHyperNodeOrder"),
    ],
)
def test_a_flag_that_is_off_drops_that_registration_alone(method, flag):
    assert len(getattr(registered(method, [print], flags={flag: True}), method).hooks) == 1
    assert getattr(registered(method, [print], flags={flag: False}), method).hooks == []


@pytest.mark.parametrize("method", ["valid", "evictable", "victim_queue_order", "moved", "close"])
def test_some_points_have_no_flag(method):
    every_flag_off = dict.fromkeys(
        ["enableJobReady", "enablePreemptable", "enableReclaimable", "enableQueueOrder"], False
    )
    assert len(getattr(registered(method, [print], flags=every_flag_off), method).hooks) == 1


def test_nobody_registers_outside_of_open():
    with pytest.raises(AssertionError, match="registered outside"):
        Points().gang_order(print)


def test_a_plugin_that_looks_at_pods_and_declares_nothing_may_read_everything():
    points = registered("gang_order", [print])
    assert points.reads == Reads.NOTHING
    points.declare(Reads.GANG)
    points.filter(returning(()))
    assert points.reads == Reads.GANG
    points.registering(PluginOption("silent", 0, {}, {"enableNodeOrder": False}))
    points.fixed_score(returning(None))  # its flag is off: it never looks
    assert points.reads == Reads.GANG
    points.filter(returning(()))
    assert Reads.EVERYTHING in points.reads


def test_the_first_difference_in_tier_order_decides_between_queues():
    session = session_for(a_node(), a_queue("a", created=5), a_queue("b"), policy=policy("allocate", "gang"))
    left, right = session.queues["a"], session.queues["b"]
    assert session.queue_compare(left, right) > 0  # older first where nobody has an opinion
    assert session.queue_compare(right, left) < 0
    session = session_for(a_node(), a_queue("a", created=5), a_queue("b"), policy=policy("allocate", "gang"))
    for number, answer in enumerate((0, -1, 1)):
        session.points.registering(PluginOption(f"p{number}", number, {}, {}))
        session.on.queue_order(returning(answer))
    assert session.queue_compare(left, right) < 0


def test_one_plugin_suffices_to_call_a_queue_overused_and_all_must_let_it_reclaim():
    session = session_for(a_node(), policy=policy("allocate", "gang"))
    queue = session.queues["default"]
    assert not session.points.overused.holds(queue)
    assert session.points.preemptive.holds(queue, [])
    for number, answer in enumerate((False, True)):
        session.points.registering(PluginOption(f"p{number}", number, {}, {}))
        session.on.overused(returning(answer))
        session.on.preemptive(returning(answer))
    assert session.points.overused.holds(queue)
    assert not session.points.preemptive.holds(queue, [])


def test_the_smallest_answer_limits_what_a_queue_may_still_take():
    session = session_for(a_node(), policy=policy("allocate", "gang"))
    queue = session.queues["default"]
    for number, most in enumerate((7, 3, 5)):
        session.points.registering(PluginOption(f"p{number}", number, {}, {}))
        session.on.allocatable(lambda _, __, count, most=most: min(count, most), why=returning("no"))
    assert session.points.allocatable.of(queue, None, 10) == 3
    assert session.points.allocatable.of(queue, None, 2) == 2
