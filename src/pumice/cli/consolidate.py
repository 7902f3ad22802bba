"""`pumice consolidate --dry-run`: which gangs would be moved for which, if the scheduler's policy had the action."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.results import Report
from pumice.errors import BadInput

if TYPE_CHECKING:
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Decisions

ACTIONS = ("enqueue", "allocate", "consolidate")


@click.command()
@asks(namespace=())
@click.option(
    "--dry-run", is_flag=True, help="Only show the plan: moves are made by a scheduler whose policy has the action."
)
@click.option(
    "--policy", "policy_file", type=click.Path(dir_okay=False), help="The policy in force; else the built-in one."
)
async def consolidate(access: ClusterAccess, policy_file: str | None, *, dry_run: bool) -> Report:
    """Show which running gangs would start again elsewhere, so that a gang that waits has its room in one piece.

    The scheduler's engine plans one cycle over a listing of the cluster, with the action consolidate as the policy configures it. Nothing
    is written.
    """
    from pumice.cli import sources

    if not dry_run:
        raise BadInput(
            "the command line moves nothing: look at the plan with --dry-run, and add consolidate to the actions of the scheduler's policy"
        )
    question = await sources.question(access, policy_file)
    policy = msgspec.structs.replace(question.policy, actions=ACTIONS)
    moves = moves_of(question.plan(question.snapshot, policy=policy), question.now)
    return Report(text(moves), {"moves": moves})


def moves_of(decisions: Decisions, now: Instant) -> list[dict[str, Any]]:
    """By the gang that others move for: who has to go from where, and the GPU-hours of work that are lost by it."""
    from pumice.scheduling.evicting import lost_work

    found: dict[str, list[Task]] = {}
    for each in decisions.evictions:
        found.setdefault(each.claimant, []).append(each.task)
    return [
        {
            "for": claimant,
            "moved": [{"pod": task.key, "gang": task.gang, "from": task.node} for task in tasks],
            "lostGpuHours": round(lost_work.card_seconds(tasks, now) / 3600, 2),
        }
        for claimant, tasks in found.items()
    ]


def text(moves: list[dict[str, Any]]) -> str:
    if not moves:
        return "Nothing to move: no gang that waits would start by it, or nobody may be moved at that price."
    lines = []
    for move in moves:
        gangs = sorted({each["gang"] for each in move["moved"]})
        lines.append(
            f"{move['for']} would start if {', '.join(gangs)} started again elsewhere: "
            f"{len(move['moved'])} pods, {move['lostGpuHours']:g} GPU-hours of work lost"
        )
        lines += [f"  {each['pod']} leaves {each['from']}" for each in move["moved"]]
    return "\n".join(lines)
