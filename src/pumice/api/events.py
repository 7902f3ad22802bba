"""Events, in the core group (v1) and in events.k8s.io/v1: one thing, spelt in two ways."""

from pumice.api.meta import NO_METADATA, ObjectMeta, ObjectReference, Struct


class EventSource(Struct):
    component: str = ""


class CoreEvent(Struct):
    """An event of the core group. API servers keep one store for both groups and convert between them."""

    metadata: ObjectMeta = NO_METADATA
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    action: str = ""
    count: int = 0
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""
    first_timestamp: str | None = None
    last_timestamp: str | None = None
