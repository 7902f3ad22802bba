"""One gang: how it stands and why, what would start it, who its members are, what happened to it and what is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pumice import instant
from pumice.api.validation.names import dns_subdomain_problem
from pumice.cluster.state import NATIVE_PREFIX
from pumice.dashboard import actions, figures
from pumice.digits import whole_number
from pumice.errors import PumiceError
from pumice.processes.access import LOGS, PODGROUPS, Denied
from pumice.processes.questions import own_only
from pumice.record.model import without_others
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pumice.dashboard.pages.page import PageRequest
    from pumice.instant import Instant
    from pumice.readmodel import model
    from pumice.record.model import Detail, ForecastRecord
    from pumice.scheduling.whatif.suggestion import Suggestions

PODS_SHOWN = 200
EVENTS_SHOWN = 20
ATTEMPTS_MAX = 10_000
RECORD_DAYS = 30  # forecasts of this time say how far to believe the next one
DAY_S = 86_400
WIDTH = 1000  # of the timeline, in its own units
TICKS = 6
CURES = {
    "eviction": "pods that end, or are evicted, would help",
    "waiting": "time alone will help",
    "change": "only a change of the job, its queue or the nodes helps",
}
SOURCES = {
    "limit": "its time limit",
    "declared": "as its owner says",
    "learned": "as its last runs took",
    "queue": "its queue's default",
    "policy": "the policy's default: nobody says how long it runs",
}
FACTORS = (
    ("priority_class", "priority class"),
    ("fair_share", "fair share"),
    ("age", "age"),
    ("size", "size"),
    ("queue", "queue"),
)


class Span(Value):
    """A time on the line: from and to, in its units; a mark has no width."""

    kind: str
    x: float
    width: float
    title: str


class Line(Value):
    spans: tuple[Span, ...]
    ticks: tuple[tuple[float, str], ...]
    now: float


async def data(request: PageRequest) -> Mapping[str, Any]:
    namespace, name = request.names["namespace"], request.names["name"]
    for each in (namespace, name.removeprefix(NATIVE_PREFIX)):  # they become parts of paths: no slashes, no dots alone
        if dns_subdomain_problem(each):
            raise Denied(404, f"{each[:60]!r} is not a name that a gang can have")
    await request.person.demand("get", {**PODGROUPS, "namespace": namespace, "name": name})
    known = _known(request.state, namespace, name)
    name, job = (known.name, known.job or known.name) if known is not None else (name, name)
    for each in {name, job}:
        await request.person.demand("get", {**PODGROUPS, "namespace": namespace, "name": each})
    detail = await request.answers.gang(namespace, name)
    if detail is not None and request.sees.namespaces is not None:
        detail = msgspec.structs.replace(request.sees, namespaces=request.sees.namespaces | {namespace}).detail(detail)
    past = await request.answers.past(namespace, job)
    buttons = await actions.of_gang(request.person, namespace, name, job) if request.writes else []
    gang = detail.gang if detail is not None else known
    if gang is None and past is None and not buttons:
        raise Denied(404, f"no gang {namespace}/{name} is known to the scheduler or to the record")
    if past is not None and not request.sees_all:
        past.evictions[:] = [without_others(each, namespace) for each in past.evictions]
    resource = figures.main_resource(request.state.totals)
    attempt = whole_number(request.query.get("attempt", "0"), most=ATTEMPTS_MAX) or 0
    logs = None
    if await request.person.may("get", {**LOGS, "namespace": namespace}):
        logs = await request.answers.logs(namespace, job, attempt)
    return {
        "key": f"{namespace}/{name}",
        "detail": detail,
        "gang": gang,
        "past": past,
        "stage": figures.stage_of(gang) if gang is not None else figures.FINISHED,
        "noun": figures.noun(resource),
        "holds": figures.part(gang.holds, resource) if gang is not None else 0.0,
        "asks": figures.part(gang.asks, resource) if gang is not None else 0.0,
        "run_s": figures.seconds(gang.expected.length) if gang is not None and gang.expected is not None else 0,
        "cures": CURES,
        "sources": SOURCES,
        "nodes": request.state.totals.nodes,
        "suggestions": _suggestions(request, gang) if gang is not None else None,
        "factors": list(factors(gang, request.state.policy.factors)) if gang is not None else [],
        "line": line(gang, past, request.now),
        "evictions": [each for each in request.state.evictions if each.gang == f"{namespace}/{name}"][-EVENTS_SHOWN:],
        "attempts": [each for each in request.state.attempts if each.gang == f"{namespace}/{name}"][-EVENTS_SHOWN:],
        "score": request.state.forecasts,
        "forecasts": await _forecasts(request, namespace) if gang is not None and gang.forecast is not None else None,
        "events": await _events(request, namespace, name, gang.job if gang is not None else ""),
        "logs": logs,
        "attempt": attempt or max(logs.attempts, default=0) if logs is not None else 0,
        "pods_shown": PODS_SHOWN,
        "short": figures.by_job(request.state.gangs),
        "buttons": buttons,
    }


def _known(state: model.State, namespace: str, name: str) -> model.Gang | None:
    """By its PodGroup's name, that the scheduler knows, or by its Job's, that the record knows: either is asked for."""
    return next((each for each in state.gangs if each.namespace == namespace and name in {each.name, each.job}), None)


def _suggestions(request: PageRequest, gang: model.Gang) -> Suggestions | str | None:
    """None while the engine is at it; a sentence where there is nothing to ask."""
    if figures.stage_of(gang) != figures.WAITING or not gang.reasons:
        return ""
    stamp = tuple((each.code, each.facts.subject) for each in gang.reasons)
    found = request.answers.suggestions(gang.namespace, gang.name, stamp)
    if found is None or isinstance(found, str) or request.sees_all:
        return found
    return own_only(found, gang.key)


async def _forecasts(request: PageRequest, namespace: str) -> ForecastRecord | None:
    """What came of earlier ones: of all gangs, or of those that this person may see."""
    now = request.now // instant.SECOND // DAY_S * DAY_S  # one question for all who look
    query = {"since": str(now - RECORD_DAYS * DAY_S)}
    try:
        return await request.answers.forecasts(query if request.sees_all else {**query, "namespace": namespace})
    except PumiceError:
        return None


async def _events(request: PageRequest, namespace: str, name: str, job: str) -> list[dict[str, Any]]:
    if not await request.person.may("list", {"group": "", "resource": "events", "namespace": namespace}):
        return []
    found = [each for own in {name, job} - {""} for each in await request.answers.events(namespace, own)]
    found.sort(key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""), reverse=True)
    return found[:EVENTS_SHOWN]


def factors(gang: model.Gang, weights: Mapping[str, float]) -> Iterator[tuple[str, float, float, float]]:
    """What makes up the rank: name, value, weight and the product's part of a full bar."""
    if gang.factors is None:
        return
    known = {name: getattr(gang.factors, name) for name, _ in FACTORS}
    by = {
        name: weights.get(name, weights.get(name.replace("_", "-"), weights.get(_camel(name), 0.0))) for name in known
    }
    most = max((abs(known[name] * by[name]) for name in known), default=0.0) or 1.0
    for name, words in FACTORS:
        product = known[name] * by[name]
        yield words, known[name], by[name], round(max(product, 0.0) / most * 100, 1)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.title() for each in others)


# ------------------------------------------------------------------------------------------------------ the line of time


def line(gang: model.Gang | None, past: Detail | None, now: Instant) -> Line | None:
    """From its submission to its end or to what is expected; None where nothing is known of its beginning."""
    spans = sorted(_spans(gang, past, now), key=lambda span: span[1])
    if not spans:
        return None
    begin = min(start for _, start, _, _ in spans)
    end = max(begin + 10 * instant.SECOND, *(stop for _, _, stop, _ in spans))
    scale = WIDTH / (end - begin)
    ticks = figures.ticks(begin, end, TICKS)
    return Line(
        tuple(
            Span(kind, round((start - begin) * scale, 1), round((stop - start) * scale, 1), title)
            for kind, start, stop, title in spans
        ),
        tuple((round((at - begin) * scale, 1), text) for at, text in ticks),
        round((now - begin) * scale, 1) if begin <= now <= end else -1.0,
    )


def _spans(gang: model.Gang | None, past: Detail | None, now: Instant) -> Iterator[tuple[str, Instant, Instant, str]]:
    attempts = [each for each in (past.attempts if past is not None else ()) if each.get("started")]
    runs = [(each["started"] * instant.SECOND, _end(each, now), each) for each in attempts]
    begin = _begin(gang, past)
    if begin is not None:
        first = min((start for start, _, _ in runs), default=None)
        if first is None and gang is not None and figures.stage_of(gang) == figures.RUNNING:
            first = figures.moment(gang.since)
        yield "waiting", begin, max(first if first is not None else now, begin), "waited"
        if not runs and first is not None:
            yield "attempt", first, now, "runs"
    for start, stop, each in runs:
        yield "attempt", start, stop, f"attempt {each.get('attempt', '')}: {each.get('state', '')}"
    for each in past.evictions if past is not None else ():
        at = each["at"] * instant.SECOND
        yield "eviction", at, at, f"{each['pod']} evicted by {each['rule']}"
    if gang is None:
        return
    if gang.forecast is not None and (p50 := figures.moment(gang.forecast.p50)):
        p90 = figures.moment(gang.forecast.p90) or p50
        yield "forecast", p50, max(p90, p50), f"starts between {gang.forecast.p50} and {gang.forecast.p90} (forecast)"
    elif gang.reservation is not None and (time := figures.moment(gang.reservation.time)):
        yield "reserved", time, time, f"room is reserved from {gang.reservation.time} on"
    if gang.expected is not None and (end := figures.moment(gang.expected.end)) and end > now:
        yield "expected", now, end, f"expected to run until {gang.expected.end}"


def _begin(gang: model.Gang | None, past: Detail | None) -> Instant | None:
    if gang is not None:
        return figures.moment(gang.created)
    return past.gang.submitted * instant.SECOND if past is not None and past.gang is not None else None


def _end(attempt: Mapping[str, Any], now: Instant) -> Instant:
    start, ended = int(attempt["started"]) * instant.SECOND, attempt.get("ended")
    return max(int(ended) * instant.SECOND if ended else now, start)
