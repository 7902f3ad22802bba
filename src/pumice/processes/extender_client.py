"""The HTTP extender that a policy names: called from the planning thread, within a time and a size, and never anywhere else.

An extender is a program of its own. Whatever it answers, slowly, endlessly or wrongly, costs a cycle at most its time-out a call,
and is told to the plugin as ExtenderFailed. Redirects are not followed, and proxies of the environment are not used.
"""

from __future__ import annotations

import http.client
import io
import ssl
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec

from pumice import __version__, instant
from pumice.api.decoding import UNREADABLE
from pumice.scheduling.core import arguments
from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.core.ports import ExtenderFailed
from pumice.scheduling.plugins import extender

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from pumice.scheduling.core.policy import Policy

ANSWER_BYTES_MAX = 10 * 2**20  # as Volcano's; more is no answer
_PIECE = 64 * 2**10
_HEADERS = {"content-type": "application/json", "user-agent": f"pumice-scheduler/{__version__}"}


class Extending:
    """The extender of the policy in force; belongs to one scheduler."""

    def __init__(self) -> None:
        self._policy: Policy | None = None
        self._extender: HttpExtender | None = None

    def of(self, policy: Policy) -> HttpExtender | None:
        """The policy's extender, with its connection kept from cycle to cycle; not while a plan is being made."""
        if policy is not self._policy:
            self.close()
            self._policy, self._extender = policy, extender_of(policy)
        return self._extender

    @property
    def is_open(self) -> bool:
        return self._extender is not None

    def close(self) -> None:
        if self._extender is not None:
            self._extender.close()


def extender_of(policy: Policy) -> HttpExtender | None:
    """What the policy's extender plugin would call, nothing called yet; PolicyError where that is no usable address."""
    option = policy.option(extender.NAME)
    if option is None:
        return None
    args = arguments.read(extender.Args, option, policy.source)
    try:
        address = read_address(args.url_prefix)
    except ValueError as error:
        raise PolicyError(f"policy {policy.source}: plugin {option.name}: extender.urlPrefix: {error}") from error
    return HttpExtender(address, arguments.duration("extender.httpTimeout", args.timeout) / instant.SECOND)


def read_address(text: str) -> SplitResult:
    """The parts of an http or https address; ValueError where it is none, or carries what would be dropped silently."""
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{text!r} is no address; write for example http://127.0.0.1:8713")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(f"{text!r}: expected only scheme, host, port and path; remove the rest")
    _ = parts.port  # raises ValueError for a port that cannot be
    return parts


class _Deadline(NamedTuple):
    """An end by the monotonic clock, for everything of one call together."""

    at: float

    def rest_s(self) -> float:
        rest = self.at - time.monotonic()
        if rest <= 0:
            raise TimeoutError("timed out")
        return rest


class _BoundedReader(io.RawIOBase):
    """A socket's bytes until the deadline: a time-out of the socket alone would begin anew with every byte."""

    def __init__(self, sock: socket.socket, deadline: _Deadline) -> None:
        self._sock = sock
        self._inner = sock.makefile("rb", buffering=0)
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._deadline.rest_s())
        return self._inner.readinto(buffer)

    def close(self) -> None:
        self._inner.close()
        super().close()


class HttpExtender:
    """POSTs questions over one kept connection; for one thread at a time."""

    def __init__(self, address: SplitResult, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._deadline = _Deadline(0.0)
        self._kept: http.client.HTTPConnection | None = None

    def __call__(self, verb: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self._deadline = _Deadline(time.monotonic() + self._timeout_s)
        try:
            answer = self._ask(verb, msgspec.json.encode(body))
            found = msgspec.json.decode(answer)
        except ExtenderFailed:
            self.close()
            raise
        except TimeoutError as error:
            self.close()
            raise ExtenderFailed(f"{self._name(verb)}: no answer within {self._timeout_s:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ExtenderFailed(f"{self._name(verb)}: {str(error) or type(error).__name__}") from error
        except UNREADABLE as error:
            raise ExtenderFailed(f"{self._name(verb)}: the answer is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise ExtenderFailed(f"{self._name(verb)}: the answer is JSON, but no object")
        return found

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _name(self, verb: str) -> str:
        return f"{self._address.geturl().rstrip('/')}/{verb.lstrip('/')}"

    def _ask(self, verb: str, body: bytes) -> bytes:
        if self._kept is not None and self._kept.sock is not None:  # else the extender has closed it after its answer
            try:
                return self._post(self._kept, verb, body)
            except (
                ConnectionError,
                http.client.BadStatusLine,
            ):
                # It was closed between two calls: not the extender's fault.
                self.close()
        self._kept = self._connect()
        return self._post(self._kept, verb, body)

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        timeout_s = self._deadline.rest_s()
        if self._address.scheme == "http":
            connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        else:
            trusted = ssl.create_default_context()
            connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=trusted)
        connection.response_class = self._begin_response  # type: ignore[assignment]  # called as the class would be
        connection.connect()
        return connection

    def _begin_response(self, sock: socket.socket, *args: Any, **named: Any) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(sock, *args, **named)
        response.fp.close()
        response.fp = io.BufferedReader(_BoundedReader(sock, self._deadline))
        return response

    def _post(self, connection: http.client.HTTPConnection, verb: str, body: bytes) -> bytes:
        connection.sock.settimeout(self._deadline.rest_s())
        path = f"{self._address.path.rstrip('/')}/{verb.lstrip('/')}"
        connection.request("POST", path, body, _HEADERS)
        with connection.getresponse() as response:
            if response.status != http.client.OK:
                raise ExtenderFailed(f"{self._name(verb)}: answered {response.status} instead of 200")
            pieces = bytearray()
            while piece := response.read(_PIECE):
                pieces += piece
                if len(pieces) > ANSWER_BYTES_MAX:
                    raise ExtenderFailed(f"{self._name(verb)}: the answer is longer than {ANSWER_BYTES_MAX} bytes")
        return bytes(pieces)
