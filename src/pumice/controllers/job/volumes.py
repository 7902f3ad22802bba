"""Claims of a Job: those that it brings must exist, those that it describes are made, and pods mount them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from pumice.api.batch import Job, JobVolume
from pumice.api.core import PersistentVolumeClaim
from pumice.controllers.operations import Blame, Create, Patch
from pumice.controllers.ownership import owned_metadata
from pumice.kube.requests import PatchType
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from pumice.api.meta import Json
    from pumice.controllers.operations import Operation

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_SUFFIX_CHARS = 12


class Claims(Value):
    """What it takes for all claims to exist, those that cannot be made, and what to record of the rest."""

    operations: tuple[Operation, ...]
    missing: tuple[str, ...]
    recorded: dict[str, str]


def suffix(job: Job, what: str) -> str:
    """Twelve letters and digits like Volcano's random ones, but derived from the Job's uid: the same in every plan."""
    number = int.from_bytes(hashlib.sha256(f"{job.metadata.uid}/{what}".encode()).digest()[:8], "big")
    letters = []
    for _ in range(_SUFFIX_CHARS):
        number, digit = divmod(number, len(_DIGITS))
        letters.append(_DIGITS[digit])
    return "".join(letters)


def claim_name(job: Job, volume: JobVolume, number: int) -> str:
    return volume.volume_claim_name or f"{job.metadata.name}-pvc-{suffix(job, f'claim/{number}')}"


def claims(job: Job, existing: Container[str]) -> Claims:
    """Looks after every claim that has not been recorded in the status yet."""
    operations: list[Operation] = []
    missing: list[str] = []
    recorded: dict[str, str] = {}
    for number, volume in enumerate(job.spec.volumes):
        name = claim_name(job, volume, number)
        key = f"volume-pvc-{name}"
        if key in job.status.controlled_resources and volume.volume_claim_name:
            continue
        if volume.makes_claim and name not in existing:
            operations.append(_claim(job, volume, name))
        elif name not in existing:
            missing.append(name)
        if not volume.volume_claim_name:
            operations.append(_name_written_back(job, number, name))
        recorded[key] = name
    return Claims(tuple(operations), tuple(missing), recorded)


def _claim(job: Job, volume: JobVolume, name: str) -> Create:
    body: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": owned_metadata(job, name),
        "spec": msgspec.json.decode(volume.volume_claim),
    }
    return Create(kind=PersistentVolumeClaim, body=body, blame=Blame(job, "PVCError"))


def _name_written_back(job: Job, number: int, name: str) -> Patch:
    path = f"/spec/volumes/{number}"
    body = [
        {"op": "test", "path": "/metadata/uid", "value": job.metadata.uid},
        {"op": "add", "path": f"{path}/volumeClaimName", "value": name},
    ]
    return Patch(
        kind=Job,
        name=job.metadata.name,
        namespace=job.metadata.namespace,
        body=body,
        how=PatchType.JSON,
        blame=Blame(job, "PVCError"),
    )


def mounts(job: Job) -> Iterator[tuple[str, str, str]]:
    """Volume name, claim name and path of each distinct claim, in order; a claim named twice is mounted once."""
    seen: set[str] = set()
    for number, volume in enumerate(job.spec.volumes):
        claim = claim_name(job, volume, number)
        if claim not in seen:
            seen.add(claim)
            yield f"{job.metadata.name}-{suffix(job, f'volume/{number}')}", claim, volume.mount_path
