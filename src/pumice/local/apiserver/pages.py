"""Everything that is no resource: health, version, discovery, OpenAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice import __version__
from pumice.kube.transport import Response
from pumice.local.apiserver import discovery, failures
from pumice.local.apiserver.openapi import Documents
from pumice.local.apiserver.store import encode

if TYPE_CHECKING:
    from pumice.kube.transport import Request
    from pumice.local.apiserver.backend import Backend

_JSON = {"content-type": "application/json"}
VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": f"v1.36.1+pumice.{__version__.replace('+', '.')}",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
# The old document in protobuf is what kubectl reads to check Lists by itself. An empty one makes it leave that to us.
_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_EMPTY_DOCUMENT = b"\x0a\x032.0"
_HEALTH = {"healthz", "livez", "readyz"}


class Pages:
    def __init__(self, backend: Backend, address: str) -> None:
        self.backend = backend
        self.documents = Documents(backend.registry)
        self._address = address
        self._aggregated: tuple[int, dict[bool, bytes]] = (-1, {})

    def answer(self, request: Request) -> Response:
        parts = [part for part in request.path.split("/") if part]
        if request.method not in {"GET", "HEAD"}:
            raise failures.Failure(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
            )
        if not parts:
            return self._json(
                {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]}
            )
        if parts[0] in _HEALTH:
            return Response(200, {"content-type": "text/plain; charset=utf-8"}, b"ok")
        if parts == ["version"]:
            return self._json(VERSION)
        if parts[0] in {"api", "apis"}:
            return self._discovery(request, parts)
        if parts[0] == "openapi":
            return self._openapi(request, parts[1:])
        raise failures.no_such_page()

    def _discovery(self, request: Request, parts: list[str]) -> Response:
        registry = self.backend.registry
        page: dict[str, Any] | None = None
        if len(parts) == 1:
            if discovery.wants_aggregated(request.headers.get("accept", "")):
                return Response(200, {"content-type": discovery.AGGREGATED}, self._aggregate(core=parts[0] == "api"))
            page = discovery.core_versions(self._address) if parts[0] == "api" else discovery.groups(registry)
        elif parts[0] == "api" and len(parts) == 2:
            page = discovery.resources(registry, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            page = discovery.group_page(registry, parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            page = discovery.resources(registry, parts[1], parts[2])
        if page is None:
            raise failures.no_such_page()
        return self._json(page)

    def _aggregate(self, *, core: bool) -> bytes:
        generation = self.backend.registry.generation
        if self._aggregated[0] != generation:
            self._aggregated = (generation, {})
        kept = self._aggregated[1]
        if core not in kept:
            kept[core] = encode(discovery.aggregated_groups(self.backend.registry, core=core))
        return kept[core]

    def _openapi(self, request: Request, parts: list[str]) -> Response:
        if parts == ["v2"]:
            accept = request.headers.get("accept", "")
            if _PROTOBUF in accept and "json" not in accept:
                # As a real server writes it: with @ it would be no media type.
                return Response(200, {"content-type": _PROTOBUF.replace("@", ".")}, _EMPTY_DOCUMENT)
            return Response(200, _JSON, self.documents.v2())
        if parts == ["v3"]:
            return Response(200, _JSON, self.documents.index())
        body = None
        if len(parts) == 3 and parts[:2] == ["v3", "api"]:
            body = self.documents.v3("", parts[2])
        elif len(parts) == 4 and parts[:2] == ["v3", "apis"]:
            body = self.documents.v3(parts[2], parts[3])
        if body is None:
            raise failures.no_such_page()
        return Response(200, _JSON, body)

    def _json(self, page: Any) -> Response:
        return Response(200, _JSON, encode(page))
