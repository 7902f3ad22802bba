"""`pumice explain`: why a Job, a PodGroup or a pod waits. The scheduler's engine says so; nothing is worked out here."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click
import msgspec

from pumice.api.scheduling import SCHEDULER_NAMES
from pumice.cli import completion
from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.printing import align
from pumice.cli.results import Report
from pumice.errors import BadInput, NotFound, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.meta import Json
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup
    from pumice.cli.colours import Paint
    from pumice.cli.sources import Answer

_WORDS = {
    **dict.fromkeys(("job", "jobs", "vcjob", "vj"), "job"),
    **dict.fromkeys(("pg", "podgroup", "podgroups"), "podgroup"),
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
}


@click.command()
@asks()
@click.argument("subject", metavar="[KIND/]NAME", nargs=-1, required=True, shell_complete=completion.subjects)
@click.option(
    "--policy",
    "policy_file",
    type=click.Path(dir_okay=False),
    help="Ask no scheduler: plan one cycle over a listing of the cluster with this policy file, and write nothing.",
)
@click.option("--quick", is_flag=True, help="Leave out what would start it, for which the engine plans several cycles.")
async def explain(access: ClusterAccess, subject: tuple[str, ...], policy_file: str | None, quick: bool) -> Report:
    """Say why a gang waits: job/NAME, pg/NAME or pod/NAME, or the same as two words.

    Which constraint fails on how many nodes, what its queue holds and may hold, how many of its pods would fit now, who holds
    what is short, what could change it, and single changes that would start it, each planned by the engine. The leading scheduler
    is asked, through the API server; where none answers, the same engine plans one cycle over a listing, and for users who may not
    list the cluster the PodGroup tells what the scheduler wrote.
    """
    from pumice.cli import describe, explanation_text, sources

    kind, name = _subject(subject)
    found = await _find_group(access, kind, name)
    if isinstance(found, Report):
        return found
    group, job = found
    answer = await sources.explain(access, group, policy_file, suggest=not quick)
    whole = (await access.client.get(type(group), group.metadata.name, namespace=access.namespace)).json()
    events = await describe.events_of(access.client, whole)
    others: Mapping[str, int] = {}
    if not answer.detail.gang.members.pods:
        events = sorted([*events, *await _of_its_owner(access, group)], key=describe.when)
        others = await _of_other_schedulers(access, group)
    now = access.clock.now()
    told = f"\n\n{describe.events_text(events, now)}".rstrip("\n") if events else ""

    def text(paint: Paint) -> str:
        about = name if kind == "pod" else ""
        whole = explanation_text.text(answer, now, job=job, pod=about, paint=paint)
        return whole + explanation_text.others(others) + told

    data = {
        **({"job": job} if job else {}),
        "source": answer.source,
        **msgspec.to_builtins(answer.detail),
        **_suggestions_data(answer),
        **({"podsOfOtherSchedulers": others} if others else {}),
        "events": [each.get("message", "") for each in events],
    }
    return Report(text, data)


async def _of_its_owner(access: ClusterAccess, group: PodGroup) -> list[Json]:
    """Why a Job makes no pods stands in its own events."""
    from pumice.cli import describe

    found: list[Json] = []
    for owner in group.metadata.owner_references:
        about = {"metadata": {"uid": owner.uid, "namespace": group.metadata.namespace}}
        found += [each for each in await describe.events_of(access.client, about) if describe.is_trouble(each)]
    return found


async def _of_other_schedulers(access: ClusterAccess, group: PodGroup) -> Mapping[str, int]:
    """How many pods name the group and a scheduler that Pumice does not serve, by that scheduler."""
    from pumice.api.pods import Pod
    from pumice.cli.sources import group_of

    try:
        pods = (await access.client.list(Pod, namespace=group.metadata.namespace)).items
    except Refused:  # who may not look at pods is told the rest
        return {}
    own = [pod.spec.scheduler_name for pod in pods if group_of(pod) == group.metadata.name]
    return Counter(name for name in own if name not in SCHEDULER_NAMES)


def _suggestions_data(answer: Answer) -> dict[str, object]:
    if answer.suggestions is None:
        return {}
    found = [{**msgspec.to_builtins(each), "text": each.text} for each in answer.suggestions.found]
    return {"suggestions": found, "plansTried": answer.suggestions.tried}


def _subject(words: tuple[str, ...]) -> tuple[str, str]:
    """The kind and the name that `job/train`, `job train` or, as with other commands, `train` means."""
    word, _, name = "/".join(words).partition("/")
    kind = _WORDS.get(word.lower())
    if kind is None and not name:
        return "job", word
    if not name or "/" in name or kind is None:
        raise BadInput(f"{' '.join(words)!r}: expected job/NAME, pg/NAME or pod/NAME")
    return kind, name


async def _find_group(access: ClusterAccess, kind: str, name: str) -> tuple[PodGroup, str] | Report:
    """The PodGroup that is meant, and the key of its Job; for a pod without one, all that there is to say."""
    from pumice.api.batch import LIVE_PHASES, SUSPENDED_PHASES, Job, JobPhase
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup
    from pumice.cli.sources import group_of

    if kind == "job":
        job = (await access.client.get(Job, name, namespace=access.namespace)).into(Job)
        phase = job.status.state.phase or JobPhase.PENDING.value
        if phase in SUSPENDED_PHASES:
            raise NotFound(f"job {job.metadata.key} is {phase}; `pumice job resume {name}` lets it go on")
        if phase not in LIVE_PHASES:
            raise NotFound(f"job {job.metadata.key} is {phase}: it is over; see `pumice job view {name}`")
        groups = (await access.client.list(PodGroup, namespace=access.namespace)).items
        own = [each for each in groups if any(ref.uid == job.metadata.uid for ref in each.metadata.owner_references)]
        if not own:
            raise NotFound(
                f"job {job.metadata.key} is {phase} and has no PodGroup yet; see whether `pumice controllers` runs"
            )
        return own[0], job.metadata.key
    if kind == "pod":
        pod = (await access.client.get(Pod, name, namespace=access.namespace)).into(Pod)
        name = group_of(pod)
        if not name:
            return _groupless(pod, "is in no PodGroup")
    try:
        group = (await access.client.get(PodGroup, name, namespace=access.namespace)).into(PodGroup)
    except NotFound:
        if kind != "pod":
            raise
        return _groupless(pod, f"names the PodGroup {name}, which does not exist")
    owner = next((ref.name for ref in group.metadata.owner_references if ref.kind == "Job"), "")
    return group, f"{group.metadata.namespace}/{owner}" if owner else ""


def _groupless(pod: Pod, what: str) -> Report:
    """A pod that no gang explains."""
    from pumice.cli.sources import group_of

    said = next((each.message for each in pod.status.conditions if each.type == "PodScheduled" and each.message), "")
    rows = [("Pod:", f"{pod.metadata.key}, {pod.status.phase or 'Pending'}"), ("Scheduler:", pod.spec.scheduler_name)]
    data = {"pod": pod.metadata.key, "phase": pod.status.phase, "scheduler": pod.spec.scheduler_name}
    if pod.spec.node_name:
        return Report(align([*rows, ("Node:", pod.spec.node_name)]).rstrip("\n"), {**data, "node": pod.spec.node_name})
    why = [f"it {what}"]
    if group_of(pod):
        why.append("no scheduler looks at it before there is one: create it, or correct scheduling.k8s.io/group-name")
    elif pod.spec.scheduler_name in SCHEDULER_NAMES:
        why.append("the controllers make one for such a pod: see whether `pumice controllers` runs")
    else:
        why.append("Pumice has no part in it: `kubectl describe pod` shows what its own scheduler says")
    told = f"\n\nWhat the pod was told:\n  {said}" if said and not group_of(pod) else ""  # else it is the same again
    text = f"{align(rows)}\nWhy it waits:\n  {'; '.join(why)}{told}"
    return Report(text, {**data, "reasons": why, "told": said})
