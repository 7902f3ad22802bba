"""Where answers come from: the leader's view, the same engine over a listing, or (of a gang) what the scheduler wrote in the PodGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from pumice.api import names
from pumice.api.decoding import UNREADABLE
from pumice.api.pods import ENDED
from pumice.cli.input_files import read_file
from pumice.cli.leader import Leader, Unanswered
from pumice.errors import Refused
from pumice.readmodel import model
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.meta import Struct
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup
    from pumice.cli.cluster_command import ClusterAccess
    from pumice.readmodel.build import Cycle, Views
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.time.forecast import World
    from pumice.scheduling.whatif.outcome import Outcome
    from pumice.scheduling.whatif.suggestion import Suggestions
    from pumice.scheduling.whatif.trial import Question

LEADER, LISTING, PODGROUP = "leader", "listing", "podgroup"
BUILT_IN = "built-in policy"
_PLANNED = "pumice: one cycle was planned over a listing, with the built-in policy"


class Answer(Value):
    """A gang as the engine sees it, and who said so when."""

    detail: model.GangDetail
    source: str  # or the cycle of a recording
    at: str = ""  # when it was written, where it is not of this moment
    suggestions: Suggestions | None = None  # what would start it, where that was asked for and somebody could say


class _Verdict(msgspec.Struct, frozen=True):
    """The annotation in which the scheduler writes why a gang waits."""

    at: str = ""
    reasons: tuple[model.Reason, ...] = ()


def group_of(pod: Pod) -> str:
    """The name of the PodGroup that a pod is a member of; empty for none."""
    annotations = pod.metadata.annotations
    return annotations.get(names.GROUP_NAME) or annotations.get(names.VOLCANO_GROUP_NAME) or ""


async def explain(access: ClusterAccess, group: PodGroup, policy_file: str | None, *, suggest: bool = False) -> Answer:
    """The first of the sources that knows the gang, and (`suggest`) what would start it."""
    if policy_file is None:
        try:
            return await _from_leader(access, group, suggest=suggest)
        except (*UNREADABLE, Unanswered) as error:
            click.echo(f"pumice: no leading scheduler answers ({error})", err=True)
    try:
        views = await _from_listing(access, policy_file)
    except Refused as error:
        click.echo(f"pumice: the cluster cannot be listed ({error}): what the PodGroup says is shown", err=True)
        return await _from_group(access, group)
    key = group.metadata.key
    found = views.gang(key)
    assert found is not None, f"{key} was listed"
    assert views.cycle is not None
    return Answer(found, LISTING, suggestions=_suggestions(views.cycle, key) if suggest and _waits(found) else None)


async def _from_leader(access: ClusterAccess, group: PodGroup, *, suggest: bool) -> Answer:
    leader, path = Leader(access), f"/v1/gangs/{group.metadata.key}"
    found = msgspec.json.decode(await leader.ask((path, {})), type=model.GangDetail)
    if found.gang.uid != group.metadata.uid:
        raise Unanswered("it knows a former group of that name")
    if not suggest or not _waits(found):
        return Answer(found, LEADER)
    from pumice.scheduling.whatif.suggestion import Suggestions

    suggestions = msgspec.json.decode(await leader.ask((f"{path}/suggestions", {})), type=Suggestions)
    return Answer(found, LEADER, suggestions=suggestions)


def _waits(found: model.GangDetail) -> bool:
    return bool(found.gang.reasons) and found.gang.members.running < found.gang.members.minimum


def _suggestions(cycle: Cycle, key: str) -> Suggestions:
    from pumice.scheduling.whatif import single_changes

    return single_changes.suggestions(cycle.question, cycle.decisions, key)


class States:
    """The state of a cluster, asked for once or again and again; complaints are made once."""

    def __init__(self, access: ClusterAccess, kinds: str, policy_file: str | None = None) -> None:
        self._access = access
        self._kinds = kinds
        self._policy_file = policy_file
        self._leader = Leader(access)
        self._has_complained = False

    async def state(self) -> tuple[model.State, str]:
        """The state and its source: what the leader lets the user see, all or the part of his namespace; else from a listing."""
        unanswered = ""
        if self._policy_file is None:
            try:
                return msgspec.json.decode(await self._ask(), type=model.State), LEADER
            except (*UNREADABLE, Unanswered) as error:
                unanswered = f"pumice: no leading scheduler answers ({error})"
        try:
            objects, text = await _listing(self._access, self._policy_file)  # a server that is not there is told once
        except Refused as error:
            self._complain(unanswered)
            step = "ask an administrator for the right to ask the scheduler (`viewers` of the chart), or to list the cluster"
            raise Refused(f"the cluster cannot be listed: {error}; {step}") from error
        self._complain(unanswered, _PLANNED if self._policy_file is None else "")
        found = _plan(self._access, objects, text, self._policy_file).state()
        assert found is not None, "a cycle was planned"
        return found, LISTING

    def _complain(self, *lines: str) -> None:
        for line in lines if not self._has_complained else ():
            if line:
                click.echo(line, err=True)
        self._has_complained = True

    async def _ask(self) -> bytes:
        access, query = self._access, {"kind": self._kinds}
        own = "/v1/state", {**query, "namespace": access.namespace}
        return await (self._leader.ask(own) if access.named_namespace else self._leader.ask(("/v1/state", query), own))


async def _from_listing(access: ClusterAccess, policy_file: str | None) -> Views:
    """What the engine decides about the cluster as it is listed; nothing is written."""
    objects, text = await _listing(access, policy_file)
    if policy_file is None:
        click.echo(_PLANNED, err=True)
    return _plan(access, objects, text, policy_file)


def _plan(access: ClusterAccess, objects: list[Struct], text: bytes | None, policy_file: str | None) -> Views:
    from pumice.cli import offline

    return offline.plan_view(objects, text, source=policy_file or BUILT_IN, now=access.clock.now())


async def question(access: ClusterAccess, policy_file: str | None) -> Question:
    """What a cycle over a listing of the cluster would be planned from."""
    from pumice.cli import offline

    objects, text = await _listing(access, policy_file)
    return offline.question_of(objects, text, source=policy_file or BUILT_IN, now=access.clock.now())


async def listed(access: ClusterAccess, policy_file: str | None) -> World:
    """The same, as a cluster that can be changed and run ahead from."""
    from pumice.cli import offline

    objects, text = await _listing(access, policy_file)
    return offline.world_of(objects, text, source=policy_file or BUILT_IN, now=access.clock.now())


async def what_if(access: ClusterAccess, query: Mapping[str, str]) -> Outcome | str:
    """What the leader says of a different cluster; a complaint where none answers."""
    from pumice.scheduling.whatif.outcome import Outcome

    try:
        answer = await Leader(access).ask(("/v1/what-if", {name: value for name, value in query.items() if value}))
        return msgspec.json.decode(answer, type=Outcome)
    except (*UNREADABLE, Unanswered) as error:
        return f"pumice: no leading scheduler answers ({error})"


async def world(access: ClusterAccess, policy_file: str | None) -> World:
    """The cluster as it is listed, for the engine to be run ahead from, with the pods that Jobs will have."""
    from pumice.api.batch import Job
    from pumice.cli import future_pods
    from pumice.scheduling.time.stand_ins import with_stand_ins

    world = await listed(access, policy_file)
    jobs = (await access.client.list(Job)).items
    return with_stand_ins(future_pods.with_pods(world, jobs))


def policy_of(file: str) -> Policy:
    from pumice.processes.entry_points import plugins_from_outside
    from pumice.processes.policies import parse_policy
    from pumice.scheduling.core.policy import POLICY_BYTES_MAX

    return parse_policy(read_file(file, POLICY_BYTES_MAX), file, plugins_from_outside())


async def _listing(access: ClusterAccess, policy_file: str | None) -> tuple[list[Struct], bytes | None]:
    """All objects that the policy's plugins read, and its text."""
    from pumice.api import nodeinfo, resource, storage, topology
    from pumice.kube.discovery import served_kinds
    from pumice.processes.entry_points import plugins_from_outside
    from pumice.processes.requirements import kinds_of
    from pumice.scheduling.core import builtin
    from pumice.scheduling.core.policy import POLICY_BYTES_MAX

    # Without these the engine says less of a pod that needs them; without the others it would be wrong about all.
    spared = {nodeinfo.Numatopology, topology.HyperNode, *_of(storage), *_of(resource)}
    objects: list[Struct] = []
    text = read_file(policy_file, POLICY_BYTES_MAX) if policy_file else None
    extra = plugins_from_outside()
    chosen = builtin.parse(builtin.TEXT if text is None else text, policy_file or BUILT_IN, extra=extra)
    for struct in await served_kinds(access.client, kinds_of(chosen, extra)):
        try:
            objects += (await access.client.list(struct)).items
        except Refused:
            if struct not in spared:
                raise
    return objects, text


def _of(module: object) -> set[type]:
    return {each for each in vars(module).values() if isinstance(each, type)}


async def _from_group(access: ClusterAccess, group: PodGroup) -> Answer:
    """What the group and its pods tell by themselves, as the scheduler last wrote it."""
    from pumice.api.pods import Pod

    pods = (await access.client.list(Pod, namespace=group.metadata.namespace)).items
    members = [pod for pod in pods if group_of(pod) == group.metadata.name]
    waiting = [pod for pod in members if not pod.spec.node_name and pod.status.phase not in ENDED]
    try:
        verdict = msgspec.json.decode(group.metadata.annotations.get(names.VERDICT, "{}"), type=_Verdict)
    except UNREADABLE:
        verdict = _Verdict()  # another program wrote it
    meta = group.metadata
    gang = model.Gang(
        key=meta.key,
        namespace=meta.namespace,
        name=meta.name,
        queue=group.spec.queue,
        phase=group.status.phase or "Pending",
        created=meta.creation_timestamp or "",
        reasons=verdict.reasons,
        members=model.Members(
            minimum=group.spec.min_member,
            pods=len(members),
            running=sum(pod.status.phase == "Running" for pod in members),
            waiting=len(waiting),
            gated=sum(bool(pod.spec.scheduling_gates) for pod in waiting),
            finished=sum(pod.status.phase in ENDED for pod in members),
        ),
    )
    policy = model.Policy(source="", actions=(), plugins=())
    totals = model.Totals(nodes=0, allocatable={}, used={})
    detail = model.GangDetail(
        version=model.VERSION,
        leader="",
        cycle=0,
        at=verdict.at,
        policy=policy,
        totals=totals,
        gang=gang,
        pods=tuple(_pod(pod) for pod in members),
    )
    return Answer(detail, PODGROUP, verdict.at)


def _pod(pod: Pod) -> model.Pod:
    told = (each.message for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False")
    return model.Pod(
        name=pod.metadata.name,
        status=pod.status.phase or "Pending",
        node=pod.spec.node_name,
        gates=tuple(gate.name for gate in pod.spec.scheduling_gates),
        message=next(told, ""),
    )
