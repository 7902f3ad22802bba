"""Who is signed in. Sessions live in this process's memory: a restart signs everybody out."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

from pumice.processes.access import Denied
from pumice.values import Mutable

if TYPE_CHECKING:
    from pumice.clock import Clock
    from pumice.dashboard.people import Authentication, Person

SESSIONS_MAX = 1_000  # the one that has been quiet for longest gives way
SESSION_S = 12 * 3600.0  # without a request, then it is over
TOKEN_REVIEW_S = 60.0  # a token that was taken away or has ended signs out within this time
SECRET_CHARS_MAX = 8_192


class Session(Mutable):
    """One person in one browser; `csrf` goes into every form."""

    key: bytes
    person: Person
    secret: str  # the token that they showed; empty where they came by a link
    csrf: str
    seen: float
    reviewed: float
    streams: int = 0


class Sessions:
    """By the digest of a cookie or of a token: what is stored opens nothing."""

    def __init__(self, authentication: Authentication, clock: Clock) -> None:
        self._authentication = authentication
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._sessions: dict[bytes, Session] = {}  # the one that has been quiet for longest first

    async def begin(self, secret: str) -> tuple[str, Session]:
        """A new session for whoever shows this, and the cookie's value; raises Denied."""
        person = await self._authentication.enter(secret[:SECRET_CHARS_MAX])
        cookie = secrets.token_urlsafe(32)
        return cookie, self._keep(_digest(cookie), person, secret if self._authentication.takes_tokens else "")

    async def find(self, cookie: str, token: str) -> Session | None:
        """The session of a cookie, or (behind a proxy) of the token that each request brings; raises Denied."""
        by_token = bool(token) and self._authentication.takes_tokens
        key = _digest(token if by_token else cookie)
        found = self._current(key)
        if found is None and by_token:
            person = await self._authentication.enter(token[:SECRET_CHARS_MAX])
            found = self._current(key) or self._keep(key, person, token)  # a page asks for several things at once
        if found is None:
            return None
        await self.review(found)
        found.seen = self._clock.monotonic()
        if self._sessions.pop(key, None) is not None:  # nobody has signed out meanwhile
            self._sessions[key] = found
        return found

    def knows(self, token: str) -> bool:
        """Whether somebody is signed in with this token, so that it need not be guessed at."""
        return self._current(_digest(token)) is not None

    async def review(self, session: Session) -> None:
        """Raises Denied where it is over: signed out, or its token is no longer good, which is asked once a minute.

        An API server that cannot be asked now ends no session.
        """
        if not self.holds(session):
            raise Denied(401, "signed out")
        now, former = self._clock.monotonic(), session.reviewed
        if not session.secret or now - former < TOKEN_REVIEW_S:
            return
        session.reviewed = now  # its other pages need not ask, too
        try:
            await self._authentication.enter(session.secret)
        except Denied as denied:
            session.reviewed = former
            if denied.status == 401:
                self._sessions.pop(session.key, None)
            raise

    def end(self, cookie: str) -> None:
        """Sign out."""
        self._sessions.pop(_digest(cookie), None)

    def holds(self, session: Session) -> bool:
        return self._sessions.get(session.key) is session

    def _current(self, key: bytes) -> Session | None:
        found = self._sessions.get(key)
        if found is not None and self._clock.monotonic() - found.seen >= SESSION_S:
            del self._sessions[key]
            return None
        return found

    def _keep(self, key: bytes, person: Person, secret: str) -> Session:
        while len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        now = self._clock.monotonic()
        csrf = hmac.new(self._key, key, hashlib.sha256).hexdigest()
        self._sessions[key] = session = Session(key, person, secret[:SECRET_CHARS_MAX], csrf, now, now)
        return session


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
