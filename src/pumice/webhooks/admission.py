"""The answer to a review: the rules for the object, then the right to the queues that it leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.kube import errors
from pumice.values import Value
from pumice.webhooks.access import ADMINISTER, USE
from pumice.webhooks.registration import AccessMode
from pumice.webhooks.reviews import UNAVAILABLE, allow_response, refuse_response
from pumice.webhooks.target_queues import QUEUES_MAX, is_submission

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.meta import Json
    from pumice.webhooks.access import QueueAccess
    from pumice.webhooks.reviews import Path, Reviewer
    from pumice.webhooks.submission_limits import SubmissionLimits
    from pumice.webhooks.submitters import Subject, Submitters
    from pumice.webhooks.target_queues import Destinations


class QueueRights(Value):
    """What it takes to say who may use which queue."""

    mode: AccessMode
    submitters: Submitters
    destinations: Destinations
    access: QueueAccess
    submission_limits: SubmissionLimits | None = None


class Admission:
    """Answers reviews. Without queue rights, every user may use every queue."""

    def __init__(self, reviewer: Reviewer, rights: QueueRights | None = None) -> None:
        self._reviewer = reviewer
        self._rights = rights

    def judge(self, path: Path, request: Json) -> Verdict:
        """What can be said without asking the API server, and what is to be asked of it; may run in any thread."""
        response = self._judge_alone(path, request)
        rights = self._rights
        if rights is None or path.mutates or not path.records or not response["allowed"]:
            return Verdict(response)
        if not is_submission(request, by_controllers=rights.submitters.is_trusted(request)):
            return Verdict(response)
        question = _question(request, rights)
        if problem := _over_limit(question, rights):
            return Verdict(refuse_response(question.stub, problem))
        if len(question.queues) > QUEUES_MAX:
            text = f"leads to {len(question.queues)} queues, at most {QUEUES_MAX} can be asked about; make several objects of it"
            return Verdict(refuse_response(question.stub, f"this {question.kind} {text}"))
        return Verdict(response, question)

    async def authorise(self, verdict: Verdict) -> Json:
        """The answer. The request is not kept meanwhile: decoded it is up to thirty times as large as its text."""
        if self._rights is None or verdict.question is None:
            return verdict.response
        return await _check_rights(verdict.question, verdict.response, self._rights)

    def _judge_alone(self, path: Path, request: Json) -> Json:
        """What can be said without asking the API server."""
        rights = self._rights
        if rights is None or not path.records or request["operation"] not in {"CREATE", "UPDATE"}:
            return self._reviewer.answer(path)(request)
        if problem := rights.submitters.forgery(request) if _is_judged(path, request) else "":
            return refuse_response(request, problem)
        if path.mutates:
            patch, warnings = self._reviewer.patch(request)
            return allow_response(request, warnings, [*patch, *rights.submitters.record_patch(request)])
        return self._reviewer.validate(request)


class Question(Value):
    """Has the submitter the verb on these queues? And what is left of the request, to answer it."""

    stub: Json
    kind: str
    is_new: bool
    verb: str
    submitter: Subject
    is_own: bool  # the submitter sends the request
    queues: tuple[str, ...]


class Verdict(Value):
    """An answer, which holds unless a right is missing."""

    response: Json
    question: Question | None = None


def _question(request: Json, rights: QueueRights) -> Question:
    submitter = rights.submitters.submitter(request)
    return Question(
        stub={"uid": request.get("uid", "")},
        kind=request["kind"]["kind"],
        is_new=request["operation"] == "CREATE",
        verb=ADMINISTER if request["kind"]["kind"] == "Command" else USE,
        submitter=submitter,
        is_own=submitter == rights.submitters.sender(request),
        queues=tuple(rights.destinations.of(request)),
    )


def _over_limit(question: Question, rights: QueueRights) -> str:
    """Why one gang more is too many. What controllers make for a user waits instead: they would only try again."""
    if (
        rights.submission_limits is None
        or not (question.is_new and question.is_own)
        or question.kind not in {"Job", "PodGroup"}
    ):
        return ""
    problems = (rights.submission_limits.problem(question.submitter.user, queue) for queue in question.queues)
    return next((problem for problem in problems if problem), "")


async def _check_rights(question: Question, response: Json, rights: QueueRights) -> Json:
    stub, warnings = question.stub, response.get("warnings", ())
    try:
        asked = [
            (queue, await rights.access.may(question.submitter, question.verb, queue)) for queue in question.queues
        ]
    except errors.KubeError as error:
        text = f"who may use the queue could not be asked of the API server: {error}"
        # The group that will be made for a new pod is asked about again, and that fails closed.
        if rights.mode == AccessMode.WARN or (question.kind == "Pod" and question.is_new):
            return allow_response(stub, [text, *warnings])
        return refuse_response(stub, f"{text}; try again", warnings, code=UNAVAILABLE)
    missing = [queue for queue, may in asked if not may]
    if not missing:
        return response
    text = _denial(question, missing)
    if rights.mode == AccessMode.WARN:
        return allow_response(stub, [f"{text} (only a warning for now)", *warnings])
    return refuse_response(stub, text, warnings)


def _is_judged(path: Path, request: Json) -> bool:
    """An update that leaves a record out gets it back before it is judged."""
    return not (path.mutates and request["operation"] == "UPDATE")


def _denial(question: Question, queues: Sequence[str]) -> str:
    named = ", ".join(f'"{queue}"' for queue in queues)
    whose = "" if question.is_own else f", for whom this {question.kind} is made,"
    what, instead = ("use", ", or submit to another queue") if question.verb == USE else ("open or close", "")
    return (
        f"{question.submitter}{whose} may not {what} queue {named}: the verb {question.verb} on queues.scheduling.volcano.sh "
        f"is missing; ask for a role with it{instead}"
    )
