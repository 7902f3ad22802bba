"""Who asks, and may they: a token review and access reviews by the API server. We keep no list of users and no rules of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pumice.api import names
from pumice.errors import PumiceError
from pumice.kube import errors
from pumice.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.kube.client import Client

_REVIEWS = {"TokenReview": "authentication.k8s.io/v1", "SubjectAccessReview": "authorization.k8s.io/v1"}
LOGS = {"group": "", "resource": "pods", "subresource": "log"}
PODGROUPS = {"group": "scheduling.volcano.sh", "resource": "podgroups"}
NODES = {"group": "", "resource": "nodes"}


class Denied(PumiceError):
    """Refused, with the HTTP status that says how."""

    def __init__(self, status: int, cause: str) -> None:
        super().__init__(cause)
        self.status = status


class Reviewer:
    """Asks the API server about one caller at a time."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def user(self, token: str, *, audiences: tuple[str, ...] = (names.VIEW_AUDIENCE,)) -> Mapping[str, Any]:
        """Whose token it is, for one of the audiences or (without any) for the API server itself; raises Denied."""
        wanted = f"for the audience {names.VIEW_AUDIENCE}"
        if not token:
            raise Denied(401, f"send a bearer token {wanted}; see `pumice explain --help`")
        spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
        status = await self._review("TokenReview", spec)
        # A server that knows no audiences answers without them; then the token is good for itself only.
        if not status.get("authenticated") or (audiences and not {*audiences} & {*(status.get("audiences") or ())}):
            raise Denied(401, f"the API server knows no such token{f' {wanted}' if audiences else ''}")
        user: dict[str, Any] = status["user"]
        return user

    async def may(self, user: Mapping[str, Any], verb: str, what: Mapping[str, str]) -> bool:
        spec = {
            "user": user.get("username", ""),
            "groups": user.get("groups", []),
            "uid": user.get("uid", ""),
            "resourceAttributes": {"verb": verb, **what},
        }
        return bool((await self._review("SubjectAccessReview", spec)).get("allowed"))

    async def demand(self, user: Mapping[str, Any], verb: str, what: Mapping[str, str]) -> None:
        """Raises Denied unless the user may."""
        if not await self.may(user, verb, what):
            where = f" in namespace {what['namespace']}" if what.get("namespace") else " in all namespaces"
            of = f" {what['name']}" if what.get("name") else ""
            part = f"/{what['subresource']}" if what.get("subresource") else ""
            raise Denied(403, f"{user.get('username', '')} may not {verb} {what['resource']}{part}{of}{where}")

    async def _review(self, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        version = _REVIEWS[kind]
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        path = f"/apis/{version}/{kind.lower()}s"
        try:
            reply = await self._client.call(Request("POST", path, {}, {"content-type": "application/json"}, body))
        except errors.KubeError as error:
            raise Denied(503, f"the API server could not be asked: {error}") from error
        status: dict[str, Any] = msgspec.json.decode(reply.body).get("status") or {}
        return status


def token_of(headers: Mapping[str, str]) -> str:
    """The token for us: in a header of its own where the API server stands between, else as everywhere."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return headers.get(names.VIEW_HEADER) or (token if scheme.lower() == "bearer" else "")
