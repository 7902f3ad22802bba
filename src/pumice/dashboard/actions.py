"""What people do from the pages, as themselves: the API server is asked with their token for what `pumice job` and `pumice queue` ask it for.

Buttons lead to a page that says what will happen and asks once more; its form does it. Which buttons somebody gets is the API server's
answer to access reviews; whether it is done is its answer to the request. Nothing is decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from pumice.api.batch import LIVE_PHASES, SUSPENDED_PHASES, Job, JobPhase
from pumice.api.batch import Action as Word
from pumice.api.bus import Command
from pumice.api.kinds import by_struct
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup, Queue
from pumice.api.validation.names import dns_subdomain_problem
from pumice.kube import commands, errors
from pumice.kube.requests import Propagation
from pumice.processes.access import Denied
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.kinds import Kind
    from pumice.api.meta import Json
    from pumice.dashboard.people import Person
    from pumice.kube.client import Client

PATH = "/actions"
CLASSES_OFFERED_MAX = 200
NAME_CHARS_MAX = 253  # of what goes into the log
KINDS = {"jobs": by_struct(Job), "podgroups": by_struct(PodGroup), "queues": by_struct(Queue)}
_COMMANDS = by_struct(Command)
_OPEN = frozenset({"Open", "Unknown"})
_CLOSED = frozenset({"Closed", "Closing"})


class Action(Value, kw_only=True):
    """One thing that can be done to objects of one kind in some phases; `command` is the Command's word where it takes one."""

    word: str
    kind: str
    label: str
    verb: str = "create"  # what the API server is asked for: a Command, or that of the object itself
    command: str = ""
    phases: frozenset[str] = frozenset()  # empty: in all
    meaning: str
    outcome: str

    def obstacle(self, obj: Json) -> str:
        """Why it makes no sense as the object is now; empty where it does."""
        phase, job = phase_of(self.kind, obj), _job_of(obj)
        if self.kind == "podgroups" and job:
            return f"belongs to Job {job}, whose controller would undo it: change that one"
        return f"is {phase}, where {self.label} has no effect" if self.phases and phase not in self.phases else ""

    def needs(self, target: Target) -> tuple[tuple[str, Mapping[str, str]], ...]:
        """What somebody has to be allowed: verbs and what they are for."""
        # One answer for all queues: a page shows them all.
        own = _attributes(target.what, target.namespace, target.name if target.namespace else "")
        if self.command:
            return ("get", own), (self.verb, _attributes(_COMMANDS, target.namespace or commands.QUEUES_NAMESPACE))
        return ("get", own), (self.verb, own)


_PRIORITY = Action(
    word="priority",
    kind="jobs",
    label="Change priority",
    verb="patch",
    phases=LIVE_PHASES | SUSPENDED_PHASES,
    meaning="Its place in the queue changes, and whom it may displace. Pods that are there already keep the priority that they were made with.",
    outcome="Its priority class has been changed.",
)
ACTIONS = (
    Action(
        word="suspend",
        kind="jobs",
        label="Suspend",
        command=Word.ABORT_JOB,
        phases=LIVE_PHASES,
        meaning="Its pods are ended, and what they hold goes to others. The Job stays, and can be resumed; what its pods have not saved is lost.",
        outcome="The controllers have been asked to suspend it; its pods are being ended.",
    ),
    Action(
        word="resume",
        kind="jobs",
        label="Resume",
        command=Word.RESUME_JOB,
        phases=SUSPENDED_PHASES,
        meaning="Its pods are made anew, and wait in the queue for their turn.",
        outcome="The controllers have been asked to resume it; its pods are being made anew.",
    ),
    _PRIORITY,
    Action(
        word="delete",
        kind="jobs",
        label="Delete",
        verb="delete",
        meaning="The Job and its pods are deleted. This cannot be undone.",
        outcome="It has been deleted; its pods are being ended.",
    ),
    msgspec.structs.replace(_PRIORITY, kind="podgroups", phases=frozenset()),
    Action(
        word="close",
        kind="queues",
        label="Close",
        command=Word.CLOSE_QUEUE,
        phases=_OPEN,
        meaning="It takes no new Jobs, and the queues below it close, too. What is in it already goes on.",
        outcome="The controllers have been asked to close it.",
    ),
    Action(
        word="open",
        kind="queues",
        label="Open",
        command=Word.OPEN_QUEUE,
        phases=_CLOSED,
        meaning="It takes Jobs again.",
        outcome="The controllers have been asked to open it.",
    ),
)
_BY_WORD = {(each.word, each.kind): each for each in ACTIONS}


class Target(Value):
    """One object; queues have no namespace."""

    kind: str
    namespace: str
    name: str

    @property
    def what(self) -> Kind:
        return KINDS[self.kind]

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Button(Value):
    label: str
    href: str
    word: str


def asked(given: Mapping[str, object]) -> tuple[Action, Target]:
    """The action and its object that a query or a form names; raises Denied where there is no such thing."""
    word, kind, namespace, name = (str(given.get(field, "")) for field in ("do", "kind", "namespace", "name"))
    action = _BY_WORD.get((word, kind))
    if action is None:
        known = ", ".join(f"{each.word} {each.kind}" for each in ACTIONS)
        raise Denied(400, f"do={word[:40]!r} kind={kind[:40]!r}: there are {known}")
    for field, value in (("namespace", namespace), ("name", name)):
        is_missing = not value and (field == "name" or KINDS[kind].namespaced)
        if (
            is_missing
            or (value and dns_subdomain_problem(value))
            or (value and field == "namespace" and kind == "queues")
        ):
            raise Denied(400, f"{field}={value[:60]!r} is not a name that such an object can have")
    return action, Target(kind, namespace, name)


def phase_of(kind: str, obj: Json) -> str:
    status = obj.get("status") or {}
    if kind == "jobs":
        return str((status.get("state") or {}).get("phase") or JobPhase.PENDING.value)
    if kind == "queues":
        return str(status.get("state") or "Open")
    return str(status.get("phase") or "Pending")


def client_of(person: Person) -> Client:
    """With which the API server is asked as them."""
    if person.client is None:
        raise Denied(403, f"the API server cannot be asked as {person.name} here")
    return person.client


# ------------------------------------------------------------------------------------------------------ buttons


async def of_gang(person: Person, namespace: str, group: str, job: str) -> list[Button]:
    """What somebody can do to a gang: to its Job where it has one, else to its PodGroup."""
    if person.client is None or dns_subdomain_problem(namespace):
        return []
    for target in (Target("jobs", namespace, job), Target("podgroups", namespace, group)):
        if dns_subdomain_problem(target.name):
            continue
        obj = await person.recent(target.what, target.namespace, target.name)
        if obj is not None:
            return await _buttons(person, target, obj)
    return []


async def of_queue(person: Person, name: str, state: str) -> list[Button]:
    return await _buttons(person, Target("queues", "", name), {"metadata": {}, "status": {"state": state}})


async def _buttons(person: Person, target: Target, obj: Json) -> list[Button]:
    fitting = [each for each in ACTIONS if each.kind == target.kind and not each.obstacle(obj)]
    return [_button(each, target) for each in fitting if await allows(person, each, target)]


async def allows(person: Person, action: Action, target: Target) -> bool:
    """Whether the API server would let them."""
    return all([await person.can(verb, what) for verb, what in action.needs(target)])


def _button(action: Action, target: Target) -> Button:
    query = {"do": action.word, "kind": target.kind, "namespace": target.namespace, "name": target.name}
    return Button(
        action.label, f"{PATH}?{urlencode({key: value for key, value in query.items() if value})}", action.word
    )


# ------------------------------------------------------------------------------------------------------ asking and doing


async def look(person: Person, action: Action, target: Target) -> Json:
    """The object as it is now, for the page that asks; raises Denied where they may not, or it makes no sense."""
    if not await allows(person, action, target):
        raise Denied(
            403,
            f"{person.name} may not use {action.label} on {target.kind} {target.key}; ask your administrator for the right",
        )
    return await _fitting(client_of(person), action, target)


async def classes(person: Person) -> list[str] | None:
    """Priority classes to choose from; None where they may not list them."""
    try:
        found = await client_of(person).list_json(by_struct(PriorityClass))
    except errors.Refused:
        return None
    ranked = sorted(found, key=lambda each: (-int(each.get("value") or 0), each["metadata"]["name"]))
    return [each["metadata"]["name"] for each in ranked][:CLASSES_OFFERED_MAX]


async def do(person: Person, action: Action, target: Target, *, uid: str, priority: str) -> None:
    """As the person; raises what the API server says. `uid` is that of the object which they were shown."""
    client = client_of(person)
    obj = await _fitting(client, action, target)
    if obj["metadata"]["uid"] != uid:
        raise Denied(409, f"{target.key} is not the one that was asked about: it was deleted and made anew; look again")
    if action.command:
        where = target.namespace or commands.QUEUES_NAMESPACE
        await commands.command(client, target.what, obj, action.command, namespace=where)
    elif action.word == "delete":
        await client.delete(
            target.what, target.name, namespace=target.namespace, propagation=Propagation.BACKGROUND, uid=uid
        )
    else:
        await _check_class(client, priority)
        change = {"metadata": {"uid": uid}, "spec": {"priorityClassName": priority or None}}
        await client.patch(target.what, target.name, change, namespace=target.namespace)


async def _fitting(client: Client, action: Action, target: Target) -> Json:
    obj = (await client.get(target.what, target.name, namespace=target.namespace)).json()
    if why := action.obstacle(obj):
        raise Denied(409, f"{target.key} {why}")
    return obj


async def _check_class(client: Client, name: str) -> None:
    """Pods of a class that does not exist cannot be made; who may not read classes is believed."""
    if name and dns_subdomain_problem(name):
        raise Denied(400, f"priority class {name[:60]!r} is not a name that a class can have")
    try:
        if name:
            await client.get(PriorityClass, name)
    except errors.NotFound as error:
        raise Denied(400, f"there is no priority class {name}; `kubectl get priorityclasses` lists them") from error
    except errors.Refused:
        return


def _job_of(obj: Json) -> str:
    """The Job that an object was made for."""
    owners = obj["metadata"].get("ownerReferences") or ()
    job = KINDS["jobs"]
    return next(
        (str(each["name"]) for each in owners if (each["apiVersion"], each["kind"]) == (job.api_version, job.kind)), ""
    )


def _attributes(kind: Kind, namespace: str, name: str = "") -> Mapping[str, str]:
    found = {"group": kind.group, "resource": kind.plural, "namespace": namespace, "name": name}
    return {field: value for field, value in found.items() if value}
