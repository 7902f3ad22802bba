"""How the server says no: every refusal is one Failure, and leaves as the Status object that Kubernetes clients read.

Failure                one class: clients tell refusals apart by `status` and `reason`, so there is no tree here
"""

from __future__ import annotations

from typing import Any

from pumice.errors import PumiceError


class Failure(PumiceError):
    """A request that is refused, with the HTTP status and the machine-readable reason that a real server gives."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    def as_status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        status["code"] = self.status
        return status


def plural_in(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def _details(plural: str, group: str, name: str) -> dict[str, Any]:
    details = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = plural
    return details


def bad_request(message: str) -> Failure:
    return Failure(400, "BadRequest", message)


def not_found(plural: str, group: str, name: str) -> Failure:
    text = f'{plural_in(plural, group)} "{name}" not found'
    return Failure(404, "NotFound", text, details=_details(plural, group, name))


def no_such_page() -> Failure:
    return Failure(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(plural: str, group: str, name: str) -> Failure:
    text = f'{plural_in(plural, group)} "{name}" already exists'
    return Failure(409, "AlreadyExists", text, details=_details(plural, group, name))


def conflict(plural: str, group: str, name: str, cause: str) -> Failure:
    text = f'Operation cannot be fulfilled on {plural_in(plural, group)} "{name}": {cause}'
    return Failure(409, "Conflict", text, details=_details(plural, group, name))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(kind: str, group: str, name: str, causes: list[tuple[str, str, str]]) -> Failure:
    """422 with one cause for each (field, reason, message), as `kubectl` prints them."""
    texts = [f"{field}: {message}" for field, _, message in causes]
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    subject = f"{kind}.{group}" if group else kind
    details = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = kind
    listed = [{"reason": reason, "message": message, "field": field} for field, reason, message in causes]
    return Failure(422, "Invalid", f'{subject} "{name}" is invalid: {joined}', details=details | {"causes": listed})


def forbidden(plural: str, group: str, name: str, cause: str) -> Failure:
    # Two blanks stand where a request without a name has none, as in a real server's message.
    subject = f'{plural_in(plural, group)} "{name}"' if name else f"{plural_in(plural, group)}"
    return Failure(403, "Forbidden", f"{subject} is forbidden: {cause}", details=_details(plural, group, name))


def method_not_allowed(plural: str, group: str) -> Failure:
    text = "the server does not allow this method on the requested resource"
    return Failure(405, "MethodNotAllowed", text, details=_details(plural, group, ""))


def too_large(limit: int) -> Failure:
    return Failure(413, "RequestEntityTooLarge", f"the request's body is larger than the limit of {limit} bytes")


def unsupported_media_type(given: str) -> Failure:
    text = (
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml"
        f" (got {given!r})"
    )
    return Failure(415, "UnsupportedMediaType", text)


def expired(message: str) -> Failure:
    return Failure(410, "Expired", message)


def unauthorized() -> Failure:
    return Failure(401, "Unauthorized", "Unauthorized")


def too_many_requests(message: str, *, retry_after_s: int, causes: list[dict[str, str]] | None = None) -> Failure:
    details: dict[str, Any] = {"retryAfterSeconds": retry_after_s} if retry_after_s else {}
    if causes:
        details["causes"] = causes
    headers = {"retry-after": str(retry_after_s)} if retry_after_s else {}
    return Failure(429, "TooManyRequests", message, details=details, headers=headers)


def internal(message: str) -> Failure:
    return Failure(500, "InternalError", f"Internal error occurred: {message}")
