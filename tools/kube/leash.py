"""A program started through this one dies with its parent, however the parent dies.

    python leash.py PARENT_PID PROGRAM ARGUMENT...

The kernel sends SIGKILL when the *thread* that started us ends, so whoever starts us must do it from a thread that
lives as long as the program should.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it died before the kernel knew
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606 - the caller's own program, no shell


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
