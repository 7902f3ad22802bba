"""`pumice schedule`: one cycle over objects in files, nothing written. What `kubectl get ... -o yaml` prints is what it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from pumice import instant, yamltext
from pumice.api import changes, decoding, kinds
from pumice.api.decoding import UNREADABLE
from pumice.cli.input_files import STDIN, read_file, read_file_or_stdin
from pumice.cli.printing import echo_data
from pumice.cli.results import output_option
from pumice.cluster.gpu_use import reported
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.digits import counted
from pumice.errors import BadInput
from pumice.processes import policies
from pumice.processes.entry_points import plugins_from_outside
from pumice.readmodel.build import Cycle, Views
from pumice.scheduling.core import build_decisions, builtin, cycle, verdict
from pumice.scheduling.core.decisions import VolumeChoice
from pumice.scheduling.core.gpu_use import gang_uses
from pumice.scheduling.core.policy import POLICY_BYTES_MAX
from pumice.scheduling.evicting import reserved_room
from pumice.scheduling.time.forecast import World
from pumice.scheduling.whatif.trial import Question

if TYPE_CHECKING:
    from pumice.api.meta import Struct
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Decisions

# A dump has no clock: its newest moment is the best guess at "now", so that the answer does not depend on when it is asked.
_EPOCH = "1970-01-01T00:00:00Z"


@click.command()
@click.option(
    "-f", "--filename", "files", multiple=True, required=True, help="File or folder with objects; - for stdin."
)
@click.option(
    "--policy", "policy_file", type=click.Path(dir_okay=False), help="Policy file; without it the built-in policy."
)
@output_option
def schedule(files: tuple[str, ...], policy_file: str | None, output: str) -> None:
    """Ask what one scheduling cycle would do, without a cluster."""
    objects = [item for name in files for item in read_objects(name)]
    if not objects:
        raise BadInput(
            f"{', '.join(files)}: no objects; give what `kubectl get nodes,pods,podgroups,queues -A -o yaml` prints"
        )
    text = read_file(policy_file, POLICY_BYTES_MAX) if policy_file else None
    answer = schedule_objects(objects, text, source=policy_file or "built-in policy")
    if output == "table":
        print_table(answer)
    else:
        echo_data(answer, output)


def read_objects(name: str) -> list[Mapping[str, Any]]:
    """All objects in a file, a folder of manifests, or standard input; Lists are opened."""
    path = Path(name)
    if path.is_dir():
        paths = sorted(each for each in path.iterdir() if each.suffix in {".yaml", ".yml", ".json"})
        return [item for each in paths for item in _objects(read_file(each), str(each))]
    return _objects(read_file_or_stdin(name), "standard input" if name == STDIN else name)


def _objects(text: bytes, source: str) -> list[Mapping[str, Any]]:
    try:
        documents = [msgspec.json.decode(text)]
    except UNREADABLE:
        documents = yamltext.load_all(text, source=source)
    return list(_flatten(documents, source))


def _flatten(documents: Iterable[Any], source: str) -> Iterable[Mapping[str, Any]]:
    for document in documents:
        if not isinstance(document, Mapping) or not isinstance(document.get("kind"), str):
            raise BadInput(
                f"{source}: expected Kubernetes objects with apiVersion and kind, found {type(document).__name__}"
            )
        if document["kind"].endswith("List") and isinstance(document.get("items"), list):
            yield from _flatten(document["items"], source)
        else:
            yield document


def schedule_objects(objects: Iterable[Mapping[str, Any]], policy_text: bytes | None, *, source: str) -> dict[str, Any]:
    """The answer of `pumice schedule -o json` as data."""
    extra = plugins_from_outside()
    chosen = policies.parse_policy(builtin.TEXT if policy_text is None else policy_text, source, extra)
    cluster = Cluster()
    intake = Intake(cluster)
    newest = _EPOCH
    for thing in _merge_duplicates(objects):
        kind = kinds.by_kind(str(thing.get("apiVersion", "")), str(thing["kind"]))
        if kind is None or kind.struct is None:
            continue  # Deployments, Services and the like say nothing about one cycle
        intake.apply(changes.Upserted(object=decoding.decode_value(kind.struct, thing)))
        newest = max(newest, (thing.get("metadata") or {}).get("creationTimestamp") or "")
    decisions = cycle.plan(cluster.snapshot(), chosen, now=instant.parse_instant(newest), extra_plugins=extra)
    return as_data(decisions)


def plan_view(objects: Iterable[Struct], policy_text: bytes | None, *, source: str, now: Instant) -> Views:
    """The view of one cycle over objects that were listed."""
    asked = question_of(objects, policy_text, source=source, now=now)
    decisions = asked.plan(asked.snapshot)
    snapshot, views = asked.snapshot, Views()
    uses = gang_uses(snapshot.gangs.values(), reported(snapshot.nodes.objects, now), now)
    views.publish(Cycle(number=1, at=now, snapshot=snapshot, decisions=decisions, policy=asked.policy, gpu_uses=uses))
    return views


def question_of(objects: Iterable[Struct], policy_text: bytes | None, *, source: str, now: Instant) -> Question:
    """What a cycle over listed objects is planned from; room that is being made stays with the gangs that it is made for."""
    world = world_of(objects, policy_text, source=source, now=now)
    snapshot = world.intake.cluster.snapshot()
    return Question(snapshot, world.policy, now, extra_plugins=world.extra_plugins)


def world_of(objects: Iterable[Struct], policy_text: bytes | None, *, source: str, now: Instant) -> World:
    """The same, as a cluster from which the engine can be run ahead."""
    extra = plugins_from_outside()
    chosen = policies.parse_policy(builtin.TEXT if policy_text is None else policy_text, source, extra)
    intake = Intake(Cluster())
    for thing in objects:
        intake.apply(changes.Upserted(object=thing))
    lasts = build_decisions.CLAIM_SECONDS * instant.SECOND
    for claim in reserved_room.rebuilt(intake.cluster.snapshot(), now, lasts):
        intake.apply(changes.Claimed(claim=claim))
    return World(intake, chosen, now, extra_plugins=extra)


def _merge_duplicates(objects: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each object once. A file may name one twice: the later one counts, but a HyperNode's members are taken together."""
    found: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for thing in objects:
        meta = thing.get("metadata") or {}
        key = (thing["kind"], meta.get("namespace") or "", meta.get("name") or "")
        former = found.get(key)
        if former is not None:
            click.echo(f"pumice: warning: {key[0]} {key[2]} is there twice; the later one counts", err=True)
            if key[0] == "HyperNode":
                members = [*former["spec"].get("members", ()), *thing["spec"].get("members", ())]
                thing = {**thing, "spec": {**thing["spec"], "members": members}}  # noqa: PLW2901
        found[key] = thing
    return list(found.values())


def as_data(decisions: Decisions) -> dict[str, Any]:
    """The stable JSON form: binds, pipelined, evictions and PodGroups; gangs whose volumes come first are not bound yet."""
    waiting = {
        commit.gang
        for commit in decisions.commits
        if any(isinstance(each, VolumeChoice) for bind in commit.binds for each in bind.first)
    }
    placed = [(commit.gang in waiting, bind) for commit in decisions.commits for bind in commit.binds]
    return {
        "binds": {bind.task.key: bind.node for waits, bind in placed if not waits},
        **({"volumesFirst": {bind.task.key: bind.node for waits, bind in placed if waits}} if waiting else {}),
        "pipelined": dict(decisions.pipelined),
        "evictions": [eviction.task.key for eviction in decisions.evictions],
        "podGroups": {
            key: {"phase": report.phase, "reasons": [verdict.as_data(reason) for reason in report.reasons]}
            for key, report in sorted(decisions.gangs.items())
        },
    }


def reason_text(reason: Mapping[str, Any]) -> str:
    nodes = f" ({counted(reason['nodes'], 'node')})" if reason["nodes"] else ""
    return f"{reason['reason']}{nodes}"


def print_table(answer: dict[str, Any]) -> None:
    if not answer["podGroups"]:
        click.echo(
            "pumice: nothing to decide: none of the objects is a PodGroup, or a pod of Pumice's scheduler", err=True
        )
    started: dict[str, str] = {**answer["binds"]}
    for pod, node in started.items():
        click.echo(f"bind      {pod} -> {node}")
    for pod, node in answer.get("volumesFirst", {}).items():
        click.echo(f"volumes   {pod} -> {node} once its volumes are bound")
    for pod, node in answer["pipelined"].items():
        click.echo(f"pipeline  {pod} -> {node}")
    for pod in answer["evictions"]:
        click.echo(f"evict     {pod}")
    for key, group in answer["podGroups"].items():
        parts = [group["phase"], *(reason_text(each) for each in group["reasons"])]
        click.echo(f"group     {key}: {'; '.join(parts)}")
