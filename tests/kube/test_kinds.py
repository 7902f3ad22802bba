"""The table of kinds says of the built-in kinds what a real API server says of them."""

from __future__ import annotations

import json
import ssl
import urllib.request

import pytest
from tools.kube.control_plane import ControlPlane

from pumice.api import kinds, native, pods
from pumice.api.decoding import decode_value

BUILT_IN = [kind for kind in kinds.KINDS if not kind.is_custom]
ALPHA = [kind for kind in BUILT_IN if "alpha" in kind.version]
SERVED = [kind for kind in BUILT_IN if "alpha" not in kind.version]


def root(kind):
    return f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"


@pytest.fixture(scope="module")
def alpha_plane(binaries):
    """A control plane that serves Kubernetes' own gangs."""
    with ControlPlane(
        feature_gates={"GenericWorkload": True}, runtime_config={"scheduling.k8s.io/v1alpha2": True}
    ) as plane:
        yield plane


@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: kind.resource)
def test_a_built_in_kind_is_named_as_discovery_names_it(plane, kind):
    compare_names(plane, kind)


@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: kind.resource)
def test_a_built_in_kind_prints_the_columns_that_the_server_prints(plane, kind):
    compare_columns(plane, kind)


@pytest.mark.parametrize("kind", ALPHA, ids=lambda kind: kind.resource)
def test_an_alpha_kind_is_named_and_printed_as_the_server_does_it(alpha_plane, kind):
    compare_names(alpha_plane, kind)
    compare_columns(alpha_plane, kind)


def compare_names(plane, kind):
    resources = plane.request("GET", root(kind)).body["resources"]
    (found,) = [resource for resource in resources if resource["name"] == kind.plural]
    assert found["kind"] == kind.kind
    assert found["singularName"] == kind.singular
    assert tuple(found.get("shortNames", ())) == kind.short_names
    assert found["namespaced"] == kind.namespaced
    assert tuple(found.get("categories", ())) == kind.categories
    offered = {
        resource["name"].partition("/")[2] for resource in resources if resource["name"].startswith(f"{kind.plural}/")
    }
    assert set(kind.subresources) <= offered


def compare_columns(plane, kind):
    columns = [
        (column["name"], column["priority"])
        for column in table(plane, f"{root(kind)}/{kind.plural}")["columnDefinitions"]
    ]
    ours = [(column.name, column.priority) for column in kind.columns]
    assert columns == (ours if "Name" in dict(ours) else [("Name", 0), *ours])


def table(plane, path):
    request = urllib.request.Request(plane.url + path)
    request.add_header("Authorization", f"Bearer {plane.token}")
    request.add_header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=str(plane.ca))) as answer:
        return json.load(answer)


@pytest.mark.parametrize("kind", [kind for kind in SERVED if kind.struct], ids=lambda kind: kind.resource)
def test_every_object_of_a_fresh_cluster_is_read_by_its_struct(plane, kind):
    for item in plane.request("GET", f"{root(kind)}/{kind.plural}").body["items"]:
        assert decode_value(kind.struct, item).metadata.uid == item["metadata"]["uid"]


def test_kubernetes_own_gangs_are_read_as_far_as_we_read_them(alpha_plane):
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {
            "podGroupTemplateRef": {"workload": {"workloadName": "train", "podGroupTemplateName": "workers"}},
            "schedulingPolicy": {"gang": {"minCount": 4}},
        },
    }
    workload = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "Workload",
        "metadata": {"name": "train"},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
            "podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 4}}}],
        },
    }
    path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default"
    created(alpha_plane, f"{path}/workloads", workload)  # a PodGroup without it is refused
    read = decode_value(native.NativePodGroup, created(alpha_plane, f"{path}/podgroups", group))
    assert read.spec.scheduling_policy.gang.min_count == 4
    pod = {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "main", "image": "a"}], "schedulingGroup": {"podGroupName": "gang"}},
    }
    read = decode_value(pods.Pod, created(alpha_plane, "/api/v1/namespaces/default/pods", pod))
    assert read.spec.scheduling_group.pod_group_name == "gang"


def created(plane, path, document):
    answer = plane.request("POST", path, document)
    assert answer.status == 201, answer.body
    return answer.body
