"""Room that evictions made belongs to the gang it was made for: across cycles, against equals and lesser, until time is up."""

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    binds,
    evicted,
    plan_for,
    policy,
    promised,
    report,
)

from pumice import instant
from pumice.api.changes import Claim, Claimed
from pumice.scheduling.core.build_decisions import CLAIM_SECONDS
from pumice.scheduling.evicting.reserved_room import rebuilt

POLICY = policy(
    "enqueue, allocate, preempt, backfill", ["priority", {"name": "gang", "enablePreemptable": False}, "conformance"]
)
LEAVING = {"deletionTimestamp": "2026-01-01T00:59:00Z"}
CLASSES = [a_priority_class("low", 1), a_priority_class("middle", 50), a_priority_class("high", 100)]
TWO_CPUS = a_node("n1", cpu="2")


def a_claim(gang="g", *members, node="n1", victims=("default/old-w-0",), until=NOW + 1):
    return Claimed(Claim(f"default/{gang}", tuple((f"default/{name}", node) for name in members), victims, until))


def of(priority, **group):
    return {"priority_class": priority, **group}


def leaving(name="leaving", cpu="1", **more):
    """A victim on its way out."""
    return a_pod(name, cpu=cpu, node="n1", metadata=LEAVING, **more)


def plan(*things, policy=POLICY, **more):
    return plan_for(CLASSES, *things, policy=policy, **more)


# ------------------------------------------------------------------------------------------------------ making a claim


def test_an_eviction_plan_leaves_a_claim_of_all_its_places_and_victims():
    decisions = plan(
        TWO_CPUS, a_gang("old", 2, running=["n1", "n1"], group=of("low")), a_gang("g", 2, group=of("high"))
    )
    assert sorted(evicted(decisions)) == ["old-w-0", "old-w-1"]
    (claim,) = decisions.claims
    assert claim.gang == "default/g"
    assert sorted(claim.places) == [("default/g-w-0", "n1"), ("default/g-w-1", "n1")]
    assert sorted(claim.victims) == ["default/old-w-0", "default/old-w-1"]
    assert claim.until == NOW + CLAIM_SECONDS * instant.SECOND
    nominated = {verdict.task.name: verdict.nominated_node for verdict in report(decisions, "g").pods}
    assert nominated == {"g-w-0": "n1", "g-w-1": "n1"}


def test_who_needs_no_eviction_makes_no_claim():
    assert plan(TWO_CPUS, a_gang("g", 2)).claims == ()
    assert plan(TWO_CPUS, leaving(), leaving("other"), a_gang("g", 2)).claims == ()


# ------------------------------------------------------------------------------------------------------ keeping it


def test_nobody_is_evicted_again_while_the_victims_leave():
    running = a_gang("other", 1, running=["n1"], group=of("low"))
    waiting = a_gang("g", 1, group=of("high"))
    world = [TWO_CPUS, leaving(), running, waiting]
    assert evicted(plan(*world, policy=policy("preempt", "priority conformance"))) == []  # it waits for what is leaving
    world = [
        a_node("n1", cpu="1"),
        leaving(),
        a_node("n2", cpu="1"),
        a_gang("other", 1, running=["n2"], group=of("low")),
        waiting,
    ]
    decisions = plan(*world, a_claim("g", "g-w-0"))
    assert evicted(decisions) == []
    assert promised(decisions) == {"g-w-0": "n1"}
    assert decisions.unclaims == {}


@pytest.mark.parametrize("rival", ["low", "middle"])
def test_nobody_of_equal_or_lower_rank_is_placed_in_claimed_room(rival):
    world = [a_node("n1", cpu="1"), a_gang("first", 1, group=of(rival)), a_gang("g", 1, group=of("middle"), created=9)]
    assert binds(plan(*world, a_claim("g", "g-w-0"))) == {"g-w-0": "n1"}


def test_claimed_room_that_is_not_free_yet_is_promised_to_nobody_else():
    world = [
        a_node("n1", cpu="1"),
        leaving(),
        a_gang("first", 1, group=of("low")),
        a_gang("g", 1, group=of("low"), created=9),
    ]
    assert promised(plan(*world, a_claim("g", "g-w-0"))) == {"g-w-0": "n1"}


def test_pods_that_ask_for_nothing_do_not_take_claimed_slots():
    world = [a_node("n1", cpu="1", pods="1"), a_gang("first", 1, cpu=None), a_gang("g", 1, created=9)]
    assert binds(plan(*world, a_claim("g", "g-w-0"))) == {"g-w-0": "n1"}


def test_a_gang_of_higher_priority_may_pass():
    world = [a_node("n1", cpu="1"), a_gang("boss", 1, group=of("high")), a_gang("g", 1, group=of("middle"))]
    decisions = plan(*world, a_claim("g", "g-w-0"))
    assert binds(decisions) == {"boss-w-0": "n1"}
    assert decisions.unclaims == {"default/g": "nothing is left of its room"}


def test_rank_does_not_count_between_queues():
    """Else a gang that had to give room back to another queue would take it again, and so for ever."""
    queues = [a_queue("a"), a_queue("b")]
    boss, gang = a_gang("boss", 1, group=of("high", queue="a")), a_gang("g", 1, group=of("low", queue="b"))
    assert binds(plan(a_node("n1", cpu="1"), queues, boss, gang, a_claim("g", "g-w-0"))) == {"g-w-0": "n1"}


def test_a_gang_of_higher_priority_that_is_refused_room_by_a_role_elsewhere_still_may_pass():
    """The first attempt beside the claim leaves fit errors; they must not count against the second one."""
    world = [
        a_node("n1", cpu="1"), a_gang("boss", 1, group=of("high"), role="worker"), a_gang("g", 1, group=of("middle"))
    ]  # fmt: skip
    assert binds(plan(*world, a_claim("g", "g-w-0"))) == {"boss-w-0": "n1"}


def test_who_passes_takes_no_more_than_it_needs():
    world = [
        TWO_CPUS,
        a_gang("boss", 1, group=of("high")),
        a_gang("g", 2, group=of("middle")),
        a_gang("late", 1, created=9),
    ]
    decisions = plan(*world, a_claim("g", "g-w-0", "g-w-1"), leaving(cpu="0"))
    assert binds(decisions) == {"boss-w-0": "n1"}  # what is left stays claimed: late does not get it
    assert len(promised(decisions)) == 1


# ------------------------------------------------------------------------------------------------------ using it


def test_a_claim_ends_when_it_is_used():
    decisions = plan(a_node("n1", cpu="1"), a_gang("g", 1), a_claim("g", "g-w-0"))
    assert binds(decisions) == {"g-w-0": "n1"}
    assert decisions.unclaims == {"default/g": "used"}


def test_the_members_for_whom_the_room_was_made_come_before_their_higher_ranked_mates():
    """Else a mate that fits nowhere would use up the gang's turn, and the victims would have gone in vain."""
    members = [a_pod("g-w-0", gang="g", role="w", cpu="9", priority=9), a_pod("g-w-1", gang="g", role="w", cpu="1")]
    decisions = plan(a_node("n1", cpu="1"), a_group("g", 1), members, a_claim("g", "g-w-1"))
    assert binds(decisions) == {"g-w-1": "n1"}


def test_a_claim_is_used_even_where_it_takes_up_its_queues_whole_share():
    sharing = policy("allocate", "priority gang", "proportion")
    world = [a_node("n1", cpu="2", memory="2Gi", pods="2"), a_gang("g", 2, memory="1Gi")]
    assert binds(plan(*world, a_claim("g", "g-w-0", "g-w-1"), policy=sharing)) == {"g-w-0": "n1", "g-w-1": "n1"}


def test_pods_that_ask_for_nothing_have_claims_too():
    world = [a_node("n1", pods="1"), a_gang("g", 1, cpu=None)]
    decisions = plan(*world, a_claim("g", "g-w-0"))
    assert binds(decisions) == {"g-w-0": "n1"}
    assert decisions.unclaims == {"default/g": "used"}


def test_the_part_of_a_claim_that_is_not_used_yet_stays_held():
    """The gang is ready by its waiting best-effort member; that member still needs the slot that was made for it."""
    members = [a_pod("g-a-0", gang="g", cpu=None), a_pod("g-b-0", gang="g", cpu="9")]
    world = [a_node("n1", cpu="4", pods="2"), leaving(cpu="1"), leaving("second", cpu="1"), a_group("g", 1), members]
    late = a_gang("late", 1, cpu=None, created=9)
    decisions = plan(*world, late, a_claim("g", "g-a-0"))
    assert decisions.unclaims == {}
    assert promised(decisions)["g-a-0"] == "n1"


def test_a_gang_with_a_claim_need_not_ask_for_admission_again():
    """It has lost its running members and would fall to Pending, while others already leave for it."""
    world = [a_node("n1", cpu="1"), leaving(), a_gang("g", 1, group={"phase": "Running", "minimum": {"cpu": "9"}})]
    decisions = plan(*world, a_claim("g", "g-w-0"))
    assert report(decisions, "g").phase == "Inqueue"


# ------------------------------------------------------------------------------------------------------ losing it


def test_a_claim_expires():
    world = [a_node("n1", cpu="1"), a_gang("first", 1), a_gang("g", 1, created=9)]
    decisions = plan(*world, a_claim("g", "g-w-0", until=NOW))
    assert decisions.unclaims == {"default/g": "its time is up"}
    assert binds(decisions) == {"first-w-0": "n1"}


@pytest.mark.parametrize(
    ("things", "why"),
    [
        ([], "the gang no longer waits"),
        ([a_gang("g", 1, running=["n1"])], "the gang no longer waits"),
        ([a_gang("g", 1), a_pod("big", cpu="2", node="n1")], "nothing is left of its room"),
    ],
)
def test_a_claim_of_no_use_ends(things, why):
    assert plan(TWO_CPUS, *things, a_claim("g", "g-w-0")).unclaims == {"default/g": why}


def test_a_claim_on_a_node_that_is_gone_ends():
    decisions = plan(TWO_CPUS, a_gang("g", 1), a_claim("g", "g-w-0", node="n9"))
    assert decisions.unclaims == {"default/g": "nothing is left of its room"}
    assert binds(decisions) == {"g-w-0": "n1"}


def test_a_claim_ends_when_its_room_is_there_and_the_queue_has_no_share_for_the_gang_any_more():
    """It was made while nobody else wanted any. Now `ours` deserves two of four, and a gang of two need not wait for one of three that cannot start."""
    sharing = policy("allocate", "priority gang", "proportion")
    four = a_node("n1", cpu="4", memory="4Gi", pods="4")
    queues = [a_queue("ours"), a_queue("theirs")]
    large = a_gang("g", 3, memory="1Gi", group=of("high", queue="ours"))
    small = a_gang("small", 2, memory="1Gi", group=of("low", queue="ours"))
    theirs = a_gang("big", 4, memory="1Gi", group={"queue": "theirs"})
    claim = a_claim("g", "g-w-0", "g-w-1", "g-w-2")
    world = [four, queues, large, small, theirs]
    while_they_leave = plan(*world, leaving("old-w-0", memory="1Gi"), claim, policy=sharing)
    assert while_they_leave.unclaims == {}
    decisions = plan(*world, claim, policy=sharing)
    assert decisions.unclaims == {"default/g": "its room is there, and the gang is refused all the same"}
    assert [each.code.value for each in report(decisions, "g").reasons] == ["QueueShareTooSmall"]
    assert binds(plan(*world, policy=sharing)) == {"small-w-0": "n1", "small-w-1": "n1"}
    lending = policy("allocate, lend", "priority gang", "proportion")
    assert sorted(binds(plan(*world, claim, policy=lending))) == ["g-w-0", "g-w-1", "g-w-2"]


def test_a_claim_ends_when_its_room_is_there_and_its_node_was_cordoned():
    """Until then the gang would say that others have to leave first, and get no reservation."""
    filtering = policy("allocate", "priority gang", "predicates")
    world = [a_node("n1", cpu="2", spec={"unschedulable": True}), a_gang("g", 1), a_claim("g", "g-w-0")]
    while_they_leave = plan(*world, leaving("old-w-0"), policy=filtering)
    assert while_they_leave.unclaims == {}
    decisions = plan(*world, policy=filtering)
    assert decisions.unclaims == {"default/g": "its room is there, and the gang is refused all the same"}
    told = {each.code.value for each in report(decisions, "g").reasons}
    assert "Unschedulable" in told
    assert "PlacesPromised" not in told


def test_a_claim_ends_when_its_victims_have_left_and_a_part_of_its_room_was_taken():
    """By a pod that is not ours: what is left is of no use to the gang, and nobody has to leave for it any more."""
    world = [a_node("n1", cpu="3"), a_gang("g", 2), a_claim("g", "g-w-0", "g-w-1"), a_pod("theirs", cpu="2", node="n1")]
    while_they_leave = plan(a_node("n2"), *world, leaving("old-w-0", cpu="0"), a_pod("x", cpu="4", node="n2"))
    assert while_they_leave.unclaims == {}
    decisions = plan(*world)
    assert decisions.unclaims == {"default/g": "its room is there, and the gang is refused all the same"}
    assert "PlacesPromised" not in {each.code.value for each in report(decisions, "g").reasons}


# ------------------------------------------------------------------------------------------------------ its holder is no victim


def test_who_waits_for_others_to_leave_is_nobodys_victim_unless_of_a_better_gang():
    def victims(rival):
        half_started = a_gang("g", 2, running=["n1"], group=of("middle", phase="Running"))
        rules = policy("preempt", "conformance", "priority")  # conformance alone would let everybody go
        return evicted(
            plan(
                TWO_CPUS,
                leaving(),
                half_started,
                a_gang("rival", 1, group=of(rival)),
                a_claim("g", "g-w-1"),
                policy=rules,
            )
        )

    assert victims("middle") == []
    assert victims("high") == ["g-w-0"]


# ------------------------------------------------------------------------------------------------------ after a restart


def nominated(gang, size, *, node="n1"):
    return a_gang(gang, size, created=9, group=of("high"), status={"nominatedNodeName": node})


def test_a_new_leader_knows_whose_room_it_is_that_becomes_free():
    """Of two victims one has left, when the scheduler dies: its room is nobody else's."""
    world = [TWO_CPUS, a_group("old", 1), leaving("old-w-1", gang="old"), nominated("g", 2), a_gang("small", 1)]
    assert binds(plan(*world, policy=policy("allocate", "gang"))) == {"small-w-0": "n1"}
    (claim,) = rebuilt(a_cluster(*CLASSES, *world).snapshot(), NOW, 1)
    assert claim == Claim(
        "default/g", (("default/g-w-0", "n1"), ("default/g-w-1", "n1")), ("default/old-w-1",), NOW + 1
    )
    decisions = plan(*world, Claimed(claim), policy=policy("allocate", "gang"))
    assert (binds(decisions), promised(decisions)) == ({}, {"g-w-1": "n1"})  # the other one waits only for it


def test_a_nomination_is_no_claim_once_nobody_leaves():
    world = [TWO_CPUS, a_node("n2", cpu="2"), nominated("g", 2, node="n2"), leaving("old-w-1", gang="old")]
    assert rebuilt(a_cluster(*CLASSES, *world).snapshot(), NOW, 1) == []
