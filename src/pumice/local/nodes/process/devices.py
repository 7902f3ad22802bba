"""Fake GPUs: numbers from 0 on, each given to one pod at a time, which sees it through CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster import amounts
from pumice.cluster.requests import request_of
from pumice.errors import PumiceError

if TYPE_CHECKING:
    from pumice.api.pods import Container, Pod

GPU = "nvidia.com/gpu"


class NoDevice(PumiceError):
    """Fewer devices are free than were promised: the node's books are wrong."""


class Devices:
    """The numbers of one node's GPUs."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._owners: dict[int, str] = {}  # number -> pod's uid

    def take(self, pod: Pod) -> tuple[int, ...]:
        """As many as the pod asks for, the lowest that are free."""
        wanted = round(request_of(pod).amounts.get(GPU, 0) / amounts.MILLI)
        free = [number for number in range(self.count) if number not in self._owners]
        if not self.count or wanted == 0:
            return ()
        if len(free) < wanted:
            raise NoDevice(f"pod {pod.metadata.key} was promised {wanted} GPUs, and {len(free)} are free")
        taken = tuple(free[:wanted])
        self._owners |= dict.fromkeys(taken, pod.metadata.uid)
        return taken

    def give_back(self, uid: str) -> None:
        self._owners = {number: owner for number, owner in self._owners.items() if owner != uid}


def share_out(pod: Pod, numbers: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Which container sees which of the pod's GPUs, by its name.

    Containers and sidecars run side by side and share nothing. An init container ends before the containers start, so
    it uses what will be theirs.
    """
    shares: dict[str, tuple[int, ...]] = {}
    kept = 0
    for container in pod.spec.init_containers:
        wanted = _gpu_count(container)
        shares[container.name] = numbers[kept : kept + wanted]
        kept += wanted if container.is_sidecar else 0
    for container in pod.spec.containers:
        wanted = _gpu_count(container)
        shares[container.name] = numbers[kept : kept + wanted]
        kept += wanted
    return shares


def _gpu_count(container: Container) -> int:
    needs = container.resources
    text = needs.requests.get(GPU, needs.limits.get(GPU, 0))
    return amounts.amount(GPU, text) // amounts.MILLI
