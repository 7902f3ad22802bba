"""What protects the pages: which hosts and origins are ours, how often one may ask, and what browsers may do with what we send.

A page on another site can make a browser send requests here, and a name server of its choice can make that site's name mean this
machine. So a request must name a host that is ours, one that changes something must come from a page of ours and carry its session's
word, and cookies are not sent from elsewhere.
"""

from __future__ import annotations

import collections
import hmac
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pumice.processes.access import Denied

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp import web

    from pumice.clock import Clock
    from pumice.dashboard.sessions import Session

REQUESTS_PER_S, REQUESTS_AT_ONCE = 10.0, 60.0  # of one session
SIGN_INS_PER_S, SIGN_INS_AT_ONCE = 0.2, 10.0  # that fail, of one address
CALLERS_MAX = 4_096  # whose requests are counted; those that were quiet for longest are forgotten
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer browsers would hide the origin of our own forms, too
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_HERE = ("127.0.0.1", "localhost", "[::1]")
_SAFE = frozenset({"GET", "HEAD"})


class Hosts:
    """Names under which we are asked: this machine's own with our port, and those that were named at the start."""

    def __init__(self, names: Iterable[str], *, local: bool) -> None:
        self._names = {name.lower() for name in names}
        self._local = local
        self.port = 0

    def check(self, request: web.Request) -> None:
        """Raises Denied unless the request names us, and comes from us where it changes something."""
        host = request.headers.get("host", "").lower()
        if not self._is_ours(host):
            raise Denied(421, f"host {host[:80]!r} is not served here; name it with --host if it is this dashboard's")
        if request.method in _SAFE:
            return
        origin = request.headers.get("origin", "")
        if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            raise Denied(403, "this request was made by a page of another site")
        if origin and urlsplit(origin).netloc.lower() != host:
            raise Denied(403, f"this request was made by a page of {origin[:80]!r}, not of this dashboard")

    def _is_ours(self, host: str) -> bool:
        if host in self._names or host.rpartition(":")[0] in self._names:
            return True
        return self._local and host in {f"{name}:{self.port}" for name in _HERE}


class Rate:
    """So many a second from one caller, and so many at once."""

    def __init__(self, per_s: float, at_once: float, clock: Clock) -> None:
        self._per_s = per_s
        self._at_once = at_once
        self._clock = clock
        self._left: collections.OrderedDict[object, tuple[float, float]] = collections.OrderedDict()

    def check(self, caller: object) -> float:
        """How many are left to somebody; raises Denied where it is too much."""
        now = self._clock.monotonic()
        left, at = self._left.get(caller, (self._at_once, now))
        left = min(left + (now - at) * self._per_s, self._at_once)
        if left < 1:
            raise Denied(429, f"too many requests; at most {self._per_s:g} a second in the long run: wait a moment")
        return left

    def take(self, caller: object) -> None:
        """Count one; raises Denied where it is too much."""
        left = self.check(caller)
        self._left.pop(caller, None)
        while len(self._left) >= CALLERS_MAX:
            self._left.popitem(last=False)
        self._left[caller] = (left - 1, self._clock.monotonic())


def check_csrf(session: Session, given: str) -> None:
    """A form must carry its session's CSRF token, which a page of another site cannot know."""
    if not hmac.compare_digest(session.csrf.encode(), given.encode()):
        raise Denied(403, "the form is of another session; go back, load the page again and repeat")
