"""create, get, list, update, patch: what a client relies on."""

import pytest
from tests.unit.local.apiserver.words import MAPS, PODS, a_map, a_pod

from pumice.local.apiserver import event_retention


async def test_what_is_created_can_be_read(api):
    created = await api.create(MAPS, a_map("a", {"k": "v"}))
    assert api.status == 201
    assert created["metadata"]["uid"]
    assert created["metadata"]["creationTimestamp"] == "2026-01-02T03:04:05Z"
    assert await api.get(f"{MAPS}/a") == created


async def test_a_name_can_be_taken_only_once(api):
    await api.create(MAPS, a_map("a"))
    answer = await api.create(MAPS, a_map("a"))
    assert (api.status, answer["reason"]) == (409, "AlreadyExists")
    assert answer["message"] == 'configmaps "a" already exists'


async def test_what_is_not_there_is_not_found(api):
    answer = await api.get(f"{MAPS}/a")
    assert (api.status, answer["reason"]) == (404, "NotFound")
    assert answer["details"] == {"name": "a", "kind": "configmaps"}
    await api.delete(f"{MAPS}/{'9' * 5_000}")
    assert api.status == 404


async def test_a_kind_that_does_not_exist_is_not_found(api):
    answer = await api.get("/apis/batch.volcano.sh/v1alpha1/jobs")
    assert (api.status, answer["message"]) == (404, "the server could not find the requested resource")


async def test_generated_names_differ(api):
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "job-"}}
    names = [(await api.create(MAPS, obj))["metadata"]["name"] for _ in range(3)]
    assert len(set(names)) == 3
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


async def test_an_object_needs_an_existing_namespace(api):
    answer = await api.create("/api/v1/namespaces/nowhere/configmaps", a_map("a"))
    assert (api.status, answer["message"]) == (404, 'namespaces "nowhere" not found')


async def test_the_path_and_the_body_must_agree(api):
    await api.create(MAPS, a_map("a", namespace="kube-system"))
    assert api.status == 400
    await api.create(MAPS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})
    assert api.status == 400
    await api.update(f"{MAPS}/b", a_map("a"))
    assert api.status == 400


async def test_bad_names_and_labels_are_refused_with_their_field(api):
    answer = await api.create(MAPS, a_map("Upper_Case"))
    assert (api.status, answer["details"]["causes"][0]["field"]) == (422, "metadata.name")
    answer = await api.create(MAPS, a_map("a", labels={"k": "not valid!"}))
    assert (api.status, answer["details"]["causes"][0]["field"]) == (422, "metadata.labels")


async def test_unknown_fields_are_refused_told_or_ignored_as_asked(api):
    body = a_pod("p", unknownField=1)
    answer = await api.create(PODS, body, fieldValidation="Strict")
    assert (api.status, 'unknown field "spec.unknownField"' in answer["message"]) == (400, True)
    answer = await api.create(PODS, body, fieldValidation="Warn", dryRun="All")
    assert (api.status, api.headers["warning"]) == (201, r'299 - "unknown field \"spec.unknownField\""')
    answer = await api.create(PODS, body, fieldValidation="Ignore")
    assert (api.status, "warning" in api.headers, "unknownField" in answer["spec"]) == (201, False, False)


@pytest.mark.parametrize(
    ("amounts", "said"),
    [
        ({"cpu": "-5"}, 'status.capacity[cpu]: Invalid value: "-5": must be greater than or equal to 0'),
        ({"nvidia.com/gpu": "1.5"}, 'status.capacity[nvidia.com/gpu]: Invalid value: "1500m": must be an integer'),
    ],
)
async def test_a_node_has_no_amounts_that_make_no_sense_new_or_later(api, amounts, said):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    answer = await api.create("/api/v1/nodes", {**node, "status": {"capacity": amounts}})
    assert (api.status, said in answer["message"]) == (422, True)
    await api.create("/api/v1/nodes", {**node, "status": {"capacity": {"cpu": "500m", "nvidia.com/gpu": "1"}}})
    assert api.status == 201
    answer = await api.merge("/api/v1/nodes/n/status", {"status": {"capacity": amounts}})
    assert (api.status, said in answer["message"]) == (422, True)


@pytest.mark.parametrize(
    ("taint", "field"),
    [
        ({"key": "", "effect": "NoExecute"}, "spec.taints[0].key"),
        ({"key": "a", "effect": "Never"}, "spec.taints[0].effect"),
    ],
)
async def test_a_node_has_no_taint_that_nothing_could_tolerate(api, taint, field):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    answer = await api.create("/api/v1/nodes", {**node, "spec": {"taints": [taint]}})
    assert (api.status, answer["details"]["causes"][0]["field"]) == (422, field)
    await api.create("/api/v1/nodes", node)
    answer = await api.merge("/api/v1/nodes/n", {"spec": {"taints": [taint]}})
    assert (api.status, answer["details"]["causes"][0]["field"]) == (422, field)


def a_webhook(selector):
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    called = {"clientConfig": {"url": "https://here/"}, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    return {"name": "a.b.c", "rules": [rule], "objectSelector": selector, **called}


@pytest.mark.parametrize(
    ("path", "kind", "with_selector", "field"),
    [
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            "PodDisruptionBudget",
            lambda selector: {"spec": {"selector": selector}},
            "spec.selector",
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            lambda selector: {"webhooks": [a_webhook(selector)]},
            "webhooks[0].objectSelector",
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "ClusterRole",
            lambda selector: {"rules": [], "aggregationRule": {"clusterRoleSelectors": [selector]}},
            "aggregationRule.clusterRoleSelectors[0]",
        ),
    ],
)
async def test_a_selector_that_the_server_itself_will_read_is_checked_new_or_later(
    api, path, kind, with_selector, field
):
    head = {"apiVersion": path.removeprefix("/apis/").rpartition("/v1")[0] + "/v1", "kind": kind}
    bad, good = with_selector({"matchLabels": {"x" * 64: ""}}), with_selector({"matchLabels": {"x": ""}})
    answer = await api.create(path, {**head, "metadata": {"name": "a"}, **bad})
    assert (api.status, answer["details"]["causes"][0]["field"]) == (422, field)
    await api.create(path, {**head, "metadata": {"name": "a"}, **good})
    assert api.status == 201
    answer = await api.merge(f"{path}/a", bad)
    assert (api.status, answer["details"]["causes"][0]["field"]) == (422, field)


async def test_a_wrong_type_is_a_bad_request(api):
    answer = await api.create(PODS, a_pod("p", hostNetwork="yes"))
    assert (api.status, "spec.hostNetwork" in answer["message"]) == (400, True)


async def test_nulls_count_as_absent(api):
    body = a_pod("p")
    body["metadata"]["creationTimestamp"] = None
    body["spec"]["nodeName"] = None
    pod = await api.create(PODS, body, fieldValidation="Strict")
    assert (api.status, "nodeName" in pod["spec"]) == (201, False)


async def test_broken_bodies_are_bad_requests(api):
    for body in (b"{", b"[]", b'"x"', b"\xff"):
        await api.create(MAPS, body)
        assert api.status == 400


async def test_a_body_in_yaml_is_read(api):
    created = await api.create(
        MAPS, b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: text}\ndata: {a: '1'}\n", media="application/yaml"
    )
    assert (api.status, created["data"]) == (201, {"a": "1"})


async def test_an_unknown_media_type_is_refused(api):
    await api.create(MAPS, b"x", media="text/plain")
    assert api.status == 415


async def test_a_body_over_the_limit_is_refused(api):
    await api.create(MAPS, b" " * (3 * 2**20 + 1))
    assert api.status == 413


async def test_an_object_that_no_real_store_would_take_is_refused(api):
    await api.create(MAPS, a_map("big", {"k": "x" * 1_600_000}))
    assert api.status == 413


async def test_an_update_with_an_old_version_conflicts(api):
    first = await api.create(MAPS, a_map("a", {"k": "1"}))
    second = await api.update(f"{MAPS}/a", first | {"data": {"k": "2"}})
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    answer = await api.update(f"{MAPS}/a", first | {"data": {"k": "3"}})
    assert (api.status, answer["reason"]) == (409, "Conflict")
    assert (await api.get(f"{MAPS}/a"))["data"] == {"k": "2"}


async def test_an_update_without_a_version_wins(api):
    await api.create(MAPS, a_map("a"))
    updated = await api.update(f"{MAPS}/a", a_map("a", {"k": "1"}))
    assert (api.status, updated["data"]) == (200, {"k": "1"})


async def test_an_update_that_changes_nothing_makes_no_version(api):
    created = await api.create(MAPS, a_map("a"))
    assert await api.update(f"{MAPS}/a", created) == created


async def test_an_update_keeps_what_the_server_owns(api):
    created = await api.create(MAPS, a_map("a"))
    forged = a_map("a", creationTimestamp="2001-01-01T00:00:00Z")
    updated = await api.update(f"{MAPS}/a", forged)
    assert updated["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]
    answer = await api.update(f"{MAPS}/a", a_map("a", uid="other"))
    assert (api.status, "Precondition failed: UID" in answer["message"]) == (409, True)


async def test_dry_run_stores_nothing(api):
    answer = await api.create(MAPS, a_map("a"), dryRun="All")
    assert (api.status, answer["metadata"]["name"]) == (201, "a")
    await api.get(f"{MAPS}/a")
    assert api.status == 404
    await api.create(MAPS, a_map("a"))
    await api.merge(f"{MAPS}/a", {"data": {"k": "v"}}, dryRun="All")
    await api.delete(f"{MAPS}/a", dryRun="All")
    assert "data" not in await api.get(f"{MAPS}/a")


async def test_a_list_is_sorted_and_carries_the_version_of_its_moment(api):
    for name in ("b", "c", "a"):
        last = await api.create(MAPS, a_map(name))
    listed = await api.get(MAPS)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b", "c"]
    assert listed["kind"] == "ConfigMapList"
    assert listed["metadata"]["resourceVersion"] == last["metadata"]["resourceVersion"]


async def test_pages_of_one_list_show_one_moment(api):
    for number in range(5):
        await api.create(MAPS, a_map(f"m{number}"))
    first = await api.get(MAPS, limit="2")
    assert first["metadata"]["remainingItemCount"] == 3
    await api.delete(f"{MAPS}/m4")
    await api.create(MAPS, a_map("m9"))
    second = await api.get(MAPS, limit="2", **{"continue": first["metadata"]["continue"]})
    third = await api.get(MAPS, limit="2", **{"continue": second["metadata"]["continue"]})
    names = [item["metadata"]["name"] for page in (first, second, third) for item in page["items"]]
    assert names == ["m0", "m1", "m2", "m3", "m4"]
    assert "continue" not in third["metadata"]
    assert third["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_forgotten_continuation_has_expired(api):
    answer = await api.get(MAPS, limit="1", **{"continue": "bm9uZQ=="})
    assert (api.status, answer["reason"]) == (410, "Expired")
    await api.get(MAPS, limit="x")
    assert api.status == 400


async def test_selectors_choose(api):
    for name, tier in (("a", "web"), ("b", "db"), ("c", "web")):
        await api.create(MAPS, a_map(name, labels={"tier": tier}))
    assert await api.names(MAPS, labelSelector="tier=web") == ["a", "c"]
    assert await api.names(MAPS, labelSelector="tier notin (web)", fieldSelector="metadata.name!=x") == ["b"]
    assert await api.names(MAPS, fieldSelector="metadata.name=b") == ["b"]
    await api.get(MAPS, fieldSelector="data.k=v")
    assert api.status == 400
    await api.get(MAPS, labelSelector="(((")
    assert api.status == 400


async def test_pods_are_selected_by_their_node_and_phase(api):
    await api.create(PODS, a_pod("free"))
    await api.create(PODS, a_pod("placed", nodeName="n1"))
    assert await api.names(PODS, fieldSelector="spec.nodeName=n1") == ["placed"]
    assert await api.names(PODS, fieldSelector="spec.nodeName=,status.phase=Pending") == ["free"]


async def test_status_is_written_through_its_own_path_alone(api):
    await api.create(PODS, a_pod("p") | {"status": {"phase": "Running"}})
    pod = await api.get(f"{PODS}/p")
    assert pod["status"]["phase"] == "Pending"
    pod["status"]["phase"], pod["spec"]["nodeName"] = "Running", "n1"
    updated = await api.update(f"{PODS}/p/status", pod)
    assert (updated["status"]["phase"], "nodeName" in updated["spec"]) == ("Running", False)
    updated["status"]["phase"] = "Failed"
    assert (await api.update(f"{PODS}/p", updated))["status"]["phase"] == "Running"


async def test_generations_count_changes_of_the_spec(api):
    await api.create(PODS, a_pod("p"))
    patched = await api.merge(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert patched["metadata"]["generation"] == 1
    patched = await api.strategic(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 9}})
    assert patched["metadata"]["generation"] == 2


async def test_kinds_that_nobody_acts_on_are_stored_with_a_warning(api):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    body["spec"] = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.create("/apis/apps/v1/namespaces/default/deployments", body)
    assert (api.status, "no controller for Deployment" in api.headers["warning"]) == (201, True)


async def test_a_lease_may_be_created_by_an_update_and_a_map_may_not(api):
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    await api.update("/apis/coordination.k8s.io/v1/namespaces/default/leases/l", body)
    assert api.status == 201
    await api.update(f"{MAPS}/m", a_map("m"))
    assert api.status == 404


async def test_events_of_both_groups_are_the_same_events(api):
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "it fits",
        "reason": "Scheduled",
        "type": "Normal",
        "action": "Binding",
        "reportingController": "pumice",
        "reportingInstance": "pumice-0",
    }
    created = await api.create("/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert (api.status, created["note"]) == (201, "it fits")
    core = await api.get("/api/v1/namespaces/default/events/e")
    assert (core["apiVersion"], core["message"], core["involvedObject"]["name"]) == ("v1", "it fits", "p")
    listed = await api.get("/apis/events.k8s.io/v1/events", fieldSelector="regarding.name=p")
    assert listed["items"][0]["regarding"]["name"] == "p"


async def test_secrets_take_plain_text(api):
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}}
    created = await api.create("/api/v1/namespaces/default/secrets", body)
    assert (created["data"], created["type"], "stringData" in created) == ({"k": "dg=="}, "Opaque", False)


async def test_metadata_alone_can_be_asked_for(api):
    await api.create(MAPS, a_map("a", {"k": "v"}))
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    listed = await api.get(MAPS, accept=accept)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert [item["kind"] for item in listed["items"]] == ["PartialObjectMetadata"]
    assert "data" not in listed["items"][0]


async def test_a_method_that_the_resource_does_not_have_is_not_allowed(api):
    await api.create("/api/v1/pods", a_pod("p"))
    assert api.status == 405
    await api.call("TRACE", MAPS)
    assert api.status == 405


async def test_quantities_have_one_spelling(api):
    body = a_pod("p")
    body["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "1500m", "memory": "1024Mi"},
        "limits": {"cpu": 2},
    }
    pod = await api.create(PODS, body)
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"cpu": "2"}}
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "one"}}
    await api.create(PODS, body | {"metadata": {"name": "q"}})
    assert api.status == 400


async def test_scale_reads_and_writes_replicas(api):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "d"}}
    body["spec"] = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = "/apis/apps/v1/namespaces/default/replicasets"
    await api.create(path, body)
    scale = await api.get(f"{path}/d/scale")
    assert (scale["spec"]["replicas"], scale["status"]["selector"]) == (2, "a=b")
    await api.merge(f"{path}/d/scale", {"spec": {"replicas": 5}})
    assert (await api.get(f"{path}/d"))["spec"]["replicas"] == 5


EVENTS = "/api/v1/namespaces/default/events"


def an_event(name):
    involved = {"kind": "Pod", "name": "p", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": involved}


async def test_events_go_an_hour_after_they_were_last_written(api, clock):
    await api.create(EVENTS, an_event("old"))
    await api.create(EVENTS, an_event("repeated"))
    clock.advance(1800)
    await api.merge(f"{EVENTS}/repeated", {"count": 2})
    clock.advance(1801)
    await api.create(EVENTS, an_event("new"))
    assert await api.names(EVENTS) == ["new", "repeated"]


async def test_there_is_room_for_so_many_events_and_the_oldest_go(api, monkeypatch):
    monkeypatch.setattr(event_retention, "EVENTS_MAX", 3)
    for number in range(5):
        await api.create(EVENTS, an_event(f"e{number}"))
    assert await api.names(EVENTS) == ["e2", "e3", "e4"]
