"""Attempts that were cut short are finished before anybody else may take their room, or given up whole; nothing else is touched."""

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    binds,
    plan_for,
    policy,
    report,
    started,
)

from pumice import instant
from pumice.api import names
from pumice.api.changes import Assumed, AttemptSeen, PodRef
from pumice.scheduling.core.ports import Ports, Resting
from pumice.scheduling.evicting.mend import attempt_id, attempt_started, next_stamp

POLICY = policy("enqueue, allocate, backfill", "priority gang", "predicates")
GRACE = 30 * instant.SECOND
CONTROLLER = {"ownerReferences": [{"kind": "Job", "name": "j", "uid": "j", "controller": True}]}
OTHER_OWNER = {"ownerReferences": [{"kind": "Job", "name": "j", "uid": "j"}]}


def attempt(age_s, nonce="abc"):
    return attempt_id(NOW - age_s * instant.SECOND, nonce)


def bound(name, *, age_s=5, node="n1", gang="g", note=None, metadata=CONTROLLER, **more):
    """A pod that an attempt of ours has bound so long ago; with an empty note, one that somebody else has bound."""
    note = attempt(age_s) if note is None else note
    notes = {names.ATTEMPT: note} if note else {}
    return a_pod(name, gang=gang, node=node, annotations=notes, metadata=metadata, **{"phase": "Pending", **more})


def waiting(*members, gang="g", **more):
    return [a_pod(name, gang=gang, **more) for name in members]


def released(decisions):
    return {release.gang: [task.name for task in release.tasks] for release in decisions.releases}


def plan(*things, **more):
    return plan_for(*things, policy=POLICY, **more)


# ------------------------------------------------------------------------------------------------------ finishing


def test_missing_members_are_placed_before_anybody_else():
    decisions = plan(
        a_node("n1", cpu="3"),
        a_priority_class("high", 100),
        a_group("g", 3, created=9), bound("g-w-0"), bound("g-w-1"), waiting("g-w-2"),
        a_gang("first", 1, group={"priority_class": "high"}),
    )  # fmt: skip
    assert binds(decisions) == {"g-w-2": "n1"}
    assert [(commit.gang, commit.mends, commit.needed) for commit in decisions.commits] == [("default/g", True, 3)]


def test_the_oldest_attempt_is_finished_first():
    decisions = plan(
        a_node("n1", cpu="3"),
        a_group("young", 2), bound("young-w-0", gang="young", age_s=3), waiting("young-w-1", gang="young"),
        a_group("old", 2), bound("old-w-0", gang="old", age_s=9), waiting("old-w-1", gang="old"),
    )  # fmt: skip
    assert binds(decisions) == {"old-w-1": "n1"}


def test_an_attempt_that_is_complete_needs_no_mending():
    decisions = plan(a_node("n1"), a_group("g", 2), bound("g-w-0", age_s=99), bound("g-w-1", age_s=99))
    assert (decisions.commits, decisions.releases) == ((), ())


def test_a_gang_that_can_be_finished_after_the_grace_time_is_finished_all_the_same():
    decisions = plan(a_node("n1"), a_group("g", 2), bound("g-w-0", age_s=9999), waiting("g-w-1"))
    assert binds(decisions) == {"g-w-1": "n1"}
    assert released(decisions) == {}


# ------------------------------------------------------------------------------------------------------ giving up


def cut_gang(age_s, **more):
    return [a_node("n1", cpu="2"), a_group("g", 3), bound("g-w-0", age_s=age_s, **more), bound("g-w-1", age_s=age_s, **more),
            waiting("g-w-2", cpu="2")]  # fmt: skip


@pytest.mark.parametrize(("age_s", "expected"), [(0, {}), (29, {}), (30, {"default/g": ["g-w-0", "g-w-1"]})])
def test_a_gang_that_cannot_be_finished_is_released_after_the_grace_time(age_s, expected):
    assert released(plan(*cut_gang(age_s))) == expected


def test_the_grace_time_is_an_argument():
    assert released(plan(*cut_gang(5), grace_s=5)) == {"default/g": ["g-w-0", "g-w-1"]}


def test_the_newest_attempt_counts():
    things = [a_node("n1", cpu="2"), a_group("g", 3), waiting("g-w-2", cpu="2")]
    assert released(plan(*things, bound("g-w-0", age_s=99), bound("g-w-1", age_s=1))) == {}
    assert released(plan(*things, bound("g-w-0", age_s=99), bound("g-w-1", age_s=31))) == {
        "default/g": ["g-w-0", "g-w-1"]
    }


def test_a_member_whose_bind_is_under_way_is_not_released():
    retried = a_pod("g-w-1", gang="g", annotations={names.ATTEMPT: attempt(99)}, metadata=CONTROLLER)
    under_way = Assumed(PodRef.of(retried.metadata), "n1", attempt(1), NOW)
    things = [
        a_node("n1", cpu="2"),
        a_group("g", 3),
        bound("g-w-0", age_s=99),
        retried,
        under_way,
        waiting("g-w-2", cpu="2"),
    ]
    assert released(plan(*things)) == {"default/g": ["g-w-0"]}


def test_a_release_says_why():
    (release,) = plan(*cut_gang(99)).releases
    assert release.cause.text == "2 of 3 members were bound, 1 found no room within 30 s"


@pytest.mark.parametrize("metadata", [{}, OTHER_OWNER])
def test_a_pod_without_a_controller_is_never_released(metadata):
    assert released(plan(*cut_gang(99, metadata=metadata))) == {}


def test_pods_that_somebody_else_has_bound_are_counted_and_never_released():
    things = [a_node("n1", cpu="2"), a_group("g", 3), bound("g-w-0", note=""), waiting("g-w-1", "g-w-2")]
    assert released(plan(*things)) == {}
    things = [
        a_node("n1", cpu="2"),
        a_group("g", 3),
        bound("g-w-0", note=""),
        bound("g-w-1", age_s=99),
        waiting("g-w-2"),
    ]
    assert released(plan(*things)) == {"default/g": ["g-w-1"]}


def test_members_that_are_leaving_are_not_released_again():
    leaving = {**CONTROLLER, "deletionTimestamp": "2026-01-01T00:30:00Z"}
    things = [
        a_node("n1", cpu="2"),
        a_group("g", 3),
        bound("g-w-0", age_s=99, metadata=leaving),
        waiting("g-w-1", "g-w-2"),
    ]
    assert released(plan(*things)) == {}


def test_an_id_that_is_not_ours_is_as_old_as_can_be():
    assert released(plan(*cut_gang(0, note="somebody-elses"))) == {"default/g": ["g-w-0", "g-w-1"]}
    assert attempt_started("somebody-elses") is None
    assert attempt_started(attempt_id(77, "a1b2")) == 77


def test_an_attempt_from_the_future_counts_from_when_it_was_first_seen():
    """A gang is bound whole or not at all, whatever the clock said where it was begun."""
    ahead = attempt(-3600)
    things = [*cut_gang(0, note=ahead), AttemptSeen(ahead, NOW)]
    assert released(plan(*things, now=NOW + GRACE - 1)) == {}
    assert released(plan(*things, now=NOW + GRACE)) == {"default/g": ["g-w-0", "g-w-1"]}


def test_the_next_attempt_is_stamped_later_than_all_before_it_whoever_has_made_them():
    assert next_stamp(50, []) == 50
    assert next_stamp(50, [attempt_id(77, "a1"), "somebody-elses", ""]) == 78


def test_a_refusal_says_nothing_about_a_start_whose_stamp_lies_in_the_future():
    ahead = attempt(-3600)
    members = [bound("g-w-0", note=ahead, phase="Running"), bound("g-w-1", note=ahead), refused("g-w-2", age_s=-3600)]
    decisions = plan(gang_with(*members, record=ahead, phase="Running"))
    assert released(decisions) == {"default/g": ["g-w-2"]}


# ------------------------------------------------------------------------------------------------------ what is left alone


@pytest.mark.parametrize("phase", ["Running", "Unknown", "Completed"])
def test_a_gang_that_has_started_is_never_touched(phase):
    things = cut_gang(9999)
    things[1] = a_group("g", 3, phase=phase)
    assert released(plan(*things)) == {}


@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
def test_a_started_gang_is_known_by_its_record_whatever_its_phase(phase):
    things = cut_gang(9999)
    things[1] = a_group("g", 3, phase=phase, annotations={names.ATTEMPT: attempt(9999)})
    assert released(plan(*things)) == {}


def test_a_started_gang_that_has_replaced_a_lost_member_is_still_a_started_gang():
    things = [
        a_node("n1", cpu="2"), a_group("g", 3, phase="Pending", annotations={names.ATTEMPT: attempt(9999)}),
        bound("g-w-0", age_s=9999), bound("g-w-1", age_s=99), waiting("g-w-2"),
    ]  # fmt: skip
    assert released(plan(*things)) == {}


def test_the_record_of_a_former_run_does_not_keep_a_restarted_gang_from_being_mended():
    """A restarted job keeps its PodGroup: its old record says nothing about the pods of the new run."""
    things = cut_gang(99)
    things[1] = a_group("g", 3, phase="Inqueue", annotations={names.ATTEMPT: attempt(9999)})
    assert released(plan(*things)) == {"default/g": ["g-w-0", "g-w-1"]}


def test_a_raised_minimum_changes_nothing_that_runs():
    record = {names.ATTEMPT: attempt(9999)}
    things = [a_node("n1", cpu="2"), a_group("g", 5, phase="Running", annotations=record),
              bound("g-w-0", age_s=9999, phase="Running"), bound("g-w-1", age_s=9999, phase="Running")]  # fmt: skip
    decisions = plan(*things)
    assert released(decisions) == {}
    assert decisions.evictions == ()


def test_surplus_members_of_an_elastic_gang_come_and_go_alone():
    elastic = [a_group("g", 1), bound("g-w-0", age_s=9999), bound("g-w-1", age_s=99), waiting("g-w-2")]
    boss = [a_priority_class("high", 100), a_gang("boss", 1, group={"priority_class": "high"})]
    decisions = plan(a_node("n1", cpu="3"), elastic, boss)
    assert released(decisions) == {}
    assert binds(decisions) == {"boss-w-0": "n1"}  # a further member is no unfinished business


def test_without_the_gang_plugin_there_is_nothing_to_mend():
    assert released(plan_for(*cut_gang(99), policy=policy("allocate", "priority"))) == {}


# ------------------------------------------------------------------------------------------------------ lost members


def refused(name, *, reason="OutOfcpu", **more):
    return bound(name, **{"phase": "Failed", "status": {"reason": reason}, **more})


def gang_with(*members, record=None, phase="Inqueue"):
    notes = {names.ATTEMPT: record} if record else {}
    return [a_node("n1", cpu="3"), a_group("g", 3, phase=phase, annotations=notes), *members]


def test_a_member_that_its_node_refused_is_given_back_to_its_controller_at_once():
    decisions = plan(gang_with(bound("g-w-0"), bound("g-w-1"), refused("g-w-2")))
    assert released(decisions) == {"default/g": ["g-w-2"]}
    assert decisions.gangs["default/g"].phase == "Inqueue"  # not Running: it is one short


@pytest.mark.parametrize(
    "other",
    [refused("g-w-2", reason="Error"), refused("g-w-2", note=""), refused("g-w-2", metadata={})],
    ids=["it failed", "somebody else bound it", "nobody would make it anew"],
)
def test_other_failures_are_none_of_our_business(other):
    assert released(plan(gang_with(bound("g-w-0"), bound("g-w-1"), other))) == {}


def test_a_start_that_a_refusal_belies_is_first_struck_from_the_record():
    """Else nobody would know, once the refused pod is gone, that the gang has never been whole."""
    members = [bound("g-w-0", phase="Running"), bound("g-w-1"), refused("g-w-2")]
    decisions = plan(gang_with(*members, record=attempt(5), phase="Running"))
    assert released(decisions) == {}
    assert decisions.gangs["default/g"].phase == "Inqueue"  # for a gang that must be admitted first nobody makes pods


def test_a_refusal_long_after_the_start_says_nothing_about_the_start():
    """An agent that was restarted looks at all its pods anew."""
    members = [bound("g-w-0", age_s=99, phase="Running"), bound("g-w-1", age_s=99), refused("g-w-2", age_s=99)]
    decisions = plan(gang_with(*members, record=attempt(99), phase="Running"))
    assert released(decisions) == {"default/g": ["g-w-2"]}
    assert decisions.gangs["default/g"].phase == "Unknown"


def test_a_member_that_was_placed_anew_and_refused_belies_nothing():
    members = [bound("g-w-0", age_s=9, phase="Running"), bound("g-w-1", age_s=9), refused("g-w-2", age_s=1)]
    assert released(plan(gang_with(*members, record=attempt(9), phase="Running"))) == {"default/g": ["g-w-2"]}


def test_a_gang_that_ran_for_long_is_not_given_up_because_a_member_that_came_back_was_refused():
    """Whoever comes back makes the record new; the others have run all the while and would lose their work."""
    veterans = [bound("g-w-0", age_s=9999, phase="Running"), bound("g-w-1", age_s=9999, phase="Running")]
    decisions = plan(gang_with(*veterans, refused("g-w-2", age_s=5), record=attempt(5), phase="Running"))
    assert released(decisions) == {"default/g": ["g-w-2"]}
    assert decisions.gangs["default/g"].phase == "Unknown"


def test_members_on_a_node_that_is_gone_are_given_back_at_once_and_without_waiting_for_its_agent():
    decisions = plan(gang_with(bound("g-w-0"), bound("g-w-1"), bound("g-w-2", node="gone")))
    (release,) = decisions.releases
    assert ([task.name for task in release.tasks], release.at_once) == (["g-w-2"], True)
    assert decisions.gangs["default/g"].phase == "Inqueue"


def test_of_a_gang_that_has_started_members_on_a_node_that_is_gone_are_left_alone():
    lost = bound("g-w-2", node="gone")
    members = [bound("g-w-0", phase="Running"), bound("g-w-1", phase="Running"), lost]
    assert released(plan(gang_with(*members, record=attempt(5), phase="Running"))) == {}


@pytest.mark.parametrize(
    "lost",
    [
        bound("g-w-2", node="gone", metadata={}),
        bound("g-w-2", node="gone", note=""),
        bound("g-w-2", node="gone", phase="Running"),
    ],
)
def test_a_pod_on_a_node_that_is_gone_stays_if_others_bound_it_if_it_ran_or_if_nobody_would_make_it_anew(lost):
    assert released(plan(gang_with(bound("g-w-0"), bound("g-w-1"), lost))) == {}


# ------------------------------------------------------------------------------------------------------ resting


def test_a_gang_whose_attempts_fail_rests_while_others_take_their_turn_and_is_told_why():
    first, second = a_gang("g", 2, created=1), a_gang("other", 2, created=2)
    decisions = plan(
        a_node("n1", cpu="2"), first, second, ports=Ports(resting={"default/g": Resting("not today", NOW + 7)})
    )
    assert started(decisions) == {"other": 2}
    assert report(decisions, "g").reasons[0].text == "the last attempt failed, and the next one follows: not today"
    assert decisions.next_change == NOW + 7


def test_what_is_left_of_a_failing_attempt_rests_too_and_is_still_given_up_after_the_grace_time():
    cluster = [a_node("n1", cpu="2"), a_group("g", 2), bound("g-w-0", age_s=99), waiting("g-w-1")]
    assert binds(plan(*cluster)) == {"g-w-1": "n1"}
    decisions = plan(*cluster, ports=Ports(resting={"default/g": Resting("not today", NOW + 7)}))
    assert (binds(decisions), released(decisions)) == ({}, {"default/g": ["g-w-0"]})
