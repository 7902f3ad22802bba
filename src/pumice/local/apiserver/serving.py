"""A whole server in a folder: authority and certificates, log, socket, and the kubeconfig that reaches it."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import secrets
from typing import TYPE_CHECKING, Any, Self

import msgspec

from pumice import certificates
from pumice.errors import Conflict
from pumice.local.apiserver.http import Address, Listener, WebhookClient
from pumice.local.apiserver.journal import SqliteJournal
from pumice.local.apiserver.kubelet import KubeletLogs
from pumice.local.apiserver.server import Server, Settings
from pumice.values import Value

if TYPE_CHECKING:
    from pathlib import Path

    from pumice.local.apiserver.store import Store

HOSTS = ("127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1")
SERVER_NAME = "kube-apiserver-kubelet-client"
ADMINISTRATOR, ADMINISTRATORS = "pumice-admin", ("system:masters",)


class Place(Value):
    """Where a server lives. `folder` gets keys and the kubeconfig; a durable server keeps its log there too."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 0
    durable: bool = False
    context: str = "pumice"


class EmbeddedServer:
    """`async with` starts it and ends it; afterwards `server`, `url` and `kubeconfig` are there."""

    def __init__(self, place: Place, settings: Settings | None = None) -> None:
        self._place = place
        self._settings = settings or Settings()
        self._stack = contextlib.AsyncExitStack()
        self.kubeconfig = place.folder / "kubeconfig"
        self.url = ""
        self.server: Server
        self.webhooks = WebhookClient()

    async def __aenter__(self) -> Self:
        async with self._stack:
            await self._start()
            self._stack = self._stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        place, now = self._place, dt.datetime.now(dt.UTC)
        place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = self._authority(now)
        certificates.serving_pair(authority, [place.host, *HOSTS], now=now).write(
            self._file("server.crt"), self._file("server.key")
        )
        store, key = self._open_store()
        listener = Listener(
            Address(place.host, place.port, self._file("server.crt"), self._file("server.key"), self._file("ca.crt"))
        )
        try:
            await listener.start()
        except OSError as error:
            await listener.stop()
            why = os.strerror(error.errno) if error.errno else str(error)  # asyncio writes a sentence around it
            raise Conflict(
                f"port {place.port} of {place.host}: nothing can listen there ({why}); end what does, or choose another port"
            ) from error
        self._stack.push_async_callback(listener.stop)
        settings = msgspec.structs.replace(
            self._settings,
            signing_key=self._settings.signing_key or key,
            certificate=authority.certificate.decode(),
            address=place.host,
            port=listener.port,
            dispatch=self._settings.dispatch or self.webhooks,
        )
        self._stack.push_async_callback(self.webhooks.close)
        self.server = await self._stack.enter_async_context(Server(settings, store=store))
        certificates.client_pair(authority, SERVER_NAME, ADMINISTRATORS, now=now).write(
            self._file("kubelet-client.crt"), self._file("kubelet-client.key")
        )
        logs = KubeletLogs(self.server.backend, self._file("kubelet-client.crt"), self._file("kubelet-client.key"))
        self._stack.push_async_callback(logs.close)
        self.server.pods.logs = logs
        listener.server = self.server
        self.url = f"https://{place.host}:{listener.port}"
        self._write_administrator(authority, now)
        self._write_kubeconfig()

    def _file(self, name: str) -> Path:
        return self._place.folder / name

    def _authority(self, now: dt.datetime) -> certificates.Pair:
        """Kept across restarts while it is good for some time yet, so that kubeconfigs in other places stay valid."""
        pair = self._load_pair("ca", now)
        if pair is None:
            pair = certificates.authority("pumice", now=now)
            pair.write(self._file("ca.crt"), self._file("ca.key"))
        return pair

    def _write_administrator(self, authority: certificates.Pair, now: dt.datetime) -> None:
        """Kept across restarts, too: a running client reads certificate and key one after the other, and must not mix two pairs."""
        pair = self._load_pair("admin", now, authority)
        if pair is None:
            pair = certificates.client_pair(authority, ADMINISTRATOR, ADMINISTRATORS, now=now)
            pair.write(self._file("admin.crt"), self._file("admin.key"))

    def _load_pair(
        self, name: str, now: dt.datetime, authority: certificates.Pair | None = None
    ) -> certificates.Pair | None:
        """A pair that lies in the folder, is whole (a disk may have been full) and good for a while."""
        certificate, key = self._file(f"{name}.crt"), self._file(f"{name}.key")
        if not certificate.exists() or not key.exists():
            return None
        pair = certificates.Pair(certificate.read_bytes(), key.read_bytes())
        return pair if pair.is_whole(authority or pair) and not pair.is_due(now) else None

    def _open_store(self) -> tuple[Store | None, bytes]:
        if not self._place.durable:
            return None, b""
        journal = SqliteJournal(self._file("objects.db"))
        key = journal.fact("signing-key")
        if not isinstance(key, bytes):
            key = secrets.token_bytes(32)
            journal.note("signing-key", key)
        store = journal.open_store()
        journal.start()
        self._stack.callback(journal.close)
        return store, key

    def _write_kubeconfig(self) -> None:
        name = self._place.context
        files = {"client-certificate": "admin.crt", "client-key": "admin.key"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": self.url, "certificate-authority": "ca.crt"}}],
            "users": [{"name": name, "user": files}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        }
        # Paths in a kubeconfig are relative to it. The name appears only when the content is complete.
        fresh = self._file("kubeconfig.new")
        write_kubeconfig(fresh, document)
        fresh.replace(self.kubeconfig)


def write_kubeconfig(path: Path, document: Any) -> None:
    """Only its owner may read it. JSON is YAML, too, and read faster."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(document)))
