"""How long a gang runs: who says so, and what is learned of past runs."""

import pytest
from tests.unit.scheduling.clusters import NOW, a_gang, a_node, a_queue, plan_for, policy, session_for, when

from pumice import instant
from pumice.scheduling.core.memory import Memory
from pumice.scheduling.core.ports import Ports
from pumice.scheduling.time import run_times
from pumice.scheduling.time.estimates import LENGTH_MAX, Estimates, Source

POLICY = policy("allocate", "gang reservation", "predicates")
LIMIT, DECLARED = "pumice.dev/time-limit", "pumice.dev/running-estimate"


def session(*things, group=None, pods=None, queue=None, memory=None, ports=None):
    gang = a_gang("train-7", 2, group={"annotations": group or {}}, annotations=pods or {})
    more = {} if memory is None else {"memory": memory}
    return session_for(
        a_node(), gang, a_queue(annotations=queue or {}), *things, policy=POLICY, ports=ports, **more
    )  # fmt: skip


def estimate(**arguments):
    made = session(**arguments)
    return Estimates(made, instant.HOUR).of(made.gangs["default/train-7"])


def past(*lengths):
    made = session()
    kind = run_times.kind_of(made.gangs["default/train-7"].gang)
    runs = run_times.Runs()
    for number, length in enumerate(lengths):
        runs = runs.after(length, number)
    return Memory({run_times.SLOT.name: run_times.Remembered({kind: runs})})


def test_the_first_of_limit_owner_past_queue_and_policy_that_says_something_counts():
    everything = {
        "group": {LIMIT: "2h", DECLARED: "30m"}, "queue": {"pumice.dev/default-run-time": "3h"},
        "memory": past(*[60] * 5),
    }  # fmt: skip
    found = []
    for gone in (None, LIMIT, DECLARED, "memory", "queue"):
        if gone in everything["group"]:
            everything["group"] = {key: value for key, value in everything["group"].items() if key != gone}
        else:
            everything.pop(gone, None)
        each = estimate(**everything)
        found.append((each.length // instant.MINUTE, each.source))
    assert found == [
        (120, Source.LIMIT), (30, Source.DECLARED), (1, Source.LEARNED), (180, Source.QUEUE), (60, Source.POLICY),
    ]  # fmt: skip


def test_the_record_goes_before_what_the_scheduler_remembers_itself():
    recorded = past(*[300] * 5).values[run_times.SLOT.name]
    assert estimate(ports=Ports(run_times=recorded), memory=past(*[60] * 5)).source is Source.RECORDED
    assert estimate(ports=Ports(run_times=recorded)).length == 5 * instant.MINUTE
    assert estimate(ports=Ports(run_times=run_times.Remembered()), memory=past(*[60] * 5)).source is Source.LEARNED


def test_members_speak_for_a_group_that_says_nothing():
    assert estimate(pods={DECLARED: "20m"}).length == 20 * instant.MINUTE
    assert estimate(group={DECLARED: "10m"}, pods={DECLARED: "20m"}).length == 10 * instant.MINUTE


@pytest.mark.parametrize("text", ["soon", "-5m", "0s", ""])
def test_what_is_no_duration_counts_as_unsaid(text):
    assert estimate(group={LIMIT: text, DECLARED: text}).source is Source.POLICY


@pytest.mark.parametrize(
    ("age_s", "declared", "expected_s"),
    [(600, "20m", 600), (1200, "20m", 120), (3600, "20m", 360), (300, "1m", 60), (0, "20m", 1200)],
)
def test_a_gang_that_is_overdue_ends_a_tenth_of_its_age_later_and_a_minute_at_least(age_s, declared, expected_s):
    started = {"startTime": instant.format_instant(NOW - age_s * instant.SECOND)}
    gang = a_gang(
        "g", 2, running=["n1", "n1"], group={"annotations": {DECLARED: declared}}, status=started
    )  # fmt: skip
    made = session_for(a_node(), gang, policy=POLICY)
    end = Estimates(made, instant.HOUR).end(made.gangs["default/g"])
    assert (end - NOW) // instant.SECOND == expected_s


def test_a_gang_starts_with_the_last_of_its_minimum_and_a_pod_without_a_start_with_its_bind():
    pods = a_gang("g", 3, min_member=2, running=["n1"] * 3)
    group, members = pods[0], pods[1:]
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": when(200)}
    times = [{"startTime": when(100)}, {"conditions": [bound]}, {"startTime": when(300)}]
    from tests.unit.scheduling.clusters import a_pod

    members = [a_pod(f"g-w-{number}", gang="g", node="n1", status=own) for number, own in enumerate(times)]
    made = session_for(a_node(), group, members, policy=POLICY)
    assert instant.format_instant(made.gangs["default/g"].gang.started) == when(200)


# ------------------------------------------------------------------------------------------------------ past runs


def a_run(name, seconds, *, exit_code=0):
    """A gang that has completed."""
    done = {
        "phase": "Succeeded" if exit_code == 0 else "Failed", "startTime": when(0),
        "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": exit_code, "finishedAt": when(seconds)}}}],
    }  # fmt: skip
    return a_gang(name, 1, running=["n1"], phase=done["phase"], status=done)


def learned(*things, memory=None, rules=POLICY):
    more = {} if memory is None else {"memory": memory}
    return plan_for(a_node(), *things, policy=rules, **more).memory


def test_the_engine_learns_from_gangs_that_it_sees_complete_each_once():
    runs = [a_run(f"train-{number}", 60 * (number + 1)) for number in range(6)]
    memory = learned(*runs)
    memory = learned(*runs, memory=memory)  # they are still there in the next cycle
    (kind,) = memory.of(run_times.SLOT).kinds.values()
    assert sorted(kind.lengths) == [60, 120, 180, 240, 300, 360]
    assert estimate(memory=memory).length == 300 * instant.SECOND  # four of five ended by then


def test_four_runs_and_runs_that_failed_say_nothing():
    memory = learned(*[a_run(f"train-{number}", 60) for number in range(4)], a_run("train-9", 5, exit_code=1))
    assert estimate(memory=memory).source is Source.POLICY


def test_nothing_is_remembered_where_no_policy_asks():
    rules = policy("allocate", "gang", "predicates")
    assert learned(*[a_run(f"train-{number}", 60) for number in range(6)], rules=rules).values == {}


def test_a_learned_estimate_says_how_often_it_was_right():
    assert estimate(memory=past(60, 60, 60, 60, 60, 50, 60, 70, 900)).right == pytest.approx(0.5)


def test_memory_of_runs_is_bounded():
    kinds = {f"{number:016x}": run_times.Runs(tuple([10**6] * 20), 1, 1, number) for number in range(5_000)}
    memory = Memory({run_times.SLOT.name: run_times.Remembered(kinds, tuple(f"{n:016x}" for n in range(6_000)))})
    after = learned(memory=memory).of(run_times.SLOT)
    assert len(after.kinds) == run_times.KINDS_MAX
    assert min(runs.last for runs in after.kinds.values()) == 3_000  # the oldest are forgotten
    assert len(run_times.SLOT.encode(run_times.Remembered(after.kinds, memory.of(run_times.SLOT).counted))) < 512 * 1024


def test_a_record_that_is_handed_in_stands_for_what_the_engine_remembers():
    class Record:
        def of(self, kind):
            return run_times.Past(42 * instant.SECOND, 0.9)

    found = estimate(memory=past(*[60] * 5), ports=Ports(run_times=Record()))
    assert (found.length, found.right) == (42 * instant.SECOND, 0.9)


@pytest.mark.parametrize(
    "said", [{"group": {DECLARED: "2562047h"}}, {"queue": {"pumice.dev/default-run-time": "2562047h"}}]
)
def test_who_says_three_centuries_runs_for_one(said):
    """The sum of the clock and of Go's longest duration is no number of 64 bits."""
    assert estimate(**said).length == LENGTH_MAX
