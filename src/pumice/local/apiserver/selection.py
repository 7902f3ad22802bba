"""Which entries a list, watch or deletecollection means: namespace, labels, fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import selectors
from pumice.local.apiserver import failures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.local.apiserver.history import Entry


def _paths(*labels: str) -> dict[str, tuple[str, ...]]:
    return {label: tuple(label.split(".")) for label in labels}


_EVENT_FIELDS = {
    **_paths(
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    ),
    "source": ("source", "component"),
    # The same fields by the names of events.k8s.io.
    "regarding.kind": ("involvedObject", "kind"),
    "regarding.namespace": ("involvedObject", "namespace"),
    "regarding.name": ("involvedObject", "name"),
    "regarding.uid": ("involvedObject", "uid"),
    "reportingController": ("reportingComponent",),
}

# Fields by which a collection can be selected, besides metadata.name and metadata.namespace.
FIELDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "pods": _paths(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "events": _EVENT_FIELDS,
    "namespaces": _paths("status.phase"),
    "nodes": _paths("spec.unschedulable"),
    "secrets": _paths("type"),
    "replicationcontrollers": _paths("status.replicas"),
    "replicasets.apps": _paths("status.replicas"),
    "jobs.batch": _paths("status.successful"),
}
# A field that is absent but counts as having this value, because a real server decodes into a typed zero.
_ZERO = {"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.replicas": "0"}


def compile_selection(
    query: Mapping[str, str], *, namespace: str, name: str, fields: Mapping[str, tuple[str, ...]]
) -> Callable[[Entry], bool]:
    """True for the entries that the query means; a selector that cannot be read is a bad request."""
    labels = query.get("labelSelector", "")
    try:
        label_selector = selectors.parse_label_selector(labels) if labels else None
        field_selector = selectors.parse_field_selector(query.get("fieldSelector", ""))
    except selectors.SelectorError as error:
        raise failures.bad_request(f"unable to parse requirement: {error}") from error
    tests: list[Callable[[Entry], bool]] = []
    if namespace:
        tests.append(lambda entry: entry.namespace == namespace)
    if name:
        tests.append(lambda entry: entry.name == name)
    if label_selector is not None:
        matches = label_selector.matches
        tests.append(lambda entry: matches(entry.labels))
    order = list(fields)
    for field, value, wanted in field_selector.terms:
        tests.append(_field_test(field, value, order, wanted=wanted))
    if not tests:
        return lambda _: True
    if len(tests) == 1:
        return tests[0]
    return lambda entry: all(test(entry) for test in tests)


def _field_test(field: str, value: str, order: list[str], *, wanted: bool) -> Callable[[Entry], bool]:
    if field == "metadata.name":
        return lambda entry: (entry.name == value) is wanted
    if field == "metadata.namespace":
        return lambda entry: (entry.namespace == value) is wanted
    if field not in order:
        raise failures.bad_request(_unsupported_message(field, order))
    index, zero = order.index(field), _ZERO.get(field, "")
    return lambda entry: ((entry.fields[index] or zero) == value) is wanted


def _unsupported_message(field: str, order: list[str]) -> str:
    if order:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
