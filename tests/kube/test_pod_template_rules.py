"""What we refuse in a pod template, a real API server refuses, and the other way round; at the same field."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.cases import pod_templates

if TYPE_CHECKING:
    from tools.kube.control_plane import ControlPlane

UNPROCESSABLE = 422
CREATED = 201


def fields(path: str) -> str:
    """The path without indices: the server leaves some of them out."""
    return re.sub(r"\[[^\]]*\]", "", path)


def near(ours: str, theirs: str) -> bool:
    """One of us may be more exact, and the server blames some fields for their neighbours."""
    a, b = fields(ours), fields(theirs)
    same_object = "." in a and a.rpartition(".")[0] == b.rpartition(".")[0]
    return a.startswith(b) or b.startswith(a) or b.endswith(a) or a.endswith(b) or same_object


@pytest.mark.parametrize("case", pod_templates.ACCEPTED, ids=lambda case: case.id)
def test_a_good_template_is_accepted(plane: ControlPlane, case: pod_templates.Case) -> None:
    body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": case.template()}
    answer = plane.request("POST", "/api/v1/namespaces/default/podtemplates?dryRun=All", body)
    assert answer.status == CREATED, answer.body


@pytest.mark.parametrize("case", pod_templates.REFUSED, ids=lambda case: case.id)
def test_a_bad_template_is_refused_for_the_same_field(plane: ControlPlane, case: pod_templates.Case) -> None:
    body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": case.template()}
    answer = plane.request("POST", "/api/v1/namespaces/default/podtemplates?dryRun=All", body)
    assert answer.status == UNPROCESSABLE, answer.body
    paths = [
        cause["field"].removeprefix("template.").removeprefix("spec.") for cause in answer.body["details"]["causes"]
    ]
    assert any(near(case.refused, path) for path in paths), paths


@pytest.mark.parametrize("case", pod_templates.REFUSED_AS_PODS, ids=lambda case: case.id)
def test_a_template_may_be_bad_only_for_pods(plane: ControlPlane, case: pod_templates.Case) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", **case.template()}
    pod["metadata"] |= {"name": "p"}
    answer = plane.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
    assert answer.status == UNPROCESSABLE, answer.body
    (cause,) = answer.body["details"]["causes"]
    assert near(case.refused, cause["field"].removeprefix("spec."))
