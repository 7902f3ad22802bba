"""Pod templates: refused at the field that is wrong, and only there. A kube test asks a real API server the same."""

import msgspec
import pytest
from tests.cases import pod_templates
from tests.manifests import cases as manifests

from pumice.api.validation.field_errors import Findings
from pumice.api.validation.pod_templates import check_template

PATH = "spec.tasks[2].template"


def errors_of(template):
    findings = Findings()
    check_template(findings, PATH, msgspec.Raw(msgspec.json.encode(template)))
    return findings.errors


@pytest.mark.parametrize("case", pod_templates.ACCEPTED, ids=lambda case: case.id)
def test_a_good_template_is_accepted(case):
    assert errors_of(case.template()) == []


@pytest.mark.parametrize("case", pod_templates.REFUSED + pod_templates.REFUSED_AS_PODS, ids=lambda case: case.id)
def test_a_bad_template_is_refused_for_its_one_bad_field(case):
    part = "" if case.refused.startswith("metadata") else "spec."
    assert [error.path for error in errors_of(case.template())] == [f"{PATH}.{part}{case.refused}"]


@pytest.mark.parametrize("case", pod_templates.REFUSED, ids=lambda case: case.id)
def test_a_refusal_names_a_cause_and_a_next_step(case):
    (error,) = errors_of(case.template())
    assert len(error.cause) > 5
    assert len(error.next_step) > 3
    assert str(error).startswith(f"{error.path}: ")


@pytest.mark.parametrize(
    ("path", "value", "refused"),
    [
        ("containers", "none", "spec.containers"),
        ("containers[0].name", 5, "spec.containers[0].name"),
        ("containers[0].ports", [{"containerPort": "80"}], "spec.containers[0].ports[0].containerPort"),
        ("volumes", [{"name": "data", "hostPath": "/var"}], "spec.volumes[0].hostPath"),
        ("nodeSelector", {"a": 1}, "spec.nodeSelector[...]"),
    ],
)
def test_what_has_the_wrong_type_is_refused_where_it_stands(path, value, refused):
    case = pod_templates.Case("", {path: value})
    assert [error.path for error in errors_of(case.template())] == [f"{PATH}.{refused}"]


def test_nulls_count_as_absent():
    assert errors_of(pod_templates.Case("", {"containers[0].env": None, "nodeSelector": None}).template()) == []


def test_every_pod_field_that_exists_is_read_without_complaint_about_its_type():
    (case,) = [case for case in manifests.valid() if case.id == "job-every-pod-field"]
    for task in case.object["spec"]["tasks"]:
        assert not [error for error in errors_of(task["template"]) if "xpected" in error.cause]


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ({"containers[0].volumeMounts": [{"name": "x", "mountPath": "/x"}]}, ["not found", "spec.volumes"]),
        ({"restartPolicy": "OnFail"}, ["unsupported value", "did you mean OnFailure?"]),
        ({"containers[0].resources": {"requests": {"nvidia.com/gpu": 1}}}, ["nvidia.com/gpu", "limit must be set"]),
        ({"containers[0].resources": {"requests": {"memory": "1GB"}}}, ["1GB", "G (powers of 1000) or Gi"]),
    ],
)
def test_messages_say_what_people_look_for(edits, words):
    (error,) = errors_of(pod_templates.Case("", edits).template())
    assert all(word in str(error) for word in words), str(error)
