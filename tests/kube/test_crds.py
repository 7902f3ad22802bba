"""Our kinds on a real API server: installed as users install them, accepting, refusing, keeping and printing."""

from __future__ import annotations

import json

import pytest
from tests.manifests import cases

from pumice import yamltext
from pumice.api import kinds
from pumice.cli.crds import manifests

CRDS = [f"crd/{kind.resource}" for kind in kinds.CUSTOM_KINDS]


def path_of(kind, namespace, name="", subresource=""):
    parts = ["", "apis", kind.group, kind.version, *(["namespaces", namespace] if kind.namespaced else []), kind.plural]
    return "/".join([*parts, *([name] if name else []), *([subresource] if subresource else [])])


def kind_of(document):
    return kinds.by_kind(document["apiVersion"], document["kind"])


@pytest.fixture
def create(plane, namespace, crds):
    """Creates an object with strict field validation; what belongs to no namespace is gone after the test."""
    made = []

    def create_object(document):
        kind = kind_of(document)
        answer = plane.request("POST", path_of(kind, namespace) + "?fieldValidation=Strict", document)
        if answer.status == 201 and not kind.namespaced:
            made.append(path_of(kind, namespace, document["metadata"]["name"]))
        return answer

    yield create_object
    for path in made:
        plane.request("DELETE", path)


# ------------------------------------------------------------------------------------------------ installing


def test_a_fresh_server_takes_the_crds_and_establishes_them(plane, crds):
    for kind in kinds.CUSTOM_KINDS:
        crd = plane.request("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.resource}").body
        conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
        assert conditions == {"Established": "True", "NamesAccepted": "True"}, kind.resource


def test_client_side_apply_takes_the_crds_and_a_second_time_changes_nothing(plane, crds):
    first = plane.kubectl("apply", "-f", "-", input=manifests()).stdout
    second = plane.kubectl("apply", "-f", "-", input=manifests()).stdout
    assert len(first.splitlines()) == len(kinds.CUSTOM_KINDS)
    assert [line for line in second.splitlines() if not line.endswith(" unchanged")] == []
    assert plane.kubectl("wait", "--for=condition=Established", "--timeout=120s", *CRDS)


def test_server_side_apply_takes_the_crds(plane, crds):
    said = plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=manifests()).stdout
    assert [line for line in said.splitlines() if not line.endswith(" serverside-applied")] == []


def test_kubectl_finds_our_kinds_by_their_short_names(plane, crds):
    rows = plane.kubectl("api-resources", "--no-headers", "-o", "wide").stdout.splitlines()
    short_names = {tuple(row.split()[1].split(",")) for row in rows if "volcano.sh" in row}
    assert {kind.short_names for kind in kinds.CUSTOM_KINDS if kind.short_names} <= short_names


# ------------------------------------------------------------------------------------------------ accepting and keeping


@pytest.mark.parametrize("case", cases.valid(), ids=lambda case: case.id)
def test_a_valid_object_is_accepted_and_nothing_in_it_is_lost(plane, namespace, create, case):
    kind = kind_of(case.object)
    answer = create(case.object)
    assert answer.status == 201, answer.body
    kept = answer.body
    if kind.has_status and "status" in case.object:
        assert "status" not in kept, "status is not for users to create"
        path = path_of(kind, namespace, kept["metadata"]["name"], "status")
        answer = plane.request("PUT", path + "?fieldValidation=Strict", kept | {"status": case.object["status"]})
        assert answer.status == 200, answer.body
        kept = answer.body
    assert lost(case.object, kept, "") == []


def lost(wrote, kept, path):
    """Paths of what was written and did not come back; defaults may have been added, and a null means nothing."""
    if isinstance(wrote, dict) and isinstance(kept, dict):
        return [p for key, value in wrote.items() for p in lost(value, kept.get(key), f"{path}.{key}")]
    if isinstance(wrote, list) and isinstance(kept, list) and len(wrote) == len(kept):
        return [p for i, value in enumerate(wrote) for p in lost(value, kept[i], f"{path}[{i}]")]
    return [] if wrote is None or wrote == kept else [path]


def test_what_is_absent_gets_the_defaults_that_the_structs_have_too(create):
    task = {
        "name": "a",
        "replicas": 1,
        "partitionPolicy": {"totalPartitions": 1, "partitionSize": 1, "networkTopology": {}},
    }
    job = create(
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"tasks": [task]}}
    )
    assert job.body["spec"]["queue"] == "default"
    assert job.body["spec"]["maxRetry"] == 3
    assert job.body["spec"]["tasks"][0]["partitionPolicy"]["minPartitions"] == 0
    assert job.body["spec"]["tasks"][0]["partitionPolicy"]["networkTopology"] == {"mode": "hard"}


# ------------------------------------------------------------------------------------------------ refusing


@pytest.mark.parametrize("case", cases.invalid(), ids=lambda case: case.id)
def test_an_invalid_object_is_refused_with_the_path_of_the_field(plane, crds, case):
    path = path_of(kind_of(case.object), "default")
    answer = plane.request("POST", path + "?fieldValidation=Strict&dryRun=All", case.object)
    assert answer.status == 422, answer.body
    assert case.refused in {cause["field"] for cause in answer.body["details"]["causes"]}, answer.body["message"]


def test_kubectl_reports_a_misspelt_field_of_a_pod_template(kubectl, crds):
    job = next(case.object for case in cases.valid() if case.id == "job-small")
    (task,) = job["spec"]["tasks"]
    task["template"]["spec"]["nodeSelecter"] = {"gpu": "h200"}
    refused = kubectl("create", "-f", "-", input=json.dumps(job), check=False)
    assert refused.returncode != 0
    assert 'unknown field "spec.tasks[0].template.spec.nodeSelecter"' in refused.stderr


# ------------------------------------------------------------------------------------------------ the pod template


def test_the_pod_template_has_every_field_of_the_servers_own_and_no_other(plane):
    core = plane.request("GET", "/openapi/v3/api/v1").body["components"]["schemas"]
    theirs = {"$ref": "#/components/schemas/io.k8s.api.core.v1.PodTemplateSpec"}
    jobs = next(
        crd for crd in yamltext.load_all(manifests(), source="pumice crds") if crd["spec"]["names"]["plural"] == "jobs"
    )
    (version,) = jobs["spec"]["versions"]
    tasks = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["tasks"]
    template = tasks["items"]["properties"]["template"]
    assert list(unlike(template, theirs, core, "")) == []

    env = template["properties"]["spec"]["properties"]["containers"]["items"]["properties"]["env"]["items"]
    del env["properties"]["valueFrom"], env["required"]
    env["properties"] |= {"value": {"type": "integer"}, "extra": {"type": "string"}}
    found = ["extra: not there", "name: not required here", "value: string there, integer here", "valueFrom: not here"]
    assert sorted(unlike(template, theirs, core, "")) == [f".spec.containers[].env[].{each}" for each in found]


QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"


def unlike(mine, theirs, core, path):
    """Where our schema of something differs from the server's, except below what we keep unseen."""
    reference = theirs.get("$ref") or next((part["$ref"] for part in theirs.get("allOf", ())), "")
    name = reference.rpartition("/")[2]
    if name in (QUANTITY, INT_OR_STRING):
        if not mine.get("x-kubernetes-int-or-string"):
            yield f"{path}: int or string there, {mine.get('type')} here"
        return
    theirs = core[name] if name else theirs
    if mine.get("type") != theirs.get("type"):
        yield f"{path}: {theirs.get('type')} there, {mine.get('type')} here"
    elif "items" in theirs:
        yield from unlike(mine["items"], theirs["items"], core, path + "[]")
    elif "additionalProperties" in theirs:
        yield from unlike(mine["additionalProperties"], theirs["additionalProperties"], core, path + "{}")
    elif not mine.get("x-kubernetes-preserve-unknown-fields"):
        here, there = mine.get("properties", {}), theirs.get("properties", {})
        yield from (f"{path}.{field}: not here" for field in there.keys() - here.keys())
        yield from (f"{path}.{field}: not there" for field in here.keys() - there.keys())
        yield from (
            f"{path}.{field}: not required here"
            for field in set(theirs.get("required", ())) - set(mine.get("required", ()))
        )
        yield from (
            f"{path}.{field}: not required there"
            for field in set(mine.get("required", ())) - set(theirs.get("required", ()))
        )
        for field in here.keys() & there.keys():
            yield from unlike(here[field], there[field], core, f"{path}.{field}")


# ------------------------------------------------------------------------------------------------ printing


@pytest.mark.parametrize(
    ("case", "resource", "narrow", "wide", "row"),
    [
        (
            "job-every-field",
            "vcjob",
            "NAME STATUS MINAVAILABLE RUNNINGS AGE",
            "QUEUE",
            ["every-field", "Running", "5", "2"],
        ),
        (
            "podgroup-every-field",
            "pg",
            "NAME STATUS MINMEMBER RUNNINGS AGE",
            "QUEUE",
            ["every-field", "Inqueue", "5", "1"],
        ),
        ("queue-every-field", "q", "NAME PARENT", "", ["every-field", "root"]),
        ("jobflow-every-field", "jf", "NAME STATUS AGE", "", ["every-field", "Running"]),
        ("hypernode-every-field", "hn", "NAME TIER TIERNAME NODECOUNT AGE", "", ["every-field", "2", "spine", "16"]),
        ("nodeshard-every-field", "nsh", "NAME AGE", "", ["every-field"]),
        ("cronjob-every-field", "cronvcjob", "NAME AGE", "", ["every-field"]),
        ("jobtemplate-every-field", "jt", "NAME AGE", "", ["train"]),
        ("command-every-field", "commands.bus.volcano.sh", "NAME AGE", "", ["every-field"]),
        ("numatopology-every-field", "numatopo", "NAME AGE", "", ["node-1"]),
        ("colocationconfiguration-every-field", "colocationconfigurations", "NAME AGE", "", ["every-field"]),
    ],
)
def test_kubectl_prints_our_columns(plane, kubectl, namespace, create, case, resource, narrow, wide, row):
    document = next(one.object for one in cases.valid() if one.id == case)
    kind = kind_of(document)
    made = create(document).body
    if kind.has_status:
        path = path_of(kind, namespace, made["metadata"]["name"], "status")
        assert plane.request("PUT", path, made | {"status": document["status"]}).status == 200
    heading, line = kubectl("get", resource, made["metadata"]["name"]).stdout.splitlines()
    assert heading.split() == narrow.split()
    assert line.split()[: len(row)] == row
    assert kubectl("get", resource, "-o", "wide").stdout.splitlines()[0].split() == [*narrow.split(), *wide.split()]


def test_a_pod_groups_status_is_written_through_the_object_itself(plane, namespace, create):
    group = create(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "a"},
            "spec": {},
            "status": {"phase": "Pending"},
        }
    )
    assert group.body["status"] == {"phase": "Pending"}
    kind = kind_of(group.body)
    changed = plane.request("PUT", path_of(kind, namespace, "a"), group.body | {"status": {"phase": "Inqueue"}})
    assert changed.body["status"] == {"phase": "Inqueue"}
    assert plane.request("GET", path_of(kind, namespace, "a", "status")).status == 404
