"""Volumes that tie a pod to a place or exclude another pod; config maps, secrets and tokens do neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pumice.api.pods import Pod, Volume


class Disk(NamedTuple):
    """A disk named in the pod itself: one node may have it once, or several times where all pods only read."""

    kind: str
    name: str
    is_shareable: bool

    def excludes(self, other: Disk) -> bool:
        """Whether both cannot be on one node."""
        return self[:2] == other[:2] and not (self.is_shareable and other.is_shareable)


class Mounts(Value, eq=False):
    """A pod's volume claims by key, those of them that are made for this pod alone, and its disks."""

    claims: tuple[str, ...]
    ephemeral: frozenset[str]
    disks: tuple[Disk, ...]


def mounts_of(pod: Pod) -> Mounts | None:
    """None for a pod whose volumes can be had anywhere."""
    volumes = pod.spec.volumes
    if not volumes:
        return None
    namespace, name = pod.metadata.namespace, pod.metadata.name
    claims = []
    ephemeral = []
    disks: list[Disk] = []
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            claims.append(f"{namespace}/{volume.persistent_volume_claim.claim_name}")
        elif volume.ephemeral is not None:
            ephemeral.append(f"{namespace}/{name}-{volume.name}")
        else:
            disks += _disks(volume)
    if not claims and not ephemeral and not disks:
        return None
    return Mounts(tuple(dict.fromkeys((*claims, *ephemeral))), frozenset(ephemeral), tuple(disks))


def _disks(volume: Volume) -> Iterator[Disk]:
    if volume.gce_persistent_disk is not None:
        yield Disk("gce", volume.gce_persistent_disk.pd_name, volume.gce_persistent_disk.read_only)
    elif volume.aws_elastic_block_store is not None:
        yield Disk("ebs", volume.aws_elastic_block_store.volume_id, is_shareable=False)
    elif volume.iscsi is not None:
        yield Disk("iscsi", volume.iscsi.iqn, volume.iscsi.read_only)
    elif volume.rbd is not None:
        # One image at two clusters is two images; at any monitor in common it is one.
        for monitor in volume.rbd.monitors:
            yield Disk("rbd", f"{monitor}/{volume.rbd.pool}/{volume.rbd.image}", volume.rbd.read_only)
