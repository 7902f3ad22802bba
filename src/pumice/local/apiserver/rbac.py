"""Who may do what: roles and bindings, deny by default."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from pumice import selectors
from pumice.local.apiserver import failures
from pumice.local.apiserver.store import decode
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.history import Change
    from pumice.local.apiserver.request_parsing import Call, Caller
    from pumice.local.apiserver.store import Object

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
BINDINGS, CLUSTER_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
SUPERUSERS = "system:masters"
CALLERS_KEPT_MAX = 1_024

Rule = dict[str, Any]


class Question(Value):
    """May the caller do this? Either a resource or a path is meant."""

    verb: str
    group: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Authorizer:
    """Answers from the roles and bindings in the store; what a caller holds is kept until one of them changes."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        # (name, groups) -> namespace ("" is everywhere) -> rules
        self._held: dict[tuple[str, tuple[str, ...]], dict[str, list[Rule]]] = {}
        backend.store.listeners.append(self._forget)

    def _forget(self, change: Change) -> None:
        if change.collection.endswith(GROUP):
            self._held.clear()

    def allows(self, caller: Caller, question: Question) -> bool:
        if SUPERUSERS in caller.groups:
            return True
        held = self.rules(caller)
        if any(covers(rule, question) for rule in held.get("", ())):
            return True
        return bool(question.namespace) and any(covers(rule, question) for rule in held.get(question.namespace, ()))

    def require(self, caller: Caller, question: Question) -> None:
        if not self.allows(caller, question):
            raise refusal(caller, question)

    def guard(self, call: Call, operation: str, obj: Object | None) -> None:
        """A user grants no more than the user holds, unless allowed to `bind` the role or to `escalate` it."""
        collection = call.resource.collection
        if obj is None or operation == "DELETE" or SUPERUSERS in call.caller.groups:
            return
        if collection in {BINDINGS, CLUSTER_BINDINGS}:
            role = obj["roleRef"]
            plural = "clusterroles" if role["kind"] == "ClusterRole" else "roles"
            asked = Question("bind", group=GROUP, plural=plural, namespace=call.namespace, name=role["name"])
            rules = list(self._role_rules(role, call.namespace))
        elif collection in {ROLES, CLUSTER_ROLES}:
            name = obj["metadata"]["name"]
            asked = Question("escalate", group=GROUP, plural=call.resource.plural, namespace=call.namespace, name=name)
            rules = obj.get("rules") or []
        else:
            return
        if self.allows(call.caller, asked):
            return
        for part in _parts_of(rules, call.namespace):
            if not self.allows(call.caller, part):
                what = part.path or failures.plural_in(part.plural, part.group)
                text = f'user "{call.caller.name}" is attempting to grant RBAC permissions not currently held: {part.verb} {what}'
                raise failures.forbidden(call.resource.plural, GROUP, obj["metadata"]["name"], text)

    def rules(self, caller: Caller) -> dict[str, list[Rule]]:
        """Everything that a caller holds, by namespace; rules under "" hold everywhere."""
        key = (caller.name, caller.groups)
        held = self._held.get(key)
        if held is None:
            if len(self._held) >= CALLERS_KEPT_MAX:
                self._held.clear()
            held = self._held[key] = self._collect(caller)
        return held

    def _collect(self, caller: Caller) -> dict[str, list[Rule]]:
        held: dict[str, list[Rule]] = {}
        for entry in self.backend.store.collection(CLUSTER_BINDINGS).entries():
            binding = decode(entry.body)
            if any(_is_subject(subject, caller, "") for subject in binding.get("subjects") or ()):
                held.setdefault("", []).extend(self._role_rules(binding["roleRef"], ""))
        for entry in self.backend.store.collection(BINDINGS).entries():
            binding = decode(entry.body)
            if any(_is_subject(subject, caller, entry.namespace) for subject in binding.get("subjects") or ()):
                held.setdefault(entry.namespace, []).extend(self._role_rules(binding["roleRef"], entry.namespace))
        return held

    def _role_rules(self, reference: dict[str, Any], namespace: str) -> Iterator[Rule]:
        collection = CLUSTER_ROLES if reference["kind"] == "ClusterRole" else ROLES
        role = self.backend.find(collection, "" if collection == CLUSTER_ROLES else namespace, reference["name"])
        if role is None:
            return
        yield from role.get("rules") or ()
        for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
            compiled = selectors.label_selector(selector)
            for entry in self.backend.store.collection(CLUSTER_ROLES).entries():
                if compiled.matches(entry.labels) and entry.name != reference["name"]:
                    yield from self._role_rules({"kind": "ClusterRole", "name": entry.name}, "")


def _parts_of(rules: list[Rule], namespace: str) -> Iterator[Question]:
    """A role taken apart into single permissions; a star stays a star, which only a star covers."""
    for rule in rules:
        for verb in rule.get("verbs") or ():
            for path in rule.get("nonResourceURLs") or ():
                yield Question(verb, path=path)
            for group, resource, name in itertools.product(
                rule.get("apiGroups") or (), rule.get("resources") or (), rule.get("resourceNames") or ("",)
            ):
                plural, _, subresource = resource.partition("/")
                yield Question(
                    verb, group=group, plural=plural, subresource=subresource, namespace=namespace, name=name
                )


def _is_subject(subject: dict[str, Any], caller: Caller, namespace: str) -> bool:
    match subject.get("kind"):
        case "User":
            return bool(subject["name"] == caller.name)
        case "Group":
            return subject["name"] in caller.groups
        case "ServiceAccount":
            home = subject.get("namespace") or namespace
            return bool(caller.name == f"system:serviceaccount:{home}:{subject['name']}")
    return False


def covers(rule: Rule, question: Question) -> bool:
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and question.verb not in verbs:
        return False
    if question.path:
        return any(_covers_path(pattern, question.path) for pattern in rule.get("nonResourceURLs") or ())
    groups = rule.get("apiGroups") or ()
    if "*" not in groups and question.group not in groups:
        return False
    wanted = f"{question.plural}/{question.subresource}" if question.subresource else question.plural
    accepted = {"*", wanted} | ({f"*/{question.subresource}"} if question.subresource else set())
    if not accepted & set(rule.get("resources") or ()):
        return False
    names = rule.get("resourceNames") or ()
    return not names or question.name in names


def _covers_path(pattern: str, path: str) -> bool:
    return pattern in {"*", path} or (pattern.endswith("*") and path.startswith(pattern[:-1]))


def refusal(caller: Caller, question: Question) -> failures.Failure:
    if question.path:
        text = f'User "{caller.name}" cannot {question.verb} path "{question.path}"'
        return failures.Failure(403, "Forbidden", f"forbidden: {text}", details={})
    wanted = f"{question.plural}/{question.subresource}" if question.subresource else question.plural
    where = f'in the namespace "{question.namespace}"' if question.namespace else "at the cluster scope"
    text = f'User "{caller.name}" cannot {question.verb} resource "{wanted}" in API group "{question.group}" {where}'
    return failures.forbidden(question.plural, question.group, question.name, text)
