"""Whatever somebody writes into an object, admission answers: it never raises, and what it patches can be applied."""

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import admission

from pumice.api import defaults, validation
from pumice.api.validation import Operation, Request

WORLD = admission.World((*admission.QUEUES, *admission.NODES, *admission.TEMPLATES, admission.TEAM))
SUBJECTS = [case.new for case in admission.CASES if case.new is not None]
PATCHES = {
    "Job": defaults.job_patch,
    "Queue": defaults.queue_patch,
    "PodGroup": lambda subject: defaults.pod_group_patch(subject, {"scheduling.volcano.sh/queue-name": "q"}),
}

words = st.sampled_from(["", "x", "-1", "1e99", "1Gi", "*", "a/b/c", "$" * 300, "PodFailed", "q", "é\u0000"])
leaves = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | words
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=6
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in the value, with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from places(item)


@st.composite
def spoilt(draw: st.DrawFn) -> Any:
    """A good object with up to three fields replaced by anything; kind and metadata as a server guarantees them."""
    subject = copy.deepcopy(draw(st.sampled_from(SUBJECTS)))
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(list(places({"spec": subject["spec"]}))))
        if key == "spec" and container.keys() == {"spec"}:
            subject["spec"] = draw(values)
            break
        container[key] = draw(values)
    return subject


@given(subject=spoilt(), old=st.sampled_from(SUBJECTS))
def test_rules_answer_whatever_they_are_asked(subject: Any, old: Any) -> None:
    for request in (
        Request(Operation.CREATE, new=subject, lookup=WORLD),
        Request(Operation.UPDATE, new=subject, old=old, lookup=WORLD),
        Request(Operation.UPDATE, new=old, old=subject, lookup=WORLD),
        Request(Operation.DELETE, old=subject, lookup=WORLD),
    ):
        findings = validation.review(subject["kind"], request)
        msgspec.json.encode([findings.errors, findings.warnings, validation.message(findings.errors)])


@given(subject=spoilt())
def test_patches_can_be_applied_to_whatever_they_were_made_for(subject: Any) -> None:
    patch = PATCHES.get(subject["kind"], lambda _: [])(subject)
    defaults.apply_patch(subject, patch)
