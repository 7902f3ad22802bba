"""A node's GPUs, and which pod has which: fake ones by number, real ones by UUID.

A GPU is given out whole, as `nvidia.com/gpu`, each to one pod at a time; or it is shared, and pods have slices of its memory and cores, as
`volcano.sh/vgpu-*`. Which card a slice is of has been decided by the scheduler, in an annotation of the pod, as for any device plugin.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from pumice.api import names
from pumice.cluster import amounts
from pumice.cluster.cards import CORES, HAMI_CORE, Slice, slices_of
from pumice.cluster.requests import request_of
from pumice.errors import PumiceError
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.api.pods import Container, Pod

GPU = "nvidia.com/gpu"
MIG_PREFIX = "nvidia.com/mig-"  # and a profile: partitions of cards that were cut beforehand
SLICES = 100  # of a shared GPU: no pod has less than a hundredth


class NoDevice(PumiceError):
    """Fewer devices are free than were promised: the node's books are wrong, or the scheduler's are."""


class Gpu(Value):
    """One card, or a partition of one. `id` is what CUDA_VISIBLE_DEVICES takes: a number, or a UUID."""

    id: str
    memory_mib: int = 0
    model: str = ""
    resource: str = GPU  # as which it is given out whole
    is_shared: bool = False


def fake(count: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(str(number)) for number in range(count))


def capacity_of(gpus: Sequence[Gpu]) -> dict[str, str]:
    """What the node counts: whole cards and partitions. Shared cards stand in `register`, as a device plugin writes it."""
    counts = collections.Counter(gpu.resource for gpu in gpus if not gpu.is_shared)
    return {resource: str(count) for resource, count in counts.items()}


def register(gpus: Sequence[Gpu]) -> dict[str, str]:
    """The node's annotation that lists its shared cards."""
    text = "".join(
        f"{gpu.id},{SLICES},{gpu.memory_mib},{_plain(gpu.model)},true,{HAMI_CORE}:" for gpu in gpus if gpu.is_shared
    )
    return {names.VGPU_NODE_REGISTER: text} if text else {}


def labels_of(gpus: Sequence[Gpu]) -> dict[str, str]:
    """As NVIDIA's feature discovery names them; of the first card, where they differ."""
    if not gpus or not gpus[0].model:
        return {}
    cut = collections.Counter(gpu.resource for gpu in gpus if gpu.resource != GPU)
    mixed = {"nvidia.com/mig.strategy": "mixed"} | {f"{resource}.count": str(count) for resource, count in cut.items()}
    product = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in gpus[0].model)
    return {
        "nvidia.com/gpu.product": product[:63].strip("-_."),
        "nvidia.com/gpu.memory": str(gpus[0].memory_mib),
        "nvidia.com/gpu.count": str(len(gpus)),
    } | (mixed if cut else {})


def _plain(model: str) -> str:
    """Without what separates the fields of a register."""
    return "".join(" " if letter in ",:" else letter for letter in model)


Given = dict[str, tuple[Slice, ...]]  # by container; a whole card is a slice with all of its memory and cores


class Devices:
    """The GPUs of one node."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._gpus = {gpu.id: gpu for gpu in gpus}
        self._held: dict[str, tuple[Slice, ...]] = {}  # by the pod's uid

    @property
    def held(self) -> Mapping[str, Sequence[Slice]]:
        """By the pod's uid."""
        return self._held

    def take(self, pod: Pod) -> Given:
        """As many whole cards as the pod asks for, the first that are free, and the slices that it was promised."""
        if not self._gpus:
            return {}
        shares = [
            share_out(pod, resource, self._whole(pod, resource))
            for resource in dict.fromkeys(gpu.resource for gpu in self._gpus.values() if not gpu.is_shared)
        ]
        slices = self._slices(pod)
        given: Given = {each.name: () for each in (*pod.spec.init_containers, *pod.spec.containers)}
        for parts_of in (*shares, slices):
            for container, parts in parts_of.items():
                given[container] += parts
        whole = dict.fromkeys(part for share in shares for parts in share.values() for part in parts)
        self._held[pod.metadata.uid] = (*whole, *(part for parts in slices.values() for part in parts))
        return given

    def give_back(self, uid: str) -> None:
        self._held.pop(uid, None)

    def _whole(self, pod: Pod, resource: str) -> tuple[Slice, ...]:
        wanted = round(request_of(pod).amounts.get(resource, 0) / amounts.MILLI)
        taken = {part.uuid for parts in self._held.values() for part in parts}
        free = [
            gpu for gpu in self._gpus.values() if gpu.resource == resource and not gpu.is_shared and gpu.id not in taken
        ]
        if len(free) < wanted:
            raise NoDevice(f"pod {pod.metadata.key} was promised {wanted} {resource}, and {len(free)} are free")
        return tuple(Slice(gpu.id, gpu.memory_mib, CORES) for gpu in free[:wanted])

    def _slices(self, pod: Pod) -> Given:
        wanting = [each.name for each in pod.spec.containers if _wants_slices(each)]
        promised = [each for each in slices_of(pod.metadata.annotations.get(names.VGPU_IDS, "")) if each]
        if not wanting or not any(gpu.is_shared for gpu in self._gpus.values()):
            return {}
        if len(promised) != len(wanting):
            raise NoDevice(
                f"pod {pod.metadata.key} asks for slices of GPUs in {len(wanting)} containers, and its annotation {names.VGPU_IDS} has them "
                f"for {len(promised)}; use a scheduler that hands them out (plugin deviceshare)"
            )
        self._check(pod, [part for parts in promised for part in parts])
        return dict(zip(wanting, promised, strict=True))

    def _check(self, pod: Pod, parts: Sequence[Slice]) -> None:
        """The scheduler's word is not enough: two schedulers may share a node."""
        for uuid in {part.uuid for part in parts}:
            gpu = self._gpus.get(uuid)
            if gpu is None or not gpu.is_shared:
                raise NoDevice(f"pod {pod.metadata.key} was promised a slice of GPU {uuid}, which is not shared here")
            given = [part for held in (*self._held.values(), parts) for part in held if part.uuid == uuid]
            memory, cores = sum(part.memory for part in given), sum(part.cores for part in given)
            if memory > gpu.memory_mib or cores > CORES or len(given) > SLICES:
                raise NoDevice(
                    f"pod {pod.metadata.key} was promised a slice of GPU {uuid}, which then would have given away {memory} of {gpu.memory_mib} MiB "
                    f"and {cores} % of its cores"
                )


def share_out(pod: Pod, resource: str, slices: tuple[Slice, ...]) -> Given:
    """Which container sees which of the pod's whole GPUs of one kind, by its name.

    Containers and sidecars run side by side and share nothing. An init container ends before the containers start, so
    it uses what will be theirs.
    """
    shares: Given = {}
    kept = 0
    for container in pod.spec.init_containers:
        wanted = _count(container, resource)
        shares[container.name] = slices[kept : kept + wanted]
        kept += wanted if container.is_sidecar else 0
    for container in pod.spec.containers:
        wanted = _count(container, resource)
        shares[container.name] = slices[kept : kept + wanted]
        kept += wanted
    return shares


def environment(slices: Sequence[Slice]) -> dict[str, str]:
    """What a container is told of its GPUs: which it sees, and how much of each is its own where it shares them.

    The limits have the names by which HAMi's library knows them. Nothing here enforces them.
    """
    told = {"CUDA_VISIBLE_DEVICES": ",".join(part.uuid for part in slices)}
    if all(part.cores == CORES for part in slices):
        return told
    told |= {f"CUDA_DEVICE_MEMORY_LIMIT_{number}": f"{part.memory}m" for number, part in enumerate(slices)}
    cores = max(part.cores for part in slices)
    return told | ({"CUDA_DEVICE_SM_LIMIT": str(cores)} if cores else {})


def _count(container: Container, resource: str) -> int:
    needs = container.resources
    text = needs.requests.get(resource, needs.limits.get(resource, 0))
    return amounts.amount(resource, text) // amounts.MILLI


def _wants_slices(container: Container) -> bool:
    """As the scheduler reads it: memory alone means a slice of one card."""
    asked = amounts.read(container.resources.requests) | amounts.read(container.resources.limits)
    return bool(asked.get(names.VGPU_NUMBER, 1 if names.VGPU_MEMORY in asked else 0))
