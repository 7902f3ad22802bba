"""What a plan asks for, as plain data: equal plans are equal, and a test can read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from pumice.kube.requests import PatchType
from pumice.kube.watch import metadata_of
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pumice.api.bus import Command
    from pumice.api.meta import Json, Struct
    from pumice.instant import Instant
    from pumice.kube.requests import KindLike, Propagation


class Blame(Value):
    """The object that gets a Warning event of this reason, when an operation is refused."""

    regarding: Struct
    reason: str


class _OfBody(Value, kw_only=True):
    """An operation that has the whole object."""

    kind: KindLike
    body: Json
    blame: Blame | None = None

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"].get("namespace", ""))


class Create(_OfBody, kw_only=True):
    """The object exists. One of that name is fine if it has the same controller; it is left as it is.

    With `restored`, it has existed before: the server is asked for it, and only if it is gone it is made and people are told so.
    """

    restored: Emit | None = None
    filled_by: str = ""  # name of the executor's function that adds what a pure plan cannot make, such as keys


class Apply(_OfBody, kw_only=True):
    """The object exists and has these fields (server-side apply, by our field manager unless another is named); with a version, only if
    nobody but the same plan has written it since.
    """

    version: str = ""
    subresource: str = ""
    manager: str = ""


class Patch(Value, kw_only=True):
    """The object of this uid has these fields; with a version, only if nobody but the same plan has written it since.

    `hurry=False` marks what may wait: the driver writes it once it has been wanted for so long (`patience_s`), or drops it if the next
    plan does not ask for it any more.
    """

    kind: KindLike
    name: str
    namespace: str = ""
    body: Mapping[str, Any] | Sequence[Any]
    uid: str = ""
    version: str = ""
    subresource: str = ""
    how: PatchType = PatchType.MERGE
    hurry: bool = True
    patience_s: float = 1.0
    blame: Blame | None = None


class Delete(Value, kw_only=True):
    """The object of this uid is gone or going; or, where the kind is not watched, the one that this owner controls."""

    kind: KindLike
    name: str
    namespace: str = ""
    uid: str = ""
    owner: str = ""  # uid; costs a read
    propagation: Propagation | None = None
    grace_s: int | None = None
    blame: Blame | None = None


class Target(TypedDict):
    """Which object a Patch or a Delete is about."""

    kind: type[Struct]
    name: str
    namespace: str
    uid: str


def target_of(each: Struct) -> Target:
    """The object itself, and no other of its name."""
    metadata = metadata_of(each)
    return {"kind": type(each), "name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}


class Look(Value, kw_only=True):
    """The server itself is asked for an object, before something is done because a watch does not show it; the kind is known.

    `listed` asks by a list of one, which the right to watch a kind allows.
    """

    kind: type[Struct]
    name: str
    namespace: str = ""
    listed: bool = False


class Emit(Value):
    """An Event for people; it never fails and nothing waits for it. What consecutive plans repeat is told once."""

    regarding: Struct
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def consume(command: Command) -> Delete:
    """A command that has been heard is deleted."""
    return Delete(**target_of(command))


Operation: TypeAlias = Create | Apply | Patch | Delete | Look | Emit


class Plan(Value):
    """Stages one after the other, the operations of a stage side by side; a stage that fails ends the plan.

    `again_at` is the next moment at which time alone could change the plan.
    """

    stages: tuple[tuple[Operation, ...], ...] = ()
    again_at: Instant | None = None

    def __iter__(self) -> Iterator[Operation]:
        for stage in self.stages:
            yield from stage


NOTHING_TO_DO = Plan()
