"""Where the pods of a template may run: selectors, affinity, spreading and tolerations that an API server would refuse."""

from collections.abc import Mapping, Sequence
from typing import Final

from pumice import selectors
from pumice.api.meta import LabelSelector
from pumice.api.pods import (
    Affinity,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.names import dns_label_problem, dns_subdomain_problem, label_key_problem, label_value_problem
from pumice.api.validation.pod_shapes import PodSpec

WEIGHT_MAX: Final = 100
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def check_placement(findings: Findings, path: str, spec: PodSpec) -> None:
    check_labels(findings, f"{path}.nodeSelector", spec.node_selector)
    if spec.affinity is not None:
        _check_affinity(findings, f"{path}.affinity", spec.affinity)
    for index, toleration in enumerate(spec.tolerations):
        _check_toleration(findings, f"{path}.tolerations[{index}]", toleration)
    _check_spreading(findings, f"{path}.topologySpreadConstraints", spec.topology_spread_constraints)


def check_labels(findings: Findings, path: str, labels: Mapping[str, str]) -> None:
    for key, value in labels.items():
        if cause := label_key_problem(key):
            findings.refuse(path, cause, "correct the key", key)
        if cause := label_value_problem(value):
            findings.refuse(f"{path}[{key}]", cause, "correct the value", value)


def check_selector(findings: Findings, path: str, selector: LabelSelector | None) -> None:
    """A label selector that can be compiled; each requirement is named where it stands."""
    if selector is None:
        return
    check_labels(findings, f"{path}.matchLabels", selector.match_labels)
    for index, requirement in enumerate(selector.match_expressions):
        where = f"{path}.matchExpressions[{index}]"
        try:
            selectors.label_selector_of({}, [(requirement.key, requirement.operator, requirement.values)])
        except selectors.SelectorError as error:
            findings.refuse_as(where, error)


def _check_node_requirement(
    findings: Findings, path: str, requirement: NodeSelectorRequirement, *, preferred: bool
) -> None:
    try:
        selectors.node_selector_term_of([(requirement.key, requirement.operator, requirement.values)])
    except selectors.SelectorError as error:
        # Kubernetes lets some nonsense pass that no node can match: a bound that is no number, preferred values of any form.
        bound = requirement.operator in {"Gt", "Lt"} and len(requirement.values) == 1
        value = preferred and requirement.operator in {"In", "NotIn"} and requirement.values
        if (bound or value) and not label_key_problem(requirement.key):
            findings.warn(path, f"no node matches this: {error}")
        else:
            findings.refuse_as(path, error)


def _check_affinity(findings: Findings, path: str, affinity: Affinity) -> None:
    if affinity.node_affinity is not None:
        _check_node_affinity(findings, f"{path}.nodeAffinity", affinity.node_affinity)
    for name, to_pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if to_pods is not None:
            _check_pod_affinity(findings, f"{path}.{name}", to_pods)


def _check_node_affinity(findings: Findings, path: str, affinity: NodeAffinity) -> None:
    if affinity.required is not None:
        where = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        if not affinity.required.node_selector_terms:
            findings.refuse(where, "without a term no node fits", "add a term or remove the affinity")
        for index, term in enumerate(affinity.required.node_selector_terms):
            _check_term(findings, f"{where}[{index}]", term, preferred=False)
    for index, preferred in enumerate(affinity.preferred):
        where = f"{path}.{_PREFERRED}[{index}]"
        findings.within(f"{where}.weight", preferred.weight, 1, WEIGHT_MAX)
        _check_term(findings, f"{where}.preference", preferred.preference, preferred=True)


def _check_term(findings: Findings, path: str, term: NodeSelectorTerm, *, preferred: bool) -> None:
    for index, requirement in enumerate(term.match_expressions):
        _check_node_requirement(findings, f"{path}.matchExpressions[{index}]", requirement, preferred=preferred)
    for index, requirement in enumerate(term.match_fields):
        where = f"{path}.matchFields[{index}]"
        if requirement.key != selectors.NODE_NAME_FIELD:
            findings.refuse(
                f"{where}.key", "nodes can be selected by one field only", "use metadata.name", requirement.key
            )
        if requirement.operator not in {"In", "NotIn"} or len(requirement.values) != 1:
            findings.refuse(where, "needs In or NotIn and exactly one value", "write for example In [node-1]")
        for number, value in enumerate(requirement.values):
            findings.name(f"{where}.values[{number}]", value, dns_subdomain_problem)


def _check_pod_affinity(findings: Findings, path: str, affinity: PodAffinity) -> None:
    for index, term in enumerate(affinity.required):
        _check_pod_term(findings, f"{path}.{_REQUIRED}[{index}]", term)
    for index, weighted in enumerate(affinity.preferred):
        where = f"{path}.{_PREFERRED}[{index}]"
        findings.within(f"{where}.weight", weighted.weight, 1, WEIGHT_MAX)
        _check_pod_term(findings, f"{where}.podAffinityTerm", weighted.pod_affinity_term)


def _check_pod_term(findings: Findings, path: str, term: PodAffinityTerm) -> None:
    findings.name(f"{path}.topologyKey", term.topology_key, label_key_problem)
    check_selector(findings, f"{path}.labelSelector", term.label_selector)
    check_selector(findings, f"{path}.namespaceSelector", term.namespace_selector)
    for index, namespace in enumerate(term.namespaces):
        findings.name(f"{path}.namespaces[{index}]", namespace, dns_label_problem)


def _check_toleration(findings: Findings, path: str, toleration: Toleration) -> None:
    operator = toleration.operator or "Equal"
    if toleration.key:
        findings.name(f"{path}.key", toleration.key, label_key_problem)
    elif operator != "Exists":
        findings.refuse(
            f"{path}.operator", "must be Exists when the key is empty", "set a key, or use Exists", operator
        )
    if findings.choose(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt")):
        if operator == "Exists" and toleration.value:
            findings.refuse(
                f"{path}.operator",
                "Exists takes no value: must be empty",
                "remove the value, or use Equal",
                toleration.value,
            )
        elif operator != "Exists" and (cause := label_value_problem(toleration.value)):
            findings.refuse(f"{path}.value", cause, "correct the value", toleration.value)
    findings.choose(f"{path}.effect", toleration.effect, EFFECTS)
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        findings.refuse(
            f"{path}.effect", "must be NoExecute when tolerationSeconds is set", "use NoExecute", toleration.effect
        )


def _check_spreading(findings: Findings, path: str, constraints: Sequence[TopologySpreadConstraint]) -> None:
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        findings.within(f"{where}.maxSkew", constraint.max_skew, 1)
        findings.name(f"{where}.topologyKey", constraint.topology_key, label_key_problem)
        findings.choose(
            f"{where}.whenUnsatisfiable", constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway")
        )
        findings.choose(f"{where}.nodeAffinityPolicy", constraint.node_affinity_policy, ("Honor", "Ignore"))
        findings.choose(f"{where}.nodeTaintsPolicy", constraint.node_taints_policy, ("Honor", "Ignore"))
        findings.within(f"{where}.minDomains", constraint.min_domains, 1)
        if constraint.min_domains is not None and constraint.when_unsatisfiable != "DoNotSchedule":
            findings.refuse(
                f"{where}.minDomains", "can only be used with DoNotSchedule", "remove it", constraint.min_domains
            )
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            findings.refuse(where, "duplicate pair of topologyKey and whenUnsatisfiable", "keep one", list(key))
        seen.add(key)
        check_selector(findings, f"{where}.labelSelector", constraint.label_selector)
