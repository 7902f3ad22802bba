"""Leases (coordination.k8s.io/v1): who leads, and until when."""

from pumice.api.meta import NO_METADATA, ObjectMeta, Struct


class LeaseSpec(Struct):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: LeaseSpec = LeaseSpec()
