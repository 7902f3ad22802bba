"""`pumice demo`: what placing pods one by one does to a gang, and what Pumice does instead; on a real, embedded cluster."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.api.batch import Job
from pumice.api.pods import Pod
from pumice.cli import colours
from pumice.errors import PumiceError
from pumice.local.demo_stage import (
    NAMESPACE,
    SPREADING,
    DemoFailed,
    count_all_bound,
    count_bound,
    create_gang,
    create_pod,
    delete_gang,
    node,
    phase_count,
    pods,
    reserving_at_once,
    start_cluster,
    training_job,
    until,
    until_phase,
    until_reason,
    until_reserved,
    until_step,
)
from pumice.scheduling.core.codes import HOPELESS, Code

if TYPE_CHECKING:
    from pumice.local.up import Up

GPU_DOLLARS_PER_HOUR = 2.50  # what a rented training GPU costs, roughly
TICKER_S = 2.0
WIDTH = 110

INTRODUCTION = (
    "Pumice starts a gang of pods as a whole or not at all. Six scenes show why. The API server, the scheduler and the "
    "controllers are the real ones and run inside this process; nodes and GPUs of scenes 1 to 5 are pretended, the "
    "processes of scene 6 are not. Lines with $ are commands, and below them is what they printed."
)


@click.command()
def demo() -> None:
    """Show, on a cluster inside this process, why gangs need a gang scheduler."""
    asyncio.run(_story())


async def _story() -> None:
    began = time.monotonic()
    click.echo(click.wrap_text(INTRODUCTION, width=WIDTH))
    shown: list[tuple[str, str]] = []
    for title, scene in (
        ("Pods placed one by one", _one_by_one),
        ("The same job as a gang", _as_a_gang),
        ("Two gangs of 64 on 100 GPUs", _two_gangs),
        ("Small jobs, spread or packed", _fragmentation),
        ("A short job passes a large one", _backfill),
        ("A gang of real processes", _real_processes),
    ):
        _heading(f"{len(shown) + 1}. {title}")
        shown.append((title, await scene()))
    _heading("What was shown")
    for title, outcome in shown:
        click.echo(f"   {title:<30} {outcome}")
    click.echo(
        f"\nAll of it ran on this machine, in {time.monotonic() - began:.0f} s. Start a cluster to play with: {_program()} up"
    )


def _program() -> str:
    """How the reader starts this program: a fresh clone has it in a folder that no shell looks into."""
    here = Path(sys.argv[0])
    if shutil.which("pumice") or here.name != "pumice":
        return "pumice"
    return os.path.relpath(here)


# ------------------------------------------------------------------------------------------------ scenes


async def _one_by_one() -> str:
    """Eight workers, six GPUs, a scheduler that looks at one pod at a time."""
    async with start_cluster(gpus=6) as cluster:
        _tell("A training job of 8 workers needs 8 GPUs at once. 6 are free, and the scheduler takes pods one by one.")
        for number in range(8):
            await create_pod(cluster, f"train-worker-{number}", scheduler="default-scheduler")
        running = await until(lambda: phase_count(cluster, "train", "Running"), 6)
        _see(f"{running} of 8 workers run. They wait at their first barrier for two that never come, and are paid for:")
        hourly = running * GPU_DOLLARS_PER_HOUR
        await _ticker(hourly)
        _see(f"At ${GPU_DOLLARS_PER_HOUR:.2f} per GPU-hour that is ${hourly:.2f} an hour, ${hourly * 24:.0f} a day.")
        return f"{running} of 8 run and none works: ${hourly:.2f} an hour for nothing"


async def _ticker(hourly: float) -> None:
    """Money that is being spent while the reader looks on; where nothing moves, only its end."""
    moves = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    began = time.monotonic()
    while (passed := time.monotonic() - began) < TICKER_S:
        if moves:
            click.echo(f"\r   > ${hourly * passed / 3600:.4f} for nothing after {passed:.1f} s", nl=False)
        await asyncio.sleep(0.1)
    click.echo(f"{chr(13) if moves else ''}   > ${hourly * TICKER_S / 3600:.4f} for nothing after {TICKER_S:.1f} s")


async def _as_a_gang() -> str:
    async with start_cluster(gpus=6) as cluster:
        _tell("The same 8 workers on the same 6 GPUs, now as a PodGroup with minMember 8 and schedulerName volcano.")
        await create_gang(cluster, "train", 8)
        await until_reason(cluster, "train", HOPELESS)
        _see(f"{await count_bound(cluster, 'train')} of 8 are placed: nothing is held, nothing is paid for. Why?")
        await _run(cluster, "explain", "pg/train", parts=("Members", "Why it waits", "Room now"))
        await cluster.add_nodes([node("node-new", 2)])
        running = await until(lambda: phase_count(cluster, "train", "Running"), 8)
        _see(f"A node with two GPUs joins, and {running} of 8 run, all bound by one decision.")
        return f"0 of 8 while it cannot start, then {running} of 8"


async def _two_gangs() -> str:
    async with start_cluster(gpus=50, nodes=2) as cluster:
        _tell(
            "Two gangs of 64 arrive together. Placed one by one they could take 50 GPUs each, and wait for each other for ever."
        )
        await asyncio.gather(create_gang(cluster, "red", 64), create_gang(cluster, "blue", 64))
        await until(lambda: count_all_bound(cluster, ("red", "blue")), 64)
        counts = {name: await count_bound(cluster, name) for name in ("red", "blue")}
        first, second = sorted(counts, key=lambda name: -counts[name])
        _see(f"{first}: {counts[first]} of 64 run. {second}: {counts[second]} of 64, and nothing is in its hands.")
        why = await until_reason(cluster, second, {Code.QUEUE_SHARE_USED})
        _see(f"{second} waits because {why.text}.")
        await delete_gang(cluster, first)
        await until(lambda: count_bound(cluster, second), 64)
        _see(f"{first} ends, and {second} starts as a whole.")
        return "one runs, the other follows; no deadlock"


async def _fragmentation() -> str:
    _tell(
        "Eight jobs of one GPU and 4 CPUs on four nodes of 8 GPUs. Is there room left for a worker that needs a whole node?"
    )
    whole = {}
    for policy_text, policy in ((SPREADING, "spread over the nodes"), ("", "packed by Pumice's built-in policy")):
        async with start_cluster(gpus=8, nodes=4, policy_text=policy_text) as cluster:
            for number in range(8):
                await create_pod(cluster, f"small-{number}-0", scheduler="pumice", cpu="4")
            await until(lambda cluster=cluster: count_bound(cluster, "small"), 8)  # type: ignore[misc]
            taken = {pod["spec"]["nodeName"] for pod in await pods(cluster, "small")}
            whole[policy_text] = 4 - len(taken)
            _see(f"{policy}: {whole[policy_text]} of 4 nodes whole, 24 of 32 GPUs free")
            await _run(cluster, "nodes", parts=("Largest gang",))
    if whole[""] <= whole[SPREADING]:
        raise DemoFailed(
            "packing left no more whole nodes than spreading; please report this with the output of `pumice version`"
        )
    return f"{whole[SPREADING]} whole nodes left when spread, {whole['']} when packed"


async def _backfill() -> str:
    """Half of the GPUs are free, a gang that wants all of them waits: who may use them until then?"""
    async with start_cluster(gpus=8, policy_text=reserving_at_once()) as cluster:
        _tell(
            "4 of 8 GPUs are busy for another hour. A gang that needs all 8 has waited long enough: it gets a reservation."
        )
        await create_gang(cluster, "busy", 4, runs_for="1h")
        await until(lambda: phase_count(cluster, "busy", "Running"), 4)
        await create_gang(cluster, "large", 8, runs_for="2h")
        await until_reason(cluster, "large", {Code.RESERVED})
        before = await until_reserved(cluster, "large")
        _see(
            f"large may count on all 8 GPUs from {before[11:16]} UTC on. Two gangs of 4 could use the free ones until then:"
        )
        await create_gang(cluster, "long", 4, runs_for="3h")
        why = await until_reason(cluster, "long", {Code.WOULD_DELAY})
        _see(f"long, 3 hours: waits, because it {why.text}.")
        await create_gang(cluster, "short", 4, runs_for="30m")
        await until(lambda: phase_count(cluster, "short", "Running"), 4)
        after = await until_reserved(cluster, "large")
        _see(f"short, 30 minutes: runs at once. The reservation still stands at {after[11:16]} UTC.")
        if after > before:
            raise DemoFailed("the short gang has delayed the large one; please report this")
        return "the short one runs, the large one starts no later"


async def _real_processes() -> str:
    """A Volcano Job with the pytorch plugin whose pods are processes of this machine."""
    from pumice.local.nodes.process.devices import fake
    from pumice.local.nodes.process.machine import ProcessSettings

    with tempfile.TemporaryDirectory(prefix="pumice-demo-") as folder:
        async with start_cluster(gpus=0, nodes=0) as cluster:
            root = Path(folder)
            settings = ProcessSettings(name="this-machine", folder=root / "node", gpus=fake(4), host_roots=(root,))
            try:
                await cluster.add_process_node(settings)
            except PumiceError as error:
                _see(f"skipped: {error}")
                return "skipped here: process nodes need namespaces"
            return await _train(cluster, root)


async def _train(cluster: Up, root: Path) -> str:
    checkpoints = root / "checkpoints"
    checkpoints.mkdir()
    _tell("A Volcano Job with the pytorch plugin: one master, three workers, each a real process with its own address.")
    await cluster.client.create(Job, training_job(checkpoints), namespace=NAMESPACE)
    await until(lambda: phase_count(cluster, "train", "Running"), 4)
    await until_step(checkpoints, 3)
    _see("4 of 4 run, have found their master by name and step together.")
    await cluster.client.delete(Pod, "train-worker-1", namespace=NAMESPACE)
    step = (checkpoints / "step").read_text()
    _see(f"train-worker-1 is evicted after step {step}. The Job's policy for that: PodEvicted -> RestartJob.")
    await until_phase(cluster, "train", "Completed")
    logs = await _run(cluster, "job", "logs", "train", "--task", "master")
    await _run(cluster, "job", "list")
    if "resumes after step" not in logs:
        raise DemoFailed("the gang did not resume from its checkpoint; please report this")
    return "loses a member, restarts whole, resumes from its checkpoint"


# ------------------------------------------------------------------------------------------------ telling


def _heading(text: str) -> None:
    click.secho(f"\n{text}", bold=True)


def _tell(text: str) -> None:
    """What the scene is about."""
    click.echo(click.wrap_text(text, width=WIDTH, initial_indent="   ", subsequent_indent="   "))


def _see(text: str) -> None:
    """What was observed, set off from what is told."""
    click.echo(click.wrap_text(text, width=WIDTH, initial_indent="   > ", subsequent_indent="     "))


async def _run(cluster: Up, *words: str, parts: tuple[str, ...] = ()) -> str:
    """A command of ours as the reader would run it, and what it printed: all of it, or the parts that begin with these words."""
    click.echo(f"   $ pumice {' '.join(words)}")
    env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    env |= {"CLICOLOR_FORCE": "1"} if colours.should_colour(sys.stdout) else {}
    command = (sys.executable, "-m", "pumice.cli", *words)
    running = await asyncio.create_subprocess_exec(*command, env=env, stdout=asyncio.subprocess.PIPE)
    try:
        output, _ = await running.communicate()
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
    text = output.decode()
    if running.returncode:
        raise DemoFailed(f"`pumice {' '.join(words)}` ended with code {running.returncode}; please report this")
    for line in _select_lines(text, parts):
        indent = "   | " + " " * (len(line) - len(line.lstrip()))
        wrapped = parts and click.wrap_text(line.strip(), WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")
        click.echo(wrapped or f"   | {line}")
    return text


def _select_lines(text: str, parts: tuple[str, ...]) -> list[str]:
    """The lines that begin with one of the words, each with the indented ones below it."""
    lines = text.rstrip("\n").splitlines()
    if not parts:
        return lines
    chosen: list[str] = []
    inside = False
    for line in lines:
        inside = line.startswith(parts) or (inside and line.startswith(" "))
        chosen += [line] if inside else []
    return chosen
