"""How a client proves who it is: tokens and certificates that may change while it runs.

A `Source` is bytes that another process may replace: a file that a kubelet rotates, or data that never changes. Sources are
read before every call and look at their file at most every FILE_CHECK_S_MIN seconds, so a rotation needs no restart.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pumice import files
from pumice.kube.errors import NoCredentials

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from pumice.kube.transport import Response

FETCHED_S_MIN = 0.1  # an exec plugin may take a minute; reading a file takes less than this
FILE_CHECK_S_MIN = 5.0  # a kubelet renews a token long before it expires; 5 s later is early enough
FILE_BYTES_MAX = 2**20  # certificate bundles of whole companies fit; a wrong path to a big file does not


class Access(NamedTuple):
    """What one call shows: the Authorization header's value, and a client certificate with its key as PEM. Empty: none."""

    authorization: str = ""
    certificate: bytes = b""

    def __repr__(self) -> str:
        """Never the secrets themselves: this ends up in logs and tracebacks."""
        shown = [name for name, value in zip(self._fields, self, strict=True) if value]
        return f"Access({', '.join(shown) or 'anonymous'})"


class Credentials(Protocol):
    """Gives every call its Access, the same one until there is a newer one."""

    async def access(self) -> Access: ...

    def rejected(self, access: Access) -> bool:
        """The server answered 401 to `access`; True where the next access() may give a better one."""
        ...


async def send_with_retry(
    credentials: Credentials, send: Callable[[Access], Awaitable[Response]], guard: Callable[[], None] | None = None
) -> Response:
    """Sends once, and once more with fresher credentials after a 401, which the server gives before it acts.

    `guard` is asked again where time has passed since the caller has asked it: credentials had to be fetched, or were refused.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    access = await credentials.access()
    if guard is not None and loop.time() - began >= FETCHED_S_MIN:
        guard()
    response = await send(access)
    if response.status == 401 and credentials.rejected(access):
        access = await credentials.access()
        if guard is not None:
            guard()
        response = await send(access)
    return response


class Source(Protocol):
    """Bytes that may change between two reads; raises NoCredentials where there never were any."""

    def read(self) -> bytes: ...

    def refresh(self) -> bool:
        """The next read() looks at once; True where it may differ."""
        ...


class Fixed:
    """Bytes that never change."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self) -> bytes:
        return self._content

    def refresh(self) -> bool:
        return False


class RotatingFile:
    """A file's content, read again when the file was replaced; the last good content outlives a bad moment."""

    def __init__(self, path: Path, monotonic: Callable[[], float]) -> None:
        self._path = path
        self._monotonic = monotonic
        self._content: bytes | None = None
        self._look_at = 0.0
        self._stamp: tuple[int, int, int] | None = None

    def read(self) -> bytes:
        now = self._monotonic()
        if self._content is None or now >= self._look_at:
            self._look_at = now + FILE_CHECK_S_MIN
            self._content = self._look()
        return self._content

    def refresh(self) -> bool:
        self._look_at = 0.0
        return True

    def _look(self) -> bytes:
        try:
            found = self._path.stat()  # through symlinks: a projected volume swaps a link, not the file
            stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
            if self._content is not None and stamp == self._stamp:
                return self._content
            content = files.read(self._path, FILE_BYTES_MAX)
        except OSError as error:
            if self._content is not None:
                return self._content
            raise NoCredentials(
                f"{self._path} cannot be read: {error.strerror}; correct the path or its permissions"
            ) from error
        if not content.strip():
            if self._content is not None:
                return self._content
            raise NoCredentials(f"{self._path} is empty: a token or a certificate was expected; log in again")
        self._stamp = stamp
        return content


class Anonymous:
    """Shows nothing; the server decides what that may do."""

    async def access(self) -> Access:
        return Access()

    def rejected(self, access: Access) -> bool:
        del access
        return False


class Presented:
    """A token, a certificate with its key, or both, each from a Source."""

    def __init__(
        self, *, token: Source | None = None, certificate: Source | None = None, key: Source | None = None
    ) -> None:
        self._token = token
        self._certificate = certificate
        self._key = key

    async def access(self) -> Access:
        return self._now()

    def rejected(self, access: Access) -> bool:
        sources = [source for source in (self._token, self._certificate, self._key) if source]
        may_differ = [source.refresh() for source in sources]
        return any(may_differ) and self._now() != access

    def _now(self) -> Access:
        authorization = bearer(self._token.read()) if self._token else ""
        if self._certificate is None or self._key is None:
            return Access(authorization)
        return Access(authorization, pem_pair(self._certificate.read(), self._key.read()))


def pem_pair(certificate: bytes, key: bytes) -> bytes:
    """A certificate chain and its key as one PEM text."""
    return certificate.rstrip() + b"\n" + key


def bearer(token: bytes) -> str:
    """The Authorization header's value for a token; raises NoCredentials where no header can carry it."""
    try:
        text = token.strip().decode("ascii")
    except UnicodeDecodeError:
        text = "\n"
    if not text.isprintable():
        raise NoCredentials(
            "the token holds characters that no HTTP header can carry; log in again or correct the token file"
        )
    return f"Bearer {text}"
