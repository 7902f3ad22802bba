"""A rank that counts its steps into a checkpoint, on its GPU where there is CUDA: python worker.py FOLDER STEPS

It goes on after the last step that it finds there, and says so.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any


def card() -> Any:
    """A matrix on the first GPU that this process sees; None where there is none."""
    try:
        import torch
    except ImportError:
        return None
    return torch.rand(2048, 2048, device="cuda") if torch.cuda.is_available() else None


def main(folder: Path, steps: int) -> None:
    checkpoint = folder / f"rank-{os.environ.get('VC_TASK_INDEX', '0')}"
    done = int(checkpoint.read_text()) if checkpoint.exists() else 0
    matrix = card()
    told = {name: os.environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT_0")}
    print(f"begins after step {done} on {told} with {'CUDA' if matrix is not None else 'no CUDA'}", flush=True)
    while done < steps:
        if matrix is not None:
            for _ in range(20):
                matrix = (matrix @ matrix).softmax(0)
            matrix.sum().item()
        else:
            time.sleep(0.05)  # a machine without GPUs has better things to do
        done += 1
        fresh = checkpoint.with_suffix(".new")
        fresh.write_text(str(done))
        fresh.replace(checkpoint)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
