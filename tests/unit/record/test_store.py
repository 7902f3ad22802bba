"""The record in SQLite; tests/kube has the same in PostgreSQL."""

import sqlite3

import pytest
from tests.bodies import record

from pumice.errors import BadInput, NotFound
from pumice.record.store import Store, Unavailable


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/folder/record.db"


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


def test_a_record_of_the_first_version_is_brought_up_to_date(url, tmp_path):
    (tmp_path / "folder").mkdir()
    record.a_record_of_the_first_version_is_brought_up_to_date(url)


def test_a_record_of_a_newer_program_is_refused_and_left_alone(store, url, tmp_path):
    with sqlite3.connect(tmp_path / "folder/record.db") as direct:
        direct.execute("UPDATE schema_version SET version_num = '0999'")
    direct.close()
    for ask in (store.open, store.check):
        with pytest.raises(BadInput, match="0999"):
            ask()


def test_a_record_that_is_not_there_is_not_made_by_reading_it(url, tmp_path):
    with pytest.raises(NotFound, match=r"no such file; check the path \(sqlite:/// "):
        Store(url).check()
    assert not (tmp_path / "folder").exists()


def test_a_record_is_of_one_cluster(store):
    store.adopt("cluster-1", adopts=False)
    store.adopt("cluster-1", adopts=False)
    with pytest.raises(BadInput, match=r"of another cluster \(cluster-1, and this one is cluster-2\)"):
        store.adopt("cluster-2", adopts=False)
    store.adopt("cluster-2", adopts=True)
    store.adopt("cluster-2", adopts=False)


def test_a_batch_is_written_whole_or_not_at_all(store, tmp_path):
    with sqlite3.connect(tmp_path / "folder/record.db") as direct:
        direct.execute("DROP TABLE attempts")
    direct.close()
    with pytest.raises(Unavailable, match="no such table"):
        store.write([record.gang(), record.attempt()], now=record.T0)
    assert record.rows_of(store, "gangs") == []


@pytest.mark.timeout(300)
def test_a_killed_writer_loses_nothing_that_was_acknowledged_and_doubles_nothing(url):
    record.a_killed_writer_loses_nothing_that_was_acknowledged_and_doubles_nothing(url, deaths=4, seed=1)
