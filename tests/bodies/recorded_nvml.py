"""NVML as it answered on a real machine (tools/gpu/record.py), through the functions of pynvml that Pumice calls.

Answers to looks come in the order in which they were recorded; the last one stays.
"""

import json
from pathlib import Path
from types import SimpleNamespace

FOLDER = Path(__file__).with_name("nvml")


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(f"NVML error {value}")
        self.value = value


class RecordedNvml:
    """A machine with `cards` cards like the recorded one."""

    NVMLError = NVMLError
    NVML_ERROR_NOT_FOUND, NVML_ERROR_NOT_SUPPORTED = 6, 3

    def __init__(self, name="h200", cards=1, driver=True):
        self.recorded = json.loads((FOLDER / f"{name}.json").read_text())
        self.cards = [f"{self.recorded['uuid'][:-1]}{number}" for number in range(cards)]
        self.driver = driver
        self.number = -1  # of the look
        self.lost = set()  # cards that have fallen off the bus

    def _said(self, value):
        if isinstance(value, dict) and "error" in value:
            raise NVMLError(value["error"])
        return value

    @property
    def look(self):
        return self.recorded["looks"][min(self.number, len(self.recorded["looks"]) - 1)]

    def nvmlInit(self):  # noqa: N802
        if not self.driver:
            raise NVMLError(9)

    def nvmlShutdown(self):  # noqa: N802
        pass

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return {"uuid": self.cards[index], "name": self.recorded["name"], "memory": self.recorded["memory"]}

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return handle["uuid"]

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return handle["name"]

    def nvmlDeviceGetMigMode(self, handle):  # noqa: N802
        return self._said(self.recorded["mig"])

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):  # noqa: N802
        return len(self.recorded["partitions"])

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):  # noqa: N802
        return self._said(self.recorded["partitions"][index])

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(total=handle["memory"], used=self.look["used"])

    def nvmlDeviceGetUtilizationRates(self, handle):  # noqa: N802
        if handle["uuid"] in self.lost:
            raise NVMLError(15)
        if handle["uuid"] == self.cards[0]:
            self.number += 1
        return SimpleNamespace(gpu=self._said(self.look["gpu"]))

    def nvmlDeviceGetComputeRunningProcesses(self, handle):  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=memory) for pid, memory in self.look["processes"]]

    def nvmlDeviceGetProcessUtilization(self, handle, since):  # noqa: N802
        samples = self._said(self.look["shares"])
        return [SimpleNamespace(pid=pid, timeStamp=at, smUtil=percent) for pid, at, percent in samples if at > since]
