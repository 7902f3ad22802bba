"""Every case of the table of admission rules, held against webhooks on a server: same world, same object, same verdict."""

import contextlib
import copy
import itertools
from typing import Any

from tests.bodies.webhooks import Hooked, until
from tests.cases import admission

from pumice.api import kinds
from pumice.kube import errors

Json = dict[str, Any]
BUILDER = "builder"  # whom the webhooks are not asked about
# What must stand beforehand was written before there were schemas that refuse it.
IMPOSSIBLE = frozenset(
    {"corrected", "suspending a cron job that would be refused today", "resized above what is no number"}
)
LOOKED_UP = frozenset({"Queue", "JobTemplate", "Namespace", "PriorityClass", "Node"})


class _Impossible(Exception):
    """What is to stand beforehand cannot: schemas refuse it."""


def with_builder(manifests: list[Json]) -> list[Json]:
    """The configurations, for a server on which the builder of worlds may do as it likes."""
    for manifest in manifests:
        for hook in manifest["webhooks"]:
            others = {"name": "not-the-builder", "expression": f"request.userInfo.username != '{BUILDER}'"}
            hook["matchConditions"] = [*hook.get("matchConditions", []), others]
    return manifests


def kind_of(subject: Json) -> kinds.Kind:
    kind = kinds.by_kind(subject["apiVersion"], subject["kind"])
    assert kind is not None
    return kind


def place(subject: Json) -> dict[str, str]:
    return {"namespace": admission.NAMESPACE if kind_of(subject).namespaced else ""}


def key(subject: Json) -> tuple[str, str]:
    return subject["kind"], subject["metadata"]["name"]


class Builder:
    """Makes worlds, one after the other, writing only what differs."""

    def __init__(self, here: Hooked) -> None:
        self._here = here
        self._client = here.as_user(BUILDER, "system:masters")
        self._standing: dict[tuple[str, str], Json] = {}

    async def build(self, objects: list[Json]) -> None:
        """These objects stand, none from before do, and the webhooks know."""
        wanted = {key(each): each for each in objects}
        for which, old in list(self._standing.items()):
            if which not in wanted:
                await self.remove(old)
        for which, each in wanted.items():
            if self._standing.get(which) != each:
                await self.put(each)

    async def put(self, subject: Json) -> Json:
        """The object as given, whatever was there under its name; its status too."""
        kind, name = kind_of(subject), subject["metadata"]["name"]
        if key(subject) in self._standing or await self._exists(subject):
            await self.remove(subject)
        body = copy.deepcopy(subject)
        body["metadata"].pop("namespace", None)
        made = (await self._client.create(kind, body, **place(subject))).json()
        if kind.has_status and subject.get("status"):
            made["status"] = subject["status"]
            made = (await self._client.update(kind, name, made, subresource="status", **place(subject))).json()
        if kind.kind in LOOKED_UP:
            await until(lambda: self._is_known(subject, made["metadata"]["resourceVersion"]), f"{name} is known")
        self._standing[key(subject)] = subject
        return made

    async def _exists(self, subject: Json) -> bool:
        try:
            await self._client.get(kind_of(subject), subject["metadata"]["name"], **place(subject))
        except errors.NotFound:
            return False
        return True

    async def remove(self, subject: Json) -> None:
        kind = kind_of(subject)
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(kind, subject["metadata"]["name"], grace_s=0, **place(subject))
        if kind.kind in LOOKED_UP:
            await until(lambda: self._is_known(subject, ""), f"{subject['metadata']['name']} is gone")
        self._standing.pop(key(subject), None)

    async def _is_known(self, subject: Json, version: str) -> bool:
        struct = kind_of(subject).struct
        found = self._here.informers.of(struct).get(place(subject)["namespace"], subject["metadata"]["name"])
        if found is None or not version:
            return found is None and not version
        return found.metadata.resource_version == version


async def check(here: Hooked, cases: list[admission.Case]) -> None:
    """Every case ends as it says, and no other way."""
    builder = Builder(here)
    wrong: dict[str, str] = {}
    impossible: set[str] = set()  # worlds that schemas refuse: only older objects can be so
    # A new object's status never reaches anybody: servers leave it out.
    told = [case for case in cases if case.old is not None or not case.refused.startswith("status.")]
    ordered = sorted(told, key=lambda case: repr(case.world))
    for _, same_world in itertools.groupby(ordered, key=lambda case: repr(case.world)):
        together = list(same_world)
        # Nodes only bring warnings, and a server with nodes of its own brings others.
        world = [each for each in together[0].world if each["kind"] not in {"Node", "Namespace"}]
        try:
            await builder.build(world)
        except errors.Invalid:
            impossible |= {case.id for case in together}
            continue
        for case in together:
            try:
                problem = await _problem(here, builder, case)
            except _Impossible:
                impossible.add(case.id)
                continue
            if problem:
                wrong[f"{case.kind} {case.operation} {case.id}"] = problem
    await builder.build([])
    assert not wrong, wrong
    assert impossible <= IMPOSSIBLE


async def _problem(here: Hooked, builder: Builder, case: admission.Case) -> str:
    try:
        await _send(here, builder, case)
    except (errors.Invalid, errors.Refused) as error:
        if not case.refused:
            return f"refused: {error}"
        is_ours = "admission webhook" in str(error)
        return f"for another reason: {error}" if is_ours and case.says not in str(error) else ""
    return "accepted" if case.refused else ""


async def _send(here: Hooked, builder: Builder, case: admission.Case) -> None:
    subject = case.new or case.old
    assert subject is not None
    kind, where = kind_of(subject), place(subject)
    if case.old is None:
        body = copy.deepcopy(subject)
        body["metadata"].pop("namespace", None)
        await here.client.create(kind, body, dry_run=True, **where)
        return
    name = subject["metadata"]["name"]
    before = builder._standing.get(key(subject))
    try:
        old = await builder.put(case.old)
    except errors.Invalid as error:
        raise _Impossible from error
    try:
        if case.new is None:
            await here.client.delete(kind, name, dry_run=True, **where)
        else:
            metadata = {**old["metadata"], **case.new["metadata"]}
            metadata.pop("namespace", None)
            body = {**copy.deepcopy(case.new), "metadata": metadata}
            await here.client.update(kind, name, body, dry_run=True, **where)
    finally:
        await (builder.remove(case.old) if before is None else builder.put(before))


def by_settings() -> dict[str, list[admission.Case]]:
    """The cases that one process can answer, together."""
    found: dict[str, list[admission.Case]] = {}
    for case in admission.CASES:
        own = {name: value for name, value in case.settings.items() if name != "scheduler_names"}
        found.setdefault(repr(own), []).append(case)
    return found
