"""What every Kubernetes object has, and the small values that several groups share.

Timestamps stay the API server's own text: most are never looked at, those of equal precision sort as text, and
`pumice.instant` parses the rest where it matters. Quantities stay as written, too: `pumice.quantity` parses them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, dataclass_transform

import msgspec

from pumice.instant import Instant, parse_instant

# One shared empty mapping: most objects lack most of their mappings, and a dict for each would cost 64 bytes.
NOTHING: Mapping[str, str] = MappingProxyType({})

Json: TypeAlias = dict[str, Any]  # an object that no Struct reads, or that is still to be written
Quantity = str | int | float
ResourceList = Mapping[str, Quantity]
NO_RESOURCES: ResourceList = MappingProxyType({})


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The root of all Structs of this package; trees without cycles, so the garbage collector need not look at them."""


class OwnerReference(Struct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = NOTHING
    annotations: Mapping[str, str] = NOTHING
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for what belongs to no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def created_at(self) -> Instant:
        """When the server made it; 1970 where nothing says so."""
        return parse_instant(self.creation_timestamp) if self.creation_timestamp else 0

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages this object, if there is one."""
        for owner in self.owner_references:  # asked for each pod of each plan: a generator would cost twice as much
            if owner.controller:
                return owner
        return None


NO_METADATA = ObjectMeta()


class Object(Struct):
    """Any object at all, as far as all objects are alike."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = NO_METADATA


class LabelSelectorRequirement(Struct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct):
    """Absent selects nothing or everything, as the field says; empty selects everything."""

    match_labels: Mapping[str, str] = NOTHING
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Struct):
    """A condition of any kind; times are text, and those that a kind lacks stay None."""

    type: str = ""
    observed_generation: int = 0
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class ObjectReference(Struct):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""
