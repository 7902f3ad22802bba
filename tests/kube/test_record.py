"""The record in a real PostgreSQL, and kill -9 of the controllers that keep it, on the real API server."""

import asyncio
import itertools
import random
import sys

import pytest
from tests.bodies import job_deaths, jobs, killings, postgres, record
from tests.bodies.recorded import a_job, cluster, until_completed
from tests.kube.test_job_crashes import PATIENCE_S, die_again_and_again

from pumice.api.batch import Job
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport
from pumice.record.store import Store, Unavailable

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server():
    with postgres.running() as made:
        yield made


@pytest.fixture
def url(server):
    return server.database(f"record{next(_numbers)}")


@pytest.fixture
def store(url):
    made = Store(url)
    made.open()
    yield made
    made.close()


@pytest.mark.parametrize("body", record.ALL, ids=lambda body: body.__name__)
def test_what_must_hold_in_any_database(store, body):
    body(store)


def test_migrations_make_the_schema(store):
    record.tables_are_what_the_program_believes(store)


def test_a_record_of_the_first_version_is_brought_up_to_date(url):
    record.a_record_of_the_first_version_is_brought_up_to_date(url)


def test_a_row_that_the_database_refuses_is_left_out_and_the_others_are_written(store):
    refused = store.write(
        [record.gang("g1"), record.gang("g2", reason="a NUL \0 is no text"), record.gang("g3")], now=record.T0
    )
    assert [row.uid for row in refused] == ["g2"]
    assert {row["uid"] for row in record.rows_of(store, "gangs")} == {"g1", "g3"}


@pytest.mark.timeout(300)
def test_a_killed_writer_loses_nothing_that_was_acknowledged_and_doubles_nothing(url):
    record.a_killed_writer_loses_nothing_that_was_acknowledged_and_doubles_nothing(url, deaths=4, seed=2)


@pytest.mark.timeout(300)
async def test_a_server_that_goes_away_and_comes_back_costs_no_gang(server, url, tmp_path):
    async with cluster(tmp_path, url) as up:
        await up.client.create(Job, a_job("before"), namespace="default")
        await until_completed(up, "before")
        writer = up.controllers.record
        await writer.flush()
        await asyncio.to_thread(server.stop)
        with pytest.raises(Unavailable):
            writer.store.write([record.gang()], now=record.T0)
        names = [f"while{number}" for number in range(4)]
        for name in names:
            await up.client.create(Job, a_job(name), namespace="default")
        await until_completed(up, *names)
        await asyncio.to_thread(server.start)
        await writer.flush()
        assert {row["name"]: row["state"] for row in record.rows_of(writer.store, "gangs")} == dict.fromkeys(
            ["before", *names], "Completed"
        )


# ------------------------------------------------------------------------------------------------------- kill -9


async def suffer(plane, url, tmp_path, *, count, deaths, seed):
    """Jobs of all kinds while their controllers die; then the record has each of them once, as it ended."""
    namespace = f"record-{seed}-{next(_numbers)}"
    await asyncio.to_thread(plane.create_namespace, namespace)
    connection = config.find(str(plane.kubeconfig), clock=RealClock())
    over = asyncio.Event()
    with (tmp_path / "controllers.log").open("wb") as log:
        async with (
            HttpTransport(connection, user_agent="pumice") as transport,
            HttpTransport(connection, user_agent="pumice-test") as other,
            jobs.job_world(transport, other, namespace, nodes=2, gpus=64, controls=False) as world,
            asyncio.TaskGroup() as crowd,
        ):
            world.patience_s = PATIENCE_S
            extra, ready = ["--record", url], b"record_opened"
            killing = die_again_and_again(
                plane, log, deaths=deaths, chance=random.Random(seed), over=over, extra=extra, ready=ready
            )
            dying = crowd.create_task(killing)
            await job_deaths.nothing_is_lost_or_made_twice(world, count=count, seed=seed)
            over.set()
            await dying
            uids = {each["metadata"]["uid"]: each for each in await world.all(Job)}
    # What the controllers said is shown where the record is not what it should be.
    sys.stdout.write((tmp_path / "controllers.log").read_text(errors="replace"))
    store = Store(url)
    found = [row for row in record.rows_of(store, "gangs") if row["namespace"] == namespace]
    assert len(found) == len(uids) == count
    assert {row["uid"] for row in found} == set(uids)
    for row in found:
        assert row["state"] == "Completed", row
        assert row["started"] is not None, row
        runs = [each for each in record.rows_of(store, "runs") if each["gang"] == row["uid"]]
        assert len(runs) >= job_deaths.SIZE, row
        assert [each for each in runs if each["ended"] is None] == []
        assert row["gpu_s"] == sum(each["ended"] - each["bound"] for each in runs), row
    store.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_every_gang_is_in_the_record_once_whenever_its_controllers_died(empty_plane, server, tmp_path, database):
    url = f"sqlite:///{tmp_path}/record.db" if database == "sqlite" else server.database(f"deaths{next(_numbers)}")
    await suffer(empty_plane, url, tmp_path, count=8, deaths=4, seed=3)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_two_hundred_gangs_and_a_hundred_deaths(empty_plane, server, tmp_path, database):
    url = f"sqlite:///{tmp_path}/record.db" if database == "sqlite" else server.database(f"deaths{next(_numbers)}")
    await suffer(empty_plane, url, tmp_path, count=200, deaths=100, seed=101)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("number", "deaths", "run_s"), [(12, 1, 2), pytest.param(200, 10, 10, marks=pytest.mark.soak)], ids=["few", "many"]
)
async def test_scheduler_and_controllers_are_killed_again_and_again(url, tmp_path, number, deaths, run_s):
    seed = random.randint(0, 10**6)
    await killings.jobs_survive(tmp_path, url, jobs=number, deaths=deaths, run_s=run_s, seed=seed)
