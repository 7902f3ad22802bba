"""The store as a state machine: whatever is written, watches miss nothing, order holds, and the log brings it all back."""

import asyncio
import random
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from tests.bodies.patience import PATIENCE_S
from tests.unit.local.apiserver.words import MAPS, Api, a_map

from pumice.local.apiserver import history
from pumice.local.apiserver.journal import JournalError, SqliteJournal
from pumice.local.apiserver.server import Server, Settings
from pumice.local.apiserver.store import Stale, Store, decode

COLLECTIONS = ("pods", "nodes")
NAMES = st.sampled_from(["a", "b", "c"])
NAMESPACES = st.sampled_from(["x", "y"])


def an_object(namespace, name, uid, payload):
    return {"metadata": {"name": name, "namespace": namespace, "uid": uid}, "payload": payload}


class Follower:
    """A watcher that keeps its own picture of one collection and checks every step it sees."""

    def __init__(self, store, collection):
        self.store = store
        self.history = store.collection(collection).history
        self.picture = {(e.namespace, e.name): decode(e.body) for e in store.collection(collection).entries()}
        self.version = store.version
        self.position = self.history.position_after(self.version)

    def catch_up(self):
        changes = self.history.read(self.position, up_to=self.store.settled)
        assert changes is not None, "the window is large enough in this test"
        self.position += len(changes)
        for change in changes:
            assert change.version > self.version, "versions rise"
            self.version = change.version
            key = (change.before or change.after).namespace, (change.before or change.after).name
            before = self.picture.get(key)
            assert (before is None) == (change.before is None), "no step was left out"
            if before is not None:
                assert decode(change.before.body) == before, "each step starts where the last one ended"
            if change.after is None:
                del self.picture[key]
            else:
                self.picture[key] = decode(change.after.body)


class StoreMachine(RuleBasedStateMachine):
    entries = Bundle("entries")

    @initialize(durable=st.booleans())
    def begin(self, durable):
        self.folder = tempfile.TemporaryDirectory()
        self.journal = SqliteJournal(Path(self.folder.name) / "log.db") if durable else None
        self.store = self.journal.open_store() if self.journal else Store()
        self.model = {}
        self.followers = []
        self.count = 0

    @rule(
        target=entries, collection=st.sampled_from(COLLECTIONS), namespace=NAMESPACES, name=NAMES, payload=st.integers()
    )
    def create(self, collection, namespace, name, payload):
        self.count += 1
        obj = an_object(namespace, name, f"uid-{self.count}", payload)
        if (collection, namespace, name) in self.model:
            with pytest.raises(Stale):
                self.store.put(collection, obj, expected=None)
            return multiple()
        entry = self.store.put(collection, obj, expected=None)
        self.model[collection, namespace, name] = entry
        return collection, entry

    @rule(target=entries, known=entries, payload=st.integers())
    def update(self, known, payload):
        """Whoever read an older entry must lose, and lose without a trace."""
        collection, entry = known
        key = (collection, entry.namespace, entry.name)
        obj = an_object(entry.namespace, entry.name, entry.uid, payload)
        version = self.store.version
        if self.model.get(key) is not entry:
            with pytest.raises(Stale):
                self.store.put(collection, obj, expected=entry)
            assert self.store.version == version
            return multiple()
        updated = self.store.put(collection, obj, expected=entry)
        assert updated.version > entry.version
        self.model[key] = updated
        return collection, updated

    @rule(known=entries)
    def remove(self, known):
        collection, entry = known
        key = (collection, entry.namespace, entry.name)
        if self.model.get(key) is not entry:
            with pytest.raises(Stale):
                self.store.remove(collection, decode(entry.body), expected=entry)
        else:
            self.store.remove(collection, decode(entry.body), expected=entry)
            del self.model[key]

    @rule(collection=st.sampled_from(COLLECTIONS))
    def follow(self, collection):
        if self.store.settled == self.store.version:
            self.followers.append((collection, Follower(self.store, collection)))

    @rule()
    def settle(self):
        """The journal's thread gets its turn."""
        if self.journal:
            self.journal._drain()
            self.store.settle(self.store.version)
        for _, follower in self.followers:
            follower.catch_up()

    @rule()
    def restart(self):
        """What was settled is there again, exactly, and versions go on rising."""
        if not self.journal:
            return
        self.settle()
        self.journal.close()
        before, version = dict(self.model), self.store.version
        self.journal = SqliteJournal(Path(self.folder.name) / "log.db")
        self.store = self.journal.open_store()
        loaded = {(c.name, e.namespace, e.name): e for c in self.store.collections() for e in c.entries()}
        assert {key: entry.body for key, entry in loaded.items()} == {key: entry.body for key, entry in before.items()}
        assert self.store.version > version or not before
        self.model, self.followers = loaded, []

    @invariant()
    def memory_is_the_model(self):
        if not hasattr(self, "store"):
            return
        standing = {(c.name, e.namespace, e.name): e for c in self.store.collections() for e in c.entries()}
        assert standing == self.model

    @invariant()
    def settled_followers_see_what_stands(self):
        if not hasattr(self, "store") or self.store.settled != self.store.version:
            return
        for collection, follower in self.followers:
            follower.catch_up()
            standing = {(e.namespace, e.name): decode(e.body) for e in self.store.collection(collection).entries()}
            assert follower.picture == standing

    def teardown(self):
        if getattr(self, "journal", None):
            self.journal.close()
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


def test_a_reader_that_is_too_slow_is_told_so_instead_of_missing_a_change(monkeypatch):
    monkeypatch.setattr(history, "HISTORY_CHANGES_MAX", 8)
    store = Store()
    pods = store.collection("pods")
    start = pods.history.position_after(store.version)
    for number in range(20):
        store.put("pods", an_object("x", f"p{number}", str(number), 0), expected=None)
    assert pods.history.read(start, up_to=store.settled) is None
    assert pods.history.position_after(1) is None
    assert pods.history.position_after(store.version) is not None


def test_the_window_is_bounded_by_bytes_too(monkeypatch):
    monkeypatch.setattr(history, "HISTORY_BYTES_MAX", 1_000)
    store = Store()
    for number in range(50):
        store.put("pods", an_object("x", f"p{number}", str(number), "long" * 10), expected=None)
    assert len(store.collection("pods").history.changes) < 15


async def test_news_wakes_a_waiting_watch(tmp_path):
    store = Store()
    news = store.collection("pods").history.news()
    store.put("pods", an_object("x", "p", "1", 0), expected=None)
    await asyncio.wait_for(news, PATIENCE_S)


async def test_nothing_is_settled_before_the_journal_has_it(tmp_path):
    journal = SqliteJournal(tmp_path / "log.db")
    store = journal.open_store()
    store.put("pods", an_object("x", "p", "1", 0), expected=None)
    assert store.settled < store.version
    settled = asyncio.get_running_loop().create_future()
    store.settle_listeners.append(lambda: settled.done() or settled.set_result(None))
    journal.start()
    await settled
    assert store.settled == store.version
    await asyncio.to_thread(journal.close)


def test_entries_remember_owners_and_forget_them():
    store = Store()
    owned = an_object("x", "p", "1", 0)
    owned["metadata"]["ownerReferences"] = [{"uid": "boss"}]
    entry = store.put("pods", owned, expected=None)
    assert {uid: list(keys) for uid, keys in store.dependents.items()} == {"boss": [("pods", "x", "p")]}
    store.remove("pods", msgspec.json.decode(entry.body), expected=entry)
    assert store.dependents == {}


async def test_a_journal_that_cannot_write_refuses_and_says_so(tmp_path):
    journal = SqliteJournal(tmp_path / "log.db")
    server = Server(Settings(chance=random.Random(1)), store=journal.open_store())
    journal.start()
    await server.backend.wait_settled()
    journal._connection.execute("DROP TABLE objects")
    api = Api(server)
    answer = await api.create(MAPS, a_map("a"))
    cause = f"journal {tmp_path}/log.db: no such table: objects; nothing more can be written"
    assert (api.status, cause in answer["message"]) == (500, True)
    answer = await api.create(MAPS, a_map("b"))
    assert (api.status, cause in answer["message"]) == (500, True)
    assert "make room on its disk, and start the cluster again" in answer["message"]
    assert server.backend.store.broken.is_set()
    await api.get(MAPS)
    assert api.status == 500
    await asyncio.to_thread(journal.close)


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_journal_whose_file_is_gone_takes_nothing_more(tmp_path, replaced):
    """SQLite writes on into a file that has no name any more, and all of it would be gone with the process."""
    journal = SqliteJournal(tmp_path / "log.db")
    server = Server(Settings(chance=random.Random(1)), store=journal.open_store())
    journal.start()
    await server.backend.wait_settled()
    (tmp_path / "log.db").unlink()
    if replaced:
        (tmp_path / "log.db").touch()
    api = Api(server)
    answer = await api.create(MAPS, a_map("a"))
    assert (api.status, f"journal {tmp_path}/log.db: the file was removed or replaced" in answer["message"]) == (
        500,
        True,
    )
    assert "put it back, or name another --data-dir" in answer["message"]
    await asyncio.to_thread(journal.close)


def test_a_file_that_is_no_log_is_refused_with_its_name(tmp_path):
    path = tmp_path / "log.db"
    path.write_bytes(b"this is no database, but it is long enough to be looked at as one" * 20)
    with pytest.raises(JournalError, match=r"log\.db.*move the file away"):
        SqliteJournal(path)


def test_a_log_of_another_format_is_left_alone(tmp_path):
    journal = SqliteJournal(tmp_path / "log.db")
    journal.note("format", 99)
    journal.close()
    with pytest.raises(JournalError, match="written in format 99"):
        SqliteJournal(tmp_path / "log.db")


def test_a_log_belongs_to_one_process_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("pumice.local.apiserver.journal.LOCK_S_MAX", 0.01)
    first = SqliteJournal(tmp_path / "log.db")
    with pytest.raises(JournalError, match="another process uses it"):
        SqliteJournal(tmp_path / "log.db")
    first.close()
    SqliteJournal(tmp_path / "log.db").close()
