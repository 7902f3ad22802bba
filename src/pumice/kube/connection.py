"""Where an API server is, how it proves itself to us and how we prove ourselves to it."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pumice.kube.credentials import Anonymous
from pumice.kube.errors import BadConfig, NoCredentials
from pumice.values import Value

if TYPE_CHECKING:
    from pumice.kube.credentials import Access, Credentials, Source


class Connection(Value, kw_only=True):
    """All that a transport needs to know; `origin` says in messages where it came from."""

    server: str  # scheme://host[:port][/prefix]
    credentials: Credentials = msgspec.field(default_factory=Anonymous)
    namespace: str = "default"
    authority: Source | None = None  # PEM certificates that are trusted instead of the system's
    verify: bool = True  # False: insecure-skip-tls-verify
    tls_server_name: str = ""
    proxy: str = ""
    compress: bool = True  # ask for gzip, except in streams
    headers: tuple[tuple[str, str], ...] = ()  # sent with every call: impersonation
    origin: str = "the connection"


class TlsContexts:
    """The SSLContext for an Access: the same one until the authority or the client certificate changes.

    Connections live under the context that they began with, so a pool that is keyed by context, as aiohttp's is, never
    reuses one that shows an old certificate. A certificate and its key are two files that are replaced one after the other: while they
    do not belong together, the last good pair stays in use.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._plain = not connection.server.startswith("https:")
        self._made_from: tuple[bytes, bytes] | None = None
        self._context: ssl.SSLContext | None = None

    def current(self, access: Access) -> ssl.SSLContext | bool:
        if self._plain:
            return True  # aiohttp's word for its default, which plain HTTP never looks at
        authority = self._connection.authority
        made_from = (authority.read() if authority else b"", access.certificate)
        if self._context is None or made_from != self._made_from:
            self._made_from = made_from
            try:
                self._context = self._make(*made_from)
            except NoCredentials:
                if self._context is None:
                    raise
        return self._context

    def _make(self, authority: bytes, certificate: bytes) -> ssl.SSLContext:
        origin = self._connection.origin
        # Not create_default_context: its strict mode refuses authorities that clusters really have.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_alpn_protocols(["http/1.1"])
        # As Go does it: any certificate that was given is an anchor, though it be an intermediate one.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if not self._connection.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif authority:
            try:
                context.load_verify_locations(cadata=authority.decode("ascii", errors="replace"))
            except (ssl.SSLError, ValueError) as error:
                raise BadConfig(
                    f"{origin}: the certificate authority is not a PEM certificate; correct certificate-authority(-data)"
                ) from error
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        if certificate:
            _present(context, certificate, origin)
        return context


def _present(context: ssl.SSLContext, certificate: bytes, origin: str) -> None:
    """Loads a client certificate; OpenSSL takes files only, so it lies for a moment in a folder that no other user can read."""
    import tempfile  # it is needed for client certificates alone, and half of what it imports is compression

    with tempfile.TemporaryDirectory(prefix="pumice-tls-") as folder:
        path = Path(folder) / "client.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate)
        try:
            context.load_cert_chain(path, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise NoCredentials(
                f"{origin}: the client certificate and its key do not belong together or are not PEM ({error}); correct the pair or log in again"
            ) from error


def _no_password() -> str:
    """Keeps OpenSSL from asking on a terminal that a server process does not have."""
    raise ValueError("the key is encrypted, and nobody is there to be asked for its password")
