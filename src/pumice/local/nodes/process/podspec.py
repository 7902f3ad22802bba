"""Pods as a node that runs them reads them: commands, environment, volumes. Schedulers read pumice.api.pods instead.

Fields that name the same thing as there have the same names here.
"""

from typing import Any

import msgspec

from pumice.api import pods
from pumice.api.meta import NO_METADATA, ObjectMeta, Struct
from pumice.api.validation.pod_shapes import FieldRef, HostAlias, HostPath, KeyToPath

HOSTNAME_CHARS_MAX = 63


class ResourceFieldSelector(Struct):
    resource: str = ""
    container_name: str = ""
    divisor: str | int | float = "1"


class KeySelector(Struct):
    """One key of a ConfigMap or a Secret."""

    name: str = ""
    key: str = ""
    optional: bool = False


class EnvVarSource(Struct):
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None


class EnvVar(Struct):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class EnvSource(Struct):
    """All of a ConfigMap or a Secret."""

    name: str = ""
    optional: bool = False


class EnvFromSource(Struct):
    prefix: str = ""
    config_map_ref: EnvSource | None = None
    secret_ref: EnvSource | None = None


class VolumeMount(Struct):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class SecurityContext(Struct):
    """Of a container, or of a pod for containers that say nothing."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[int, ...] = ()
    fs_group: int | None = None


class Container(pods.Container):
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env_from: tuple[EnvFromSource, ...] = ()
    env: tuple[EnvVar, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"
    security_context: SecurityContext = SecurityContext()
    # Not acted upon here; read so that their owner can be told.
    liveness_probe: dict[str, Any] | None = None
    readiness_probe: dict[str, Any] | None = None
    startup_probe: dict[str, Any] | None = None
    lifecycle: dict[str, Any] | None = None


class EmptyDirVolume(Struct):
    """A folder of the pod's own."""


class ConfigMapVolume(Struct):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class SecretVolume(Struct):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class DownwardAPIFile(Struct):
    path: str = ""
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardAPIVolume(Struct):
    items: tuple[DownwardAPIFile, ...] = ()
    default_mode: int = 0o644


class SecretProjection(Struct):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class ServiceAccountTokenProjection(Struct):
    path: str = ""
    audience: str = ""
    expiration_seconds: int = 3600


class VolumeProjection(Struct):
    config_map: SecretProjection | None = None
    secret: SecretProjection | None = None
    downward_api: DownwardAPIVolume | None = msgspec.field(name="downwardAPI", default=None)
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolume(Struct):
    sources: tuple[VolumeProjection, ...] = ()
    default_mode: int = 0o644


class ClaimVolume(Struct):
    claim_name: str = ""
    read_only: bool = False


class EphemeralVolume(Struct):
    """Its claim is named after the pod and the volume."""


class Volume(Struct):
    """A volume; one of a kind that we do not have here has no source at all."""

    name: str = ""
    empty_dir: EmptyDirVolume | None = None
    host_path: HostPath | None = None
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    downward_api: DownwardAPIVolume | None = msgspec.field(name="downwardAPI", default=None)
    projected: ProjectedVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None


class PodSpec(Struct):
    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    service_account_name: str = "default"
    node_name: str = ""
    host_network: bool = False
    security_context: SecurityContext = SecurityContext()
    hostname: str = ""
    subdomain: str = ""
    host_aliases: tuple[HostAlias, ...] = ()


class ProcessPod(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: PodSpec = PodSpec()

    @property
    def hostname(self) -> str:
        """What the pod's processes take for the machine's name."""
        name = self.spec.hostname or self.metadata.name
        return name[:HOSTNAME_CHARS_MAX].rstrip("-.")
