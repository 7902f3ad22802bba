"""A spec with another laid over it."""

import pytest

from pumice.controllers.jobflow.patching import apply_patch

SPEC = {
    "minAvailable": 2,
    "queue": "research",
    "maxRetry": 5,
    "plugins": {"svc": [], "env": []},
    "tasks": [
        {
            "name": "master",
            "replicas": 1,
            "template": {
                "spec": {"containers": [{"name": "main", "image": "a", "env": [{"name": "X", "value": "1"}]}]}
            },
        },
        {"name": "worker", "replicas": 4, "policies": [{"event": "PodFailed", "action": "RestartJob"}]},
    ],
}


def test_what_is_not_mentioned_stays():
    assert apply_patch(SPEC, {}) == SPEC


def test_fields_are_replaced_and_null_removes():
    assert apply_patch(SPEC, {"minAvailable": 9, "plugins": {"svc": None}}) == {
        **SPEC,
        "minAvailable": 9,
        "plugins": {"env": []},
    }


def test_tasks_containers_and_variables_are_found_by_name():
    patch = {
        "tasks": [
            {"name": "worker", "replicas": 8},
            {
                "name": "master",
                "template": {"spec": {"containers": [{"name": "main", "env": [{"name": "Y", "value": "2"}]}]}},
            },
            {"name": "extra", "replicas": 1},
        ]
    }
    master, worker, extra = apply_patch(SPEC, patch)["tasks"]
    assert worker == {**SPEC["tasks"][1], "replicas": 8}
    (container,) = master["template"]["spec"]["containers"]
    assert container == {
        "name": "main",
        "image": "a",
        "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
    }
    assert extra == {"name": "extra", "replicas": 1}


def test_lists_without_names_are_replaced():
    policies = [{"event": "PodEvicted", "action": "AbortJob"}]
    patch = {"tasks": [{"name": "worker", "policies": policies}]}
    assert apply_patch(SPEC, patch)["tasks"][1]["policies"] == policies


@pytest.mark.parametrize(("field", "filled", "meant"), [("queue", "default", "other"), ("maxRetry", 3, 7)])
def test_what_the_schema_fills_in_is_nobodys_wish(field, filled, meant):
    assert apply_patch(SPEC, {"minAvailable": 1, field: filled})[field] == SPEC[field]
    assert apply_patch(SPEC, {field: meant})[field] == meant


def test_the_template_itself_is_not_changed():
    before = repr(SPEC)
    apply_patch(SPEC, {"tasks": [{"name": "master", "template": {"spec": {"containers": [{"name": "new"}]}}}]})
    assert repr(SPEC) == before
