"""The names that resolve inside a pod: its own hosts file, kept current while it runs.

The file is mounted over /etc/hosts, so it must stay the same file, and a program may read it at any moment. Hence a line
keeps its place for as long as it is needed: a new one is appended, and one that is no longer true becomes a comment of the
same length. So a reader sees neither half a line nor an empty file.

Peers are found as in a cluster: a pod with hostname and subdomain under `<hostname>.<subdomain>` and its longer forms, and
the pods of a headless Service under the Service's name.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from pumice import selectors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pumice.api.core import Service
    from pumice.local.nodes.process.podspec import ProcessPod

CLUSTER_DOMAIN = "cluster.local"
# So much of a file may be comments; beyond it the file is written anew, and a reader may miss a name just then.
BLANKED_BYTES_MAX = 64 * 2**10

_HEAD = (
    "# kept by the node's agent; changes are lost\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
)


class Peer(NamedTuple):
    """A pod as others look for it."""

    address: str
    hostname: str
    subdomain: str
    labels: Mapping[str, str]
    is_ready: bool


def forms(name: str, namespace: str) -> list[str]:
    """A name within a namespace as it may be written there, the longest first."""
    return [f"{name}.{namespace}.svc.{CLUSTER_DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}", name]


def own_lines(pod: ProcessPod, address: str) -> list[str]:
    """What a kubelet writes: the pod's own name, and the aliases that it asked for."""
    names = [pod.hostname]
    if pod.spec.subdomain:
        names = [*forms(f"{pod.hostname}.{pod.spec.subdomain}", pod.metadata.namespace), pod.hostname]
    return [_line(address, names), *(_line(alias.ip, alias.hostnames) for alias in pod.spec.host_aliases)]


def peer_lines(namespace: str, peers: Iterable[Peer], services: Iterable[Service]) -> list[str]:
    """The names of all pods of a namespace that have one, in an order that does not depend on chance."""
    known = sorted(peers, key=lambda peer: (peer.hostname, peer.address))
    lines = [
        _line(peer.address, forms(f"{peer.hostname}.{peer.subdomain}", namespace))
        for peer in known
        if peer.hostname and peer.subdomain
    ]
    for service in sorted(services, key=lambda service: service.metadata.name):
        if service.spec.cluster_ip != "None" or not service.spec.selector:
            continue
        selector = selectors.equality_of(service.spec.selector)
        lines += [
            _line(peer.address, forms(service.metadata.name, namespace))
            for peer in known
            if (peer.is_ready or service.spec.publish_not_ready_addresses) and selector.matches(peer.labels)
        ]
    return list(dict.fromkeys(lines))


def _line(address: str, names: Iterable[str]) -> str:
    return f"{address}\t{' '.join(names)}\n"


class HostsFile:
    """One pod's hosts file."""

    def __init__(self, path: Path, own: Iterable[str]) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_CLOEXEC, 0o644)
        os.fchmod(self._descriptor, 0o644)
        self._places: dict[str, int] = {}  # line -> where it begins
        self._own = list(dict.fromkeys(own))
        self._size = self._blank = 0
        self._append([_HEAD, *self._own])

    def update(self, lines: Iterable[str]) -> None:
        """Makes these, with the pod's own, the file's lines."""
        wanted = dict.fromkeys((_HEAD, *self._own, *lines))
        self._append([line for line in wanted if line not in self._places])
        for line in [line for line in self._places if line not in wanted]:
            # Last: for a moment both the old and the new address of a peer are there, but never none.
            blank = f"#{' ' * (len(line.encode()) - 2)}\n".encode()
            os.pwrite(self._descriptor, blank, self._places.pop(line))
            self._blank += len(blank)
        if self._blank > BLANKED_BYTES_MAX:
            self._compact(list(wanted))

    def close(self) -> None:
        os.close(self._descriptor)

    def _append(self, lines: list[str]) -> None:
        if not lines:
            return
        os.pwrite(self._descriptor, "".join(lines).encode(), self._size)
        for line in lines:
            self._places[line] = self._size
            self._size += len(line.encode())

    def _compact(self, lines: list[str]) -> None:
        """Writes all lines anew at the front before the old ones are cut off."""
        text = "".join(lines).encode()
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))
        self._places.clear()
        self._size = self._blank = 0
        for line in lines:
            self._places[line] = self._size
            self._size += len(line.encode())
