"""Carries plans out over the API: each operation may be repeated after a crash, a lost answer or a stale look at the world.

| operation | what may be in the way              | what that means                                       |
|-----------|-------------------------------------|-------------------------------------------------------|
| Create    | AlreadyExists, with our controller  | done before; its state is taken in                    |
| Create    | AlreadyExists, of another owner     | Taken: tried again later, people are told             |
| Patch     | Conflict, NotFound                  | Stale: look again, plan again                         |
| Apply     | Conflict, NotFound (with a uid)     | Stale: look again, plan again                         |
| Delete    | NotFound, another uid or owner      | it is gone, and its namesake is none of our business  |
| Delete    | Conflict, and it is still there     | Stale: look again, plan again                         |
| any       | refused                             | people are told by an event, and it is tried again    |
"""

from __future__ import annotations

import asyncio
import collections
import itertools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from pumice.api.kinds import Kind, by_struct
from pumice.api.meta import Json, Object, ObjectMeta
from pumice.api.pods import Pod
from pumice.controllers.operations import Apply, Create, Delete, Emit, Look, Patch
from pumice.controllers.window import Lane, Window
from pumice.errors import BadInput
from pumice.kube import errors
from pumice.runtime import always, no_fail_point

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from pumice.controllers.cache import Cache
    from pumice.controllers.operations import Blame, Plan
    from pumice.controllers.window import Rank
    from pumice.kube.client import Client, Reply
    from pumice.kube.recorder import Recorder
    from pumice.kube.requests import KindLike

WRITES_AT_ONCE = 64  # of all controllers of the process: enough to keep an API server busy, few enough for others
WRITES_OF_ONE_PLAN = 32  # so that a Job of thousands of pods does not keep all other keys waiting
PODS_TOGETHER = 128  # of one Job, before those of the next one have their turn
FIELD_MANAGER = "pumice-controllers"
Call: TypeAlias = Create | Apply | Patch | Delete | Look


class Stale(errors.KubeError):
    """The world is not as the plan saw it: look again."""


class Taken(errors.KubeError):
    """A name that we need belongs to an object of another owner."""


class Executor:
    """The controllers' only writer. `guard` raises where this process may no longer write; `reach` is told before each write."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        recorder: Recorder,
        *,
        guard: Callable[[], None] = always,
        fail_point: Callable[[str], None] = no_fail_point,
        fillings: Mapping[str, Callable[[Json], Awaitable[Json]]] = MappingProxyType({}),
        before_pod_goes: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._client = client.with_guard(guard)
        self._guard = guard
        self._known = cache
        self._recorder = recorder
        self._fail_point = fail_point
        self._fillings = fillings
        self._before_pod_goes = before_pod_goes  # is given its uid
        self._window = Window(WRITES_AT_ONCE)
        self._jobs = itertools.count()  # plans that make pods
        self.writes: collections.Counter[str] = collections.Counter()  # calls that left, by verb and kind

    async def carry_out(self, plan: Plan) -> bool:
        """True if the world has changed by it, or our knowledge of it: the next plan may ask for something else.

        Raises what went wrong first, after the rest of its stage has ended.
        """
        changed = False
        versions: dict[str, str] = {}  # those that the plan itself has written over, with what came of them
        for stage in plan.stages:
            for operation in stage:
                if isinstance(operation, Emit):
                    self.tell(operation)
            calls = [operation for operation in stage if not isinstance(operation, Emit)]
            lane = Lane(WRITES_OF_ONE_PLAN)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._one(*each, lane, versions))
                    for each in zip(calls, self._ranks(calls), strict=True)
                ]
            outcomes = [task.result() for task in tasks]
            changed = changed or True in outcomes
            if failure := next((each for each in outcomes if isinstance(each, Exception)), None):
                raise failure
        return changed

    def tell(self, told: Emit) -> None:
        self._recorder.record(told.regarding, told.type, told.reason, told.message)

    def _ranks(self, calls: Sequence[Call]) -> Iterator[Rank]:
        """First come, first created: of a burst of Jobs the first are complete while the last wait for their first pod; side by side all of
        them would be complete at the end. A large one falls back by one Job for every so many pods. What is not a pod waits for no pod.
        """
        pods = [isinstance(call, Create) and call.kind is Pod for call in calls]
        number = next(self._jobs) if any(pods) else 0
        made = itertools.accumulate(pods, initial=0)
        return (
            (1, number + before // PODS_TOGETHER) if is_pod else (0, 0)
            for is_pod, before in zip(pods, made, strict=False)
        )

    async def _one(self, operation: Call, rank: Rank, lane: Lane, versions: dict[str, str]) -> bool | Exception:
        async with self._window.turn(rank, lane):
            try:
                return await self._carry(operation, versions)
            except (errors.KubeError, BadInput) as error:
                self._complain(operation.blame if not isinstance(operation, Look) else None, error)
                return error

    def _complain(self, blame: Blame | None, error: Exception) -> None:
        if blame is not None and isinstance(error, Taken | errors.StatusError | BadInput):
            self._recorder.record(blame.regarding, "Warning", blame.reason, str(error))

    async def _carry(self, operation: Call, versions: dict[str, str]) -> bool:
        match operation:
            case Create():
                if operation.restored is not None and await self._is_there(operation):
                    return False
                await self._create(operation)
            case Apply():
                await self._apply(operation, versions)
            case Patch():
                return await self._patch(operation, versions)
            case Delete():
                await self._delete(operation)
            case Look():
                await self._look(operation)
        return True

    def _about_to(self, verb: str, kind: KindLike) -> None:
        self._guard()
        name = (kind if isinstance(kind, Kind) else by_struct(kind)).kind
        self._fail_point(f"{verb} {name}")
        self.writes[f"{verb} {name}"] += 1

    # ------------------------------------------------------------------------------------------------- operations

    async def _create(self, create: Create) -> None:
        body = create.body
        if create.filled_by:
            body = await self._fillings[create.filled_by](body)
        self._about_to("create", create.kind)
        try:
            reply = await self._client.create(create.kind, body, namespace=create.namespace)
        except errors.AlreadyExists as error:
            reply = await self._ours(create, error)
        self._learn(create.kind, reply)

    async def _is_there(self, create: Create) -> bool:
        """True if any object has the name: a foreign one is left alone. If there is none, an event says that it is made again."""
        assert create.restored is not None
        try:
            await self._client.get(create.kind, create.name, namespace=create.namespace)
        except errors.NotFound:
            self.tell(create.restored)
            return False
        return True

    async def _ours(self, create: Create, taken: errors.AlreadyExists) -> Reply:
        """The object that has the name already, if it has the controller that we would have given it."""
        try:
            reply = await self._client.get(create.kind, create.name, namespace=create.namespace)
        except errors.NotFound:
            raise Stale(f"{create.name} was there and is gone: it is made with the next plan") from taken
        found = reply.into(Object).metadata
        wanted = next((each["uid"] for each in create.body["metadata"].get("ownerReferences", ())), "")
        owner = found.controller
        if (owner.uid if owner is not None else "") == wanted and found.deletion_timestamp is None:
            return reply
        self._learn(create.kind, reply)
        if found.deletion_timestamp is not None:
            raise Stale(f"{create.name} is being deleted: its successor is made when it is gone")
        whose = f"{owner.kind} {owner.name}" if owner is not None else "nobody"
        raise Taken(
            f"{create.name} exists already and is controlled by {whose}: it is left alone; delete or rename one of the two"
        ) from taken

    async def _apply(self, apply: Apply, versions: dict[str, str]) -> None:
        self._about_to("apply", apply.kind)
        body = apply.body
        if apply.version:
            expected = versions.get(apply.version, apply.version)
            body = {**body, "metadata": {**body["metadata"], "resourceVersion": expected}}
        try:
            reply = await self._client.apply(
                apply.kind,
                apply.name,
                body,
                field_manager=apply.manager or FIELD_MANAGER,
                namespace=apply.namespace,
                subresource=apply.subresource,
                force=True,
            )
        except (errors.Conflict, errors.NotFound) as error:
            raise Stale(f"{apply.name} has changed or gone since it was looked at: {error}") from error
        self._learn(apply.kind, reply)
        if apply.version:
            versions[apply.version] = _version(reply)

    async def _patch(self, patch: Patch, versions: dict[str, str]) -> bool:
        """False if the server kept everything as it was: to ask for the same again would be in vain."""
        self._about_to("patch", patch.kind)
        body: Any = patch.body
        expected = versions.get(patch.version, patch.version)
        if isinstance(body, dict) and (patch.uid or patch.version):
            precondition = {"uid": patch.uid, "resourceVersion": expected}
            metadata = {**body.get("metadata", {}), **{key: value for key, value in precondition.items() if value}}
            body = {**body, "metadata": metadata}
        try:
            reply = await self._client.patch(
                patch.kind,
                patch.name,
                body,
                how=patch.how,
                namespace=patch.namespace,
                subresource=patch.subresource,
                field_manager=FIELD_MANAGER,
            )
        except (errors.Conflict, errors.NotFound) as error:
            raise Stale(f"{patch.name} has changed or gone since it was looked at: {error}") from error
        self._learn(patch.kind, reply)
        if not patch.version:
            return True
        versions[patch.version] = _version(reply)
        return versions[patch.version] != expected

    async def _look(self, look: Look) -> None:
        if look.listed:
            await self._look_by_list(look)
            return
        try:
            reply = await self._client.get(look.kind, look.name, namespace=look.namespace)
        except errors.NotFound:
            self._known.of(look.kind).note_absence(look.namespace, look.name)
        else:
            self._learn(look.kind, reply)

    async def _look_by_list(self, look: Look) -> None:
        named = f"metadata.name={look.name}"
        found = await self._client.list(look.kind, namespace=look.namespace, fields=named)
        for each in found.items:
            self._known.of(look.kind).learn(each)
        if not found.items:
            self._known.of(look.kind).note_absence(look.namespace, look.name)

    async def _delete(self, delete: Delete) -> None:
        uid = delete.uid or await self._uid_of(delete)
        if not uid:
            return
        if delete.kind is Pod and self._before_pod_goes is not None:
            await self._before_pod_goes(uid)
        self._about_to("delete", delete.kind)
        try:
            reply = await self._client.delete(
                delete.kind,
                delete.name,
                namespace=delete.namespace,
                uid=uid,
                propagation=delete.propagation,
                grace_s=delete.grace_s,
            )
        except errors.NotFound:
            self._lose(delete)
            return
        except errors.Conflict as error:
            present = await self._find(delete)
            # Not every conflict means that another object has the name by now.
            if present is not None and present.uid == uid:
                raise Stale(f"{delete.name} could not be deleted: {error}") from error
            self._lose(delete)
            return
        found = reply.into(Object)
        if found.kind != "Status" and found.metadata.deletion_timestamp is not None:
            self._learn(delete.kind, reply)
        else:
            self._lose(delete)

    async def _uid_of(self, delete: Delete) -> str:
        """The uid of the object that has the name, if it has the owner, too; else there is nothing to delete."""
        found = await self._find(delete)
        owner = found.controller if found is not None else None
        return found.uid if found is not None and owner is not None and owner.uid == delete.owner else ""

    async def _find(self, delete: Delete) -> ObjectMeta | None:
        """What has the name now."""
        try:
            reply = await self._client.get(delete.kind, delete.name, namespace=delete.namespace)
        except errors.NotFound:
            return None
        return reply.into(Object).metadata

    # ------------------------------------------------------------------------------------------------- learning

    def _learn(self, kind: KindLike, reply: Reply) -> None:
        struct = kind.struct if isinstance(kind, Kind) else kind
        if struct is not None and struct in self._known.stores:
            self._known.stores[struct].learn(reply.into(struct))

    def _lose(self, delete: Delete) -> None:
        struct = delete.kind.struct if isinstance(delete.kind, Kind) else delete.kind
        if struct is not None and struct in self._known.stores:
            self._known.stores[struct].lose(delete.namespace, delete.name, delete.uid)


def _version(reply: Reply) -> str:
    return reply.into(Object).metadata.resource_version
