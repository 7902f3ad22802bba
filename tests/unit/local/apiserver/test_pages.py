"""Discovery, OpenAPI, tables, health: what kubectl reads before it does anything."""

import json

from tests.unit.local.apiserver.words import PODS, a_map, a_pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


async def rows(api, path, **options):
    table = await api.get(path, accept=TABLE, **options)
    heads = [column["name"] for column in table["columnDefinitions"]]
    return [dict(zip(heads, row["cells"], strict=True)) for row in table["rows"]]


async def test_a_healthy_server_says_so(api):
    for path in ("/healthz", "/livez", "/readyz", "/readyz/ping"):
        assert await api.get(path) == b"ok"
    assert (await api.get("/version"))["gitVersion"].startswith("v1.36.1+pumice")


async def test_groups_and_resources_are_listed(api):
    groups = (await api.get("/apis"))["groups"]
    assert "apps" in [group["name"] for group in groups]
    resources = {resource["name"]: resource for resource in (await api.get("/api/v1"))["resources"]}
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["pods/eviction"]["group"] == "policy"
    assert (await api.get("/apis/apps"))["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}


async def test_discovery_comes_in_one_piece_to_those_who_ask(api):
    core = await api.get("/api", accept=AGGREGATED)
    assert (core["kind"], api.headers["content-type"]) == (
        "APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    )
    pods = next(r for r in core["items"][0]["versions"][0]["resources"] if r["resource"] == "pods")
    assert {sub["subresource"] for sub in pods["subresources"]} >= {"binding", "eviction", "log", "status"}
    others = await api.get("/apis", accept=AGGREGATED)
    assert "" not in [item["metadata"].get("name", "") for item in others["items"]]


async def test_alpha_kinds_are_served_only_when_asked_for(api):
    await api.get("/apis/scheduling.k8s.io/v1alpha2")
    assert api.status == 404


async def test_openapi_names_the_fields_and_their_merge_keys(api):
    index = await api.get("/openapi/v3")
    assert "apis/apps/v1" in index["paths"]
    document = await api.get("/openapi/v3/api/v1")
    schemas = document["components"]["schemas"]
    containers = schemas["core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert schemas["core.v1.Pod"]["x-kubernetes-group-version-kind"] == [{"group": "", "version": "v1", "kind": "Pod"}]
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


async def test_every_reference_of_the_documents_leads_somewhere(api):
    old = await api.get("/openapi/v2")
    documents = [(old, old["definitions"], "#/definitions/")]
    for path in (await api.get("/openapi/v3"))["paths"]:
        document = await api.get(f"/openapi/v3/{path}")
        documents.append((document, document["components"]["schemas"], "#/components/schemas/"))
    for document, schemas, prefix in documents:
        for reference in json.dumps(document).split(f'"$ref": "{prefix}')[1:]:
            assert reference.split('"')[0] in schemas


async def test_the_document_in_protobuf_is_empty_so_that_clients_leave_the_checks_to_the_server(api):
    body = await api.get("/openapi/v2", accept="application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
    assert (api.status, body) == (200, b"\x0a\x032.0")


async def test_pods_are_printed_as_people_know_them(api, clock):
    pod = await api.create(PODS, a_pod("p", nodeName="n1"))
    state = {"name": "main", "ready": True, "restartCount": 2, "state": {"running": {}}}
    state["lastState"] = {"terminated": {"finishedAt": "2026-01-02T03:04:05Z", "exitCode": 1}}
    await api.update(
        f"{PODS}/p/status",
        pod | {"status": {"phase": "Running", "containerStatuses": [state], "podIPs": [{"ip": "10.0.0.1"}]}},
    )
    clock.advance(300)
    (row,) = await rows(api, PODS)
    assert row == {
        "Name": "p",
        "Ready": "1/1",
        "Status": "Running",
        "Restarts": "2 (5m ago)",
        "Age": "5m",
        "IP": "10.0.0.1",
        "Node": "n1",
        "Nominated Node": "<none>",
        "Readiness Gates": "<none>",
    }


async def phase_of(api, name, **status):
    pod = await api.create(PODS, a_pod(name, nodeName="n1", initContainers=[{"name": "init", "image": "i"}]))
    await api.update(f"{PODS}/{name}/status", pod | {"status": status})
    return next(row["Status"] for row in await rows(api, PODS) if row["Name"] == name)


async def test_a_pods_status_tells_what_its_containers_do(api):
    def container(name="main", **state):
        return [{"name": name, "state": state, "ready": False, "restartCount": 0}]

    assert await phase_of(api, "a", phase="Pending", initContainerStatuses=container("init", running={})) == "Init:0/1"
    ended = container("init", terminated={"exitCode": 3})
    assert await phase_of(api, "b", phase="Pending", initContainerStatuses=ended) == "Init:ExitCode:3"
    waiting = container(waiting={"reason": "CrashLoopBackOff"})
    assert await phase_of(api, "c", phase="Running", containerStatuses=waiting) == "CrashLoopBackOff"
    done = container(terminated={"exitCode": 0, "reason": "Completed"})
    assert await phase_of(api, "d", phase="Succeeded", containerStatuses=done) == "Completed"
    assert await phase_of(api, "e", phase="Failed", reason="Evicted") == "Evicted"
    assert await phase_of(api, "f", phase="Running") == "Running"
    await api.delete(f"{PODS}/f")
    assert next(row["Status"] for row in await rows(api, PODS) if row["Name"] == "f") == "Terminating"


async def test_nodes_are_printed_with_their_roles(api):
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/gpu": ""}},
    }
    status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.1"}}
    await api.create("/api/v1/nodes", body | {"spec": {"unschedulable": True}, "status": status})
    (row,) = await rows(api, "/api/v1/nodes")
    assert (row["Status"], row["Roles"], row["Version"]) == ("Ready,SchedulingDisabled", "gpu", "v1.36.1")


async def test_every_kind_can_be_printed(api, server):
    await api.create("/api/v1/namespaces/default/configmaps", a_map("m", {"k": "v"}))
    for resource in server.backend.registry.all():
        if "list" in resource.verbs:
            root = f"/apis/{resource.group}" if resource.group else "/api"
            table = await api.get(f"{root}/{resource.version}/{resource.plural}", accept=TABLE)
            assert all(len(row["cells"]) == len(table["columnDefinitions"]) for row in table["rows"])
            assert api.status == 200


async def test_fields_of_pods_and_of_all_metadata_are_described(api):
    schemas = (await api.get("/openapi/v3/api/v1"))["components"]["schemas"]
    for name in ("core.v1.Pod", "core.v1.PodSpec", "core.v1.Container", "meta.v1.ObjectMeta"):
        fields = schemas[name]["properties"]
        undescribed = {field for field, schema in fields.items() if not schema.get("description")}
        assert undescribed <= {"selfLink"}, name
    assert schemas["core.v1.Pod"]["description"]
    old = (await api.get("/openapi/v2"))["definitions"]["core.v1.Pod"]["properties"]["spec"]
    assert set(old) == {"$ref", "description"}  # a reader of v2 follows no allOf
