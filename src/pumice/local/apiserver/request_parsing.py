"""A request understood: who asks for which verb on which object."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import msgspec

from pumice import yamltext
from pumice.kube.transport import BODY_BYTES_MAX, Request
from pumice.local.apiserver import failures, protobuf
from pumice.local.apiserver.store import decode
from pumice.local.apiserver.structures import built_in_resources
from pumice.values import Mutable, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.local.apiserver.registry import Registry
    from pumice.local.apiserver.structures import Resource

JSON_TYPES = ("application/json", "")
YAML_TYPES = ("application/yaml", "text/yaml", "application/x-yaml")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class Caller(Value):
    """Who asks, once a certificate, a token or nothing at all has been looked at."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


ANONYMOUS = Caller("system:anonymous", ("system:unauthenticated",))
ROOT = Caller("system:admin", ("system:masters", "system:authenticated"))


class Call(Mutable):
    """One request on a resource. `warnings` collects what the client is told beside the answer."""

    request: Request
    caller: Caller
    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    warnings: list[str] = msgspec.field(default_factory=list)

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query

    @property
    def dry_run(self) -> bool:
        return self.request.query.get("dryRun", "") == "All"

    @property
    def manager(self) -> str:
        """Who owns the fields that this call writes: as given, else the client's name as it presents itself."""
        given = self.request.query.get("fieldManager", "")
        return given or self.request.headers.get("user-agent", "unknown").split("/", 1)[0][:128]

    def flag(self, name: str) -> bool:
        return self.request.query.get(name, "").lower() in {"1", "true"}

    def not_found(self) -> failures.Failure:
        return failures.not_found(self.resource.plural, self.resource.group, self.name)


def resolve(request: Request, caller: Caller, registry: Registry) -> Call | None:
    """The call that a path under /api or /apis means; None where it names no resource."""
    parts = request.path.strip("/").split("/")
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in {"status", "finalize"}):
        namespace, rest = rest[1], rest[2:]
    resource = registry.find(group, version, rest[0])
    if resource is None or (namespace and not resource.namespaced):
        return None
    name = rest[1] if len(rest) > 1 else ""
    subresource = "/".join(rest[2:])
    if subresource and subresource not in resource.subresources:
        return None
    return Call(request, caller, _verb(request, name), resource, namespace, name, subresource)


def require_servable(call: Call) -> None:
    """Refuses what is never done at a path. Asked after authorization: what a path can do is told to those only who may do it."""
    resource, verb = call.resource, call.verb
    allowed = resource.subresources[call.subresource].verbs if call.subresource else resource.verbs
    is_homeless = resource.namespaced and not call.namespace and (call.name or verb == "create")
    # A new object has no path of its own yet, and only one that has is changed.
    is_misplaced = not call.subresource and verb in (_OF_COLLECTIONS if call.name else _OF_OBJECTS)
    if verb not in allowed or (is_homeless and not _special(resource)) or is_misplaced:
        raise failures.method_not_allowed(resource.plural, resource.group)
    if call.request.query.get("dryRun", "All") not in {"All", ""}:
        raise failures.bad_request(
            f'dryRun: Unsupported value: {call.request.query["dryRun"]!r}: supported values: "All"'
        )


_OF_COLLECTIONS, _OF_OBJECTS = frozenset({"create"}), frozenset({"update", "patch"})


def _special(resource: Resource) -> bool:
    """Reviews are created without a namespace in their path."""
    return resource.verbs == ("create",)


def _verb(request: Request, name: str) -> str:
    if request.method in _VERBS:
        return _VERBS[request.method]
    if request.method == "DELETE":
        return "delete" if name else "deletecollection"
    if request.method not in {"GET", "HEAD"}:
        return ""  # as a real server has it: only who may do everything learns that nobody serves it
    if request.query.get("watch", "").lower() in {"1", "true"}:
        return "watch"
    return "get" if name else "list"


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").split(";", 1)[0].strip().lower()


def read_object(request: Request) -> dict[str, Any]:
    """The body as an object, from JSON, YAML or protobuf."""
    value = read_value(request.body, media_type(request))
    if not isinstance(value, dict):
        raise failures.bad_request(f"the body must be an object, not {type(value).__name__}")
    return value


def read_value(body: bytes, media: str) -> Any:
    if len(body) > BODY_BYTES_MAX:
        raise failures.too_large(BODY_BYTES_MAX)
    try:
        if media in JSON_TYPES or media.endswith("+json"):
            return decode(body)
        if media in YAML_TYPES or media.endswith("+yaml"):
            return decode(body) if body.lstrip().startswith(b"{") else _yaml(body)
        if media == protobuf.MEDIA_TYPE:
            return protobuf.read_object(body, _type_names())
    except (ValueError, RecursionError, yamltext.YamlError) as error:
        raise failures.bad_request(f"the body cannot be decoded: {error}") from error
    raise failures.unsupported_media_type(media)


@functools.cache
def _type_names() -> dict[tuple[str, str], str]:
    """The structures of everything that may be a body, kinds and subresources alike."""
    found = {("v1", "DeleteOptions"): "meta.v1.DeleteOptions", ("policy/v1", "Eviction"): "policy.v1.Eviction"}
    for resource in built_in_resources():
        found[resource.api_version, resource.kind] = resource.type_name
        found[resource.api_version, "DeleteOptions"] = "meta.v1.DeleteOptions"
        for sub in resource.subresources.values():
            if sub.type_name:
                found[f"{sub.group}/{sub.version}" if sub.group else sub.version, sub.kind] = sub.type_name
    return found


def _yaml(body: bytes) -> Any:
    documents = yamltext.load_all(body, source="the request's body")
    if len(documents) != 1:
        raise failures.bad_request(f"the body must hold one document, not {len(documents)}")
    return documents[0]
