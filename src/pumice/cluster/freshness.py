"""News that is older than what is known already, and how that is told (docs/adr/0016)."""

from __future__ import annotations

from typing import Any

from pumice.api import versions
from pumice.api.pods import Pod


def is_past(thing: Any, known: Any) -> bool:
    """Whether an object is older than what is known of it: by its version, or because it lacks what a pod never loses."""
    if versions.is_older(thing.metadata.resource_version, than=known.metadata.resource_version):
        return True
    if not isinstance(thing, Pod) or thing.metadata.uid != known.metadata.uid:
        return False
    return any(had and not has for had, has in zip(_progress(known), _progress(thing), strict=True))


def _progress(pod: Pod) -> tuple[bool, bool, bool]:
    """Bound, asked to leave, ended: Kubernetes takes none of them back."""
    meta, status = pod.metadata, pod.status
    return bool(pod.spec.node_name), meta.deletion_timestamp is not None, status.phase in {"Succeeded", "Failed"}
