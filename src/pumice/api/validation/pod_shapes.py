"""Pod templates as far as validation looks at them: much more of a pod than the rest of Pumice reads."""

from collections.abc import Mapping
from typing import Any

import msgspec

from pumice.api import pods
from pumice.api.core import PersistentVolumeClaimSpec
from pumice.api.meta import NOTHING, Quantity, Struct

Port = int | str


class ObjectName(Struct):
    name: str = ""


class KeyRef(Struct):
    name: str = ""
    key: str = ""


class FieldRef(Struct):
    field_path: str = ""


class ResourceFieldRef(Struct):
    resource: str = ""


class VariableSource(Struct):
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None
    file_key_ref: Any = None


class Variable(Struct):
    name: str = ""
    value: str = ""
    value_from: VariableSource | None = None


class VariablesSource(Struct):
    prefix: str = ""
    config_map_ref: ObjectName | None = None
    secret_ref: ObjectName | None = None


class VolumeMount(Struct):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    mount_propagation: str = ""


class VolumeDevice(Struct):
    name: str = ""
    device_path: str = ""


class Exec(Struct):
    command: tuple[str, ...] = ()


class HttpGet(Struct):
    port: Port | None = None
    scheme: str = ""


class Socket(Struct):
    port: Port | None = None


class Sleep(Struct):
    seconds: int = 0


class Handler(Struct):
    """What a probe or a hook does: one of these."""

    exec: Exec | None = None
    http_get: HttpGet | None = None
    tcp_socket: Socket | None = None
    grpc: Socket | None = None
    sleep: Sleep | None = None


class Probe(Handler):
    initial_delay_seconds: int | None = None
    timeout_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    failure_threshold: int | None = None
    termination_grace_period_seconds: int | None = None


class Lifecycle(Struct):
    post_start: Handler | None = None
    pre_stop: Handler | None = None


class SeccompProfile(Struct):
    type: str = ""
    localhost_profile: str | None = None


class Capabilities(Struct):
    add: tuple[str, ...] = ()


class ContainerSecurity(Struct):
    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    capabilities: Capabilities | None = None
    seccomp_profile: SeccompProfile | None = None


class Container(pods.Container):
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    env_from: tuple[VariablesSource, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    security_context: ContainerSecurity | None = None


class KeyToPath(Struct):
    key: str = ""
    path: str = ""
    mode: int | None = None


class EmptyDir(Struct):
    size_limit: Quantity | None = None


class HostPath(Struct):
    path: str = ""
    type: str = ""


class ClaimUse(Struct):
    claim_name: str = ""


class ConfigMapFiles(Struct):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None


class SecretFiles(Struct):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None


class NetworkFiles(Struct):
    server: str = ""
    path: str = ""


class DownwardFile(Struct):
    path: str = ""
    mode: int | None = None
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None


class DownwardFiles(Struct):
    items: tuple[DownwardFile, ...] = ()
    default_mode: int | None = None


class ProjectedPart(Struct):
    config_map: ConfigMapFiles | None = None
    secret: Any = None
    downward_api: DownwardFiles | None = msgspec.field(name="downwardAPI", default=None)
    service_account_token: Any = None
    cluster_trust_bundle: Any = None
    pod_certificate: Any = None


class Projected(Struct):
    sources: tuple[ProjectedPart, ...] = ()
    default_mode: int | None = None


class Driver(Struct):
    driver: str = ""


class ClaimTemplate(Struct):
    spec: PersistentVolumeClaimSpec | None = None


class Ephemeral(Struct):
    volume_claim_template: ClaimTemplate | None = None


class Volume(Struct):
    """Exactly one field besides the name is set; those that no rule looks into are of any type."""

    name: str = ""
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    persistent_volume_claim: ClaimUse | None = None
    config_map: ConfigMapFiles | None = None
    secret: SecretFiles | None = None
    nfs: NetworkFiles | None = None
    projected: Projected | None = None
    downward_api: DownwardFiles | None = msgspec.field(name="downwardAPI", default=None)
    csi: Driver | None = None
    ephemeral: Ephemeral | None = None
    image: Any = None
    aws_elastic_block_store: Any = None
    azure_disk: Any = None
    azure_file: Any = None
    cephfs: Any = None
    cinder: Any = None
    fc: Any = None
    flex_volume: Any = None
    flocker: Any = None
    gce_persistent_disk: Any = None
    git_repo: Any = None
    glusterfs: Any = None
    iscsi: Any = None
    photon_persistent_disk: Any = None
    portworx_volume: Any = None
    quobyte: Any = None
    rbd: Any = None
    scale_io: Any = msgspec.field(name="scaleIO", default=None)
    storageos: Any = None
    vsphere_volume: Any = None


class DnsConfig(Struct):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()


class HostAlias(Struct):
    ip: str = ""
    hostnames: tuple[str, ...] = ()


class ReadinessGate(Struct):
    condition_type: str = ""


class PodSecurity(Struct):
    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    fs_group_change_policy: str = ""
    seccomp_profile: SeccompProfile | None = None


class PodSpec(pods.PodSpec):
    volumes: tuple[Volume, ...] = ()  # type: ignore[assignment]  # validation looks at all sources
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Any, ...] = ()
    active_deadline_seconds: int | None = None
    dns_policy: str = ""
    dns_config: DnsConfig | None = None
    service_account_name: str = ""
    runtime_class_name: str | None = None
    host_pid: bool = msgspec.field(name="hostPID", default=False)
    share_process_namespace: bool | None = None
    security_context: PodSecurity | None = None
    host_aliases: tuple[HostAlias, ...] = ()
    readiness_gates: tuple[ReadinessGate, ...] = ()


class TemplateMeta(Struct):
    labels: Mapping[str, str] = NOTHING
    annotations: Mapping[str, str] = NOTHING


class PodTemplate(Struct):
    metadata: TemplateMeta = TemplateMeta()
    spec: PodSpec = PodSpec()
