"""The command lines of the control plane's programs, and the files that they read."""

from __future__ import annotations

import base64
import datetime as dt
import json
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pumice import certificates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

STAGES = "kwok/stages.yaml"
NODE_GRACE_OVER_LEASE_S = 10  # as upstream: leases of 40 s, and a node is lost after 50
NODE_GRACE_S = 86_400  # without leases nobody is lost


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a control plane differs from the plain one."""

    scheduler: bool = False
    durable: bool = False
    node_lease_s: int = 40  # 0: no leases
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def node_grace_s(self) -> int:
        return self.node_lease_s + NODE_GRACE_OVER_LEASE_S if self.node_lease_s else NODE_GRACE_S


@dataclass(frozen=True, kw_only=True)
class Ports:
    apiserver: int
    controller_manager: int
    scheduler: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.apiserver}"


class Files:
    """Keys, certificates and kubeconfigs of one control plane, in its own folder that only its owner can read."""

    def __init__(self, folder: Path, *, url: str) -> None:
        self._folder = folder
        self._url = url
        self._now = dt.datetime.now(dt.UTC)
        self._authority = certificates.authority("pumice-kube", now=self._now)
        self.token = secrets.token_urlsafe(24)
        hosts = ["127.0.0.1", "localhost", "kubernetes.default.svc"]
        server = certificates.serving_pair(self._authority, hosts, now=self._now)
        kubelets = self._client_pair("kube-apiserver-kubelet-client", ["system:masters"])
        accounts = certificates.authority("service-accounts", now=self._now)
        self.ca = self._write("ca.crt", self._authority.certificate)
        self.ca_key = self._write("ca.key", self._authority.key)
        self.server = self._write("server.crt", server.certificate)
        self.server_key = self._write("server.key", server.key)
        self.kubelets = self._write("kubelet-client.crt", kubelets.certificate)
        self.kubelets_key = self._write("kubelet-client.key", kubelets.key)
        self.accounts = self._write("accounts.crt", accounts.certificate)
        self.accounts_key = self._write("accounts.key", accounts.key)
        self.tokens = self._write("tokens.csv", f'{self.token},token-admin,token-admin,"system:masters"\n'.encode())
        self.etcd_socket = folder / "etcd.sock"
        self.etcd_peer_socket = folder / "etcd-peer.sock"
        self.etcd_data = folder / "etcd"

    def kubeconfig(self, user: str, *, groups: Sequence[str] = ()) -> Path:
        """A self-contained kubeconfig whose certificate says who the user is."""
        pair = self._client_pair(user, groups)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pumice-kube",
            "contexts": [{"name": "pumice-kube", "context": {"cluster": "pumice-kube", "user": user}}],
            "clusters": [
                {
                    "name": "pumice-kube",
                    "cluster": {
                        "server": self._url,
                        "certificate-authority-data": _base64(self._authority.certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate-data": _base64(pair.certificate),
                        "client-key-data": _base64(pair.key),
                    },
                }
            ],
        }
        return self._write(
            f"{user.replace(':', '-').replace('/', '-')}.kubeconfig", json.dumps(config, indent=1).encode()
        )

    def _client_pair(self, user: str, groups: Sequence[str]) -> certificates.Pair:
        return certificates.client_pair(self._authority, user, groups, now=self._now)

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(content)
        path.chmod(0o600)
        return path


def etcd(files: Files, settings: Settings) -> list[str]:
    """Listens on sockets in the private folder: no ports, and nobody else on the machine can write to the store."""
    return [
        "etcd",
        "--name=etcd",
        f"--data-dir={files.etcd_data}",
        f"--listen-client-urls=unix://{files.etcd_socket}",
        f"--listen-peer-urls=unix://{files.etcd_peer_socket}",
        # What it advertises must look like host:port, and nobody reads it: there is one member.
        "--advertise-client-urls=unix://client:0",
        "--initial-advertise-peer-urls=unix://peer:0",
        "--initial-cluster=etcd=unix://peer:0",
        f"--quota-backend-bytes={8 * 2**30}",
        "--log-level=warn",
        # Without fsync a killed process loses nothing, only a machine that loses power does.
        *([] if settings.durable else ["--unsafe-no-fsync"]),
        *settings.arguments.get("etcd", ()),
    ]


def kube_apiserver(files: Files, settings: Settings, ports: Ports) -> list[str]:
    return [
        "kube-apiserver",
        f"--etcd-servers=unix://{files.etcd_socket}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # an Endpoints object may not hold a loopback address
        f"--secure-port={ports.apiserver}",
        f"--tls-cert-file={files.server}",
        f"--tls-private-key-file={files.server_key}",
        f"--client-ca-file={files.ca}",
        f"--kubelet-client-certificate={files.kubelets}",  # nodes that keep logs want to know who asks for them
        f"--kubelet-client-key={files.kubelets_key}",
        f"--token-auth-file={files.tokens}",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={files.accounts}",
        f"--service-account-signing-key-file={files.accounts_key}",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--allow-privileged=true",
        # The pretend cluster is larger than the machine: tests measure us, not the server's self-defence.
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1500",
        *_switches("--feature-gates", settings.feature_gates),
        *_switches("--runtime-config", settings.runtime_config),
        *settings.arguments.get("kube-apiserver", ()),
    ]


def kube_controller_manager(files: Files, settings: Settings, ports: Ports) -> list[str]:
    return [
        "kube-controller-manager",
        *_serving(files, ports.controller_manager),
        *_calling(files.kubeconfig("system:kube-controller-manager")),
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={files.accounts_key}",
        f"--root-ca-file={files.ca}",
        f"--cluster-signing-cert-file={files.ca}",
        f"--cluster-signing-key-file={files.ca_key}",
        f"--node-monitor-grace-period={settings.node_grace_s}s",
        *_switches("--feature-gates", settings.feature_gates),
        *settings.arguments.get("kube-controller-manager", ()),
    ]


def kube_scheduler(files: Files, settings: Settings, ports: Ports) -> list[str]:
    return [
        "kube-scheduler",
        *_serving(files, ports.scheduler),
        *_calling(files.kubeconfig("system:kube-scheduler")),
        *_switches("--feature-gates", settings.feature_gates),
        *settings.arguments.get("kube-scheduler", ()),
    ]


def kwok(files: Files, settings: Settings, *, here: Path) -> list[str]:
    """Opens no port. Kubernetes has no role for it, so it is an admin."""
    return [
        "kwok",
        f"--kubeconfig={files.kubeconfig('kwok', groups=['system:masters'])}",
        f"--config={here / STAGES}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--node-lease-duration-seconds={settings.node_lease_s}",
        "--node-ip=127.0.0.1",
        "--cidr=10.64.0.0/10",
        *settings.arguments.get("kwok", ()),
    ]


def _serving(files: Files, port: int) -> list[str]:
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={files.server}",
        f"--tls-private-key-file={files.server_key}",
    ]


def _calling(kubeconfig: Path) -> list[str]:
    """Alone and in a hurry: no election, and no throttle of its own."""
    roles = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return [
        *(f"--{role}={kubeconfig}" for role in roles),
        "--leader-elect=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ]


def _switches(flag: str, switches: Mapping[str, bool]) -> list[str]:
    pairs = ",".join(f"{name}={str(on).lower()}" for name, on in switches.items())
    return [f"{flag}={pairs}"] if pairs else []


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
