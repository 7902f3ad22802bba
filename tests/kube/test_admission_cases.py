"""The table of admission rules speaks about objects that a real API server takes: only our rules could refuse them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.cases import admission

from pumice.api import kinds

if TYPE_CHECKING:
    from tools.kube.control_plane import ControlPlane

CREATED = 201
ACCEPTED = [case for case in admission.CASES if case.operation == "CREATE" and not case.refused]


def collection(subject: dict[str, Any]) -> str:
    kind = kinds.by_kind(subject["apiVersion"], subject["kind"])
    group = f"apis/{kind.group}" if kind.group else "api"
    return "/".join(["", group, kind.version, *(["namespaces", "default"] if kind.namespaced else []), kind.plural])


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: f"{case.kind} {case.id}")
def test_what_our_rules_accept_the_schemas_accept(plane: ControlPlane, crds: None, case: admission.Case) -> None:
    assert case.new is not None
    subject = case.new | {"metadata": {key: value for key, value in case.new["metadata"].items() if key != "namespace"}}
    answer = plane.request("POST", f"{collection(subject)}?dryRun=All&fieldValidation=Strict", subject)
    assert answer.status == CREATED, answer.body["message"]
