"""What must hold for a record in any database: SQLite in tests/unit, PostgreSQL in tests/kube."""

import logging
import multiprocessing
import os
import random
import signal

import msgspec
import sqlalchemy as sa

from pumice import instant
from pumice.record import answers, model, queries
from pumice.record.buffer import Buffer
from pumice.record.learned import RunTimesByKind
from pumice.record.rows import Attempt, Capacity, Eviction, Forecast, Gang, Gap, Run
from pumice.record.settings import RecordSettings
from pumice.record.store import SCHEMA, Store
from pumice.scheduling.time import run_times

log = logging.getLogger(__name__)

T0 = 1_793_491_200  # 2026-11-01T00:00:00Z
HOUR = 3_600
replace = msgspec.structs.replace


def gang(uid="g1", **more):
    fields = {
        "uid": uid, "kind": "Job", "namespace": "team", "name": f"train-{uid}", "user_name": "ann", "queue": "research", "team": "research",
        "shapes": "[]", "minimum": 1, "submitted": T0, "admitted": None, "started": None, "ended": None, "state": "Pending", "reason": "",
        "seen": 1,
    }  # fmt: skip
    return Gang(**{**fields, **more})


def run(uid="p1", of="g1", **more):
    fields = {
        "uid": uid, "gang": of, "attempt": 0, "pod": uid, "task": "w", "node": "n1", "resources": '{"cpu":4,"nvidia.com/gpu":2}',
        "bound": T0 + 10, "started": T0 + 20, "ended": None, "state": "Running", "exit_code": None, "restarts": 0, "checkpointed": None,
        "seen": 1,
    }  # fmt: skip
    return Run(**{**fields, **more})


def attempt(of="g1", number=0, **more):
    fields = {"gang": of, "number": number, "pods": 1, "started": T0 + 20, "ended": None, "state": "Running", "seen": 1}
    return Attempt(**{**fields, **more})


def ended(uid="g1", at=T0 + 100, state="Completed", **more):
    return gang(uid, started=T0 + 10, ended=at, state=state, **more)


def rows_of(store, table):
    with store.reading() as connection:
        return connection.execute(sa.text(f"SELECT * FROM {table}")).mappings().all()


def one_gang(store, uid="g1"):
    with store.reading() as connection:
        return queries.finished(connection, uid)


def listed(store, **wanted):
    with store.reading() as connection:
        return [each.uid for each in queries.history(connection, model.Filter(**wanted))]


def what_is_written_twice_is_there_once(store):
    batch = [ended(seen=5), attempt(ended=T0 + 100, state="Completed"), run(ended=T0 + 100, state="Succeeded"),
             Capacity(T0, "cpu", 8.0), Forecast("g1", T0, T0 + 5, T0 + 9)]  # fmt: skip
    for _ in range(3):
        assert store.write(batch, now=T0 + 200, gap=Gap(T0, T0 + 9, 7)) == []
        store.sum_up(T0 + 200)
    for table in ("gangs", "attempts", "runs", "capacity", "forecasts", "gaps"):
        assert len(rows_of(store, table)) == 1, table
    assert {row["resource"]: row["held_s"] for row in rows_of(store, "usage")} == {
        "cpu": 4 * 90,
        "nvidia.com/gpu": 2 * 90,
    }


def an_older_state_never_replaces_a_newer_one(store):
    store.write([ended(seen=9)], now=T0 + 200)
    store.write([gang(seen=3), run(seen=8, ended=T0 + 100, state="Succeeded"), run(seen=7)], now=T0 + 201)
    assert one_gang(store).state == "Completed"
    assert rows_of(store, "runs")[0]["ended"] == T0 + 100


def an_end_stays_where_it_was_first_seen(store):
    """A new leader that finds a gang ended may only know that it has by now."""
    store.write([ended(at=T0 + 100, seen=2)], now=T0 + 200)
    store.write([ended(at=T0 + 900, seen=3)], now=T0 + 900)
    assert one_gang(store).ended == T0 + 100
    store.write([ended(at=T0 + 950, state="Failed", seen=4)], now=T0 + 950)
    assert one_gang(store).ended == T0 + 950, "that is another end"


def a_gang_that_is_resumed_goes_on(store):
    store.write([ended(state="Aborted", seen=2)], now=T0 + 200)
    store.write([gang(seen=3, started=T0 + 300, state="Running")], now=T0 + 300)
    assert one_gang(store) is None
    store.write([gang(seen=4, started=T0 + 300, ended=T0 + 400, state="Completed")], now=T0 + 400)
    found = one_gang(store)
    assert (found.started, found.ended, found.state) == (T0 + 10, T0 + 400, "Completed"), "the first start counts"


def sums_follow_from_the_rows(store):
    first = [
        run("p1", attempt=0, ended=T0 + 120, state="Evicted", checkpointed=T0 + 90, seen=2),
        run("p2", attempt=0, ended=T0 + 130, state="Deleted", seen=2),
        attempt(number=0, pods=2, ended=T0 + 130, state="Evicted"),
        Eviction("p1", "g1", 0, "p1", T0 + 120, "preempt", "other/big", "tier 1", 30, 2),
    ]
    second = [
        run("p3", attempt=2, bound=T0 + 200, started=T0 + 200, ended=T0 + 300, state="Succeeded"),
        attempt(number=2, ended=T0 + 300, state="Completed"),
        ended(at=T0 + 300, seen=9),
    ]
    store.write(first, now=T0 + 150)
    store.write(second, now=T0 + 300)
    found = one_gang(store)
    assert (found.attempts, found.evictions) == (2, 1)
    assert found.lost_s == 30 + 110, "since the checkpoint of the victim, and the whole run of its fellow"
    assert found.gpu_hours * HOUR == 2 * (110 + 120 + 100)
    assert found.lost_gpu_hours * HOUR == 2 * 140
    detail = answers.gang(store, "team", "train-g1", {}, sees_all=True)
    assert [(each["attempt"], each["state"]) for each in detail.attempts] == [(1, "Evicted"), (2, "Completed")]
    assert [each["claimant"] for each in detail.evictions] == ["other/big"]
    hidden = answers.gang(store, "team", "train-g1", {}, sees_all=False).evictions[0]
    assert (hidden["claimant"], hidden["why"], hidden["rule"]) == ("", "", "preempt")


def hours_are_what_was_held_in_them(store):
    store.write([gang(), run(bound=T0 + HOUR - 100, started=T0 + HOUR - 90)], now=T0 + HOUR + 50)
    store.sum_up(T0 + HOUR + 50)
    assert _gpu_hours(store) == {0: 2 * 100, 1: 2 * 50}
    late = run(bound=T0 + HOUR - 100, started=T0 + HOUR - 90, ended=T0 + 3 * HOUR + 10, state="Evicted", seen=2)
    store.write([late, attempt(ended=T0 + 3 * HOUR + 10, state="Evicted")], now=T0 + 5 * HOUR)
    while store.sum_up(T0 + 5 * HOUR):
        pass
    assert _gpu_hours(store) == {0: 2 * 100, 1: 2 * HOUR, 2: 2 * HOUR, 3: 2 * 10}
    lost = {
        (row["hour"] - T0) // HOUR: row["lost_s"]
        for row in rows_of(store, "usage")
        if row["resource"] == "cpu" and row["lost_s"]
    }
    assert lost == {3: 4 * (2 * HOUR + 100)}, "in the hour in which it was lost"
    with store.reading() as connection:
        found = queries.report(connection, model.Period("team", T0, T0 + 24 * HOUR), T0 + 6 * HOUR)
        hours = queries.report(connection, model.Period("team", T0, T0 + 24 * HOUR, step=HOUR), T0 + 6 * HOUR)
    gpus = next(row for row in found.rows if row.resource == "nvidia.com/gpu")
    assert (gpus.name, gpus.used_hours * HOUR) == ("research", 2 * (100 + 2 * HOUR + 10))
    assert found.days == [(T0, "research", gpus.used_hours)]
    assert [(at, round(held * HOUR)) for at, _, held in hours.days] == [
        (T0, 200), (T0 + HOUR, 2 * HOUR), (T0 + 2 * HOUR, 2 * HOUR), (T0 + 3 * HOUR, 20),
    ]  # fmt: skip


def _gpu_hours(store):
    return {
        (row["hour"] - T0) // HOUR: row["held_s"]
        for row in rows_of(store, "usage")
        if row["resource"] == "nvidia.com/gpu"
    }


def what_ended_while_nobody_looked_is_ended(store):
    store.write([gang("g1"), gang("g2"), run("p1", "g1"), run("p2", "g2"), attempt("g1"), attempt("g2")], now=T0 + 60)
    assert store.close_missing({"g2"}, {"p2"}, now=T0 + 900) == 2
    found = one_gang(store, "g1")
    assert (found.state, found.ended) == ("Gone", T0 + 60), "when the record was last kept up to date"
    assert {row["uid"]: row["ended"] for row in rows_of(store, "runs")} == {"p1": T0 + 60, "p2": None}
    assert one_gang(store, "g2") is None
    assert store.close_missing({"g2"}, {"p2"}, now=T0 + 950) == 0


def an_attempt_whose_pods_went_while_nobody_looked_is_over(store):
    """A gang that was restarted meanwhile: it goes on, and its first attempt does not."""
    store.write([gang("g1"), run("p1"), attempt(number=0), attempt(number=1), run("p2", attempt=1)], now=T0 + 60)
    assert store.close_missing({"g1"}, {"p2"}, now=T0 + 900) == 1
    found = {row["number"]: (row["ended"], row["state"]) for row in rows_of(store, "attempts")}
    assert found == {0: (T0 + 60, "Gone"), 1: (None, "Running")}


def filters_and_pages_find_what_they_should(store):
    made = []
    for number in range(40):
        state = "Failed" if number % 3 == 0 else "Completed"
        more = {"user_name": f"user-{number % 4}", "queue": f"q{number % 2}", "namespace": f"ns{number % 5}"}
        made.append(ended(f"g{number:02}", at=T0 + number, state=state, seen=1, **more))
    store.write([*made, gang("waiting")], now=T0 + 100)
    newest = [f"g{number:02}" for number in range(39, -1, -1)]
    assert listed(store, limit=100) == newest
    assert listed(store, limit=3) == newest[:3]
    assert listed(store, limit=3, before=(T0 + 37, "g37")) == newest[3:6]
    for wanted in (
        {"user": "user-1"},
        {"queue": "q1"},
        {"namespace": "ns2"},
        {"state": "Failed"},
        {"user": "user-3", "state": "Failed"},
    ):
        names = {"user": "user_name"}
        expected = [
            each.uid for each in reversed(made) if all(getattr(each, names.get(k, k)) == v for k, v in wanted.items())
        ]
        assert listed(store, **wanted) == expected, wanted
    assert listed(store, since=T0 + 10, until=T0 + 12) == ["g11", "g10"]
    assert listed(store, name="train-g07") == ["g07"]


def only_what_is_old_is_trimmed(store):
    day = 86_400
    now = T0 + 500 * day
    old, middle, young = T0 + day, now - 40 * day, now - day
    for uid, at in (("old", old), ("middle", middle), ("young", young)):
        rows = [ended(uid, at=at), run(uid, uid, bound=at - 10, ended=at, state="Succeeded"), attempt(uid, ended=at)]
        store.write(rows, now=at)
        store.sum_up(at)
    store.write([gang("running"), run("running", "running")], now=now)
    store.write([Capacity(T0, "cpu", 1.0), Capacity(T0 + day, "cpu", 2.0), Capacity(now, "cpu", 3.0)], now=now)
    while store.trim(RecordSettings("sqlite:///x"), now):
        pass
    assert {row["uid"] for row in rows_of(store, "gangs")} == {"middle", "young", "running"}
    assert {row["uid"] for row in rows_of(store, "runs")} == {"young", "running"}
    assert {row["gang"] for row in rows_of(store, "attempts")} == {"middle", "young"}
    assert sorted(row["amount"] for row in rows_of(store, "capacity")) == [2.0, 3.0], "the step that still held stays"
    assert one_gang(store, "middle").gpu_hours > 0, "its sums stay without its pods"


def run_times_are_those_of_the_same_work(store):
    made = [
        ended(f"a{number}", at=T0 + 10 + number, name=f"train-{number}", seen=1, submitted=T0) for number in range(5)
    ]
    others = [
        ended("b", at=T0 + 10, name="eval-1"),
        ended("c", at=T0 + 10, name="train-9", user_name="bob"),
        ended("d", name="train-8", state="Failed"),
    ]
    attempts = [attempt(each.uid, ended=each.ended) for each in (*made, *others)]
    store.write([*made, *others, *attempts], now=T0 + 50)
    found = store.completed(since=0, limit=100)
    assert [each.uid for each in found if each.user == "ann" and each.name != "eval-1"] == [
        "a0",
        "a1",
        "a2",
        "a3",
        "a4",
    ]
    assert [each.uid for each in store.completed(since=T0 + 12, limit=2)] == [each.uid for each in found][-2:]
    by_kind = RunTimesByKind()
    by_kind.fold(found)
    by_kind.fold(store.completed(since=by_kind.until, limit=100))  # what was folded does not count again
    taught = run_times.SLOT.decode(by_kind.encoded())
    assert taught.kinds[run_times.kind("ann", "research", "train-77")].lengths == (0, 1, 2, 3, 4)
    assert taught.of(run_times.kind("ann", "research", "train-77")).length == 3 * instant.SECOND
    assert taught.of(run_times.kind("bob", "research", "train-77")) is None


def forecasts_are_held_against_what_came(store):
    store.write([ended(), Forecast("g1", T0, p50=T0 + 8, p90=T0 + 30)], now=T0 + 200)
    with store.reading() as connection:
        assert queries.forecast_errors(connection, since=T0, namespace="") == [(2, -20, 10)]
        assert queries.forecast_errors(connection, since=T0, namespace="nobody's") == []
    found = answers.forecasts(store, "", T0)
    assert (found.forecasts, found.held, found.off_s) == (1, 1.0, 2)


ALL = (
    what_is_written_twice_is_there_once,
    an_older_state_never_replaces_a_newer_one,
    an_end_stays_where_it_was_first_seen,
    a_gang_that_is_resumed_goes_on,
    sums_follow_from_the_rows,
    hours_are_what_was_held_in_them,
    what_ended_while_nobody_looked_is_ended,
    an_attempt_whose_pods_went_while_nobody_looked_is_over,
    filters_and_pages_find_what_they_should,
    only_what_is_old_is_trimmed,
    run_times_are_those_of_the_same_work,
    forecasts_are_held_against_what_came,
)


# ------------------------------------------------------------------------------------------------------- upgrades


def a_record_of_the_first_version_is_brought_up_to_date(url):
    """Made by the migration of version 1, filled as that program would, then opened by this one."""
    from alembic import command
    from alembic.config import Config

    store = Store(url)
    config = Config()
    config.set_main_option("script_location", "src/pumice/record/migrations")
    with store.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    old = store._insert  # no table `logs` yet
    with store.begin() as connection:
        assert not sa.inspect(connection).has_table("logs")
        connection.execute(
            old(sa.table("facts", sa.column("name"), sa.column("value"))).values(name="cluster", value="c1")
        )
    store.write([ended(seen=3), run(ended=T0 + 100, state="Succeeded")], now=T0 + 100)
    store.open()
    store.check()
    with store.begin() as connection:
        assert sa.inspect(connection).has_table("logs")
        assert connection.scalar(sa.text("SELECT version_num FROM schema_version")) == SCHEMA
    assert one_gang(store).gpu_hours * HOUR == 2 * 90
    store.open()
    store.close()


def tables_are_what_the_program_believes(store):
    """The migrations and `schema` say the same."""
    from pumice.record.schema import METADATA

    with store.begin() as connection:
        looked = sa.inspect(connection)
        for table in METADATA.tables.values():
            columns = {each["name"]: each["nullable"] for each in looked.get_columns(table.name)}
            assert columns == {each.name: bool(each.nullable) for each in table.columns}, table.name
            indexes = {each["name"]: tuple(each["column_names"]) for each in looked.get_indexes(table.name)}
            assert indexes == {each.name: tuple(c.name for c in each.columns) for each in table.indexes}, table.name
            keys = set(looked.get_pk_constraint(table.name)["constrained_columns"])
            assert keys == {each.name for each in table.primary_key}, table.name


# ------------------------------------------------------------------------------------------------------- kill -9


def _write_for_ever(url, first, acknowledged):
    """A process that writes gangs through a buffer, two states of each, and says what was acknowledged."""
    store, buffer, number = Store(url), Buffer(), first
    while True:
        for each in range(number, number + 7):
            uid = f"k{each:06}"
            buffer.put([gang(uid, seen=1), run(f"p{each:06}", uid), attempt(uid)], 0.0)
        batch = buffer.take()
        store.write(batch, now=T0 + 50)
        buffer.written(None)
        last = [replace(row, seen=2, ended=T0 + 100, state="Completed") for row in batch]
        store.write(last, now=T0 + 100)
        number += 7
        acknowledged.send(number)


def a_killed_writer_loses_nothing_that_was_acknowledged_and_doubles_nothing(url, *, deaths, seed):
    log.info("seed %d", seed)
    chance, processes = random.Random(seed), multiprocessing.get_context("spawn")
    store = Store(url)
    store.open()
    store.close()
    known = 0
    for _ in range(deaths):
        ours, theirs = processes.Pipe(duplex=False)
        # It begins a little before what was acknowledged: at least once means that some comes again.
        child = processes.Process(target=_write_for_ever, args=(url, max(known - 21, 0), theirs))
        child.start()
        theirs.close()
        for _ in range(chance.randint(1, 12)):
            known = max(known, ours.recv())
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        try:
            while True:
                known = max(known, ours.recv())
        except EOFError:
            ours.close()
    gangs = {row["uid"]: row for row in rows_of(store, "gangs")}
    for number in range(known):
        row = gangs[f"k{number:06}"]
        assert (row["state"], row["gpu_s"], row["attempts"]) == ("Completed", 2 * 90.0, 1), row
    assert len(rows_of(store, "runs")) == len(gangs) == len(rows_of(store, "attempts"))
    store.close()
