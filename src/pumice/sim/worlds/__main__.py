"""Plays worlds from the command line, and says how to repeat one that goes wrong.

python -m pumice.sim.worlds --seed 7 --profile storm           one world
python -m pumice.sim.worlds --worlds 300                       so many, profile by profile, and what never happened in them
python -m pumice.sim.worlds --worlds 16 --digests              a line for each, to be compared with those of another Python
python -m pumice.sim.worlds --seed 7 --profile storm --shrink  the same world with as little in it as goes wrong
"""

from __future__ import annotations

import collections
import gc
import os
import sys
import time
import traceback
from typing import TYPE_CHECKING

import click

from pumice.sim.worlds import mishaps, network, profiles, replicas, shrinking, story
from pumice.sim.worlds.world import Verdict, play

if TYPE_CHECKING:
    from pumice.sim.worlds.story import Story

HASHES = "PYTHONHASHSEED"
COLLECT_EVERY = 50  # worlds: each leaves some 2 MB in cycles that the collector does not come to by itself
# All that can go wrong, and all points at which a process can be made to die: what a run never met is told.
FAULTS = (*network.CALL_FAULTS, *network.WATCH_FAULTS, *network.WATCH_ENDS, *mishaps.MISHAPS)
POINTS = (
    *(f"{replicas.SCHEDULER}:{point}" for point in (*dict.fromkeys(mishaps.FAIL_POINTS), "locked")),
    *(f"{replicas.CONTROLLERS}:{point}" for point in dict.fromkeys(mishaps.CONTROLLER_POINTS)),
)


def line(profile: str, seed: int, left_out: frozenset[str] = frozenset()) -> str:
    """The command that repeats a world."""
    without = f" --without {','.join(sorted(left_out))}" if left_out else ""
    return f"python -m pumice.sim.worlds --profile {profile} --seed {seed}{without}"


@click.command()
@click.option(
    "--profile",
    type=click.Choice(list(profiles.PROFILES)),
    help="Which kinds of faults; without it, all profiles in turn.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The first world.")
@click.option("--worlds", type=click.IntRange(min=1), default=1, show_default=True, help="How many.")
@click.option(
    "--without", "left_out", default="", help="Parts of the story to leave out: j0, m1, or the name of a fault."
)
@click.option("--shrink", is_flag=True, help="Leave out what it can go wrong without.")
@click.option("--digests", is_flag=True, help="Print profile, seed and digest of each world, and nothing else.")
@click.option("--log", "log_file", type=click.Path(dir_okay=False), help="Write all that happened into a file.")
def main(
    profile: str | None,
    seed: int,
    worlds: int,
    left_out: str,
    shrink: bool,  # noqa: FBT001  a flag
    digests: bool,  # noqa: FBT001  a flag
    log_file: str | None,
) -> None:
    """Play worlds; the exit status is 1 where something went wrong in one of them."""
    chosen = [profile] if profile else list(profiles.PROFILES)
    out = frozenset(filter(None, left_out.split(",")))
    faults: collections.Counter[str] = collections.Counter()
    points: collections.Counter[str] = collections.Counter()
    bad, seconds, began = 0, 0.0, time.process_time()
    for number in range(worlds if profile or worlds > 1 else len(chosen)):
        name, own = chosen[number % len(chosen)], seed + number // len(chosen)
        if number % COLLECT_EVERY == 0:
            gc.collect()
        verdict = _play(story.draw(own, name).without(out), keeps_log=log_file is not None)
        faults += verdict.faults
        points.update(verdict.points)
        seconds += verdict.seconds
        if log_file is not None:
            with open(log_file, "w") as file:  # noqa: PTH123  a path of click's
                file.write("\n".join(verdict.log) + "\n")
        if verdict.wrong:
            bad += 1
            _tell(name, own, out, verdict)
            if shrink:
                small, verdict = shrinking.shrink(story.draw(own, name), out)
                _tell(name, own, small, verdict)
        elif digests:
            click.echo(f"{name} {own} {verdict.digest}")
        elif worlds == 1:
            click.echo(f"{name} {own}: well, {verdict.seconds:.0f} s, digest {verdict.digest}")
    if not digests:
        _sum_up(bad, seconds, time.process_time() - began, faults, points)
    sys.exit(bool(bad))


def _play(told: Story, *, keeps_log: bool) -> Verdict:
    """What a world breaks off with is told, and the next one played."""
    try:
        return play(told, keeps_log=keeps_log)
    except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
        traceback.print_exc()
        return Verdict((f"the world broke off: {error!r}",), "", 0.0, collections.Counter(), frozenset())


def _tell(profile: str, seed: int, left_out: frozenset[str], verdict: Verdict) -> None:
    click.echo(f"{profile} {seed}: went wrong; repeat it with\n  {line(profile, seed, left_out)}")
    for text in verdict.wrong:
        click.echo(f"  {text}")


def _sum_up(
    bad: int, seconds: float, cpu_s: float, faults: collections.Counter[str], points: collections.Counter[str]
) -> None:
    click.echo(f"{bad} went wrong; {seconds:.0f} s of virtual time in {cpu_s:.1f} s of CPU")
    _cover("faults", faults, FAULTS)
    _cover("fail points, in how many worlds they were passed", points, POINTS)


def _cover(what: str, found: collections.Counter[str], known: tuple[str, ...]) -> None:
    click.echo(f"{what}: " + ", ".join(f"{name} {count}" for name, count in sorted(found.items())))
    click.echo("  never: " + (", ".join(name for name in known if not found[name]) or "none"))


if __name__ == "__main__":
    if os.environ.get(HASHES) != "0":  # sets of names have the same order in every run
        os.execve(  # noqa: S606  ourselves
            sys.executable, [sys.executable, "-m", "pumice.sim.worlds", *sys.argv[1:]], {**os.environ, HASHES: "0"}
        )
    main()
