"""Our own writes are known at once, and no late news or late answer undoes what is known."""

import pytest

from pumice.api.changes import Deleted, Upserted
from pumice.api.core import ConfigMap
from pumice.api.meta import ObjectMeta, OwnerReference
from pumice.clock import VirtualClock
from pumice.controllers.cache import ABSENT_S_MAX, DELETED_KEPT_MAX, LAGGING_S_MAX, LEARNT_S_MAX, Store


def a_map(name="m", *, version, uid="u1", owner="", text=""):
    owners = (OwnerReference(kind="Job", name="j", uid=owner, controller=True),) if owner else ()
    metadata = ObjectMeta(name=name, namespace="team", uid=uid, resource_version=str(version), owner_references=owners)
    return ConfigMap(metadata=metadata, data={"text": text})


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def store(clock):
    return Store(ConfigMap, clock)


def test_a_write_of_ours_is_known_before_the_watch_shows_it(store):
    store.learn(a_map(version=5, owner="job"))
    assert store.get("team", "m") is not None
    assert [each.metadata.name for each in store.owned_by("job")] == ["m"]


def test_older_news_does_not_undo_our_write(store):
    store.receive([Upserted(a_map(version=4, text="before"))])
    store.learn(a_map(version=9, text="ours"))
    store.receive([Upserted(a_map(version=7, text="between"))])
    assert store.get("team", "m").data["text"] == "ours"
    store.receive([Upserted(a_map(version=11, text="later"))])
    assert store.get("team", "m").data["text"] == "later"


def test_versions_are_numbers_and_not_texts(store):
    store.learn(a_map(version=9, text="nine"))
    store.receive([Upserted(a_map(version=10, text="ten"))])
    assert store.get("team", "m").data["text"] == "ten"


def test_an_answer_that_comes_after_the_deletion_brings_nothing_back(store):
    store.receive([Upserted(a_map(version=4)), Deleted(a_map(version=6))])
    store.learn(a_map(version=5))
    assert store.get("team", "m") is None


def test_a_deletion_of_the_predecessor_leaves_the_successor(store):
    store.learn(a_map(version=8, uid="u2"))
    store.receive([Deleted(a_map(version=7, uid="u1"))])
    assert store.get("team", "m").metadata.uid == "u2"


def test_a_deletion_of_ours_spares_a_namesake(store):
    store.receive([Upserted(a_map(version=4, uid="u2"))])
    store.lose("team", "m", "u1")
    assert store.get("team", "m") is not None
    store.lose("team", "m", "u2")
    assert store.get("team", "m") is None


def test_a_write_that_no_watch_shows_is_forgotten_in_time_and_its_dependents_are_told(store, clock):
    store.learn(a_map(version=5))
    store.receive([Upserted(a_map("shown", version=6, uid="u3"))])
    told = []
    store.subscribe(told.extend)
    told.clear()
    clock.jump(LEARNT_S_MAX - 1)
    store.forget_unseen()
    assert store.get("team", "m") is not None
    clock.jump(1)
    store.forget_unseen()
    assert store.get("team", "m") is None
    assert store.get("team", "shown") is not None
    assert [each.metadata.name for each in told] == ["m"]


def test_what_the_watch_showed_before_the_answer_came_is_not_forgotten(store, clock):
    """Nor what a look at the server found as it was known: no watch ever shows it a second time."""
    store.receive([Upserted(a_map(version=5))])
    store.learn(a_map(version=5))
    store.receive([Upserted(a_map("later", version=9, uid="u9"))])
    clock.jump(10 * LAGGING_S_MAX)
    store.forget_unseen()
    assert store.get("team", "m") is not None


def test_a_watch_that_lags_costs_nobody_what_it_has_not_shown_yet(store, clock):
    store.learn(a_map(version=5))
    store.receive([Upserted(a_map("earlier", version=4, uid="u4"))])
    clock.jump(LAGGING_S_MAX - 1)
    store.forget_unseen()
    assert store.get("team", "m") is not None
    clock.jump(1)
    store.forget_unseen()
    assert store.get("team", "m") is None


def test_what_was_forgotten_too_early_is_known_again_with_everything_that_is_learnt_of_it(store, clock):
    store.learn(a_map(version=5))
    clock.jump(LAGGING_S_MAX)
    store.forget_unseen()
    store.receive([Upserted(a_map(version=5))])
    store.learn(a_map(version=8, text="ours"))
    assert store.get("team", "m").data["text"] == "ours"


def test_an_index_follows_changes_and_is_made_for_what_is_there_already(store):
    store.receive(
        [Upserted(a_map("a", version=1, uid="a", text="x")), Upserted(a_map("b", version=2, uid="b", text="x"))]
    )
    store.index("text", lambda each: (each.data["text"],))
    assert [each.metadata.name for each in store.find("text", "x")] == ["a", "b"]
    store.receive([Upserted(a_map("a", version=3, uid="a", text="y"))])
    assert [each.metadata.name for each in store.find("text", "x")] == ["b"]
    store.receive([Deleted(a_map("b", version=4, uid="b", text="x"))])
    assert store.find("text", "x") == []


def test_subscribers_hear_of_what_is_there_and_of_each_change_once(store):
    store.receive([Upserted(a_map(version=1))])
    heard = []
    store.subscribe(heard.extend)
    store.receive([Upserted(a_map(version=2))])
    store.learn(a_map(version=3))
    store.receive([Upserted(a_map(version=2)), Upserted(a_map(version=3)), Upserted(a_map(version=4))])
    assert [each.metadata.resource_version for each in heard] == ["1", "2", "3", "4"]


def test_what_is_gone_is_remembered_as_it_was_last_seen(store):
    store.index("place", lambda each: (each.metadata.namespace,))
    store.receive([Upserted(a_map(version=4, text="alive")), Deleted(a_map(version=6, text="at the end"))])
    assert [each.data["text"] for each in store.recently_deleted("place", "team")] == ["at the end"]
    assert store.recently_deleted("place", "other") == []
    store.index("text", lambda each: (each.data["text"],))
    assert len(store.recently_deleted("text", "at the end")) == 1
    store.receive([Deleted(a_map(version=8, uid="successor", text="at the end of the next one"))])
    assert [each.data["text"] for each in store.recently_deleted("place", "team")] == ["at the end of the next one"]
    assert store.recently_deleted("text", "at the end") == []


def test_the_deleted_are_not_remembered_for_ever(store):
    store.index("place", lambda each: (each.metadata.namespace,))
    for number in range(DELETED_KEPT_MAX + 1):
        store.receive([Deleted(a_map(f"m{number}", version=number + 1, uid=f"u{number}"))])
    left = {each.metadata.name for each in store.recently_deleted("place", "team")}
    assert left == {f"m{number}" for number in range(1, DELETED_KEPT_MAX + 1)}


def test_the_servers_word_that_nobody_has_a_name_is_good_for_a_moment(store, clock):
    assert not store.is_absent("team", "m")
    store.note_absence("team", "m")
    assert store.is_absent("team", "m")
    clock.jump(ABSENT_S_MAX)
    assert not store.is_absent("team", "m")


def test_the_servers_word_ends_when_somebody_has_the_name(store):
    store.note_absence("team", "m")
    store.receive([Upserted(a_map(version=5))])
    store.receive([Deleted(a_map(version=6))])
    assert not store.is_absent("team", "m")


def test_a_subscriber_is_told_what_concerns_it(store):
    told = []
    store.subscribe(told.extend, lambda known, fresh: known.data != fresh.data)
    store.receive([Upserted(a_map(version=4, text="a"))])
    store.receive([Upserted(a_map(version=5, text="a")), Upserted(a_map(version=6, text="b"))])
    store.receive([Upserted(a_map(version=7, uid="u2", text="b"))])
    store.receive([Deleted(a_map(version=8, uid="u2", text="b"))])
    assert [each.metadata.resource_version for each in told] == ["4", "6", "7", "8"]


def test_of_a_write_of_ours_all_controllers_hear_with_the_answer_and_not_from_the_watch_again(store):
    told = []
    store.subscribe(told.extend, lambda known, fresh: known.data != fresh.data)
    store.receive([Upserted(a_map(version=4, text="a"))])
    store.learn(a_map(version=5, text="b"))
    assert [each.metadata.resource_version for each in told] == ["4", "5"]
    store.receive([Upserted(a_map(version=5, text="b")), Upserted(a_map(version=6, text="b"))])
    store.learn(a_map(version=7, text="b"))
    assert [each.metadata.resource_version for each in told] == ["4", "5"]
    store.learn(a_map(version=8, uid="u2", text="b"))
    assert [each.metadata.resource_version for each in told] == ["4", "5", "8"]
