"""What the scheduler exports of single gangs goes with them."""

from types import SimpleNamespace

from pumice import instant
from pumice.processes.scheduler_metrics import Observer
from pumice.telemetry.meters import Meters

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
