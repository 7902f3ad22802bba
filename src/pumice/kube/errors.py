"""What can go wrong between a client and its API server, as a tree of reasons to act differently.

KubeError
|- BadConfig            the kubeconfig cannot be right: nothing was sent; correct the file
|- TooLarge             an object beyond what API servers take: nothing was sent
|- NoCredentials        a token, a certificate or an exec plugin's answer cannot be had: log in
|- Unreachable          no answer came, or half of one: repeat with back-off what may be repeated (`acted` says what may)
|  `- Stalled           a stream fell silent: open it again
|- Malformed            an answer that is not what an API server says, or beyond a limit of ours
`- StatusError          the server answered no; code, reason and causes are its own
   |- Invalid           400, 422, 413: give up, correct the object
   |- Refused           401, 403: give up, tell the user
   |- NotFound          404: it is gone, or was never there
   |- AlreadyExists     409: an object of that name is there already
   |- Conflict          409: re-read, re-plan
   |- Expired           410: list again
   |- TooManyRequests   429: wait `retry_after` seconds; for an eviction: a disruption budget says not now
   `- ServerError       5xx: the outcome of a write is unknown; read back
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from pumice import errors
from pumice.api.decoding import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.kube.transport import Request

_UNAUTHORIZED = re.compile(r'User ".*" cannot ', re.DOTALL)
# By the name of a webhook or, as `pumice up` calls its own, by a path.
_OUR_DENIAL = re.compile(r'admission webhook "(?:[^"]*\.pumice\.dev|/[^"]*)" denied the request: .')
_DENIAL = re.compile(r'^(?:\S+ "[^"]*" is forbidden: )?admission webhook "[^"]*" denied the request: ')
MESSAGE_CHARS_MAX = 2_000  # an apiserver's longest useful sentence; a proxy's error page is cut


class KubeError(errors.PumiceError):
    """Anything that keeps a call to an API server from doing what it was to do."""


class BadConfig(KubeError, errors.BadInput):
    """The kubeconfig, or what it points to, cannot be right; nothing was sent."""


class TooLarge(KubeError, errors.BadInput):
    """An object is beyond what API servers take; nothing was sent."""


class NoCredentials(KubeError, errors.Refused):
    """What proves who we are cannot be had; nothing was sent."""


class Unreachable(KubeError):
    """No whole answer came. Where `acted` is False the server cannot have seen the request; else it may have done it."""

    def __init__(self, message: str, *, acted: bool = True) -> None:
        super().__init__(message)
        self.acted = acted


class Stalled(Unreachable):
    """A stream that should speak now and then has not for too long."""


class Malformed(KubeError):
    """The answer is not what an API server says, or it is beyond one of our limits."""


class Cause(msgspec.Struct, frozen=True):
    """One of the reasons for which an object is invalid, with the field at fault."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """An API server's account of what it did or why it did not (kind Status, v1)."""

    status: str = ""
    message: str = ""
    reason: str = ""
    details: Details | None = None
    code: int = 0


class StatusError(KubeError):
    """The server answered, and the answer is no."""

    next_step = "see the API server's log"

    def __init__(self, status: Status, *, asked: str, retry_after: float | None = None) -> None:
        cause = (
            status.message[:MESSAGE_CHARS_MAX]
            or status.reason
            or f"the API server answered {status.code} without a reason"
        )
        what = f"{status.code} {status.reason}".rstrip()
        advice = f"; {step}" if (step := self.advice(status)) else ""
        super().__init__(f"{cause} ({asked}: {what}){advice}")
        self._plain = f"{_DENIAL.sub('', cause)}{advice}"
        self.code = status.code
        self.reason = status.reason
        self.message = status.message
        self.details = status.details or Details()
        self.retry_after = retry_after

    @property
    def plain(self) -> str:
        """Without the request, and without the name of the webhook or policy that refused it."""
        return self._plain

    @classmethod
    def advice(cls, status: Status) -> str:
        """The next step; empty where the message has one already."""
        del status
        return cls.next_step


class Invalid(StatusError, errors.BadInput):
    """The server cannot accept what was sent; `details.causes` names the fields."""

    next_step = "correct what it names and send it again"


class Refused(StatusError, errors.Refused):
    """The server does not know who asks (401), or knows and says no (403): for want of rights, or by a rule about objects."""

    next_step = "check this user's rights with `kubectl auth can-i --list`, or log in again"

    @classmethod
    def advice(cls, status: Status) -> str:
        # Authorizers say `User "x" cannot ...`; quotas, webhooks and admission policies refuse the object, whichever user sends it.
        if status.code == 401 or not status.message or _UNAUTHORIZED.search(status.message):
            return cls.next_step
        if _OUR_DENIAL.search(status.message):
            return ""
        return "correct the object, or ask an administrator about the rule: more permissions would not help"


class NotFound(StatusError, errors.NotFound):
    """There is no such object, or no such kind."""

    next_step = "check the name and the namespace, and for a custom kind that its CRD is installed"

    @classmethod
    def advice(cls, status: Status) -> str:
        # Of an object that is not there a server tells the name; of a kind that it does not know, nothing.
        return "check the name and the namespace" if status.details and status.details.name else cls.next_step


class AlreadyExists(StatusError, errors.Conflict):
    """An object of that name is already there."""

    next_step = "choose another name, or change the one that is there"


class Conflict(StatusError, errors.Conflict):
    """The object changed since it was read, or a field belongs to another manager."""

    next_step = "read it again and repeat the change"


class Expired(StatusError):
    """The version asked for is too old for the server to remember."""

    next_step = "list again from now"


class TooManyRequests(StatusError, errors.Conflict):
    """Not now: the server is busy, or a disruption budget forbids it at the moment."""

    next_step = "ask again later"


class ServerError(StatusError):
    """Something broke in the server, or between it and its store; whether a write was done is unknown."""

    next_step = "ask again, and if it stays so see the API server's log"


def is_open(error: KubeError) -> bool:
    """Whether it is unknown if the server has done what it was asked, or will do it yet: no whole answer, or 408 and 5xx.

    Such a call may still be on its way, and one look at the object proves nothing about what arrives later.
    """
    if isinstance(error, Unreachable):
        return error.acted
    if isinstance(error, StatusError):
        return error.code >= 500 or error.code == 408
    return isinstance(error, Malformed)


_BY_CODE: Mapping[int, type[StatusError]] = {
    400: Invalid,
    401: Refused,
    403: Refused,
    404: NotFound,
    409: Conflict,
    410: Expired,
    413: Invalid,
    422: Invalid,
    429: TooManyRequests,
}

_STATUS = msgspec.json.Decoder(Status)


def from_answer(request: Request, code: int, headers: Mapping[str, str], body: bytes) -> StatusError:
    """The error that an answer of 400 and above stands for."""
    retry_after = headers.get("retry-after", "")
    return from_status(
        _read_status(code, body),
        asked=f"{request.method} {request.path}",
        retry_after=float(retry_after) if retry_after.isdecimal() else None,
    )


def from_status(status: Status, *, asked: str, retry_after: float | None = None) -> StatusError:
    """The error that a Status object stands for, wherever it came from: an answer, or an ERROR event of a watch."""
    if retry_after is None and status.details and status.details.retry_after_seconds:
        retry_after = float(status.details.retry_after_seconds)
    if status.code == 409 and status.reason == "AlreadyExists":
        kind: type[StatusError] = AlreadyExists
    else:
        kind = _BY_CODE.get(status.code, ServerError if status.code >= 500 else StatusError)
    return kind(status, asked=asked, retry_after=retry_after)


def _read_status(code: int, body: bytes) -> Status:
    try:
        status = _STATUS.decode(body)
    except UNREADABLE:
        # A proxy's page, or a handler that writes plain text: its first words are still the best cause we have.
        text = body[: 4 * MESSAGE_CHARS_MAX].decode(errors="replace").strip()
        return Status(message=text, code=code)
    # It comes from a program behind the server's proxy, which says it in words of its own.
    if not status.message and not status.reason:
        status = msgspec.structs.replace(status, message=_error_of(body))
    if status.code == code:
        return status
    return msgspec.structs.replace(status, code=code)


def _error_of(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_ErrorBody).error
    except UNREADABLE:
        return ""


class _ErrorBody(msgspec.Struct):
    error: str = ""
