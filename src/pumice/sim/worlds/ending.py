"""What must hold when the faults have stopped and everything has come to rest."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

import msgspec

from pumice.api import changes, kinds, names
from pumice.api.scheduling import ROOT_QUEUE
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.flight.recorder import slots_of
from pumice.kube.paging import read_object
from pumice.local.nodes.pretend import GPU
from pumice.processes.requirements import kinds_of
from pumice.scheduling.core import cycle
from pumice.scheduling.evicting import history
from pumice.scheduling.sharing import decayed_usage
from pumice.sim.worlds.crons import OVER
from pumice.sim.worlds.story import DEVICES_OF_A_NODE, GPUS
from pumice.sim.worlds.truth import View
from pumice.sim.worlds.volumes import ATTACHED_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pumice.api.batch import Job
    from pumice.api.scheduling import PodGroup
    from pumice.dispatch.memory_store import MemoryPlace
    from pumice.processes.scheduler import Scheduler
    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.core.policy import Policy
    from pumice.sim.worlds.apiserver import Bodies
    from pumice.sim.worlds.witness import Witness

TURN_S = 60.0  # of gangs that take turns, one has started within so long: a pod leaves within seconds


def is_at_rest(witness: Witness, nodes: int) -> bool:
    """All that fits has ended."""
    return not _unfinished(witness, nodes) and not any(witness.flows.unfinished())


def _unfinished(witness: Witness, nodes: int) -> list[str]:
    left = {
        key: job
        for key, job in witness.jobs.items()
        if job.status.state.phase not in OVER and _fits(witness, job, nodes)
    }
    is_idle = not any(each.node and not each.is_over for each in witness.pods.values())
    # Gangs of several queues that are larger than their queues' shares wait for one another, as under Volcano: docs/reliability.md.
    if (
        is_idle
        and len({job.spec.queue for job in left.values()}) > 1
        and all(_lacks_share(witness, key) for key in left)
    ):
        return []
    return list(left)


def _lacks_share(witness: Witness, job: str) -> bool:
    """Its gang says so; or waits to be admitted behind one of its queue that says so, and would not fit into the share either."""
    for key, group in witness.groups.items():
        if key.startswith(f"{job}-"):
            is_out = group.status.phase == "Pending" and _wanted(group) > View(witness).shares.get(group.spec.queue, 0)
            return is_out or "QueueShareTooSmall" in group.metadata.annotations.get(names.VERDICT, "")
    return False


def _fits(witness: Witness, job: Job, nodes: int) -> bool:
    """Whether the gang has room in an empty cluster and an empty queue."""
    template = msgspec.json.decode(job.spec.tasks[0].template)["spec"]
    gpus = int(template["containers"][0]["resources"]["limits"][GPU])
    wanted, on_a_node = job.spec.min_available, GPUS // gpus
    claims = template.get("resourceClaims", ())
    shares = any("resourceClaimName" in each for each in claims)
    near = 1 if job.spec.volumes or shares else nodes  # all of it may have to be where its volume is, or its devices
    if any("ephemeral" in each for each in template.get("volumes", ())):
        on_a_node = min(on_a_node, ATTACHED_MAX)
    if claims and not shares:
        on_a_node = min(on_a_node, DEVICES_OF_A_NODE)
    return wanted <= near * on_a_node and wanted * gpus <= _most(witness, job.spec.queue, nodes)


def _most(witness: Witness, queue: str, nodes: int) -> int:
    """The GPUs that a queue may hold while the others hold nothing."""
    kept = sum(own for other, own in witness.guarantees.items() if other != queue)
    return min(witness.limits[queue].now(), nodes * GPUS - kept)


def complaints(
    witness: Witness, bodies: Bodies, leader: Scheduler | None, *, nodes: int, now: int, grace_s: int, policy: Policy
) -> Iterator[str]:
    """All that is wrong with the end."""
    in_turns = _taking_turns(witness, leader) if leader is not None and policy.option("eviction") is None else set()
    for key in _unfinished(witness, nodes):
        if not any(gang.startswith(f"{key}-") for gang in in_turns):
            yield f"job {key} is {witness.jobs[key].status.state.phase or 'new'} long after the faults, and would fit"
    yield from witness.flows.wrong(witness.jobs)
    yield from witness.crons.wrong(witness.jobs)
    yield from _orphans(witness)
    if leader is None:
        yield "no scheduler leads long after the faults"
        return
    fresh = afresh(bodies, policy)
    known = described(leader.cluster)
    for gang in in_turns:
        known.pop(f"claim {gang}", None)  # whose turn is next has room that nobody leaves at the moment
    yield from differences(known, described(fresh))
    snapshot = fresh.snapshot()
    for commit in cycle.plan(snapshot, policy, now=now, grace_s=grace_s).commits:
        yield f"a fresh scheduler would start gang {commit.gang}, and this one does not"
    knowing = cycle.plan(snapshot, policy, leader.remembered, now=now, grace_s=grace_s)
    yield from _untold_reasons(witness, knowing, nodes, is_idle=not in_turns)
    yield from _wrong_queues(witness)
    if policy.option("fairshare") is not None:
        yield from witness.ledger.doubts(leader.remembered.of(decayed_usage.SLOT), witness.now())


def _taking_turns(witness: Witness, leader: Scheduler) -> set[str]:
    """Without the plugin `eviction` gangs may take the same room from one another for ever, as under Volcano: docs/guides/evictions.md."""
    if not any(each.node and each.since > witness.now() - TURN_S for each in witness.pods.values()):
        return set()  # they have ceased to
    return in_rings((each.victim, each.claimant) for each in leader.remembered.of(history.SLOT).entries)


def in_rings(taken: Iterable[tuple[str, str]]) -> set[str]:
    """Of victims and those for whom they left, the ones that left for somebody who left for them, or for whom such a one did, and so on."""
    lost: dict[str, set[str]] = collections.defaultdict(set)
    for victim, claimant in taken:
        lost[victim].add(claimant)

    def reached(gang: str) -> set[str]:
        found: set[str] = set()
        line = [gang]
        while line:
            fresh = lost.get(line.pop(), set()) - found
            found |= fresh
            line += fresh
        return found

    return {gang for gang in tuple(lost) if gang in reached(gang)}


def _orphans(witness: Witness) -> Iterator[str]:
    """What a Job made goes with it."""
    jobs = {job.metadata.uid for job in witness.jobs.values()}
    for pod in witness.pods.values():
        if pod.job and pod.job not in jobs:
            yield f"pod {pod.key} is there, and its Job is not"
    for claim, uid in witness.volumes.owners.items():
        if uid and uid not in witness.pods:
            yield f"claim {claim} is there, and its pod is not"
    for key, group in witness.groups.items():
        owner = group.metadata.controller
        if owner is not None and owner.uid not in jobs:
            yield f"gang {key} is there, and its Job is not"


def _untold_reasons(witness: Witness, decisions: Decisions, nodes: int, *, is_idle: bool) -> Iterator[str]:
    """Every gang that waits says why, as one that sees everything afresh and knows what went before would say it, and it is so."""
    for key, group in witness.groups.items():
        if group.status.phase not in {"Pending", "Inqueue"} or key not in witness.gangs:
            continue
        said = [each for each in group.status.conditions if each.type == "Unschedulable" and each.status == "True"]
        if not said or not said[0].message:
            yield f"gang {key} waits ({group.status.phase}) and does not say why"
        verdict = msgspec.json.decode(group.metadata.annotations.get(names.VERDICT) or "{}")
        told = [each["code"] for each in verdict.get("reasons", ())]
        report = decisions.gangs.get(key)
        found = [each.code.value for each in report.reasons] if report is not None else []
        if told != found:
            yield f"gang {key} says that it waits for {told}, and the state of the cluster says {found}"
        for code in told if is_idle else ():  # who takes turns leaves, or has come, just now
            if _wanted(group) <= _room_behind(code, witness, key, nodes):
                yield f"gang {key} says {code}, wants {_wanted(group)} GPUs, and there are as many"


def _wanted(group: PodGroup) -> int:
    return int((group.spec.min_resources or {}).get(GPU, 0))


def _room_behind(code: str, witness: Witness, gang: str, nodes: int) -> int:
    """The GPUs that there are at rest beside what others were admitted for; -1: no number makes this reason untrue."""
    queue = witness.groups[gang].spec.queue
    admitted = [each for key, each in witness.groups.items() if each.status.phase == "Inqueue" and key != gang]
    if code == "ExceedsCluster":
        return nodes * GPUS
    if code == "ClusterOvercommitted":
        return nodes * GPUS - sum(map(_wanted, admitted))
    if code in {"QueueQuotaInsufficient", "QueueQuotaUsed"}:
        return _most(witness, queue, nodes) - sum(_wanted(each) for each in admitted if each.spec.queue == queue)
    return -1


def _wrong_queues(witness: Witness) -> Iterator[str]:
    """What queues say that they hold is what their pods hold."""
    used = witness.used()
    for name, queue in witness.queues.items():
        told = int(queue.status.allocated.get(GPU, 0))
        true = used.total() if name == ROOT_QUEUE else used[name]
        if told != true:
            yield f"queue {name} says that it holds {told} GPUs, and its pods hold {true}"


def lost_memory(leader: Scheduler, bodies: Bodies, place: MemoryPlace) -> Iterator[str]:
    """A leader that was told to stop has written down all that its successor has to know."""
    for slot in slots_of({}):
        body = bodies.get(("configmaps", place.namespace, place.name(slot.name)))
        told = (
            msgspec.json.decode(body)["data"][names.MEMORY_KEY].encode()
            if body is not None
            else slot.encode(slot.type())
        )
        if slot.persistent and told != slot.encode(leader.remembered.of(slot)):
            yield f"the leader was told to stop, and its memory of {slot.name} as the cluster has it is not what it knew"


def afresh(bodies: Bodies, policy: Policy) -> Cluster:
    """The state of a scheduler that starts now, with what its plugins read."""
    cluster = Cluster()
    intake = Intake(cluster)
    for kind in kinds_of(policy, {}):
        meta = kinds.by_struct(kind)
        collection = f"{meta.plural}.{meta.group}" if meta.group else meta.plural
        for (name, _, _), body in bodies.items():
            if name == collection:
                found = read_object(kind, msgspec.Raw(body), _no_bad)
                if found is not None:
                    intake.apply(changes.Upserted(object=found))
    return cluster


def _no_bad(*_: object) -> None:
    """Every object of a world can be read."""


def described(cluster: Cluster) -> dict[str, Any]:
    """All that decides, as plain values; what is zero is left out."""
    snapshot = cluster.snapshot()
    table = snapshot.nodes
    columns = {"allocatable": table.allocatable, "used": table.used, "releasing": table.releasing}
    found: dict[str, Any] = {
        f"node {node} {what} {name}": int(column[row, where])
        for what, column in columns.items()
        for row, name in enumerate(table.axis.names)
        for where, node in enumerate(table.names)
        if column[row, where]
    }
    for uid, task in cluster.tasks.items():
        found[f"pod {task.key} {uid}"] = (task.gang, task.status.text, task.node)
    for key, gang in snapshot.gangs.items():
        found[f"gang {key}"] = (gang.spec, gang.counts)
    for name, queue in snapshot.queues.items():
        found[f"queue {name}"] = queue
    for name, claim in snapshot.claims.items():
        found[f"claim {name}"] = claim
    for kind, things in cluster.others.items():
        found |= {f"{kind.__name__} {key}": thing for key, thing in things.items()}
    return found


def differences(known: dict[str, Any], true: dict[str, Any]) -> Iterator[str]:
    for what in sorted({*known, *true}):
        if known.get(what) != true.get(what):
            yield f"the scheduler knows {what} as {known.get(what)}, and a fresh one as {true.get(what)}"
