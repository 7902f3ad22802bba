"""Volumes of a pod template, and claims: what an API server would refuse."""

from collections.abc import Sequence
from typing import Final

import msgspec

from pumice import quantity
from pumice.api.core import PersistentVolumeClaimSpec
from pumice.api.validation.amounts import check_amount
from pumice.api.validation.containers import check_field_path
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.names import dns_label_problem
from pumice.api.validation.pod_shapes import (
    ClaimTemplate,
    ConfigMapFiles,
    DownwardFiles,
    HostPath,
    KeyToPath,
    Projected,
    ProjectedPart,
    SecretFiles,
    Volume,
)

MODE_MAX: Final = 0o777
ACCESS_MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
HOST_PATH_TYPES: Final = (
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
)

# Names of the sources as they are written, by the Structs' fields.
_SOURCES: Final = {field.name: field.encode_name for field in msgspec.structs.fields(Volume) if field.name != "name"}
_PARTS: Final = {field.name: field.encode_name for field in msgspec.structs.fields(ProjectedPart)}


def check_volumes(findings: Findings, path: str, volumes: Sequence[Volume]) -> None:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        where = f"{path}[{index}]"
        if findings.name(f"{where}.name", volume.name, dns_label_problem):
            if volume.name in seen:
                findings.refuse(f"{where}.name", "duplicate volume name", "rename it", volume.name)
            seen.add(volume.name)
        given = [written for field, written in _SOURCES.items() if getattr(volume, field) is not None]
        if len(given) > 1:  # none at all means an empty directory
            findings.refuse(f"{where}.{given[1]}", f"may not specify more than one volume type: {given}", "keep one")
        else:
            _check_source(findings, where, volume)


def _check_source(findings: Findings, path: str, volume: Volume) -> None:
    if volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
        check_amount(findings, f"{path}.emptyDir.sizeLimit", "memory", volume.empty_dir.size_limit)
    if volume.host_path is not None:
        _check_host_path(findings, f"{path}.hostPath", volume.host_path)
    if volume.persistent_volume_claim is not None:
        claim = volume.persistent_volume_claim.claim_name
        findings.require(f"{path}.persistentVolumeClaim.claimName", claim)
    if volume.nfs is not None:
        findings.require(f"{path}.nfs.server", volume.nfs.server)
        if findings.require(f"{path}.nfs.path", volume.nfs.path) and not volume.nfs.path.startswith("/"):
            findings.refuse(f"{path}.nfs.path", "must be an absolute path", "start it with a slash", volume.nfs.path)
    if volume.csi is not None:
        findings.require(f"{path}.csi.driver", volume.csi.driver)
    if volume.ephemeral is not None:
        _check_ephemeral(findings, f"{path}.ephemeral.volumeClaimTemplate", volume.ephemeral.volume_claim_template)
    _check_projections(findings, path, volume)


def _check_projections(findings: Findings, path: str, volume: Volume) -> None:
    """The sources that put objects into files."""
    if volume.config_map is not None:
        findings.require(f"{path}.configMap.name", volume.config_map.name)
        _check_files(findings, f"{path}.configMap", volume.config_map)
    if volume.secret is not None:
        findings.require(f"{path}.secret.secretName", volume.secret.secret_name)
        _check_files(findings, f"{path}.secret", volume.secret)
    if volume.projected is not None:
        _check_projected(findings, f"{path}.projected", volume.projected)
    if volume.downward_api is not None:
        _check_downward(findings, f"{path}.downwardAPI", volume.downward_api)


def _check_ephemeral(findings: Findings, path: str, template: ClaimTemplate | None) -> None:
    if template is None:
        findings.refuse(path, "required, but missing", "set it")
    elif template.spec is None:
        findings.refuse(f"{path}.spec", "required, but missing", "set it")
    else:
        check_claim(findings, f"{path}.spec", template.spec)


def _check_host_path(findings: Findings, path: str, source: HostPath) -> None:
    if findings.require(f"{path}.path", source.path) and ".." in source.path.split("/"):
        findings.refuse(f"{path}.path", "must not contain '..'", "write the path out", source.path)
    findings.choose(f"{path}.type", source.type, HOST_PATH_TYPES)


def _check_files(findings: Findings, path: str, source: ConfigMapFiles | SecretFiles) -> None:
    findings.within(f"{path}.defaultMode", source.default_mode, 0, MODE_MAX)
    for index, item in enumerate(source.items):
        _check_item(findings, f"{path}.items[{index}]", item)


def _check_item(findings: Findings, path: str, item: KeyToPath) -> None:
    findings.require(f"{path}.key", item.key)
    _check_file_path(findings, f"{path}.path", item.path)
    findings.within(f"{path}.mode", item.mode, 0, MODE_MAX)


def _check_file_path(findings: Findings, path: str, value: str) -> None:
    if not findings.require(path, value):
        return
    if value.startswith("/"):
        findings.refuse(path, "must be a relative path", "remove the leading slash", value)
    if value.startswith("..") or ".." in value.split("/"):
        findings.refuse(path, "must not contain or start with '..'", "write the path out", value)


def _check_downward(findings: Findings, path: str, source: DownwardFiles) -> None:
    findings.within(f"{path}.defaultMode", source.default_mode, 0, MODE_MAX)
    for index, item in enumerate(source.items):
        where = f"{path}.items[{index}]"
        _check_file_path(findings, f"{where}.path", item.path)
        options = (("fieldRef", item.field_ref), ("resourceFieldRef", item.resource_field_ref))
        given = [name for name, reference in options if reference is not None]
        findings.only_one(where, given, ("fieldRef", "resourceFieldRef"))
        whole = item.field_ref is not None and item.field_ref.field_path in {"metadata.labels", "metadata.annotations"}
        if item.field_ref is not None and not whole:
            check_field_path(findings, f"{where}.fieldRef.fieldPath", item.field_ref.field_path)


def _check_projected(findings: Findings, path: str, source: Projected) -> None:
    findings.within(f"{path}.defaultMode", source.default_mode, 0, MODE_MAX)
    for index, part in enumerate(source.sources):
        where = f"{path}.sources[{index}]"
        given = [written for field, written in _PARTS.items() if getattr(part, field) is not None]
        if len(given) > 1:  # none at all is an empty part
            findings.refuse(where, f"more than one of {', '.join(given)} is set", "make several sources of it")
        if part.config_map is not None:
            findings.require(f"{where}.configMap.name", part.config_map.name)
            _check_files(findings, f"{where}.configMap", part.config_map)
        if part.downward_api is not None:
            _check_downward(findings, f"{where}.downwardAPI", part.downward_api)


def check_claim(findings: Findings, path: str, claim: PersistentVolumeClaimSpec) -> None:
    """The spec of a PersistentVolumeClaim that is to be made."""
    if findings.require(f"{path}.accessModes", claim.access_modes):
        for index, mode in enumerate(claim.access_modes):
            findings.choose(f"{path}.accessModes[{index}]", mode, ACCESS_MODES)
    storage = claim.resources.requests.get("storage")
    where = f"{path}.resources.requests[storage]"
    if not findings.require(where, storage) or storage is None:
        return
    if check_amount(findings, where, "storage", storage) and quantity.compare(storage, 0) == 0:
        findings.refuse(where, "must be greater than zero", "write for example 10Gi", storage)
