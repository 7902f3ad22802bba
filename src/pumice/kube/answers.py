"""HTTP/1.1 answers, read as their bytes arrive: no I/O happens here, and no more than the limits is kept."""

from __future__ import annotations

import zlib

from pumice.kube.errors import Malformed
from pumice.kube.transport import HEADER_BYTES_MAX, RESPONSE_BYTES_MAX, Response, join_headers

_GZIP = 16 + zlib.MAX_WBITS
_BODILESS = frozenset({204, 304})


class Answer:
    """One answer to one call; a peer that speaks no HTTP is an error of ours."""

    def __init__(self, asked: str) -> None:
        self._asked = asked
        self._come = b""  # the bytes that have come,
        self._at = 0  # and how far they are understood
        self._status = 0  # 0: the head is still to come
        self._headers: dict[str, str] = {}
        self._length: int | None = None  # of the body, where it was said
        self._chunked = False
        self._left = 0  # of the chunk that is being read
        self._last = False  # nothing but trailers, which say nothing to us, is still to come
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def has_more(self) -> bool:
        """Whether more has come than was asked for: nobody could tell whose it is."""
        return self._at < len(self._come)

    def feed(self, data: bytes) -> Response | None:
        """The whole answer, once its last bytes are here."""
        self._come, self._at = self._come[self._at :] + data, 0
        try:
            while not self._status:
                if not self._read_head():
                    return None
            if self._chunked:
                is_whole = self._read_chunks()
            else:
                self._take(len(self._come) if self._length is None else self._length - self._size)
                is_whole = self._size == self._length
            return self._whole() if is_whole else None
        except (ValueError, zlib.error) as error:
            raise Malformed(f"the answer to {self._asked} is garbled: {error}; is this an API server?") from error

    def end(self) -> Response | None:
        """The answer where it ends with the connection; None where it has broken off."""
        return self._whole() if self._status and self._length is None and not self._chunked else None

    def _read_head(self) -> bool:
        end = self._come.find(b"\r\n\r\n", self._at)
        if (len(self._come) if end < 0 else end) - self._at > HEADER_BYTES_MAX:
            raise ValueError(f"its head is beyond {HEADER_BYTES_MAX} bytes")
        if end < 0:
            return False
        first, *lines = self._come[self._at : end].decode("utf-8", "surrogateescape").split("\r\n")
        self._at = end + 4
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise Malformed(
                f"the answer to {self._asked} is no HTTP: it begins with {first[:40]!r}; is this an API server?"
            )
        status = int(rest[:3])
        if status >= 200:  # those below announce another answer
            self._status, self._headers = status, join_headers(map(_header, lines))
            self._chunked = self._headers.get("transfer-encoding", "").lower() == "chunked" and status not in _BODILESS
            if status in _BODILESS:
                self._length = 0
            elif not self._chunked and "content-length" in self._headers:
                self._length = self._checked(_natural(self._headers["content-length"], 10))
        return True

    def _read_chunks(self) -> bool:
        while True:
            self._left -= self._take(self._left)
            if self._left:
                return False
            end = self._come.find(b"\r\n", self._at)
            if (len(self._come) if end < 0 else end) - self._at > HEADER_BYTES_MAX:
                raise ValueError(f"a line of it is beyond {HEADER_BYTES_MAX} bytes")
            if end < 0:
                return False
            line, self._at = self._come[self._at : end], end + 2
            if self._last and not line:
                return True
            if line and not self._last:  # an empty one ends the chunk before it
                self._left = _natural(line.partition(b";")[0].decode("ascii"), 16)
                self._last = self._left == 0
                self._checked(self._size + self._left)

    def _take(self, most: int) -> int:
        """Makes so many bytes, as far as they are here, part of the body."""
        part = self._come[self._at : self._at + most]
        self._at += len(part)
        self._parts.append(part)
        self._size = self._checked(self._size + len(part))
        return len(part)

    def _whole(self) -> Response:
        body = b"".join(self._parts)
        if self._headers.get("content-encoding") == "gzip":
            packed = zlib.decompressobj(_GZIP)
            body = packed.decompress(body, RESPONSE_BYTES_MAX)
            self._checked(len(body) + len(packed.unconsumed_tail))
        return Response(self._status, self._headers, body)

    def _checked(self, size: int) -> int:
        if size > RESPONSE_BYTES_MAX:
            raise Malformed(f"the answer to {self._asked} is beyond {RESPONSE_BYTES_MAX} bytes; ask for smaller pages")
        return size


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def _natural(text: str, base: int) -> int:
    number = int(text, base)
    if number < 0:
        raise ValueError(f"a length of {number}")
    return number
