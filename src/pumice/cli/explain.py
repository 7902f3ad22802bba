"""`pumice explain`: why a Job, a PodGroup or a pod waits."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

import click

from pumice.cli import completion
from pumice.cli.cluster_command import Reach, asks
from pumice.cli.printing import aligned
from pumice.cli.results import Report
from pumice.errors import BadInput, NotFound, Refused

if TYPE_CHECKING:
    from pumice.api.core import PersistentVolumeClaim
    from pumice.api.meta import Struct
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup
    from pumice.cli.explain_facts import Facts

T = TypeVar("T", bound="Struct")

SCHEDULERS = frozenset({"volcano", "pumice"})
_WORDS = {
    **dict.fromkeys(("job", "jobs", "vcjob", "vj"), "job"),
    **dict.fromkeys(("pg", "podgroup", "podgroups"), "podgroup"),
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
}


@click.command()
@asks()
@click.argument("subject", metavar="KIND/NAME", shell_complete=completion.subjects)
@click.option(
    "--scheduler",
    default="",
    metavar="URL",
    envvar="PUMICE_SCHEDULER",
    show_envvar=True,
    help="Ask the leading scheduler's --listen address for the verdict of this moment, with the kubeconfig's token.",
)
async def explain(reach: Reach, subject: str, scheduler: str) -> Report:
    """Say why a gang waits: job/NAME, pg/NAME or pod/NAME.

    Which constraint fails on how many nodes, what its queue holds and may hold, how many of its pods would fit now, who holds
    what is short, and what could change it. The scheduler's verdict is read from the PodGroup, and its age is told; with
    --scheduler (through `kubectl port-forward`, say) it is asked afresh.
    """
    from pumice.cli import describe, explanation, explanation_text, verdicts

    word, slash, name = subject.partition("/")
    kind = _WORDS.get(word.lower())
    if not slash or not name or kind is None:
        raise BadInput(f"{subject!r}: expected job/NAME, pg/NAME or pod/NAME")
    found = await _found(reach, kind, name)
    if isinstance(found, Report):
        return found
    group, job = found
    answered = await verdicts.ask(reach, scheduler, group.metadata.key) if scheduler else None
    facts = dataclasses.replace(await _facts(reach, group, job), answer=answered)
    answer = explanation.explain(facts, reach.clock.now())
    if kind == "pod":
        answer["pod"] = explanation.one_pod(facts, name)
    whole = (await reach.client.get(type(group), group.metadata.name, namespace=reach.namespace)).json()
    events = await describe.events_of(reach.client, whole)
    text = explanation_text.text(answer, len(facts.nodes))
    if events:
        text += "\n\n" + describe.events_text(events, reach.clock.now()).rstrip("\n")
    return Report(text, {**answer, "events": [each.get("message", "") for each in events]})


async def _found(reach: Reach, kind: str, name: str) -> tuple[PodGroup, str] | Report:
    """The PodGroup that is meant, and the key of its Job; for a pod without one, all that there is to say."""
    from pumice.api.batch import Job
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup
    from pumice.cli.explain_facts import group_of

    if kind == "job":
        job = (await reach.client.get(Job, name, namespace=reach.namespace)).into(Job)
        groups = (await reach.client.list(PodGroup, namespace=reach.namespace)).items
        own = [each for each in groups if any(ref.uid == job.metadata.uid for ref in each.metadata.owner_references)]
        if not own:
            phase = job.status.state.phase or "Pending"
            raise NotFound(
                f"job {job.metadata.key} is {phase} and has no PodGroup: either it is over, or the controllers have not "
                "made one yet; see `pumice job view` and whether `pumice controllers` runs"
            )
        return own[0], job.metadata.key
    if kind == "pod":
        pod = (await reach.client.get(Pod, name, namespace=reach.namespace)).into(Pod)
        name = group_of(pod)
        if not name:
            return _groupless(pod, "is in no PodGroup")
    try:
        group = (await reach.client.get(PodGroup, name, namespace=reach.namespace)).into(PodGroup)
    except NotFound:
        if kind != "pod":
            raise
        return _groupless(pod, f"names the PodGroup {name}, which does not exist")
    owner = next((ref.name for ref in group.metadata.owner_references if ref.kind == "Job"), "")
    return group, f"{group.metadata.namespace}/{owner}" if owner else ""


def _groupless(pod: Pod, what: str) -> Report:
    """A pod that no gang explains."""
    from pumice.cli.explain_facts import group_of

    said = next((each.message for each in pod.status.conditions if each.type == "PodScheduled" and each.message), "")
    rows = [("Pod:", f"{pod.metadata.key}, {pod.status.phase or 'Pending'}"), ("Scheduler:", pod.spec.scheduler_name)]
    data = {"pod": pod.metadata.key, "phase": pod.status.phase, "scheduler": pod.spec.scheduler_name}
    if pod.spec.node_name:
        return Report(
            aligned([*rows, ("Node:", pod.spec.node_name)]).rstrip("\n"), {**data, "node": pod.spec.node_name}
        )
    why = [f"it {what}"]
    if group_of(pod):
        why.append("no scheduler looks at it before there is one: create it, or correct scheduling.k8s.io/group-name")
    elif pod.spec.scheduler_name in SCHEDULERS:
        why.append("the controllers make one for such a pod: see whether `pumice controllers` runs")
    else:
        why.append("Pumice has no part in it: `kubectl describe pod` shows what its own scheduler says")
    told = f"\n\nWhat the pod was told:\n  {said}" if said and not group_of(pod) else ""  # else it is the same again
    text = f"{aligned(rows)}\nWhy it waits:\n  {'; '.join(why)}{told}"
    return Report(text, {**data, "reasons": why, "told": said})


async def _facts(reach: Reach, group: PodGroup, job: str) -> Facts:
    from pumice.api.core import Node
    from pumice.api.kinds import by_struct
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup, Queue
    from pumice.api.topology import HyperNode
    from pumice.cli.explain_facts import Facts, group_of, must_stay_close

    async def allowed(struct: type[T], narrower: str | None = None) -> list[T]:
        """All objects of a kind; those of a namespace, or none, for a user who may not read them all."""
        try:
            return (await reach.client.list(struct)).items
        except Refused:
            unseen.append(by_struct(struct).plural)
            return (await reach.client.list(struct, namespace=narrower)).items if narrower else []

    unseen: list[str] = []
    space = group.metadata.namespace
    pods, queues = await allowed(Pod, space), await allowed(Queue)
    facts = Facts(
        group=group,
        job=job,
        members=[pod for pod in pods if pod.metadata.namespace == space and group_of(pod) == group.metadata.name],
        queue=next((each for each in queues if each.metadata.name == group.spec.queue), None),
        queues=queues,
        groups=await allowed(PodGroup, space),
        nodes=await allowed(Node),
        pods=pods,
        claims=await _claims(reach, space),
        hyper_nodes=await allowed(HyperNode) if must_stay_close(group) else [],
        unseen=tuple(unseen),
    )
    if unseen:
        listed = ", ".join(unseen)
        click.echo(f"pumice: you may not list all {listed}: numbers that need them are missing or too small", err=True)
    return facts


async def _claims(reach: Reach, namespace: str) -> list[PersistentVolumeClaim] | None:
    from pumice.api.core import PersistentVolumeClaim

    try:
        return (await reach.client.list(PersistentVolumeClaim, namespace=namespace)).items
    except Refused:
        return None  # which claims there are is then not told
