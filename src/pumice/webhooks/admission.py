"""The answer to a review: the rules for the object, then the right to the queues that it leads to."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeAlias

from pumice.kube import errors
from pumice.webhooks.destinations import is_submission
from pumice.webhooks.registration import AccessMode
from pumice.webhooks.reviewing import UNAVAILABLE, allowed, refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.webhooks.access import QueueAccess
    from pumice.webhooks.destinations import Destinations
    from pumice.webhooks.reviewing import Path, Reviewer
    from pumice.webhooks.submitters import Subject, Submitters

Json: TypeAlias = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class QueueRights:
    """What it takes to say who may use which queue."""

    mode: AccessMode
    submitters: Submitters
    destinations: Destinations
    access: QueueAccess


class Admission:
    """Answers reviews. Without queue rights, everybody may use every queue."""

    def __init__(self, reviewer: Reviewer, rights: QueueRights | None = None) -> None:
        self._reviewer = reviewer
        self._rights = rights

    async def answer(self, path: Path, request: Json) -> Json:
        rights = self._rights
        if rights is None or not path.records or request["operation"] not in {"CREATE", "UPDATE"}:
            return self._reviewer.answer(path)(request)
        if problem := rights.submitters.forged(request) if _is_judged(path, request) else "":
            return refused(request, problem)
        if path.mutates:
            patch, warnings = self._reviewer.patch(request)
            return allowed(request, warnings, [*patch, *rights.submitters.record_patch(request)])
        response = self._reviewer.validate(request)
        if not response["allowed"] or not is_submission(request):
            return response
        return await self._authorised(request, response, rights)

    async def _authorised(self, request: Json, response: Json, rights: QueueRights) -> Json:
        submitter, warnings = rights.submitters.submitter(request), response.get("warnings", ())
        try:
            missing = [
                queue for queue in rights.destinations.of(request) if not await rights.access.may_use(submitter, queue)
            ]
        except errors.KubeError as error:
            text = f"who may use the queue could not be asked of the API server: {error}"
            # The group that will be made for a pod is asked about again, and that fails closed.
            if rights.mode == AccessMode.WARN or request["kind"]["kind"] == "Pod":
                return allowed(request, [text, *warnings])
            return refused(request, f"{text}; try again", warnings, code=UNAVAILABLE)
        if not missing:
            return response
        text = _denial(submitter, missing, request, is_own=submitter == rights.submitters.sender(request))
        if rights.mode == AccessMode.WARN:
            return allowed(request, [f"{text} (only a warning for now)", *warnings])
        return refused(request, text, warnings)


def _is_judged(path: Path, request: Json) -> bool:
    """An update that leaves a record out gets it back before anybody judges it."""
    return not (path.mutates and request["operation"] == "UPDATE")


def _denial(submitter: Subject, queues: Sequence[str], request: Json, *, is_own: bool) -> str:
    named = ", ".join(f'"{queue}"' for queue in queues)
    whose = "" if is_own else f", for whom this {request['kind']['kind']} is made,"
    return (
        f"{submitter}{whose} may not use queue {named}: the verb use on queues.scheduling.volcano.sh is missing; "
        f"ask for a role with it, or submit to another queue"
    )
