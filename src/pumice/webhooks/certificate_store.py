"""Where the serving pair comes from: a Secret that all replicas share, or files that another program keeps fresh."""

from __future__ import annotations

import datetime as dt
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pumice import files
from pumice.api.core import Secret
from pumice.certificates import Pair
from pumice.errors import BadInput, Refused
from pumice.instant import SECOND
from pumice.kube import errors
from pumice.webhooks import keys
from pumice.webhooks.keys import BUNDLE, CERTIFICATE, KEY, Keys, Lives

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.clock import Clock
    from pumice.kube.client import Client
    from pumice.runtime import Log

FILE_BYTES_MAX: Final = 2**20
ATTEMPTS_MAX: Final = 5  # of replicas that renew at the same moment all but one are too late, and read again


class Source(Protocol):
    """Says, whenever it is asked, with what to serve and what API servers are to trust; is told what they do trust."""

    async def current(self, trusted: bytes) -> tuple[Pair, bytes]: ...


class SharedSecret:
    """Keys of our own making, in a Secret: whichever replica first finds something due renews it for all."""

    def __init__(
        self, client: Client, *, namespace: str, name: str, hosts: Sequence[str], lives: Lives, clock: Clock, log: Log
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._hosts = tuple(hosts)
        self._lives = lives
        self._clock = clock
        self._log = log

    async def current(self, trusted: bytes) -> tuple[Pair, bytes]:
        for _ in range(ATTEMPTS_MAX):
            try:
                found = await self._renew(trusted)
            except (errors.Conflict, errors.AlreadyExists):
                continue  # another replica was faster: what it wrote serves us as well
            return found.pair, found.bundle
        raise errors.Unreachable(f"secret {self._namespace}/{self._name} changes faster than it can be read")

    async def _renew(self, trusted: bytes) -> Keys:
        now = dt.datetime.fromtimestamp(self._clock.now() / SECOND, dt.UTC)
        try:
            secret = (await self._client.get(Secret, self._name, namespace=self._namespace)).json()
        except errors.NotFound:
            made = keys.renew(None, self._hosts, now=now, lives=self._lives, trusted=trusted)
            await self._create(made)
            return made
        known = keys.read(secret.get("data") or {})
        wanted = keys.renew(known, self._hosts, now=now, lives=self._lives, trusted=trusted)
        if wanted is not known:
            body = secret | {"data": {**(secret.get("data") or {}), **wanted.data()}}
            await self._client.update(Secret, self._name, body, namespace=self._namespace)
            self._log("certificates_renewed", authorities=len(wanted.authorities), expires=str(wanted.pair.expires))
        return wanted

    async def _create(self, made: Keys) -> None:
        metadata = {"name": self._name, "namespace": self._namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": made.data()}
        try:
            await self._client.create(Secret, body, namespace=self._namespace)
        except errors.Refused as error:
            raise Refused(
                f"secret {self._namespace}/{self._name} does not exist and may not be created: {error.message}; "
                "create an empty one"
            ) from error


class Files:
    """Keys that another program renews, for example cert-manager through a mounted Secret."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def current(self, trusted: bytes) -> tuple[Pair, bytes]:
        del trusted  # who renews them looks after that
        pair = Pair(self._read(CERTIFICATE), self._read(KEY))
        return pair, self._read(BUNDLE) if (self._folder / BUNDLE).exists() else b""

    def _read(self, name: str) -> bytes:
        path = self._folder / name
        try:
            return files.read(path, FILE_BYTES_MAX)
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}; mount a Secret with {CERTIFICATE} and {KEY}") from error


class ServingContext:
    """A TLS context that takes up new pairs while it serves: connections that stand keep theirs."""

    def __init__(self) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self._served: Pair | None = None

    def take_up(self, pair: Pair) -> bool:
        """True where the pair is a new one; BadInput, and the old one stays, where it cannot be served with."""
        if pair == self._served:
            return False
        with tempfile.TemporaryDirectory(prefix="pumice-webhooks-") as name:  # only we can look into it
            certificate, key = Path(name) / CERTIFICATE, Path(name) / KEY
            pair.write(certificate, key)
            try:
                # A pair that does not fit together must not replace one that does: it is tried on another context first.
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
                self.context.load_cert_chain(certificate, key)
            except (ssl.SSLError, ValueError) as error:
                raise BadInput(f"the certificate and its key cannot be served with: {error}; renew them") from error
        self._served = pair
        return True
