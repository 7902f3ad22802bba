"""What the scheduler exports of single gangs goes with them."""

from types import SimpleNamespace

from tests.unit.scheduling.clusters import NOW as PLANNED
from tests.unit.scheduling.clusters import a_cluster, a_gang, a_node, a_queue, policy

from pumice import instant
from pumice.processes import scheduler_metrics
from pumice.processes.scheduler_metrics import Observer
from pumice.scheduling.core import cycle
from pumice.telemetry.meters import Meters

POLICY = policy("enqueue, allocate", "priority gang predicates", "proportion")
BORN = "2026-03-01T12:00:00Z"
NOW = instant.parse_instant("2026-03-01T12:00:05Z")


def a_cycle(observer, gangs, started=()):
    specs = {
        name: SimpleNamespace(spec=SimpleNamespace(name=name, queue="q", namespace="team", created=BORN))
        for name in gangs
    }
    commits = [SimpleNamespace(gang=name, mends=False) for name in started]
    decisions = SimpleNamespace(commits=commits, releases=(), gangs={}, shares={})
    observer._gangs(SimpleNamespace(gangs=specs), decisions, NOW)


def test_the_times_of_a_gang_that_is_gone_are_exported_no_longer():
    meters = Meters()
    observer = Observer(meters, {})
    a_cycle(observer, ["old", "new"], started=["old", "new"])
    line = b'volcano_e2e_job_scheduling_duration{job_name="old",job_namespace="team",queue="q"} 5000.0'
    assert line in meters.text()
    a_cycle(observer, ["new"])
    assert b'job_name="old"' not in meters.text()
    assert meters.text().count(b'job_name="new"') == 3


# ------------------------------------------------------------------------------------------------------------ queues


def observe(observer, *things, now=PLANNED):
    snapshot = a_cluster(*things).snapshot()
    decisions = cycle.plan(snapshot, POLICY, now=now)
    observer.cycle(snapshot, decisions, now=now, seconds=0.1, opened_s=0.0)


def lines(meters, name):
    """Series -> value, of one metric; of a histogram how many were counted."""
    found = [line.decode() for line in meters.text().splitlines() if line.startswith(name.encode() + b"{")]
    return {line.rpartition(" ")[0].partition("{")[2].rstrip("}"): float(line.rpartition(" ")[2]) for line in found}


def waiting(name, queue, created=0):
    return a_gang(name, 1, group={"queue": queue}, created=created, gpu=9)


def test_what_queues_hold_and_who_waits_in_them_is_told_by_queue():
    meters = Meters()
    observer = Observer(meters, {})
    node = a_node("n1", cpu="8", gpu=4)
    running = a_gang("runs", 2, running=["n1"] * 2, group={"queue": "a", "phase": "Running"}, gpu=1)
    things = node, a_queue("a"), a_queue("b"), running
    observe(observer, *things, waiting("one", "a"), waiting("two", "a", created=60))
    used = lines(meters, "pumice_queue_used")
    assert used['queue="a",resource="nvidia.com/gpu"'] == 2
    assert used['queue="b",resource="nvidia.com/gpu"'] == 0
    assert lines(meters, "pumice_queue_share") == {'queue="a"': 0.5, 'queue="b"': 0}
    assert lines(meters, "pumice_queue_longest_wait_seconds") == {'queue="a"': 3600}
    assert lines(meters, "pumice_queue_position_count") == {'queue="a"': 2}
    assert lines(meters, "pumice_queue_position_sum") == {'queue="a"': 3}
    observe(observer, *things, waiting("one", "a"), waiting("two", "a", created=60), waiting("three", "a", created=90))
    assert lines(meters, "pumice_queue_position_sum") == {'queue="a"': 6}  # who waits already is counted once


def test_a_queue_that_is_gone_is_exported_no_longer():
    meters = Meters()
    observer = Observer(meters, {})
    start = a_gang("starts", 1, group={"queue": "a"})
    observe(observer, a_node("n1"), a_queue("a"), a_queue("b"), start, waiting("one", "a"))
    assert lines(meters, "pumice_gang_admit_seconds_count") == {'queue="a"': 1}
    observe(observer, a_node("n1"), a_queue("b"))
    assert b'queue="a"' not in meters.text()
    assert b'queue_name="a"' not in meters.text()


def test_histograms_are_bounded_and_further_queues_are_told_together(monkeypatch):
    monkeypatch.setattr(scheduler_metrics, "QUEUES_TOLD_MAX", 1)
    meters = Meters()
    queues = [a_queue(name) for name in "abc"]
    observe(Observer(meters, {}), a_node("n1"), queues, [waiting(f"g-{name}", name) for name in "abc"])
    assert sorted(lines(meters, "pumice_queue_position_count").values()) == [1, 2]
    assert lines(meters, "pumice_queue_position_count")['queue="(others)"'] == 2


def test_gangs_that_hold_while_they_wait_are_counted_by_reason_and_no_longer_once_they_are_whole():
    meters = Meters()
    observer = Observer(meters, {})
    half = a_gang("half", 4, running=["n1"] * 2, group={"phase": "Running"}, gpu=1, cpu=None)
    observe(observer, a_node("n1", gpu=2), half)
    assert lines(meters, "pumice_deadlocked_gangs") == {'reason="HoldsWhileWaiting"': 1, 'reason="QuotaHeld"': 0}
    observe(observer, a_node("n1", gpu=2), a_node("n2", gpu=2), half)
    assert lines(meters, "pumice_deadlocked_gangs")['reason="HoldsWhileWaiting"'] == 0
