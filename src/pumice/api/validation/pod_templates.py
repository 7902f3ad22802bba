"""Pod templates: refused when the job is submitted, not when its pods are made and the user no longer looks.

These are the rules of Kubernetes' own validation that people run into; an API server applies all of them to the pods.
"""

import ipaddress
from typing import Final

import msgspec

from pumice.api.validation.container_resources import check_pod_requirements
from pumice.api.validation.containers import ID_MAX, RESTART_POLICIES, check_containers, check_seccomp
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.names import (
    dns_label_problem,
    dns_subdomain_problem,
    label_key_problem,
    qualified_name_problem,
)
from pumice.api.validation.placement import check_labels, check_placement
from pumice.api.validation.pod_shapes import PodSpec, PodTemplate
from pumice.api.validation.volumes import check_volumes

ANNOTATIONS_BYTES_MAX: Final = 256 * 2**10
NAME_SERVERS_MAX: Final = 3
SEARCHES_MAX: Final = 32
SECONDS_MAX: Final = 2**31 - 1
DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")


def check_template(findings: Findings, path: str, raw: msgspec.Raw) -> PodTemplate | None:
    """The template as far as it could be read; its errors are in the findings."""
    template = findings.decode(path, PodTemplate, raw)
    if template is None:
        return None
    check_labels(findings, f"{path}.metadata.labels", template.metadata.labels)
    annotations = template.metadata.annotations
    for key in annotations:
        if cause := label_key_problem(key.lower()):
            findings.refuse(f"{path}.metadata.annotations", cause, "correct the key", key)
    if sum(len(key) + len(value) for key, value in annotations.items()) > ANNOTATIONS_BYTES_MAX:
        findings.refuse(f"{path}.metadata.annotations", f"more than {ANNOTATIONS_BYTES_MAX} bytes", "use a ConfigMap")
    check_pod_spec(findings, f"{path}.spec", template.spec)
    return template


def check_pod_spec(findings: Findings, path: str, spec: PodSpec) -> None:
    check_volumes(findings, f"{path}.volumes", spec.volumes)
    check_containers(findings, path, spec)
    check_pod_requirements(findings, f"{path}.resources", spec)
    check_placement(findings, path, spec)
    _check_lifetime(findings, path, spec)
    _check_network(findings, path, spec)
    _check_security(findings, path, spec)
    _check_references(findings, path, spec)
    _check_gates(findings, path, spec)


def _check_lifetime(findings: Findings, path: str, spec: PodSpec) -> None:
    findings.choose(f"{path}.restartPolicy", spec.restart_policy, RESTART_POLICIES)
    findings.within(f"{path}.activeDeadlineSeconds", spec.active_deadline_seconds, 1, SECONDS_MAX)
    findings.choose(f"{path}.preemptionPolicy", spec.preemption_policy, ("PreemptLowerPriority", "Never"))
    if spec.ephemeral_containers:
        findings.refuse(
            f"{path}.ephemeralContainers", "ephemeral containers not allowed in pod template", "remove them"
        )


def _check_network(findings: Findings, path: str, spec: PodSpec) -> None:
    for field, value in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if value:
            findings.name(f"{path}.{field}", value, dns_label_problem)
    findings.choose(f"{path}.dnsPolicy", spec.dns_policy, DNS_POLICIES)
    servers = spec.dns_config.nameservers if spec.dns_config else ()
    searches = spec.dns_config.searches if spec.dns_config else ()
    if spec.dns_policy == "None" and not servers:
        where = f"{path}.dnsConfig.nameservers" if spec.dns_config else f"{path}.dnsConfig"
        findings.refuse(where, "dnsPolicy None needs name servers", "list one, or choose another dnsPolicy")
    if len(servers) > NAME_SERVERS_MAX:
        findings.refuse(
            f"{path}.dnsConfig.nameservers", f"more than {NAME_SERVERS_MAX}", "keep the first ones", len(servers)
        )
    if len(searches) > SEARCHES_MAX:
        findings.refuse(f"{path}.dnsConfig.searches", f"more than {SEARCHES_MAX}", "keep the first ones", len(searches))
    for index, server in enumerate(servers):
        _check_address(findings, f"{path}.dnsConfig.nameservers[{index}]", server)
    for index, alias in enumerate(spec.host_aliases):
        _check_address(findings, f"{path}.hostAliases[{index}].ip", alias.ip)
        for number, name in enumerate(alias.hostnames):
            findings.name(f"{path}.hostAliases[{index}].hostnames[{number}]", name, dns_subdomain_problem)


def _check_address(findings: Findings, path: str, address: str) -> None:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        findings.refuse(path, "not an IP address", "write for example 10.0.0.10 or fd00::10", address)


def _check_security(findings: Findings, path: str, spec: PodSpec) -> None:
    if spec.host_pid and spec.share_process_namespace:
        findings.refuse(
            f"{path}.shareProcessNamespace", "hostPID and shareProcessNamespace cannot both be enabled", "keep one"
        )
    security = spec.security_context
    if security is None:
        return
    where = f"{path}.securityContext"
    findings.within(f"{where}.runAsUser", security.run_as_user, 0, ID_MAX)
    findings.within(f"{where}.runAsGroup", security.run_as_group, 0, ID_MAX)
    findings.within(f"{where}.fsGroup", security.fs_group, 0, ID_MAX)
    for index, group in enumerate(security.supplemental_groups):
        findings.within(f"{where}.supplementalGroups[{index}]", group, 0, ID_MAX)
    findings.choose(f"{where}.fsGroupChangePolicy", security.fs_group_change_policy, ("OnRootMismatch", "Always"))
    if security.seccomp_profile is not None:
        check_seccomp(findings, f"{where}.seccompProfile", security.seccomp_profile)


def _check_references(findings: Findings, path: str, spec: PodSpec) -> None:
    for field, value in (
        ("serviceAccountName", spec.service_account_name),
        ("priorityClassName", spec.priority_class_name),
        ("runtimeClassName", spec.runtime_class_name),
        ("nodeName", spec.node_name),
    ):
        if value:
            findings.name(f"{path}.{field}", value, dns_subdomain_problem)
    seen: set[str] = set()
    for index, claim in enumerate(spec.resource_claims):
        where = f"{path}.resourceClaims[{index}]"
        if findings.name(f"{where}.name", claim.name, dns_label_problem):
            if claim.name in seen:
                findings.refuse(f"{where}.name", "duplicate resource claim", "rename it", claim.name)
            seen.add(claim.name)
        options = {
            "resourceClaimName": claim.resource_claim_name,
            "resourceClaimTemplateName": claim.resource_claim_template_name,
        }
        findings.only_one(where, [name for name, value in options.items() if value is not None], list(options))


def _check_gates(findings: Findings, path: str, spec: PodSpec) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(spec.scheduling_gates):
        where = f"{path}.schedulingGates[{index}]"
        if findings.name(f"{where}.name" if not gate.name else where, gate.name, qualified_name_problem):
            if gate.name in seen:
                findings.refuse(where, "duplicate scheduling gate", "keep one", gate.name)
            seen.add(gate.name)
    if spec.node_name and spec.scheduling_gates:
        findings.refuse(f"{path}.nodeName", "a pod with scheduling gates cannot have a node yet", "remove one of them")
    for index, readiness in enumerate(spec.readiness_gates):
        findings.name(f"{path}.readinessGates[{index}].conditionType", readiness.condition_type, qualified_name_problem)
