"""Host ports: two pods on one node cannot have the same port of the same address, and no address means all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.api.host_ports import HostPort, host_ports
from pumice.cluster.tasks import ON_A_NODE, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape


class HostPorts:
    """Which nodes have a port taken; follows every placement. Pods on nodes are looked at only once a pod asks for a port."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ports: dict[Shape, tuple[HostPort, ...]] = {}
        self._taken: dict[HostPort, Column] = {}
        self._standing: list[tuple[int, HostPort]] | None = None
        session.on.moved(self.moved)

    def free(self, shape: Shape) -> Column | None:
        """One more such pod where its ports are free; None where it has none."""
        ports = self.of(shape)
        if not ports:
            return None
        taken = np.zeros(len(self._session.room.table), dtype=np.int64)
        for port in ports:
            taken += self._column(port)
        return np.where(taken == 0, 1, 0)

    def of(self, shape: Shape) -> tuple[HostPort, ...]:
        ports = self._ports.get(shape)
        if ports is None:
            ports = self._ports[shape] = host_ports(shape.example.pod.spec)
        return ports

    def _column(self, port: HostPort) -> Column:
        """How many ports of each node are in the way of this one."""
        column = self._taken.get(port)
        if column is None:
            column = self._taken[port] = np.zeros(len(self._session.room.table), dtype=np.int64)
            for node, other in self._on_nodes():
                column[node] += port.conflicts(other)
            for gang in self._session.gangs.moved:
                for task, (status, node) in gang.places.items():
                    was, is_ = task.status in ON_A_NODE, status not in {Status.RELEASING, Status.PENDING}
                    if was != is_:
                        column[node] += (1 if is_ else -1) * sum(map(port.conflicts, host_ports(task.pod.spec)))
        return column

    def _on_nodes(self) -> list[tuple[int, HostPort]]:
        if self._standing is None:
            tasks = enumerate(self._session.room.table.tasks)
            self._standing = [(node, port) for node, own in tasks for task in own for port in host_ports(task.pod.spec)]
        return self._standing

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del gang, tasks
        if not self._taken:
            return
        for other in self.of(shape):
            for port, column in self._taken.items():
                if port.conflicts(other):
                    np.add.at(column, np.asarray(nodes, dtype=np.intp), sign)
