"""Watches: everything once, in order, from where the client says."""

from tests.unit.local.apiserver.words import MAPS, PODS, a_map, a_pod

from pumice.local.apiserver import history, watching


def told(event):
    return event["type"], event["object"]["metadata"].get("name")


async def test_a_watch_begins_with_what_is_there_and_goes_on_with_what_happens(api):
    await api.create(MAPS, a_map("a"))
    watch = await api.watch(MAPS)
    assert told(await watch.next()) == ("ADDED", "a")
    await api.create(MAPS, a_map("b"))
    await api.merge(f"{MAPS}/a", {"data": {"k": "v"}})
    await api.delete(f"{MAPS}/b")
    assert [told(event) for event in await watch.take(3)] == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


async def test_a_watch_from_a_list_misses_nothing_and_repeats_nothing(api):
    await api.create(MAPS, a_map("a"))
    listed = await api.get(MAPS)
    await api.create(MAPS, a_map("b"))
    watch = await api.watch(MAPS, resourceVersion=listed["metadata"]["resourceVersion"])
    await api.create(MAPS, a_map("c"))
    assert [told(event) for event in await watch.take(2)] == [("ADDED", "b"), ("ADDED", "c")]


async def test_a_deletion_carries_the_last_state_and_a_version_of_its_own(api):
    created = await api.create(MAPS, a_map("a", {"k": "v"}))
    watch = await api.watch(MAPS, resourceVersion=created["metadata"]["resourceVersion"])
    await api.delete(f"{MAPS}/a")
    event = await watch.next()
    assert (event["type"], event["object"]["data"]) == ("DELETED", {"k": "v"})
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])


async def test_an_object_that_begins_or_ceases_to_match_is_added_or_deleted(api):
    watch = await api.watch(MAPS, labelSelector="tier=web")
    await api.create(MAPS, a_map("a"))
    await api.merge(f"{MAPS}/a", {"metadata": {"labels": {"tier": "web"}}})
    await api.merge(f"{MAPS}/a", {"data": {"k": "v"}})
    await api.merge(f"{MAPS}/a", {"metadata": {"labels": {"tier": "db"}}})
    await api.delete(f"{MAPS}/a")
    await api.create(MAPS, a_map("b", labels={"tier": "web"}))
    events = [told(event) for event in await watch.take(4)]
    assert events == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]


async def test_a_node_sees_its_own_pods_alone(api):
    watch = await api.watch("/api/v1/pods", fieldSelector="spec.nodeName=n1")
    await api.create(PODS, a_pod("p"))
    await api.create(PODS, a_pod("q"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "q"},
        "target": {"kind": "Node", "name": "n1"},
    }
    await api.create(f"{PODS}/q/binding", binding)
    assert told(await watch.next()) == ("ADDED", "q")


async def test_a_version_that_left_the_window_is_gone(api, monkeypatch):
    monkeypatch.setattr(history, "HISTORY_CHANGES_MAX", 4)
    first = await api.create(MAPS, a_map("a"))
    for number in range(10):
        await api.merge(f"{MAPS}/a", {"data": {"k": str(number)}})
    answer = await api.watch(MAPS, resourceVersion=first["metadata"]["resourceVersion"])
    assert (api.status, answer["reason"]) == (410, "Expired")


async def test_a_watch_that_falls_behind_ends_with_410(api, monkeypatch):
    await api.create(MAPS, a_map("a"))
    watch = await api.watch(MAPS)
    await watch.next()
    monkeypatch.setattr(history, "HISTORY_CHANGES_MAX", 4)
    for number in range(10):
        await api.merge(f"{MAPS}/a", {"data": {"k": str(number)}})
    event = await watch.next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_a_version_from_the_future_is_refused(api):
    answer = await api.watch(MAPS, resourceVersion="999999")
    assert (api.status, answer["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


async def test_initial_events_end_with_a_bookmark(api):
    await api.create(MAPS, a_map("a"))
    watch = await api.watch(
        MAPS, sendInitialEvents="true", allowWatchBookmarks="true", resourceVersionMatch="NotOlderThan"
    )
    added, mark = await watch.take(2)
    assert told(added) == ("ADDED", "a")
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert mark["object"]["metadata"]["resourceVersion"] == (await api.get(MAPS))["metadata"]["resourceVersion"]


async def test_a_quiet_watch_gets_bookmarks_of_the_newest_version(api, monkeypatch):
    monkeypatch.setattr(watching, "BOOKMARK_INTERVAL_S", 0.01)
    watch = await api.watch(MAPS, allowWatchBookmarks="true")
    await api.create(PODS, a_pod("elsewhere"))
    mark = await watch.next()
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["resourceVersion"] == str(api.server.backend.store.version)


async def test_a_watch_ends_in_its_time(api):
    watch = await api.watch(MAPS, timeoutSeconds="1")
    assert [chunk async for chunk in watch.stream] == []


async def test_one_object_can_be_watched_by_its_path(api):
    await api.create(MAPS, a_map("a"))
    await api.create(MAPS, a_map("b"))
    watch = await api.watch(f"{MAPS}/b")
    assert told(await watch.next()) == ("ADDED", "b")


async def test_a_watched_table_brings_its_headings_once(api):
    watch = await api.watch(PODS, accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
    await api.create(PODS, a_pod("p"))
    await api.create(PODS, a_pod("q"))
    first, second = await watch.take(2)
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][:3] == ["q", "0/1", "Pending"]
