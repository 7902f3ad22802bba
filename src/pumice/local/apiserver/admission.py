"""Admission: what the server itself adds or refuses, then in-process hooks, then webhooks; mutating before validating.

Hooks and webhooks speak the same AdmissionReview, so one function can serve both ways.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pumice.local.apiserver import builtin_admission
from pumice.local.apiserver.quota import Quotas
from pumice.local.apiserver.reviews import answer_patch, refuse, review_request
from pumice.local.apiserver.webhooks import Webhooks
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.store import Object
    from pumice.local.apiserver.webhooks import Dispatch

    # Looks at an object that is about to be stored, and raises if its writer may not do that.
    Guard = Callable[[Call, str, Object | None], None]

Review = dict[str, Any]


class Hook(Value):
    """An admission function in this process: takes an AdmissionReview's `request`, returns its `response`.

    `collections` are names such as "pods" and "jobs.batch.volcano.sh"; `operations` CREATE, UPDATE, DELETE.
    """

    name: str
    collections: frozenset[str]
    operations: frozenset[str]
    mutates: bool
    review: Callable[[Review], Review | Awaitable[Review]]


class Admission:
    def __init__(self, backend: Backend, hooks: list[Hook], dispatch: Dispatch | None) -> None:
        self.backend = backend
        self.hooks = hooks
        self.webhooks = Webhooks(backend, dispatch)
        self.quotas = Quotas(backend)
        self.guards: list[Guard] = []

    async def mutate(self, call: Call, operation: str, obj: Object, old: Object | None) -> Object | None:
        """The object after admission has changed it; None where only the server's own additions were made, in place."""
        builtin_admission.mutate(self.backend, call, operation, obj, old)
        changed = await self._call_mutating_hooks(call, operation, obj, old)
        return await self.webhooks.mutate(call, operation, changed or obj, old) or changed

    async def _call_mutating_hooks(self, call: Call, operation: str, obj: Object, old: Object | None) -> Object | None:
        changed = None
        for hook in self._hooks_for(call, operation, mutates=True):
            request = review_request(self.backend, call, operation, changed or obj, old)
            response = await self._ask(hook, request)
            self._check_response(hook.name, call, response)
            changed = answer_patch(hook.name, response, changed or obj) or changed
        return changed

    def _hooks_for(self, call: Call, operation: str, *, mutates: bool) -> list[Hook]:
        if call.subresource:
            return []
        name = call.resource.collection
        return [h for h in self.hooks if h.mutates is mutates and name in h.collections and operation in h.operations]

    async def _ask(self, hook: Hook, request: Review) -> Review:
        answer = hook.review(request)
        return await answer if inspect.isawaitable(answer) else answer

    def _check_response(self, name: str, call: Call, response: Review) -> None:
        call.warnings += response.get("warnings") or ()
        if not response.get("allowed"):
            raise refuse(name, response)

    async def validate(self, call: Call, operation: str, obj: Object | None, old: Object | None) -> None:
        builtin_admission.validate(call, operation)
        for guard in self.guards:
            guard(call, operation, obj)
        for hook in self._hooks_for(call, operation, mutates=False):
            request = review_request(self.backend, call, operation, obj, old)
            self._check_response(hook.name, call, await self._ask(hook, request))
        await self.webhooks.validate(call, operation, obj, old)

    def charge(self, call: Call, obj: Object, old: Object | None) -> None:
        """Takes the object out of its namespace's quota; the last step before the store, so it is exact."""
        if old is None and call.resource.namespaced:
            self.quotas.charge(call.resource, obj, dry_run=call.dry_run)
