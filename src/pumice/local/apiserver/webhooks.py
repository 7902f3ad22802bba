"""Calls of Mutating- and ValidatingWebhookConfigurations, as a real server makes them, through a port that is handed in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pumice import cel, selectors
from pumice.local.apiserver import failures
from pumice.local.apiserver.reviews import answer_patch, refuse, review_request
from pumice.local.apiserver.store import decode, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.history import Change
    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.store import Object

    # (clientConfig, body, seconds) -> the answer's body
    Dispatch = Callable[[dict[str, Any], bytes, float], Awaitable[bytes]]

MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
TIMEOUT_S_MAX = 30.0
# These are never sent to webhooks, or a broken one could not be repaired.
_EXEMPT = frozenset({MUTATING, VALIDATING})


class Webhooks:
    """The configured webhooks of both kinds, kept decoded until one of them changes."""

    def __init__(self, backend: Backend, dispatch: Dispatch | None) -> None:
        self.backend = backend
        self.dispatch = dispatch
        self._kept: dict[str, list[dict[str, Any]]] = {}
        backend.store.listeners.append(self._forget)

    def _forget(self, change: Change) -> None:
        if change.collection in _EXEMPT:
            self._kept.pop(change.collection, None)

    def _webhooks_in(self, collection: str) -> list[dict[str, Any]]:
        kept = self._kept.get(collection)
        if kept is None:
            kept = self._kept[collection] = [
                webhook
                for entry in self.backend.store.collection(collection).entries()
                for webhook in decode(entry.body).get("webhooks") or ()
            ]
        return kept

    async def mutate(self, call: Call, operation: str, obj: Object, old: Object | None) -> Object | None:
        changed: Object | None = None
        for webhook in self._webhooks_in(MUTATING):
            request = self._question(webhook, call, operation, changed or obj, old)
            if request is None:
                continue
            response = await self._ask(webhook, call, request)
            if response is not None:
                changed = answer_patch(webhook["name"], response, changed or obj) or changed
        return changed

    async def validate(self, call: Call, operation: str, obj: Object | None, old: Object | None) -> None:
        chosen = []
        for webhook in self._webhooks_in(VALIDATING):
            request = self._question(webhook, call, operation, obj, old)
            if request is not None:
                chosen.append(self._ask(webhook, call, request))
        if chosen:
            outcomes = await asyncio.gather(*chosen, return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome

    def _question(
        self, webhook: dict[str, Any], call: Call, operation: str, obj: Object | None, old: Object | None
    ) -> dict[str, Any] | None:
        """The review to ask for, or None where the webhook does not want it."""
        if call.resource.collection in _EXEMPT or not any(
            _rule(rule, call, operation) for rule in webhook.get("rules") or ()
        ):
            return None
        if not self._namespace_matches(webhook, call, obj) or not _object_matches(webhook, obj, old):
            return None
        request = review_request(self.backend, call, operation, obj, old)
        return request if self._conditions_hold(webhook, request) else None

    def _namespace_matches(self, webhook: dict[str, Any], call: Call, obj: Object | None) -> bool:
        selector = webhook.get("namespaceSelector") or {}
        if not selector:
            return True
        if call.resource.collection == "namespaces":
            labels = ((obj or {}).get("metadata") or {}).get("labels") or {}
        elif not call.namespace:
            return True
        else:
            entry = self.backend.store.get("namespaces", "", call.namespace)
            labels = entry.labels if entry else {}
        return selectors.label_selector(selector).matches(labels)

    def _conditions_hold(self, webhook: dict[str, Any], request: dict[str, Any]) -> bool:
        variables = {"object": request["object"], "oldObject": request["oldObject"], "request": request}
        for condition in webhook.get("matchConditions") or ():
            try:
                if cel.evaluate(condition["expression"], variables) is not True:
                    return False
            except cel.CelError as error:
                if webhook.get("failurePolicy") == "Ignore":
                    return False
                text = f'webhook "{webhook["name"]}": match condition {condition.get("name")!r}: {error}'
                raise failures.Failure(403, "Forbidden", text) from error
        return True

    async def _ask(self, webhook: dict[str, Any], call: Call, request: dict[str, Any]) -> dict[str, Any] | None:
        """The webhook's consent; a refusal is raised, a failure too unless the webhook may be ignored."""
        if call.dry_run and webhook.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            raise failures.bad_request(f'admission webhook "{webhook["name"]}" does not support dry run')
        try:
            response = await self._answer(webhook, request)
        except (OSError, ValueError, TimeoutError, LookupError, TypeError) as error:
            if webhook.get("failurePolicy") == "Ignore":
                return None
            text = f'failed calling webhook "{webhook["name"]}": {type(error).__name__}: {error}'
            raise failures.internal(text) from error
        call.warnings += response.get("warnings") or ()
        if not response.get("allowed"):
            raise refuse(webhook["name"], response)
        return response

    async def _answer(self, webhook: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
        if self.dispatch is None:
            raise LookupError("this server was started without a way to call webhooks")
        version = (webhook.get("admissionReviewVersions") or ["v1"])[0]
        body = encode({"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request})
        seconds = min(float(webhook.get("timeoutSeconds") or 10), TIMEOUT_S_MAX)
        async with asyncio.timeout(seconds):
            answered = decode(await self.dispatch(webhook["clientConfig"], body, seconds))
        response: dict[str, Any] = answered["response"]
        if response.get("uid") != request["uid"]:
            raise ValueError(f"expected response.uid={request['uid']!r}, got {response.get('uid')!r}")
        return response


def _rule(rule: dict[str, Any], call: Call, operation: str) -> bool:
    resource = call.resource
    scope = rule.get("scope", "*")
    if scope != "*" and (scope == "Namespaced") is not bool(call.namespace):
        return False
    name = f"{resource.plural}/{call.subresource}" if call.subresource else resource.plural
    accepted = {name, "*/*", f"{resource.plural}/*"} | ({"*"} if not call.subresource else {f"*/{call.subresource}"})
    return (
        bool({operation, "*"} & set(rule.get("operations") or ()))
        and bool({resource.group, "*"} & set(rule.get("apiGroups") or ()))
        and bool({resource.version, "*"} & set(rule.get("apiVersions") or ()))
        and bool(accepted & set(rule.get("resources") or ()))
    )


def _object_matches(webhook: dict[str, Any], obj: Object | None, old: Object | None) -> bool:
    selector = webhook.get("objectSelector") or {}
    if not selector:
        return True
    compiled = selectors.label_selector(selector)
    candidates = [candidate for candidate in (obj, old) if candidate is not None]
    return any(compiled.matches((candidate.get("metadata") or {}).get("labels") or {}) for candidate in candidates)
