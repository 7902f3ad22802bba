"""Who owns what controllers make: the reference by which the API server cleans up after a deleted owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.kinds import by_struct
from pumice.kube.watch import metadata_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.meta import Json, OwnerReference, Struct

SUBMISSION = (names.SUBMITTED_BY, names.SUBMITTER_GROUPS)


def controller_reference(owner: Struct) -> Json:
    """The owner reference of an object that this one controls."""
    kind = by_struct(type(owner))
    metadata = metadata_of(owner)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_job(reference: OwnerReference) -> bool:
    """True for the reference to a Job of Volcano's."""
    kind = by_struct(Job)
    return reference.kind == kind.kind and reference.api_version.partition("/")[0] == kind.group


def job_reference(owned: Struct) -> OwnerReference | None:
    """The Job that controls an object; None where none does."""
    owner = metadata_of(owned).controller
    return owner if owner is not None and is_job(owner) else None


def owned_metadata(owner: Struct, name: str) -> Json:
    """Metadata of an object of this name that the owner controls, in its namespace."""
    metadata: Json = {"name": name, "ownerReferences": [controller_reference(owner)]}
    namespace = metadata_of(owner).namespace
    return {**metadata, "namespace": namespace} if namespace else metadata


def with_owners_submitter(owner: Struct, annotations: Mapping[str, str]) -> dict[str, str]:
    """Annotations of an object that is made for the owner: its submitter is the owner's, whatever a template says."""
    own = metadata_of(owner).annotations
    rest = {key: value for key, value in annotations.items() if key not in SUBMISSION}
    return {**rest, **{key: own[key] for key in SUBMISSION if key in own}}
