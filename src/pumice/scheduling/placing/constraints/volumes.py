"""Volumes of pods: where bound ones can be reached, what unbound ones could become, and who must not share one.

A claim that waits for its first consumer is decided together with the pod's node: the smallest free volume that can be reached
from there, else a new one. What a placement takes is reserved until it is undone, so that no volume is promised twice, and
pods that share a claim follow the first of them. A pod that is being bound carries what was chosen for it, because the volume
itself may not show it yet.
"""

from __future__ import annotations

import collections
import functools
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice.api import names
from pumice.api.decoding import UNREADABLE
from pumice.cluster.tasks import FINISHED, ON_A_NODE, Status
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.decisions import VolumeChoice
from pumice.scheduling.core.points import Shared
from pumice.scheduling.core.verdict import Cure, Denial, Reason
from pumice.scheduling.placing.constraints.storage import ONE_POD_ONLY, Bound, Storage, Wanting

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from pumice.api.core import PersistentVolume
    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Reach
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.constraints.storage import Need

NO_LIMIT = np.iinfo(np.int64).max


class PodVolumes:
    """Filters and reservations of volumes; one for all plugins of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._storage = session.shared(Storage)
        self._size = len(session.room.table)
        self._needs: dict[Shape, tuple[list[Bound], list[Wanting]]] = {}
        self._free: dict[Need, Column] = {}  # free volumes that would do, counted by the nodes that reach them
        self._taken: dict[str, str] = {}  # volume -> claim that it was promised to
        self._choices: dict[str, VolumeChoice] = {}  # by claim
        self._decided_by: dict[str, list[str]] = {}  # pod -> claims that its placement decided
        self._knows_earlier_cycles = False
        self._users: collections.Counter[str] | None = None
        session.on.moved(self.moved)

    # ------------------------------------------------------------------------------------------------- shapes

    def trait(self, task: Task) -> Hashable:
        """Pods are alike if they use the same claims, or new ones of their own that ask for the same."""
        mounts = task.mounts
        if mounts is None:
            return None
        return (mounts.disks, *(self._kind_of(key, task) for key in mounts.claims))

    def _kind_of(self, key: str, task: Task) -> Hashable:
        state = self._storage.state(key, task)
        if isinstance(state, Wanting) and self.is_simple(state):
            return state.need
        return (key, state.code) if isinstance(state, Reason) else key  # one may be stuck on what another one uses

    def is_simple(self, wanting: Wanting) -> bool:
        """A claim of one pod alone, for which there is nothing to choose but to make a volume."""
        if wanting.prebound or wanting.node or self._storage.has_free_volumes(wanting.need.storage_class):
            return False
        return self._sharers[wanting.key] <= 1

    @functools.cached_property
    def _sharers(self) -> collections.Counter[str]:
        """How many pods use each claim, or will."""
        pods = (task for task in self._session.snapshot.with_mounts if task.status not in FINISHED)
        return collections.Counter(key for task in pods for key in _claims(task))

    def _states(self, task: Task) -> tuple[list[Bound], list[Wanting]]:
        bound, wanting = [], []
        for key in _claims(task):
            state = self._storage.state(key, task)
            if isinstance(state, Bound):
                bound.append(state)
            elif isinstance(state, Wanting):
                wanting.append(state)
        return bound, sorted(wanting, key=lambda each: (each.need.size, each.key))

    def _of(self, shape: Shape) -> tuple[list[Bound], list[Wanting]]:
        found = self._needs.get(shape)
        if found is None:
            found = self._needs[shape] = self._states(shape.example)
        return found

    # ------------------------------------------------------------------------------------------------- filters

    def stuck(self, shape: Shape) -> Reason | None:
        """Why the pod cannot run anywhere yet."""
        for key in _claims(shape.example):
            state = self._storage.state(key, shape.example)
            if isinstance(state, Reason):
                return state
        return None

    def zones(self, plugin: str, shape: Shape) -> list[Denial]:
        """Nodes in other zones than the pod's volumes."""
        volumes = [each.volume for each in self._of(shape)[0] if each.volume is not None]
        good = np.ones(self._size, dtype=bool)
        for volume in volumes:
            good &= self._storage.zones(volume)
        return [Denial(Code.VOLUME_ZONE, plugin, ~good)] if volumes else []

    def reach_denials(self, plugin: str, shape: Shape) -> list[Denial]:
        """Nodes from which a bound volume cannot be reached."""
        found = []
        for bound in self._of(shape)[0]:
            if bound.volume is None:
                found.append(Denial(Code.VOLUME_MISSING, plugin, np.ones(self._size, dtype=bool)))
            else:
                found.append(Denial(Code.VOLUME_AFFINITY, plugin, ~self._storage.nodes_reaching(bound.volume)))
        return found

    def wants(self, shape: Shape) -> bool:
        return shape.example.mounts is not None and bool(self._of(shape)[1])

    def restless(self, shape: Shape) -> bool:
        """Whether a placement changes what volumes the next such pod can have."""
        return self.wants(shape) and not all(self.is_simple(each) for each in self._of(shape)[1])

    def shared(self, task: Task) -> list[Shared]:
        """Claims that wait for their first consumer: the others follow it."""
        self._remember()
        return [
            Shared(each.key, functools.partial(self._reaches, each))
            for each in (self._states(task)[1] if task.mounts is not None else ())
            if self._sharers[each.key] > 1 and not each.node and each.key not in self._choices
        ]

    def _reaches(self, wanting: Wanting) -> list[Reach]:
        return self._storage.reaches(self._candidates(wanting))

    def bindable(self, plugin: str, shape: Shape) -> list[Denial]:
        """Nodes near which the unbound claims find no volume, neither an existing nor a new one."""
        self._remember()
        bound = np.ones(self._size, dtype=bool)
        roomy = np.ones(self._size, dtype=bool)
        reached = np.ones(self._size, dtype=bool)
        asked: collections.Counter[Need] = collections.Counter()
        open_claims = []
        nothing = np.zeros(self._size, dtype=bool)
        for wanting in self._of(shape)[1]:
            if self.is_simple(wanting):  # the next such pod brings a claim of its own, whatever became of this one
                self._provide(wanting.need, nothing, bound, roomy)
                continue
            choice = self._choices.get(wanting.key)
            if choice is not None and choice.volume:
                volume = self._storage.volume(choice.volume)
                assert volume is not None
                reached &= self._storage.nodes_reaching(volume)
                continue
            node = choice.node if choice is not None else wanting.node
            if node:
                bound &= self._only(node)
                self._provide(wanting.need, nothing, bound, roomy)
            elif wanting.prebound:
                self._provide(wanting.need, self._prebound(wanting), bound, roomy)
            else:
                open_claims.append(wanting)
                asked[wanting.need] += 1
        if len(asked) > 1:
            for wanting, matched in self._storage.matched_together(open_claims, self._taken):
                self._provide(wanting.need, matched, bound, roomy)
        else:
            for need, number in asked.items():
                self._provide(need, self._free_for(need) >= number, bound, roomy)
        return [
            Denial(Code.VOLUME_AFFINITY, plugin, ~reached),
            Denial(Code.VOLUME_NOT_FOUND, plugin, reached & ~bound),
            Denial(Code.VOLUME_SPACE, plugin, reached & bound & ~roomy),
        ]

    def _provide(self, need: Need, matched: Mask, bound: Mask, roomy: Mask) -> None:
        """Where no volume matches, one has to be made: take out the nodes where none can be."""
        if matched.all():
            return
        near, has_room = self._storage.provisionable(need)
        bound &= matched | near
        roomy &= matched | has_room

    def _prebound(self, wanting: Wanting) -> Mask:
        volume = self._storage.volume(wanting.prebound)
        if volume is None or not self._storage.serves(volume, wanting.need):
            return self._free_for(wanting.need) > 0
        return self._storage.nodes_reaching(volume)

    def _only(self, node: str) -> Mask:
        mask = np.zeros(self._size, dtype=bool)
        index = self._session.room.table.index.get(node)
        if index is not None:
            mask[index] = True
        return mask

    def _free_for(self, need: Need) -> Column:
        column = self._free.get(need)
        if column is None:
            column = self._free[need] = np.zeros(self._size, dtype=np.int64)
            for volume in self._storage.fitting(need):
                if volume.metadata.name not in self._taken:
                    column += self._storage.nodes_reaching(volume)
        return column

    def alone(self, plugin: str, shape: Shape) -> list[Denial]:
        """Claims that only one pod in the cluster may use."""
        if any(self._used_by(key) for key in self._exclusive(shape.example)):
            return [Denial(Code.VOLUME_IN_USE, plugin, np.ones(self._size, dtype=bool), Cure.EVICTION)]
        return []

    def is_exclusive(self, shape: Shape) -> bool:
        return any(True for _ in self._exclusive(shape.example))

    def _exclusive(self, task: Task) -> Iterable[str]:
        """Claims that only one pod may use, and that several want."""
        bound, wanting = self._states(task)
        keys = [each.key for each in bound] + [each.key for each in wanting if not self.is_simple(each)]
        for key in keys:
            claim = self._storage.claim(key)
            if claim is not None and ONE_POD_ONLY in claim.spec.access_modes:
                yield key

    def _used_by(self, key: str) -> int:
        """How many pods on nodes use the claim, promised ones included and evicted ones not."""
        if self._users is None:
            self._users = collections.Counter()
            for task, _ in self._session.viewed(self._session.snapshot.with_mounts):
                self._users.update(_claims(task))
        return self._users[key]

    def disks(self, shape: Shape) -> Column | None:
        """One more such pod where its disks are not taken, or as many as like where all only read."""
        mounts = shape.example.mounts
        if mounts is None or not mounts.disks:
            return None
        room = np.full(self._size, NO_LIMIT if all(disk.is_shareable for disk in mounts.disks) else 1, dtype=np.int64)
        for task, node in self._session.viewed(self._session.snapshot.with_mounts):
            others = task.mounts.disks if task.mounts is not None else ()
            if any(disk.excludes(other) for disk in mounts.disks for other in others):
                room[node] = 0
        return room

    # ------------------------------------------------------------------------------------------------- reservations

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del gang
        if shape.example.mounts is None:
            return
        for task, node in zip(tasks, nodes, strict=True):
            if self._users is not None:
                for key in _claims(task):
                    self._users[key] += sign
            if task.status in ON_A_NODE:
                continue
            if sign > 0:
                self._reserve(task, node)
            else:
                self._release(task)

    def _remember(self) -> None:
        """What earlier cycles chose for pods that are still being bound."""
        if self._knows_earlier_cycles:
            return
        self._knows_earlier_cycles = True
        for task in self._session.snapshot.with_mounts:
            if task.status is Status.BINDING:
                chosen = _annotated_volumes(task)
                for wanting in self._states(task)[1]:
                    name = chosen.get(wanting.key.partition("/")[2], "")
                    name = name if self._storage.volume(name) is not None else ""  # it is gone: the bind will fail
                    self._choices.setdefault(wanting.key, VolumeChoice(wanting.key, name, task.node))
                    if name:
                        self._taken[name] = wanting.key

    def _reserve(self, task: Task, node: int) -> None:
        self._remember()
        decided = []
        for wanting in self._states(task)[1]:
            if wanting.key in self._choices:
                continue
            volume = self._pick(wanting, node)
            name = volume.metadata.name if volume is not None else ""
            self._choices[wanting.key] = VolumeChoice(wanting.key, name, self._session.room.table.names[node])
            decided.append(wanting.key)
            if volume is not None:
                self._taken[name] = wanting.key
                self._count(volume, -1)
        if decided:
            self._decided_by[task.uid] = decided

    def _release(self, task: Task) -> None:
        for key in reversed(self._decided_by.pop(task.uid, ())):
            choice = self._choices.pop(key)
            if choice.volume:
                del self._taken[choice.volume]
                volume = self._storage.volume(choice.volume)
                assert volume is not None
                self._count(volume, 1)

    def _pick(self, wanting: Wanting, node: int) -> PersistentVolume | None:
        """The smallest free volume within reach of the node; None: one has to be made."""
        if wanting.node:
            return None
        return next((each for each in self._candidates(wanting) if self._storage.nodes_reaching(each)[node]), None)

    def _candidates(self, wanting: Wanting) -> list[PersistentVolume]:
        """The one that was reserved for the claim, if it serves; else the free ones, smallest first."""
        prebound = self._storage.volume(wanting.prebound) if wanting.prebound else None
        if prebound is not None and self._storage.serves(prebound, wanting.need):
            return [prebound]
        return [each for each in self._storage.fitting(wanting.need) if each.metadata.name not in self._taken]

    def _count(self, volume: PersistentVolume, sign: int) -> None:
        for need, column in self._free.items():
            if any(each is volume for each in self._storage.fitting(need)):
                np.add(column, sign * self._storage.nodes_reaching(volume), out=column)

    def choices(self, task: Task) -> list[VolumeChoice]:
        """What has to be written before the pod can be bound, so that its claims get their volumes."""
        return [choice for wanting in self._states(task)[1] if (choice := self._choices.get(wanting.key)) is not None]

    def notes(self, task: Task) -> dict[str, str]:
        """The same as an annotation: the next cycle reads it from the pod that is being bound."""
        chosen = {choice.claim.partition("/")[2]: choice.volume for choice in self.choices(task)}
        return {names.VOLUMES: msgspec.json.encode(chosen, order="sorted").decode()} if chosen else {}


def _annotated_volumes(task: Task) -> dict[str, str]:
    """Claim -> volume by the pod's annotation; any user may write one, so it may be anything."""
    text = task.pod.metadata.annotations.get(names.VOLUMES, "{}")
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except UNREADABLE:
        return {}


def _claims(task: Task) -> tuple[str, ...]:
    return task.mounts.claims if task.mounts is not None else ()
