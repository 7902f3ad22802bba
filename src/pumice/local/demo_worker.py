"""What the demo's gang runs: ranks meet at a barrier, add numbers together, and keep a checkpoint. Standard library only.

Rank 0 listens at MASTER_ADDR:MASTER_PORT; the others connect to it by name. Each step every rank sends its rank, rank 0 answers
with the sum: an all-reduce. After each step rank 0 writes the checkpoint that a restarted gang resumes from.
"""

import os
import socket
import sys
import time
from pathlib import Path

STEPS = 12
STEP_S = 0.25
CONNECT_S_MAX = 20.0

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ADDRESS = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
CHECKPOINT = Path(os.environ["CHECKPOINT_DIR"]) / "step"


def say(text: str) -> None:
    sys.stdout.write(f"rank {RANK}: {text}\n")
    sys.stdout.flush()


def lead() -> None:
    first = int(CHECKPOINT.read_text()) if CHECKPOINT.exists() else 0
    say(f"resumes after step {first}" if first else "starts at step 0")
    with socket.create_server(ADDRESS) as server:
        server.settimeout(CONNECT_S_MAX)
        peers = [server.accept()[0].makefile("rw") for _ in range(WORLD - 1)]
        say(f"all {WORLD} ranks are here")
        for step in range(first + 1, STEPS + 1):
            time.sleep(STEP_S)
            total = RANK + sum(int(peer.readline()) for peer in peers)
            CHECKPOINT.write_text(str(step))
            for peer in peers:
                peer.write(f"{total} {step}\n")
                peer.flush()
        say(f"done after step {STEPS}; the ranks add up to {total}")


def follow() -> None:
    deadline = time.monotonic() + CONNECT_S_MAX
    while True:
        try:
            wire = socket.create_connection(ADDRESS, timeout=CONNECT_S_MAX).makefile("rw")
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    while True:
        wire.write(f"{RANK}\n")
        wire.flush()
        answer = wire.readline().split()
        if not answer:
            raise SystemExit("rank 0 is gone")
        if int(answer[1]) == STEPS:
            return


if __name__ == "__main__":
    lead() if RANK == 0 else follow()
