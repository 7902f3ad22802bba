"""Who keeps a node: written into the node's annotation, so that a second agent leaves the nodes of a live one alone."""

from __future__ import annotations

import os
import socket

from pumice.digits import whole_number
from pumice.local.nodes.process.leftovers import start_time


def own_identity() -> str:
    """Our process, told apart from any other that has its number later."""
    return f"{socket.gethostname()}:process-{os.getpid()}-{start_time(os.getpid())}"


def has_ended(keeper: str) -> bool:
    """True for a process of this machine that is no more; of other machines nothing is known."""
    host, _, process = keeper.rpartition(":process-")
    number, _, start = process.partition("-")
    pid = whole_number(number)
    return host == socket.gethostname() and pid is not None and str(start_time(pid)) != start
