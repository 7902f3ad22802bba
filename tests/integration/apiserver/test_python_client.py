"""The official Python client works against the embedded server without knowing what it is."""

import asyncio

import kubernetes
import pytest
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException


@pytest.fixture
def api(embedded):
    configuration = client.Configuration()
    kubernetes.config.load_kube_config(str(embedded.kubeconfig), client_configuration=configuration)
    with client.ApiClient(configuration) as opened:
        yield opened


def a_pod(name):
    container = client.V1Container(
        name="c", image="busybox", resources=client.V1ResourceRequirements(requests={"cpu": "1"})
    )
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels={"app": "x"}), spec=client.V1PodSpec(containers=[container])
    )


async def in_thread(function, *arguments, **options):
    """The client blocks; the server lives in this loop."""
    return await asyncio.to_thread(function, *arguments, **options)


async def test_pods_are_created_read_listed_patched_bound_and_deleted(api):
    core = client.CoreV1Api(api)
    created = await in_thread(core.create_namespaced_pod, "default", a_pod("p"))
    assert (created.status.phase, created.spec.restart_policy) == ("Pending", "Always")
    listed = await in_thread(core.list_namespaced_pod, "default", label_selector="app=x")
    assert [pod.metadata.name for pod in listed.items] == ["p"]
    patched = await in_thread(core.patch_namespaced_pod, "p", "default", {"metadata": {"labels": {"team": "a"}}})
    assert patched.metadata.labels == {"app": "x", "team": "a"}
    binding = client.V1Binding(
        metadata=client.V1ObjectMeta(name="p"), target=client.V1ObjectReference(kind="Node", name="n1")
    )
    await in_thread(core.create_namespaced_pod_binding, "p", "default", binding, _preload_content=False)
    assert (await in_thread(core.read_namespaced_pod, "p", "default")).spec.node_name == "n1"
    deleted = await in_thread(core.delete_namespaced_pod, "p", "default", grace_period_seconds=0)
    assert deleted.metadata.name == "p"
    with pytest.raises(ApiException) as missing:
        await in_thread(core.read_namespaced_pod, "p", "default")
    assert missing.value.status == 404


async def test_a_watch_tells_what_happens(api):
    core = client.CoreV1Api(api)
    before = (await in_thread(core.list_namespaced_config_map, "default")).metadata.resource_version

    def follow():
        events = []
        stream = watch.Watch().stream  # from a version on, so that it may begin after what it has to tell
        for event in stream(core.list_namespaced_config_map, "default", resource_version=before, timeout_seconds=20):
            events.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                return events
        return events

    following = asyncio.create_task(in_thread(follow))
    await in_thread(
        core.create_namespaced_config_map, "default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"))
    )
    await in_thread(core.delete_namespaced_config_map, "a", "default")
    assert [event for event in await following if event[1] == "a"][-1] == ("DELETED", "a")


async def test_custom_objects_and_their_definition(api):
    definitions, objects = client.ApiextensionsV1Api(api), client.CustomObjectsApi(api)
    schema = client.V1JSONSchemaProps(type="object", x_kubernetes_preserve_unknown_fields=True)
    version = client.V1CustomResourceDefinitionVersion(
        name="v1", served=True, storage=True, schema=client.V1CustomResourceValidation(open_apiv3_schema=schema)
    )
    names = client.V1CustomResourceDefinitionNames(plural="things", kind="Thing")
    spec = client.V1CustomResourceDefinitionSpec(
        group="example.com", names=names, scope="Namespaced", versions=[version]
    )
    definition = client.V1CustomResourceDefinition(metadata=client.V1ObjectMeta(name="things.example.com"), spec=spec)
    await in_thread(definitions.create_custom_resource_definition, definition)
    body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "color": "red"}
    await in_thread(objects.create_namespaced_custom_object, "example.com", "v1", "default", "things", body)
    found = await in_thread(objects.list_namespaced_custom_object, "example.com", "v1", "default", "things")
    assert [item["color"] for item in found["items"]] == ["red"]


async def test_a_dynamic_client_finds_its_way(api):
    dynamic = await in_thread(kubernetes.dynamic.DynamicClient, api)
    maps = await in_thread(dynamic.resources.get, api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}, "data": {"k": "v"}}
    applied = await in_thread(maps.server_side_apply, body=body, namespace="default", field_manager="test")
    assert applied.data.k == "v"
