"""Containers of a pod template: what an API server would refuse when a pod is made from it."""

import re
from collections.abc import Sequence
from typing import Final

from pumice.api.validation.container_resources import check_requirements
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.names import (
    data_key_problem,
    dns_label_problem,
    environment_problem,
    port_name_problem,
)
from pumice.api.validation.pod_shapes import (
    Container,
    ContainerSecurity,
    Handler,
    PodSpec,
    Port,
    Probe,
    SeccompProfile,
    Variable,
    VariableSource,
    VolumeMount,
)

PORT_MAX: Final = 65_535
ID_MAX: Final = 2**31 - 1
PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
POD_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['[^']+'\]")


def check_containers(findings: Findings, path: str, spec: PodSpec) -> None:
    """All containers of the pod, whose names and host ports they share."""
    if not spec.containers:
        findings.refuse(f"{path}.containers", "a pod without containers", "add at least one")
    seen: set[str] = set()
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            where = f"{path}.{field}[{index}]"
            if findings.name(f"{where}.name", container.name, dns_label_problem):
                if container.name in seen:
                    findings.refuse(f"{where}.name", "duplicate container name", "rename it", container.name)
                seen.add(container.name)
            check_container(findings, where, container, spec)
    for index, container in enumerate(spec.init_containers):
        _check_init_container(findings, f"{path}.initContainers[{index}]", container)
    _check_host_ports(findings, path, spec)


def check_container(findings: Findings, path: str, container: Container, spec: PodSpec) -> None:
    if findings.require(f"{path}.image", container.image) and container.image.strip() != container.image:
        findings.refuse(f"{path}.image", "white space around it", "remove it", container.image)
    findings.choose(f"{path}.imagePullPolicy", container.image_pull_policy, ("Always", "IfNotPresent", "Never"))
    findings.choose(f"{path}.restartPolicy", container.restart_policy, RESTART_POLICIES)
    findings.choose(
        f"{path}.terminationMessagePolicy", container.termination_message_policy, ("File", "FallbackToLogsOnError")
    )
    _check_ports(findings, path, container, on_host=spec.host_network)
    _check_environment(findings, path, container)
    _check_mounts(findings, path, container, spec)
    _check_probes(findings, path, container)
    check_requirements(findings, f"{path}.resources", container.resources)
    _check_claims(findings, f"{path}.resources.claims", container, spec)
    if container.security_context is not None:
        _check_security(findings, f"{path}.securityContext", container.security_context)


def _check_claims(findings: Findings, path: str, container: Container, spec: PodSpec) -> None:
    claims = {claim.name for claim in spec.resource_claims}
    seen: set[tuple[str, str]] = set()
    for index, use in enumerate(container.resources.claims):
        if use.name not in claims:
            cause = "no such resource claim in spec.resourceClaims"
            findings.refuse(f"{path}[{index}]", cause, "declare it there", use.name)
        if (use.name, use.request) in seen:
            findings.refuse(f"{path}[{index}]", "duplicate claim", "keep one", use.name)
        seen.add((use.name, use.request))


def _check_environment(findings: Findings, path: str, container: Container) -> None:
    for index, variable in enumerate(container.env):
        _check_variable(findings, f"{path}.env[{index}]", variable)
    for index, many in enumerate(container.env_from):
        where = f"{path}.envFrom[{index}]"
        if many.prefix and (cause := environment_problem(many.prefix)):
            findings.refuse(f"{where}.prefix", cause, "correct the prefix", many.prefix)
        options = {"configMapRef": many.config_map_ref, "secretRef": many.secret_ref}
        findings.only_one(where, [name for name, value in options.items() if value is not None], list(options))
        for name, reference in options.items():
            if reference is not None:
                findings.require(f"{where}.{name}.name", reference.name)


def _check_probes(findings: Findings, path: str, container: Container) -> None:
    for name, probe in (
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if probe is not None:
            _check_probe(findings, f"{path}.{name}", probe, once=name != "readinessProbe")
    if container.lifecycle is not None:
        for name, hook in (("postStart", container.lifecycle.post_start), ("preStop", container.lifecycle.pre_stop)):
            if hook is not None:
                _check_handler(findings, f"{path}.lifecycle.{name}", hook)


def _check_init_container(findings: Findings, path: str, container: Container) -> None:
    if container.is_sidecar:
        return
    for name, value in (
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
        ("lifecycle", container.lifecycle),
    ):
        if value is not None:
            findings.refuse(
                f"{path}.{name}", "only for init containers that keep running", "set restartPolicy: Always or remove it"
            )


def _check_ports(findings: Findings, path: str, container: Container, *, on_host: bool) -> None:
    seen: set[str] = set()
    for index, port in enumerate(container.ports):
        where = f"{path}.ports[{index}]"
        if port.name:
            findings.name(f"{where}.name", port.name, port_name_problem)
            if port.name in seen:
                findings.refuse(f"{where}.name", "duplicate port name", "rename it", port.name)
            seen.add(port.name)
        findings.within(f"{where}.containerPort", port.container_port, 1, PORT_MAX)
        findings.within(f"{where}.hostPort", port.host_port, 0, PORT_MAX)
        findings.choose(f"{where}.protocol", port.protocol, PROTOCOLS)
        if on_host and port.host_port not in {0, port.container_port}:
            findings.refuse(
                f"{where}.hostPort",
                "must match containerPort when hostNetwork is true",
                f"use {port.container_port} or remove it",
                port.host_port,
            )


def _check_host_ports(findings: Findings, path: str, spec: PodSpec) -> None:
    seen: set[tuple[int, str, str]] = set()
    for index, container in enumerate(spec.containers):
        for number, port in enumerate(container.ports):
            host_port = port.host_port or (port.container_port if spec.host_network else 0)
            key = (host_port, port.protocol, port.host_ip)
            if host_port and key in seen:
                where = f"{path}.containers[{index}].ports[{number}].hostPort"
                findings.refuse(where, "duplicate host port", "use another port, or drop hostNetwork", host_port)
            seen.add(key)


def _check_variable(findings: Findings, path: str, variable: Variable) -> None:
    findings.name(f"{path}.name", variable.name, environment_problem)
    source = variable.value_from
    if source is None:
        return
    if variable.value:
        findings.refuse(f"{path}.valueFrom", "value and valueFrom exclude each other", "keep one of them")
    given = [field for field, part in zip(SOURCES, _parts(source), strict=True) if part is not None]
    if not findings.only_one(f"{path}.valueFrom", given, SOURCES):
        return
    where = f"{path}.valueFrom.{given[0]}"
    if source.field_ref is not None:
        check_field_path(findings, f"{where}.fieldPath", source.field_ref.field_path)
    if source.resource_field_ref is not None:
        findings.require(f"{where}.resource", source.resource_field_ref.resource)
    for reference in (source.config_map_key_ref, source.secret_key_ref):
        if reference is not None:
            findings.require(f"{where}.name", reference.name)
            findings.name(f"{where}.key", reference.key, data_key_problem)


def _parts(source: VariableSource) -> Sequence[object]:
    return (
        source.field_ref,
        source.resource_field_ref,
        source.config_map_key_ref,
        source.secret_key_ref,
        source.file_key_ref,
    )


def check_field_path(findings: Findings, path: str, field: str) -> None:
    """The field of a pod that the downward API can show."""
    if findings.require(path, field) and not _SUBSCRIPT.fullmatch(field):
        findings.choose(path, field, POD_FIELDS)


def _check_mounts(findings: Findings, path: str, container: Container, spec: PodSpec) -> None:
    volumes = {volume.name: volume for volume in spec.volumes}
    seen: set[str] = set()
    for index, mount in enumerate(container.volume_mounts):
        where = f"{path}.volumeMounts[{index}]"
        if findings.require(f"{where}.name", mount.name) and mount.name not in volumes:
            findings.refuse(
                f"{where}.name", "no volume of this name: not found", "declare it in spec.volumes", mount.name
            )
        if findings.require(f"{where}.mountPath", mount.mount_path) and mount.mount_path in seen:
            findings.refuse(
                f"{where}.mountPath", "must be unique in its container", "mount it elsewhere", mount.mount_path
            )
        seen.add(mount.mount_path)
        _check_sub_path(findings, where, mount)
        findings.choose(
            f"{where}.mountPropagation", mount.mount_propagation, ("None", "HostToContainer", "Bidirectional")
        )
        security = container.security_context
        if mount.mount_propagation == "Bidirectional" and not (security and security.privileged):
            findings.refuse(
                f"{where}.mountPropagation", "Bidirectional is only for privileged containers", "use HostToContainer"
            )
    for index, device in enumerate(container.volume_devices):
        where = f"{path}.volumeDevices[{index}]"
        volume = volumes.get(device.name)
        if volume is None:
            findings.refuse(
                f"{where}.name", "no volume of this name: not found", "declare it in spec.volumes", device.name
            )
        elif volume.persistent_volume_claim is None and volume.ephemeral is None:
            findings.refuse(f"{where}.name", "only claims can be used as devices", "mount it instead", device.name)
        if findings.require(f"{where}.devicePath", device.device_path) and device.device_path in seen:
            findings.refuse(
                f"{where}.devicePath", "must be unique in its container", "use another path", device.device_path
            )
        seen.add(device.device_path)


def _check_sub_path(findings: Findings, path: str, mount: VolumeMount) -> None:
    for field, value in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
        if value.startswith("/"):
            findings.refuse(f"{path}.{field}", "must be a relative path", "remove the leading slash", value)
        if ".." in value.split("/"):
            findings.refuse(f"{path}.{field}", "must not contain '..'", "write the path out", value)
    if mount.sub_path and mount.sub_path_expr:
        findings.refuse(f"{path}.subPathExpr", "subPath and subPathExpr exclude each other", "keep one of them")


def _check_handler(findings: Findings, path: str, handler: Handler) -> None:
    parts = (handler.exec, handler.http_get, handler.tcp_socket, handler.grpc, handler.sleep)
    given = [name for name, part in zip(HANDLERS, parts, strict=True) if part is not None]
    if not findings.only_one(path, given, HANDLERS):
        return
    if handler.exec is not None:
        findings.require(f"{path}.exec.command", handler.exec.command)
    if handler.http_get is not None:
        _check_port(findings, f"{path}.httpGet.port", handler.http_get.port)
        findings.choose(f"{path}.httpGet.scheme", handler.http_get.scheme, ("HTTP", "HTTPS"))
    if handler.tcp_socket is not None:
        _check_port(findings, f"{path}.tcpSocket.port", handler.tcp_socket.port)
    if handler.grpc is not None:
        _check_port(findings, f"{path}.grpc.port", handler.grpc.port)


def _check_port(findings: Findings, path: str, port: Port | None) -> None:
    if isinstance(port, str):
        findings.name(path, port, port_name_problem)
    elif findings.require(path, port):
        findings.within(path, port, 1, PORT_MAX)


def _check_probe(findings: Findings, path: str, probe: Probe, *, once: bool) -> None:
    _check_handler(findings, path, probe)
    for name, value in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ):
        findings.within(f"{path}.{name}", value, 0)
    if once and probe.success_threshold not in {None, 0, 1}:
        findings.refuse(f"{path}.successThreshold", "must be 1 for this probe", "remove it", probe.success_threshold)
    if not once and probe.termination_grace_period_seconds is not None:
        findings.refuse(f"{path}.terminationGracePeriodSeconds", "a readiness probe ends no container", "remove it")
    findings.within(f"{path}.terminationGracePeriodSeconds", probe.termination_grace_period_seconds, 1)


def _check_security(findings: Findings, path: str, security: ContainerSecurity) -> None:
    findings.within(f"{path}.runAsUser", security.run_as_user, 0, ID_MAX)
    findings.within(f"{path}.runAsGroup", security.run_as_group, 0, ID_MAX)
    if security.allow_privilege_escalation is False:
        added = security.capabilities.add if security.capabilities else ()
        if security.privileged or "CAP_SYS_ADMIN" in added:
            findings.refuse(
                f"{path}.allowPrivilegeEscalation", "false contradicts privileged or CAP_SYS_ADMIN", "keep one of them"
            )
    if security.seccomp_profile is not None:
        check_seccomp(findings, f"{path}.seccompProfile", security.seccomp_profile)


def check_seccomp(findings: Findings, path: str, profile: SeccompProfile) -> None:
    if findings.require(f"{path}.type", profile.type):
        findings.choose(f"{path}.type", profile.type, ("RuntimeDefault", "Unconfined", "Localhost"))
    if (profile.type == "Localhost") is not (profile.localhost_profile is not None):
        findings.refuse(f"{path}.localhostProfile", "goes with type Localhost, and only with it", "set both or neither")
