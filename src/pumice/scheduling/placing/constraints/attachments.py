"""How many volumes a node can have attached: per driver, by the node's own word; a volume that several pods use is one."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

import numpy as np

from pumice.api.storage import CSINode, VolumeAttachment
from pumice.scheduling.placing.constraints.storage import Storage, Wanting
from pumice.scheduling.placing.constraints.volumes import PodVolumes
from pumice.values import once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.core import PersistentVolume
    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

NO_LIMIT = np.iinfo(np.int64).max

Attached = tuple[str, str]  # driver, and the volume's own name


class Attachments:
    """Attached volumes per node and driver; follows every placement. Nothing is counted before a pod with volumes asks."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._storage = session.shared(Storage)
        self._pods = session.shared(PodVolumes)
        self._size = len(session.room.table)
        self._users: dict[Attached, collections.Counter[int]] = {}  # volume -> node -> pods and attachments
        self._counts: dict[str, Column] | None = None  # driver -> volumes attached to each node
        session.on.moved(self.moved)

    @once
    def _limits(self) -> dict[str, Column]:
        """Driver -> how many volumes each node takes; without a word about it, as many as like."""
        found: dict[str, Column] = {}
        index = self._session.room.table.index
        for name, node in self._session.snapshot.objects(CSINode).items():
            for driver in node.spec.drivers if name in index else ():
                if driver.allocatable is not None and driver.allocatable.count is not None:
                    column = found.setdefault(driver.name, np.full(self._size, NO_LIMIT, dtype=np.int64))
                    column[index[name]] = driver.allocatable.count
        return found

    def room(self, shape: Shape) -> Column | None:
        """How many more such pods each node can attach the volumes of; None for pods without counted volumes."""
        if shape.example.mounts is None or not self._limits:
            return None
        room: Column | None = None
        for driver, volumes in self._by_driver(shape.example).items():
            shared = [volume for volume, is_own in volumes if not is_own]
            own = len(volumes) - len(shared)
            free = self._free(driver, shared)
            copies = free // own if own else np.where(free >= 0, NO_LIMIT, 0)
            room = copies if room is None else np.minimum(room, copies)
        return None if room is None else np.maximum(room, 0)

    def _by_driver(self, task: Task) -> dict[str, list[tuple[Attached, bool]]]:
        """The task's volumes by driver, where nodes limit it; True for one of which every pod of the shape has its own."""
        found: dict[str, list[tuple[Attached, bool]]] = {}
        for volume, is_own in self._volumes(task):
            if volume[0] in self._limits:
                found.setdefault(volume[0], []).append((volume, is_own))
        return found

    def _free(self, driver: str, shared: Sequence[Attached]) -> Column:
        """What is left for further volumes once these are attached too."""
        free: Column = self._limits[driver] - self._count_attached(driver)
        for volume in shared:
            there = np.zeros(self._size, dtype=bool)
            there[[node for node, users in self._users.get(volume, {}).items() if users]] = True
            free = free - ~there
        return free

    def _count_attached(self, driver: str) -> Column:
        if self._counts is None:
            self._counts = {}
            index = self._session.room.table.index
            for task, node in self._session.viewed(self._session.snapshot.with_mounts):
                self._add(task, node, 1)
            for attachment in self._session.snapshot.objects(VolumeAttachment).values():
                name = attachment.spec.source.persistent_volume_name
                volume = self._storage.volume(name) if name is not None else None
                if volume is not None and volume.spec.csi is not None and attachment.spec.node_name in index:
                    self._change(_attachment_of(volume), index[attachment.spec.node_name], 1)
        return self._counts.get(driver, np.zeros(self._size, dtype=np.int64))

    def _add(self, task: Task, node: int, sign: int) -> None:
        for volume, _ in self._volumes(task):
            self._change(volume, node, sign)

    def _change(self, volume: Attached, node: int, sign: int) -> None:
        assert self._counts is not None
        users = self._users.setdefault(volume, collections.Counter())
        before = users[node] > 0
        users[node] += sign
        after = users[node] > 0
        if before != after:
            column = self._counts.setdefault(volume[0], np.zeros(self._size, dtype=np.int64))
            column[node] += 1 if after else -1

    def _volumes(self, task: Task) -> list[tuple[Attached, bool]]:
        """The task's volumes that a driver attaches, also where the claim is being deleted.

        One that is not bound yet, or that the watch has not shown, goes by its claim's name, and by its class's driver.
        """
        found: list[tuple[Attached, bool]] = []
        for key in task.mounts.claims if task.mounts is not None else ():
            volume = self._storage.volume_of(key)
            if volume is None:
                state = self._storage.state(key, task)
                is_own = isinstance(state, Wanting) and self._pods.is_simple(state)
                found.append(((self._storage.driver(key), UNBOUND + key), is_own))
            elif volume.spec.csi is not None:
                found.append((_attachment_of(volume), False))
        return found

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del gang
        if self._counts is None or shape.example.mounts is None:
            return
        for task, node in zip(tasks, nodes, strict=True):
            self._add(task, node, sign)


UNBOUND = "claim:"  # no volume handle of a driver is looked up by this name


def _attachment_of(volume: PersistentVolume) -> Attached:
    assert volume.spec.csi is not None
    return volume.spec.csi.driver, volume.spec.csi.volume_handle
