"""The NVIDIA GPUs of this machine, as NVML (the driver's library) tells of them; through `nvidia-ml-py`, the extra `gpu`."""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pumice.errors import BadInput
from pumice.local.nodes.process.devices import GPU, MIG_PREFIX, Gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.runtime import Log

LIBRARY = "pynvml"
MIB = 2**20
CARDS_MAX = 64  # of one machine


class ProcessUse(NamedTuple):
    """What one process has of a card; None where the driver does not say."""

    pid: int
    memory_mib: int | None = None
    percent: float | None = None


class CardUse(NamedTuple):
    """A card or partition at one moment; no percent where the driver does not say."""

    id: str
    percent: float | None
    memory_mib: int
    processes: tuple[ProcessUse, ...] = ()


class Nvml:
    """The only caller of NVML. Its calls block for a few milliseconds."""

    def __init__(self, library: Any, log: Log) -> None:
        """`library` has the functions of the module pynvml."""
        self._library = library
        self._log = log
        self._handles: dict[str, Any] = {}  # by UUID
        self._seen: dict[str, int] = {}  # by UUID: up to when processes' shares are known, in NVML's microseconds
        self._silent: set[str] = set()  # cards that do not answer, told of once

    @classmethod
    def open(cls, log: Log, library: Any = None) -> Self:
        """Raises BadInput where there is no library, no driver or no card, with what to do about it."""
        if library is None:
            try:
                library = importlib.import_module(LIBRARY)
            except ImportError as error:
                raise BadInput(
                    "--gpus auto asks NVML for GPUs, and its Python module is not installed; run `pip install 'pumice[gpu]'`"
                ) from error
        try:
            library.nvmlInit()
        except library.NVMLError as error:
            raise BadInput(
                f"--gpus auto: NVML says {error}; is NVIDIA's driver installed (`nvidia-smi`)? --gpus 4 gives four GPUs that are fake"
            ) from error
        return cls(library, log)

    def close(self) -> None:
        with contextlib.suppress(self._library.NVMLError):
            self._library.nvmlShutdown()

    def gpus(self) -> list[Gpu]:
        """All cards, in the driver's order; of those that were cut (MIG), the partitions."""
        library, found = self._library, list[Gpu]()
        for index in range(min(library.nvmlDeviceGetCount(), CARDS_MAX)):
            handle = library.nvmlDeviceGetHandleByIndex(index)
            if self._is_cut(handle):
                found += self._partitions(handle)
            else:
                found.append(self._gpu(handle, GPU))
        if not found:
            raise BadInput("--gpus auto: NVML finds no GPU that can be given away; `nvidia-smi` shows what there is")
        return found

    def _gpu(self, handle: Any, resource: str) -> Gpu:
        library, uuid = self._library, _text(self._library.nvmlDeviceGetUUID(handle))
        self._handles[uuid] = handle
        memory = library.nvmlDeviceGetMemoryInfo(handle).total
        return Gpu(uuid, memory // MIB, _text(library.nvmlDeviceGetName(handle)), resource)

    def _partitions(self, handle: Any) -> Iterable[Gpu]:
        """The partitions that a card was cut into beforehand; their names end in their profiles, `NVIDIA H200 MIG 1g.18gb`."""
        library = self._library
        for index in range(library.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                part = library.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except library.NVMLError:
                continue  # there are fewer
            profile = _text(library.nvmlDeviceGetName(part)).rpartition(" MIG ")[2]
            yield self._gpu(part, MIG_PREFIX + profile.replace("+", "."))

    def _is_cut(self, handle: Any) -> bool:
        try:
            current, _ = self._library.nvmlDeviceGetMigMode(handle)
        except self._library.NVMLError:
            return False  # most cards do not know what that is
        return bool(current)

    def look(self) -> list[CardUse]:
        """What is used of every card that answers."""
        found = []
        for uuid, handle in self._handles.items():
            try:
                found.append(self._look(uuid, handle))
                self._silent.discard(uuid)
            except self._library.NVMLError as error:
                if uuid not in self._silent:
                    self._silent.add(uuid)
                    self._log("gpu_does_not_answer", gpu=uuid, error=str(error))
        return found

    def _look(self, uuid: str, handle: Any) -> CardUse:
        library = self._library
        percent = self._percent(handle)
        memory = library.nvmlDeviceGetMemoryInfo(handle).used // MIB
        return CardUse(uuid, percent, memory, tuple(self._processes(uuid, handle)))

    def _percent(self, handle: Any) -> float | None:
        try:
            return float(self._library.nvmlDeviceGetUtilizationRates(handle).gpu)
        except self._library.NVMLError as error:
            if getattr(error, "value", None) != self._library.NVML_ERROR_NOT_SUPPORTED:
                raise
            return None  # a partition does not know

    def _processes(self, uuid: str, handle: Any) -> Iterable[ProcessUse]:
        shares = self._shares(uuid, handle)
        for each in self._library.nvmlDeviceGetComputeRunningProcesses(handle):
            memory = None if each.usedGpuMemory is None else each.usedGpuMemory // MIB
            yield ProcessUse(each.pid, memory, None if shares is None else shares.get(each.pid, 0.0))

    def _shares(self, uuid: str, handle: Any) -> dict[int, float] | None:
        """Percent of the card by process, the mean since the last look; None where the driver cannot tell."""
        library, seen = self._library, self._seen.get(uuid, 0)
        try:
            samples: Sequence[Any] = library.nvmlDeviceGetProcessUtilization(handle, seen)
        except library.NVMLError as error:
            # Nobody has used the card since; everything else means that it will never tell.
            return {} if getattr(error, "value", None) == library.NVML_ERROR_NOT_FOUND else None
        self._seen[uuid] = max((each.timeStamp for each in samples), default=seen)
        by_process: dict[int, list[int]] = {}
        for each in samples:
            by_process.setdefault(each.pid, []).append(each.smUtil)
        return {pid: sum(values) / len(values) for pid, values in by_process.items()}


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
