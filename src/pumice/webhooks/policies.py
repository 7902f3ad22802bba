"""What CEL can express of our rules, as policies that the API server evaluates itself: no process, no network, no certificate.

They stand in for the webhooks where an operator wants to run none. What they cannot do: look at other objects (queues that are closed,
missing or have children, sums over siblings, priority classes), check pod templates, find rings of dependencies, and hold what
controllers make against its submitter: CEL asks about the rights of the sender of a request and of service accounts only. So a
CronJob's queue is checked when the CronJob is written, a JobFlow's when a user writes its JobTemplates or a queue into its
patches, and a pod's unless it joins a group.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pumice.api import defaults, names
from pumice.api.batch import DEFAULT_MAX_RETRY, DEFAULT_QUEUE
from pumice.values import Value
from pumice.webhooks.policy_rules import RULES, Rule
from pumice.webhooks.registration import (
    API_VERSION,
    FOR_A_QUEUE,
    LED_TO_A_QUEUE,
    AccessMode,
    Registration,
    annotation,
    change_of,
    excluded_namespaces,
    forged_record_rule,
    resource_rule,
    texts,
)
from pumice.webhooks.submitters import RECORD, WORKLOAD_CONTROLLERS
from pumice.webhooks.target_queues import LEADING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.meta import Json


PREFIX: Final = "pumice"
_TASKS: Final = "(has(object.spec.tasks) ? object.spec.tasks : [])"
_USE: Final = "group('scheduling.volcano.sh').resource('queues').name(variables.queue).check('use').allowed()"
_MISSING: Final = "the verb use on queues.scheduling.volcano.sh is missing"
FLOW_QUEUES_MAX: Final = 8  # that one JobFlow may lay over those of its templates
_QUEUED: Final = {
    "jobs.batch.volcano.sh": "object.spec",
    "podgroups.scheduling.volcano.sh": "object.spec",
    "cronjobs.batch.volcano.sh": "object.spec.jobTemplate.spec",
    "jobtemplates.flow.volcano.sh": "object.spec",
}
_SUBMITTED: Final = (
    "jobs.batch.volcano.sh",
    "podgroups.scheduling.volcano.sh",
    "cronjobs.batch.volcano.sh",
    "jobflows.flow.volcano.sh",
    "pods",
)


class _Policy(Value):
    """One policy and its binding."""

    name: str
    collections: tuple[str, ...]
    operations: tuple[str, ...]
    fails_closed: bool = True
    conditions: tuple[Json, ...] = ()
    variables: tuple[Json, ...] = ()


def manifests(registration: Registration) -> list[Json]:
    """All policies and their bindings."""
    found = [*_validating(registration), *_mutating(registration)]
    if registration.access != AccessMode.OFF:
        found += _rights(registration)
    return found


def _ours(registration: Registration) -> Json:
    names_of_ours = texts(registration.scheduler_names)
    expression = f"has(object.spec.schedulerName) && object.spec.schedulerName in {names_of_ours}"
    return {"name": "our-scheduler", "expression": expression}


# ------------------------------------------------------------------------------------------------------------ validating


def _validating(registration: Registration) -> list[Json]:
    found: list[Json] = []
    for (collection, operation), rules in RULES.items():
        plural = collection.partition(".")[0]
        is_pods = collection == "pods"
        policy = _Policy(
            f"{PREFIX}-{plural}-{operation.lower()}",
            (collection,),
            (operation,),
            fails_closed=not is_pods,
            conditions=(_ours(registration),) if is_pods else (),
        )
        found += _validating_policy(registration, policy, rules, ["Deny"])
    return found


def _validating_policy(
    registration: Registration, policy: _Policy, rules: Sequence[Rule], actions: Sequence[str]
) -> list[Json]:
    spec = _spec(registration, policy)
    spec["validations"] = [rule.manifest() for rule in rules]
    binding = {"policyName": policy.name, "validationActions": list(actions)}
    return [
        _manifest("ValidatingAdmissionPolicy", policy.name, spec),
        _manifest("ValidatingAdmissionPolicyBinding", policy.name, binding),
    ]


def _spec(registration: Registration, policy: _Policy) -> Json:
    rules = [resource_rule(collection, policy.operations) for collection in policy.collections]
    constraints: Json = {"matchPolicy": "Equivalent", "resourceRules": rules}
    if rules[0]["scope"] == "Namespaced":
        constraints["namespaceSelector"] = excluded_namespaces(registration.namespace)
    spec: Json = {"failurePolicy": "Fail" if policy.fails_closed else "Ignore", "matchConstraints": constraints}
    if policy.conditions:
        spec["matchConditions"] = list(policy.conditions)
    if policy.variables:
        spec["variables"] = list(policy.variables)
    return spec


def _manifest(kind: str, name: str, spec: Json) -> Json:
    metadata = {"name": name, "labels": {"app.kubernetes.io/part-of": "pumice"}}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


# ------------------------------------------------------------------------------------------------------------ mutating


def _mutating(registration: Registration) -> list[Json]:
    jobs = _Policy(f"{PREFIX}-jobs-defaults", ("jobs.batch.volcano.sh",), ("CREATE",))
    groups = _Policy(f"{PREFIX}-podgroups-defaults", ("podgroups.scheduling.volcano.sh",), ("CREATE",))
    queues = _Policy(f"{PREFIX}-queues-defaults", ("queues.scheduling.volcano.sh",), ("CREATE", "UPDATE"))
    return [
        *_mutating_policy(registration, jobs, _job_patches(registration.scheduler_names[0])),
        *_mutating_policy(registration, groups, _group_patches()),
        *_mutating_policy(registration, queues, _queue_patches()),
    ]


def _mutating_policy(registration: Registration, policy: _Policy, patches: Sequence[str]) -> list[Json]:
    spec = _spec(registration, policy)
    spec["reinvocationPolicy"] = "Never"
    spec["mutations"] = [{"patchType": "JSONPatch", "jsonPatch": {"expression": each}} for each in patches]
    return [
        _manifest("MutatingAdmissionPolicy", policy.name, spec),
        _manifest("MutatingAdmissionPolicyBinding", policy.name, {"policyName": policy.name}),
    ]


def _add(path: str, value: str) -> str:
    return f'JSONPatch{{op: "add", path: {path}, value: {value}}}'


def _unless(condition: str, *patches: str) -> str:
    return f"({condition}) ? [] : [{', '.join(patches)}]"


def _job_patches(scheduler_name: str) -> list[str]:
    """As defaults.job_patch does it, in its order: later ones see what earlier ones filled in."""
    plugins = "has(object.spec.plugins)"
    svc = _any_of("object.spec.plugins", defaults.NEEDS_SVC)
    ssh = _any_of("object.spec.plugins", defaults.NEEDS_SSH)
    return [
        _unless("has(object.spec.queue) && object.spec.queue != ''", _add('"/spec/queue"', json.dumps(DEFAULT_QUEUE))),
        _unless(
            "has(object.spec.schedulerName) && object.spec.schedulerName != ''",
            _add('"/spec/schedulerName"', json.dumps(scheduler_name)),
        ),
        _unless(
            "has(object.spec.maxRetry) && object.spec.maxRetry != 0",
            _add('"/spec/maxRetry"', str(DEFAULT_MAX_RETRY)),
        ),
        *_task_patches(),
        _unless(
            f"(has(object.spec.minAvailable) && object.spec.minAvailable != 0) || {_TASKS}.all(t, t.minAvailable == 0)",
            _add('"/spec/minAvailable"', f"{_TASKS}.map(t, t.minAvailable).sum()"),
        ),
        _unless(f"!{plugins} || 'svc' in object.spec.plugins || !({svc})", _add('"/spec/plugins/svc"', "[]")),
        _unless(f"!{plugins} || 'ssh' in object.spec.plugins || !({ssh})", _add('"/spec/plugins/ssh"', "[]")),
    ]


def _any_of(where: str, plugins: Sequence[str]) -> str:
    return " || ".join(f"{json.dumps(name)} in {where}" for name in plugins)


def _task_patches() -> list[str]:
    partitions = (
        "(has(t.partitionPolicy) && has(t.partitionPolicy.minPartitions) && t.partitionPolicy.minPartitions > 0"
        " ? t.partitionPolicy.minPartitions * t.partitionPolicy.partitionSize : (has(t.replicas) ? t.replicas : 0))"
    )
    host = "has(t.template) && has(t.template.spec) && has(t.template.spec.hostNetwork) && t.template.spec.hostNetwork"
    return [
        _each_task("!has(t.name) || t.name == ''", "name", "'default' + string(i)"),
        _each_task(
            f"{host} && (!has(t.template.spec.dnsPolicy) || t.template.spec.dnsPolicy == '')",
            "template/spec/dnsPolicy",
            json.dumps(defaults.DNS_ON_THE_HOST),
        ),
        _each_task("!has(t.minAvailable)", "minAvailable", partitions),
        _each_task("!has(t.maxRetry) || t.maxRetry == 0", "maxRetry", str(DEFAULT_MAX_RETRY)),
    ]


def _each_task(condition: str, field: str, value: str) -> str:
    patch = _add(f"'/spec/tasks/' + string(i) + '/{field}'", value)
    return f"{_TASKS}.transformList(i, t, {condition}, {patch})"


def _group_patches() -> list[str]:
    """As defaults.pod_group_patch does it: the namespace's queue, for a group that asks for none in particular."""
    home = annotation("namespaceObject", names.QUEUE_NAME)
    asks = f"has(object.spec) && has(object.spec.queue) && !(object.spec.queue in ['', '{DEFAULT_QUEUE}'])"
    stays = f"{home} in ['', '{DEFAULT_QUEUE}'] || ({asks})"
    return [
        _unless(f"({stays}) || has(object.spec)", _add('"/spec"', "Object.spec{}")),
        _unless(stays, _add('"/spec/queue"', home)),
    ]


def _queue_patches() -> list[str]:
    path, weights = annotation("object", names.HIERARCHY), annotation("object", names.HIERARCHY_WEIGHTS)
    below_root = f"{path} == '' || {weights} == '' || {path} == 'root' || {path}.startsWith('root/')"
    prefix = "'/metadata/annotations/' + jsonpatch.escapeKey"
    return [
        _unless(
            below_root,
            _add(f"{prefix}({json.dumps(names.HIERARCHY)})", f"'root/' + {path}"),
            _add(f"{prefix}({json.dumps(names.HIERARCHY_WEIGHTS)})", f"'1/' + {weights}"),
        ),
        _unless("has(object.spec)", _add('"/spec"', "Object.spec{}")),
        _unless("has(object.spec.reclaimable)", _add('"/spec/reclaimable"', "true")),
        _unless("has(object.spec.weight) && object.spec.weight != 0", _add('"/spec/weight"', "1")),
    ]


# ------------------------------------------------------------------------------------------------------------ rights


def _rights(registration: Registration) -> list[Json]:
    """Who submitted, recorded and guarded, and who may use a queue."""
    found: list[Json] = []
    actions = ["Deny"] if registration.access == AccessMode.ENFORCE else ["Warn"]
    controllers = texts(registration.controllers)
    others = {"name": "not-by-our-controllers", "expression": f"!(request.userInfo.username in {controllers})"}
    for collection in _SUBMITTED:
        is_pods = collection == "pods"
        plural = collection.partition(".")[0]
        conditions = (_ours(registration),) if is_pods else ()
        makers = texts([*registration.controllers, *sorted(WORKLOAD_CONTROLLERS)])
        people = {"name": "by-people", "expression": f"!(request.userInfo.username in {makers})"}
        record = _Policy(
            f"{PREFIX}-{plural}-submitter",
            (collection,),
            ("CREATE",),
            fails_closed=not is_pods,
            conditions=(*conditions, people),
        )
        found += _mutating_policy(registration, record, _record_patches())
        guard = _Policy(f"{PREFIX}-{plural}-forgery", (collection,), ("CREATE", "UPDATE"))
        text = (
            f"{names.SUBMITTED_BY} and {names.SUBMITTER_GROUPS} are written by admission; leave them out or as they are"
        )
        found += _validating_policy(
            registration, guard, [Rule(f"!({forged_record_rule(registration.controllers)})", text)], ["Deny"]
        )
    for collection, where in _QUEUED.items():
        use = _Policy(
            f"{PREFIX}-{collection.partition('.')[0]}-use",
            (collection,),
            ("CREATE", "UPDATE"),
            conditions=(others, *_only_news()),
            variables=_queue_variables(_queue_of(where), leads_on=collection != "podgroups.scheduling.volcano.sh"),
        )
        found += _validating_policy(registration, use, [_use_rule()], actions)
    found += _validating_policy(registration, _pods_use(registration, others), [_use_rule()], actions)
    found += _validating_policy(registration, _NATIVE_USE, [_use_rule()], actions)
    found += _validating_policy(registration, _flows_use(others), _flow_rules(), actions)
    found += _validating_policy(registration, _COMMANDS, [_command_rule()], actions)
    return found


_NATIVE_USE: Final = _Policy(
    f"{PREFIX}-native-podgroups-use",
    ("podgroups.scheduling.k8s.io",),
    ("CREATE", "UPDATE"),
    conditions=({"name": "led-to-a-queue", "expression": LED_TO_A_QUEUE},),
    variables=({"name": "queue", "expression": annotation("object", names.QUEUE_NAME)},),
)
_COMMANDS: Final = _Policy(
    f"{PREFIX}-commands-administer",
    ("commands.bus.volcano.sh",),
    ("CREATE", "UPDATE"),
    conditions=({"name": "for-a-queue", "expression": FOR_A_QUEUE},),
)


def _command_rule() -> Rule:
    resource = "group('scheduling.volcano.sh').resource('queues').name(object.target.name)"
    text = "the verb update on queues.scheduling.volcano.sh is missing"
    message = (
        "'user \"' + request.userInfo.username + '\" may not open or close queue \"' + object.target.name"
        f" + '\": {text}; ask for a role with it'"
    )
    return Rule(f"authorizer.{resource}.check('update').allowed()", text, message)


def _flows_use(others: Json) -> _Policy:
    """A flow may lay another queue over that of a template; the default one is filled in by the schema, and changes nothing."""
    collection = "jobflows.flow.volcano.sh"
    queue = "f.patch.jobSpec.queue"
    said = f"has(f.patch) && has(f.patch.jobSpec) && has({queue}) && !({queue} in ['', '{DEFAULT_QUEUE}'])"
    flows = "(has(object.spec) && has(object.spec.flows) ? object.spec.flows : [])"
    variables = (
        {"name": "all", "expression": f"{flows}.filter(f, {said}).map(f, {queue})"},
        {"name": "queues", "expression": "variables.all.transformList(i, q, variables.all.indexOf(q) == i, q)"},
    )
    conditions = (others, *_only_news())
    return _Policy(
        f"{PREFIX}-jobflows-use", (collection,), ("CREATE", "UPDATE"), conditions=conditions, variables=variables
    )


def _flow_rules() -> list[Rule]:
    """One for each queue: an API server lets no expression ask about more than two."""
    rules = [Rule(f"size(variables.queues) <= {FLOW_QUEUES_MAX}", f"more than {FLOW_QUEUES_MAX} queues in one JobFlow")]
    for number in range(FLOW_QUEUES_MAX):
        queue = f"variables.queues[{number}]"
        asked = _USE.replace("variables.queue", queue)
        rules.append(Rule(f"size(variables.queues) <= {number} || authorizer.{asked}", _MISSING, _missing(queue)))
    return rules


def _pods_use(registration: Registration, others: Json) -> _Policy:
    """A pod that joins a group goes to the group's queue, which CEL cannot look up."""
    joins = " || ".join(f"{annotation('object', key)} != ''" for key in (names.GROUP_NAME, names.VOLCANO_GROUP_NAME))
    queue = annotation("object", names.QUEUE_NAME)
    led = " || ".join(f"{annotation('object', key)} != {annotation('oldObject', key)}" for key in LEADING)
    conditions = (
        _ours(registration),
        others,
        {"name": "joins-no-group", "expression": f"!({joins})"},
        {"name": "new-wish", "expression": f"request.operation == 'CREATE' || {led}"},
    )
    named = f"({queue} != '' ? {queue} : '{DEFAULT_QUEUE}')"
    return _Policy(
        f"{PREFIX}-pods-use",
        ("pods",),
        ("CREATE", "UPDATE"),
        fails_closed=False,
        conditions=conditions,
        variables=_queue_variables(named, leads_on=True),
    )


def _only_news() -> tuple[Json, ...]:
    """PodGroups have no status subresource: an update that only writes status needs no check."""
    return ({"name": "new-wish", "expression": f"request.operation == 'CREATE' || {change_of('spec')}"},)


def _queue_of(where: str) -> str:
    parent = where.rpartition(".")[0]
    there = f"has({where}) && " if parent else ""
    return f"({there}has({where}.queue) && {where}.queue != '' ? {where}.queue : '{DEFAULT_QUEUE}')"


def _queue_variables(named: str, *, leads_on: bool) -> tuple[Json, ...]:
    """The queue; of what our controllers make a group for, the namespace's own one where none in particular is named."""
    if not leads_on:
        return ({"name": "queue", "expression": named},)
    home = annotation("namespaceObject", names.QUEUE_NAME)
    led = f"variables.named == '{DEFAULT_QUEUE}' && {home} != '' ? {home} : variables.named"
    return {"name": "named", "expression": named}, {"name": "queue", "expression": led}


def _use_rule() -> Rule:
    makers = texts(sorted(WORKLOAD_CONTROLLERS))
    account = f"authorizer.serviceAccount(request.namespace, 'default').{_USE}"
    expression = f"request.userInfo.username in {makers} ? {account} : authorizer.{_USE}"
    return Rule(expression, _MISSING, _missing("variables.queue"))


def _missing(queue: str) -> str:
    return (
        f"'user \"' + request.userInfo.username + '\" may not use queue \"' + {queue}"
        f" + '\": {_MISSING}; ask for a role with it, or submit to another queue'"
    )


def _record_patches() -> list[str]:
    user, groups = (f"'/metadata/annotations/' + jsonpatch.escapeKey({json.dumps(key)})" for key in RECORD)
    line = "(has(request.userInfo.groups) ? request.userInfo.groups.join('\\n') : '')"
    there = [f"{annotation('object', key)} != ''" for key in RECORD]
    return [
        _unless("has(object.metadata.annotations)", _add('"/metadata/annotations"', "{}")),
        _unless(there[0], _add(user, "request.userInfo.username")),
        _unless(there[1], _add(groups, line)),
    ]
