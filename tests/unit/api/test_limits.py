"""How much one object may ask for."""

import pytest

from pumice.api.validation import limits
from pumice.api.validation.limits import excess


def pods(**lists):
    return {"spec": {"tasks": [{"template": {"spec": lists}}]}}


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ({"spec": {"tasks": [{}] * 1001}}, "spec.tasks: 1001 entries, at most 1000 (TASKS_MAX)"),
        (
            pods(containers=[{}] * 257),
            "spec.tasks[0].template.spec.containers: 257 entries, at most 256 (CONTAINERS_MAX)",
        ),
        (pods(initContainers=[{}] * 257), "at most 256 (CONTAINERS_MAX)"),
        ({"spec": {"flows": [{}] * 1001}}, "spec.flows: 1001 entries, at most 1000 (FLOWS_MAX)"),
        ({"spec": {"members": [{}] * 10_001}}, "at most 10000 (MEMBERS_MAX)"),
        ({"spec": {"subGroupPolicy": [{}] * 257}}, "at most 256 (SUB_GROUP_POLICIES_MAX)"),
        ({"spec": {"anything": [0] * 10_001}}, "spec.anything: 10001 entries, at most 10000 (LIST_MAX)"),
        ({"metadata": {"labels": {str(number): "" for number in range(10_001)}}}, "metadata.labels: 10001 entries"),
        (pods(volumes=[{"items": [{}] * 5000}] * 11), "more than 100000 values up to here (VALUES_MAX)"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_too_much_is_told_with_the_name_of_its_limit(subject, said):
    assert said in excess(subject)


@pytest.mark.parametrize(
    "subject",
    [
        {},
        {"spec": {"tasks": [{}] * limits.TASKS_MAX}},
        pods(containers=[{"env": [{"name": str(number)} for number in range(1000)]}] * 16),
        {"spec": {"containers": "text", "tasks": None}},
    ],
    ids=["nothing", "as many tasks as may be", "large", "of the wrong type"],
)
def test_what_is_not_too_much_passes(subject):
    assert excess(subject) == ""


def test_an_object_nested_as_deeply_as_a_body_allows_is_counted_without_recursion():
    subject = [0] * (limits.LIST_MAX + 1)
    for _ in range(10_000):
        subject = {"a": subject}
    assert excess(subject).startswith("a.a.a.")
