"""What the record and the scheduler tell each other, on a whole cluster: run times of the past, and forecasts."""

import time

from tests.bodies.recorded import a_job, cluster, until_completed
from tests.integration.record.test_commands import pumice

from pumice import instant
from pumice.api.batch import Job
from pumice.api.core import ConfigMap
from pumice.api.scheduling import PodGroup
from pumice.clock import RealClock
from pumice.kube import errors
from pumice.processes.recorded_runs import RecordedRuns
from pumice.record import answers
from pumice.runtime import silent
from pumice.scheduling.core import builtin
from pumice.scheduling.core.memory import object_name
from pumice.scheduling.time import accuracy, run_times

JOBS = [f"train-{number}" for number in range(6)]


async def put(client, name, data):
    """A ConfigMap of the scheduler's memory, which it may have written itself."""
    body = {"metadata": {"name": name, "namespace": "kube-system"}, "data": {"memory.json": data}}
    try:
        await client.create(ConfigMap, body, namespace="kube-system")
    except errors.AlreadyExists:
        await client.patch(ConfigMap, name, body, namespace="kube-system")


async def test_the_scheduler_learns_from_the_record_and_the_record_keeps_its_forecasts(tmp_path):
    async with cluster(tmp_path, f"sqlite:///{tmp_path}/record.db") as up:
        record = up.controllers.record
        for name in JOBS:
            await up.client.create(Job, a_job(name, pods=1), namespace="default")
        await until_completed(up, *JOBS)
        await record.flush()
        await record.exchange()
        runs = RecordedRuns(up.client, lambda: builtin.parse(builtin.TEXT, "p"), None, clock=RealClock(), log=silent)
        assert runs.current is None
        await runs.read("kube-system")
        past = runs.current.of(run_times.kind("default", "default", "train-77"))
        assert instant.SECOND <= past.length < instant.MINUTE
        assert runs.current.of(run_times.kind("default", "default", "another")) is None

        await up.client.create(Job, a_job("long", pods=1, run="1h"), namespace="default")
        await until_completed(up, "long", phase="Running")
        groups = (await up.client.list(PodGroup, namespace="default")).items
        [group] = [each for each in groups if each.metadata.name.startswith("long")]
        now = int(time.time())
        told = accuracy.Open(group.metadata.uid, now - 600, p90=now + 600, p50=now - 30)
        unknown = accuracy.Open("of-another-cluster", now - 600, p90=now + 600, p50=now - 30)
        score = accuracy.SCORE.encode(accuracy.Score(open=(told, unknown))).decode()
        await put(up.client, object_name("pumice-scheduler", accuracy.SCORE.name), score)
        for _ in range(2):  # the second time nothing is new
            await record.exchange()
            await record.flush()
        kept = answers.forecasts(record.store, "default", now - 3600)
        assert (kept.forecasts, kept.held) == (1, 1.0)
        code, out, _ = await pumice(up, "forecast")
        assert code == 0
        assert "The record of namespace default has 1 forecast of the last 30 days" in out


async def test_a_table_that_cannot_be_read_changes_nothing(tmp_path):
    async with cluster(tmp_path, f"sqlite:///{tmp_path}/record.db") as up:
        said = []
        runs = RecordedRuns(
            up.client, lambda: None, None, clock=RealClock(), log=lambda event, **more: said.append((event, more))
        )
        await put(up.client, "pumice-recorded-run-times", "{")
        for _ in range(2):
            await runs.read("kube-system")
        assert runs.current is None
        assert [event for event, _ in said] == ["recorded_run_times_not_read"]
