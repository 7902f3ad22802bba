"""The record of a whole embedded cluster: kept while its database is there, and caught up with when it was not."""

import asyncio
import contextlib
import random
import subprocess
import sys

import pytest
from tests.bodies import record
from tests.bodies.patience import PATIENCE_S
from tests.bodies.record import listed, one_gang, rows_of
from tests.bodies.recorded import a_job, cluster, until_completed

from pumice import instant
from pumice.api.batch import Job
from pumice.api.native import NativePodGroup
from pumice.api.pods import Pod
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.registry import ALPHA
from pumice.local.apiserver.server import Settings
from pumice.local.apiserver.serving import EmbeddedServer, Place
from pumice.local.up import install_kinds
from pumice.record import answers, model
from pumice.record.log_keeper import LogKeeper
from pumice.record.observer import NATIVE_GROUP, Observer
from pumice.record.settings import RecordSettings
from pumice.record.store import Store
from pumice.record.writer import Writer
from pumice.runtime import Runtime, silent
from pumice.telemetry.meters import Meters


async def test_what_a_job_was_and_cost_is_there_when_it_has_ended(tmp_path):
    url = f"sqlite:///{tmp_path}/record.db"
    async with cluster(tmp_path / "data", url) as up:
        await up.client.create(Job, a_job("train-1", pods=2, gpus=2), namespace="default")
        await until_completed(up, "train-1")
        await up.controllers.record.flush()
    store = Store(url)
    [row] = rows_of(store, "gangs")
    gang = one_gang(store, row["uid"])
    assert (gang.namespace, gang.name, gang.queue, gang.state, gang.attempts) == (
        "default",
        "train-1",
        "default",
        "Completed",
        1,
    )
    held = sum(each["ended"] - each["bound"] for each in rows_of(store, "runs"))
    assert gang.gpu_hours * 3600 == 2 * held
    assert gang.submitted <= gang.admitted <= gang.started <= gang.ended
    store.sum_up(gang.ended + 60)  # as the writer does once a minute
    usage = answers.report(
        store, model.Period("user", gang.submitted // 3600 * 3600, gang.ended + 3600), {}, gang.ended
    )
    assert {each.resource for each in usage.report.rows} >= {"cpu", "nvidia.com/gpu"}
    store.close()


@contextlib.asynccontextmanager
async def writing(folder, url, log=silent):
    """A server without controllers, and what keeps the record of it: client, informers, writer. It goes on until cancelled, or this ends."""
    runtime = Runtime(clock=RealClock(), chance=random.Random(1), log=log)
    async with EmbeddedServer(Place(folder), Settings(alpha=ALPHA)) as embedded:
        client = Client(LocalTransport(embedded.server), clock=runtime.clock, chance=runtime.chance)
        await install_kinds(client)
        informers = Informers(client, clock=runtime.clock, chance=runtime.chance, log=silent)
        writer = Writer(client, informers, RecordSettings(url, keeps_logs=False), runtime, Meters())
        works = [asyncio.create_task(each) for each in (informers.run(), writer.run())]
        try:
            yield client, informers, writer, works[1]
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            writer.close()


async def test_groups_of_kubernetes_own_are_recorded_and_billed_like_others(tmp_path):
    url = f"sqlite:///{tmp_path}/record.db"
    async with writing(tmp_path / "server", url) as (client, informers, writer, _):
        ended = asyncio.Event()
        informers.of(Pod).subscribe(
            lambda news: ended.set() if any(each.object.status.phase == "Succeeded" for each in news) else None
        )
        group = {"metadata": {"name": "own"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
        await client.create(NativePodGroup, group, namespace="default")
        resources = {"limits": {"nvidia.com/gpu": 2}}
        spec = {"schedulingGroup": {"podGroupName": "own"}, "schedulerName": "volcano", "nodeName": "n1",
                "containers": [{"name": "c", "image": "i", "resources": resources}]}  # fmt: skip
        await client.create(Pod, {"metadata": {"name": "own-0"}, "spec": spec}, namespace="default")
        finished_at = instant.format_instant(RealClock().now() + instant.HOUR)
        state = {"terminated": {"exitCode": 0, "finishedAt": finished_at}}
        done = {"phase": "Succeeded", "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "state": state}]}
        await client.patch(Pod, "own-0", {"status": done}, namespace="default", subresource="status")
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()
            await writer.flush()
    store = Store(url)
    [row] = rows_of(store, "gangs")
    gang = one_gang(store, row["uid"])
    assert (gang.name, gang.kind, gang.state, gang.queue) == ("own", NATIVE_GROUP, "Completed", "default")
    assert gang.gpu_hours == pytest.approx(2, rel=0.01)
    store.close()


def a_record_that_was_kept_until(url, at):
    store = Store(url)
    store.open()
    store.write([record.gang("gone"), record.run("gone-0", "gone"), record.attempt("gone")], now=at)
    return store


async def test_what_is_gone_is_charged_until_the_record_was_last_kept_and_not_until_somebody_looks(tmp_path):
    """The Job that is there is written in the same breath, and from then on the record is up to date."""
    url = f"sqlite:///{tmp_path}/record.db"
    store = a_record_that_was_kept_until(url, record.T0 + 60)
    async with writing(tmp_path / "server", url) as (client, informers, writer, _):
        await client.create(Job, a_job("next"), namespace="default")
        await informers.synced()
        await writer.flush()
    assert [row["ended"] for row in rows_of(store, "runs")] == [record.T0 + 60]
    assert {row["name"]: row["ended"] for row in rows_of(store, "gangs")} == {
        "train-gone": record.T0 + 60,
        "next": None,
    }
    store.close()


async def test_a_process_that_is_told_to_end_as_soon_as_it_has_the_record_has_ended_what_is_gone(tmp_path):
    url = f"sqlite:///{tmp_path}/record.db"
    store = a_record_that_was_kept_until(url, record.T0 + 60)
    opened = asyncio.Event()

    def log(event, **_):
        if event == "record_opened":
            opened.set()

    async with writing(tmp_path / "server", url, log) as (_, _, _, work):
        async with asyncio.timeout(PATIENCE_S):
            await opened.wait()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        assert [row["ended"] for row in rows_of(store, "runs")] == [record.T0 + 60]
    store.close()


@contextlib.asynccontextmanager
async def writing_again(folder, url, log=silent, *, keeps_logs=False):
    """Of a Job that is there, and in the record: the next writer and its informers, before it begins."""
    async with writing(folder, url) as (client, informers, writer, work):
        await client.create(Job, a_job("train"), namespace="default")
        await informers.synced()
        await writer.flush()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        runtime = Runtime(clock=RealClock(), chance=random.Random(1), log=log)
        again = Writer(client, informers, RecordSettings(url, keeps_logs=keeps_logs), runtime, Meters())
        yield informers, again
        again.close()


async def run_until(happened, writer):
    keeping = asyncio.create_task(writer.run())
    async with asyncio.timeout(PATIENCE_S):
        await happened.wait()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


def ends_of_gangs(url):
    store = Store(url)
    found = [row["ended"] for row in rows_of(store, "gangs")]
    store.close()
    return found


def failure():
    """What is set when the record has failed, and the log that hears of it."""
    failed = asyncio.Event()

    def log(event, **_):
        if event == "record_failed":
            failed.set()

    return failed, log


def fail(*_):
    raise KeyError("a fault of ours")


async def test_what_runs_is_not_ended_by_a_fault_over_the_first_news(tmp_path, monkeypatch):
    """Who has not made it through all there is cannot say what is gone."""
    url = f"sqlite:///{tmp_path}/record.db"
    failed, log = failure()
    async with writing_again(tmp_path / "server", url, log) as (_, again):
        monkeypatch.setattr(Observer, "_see_job", fail)
        await run_until(failed, again)
    assert ends_of_gangs(url) == [None]


async def test_a_fault_over_last_lines_is_told_and_keeping_begins_anew(tmp_path, monkeypatch):
    failed, log = failure()
    async with writing_again(tmp_path / "server", f"sqlite:///{tmp_path}/record.db", log, keeps_logs=True) as (
        _,
        again,
    ):
        monkeypatch.setattr(LogKeeper, "_fetch_calmly", fail)
        await run_until(failed, again)


async def test_what_runs_is_not_ended_by_a_process_that_is_told_to_end_before_it_has_heard_of_it(tmp_path, monkeypatch):
    url, waits = f"sqlite:///{tmp_path}/record.db", asyncio.Event()

    async def never_synced():
        waits.set()
        await asyncio.Event().wait()

    async with writing_again(tmp_path / "server", url) as (informers, again):
        monkeypatch.setattr(informers, "synced", never_synced)
        monkeypatch.setattr(informers.of(Job), "subscribe", lambda _: lambda: None)
        await run_until(waits, again)
    assert ends_of_gangs(url) == [None]


async def test_a_second_start_continues_the_record_and_ends_what_is_gone(tmp_path):
    url = f"sqlite:///{tmp_path}/record.db"
    async with cluster(tmp_path / "one", url) as up:
        await up.client.create(Job, a_job("endless", run="1h"), namespace="default")
        await until_completed(up, "endless", phase="Running")
        await up.controllers.record.flush()
    async with cluster(tmp_path / "two", url, adopts=True) as up:
        await up.client.create(Job, a_job("next"), namespace="default")
        await until_completed(up, "next")
        await up.controllers.record.flush()
    store = Store(url)
    assert {row["name"]: row["state"] for row in rows_of(store, "gangs")} == {"endless": "Gone", "next": "Completed"}
    store.close()


async def test_a_record_of_another_cluster_is_left_alone_and_jobs_run(tmp_path):
    url = f"sqlite:///{tmp_path}/record.db"
    store = Store(url)
    store.open()
    store.adopt("another", adopts=False)
    async with cluster(tmp_path / "data", url) as up:
        await up.client.create(Job, a_job("train"), namespace="default")
        await until_completed(up, "train")
        assert up.controllers.record.store is None
    assert rows_of(store, "gangs") == []
    store.close()


@pytest.mark.timeout(300)
async def test_a_database_that_is_away_delays_nobody_and_what_was_given_up_is_a_gap(tmp_path):
    (tmp_path / "folder").write_text("a file where the record's folder should be")
    url = f"sqlite:///{tmp_path}/folder/record.db"
    names = [f"j{number}" for number in range(8)]
    async with cluster(tmp_path / "data", url, buffer_rows=24) as up:
        for name in names:
            await up.client.create(Job, a_job(name), namespace="default")
        await until_completed(up, *names)
        writer = up.controllers.record
        assert writer.store is None
        assert len(writer._buffer) <= 24
        (tmp_path / "folder").unlink()
        await writer.flush()
        text = up.controllers.meters.text().decode()
    store = Store(url)
    assert {row["name"] for row in rows_of(store, "gangs")} == set(names), "gangs are given up last"
    assert sorted(listed(store)) == sorted(row["uid"] for row in rows_of(store, "gangs"))
    [gap] = rows_of(store, "gaps")
    assert gap["rows"] > 0
    assert f"pumice_record_dropped_total {float(gap['rows'])}" in text
    store.close()


@pytest.mark.parametrize(
    "command",
    [("--help",), ("job", "list", "--help"), ("history", "--help"), ("controllers", "--help"), ("up", "--help")],
)
async def test_commands_that_need_no_database_import_none(command):
    code = (
        "import sys\nfrom pumice.cli import main\n"
        f"main.run({list(command)!r})\n"
        "sys.exit(sorted(each for each in sys.modules if each.partition('.')[0] in {'sqlalchemy', 'alembic', 'psycopg'})[:3])"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert (process.returncode, errors.decode().strip()) == (1, "[]")


async def test_controllers_without_a_record_import_none():
    code = (
        "import sys\nimport pumice.processes.controllers, pumice.local.up\n"
        "sys.exit(sorted(each for each in sys.modules if each.partition('.')[0] in {'sqlalchemy', 'alembic'})[:3])"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stderr=subprocess.PIPE)
    _, errors = await process.communicate()
    assert (process.returncode, errors.decode().strip()) == (1, "[]")
