"""The table of kinds says of the built-in kinds what a real API server says of them."""

from __future__ import annotations

import json
import ssl
import urllib.request

import pytest

from pumice.api import kinds
from pumice.api.decoding import decode_value

BUILT_IN = [kind for kind in kinds.KINDS if not kind.is_custom]
NOT_SERVED_BY_DEFAULT = {"scheduling.k8s.io/v1alpha2"}
SERVED = [kind for kind in BUILT_IN if kind.api_version not in NOT_SERVED_BY_DEFAULT]


def root(kind):
    return f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"


@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: kind.resource)
def test_a_built_in_kind_is_named_as_discovery_names_it(plane, kind):
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


@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: kind.resource)
def test_a_built_in_kind_prints_the_columns_that_the_server_prints(plane, kind):
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
