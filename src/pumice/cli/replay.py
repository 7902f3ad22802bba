"""`pumice replay`: plan again what a flight recorder has kept, and say whether the decisions are the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pumice import __version__, instant
from pumice.api.scheduling import PodGroupPhase
from pumice.cli.input_files import read_file
from pumice.cli.offline import as_data, print_table
from pumice.cli.printing import align, echo_data
from pumice.cli.results import output_option
from pumice.cluster.tasks import Status
from pumice.errors import NotFound, PumiceError
from pumice.flight import frames
from pumice.flight.replay import Played, play
from pumice.processes.entry_points import plugins_from_outside
from pumice.readmodel.build import Cycle, Views

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pumice.cluster.gangs import Gang

SHOWN_MAX = 20  # pods that differ, by name


class Differs(PumiceError):
    """Planning again gave other decisions than were recorded."""


@click.command()
@click.argument("file", type=click.Path())
@click.option("--cycle", "number", type=click.IntRange(min=0), help="Show what this cycle decided, and why.")
@click.option("--gang", metavar="NAMESPACE/NAME", help="With --cycle: explain this gang, as `pumice explain` does.")
@output_option
def replay(file: str, number: int | None, gang: str | None, output: str) -> None:
    """Plan the cycles of a flight recording again, without a cluster.

    FILE is what `pumice scheduler --flight-recorder FILE` wrote. Every cycle is planned from what was recorded, and its decisions are held
    against the recorded ones, byte for byte; where they differ the command fails and says in what. Nothing is written anywhere.
    """
    if gang is not None and number is None:
        raise click.UsageError("--gang is explained within one cycle; give --cycle too (without it, cycles are listed)")
    recording = _Recording(file)
    if number is None:
        _show_all(recording, output)
    else:
        _show_one(recording, number, gang, output)


class _Recording:
    """The cycles of a file, as far as it is whole."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._data = read_file(file)
        self.broken: frames.Broken | None = None  # why there are no more of them

    def cycles(self) -> Iterator[Played]:
        found = False
        try:
            for each in play(frames.unpack(self._data, self.file), plugins_from_outside()):
                found = True
                yield each
        except frames.Broken as error:
            if not found:
                raise
            self.broken = error


def _show_all(recording: _Recording, output: str) -> None:
    rows: list[dict[str, Any]] = []
    wrong: Played | None = None
    for each in recording.cycles():
        rows.append(_row(each))
        if each.differs and wrong is None:
            wrong = each
    if output != "table":
        echo_data({"cycles": rows}, output)
    elif rows:
        heads = ("CYCLE", "TIME", "GANGS", "WAITING", "BINDS", "EVICTIONS", "PLANNED", "SAME")
        click.echo(align([heads, *(tuple(_cell(value) for value in row.values()) for row in rows)]), nl=False)
    else:
        click.echo("pumice: no cycle was recorded", err=True)
    _tell_end(recording, wrong)


def _show_one(recording: _Recording, number: int, gang: str | None, output: str) -> None:
    seen: list[int] = []
    for each in recording.cycles():
        if each.number == number:
            _show(each, gang, output)
            _tell_end(recording, each if each.differs else None)
            return
        seen.append(each.number)
    _tell_end(recording, None)
    raise NotFound(f"cycle {number}: not in this recording: {_range(seen, number, recording.file)}")


def _range(seen: Sequence[int], number: int, file: str) -> str:
    """What there is; a file of before has lower numbers, if it is of the same process."""
    if not seen:
        return "it has none"
    more = f"; older ones may be in {file}.1" if number < seen[0] and Path(f"{file}.1").exists() else ""
    return f"it has {seen[0]} to {seen[-1]}{more}"


def _show(each: Played, gang: str | None, output: str) -> None:
    if output == "table":
        click.echo(f"cycle     {each.number} at {instant.format_instant(each.at)}: {_cell(_row(each)['same'])}")
    if gang is not None:
        _explain(each, gang, output)
    elif output == "table":
        print_table(as_data(each.decisions))
    else:
        echo_data({**_row(each), **as_data(each.decisions)}, output)


def _explain(each: Played, gang: str, output: str) -> None:
    from pumice.cli import explanation_text
    from pumice.cli.sources import Answer

    views = Views()
    views.publish(
        Cycle(
            number=each.number,
            at=each.at,
            snapshot=each.snapshot,
            decisions=each.decisions,
            policy=each.policy,
            resting={key: own.why for key, own in each.ports.resting.items()},
            memory=each.memory,
            ports=each.ports,
            extra_plugins=plugins_from_outside(),
        )
    )
    detail = views.gang(_key_of(each, gang))
    if detail is None:
        known = ", ".join(list(each.snapshot.gangs)[:SHOWN_MAX]) or "no gang at all"
        raise NotFound(f"gang {gang}: not in cycle {each.number}, which knows {known}")
    if output == "table":
        for pod, node in _binds_of(each, detail.gang.key).items():
            click.echo(f"bind      {pod} -> {node}")
        click.echo(explanation_text.text(Answer(detail, f"cycle {each.number}"), each.at))
    else:
        echo_data(detail, output)


def _binds_of(each: Played, gang: str) -> dict[str, str]:
    return {
        bind.task.key: bind.node for commit in each.decisions.commits if commit.gang == gang for bind in commit.binds
    }


def _key_of(each: Played, name: str) -> str:
    """The gang's key, where it is called by its Job or its group."""
    namespace, _, own = name.rpartition("/")
    for key, gang in each.snapshot.gangs.items():
        if gang.spec.namespace == namespace and own in {gang.spec.job, gang.spec.name}:
            return key
    return name


def _waits(gang: Gang) -> bool:
    """A member has no place, or there is none yet because the gang is not admitted."""
    return bool(gang.counts[Status.PENDING]) or (not gang.tasks and gang.spec.phase == PodGroupPhase.PENDING.value)


def _row(each: Played) -> dict[str, Any]:
    decisions = each.decisions
    return {
        "cycle": each.number,
        "time": instant.format_instant(each.at),
        "gangs": len(each.snapshot.gangs),
        "waiting": sum(map(_waits, each.snapshot.gangs.values())),
        "binds": sum(len(commit.binds) for commit in decisions.commits),
        "evictions": len(decisions.evictions),
        "planned": None if each.recorded is None else each.recorded.seconds,
        "same": None if each.recorded is None else not each.differs,
    }


def _cell(value: object) -> str:
    match value:
        case None:
            return "not recorded"
        case bool():
            return "same" if value else "DIFFERENT"
        case float():
            return f"{value:.3f}s"
    return str(value)


def _tell_end(recording: _Recording, wrong: Played | None) -> None:
    """A file that was copied while it was written is told of; a damaged one, and a cycle that differs, are errors."""
    if recording.broken is not None and (wrong is not None or isinstance(recording.broken, frames.Torn)):
        click.echo(f"pumice: {recording.broken}", err=True)
    if wrong is not None:
        raise Differs(_difference(wrong))
    if recording.broken is not None and not isinstance(recording.broken, frames.Torn):
        raise recording.broken


def _difference(each: Played) -> str:
    """In what it differs, with the pods that go elsewhere."""
    assert each.recorded is not None
    binds = {bind.task.key: bind.node for commit in each.decisions.commits for bind in commit.binds}
    pods = [
        f"{pod}: {each.recorded.binds.get(pod, 'not bound')} then, {binds.get(pod, 'not bound')} now"
        for pod in sorted({*binds, *each.recorded.binds})
        if binds.get(pod) != each.recorded.binds.get(pod)
    ]
    text = f"cycle {each.number}: planning it again does not give the bytes that were recorded; different are {', '.join(each.differs)}"
    if pods:
        text += f" ({'; '.join(pods[:SHOWN_MAX])})"
    if each.writer != __version__:
        return f"{text}; Pumice {each.writer} recorded it and this is {__version__}: replay it with that version"
    return f"{text}; please report this with the recording: the engine is to give the same answer twice"
