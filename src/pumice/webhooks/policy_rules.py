"""The rules of api.validation that CEL can express, kind by kind and operation by operation.

Each says no more than the rule that it stands in for: what these refuse, the webhooks refuse too. What schemas refuse by themselves,
such as negative numbers, is not said again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pumice.api import names
from pumice.api.run_time import HANDED_ON, SIGNALS, TIMES
from pumice.api.validation.limits import JOB_REPLICAS_MAX
from pumice.api.validation.policies import ACTIONS, EVENTS
from pumice.api.validation.request import JOB_PLUGINS
from pumice.values import Value
from pumice.webhooks.registration import annotation, texts

if TYPE_CHECKING:
    from collections.abc import Mapping


class Rule(Value):
    """An expression that must hold, and what to say where it does not; `text_expression` says it in CEL."""

    expression: str
    text: str
    text_expression: str = ""

    def manifest(self) -> dict[str, Any]:
        """As a policy holds it."""
        found = {"expression": self.expression, "message": self.text, "reason": "Forbidden"}
        return found | ({"messageExpression": self.text_expression} if self.text_expression else {})


def _list(where: str) -> str:
    parent, _, field = where.rpartition(".")
    return f"(has({parent}.{field}) ? {where} : [])"


def _number(where: str) -> str:
    return f"(has({where}) ? {where} : 0)"


_TASKS: Final = _list("object.spec.tasks")
_TOTAL: Final = f"{_TASKS}.map(t, {_number('t.replicas')}).sum()"
_JOB_POLICIES: Final = _list("object.spec.policies")
_TASK_POLICIES: Final = f"{_TASKS}.all(t, {_list('t.policies')}.all(p, %s))"
_VOLUMES: Final = _list("object.spec.volumes")


def _policies(expression: str) -> str:
    """True for all policies of a Job and of its tasks."""
    return f"{_JOB_POLICIES}.all(p, {expression}) && {_TASK_POLICIES % expression}"


def _policy_lists(expression: str) -> str:
    """True for the list of a Job and for those of its tasks, each of which stands for %s."""
    own, of_a_task = expression.replace("%s", _JOB_POLICIES), expression.replace("%s", _list("t.policies"))
    return f"({own}) && {_TASKS}.all(t, {of_a_task})"


def _one_tier(where: str) -> str:
    topology = f"{where}.networkTopology"
    tier = f"{topology}.highestTierName"
    return f"!has({topology}) || !has({topology}.highestTierAllowed) || !has({tier}) || {tier} == ''"


def _events_of(policy: str) -> str:
    events, event = f"{policy}.events", f"{policy}.event"
    return f"((has({events}) ? {events} : []) + (has({event}) && {event} != '' ? [{event}] : []))"


_HAS_EVENTS: Final = "((has(p.event) && p.event != '') || (has(p.events) && size(p.events) > 0))"

_MARKS: Final = "object.metadata.annotations"


def _has_annotation(key: str) -> str:
    return f"(has({_MARKS}) && {json.dumps(key)} in {_MARKS})"


# Go's durations; what is longer than an int64 of nanoseconds cannot be evaluated, and is refused by that.
_DURATION: Final = "^[+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+$"
_SAME_TIMES: Final = " && ".join(f"{annotation('object', key)} == {annotation('oldObject', key)}" for key in HANDED_ON)
_CONTROLLED: Final = (
    "has(object.metadata.ownerReferences)"
    " && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)"
)


def _value(key: str) -> str:
    return f"{_MARKS}[{json.dumps(key)}]"


def _is_duration(key: str) -> str:
    value = _value(key)
    return f"(!{_has_annotation(key)} || ({value}.matches('{_DURATION}') && duration({value}) > duration('0s')))"


def _times(unless: str = "false") -> tuple[Rule, ...]:
    """What annotations say about time."""
    limit, warning = names.TIME_LIMIT, names.TIME_LIMIT_WARNING
    is_shorter = f"({_has_annotation(limit)} && duration({_value(warning)}) < duration({_value(limit)}))"
    signals = (names.TIME_LIMIT_SIGNAL, names.CHECKPOINT_SIGNAL)
    wanted = [annotation("object", signal) for signal in signals]
    are_known = " && ".join(f"({each} == '' || {each} in {texts(SIGNALS)})" for each in wanted)
    return (
        Rule(
            f"({unless}) || ({' && '.join(map(_is_duration, TIMES))})",
            f"{', '.join(TIMES)}: must be a duration longer than 0; write for example 90s, 1h30m or 1.5h",
        ),
        Rule(
            f"({unless}) || !{_has_annotation(warning)} || {is_shorter}",
            f"{warning}: must be shorter than {limit}; write a shorter one",
        ),
        Rule(
            f"({unless}) || ({are_known})",
            f"{', '.join(signals)}: unsupported value; use one of {', '.join(SIGNALS)}",
        ),
    )


_NUMBERS: Final = (
    Rule(
        f"{_TASKS}.all(t, !has(t.minAvailable) || t.minAvailable <= {_number('t.replicas')})",
        "spec.tasks: 'minAvailable' is greater than 'replicas' in task; lower it or add replicas",
    ),
    Rule(
        f"!has(object.spec.minAvailable) || object.spec.minAvailable <= {_TOTAL}",
        "spec.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks; lower it or add replicas",
    ),
    Rule(
        f"{_TOTAL} <= {JOB_REPLICAS_MAX}",
        f"spec.tasks: the tasks of a job have at most {JOB_REPLICAS_MAX} replicas together; make several jobs of it",
    ),
    Rule(_one_tier("object.spec"), "spec.networkTopology: must not specify both tiers; keep one of them"),
)

_JOB_CREATED: Final = (
    Rule(f"size({_TASKS}) > 0", "spec.tasks: No task specified in job spec; add one"),
    *_NUMBERS,
    *_times(),
    Rule(
        f"{_TASKS}.all(t, {_TASKS}.exists_one(o, o.name == t.name))",
        "spec.tasks: duplicated task name; give each task a name of its own",
    ),
    Rule(
        _policies(f"has(p.exitCode) != {_HAS_EVENTS}"),
        "policies: exactly one of event, events and exitCode is to be set; keep one of them",
    ),
    Rule(_policies("!has(p.exitCode) || p.exitCode != 0"), "policies: 0 is not a valid error code; use another"),
    Rule(
        _policy_lists("%s.all(p, !has(p.exitCode) || %s.exists_one(q, has(q.exitCode) && q.exitCode == p.exitCode))"),
        "policies: duplicate exitCode; keep one policy for it",
    ),
    Rule(
        _policy_lists(f"%s.all(p, {_events_of('p')}.all(e, %s.exists_one(q, e in {_events_of('q')})))"),
        "policies: duplicate event across different policy; keep one policy for it",
    ),
    Rule(
        _policy_lists(f"!%s.exists(p, '*' in {_events_of('p')}) || %s.all(p, {_events_of('p')}.all(e, e == '*'))"),
        "policies: if there's * here, no other policy should be here; remove * or the others",
    ),
    Rule(
        _policies(f"{_events_of('p')}.all(e, e in {texts(EVENTS)})"),
        f"policies: invalid policy event; use one of {', '.join(EVENTS)}",
    ),
    Rule(
        _policies(f"!{_HAS_EVENTS} || (has(p.action) && p.action in {texts(ACTIONS)})"),
        f"policies: invalid policy action; use one of {', '.join(ACTIONS)}",
    ),
    Rule(
        f"!has(object.spec.plugins) || object.spec.plugins.all(p, p in {texts(JOB_PLUGINS)})",
        f"spec.plugins: unable to find job plugin; use one of {', '.join(JOB_PLUGINS)}",
    ),
    Rule(
        f"{_VOLUMES}.all(v, has(v.mountPath) && v.mountPath != '')"
        f" && {_VOLUMES}.all(v, {_VOLUMES}.exists_one(o, o.mountPath == v.mountPath))",
        "spec.volumes: each needs a mountPath of its own; set it",
    ),
    Rule(
        f"{_VOLUMES}.all(v, has(v.volumeClaim) != (has(v.volumeClaimName) && v.volumeClaimName != ''))",
        "spec.volumes: exactly one of volumeClaim and volumeClaimName is to be set; keep one of them",
    ),
    Rule(
        "!has(object.spec.queue) || object.spec.queue != 'root'",
        "spec.queue: can not submit job to root queue; use one of the queues below it",
    ),
)


def _same(field: str) -> str:
    new, old = f"object.spec.{field}", f"oldObject.spec.{field}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"


_JOB_UPDATED: Final = (
    *_NUMBERS,
    *_times(unless=_SAME_TIMES),
    Rule(
        f"size({_TASKS}) == size({_TASKS.replace('object', 'oldObject')})",
        "spec.tasks: a job may not get or lose tasks; create another job",
    ),
    Rule(
        " && ".join(f"({_same(field)})" for field in ("queue", "schedulerName")),
        "spec: job updates may not change queue and schedulerName; create another job",
    ),
)


def _amounts(where: str) -> str:
    return f"(has(object.spec.{where}) ? object.spec.{where} : {{}})"


_GUARANTEE: Final = (
    "(has(object.spec.guarantee) && has(object.spec.guarantee.resource) ? object.spec.guarantee.resource : {})"
)
_DESERVED: Final = _amounts("deserved")
_CAPABILITY: Final = _amounts("capability")
_NUMBER: Final = "^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$"
_SAME_HIERARCHY: Final = (
    " && ".join(
        [
            "(oldObject != null",
            *(
                f"{annotation('object', key)} == {annotation('oldObject', key)}"
                for key in (names.HIERARCHY, names.HIERARCHY_WEIGHTS)
            ),
        ]
    )
    + ")"
)
_PATH, _WEIGHTS = annotation("object", names.HIERARCHY), annotation("object", names.HIERARCHY_WEIGHTS)


def _comparison(one: str, other: str, sign: str) -> str:
    return f"quantity(string({one}[r])).compareTo(quantity(string({other}[r]))) {sign} 0"


_QUEUE_WRITTEN: Final = (
    Rule(
        f"{_GUARANTEE}.all(r, r in {_DESERVED} && {_comparison(_DESERVED, _GUARANTEE, '>=')})",
        "spec.deserved: guarantee should less equal than deserved for every guaranteed resource; raise it",
    ),
    Rule(
        f"{_DESERVED}.all(r, !(r in {_CAPABILITY}) || {_comparison(_DESERVED, _CAPABILITY, '<=')})",
        "spec.deserved: deserved should less equal than capability; lower it",
    ),
    Rule(
        f"{_SAME_HIERARCHY} || ({_PATH} == '') == ({_WEIGHTS} == '')"
        f" && {_PATH}.split('/').size() == {_WEIGHTS}.split('/').size()",
        f"{names.HIERARCHY} must have the same length with {names.HIERARCHY_WEIGHTS}; give a weight for each part",
    ),
    Rule(
        f"{_SAME_HIERARCHY} || {_WEIGHTS} == ''"
        f" || {_WEIGHTS}.split('/').all(w, w.matches('{_NUMBER}') && double(w) > 0.0)",
        f"{names.HIERARCHY_WEIGHTS}: each weight must be larger than 0; use a number above 0",
    ),
    Rule(
        "!has(object.spec.parent) || object.spec.parent != object.metadata.name",
        "spec.parent: a queue cannot be its own parent; name another",
    ),
)

_BUDGETS: Final = (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE)
_PATTERN: Final = "^([1-9][0-9]?%|0*[1-9][0-9]{0,8})$"


_FLOWS: Final = _list("object.spec.flows")
_FLOWS_WRITTEN: Final = (
    Rule(
        f"{_FLOWS}.all(f, !has(f.dependsOn) || {_list('f.dependsOn.targets')}.all(t, {_FLOWS}.exists(o, o.name == t)))",
        "spec.flows: jobflow Flow is not DAG: vertex is not defined; declare a flow of this name, or name another",
    ),
    Rule(
        f"{_FLOWS}.all(f, !has(f.dependsOn) || !(f.name in {_list('f.dependsOn.targets')}))",
        "spec.flows: jobflow Flow is not DAG: one waits for itself; remove that dependency",
    ),
)

_CRON_WRITTEN: Final = (
    Rule("object.spec.schedule != ''", "spec.schedule: required, but missing; set it"),
    Rule("!object.spec.schedule.contains('TZ')", "spec.schedule: must hold no time zone; use spec.timeZone"),
    Rule(
        "!has(object.spec.timeZone) || (object.spec.timeZone != '' && object.spec.timeZone != 'Local')",
        "spec.timeZone: must name a zone; write for example Europe/Berlin",
    ),
)

# A pattern that is none fails to compile, and what cannot be evaluated is refused: the server says what is wrong with it.
PATTERNS: Final = Rule(
    f"{_list('object.spec.members')}.all(m, !has(m.selector) || !has(m.selector.regexMatch)"
    " || (''.matches(m.selector.regexMatch.pattern) ? true : true))",
    "spec.members: a regexMatch is not a regular expression; write a pattern of RE2",
)
_HYPER_NODES: Final = (
    Rule(
        f"size({_list('object.spec.members')}) > 0", "spec.members: members must not be empty; add at least one member"
    ),
    PATTERNS,
)

RULES: Final[Mapping[tuple[str, str], tuple[Rule, ...]]] = {
    ("jobs.batch.volcano.sh", "CREATE"): _JOB_CREATED,
    ("jobs.batch.volcano.sh", "UPDATE"): _JOB_UPDATED,
    ("queues.scheduling.volcano.sh", "CREATE"): _QUEUE_WRITTEN,
    ("queues.scheduling.volcano.sh", "UPDATE"): _QUEUE_WRITTEN,
    ("queues.scheduling.volcano.sh", "DELETE"): (
        Rule("!(oldObject.metadata.name in ['default', 'root'])", "the queues default and root stay; delete another"),
    ),
    ("podgroups.scheduling.volcano.sh", "CREATE"): (
        Rule(
            f"!has(object.spec) || (({_one_tier('object.spec')})"
            f" && {_list('object.spec.subGroupPolicy')}.all(s, {_one_tier('s')}))",
            "networkTopology: must not specify both tiers; keep one of them",
        ),
        *_times(unless=_CONTROLLED),
    ),
    ("pods", "CREATE"): (
        Rule(
            " && ".join(
                f"(!{_has_annotation(key)} || {_MARKS}[{json.dumps(key)}].matches('{_PATTERN}'))" for key in _BUDGETS
            ),
            "a disruption budget must be a positive integer or a valid percentage which between 1% ~ 99%; write for example 2 or 50%",
        ),
        Rule(
            f"!({_has_annotation(_BUDGETS[0])} && {_has_annotation(_BUDGETS[1])})",
            f"not allow configure multiple annotations <[{_BUDGETS[0]} {_BUDGETS[1]}]> at same time; keep one of them",
        ),
        *_times(),
    ),
    ("hypernodes.topology.volcano.sh", "CREATE"): _HYPER_NODES,
    ("hypernodes.topology.volcano.sh", "UPDATE"): _HYPER_NODES,
    ("jobflows.flow.volcano.sh", "CREATE"): _FLOWS_WRITTEN,
    ("jobflows.flow.volcano.sh", "UPDATE"): _FLOWS_WRITTEN,
    ("cronjobs.batch.volcano.sh", "CREATE"): (
        *_CRON_WRITTEN,
        Rule(
            "size(object.metadata.name) <= 52",
            "metadata.name: must be no more than 52 characters; shorten it",
        ),
    ),
}
