"""Questions about callers, asked as objects: access reviews, token reviews, token requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.local.apiserver import failures
from pumice.local.apiserver.authentication import ISSUER, TOKEN_SECONDS_DEFAULT, TOKEN_SECONDS_MAX, TOKEN_SECONDS_MIN
from pumice.local.apiserver.rbac import Question
from pumice.local.apiserver.request_parsing import Caller

if TYPE_CHECKING:
    from pumice.local.apiserver.authentication import Authenticator
    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.rbac import Authorizer
    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.store import Object


class AccessReviews:
    """Answers reviews; nothing of them is stored."""

    def __init__(self, backend: Backend, authorizer: Authorizer, authenticator: Authenticator) -> None:
        self.backend = backend
        self.authorizer = authorizer
        self.authenticator = authenticator

    def answer(self, call: Call, review: Object) -> Object:
        spec = review.get("spec") or {}
        match call.resource.plural:
            case "selfsubjectaccessreviews":
                status = self._access(call.caller, spec)
            case "subjectaccessreviews" | "localsubjectaccessreviews":
                status = self._access(_caller_of(spec), spec)
            case "selfsubjectrulesreviews":
                status = self._rules(call.caller, spec.get("namespace", ""))
            case "selfsubjectreviews":
                status = {"userInfo": _user(call.caller)}
            case _:
                status = self._token(spec)
        review["metadata"] = {"creationTimestamp": None}
        return review | {"status": status}

    def _access(self, caller: Caller, spec: dict[str, Any]) -> dict[str, Any]:
        if path := spec.get("nonResourceAttributes"):
            question = Question(verb=path.get("verb", ""), path=path.get("path", ""))
        else:
            asked = spec.get("resourceAttributes") or {}
            question = Question(
                verb=asked.get("verb", ""),
                group=asked.get("group", ""),
                plural=asked.get("resource", ""),
                subresource=asked.get("subresource", ""),
                namespace=asked.get("namespace", ""),
                name=asked.get("name", ""),
            )
        allowed = self.authorizer.allows(caller, question)
        return {"allowed": allowed} | ({"reason": "RBAC: allowed"} if allowed else {})

    def _rules(self, caller: Caller, namespace: str) -> dict[str, Any]:
        held = self.authorizer.rules(caller)
        rules = [*held.get("", ()), *held.get(namespace, ())]
        if "system:masters" in caller.groups:
            everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            rules = [everything, {"verbs": ["*"], "nonResourceURLs": ["*"]}, *rules]
        on_resources = [
            {key: rule[key] for key in ("verbs", "apiGroups", "resources", "resourceNames") if key in rule}
            for rule in rules
            if rule.get("resources")
        ]
        on_paths = [
            {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
            for rule in rules
            if rule.get("nonResourceURLs")
        ]
        return {"resourceRules": on_resources, "nonResourceRules": on_paths, "incomplete": False}

    def _token(self, spec: dict[str, Any]) -> dict[str, Any]:
        asked, token = spec.get("audiences") or [ISSUER], spec.get("token", "")
        meant = [each for each in asked if self.authenticator.by_token(token, (each,)) is not None]
        caller = self.authenticator.by_token(token, meant)
        if caller is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": _user(caller), "audiences": meant}

    def request_token(self, call: Call, request: Object) -> Object:
        """serviceaccounts/token."""
        account = self.backend.find("serviceaccounts", call.namespace, call.name)
        if account is None:
            raise call.not_found()
        spec = request.get("spec") or {}
        seconds = int(spec.get("expirationSeconds") or TOKEN_SECONDS_DEFAULT)
        if not TOKEN_SECONDS_MIN <= seconds <= TOKEN_SECONDS_MAX:
            text = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
            raise failures.invalid(
                "TokenRequest",
                "authentication.k8s.io",
                call.name,
                [("spec.expirationSeconds", "FieldValueInvalid", text)],
            )
        audiences = spec.get("audiences") or [ISSUER]
        token, end = self.authenticator.issue(
            account, seconds=seconds, audiences=audiences, bound=spec.get("boundObjectRef")
        )
        status = {"token": token, "expirationTimestamp": instant.format_instant(end * instant.SECOND)}
        metadata = {"name": call.name, "namespace": call.namespace, "creationTimestamp": self.backend.timestamp()}
        filled = spec | {"audiences": audiences, "expirationSeconds": seconds}
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": metadata,
            "spec": filled,
            "status": status,
        }


def _caller_of(spec: dict[str, Any]) -> Caller:
    if not spec.get("user") and not spec.get("groups"):
        cause = ("spec.user", "FieldValueInvalid", 'Invalid value: "": at least one of user or group must be specified')
        raise failures.invalid("SubjectAccessReview", "authorization.k8s.io", "", [cause])
    return Caller(spec.get("user", ""), tuple(spec.get("groups") or ()))


def _user(caller: Caller) -> dict[str, Any]:
    user: dict[str, Any] = {"username": caller.name, "groups": list(caller.groups)}
    return user | {"uid": caller.uid} if caller.uid else user
