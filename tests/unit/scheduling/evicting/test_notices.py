"""Notice: victims that ask for it are told first, leave once their work is safe, and stay if the room is no longer needed."""

import msgspec
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_node,
    a_priority_class,
    evicted,
    plan_for,
    policy,
    promised,
    when,
)

from pumice.api import disruptions, names
from pumice.api.changes import Claim, Claimed
from pumice.cluster.tasks import Status
from pumice.instant import MINUTE, SECOND
from pumice.scheduling.core.build_decisions import CLAIM_SECONDS
from pumice.scheduling.evicting.reserved_room import rebuilt

HIGH = a_priority_class("high", 9)
ASKS = {names.CHECKPOINT_SIGNAL: "SIGUSR1"}
TWO_MINUTES = policy(
    "allocate, preempt",
    ["priority", "conformance", {"name": "eviction", "arguments": {"notice": "2m"}}],
    "gang predicates",
)


def runs(name, *where, notice=None, checkpointed="", **more):
    """A gang that runs since midnight and asks for a signal; `notice` stands on its pods."""
    notes = dict(more.pop("notes", ASKS))
    if notice is not None:
        notes[names.EVICTION_NOTICE] = msgspec.json.encode(notice).decode()
    if checkpointed:
        notes[names.CHECKPOINTED_AT] = checkpointed
    return a_gang(
        name, len(where), running=list(where), group={"phase": "Running"}, annotations=notes,
        status={"startTime": when(0)}, **more,
    )  # fmt: skip


def wants(name="urgent", size=1, **more):
    return a_gang(name, size, group={"priority_class": "high"}, **more)


def a_notice(since=3600, until=3720, claimant="default/urgent", **more):
    story = disruptions.Story("preempt", claimant=disruptions.Party(gang=claimant))
    return disruptions.Notice(when(since), when(until), story, **more)


def a_claim(gang="urgent", until=NOW + 5 * MINUTE, **places):
    mine = tuple((f"default/{pod.replace('_', '-')}", node) for pod, node in places.items())
    return Claimed(claim=Claim(gang=f"default/{gang}", places=mine, victims=(), until=until))


def told(decisions):
    """Pod name -> whether it has to go itself."""
    return {each.task.name: each.about.leaves for each in decisions.notices}


def withdrawn(decisions):
    return [task.name for task in decisions.withdrawn]


# ------------------------------------------------------------------------------------------------- giving


def test_a_victim_that_asks_for_it_is_told_first_and_its_room_is_claimed():
    decisions = plan_for(a_node(cpu="1"), HIGH, runs("low", "n1"), wants(), policy=TWO_MINUTES)
    assert evicted(decisions) == []
    assert told(decisions) == {"low-w-0": True}
    (notice,) = decisions.notices
    assert (notice.about.since, notice.about.until) == (when(3600), when(3720))
    assert (notice.about.story.rule, notice.about.story.claimant.gang) == ("preempt", "default/urgent")
    assert promised(decisions) == {"urgent-w-0": "n1"}
    (claim,) = decisions.claims
    assert claim.until == NOW + 2 * MINUTE + CLAIM_SECONDS * SECOND


def test_one_that_asks_for_nothing_goes_at_once():
    decisions = plan_for(a_node(cpu="1"), HIGH, runs("low", "n1", notes={}), wants(), policy=TWO_MINUTES)
    assert (evicted(decisions), told(decisions)) == (["low-w-0"], {})


def test_without_notice_in_the_policy_everybody_goes_at_once():
    chosen = policy("preempt", "priority conformance eviction", "gang predicates")
    decisions = plan_for(a_node(cpu="1"), HIGH, runs("low", "n1"), wants(), policy=chosen)
    assert (evicted(decisions), told(decisions)) == (["low-w-0"], {})


def test_all_victims_of_a_plan_go_together():
    """Before the last one has left, the room is no use to the claimant: the others may as well go on."""
    things = [a_node(cpu="2"), HIGH, runs("asks", "n1"), runs("silent", "n1", notes={}), wants(size=2)]
    assert told(plan_for(*things, policy=TWO_MINUTES)) == {"asks-w-0": True, "silent-w-0": True}


def test_the_rest_of_a_gang_that_breaks_is_told_too():
    things = [a_node(cpu="2"), HIGH, runs("low", "n1", "n1"), wants()]
    assert told(plan_for(*things, policy=TWO_MINUTES)) == {"low-w-1": True, "low-w-0": False}
    elastic = runs("low", "n1", "n1", min_member=1)
    assert told(plan_for(*things[:2], elastic, wants(), policy=TWO_MINUTES)) == {"low-w-1": True}


# ------------------------------------------------------------------------------------------------- while it runs


def test_whoever_has_to_leave_counts_as_leaving_whichever_scheduler_told_it():
    leaving, stays = runs("a", "n1", notice=a_notice()), runs("b", "n1", notice=a_notice(leaves=False))
    tasks = {task.name: task.status for task in a_cluster(a_node(), leaving, stays).tasks.values()}
    assert tasks == {"a-w-0": Status.RELEASING, "b-w-0": Status.RUNNING}


def test_what_somebody_else_wrote_is_no_notice():
    scribbled = runs("low", "n1", notes={names.EVICTION_NOTICE: "leave!"})
    later = runs("next", "n1", notice=disruptions.Notice("now", "then", disruptions.Story("preempt")))
    cluster = a_cluster(a_node(cpu="2"), scribbled, later)
    assert {task.status for task in cluster.tasks.values()} == {Status.RUNNING}


def world(*, checkpointed="", size=1, **notice):
    """The cycle after the notice: the claimant's room is held."""
    low = runs("low", *["n1"] * size, notice=a_notice(**notice), checkpointed=checkpointed)
    return [a_node(cpu=str(size)), HIGH, low, wants(), a_claim(urgent_w_0="n1")]


def test_it_goes_on_until_its_time_is_over():
    decisions = plan_for(*world(), policy=TWO_MINUTES, now=NOW + SECOND)
    assert (evicted(decisions), told(decisions), withdrawn(decisions)) == ([], {}, [])
    assert promised(decisions) == {"urgent-w-0": "n1"}
    assert decisions.next_change == NOW + 2 * MINUTE
    decisions = plan_for(*world(), policy=TWO_MINUTES, now=NOW + 2 * MINUTE)
    (eviction,) = decisions.evictions
    assert (eviction.task.name, eviction.rule, eviction.claimant) == ("low-w-0", "preempt", "default/urgent")
    assert (eviction.after_notice, eviction.story.lost_seconds) == (True, 3720)


def test_a_claimant_of_another_namespace_is_known_by_its_uid_alone():
    """The notice stands on a pod that others read (docs/adr/0040); who has gone since is waited for by nobody."""
    stranger = disruptions.Story("preempt", claimant=disruptions.Party(queue="default", uid="lab/urgent"))
    low = runs("low", "n1", notice=disruptions.Notice(when(3600), when(3720), stranger))
    urgent = wants(namespace="lab")
    claim = Claimed(
        claim=Claim(gang="lab/urgent", places=(("lab/urgent-w-0", "n1"),), victims=(), until=NOW + 5 * MINUTE)
    )
    (eviction,) = plan_for(
        a_node(cpu="1"), HIGH, low, urgent, claim, policy=TWO_MINUTES, now=NOW + 2 * MINUTE
    ).evictions
    assert (eviction.claimant, eviction.story.claimant.gang) == ("lab/urgent", "lab/urgent")
    assert withdrawn(plan_for(a_node(cpu="1"), HIGH, low, policy=TWO_MINUTES, now=NOW + SECOND)) == ["low-w-0"]


def test_once_its_work_is_safe_it_goes_and_little_is_lost():
    decisions = plan_for(*world(checkpointed=when(3610)), policy=TWO_MINUTES, now=NOW + 12 * SECOND)
    (eviction,) = decisions.evictions
    assert (eviction.task.name, eviction.story.lost_seconds) == ("low-w-0", 2)


def test_an_older_checkpoint_is_no_answer():
    assert evicted(plan_for(*world(checkpointed=when(3599)), policy=TWO_MINUTES, now=NOW + SECOND)) == []


def test_every_member_that_asks_has_to_answer():
    """Also those that stay: the checkpoint is that of the whole gang."""
    leaves = a_gang("low", 2, running=["n1", "n1"], group={"phase": "Running"}, status={"startTime": when(0)})
    notes = (a_notice(), a_notice(leaves=False))
    safe = ({names.CHECKPOINTED_AT: when(3601)}, {})

    def members(answers):
        return [
            msgspec.structs.replace(
                pod,
                metadata=msgspec.structs.replace(
                    pod.metadata,
                    annotations={
                        **pod.metadata.annotations,
                        **ASKS,
                        names.EVICTION_NOTICE: msgspec.json.encode(notice).decode(),
                        **answer,
                    },
                ),
            )
            for pod, notice, answer in zip(leaves[1:], notes, answers, strict=True)
        ]

    things = [a_node(cpu="2"), HIGH, leaves[0], wants(), a_claim(urgent_w_0="n1")]
    now = NOW + 2 * SECOND
    assert evicted(plan_for(*things, *members(safe), policy=TWO_MINUTES, now=now)) == []
    assert evicted(plan_for(*things, *members((safe[0], safe[0])), policy=TWO_MINUTES, now=now)) == ["low-w-0"]


def test_nobody_is_evicted_twice():
    things = world()
    gone = [
        msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp=when(3720)))
        for pod in things[2][1:]
    ]
    decisions = plan_for(*things[:2], things[2][0], *gone, *things[3:], policy=TWO_MINUTES, now=NOW + 2 * MINUTE)
    assert (evicted(decisions), withdrawn(decisions)) == ([], [])


# ------------------------------------------------------------------------------------------------- withdrawing


def test_it_stays_if_the_claimant_has_found_room_elsewhere():
    decisions = plan_for(*world(), a_node("n2", cpu="1"), policy=TWO_MINUTES, now=NOW + SECOND)
    assert [commit.gang for commit in decisions.commits] == ["default/urgent"]
    assert (withdrawn(decisions), evicted(decisions)) == (["low-w-0"], [])


def test_it_stays_if_the_claimant_is_gone():
    things = world()
    del things[3]
    assert withdrawn(plan_for(*things, policy=TWO_MINUTES, now=NOW + SECOND)) == ["low-w-0"]


def test_it_stays_if_the_claim_was_given_up():
    decisions = plan_for(*world()[:-2], policy=TWO_MINUTES, now=NOW + SECOND)
    assert withdrawn(decisions) == ["low-w-0"]


def test_whoever_was_told_beside_it_is_told_that_it_stays():
    pair = [*runs("low", "n1", notice=a_notice()), *runs("low", "n1", notice=a_notice(leaves=False))[1:]]
    pair[2] = msgspec.structs.replace(
        pair[2], metadata=msgspec.structs.replace(pair[2].metadata, name="low-w-1", uid="default/low-w-1")
    )
    assert withdrawn(plan_for(a_node(cpu="2"), HIGH, pair, policy=TWO_MINUTES)) == ["low-w-0", "low-w-1"]


# ------------------------------------------------------------------------------------------------- a restart


def test_a_scheduler_that_starts_anew_finds_the_claim_again_and_for_long_enough():
    nominated = wants(status={"nominatedNodeName": "n1"})
    snapshot = a_cluster(a_node(cpu="1"), HIGH, runs("low", "n1", notice=a_notice()), nominated).snapshot()
    (claim,) = rebuilt(snapshot, NOW, MINUTE)
    assert (claim.gang, claim.victims) == ("default/urgent", ("default/low-w-0",))
    assert claim.until == NOW + 3 * MINUTE
