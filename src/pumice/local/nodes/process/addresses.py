"""Loopback addresses: each node of this machine has a block of 127.0.0.0/8 to itself, and each pod an address in it.

A block is ours while we hold an abstract socket named after it. Such names belong to the network namespace, exactly as
the loopback interface does, are seen by all users, and vanish with the process, however it ends.
"""

from __future__ import annotations

import socket
from typing import Self

from pumice.errors import PumiceError

FIRST_NET, LAST_NET = 64, 127  # 127.64.x.y to 127.127.x.y: far from what system services use
HOSTS = range(2, 255)  # .1 is the node itself


class NoAddress(PumiceError):
    """All addresses are taken."""


class AddressBlock:
    """127.a.b.0/24 for one node; close it to give it back."""

    def __init__(self) -> None:
        self._holding, self._prefix = _hold()
        self._taken: dict[str, str] = {}  # address -> pod's uid
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._holding.close()

    @property
    def node(self) -> str:
        return f"{self._prefix}.1"

    def take(self, uid: str) -> str:
        """An address for a pod; one that was given back is the last to be used again."""
        for _ in HOSTS:
            address = f"{self._prefix}.{HOSTS[self._next]}"
            self._next = (self._next + 1) % len(HOSTS)
            if address not in self._taken:
                self._taken[address] = uid
                return address
        raise NoAddress(f"all {len(HOSTS)} addresses of {self._prefix}.0/24 are taken; start another node")

    def give_back(self, uid: str) -> None:
        self._taken = {address: owner for address, owner in self._taken.items() if owner != uid}


def _hold() -> tuple[socket.socket, str]:
    for net in range(FIRST_NET, LAST_NET + 1):
        for block in range(256):
            holding = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                holding.bind(f"\0pumice-loopback-{net}-{block}")
            except OSError:
                holding.close()
                continue
            return holding, f"127.{net}.{block}"
    raise NoAddress("all blocks of loopback addresses are held by other nodes of this machine; stop some of them")
