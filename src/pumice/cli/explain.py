"""`pumice explain`: why a Job, a PodGroup or a pod waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from pumice.cli import completing
from pumice.cli.answers import Report
from pumice.cli.asking import Reach, asks
from pumice.errors import BadInput, NotFound, Refused

if TYPE_CHECKING:
    from pumice.api.meta import Struct
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup
    from pumice.cli.explanation import Facts

T = TypeVar("T", bound="Struct")

_WORDS = {
    **dict.fromkeys(("job", "jobs", "vcjob", "vj"), "job"),
    **dict.fromkeys(("pg", "podgroup", "podgroups"), "podgroup"),
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
}


@click.command()
@asks()
@click.argument("subject", metavar="KIND/NAME", shell_complete=completing.subjects)
async def explain(reach: Reach, subject: str) -> Report:
    """Say why a gang waits: job/NAME, pg/NAME or pod/NAME.

    Which constraint fails on how many nodes, what its queue holds and may hold, how many of its pods would fit now, who holds
    what is short, and what could change it.
    """
    from pumice.cli import describing, explanation, explanationtext

    word, slash, name = subject.partition("/")
    kind = _WORDS.get(word.lower())
    if not slash or not name or kind is None:
        raise BadInput(f"{subject!r}: expected job/NAME, pg/NAME or pod/NAME")
    group, job = await _found(reach, kind, name)
    facts = await _facts(reach, group, job)
    answer = explanation.explain(facts, reach.clock.now())
    if kind == "pod":
        answer["pod"] = explanation.one_pod(facts, name)
    whole = (await reach.client.get(type(group), group.metadata.name, namespace=reach.namespace)).json()
    events = await describing.events_of(reach.client, whole)
    text = explanationtext.text(answer, len(facts.nodes))
    if events:
        text += "\n\n" + describing.events_text(events, reach.clock.now()).rstrip("\n")
    return Report(text, {**answer, "events": [each.get("message", "") for each in events]})


async def _found(reach: Reach, kind: str, name: str) -> tuple[PodGroup, str]:
    """The PodGroup that is meant, and the key of its Job."""
    from pumice.api.batch import Job
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup
    from pumice.cli.explanation import group_of

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
            raise NotFound(_alone(pod))
    group = (await reach.client.get(PodGroup, name, namespace=reach.namespace)).into(PodGroup)
    owner = next((ref.name for ref in group.metadata.owner_references if ref.kind == "Job"), "")
    return group, f"{group.metadata.namespace}/{owner}" if owner else ""


def _alone(pod: Pod) -> str:
    said = next((each.message for each in pod.status.conditions if each.type == "PodScheduled" and each.message), "")
    what = f"it runs on {pod.spec.node_name}" if pod.spec.node_name else said or "no scheduler has said why it waits"
    return (
        f"pod {pod.metadata.key} is in no PodGroup (schedulerName {pod.spec.scheduler_name}): {what}; "
        "`kubectl describe pod` shows the rest"
    )


async def _facts(reach: Reach, group: PodGroup, job: str) -> Facts:
    from pumice.api.core import Node
    from pumice.api.kinds import by_struct
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup, Queue
    from pumice.cli.explanation import Facts, group_of

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
        unseen=tuple(unseen),
    )
    if unseen:
        listed = ", ".join(unseen)
        click.echo(f"pumice: you may not list all {listed}: numbers that need them are missing or too small", err=True)
    return facts
