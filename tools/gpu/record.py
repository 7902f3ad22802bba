"""Records what NVML says of the first GPU, idle and while two processes share it: python record.py FILE (with pynvml and torch)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pynvml as nvml

WORK = "import torch; x = torch.rand(8192, 8192, device='cuda'); print(1, flush=True)\nwhile True: (x @ x).sum().item()"


def answer(call: str, *given: Any) -> Any:
    try:
        return getattr(nvml, call)(*given)
    except nvml.NVMLError as error:
        return {"error": error.value}


def look(card: Any) -> dict[str, Any]:
    time.sleep(3)
    shares = answer("nvmlDeviceGetProcessUtilization", card, 0)
    return {
        "gpu": nvml.nvmlDeviceGetUtilizationRates(card).gpu,
        "used": nvml.nvmlDeviceGetMemoryInfo(card).used,
        "processes": [[each.pid, each.usedGpuMemory] for each in nvml.nvmlDeviceGetComputeRunningProcesses(card)],
        "shares": shares if isinstance(shares, dict) else [[each.pid, each.timeStamp, each.smUtil] for each in shares],
    }


def main(target: Path) -> None:
    nvml.nvmlInit()
    card = nvml.nvmlDeviceGetHandleByIndex(0)
    found: dict[str, Any] = {"uuid": nvml.nvmlDeviceGetUUID(card), "name": nvml.nvmlDeviceGetName(card)}
    found |= {"driver": nvml.nvmlSystemGetDriverVersion(), "memory": nvml.nvmlDeviceGetMemoryInfo(card).total}
    found |= {"mig": answer("nvmlDeviceGetMigMode", card), "looks": [look(card)]}
    for _ in range(2):
        worker = subprocess.Popen([sys.executable, "-c", WORK], stdout=subprocess.PIPE)
        assert worker.stdout is not None
        worker.stdout.readline()  # it has its memory
        found["looks"].append({"worker": worker.pid, **look(card)})
    target.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
