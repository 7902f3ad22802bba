"""Command (bus.volcano.sh/v1alpha1): a request to act on a Job or a Queue, consumed by deleting it."""

from pumice.api.meta import NO_METADATA, ObjectMeta, OwnerReference, Struct


class Command(Struct):
    """A flat object without spec and status."""

    metadata: ObjectMeta = NO_METADATA
    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""
