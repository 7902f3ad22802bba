"""What plugins outside of Pumice may rely on, and what the type checker says to one that is wrong."""

import subprocess
import sys
from pathlib import Path

from pumice import sdk

ROOT = Path(__file__).parents[2]

PROMISED = {
    "ENTRY_POINTS", "Amounts", "Args", "Bound", "Code", "Column", "ConfigMap", "Cure", "Denial", "EvictionKind", "Duration", "Facts", "GangState", "Indexes", "Instant",
    "Mask", "Memory", "Metric", "MetricKind", "NodeTable", "Object", "Pairs", "Plugin", "PluginOption", "Points", "PolicyError", "Pull",
    "QueueInfo", "Reads", "Reason", "ResourceKind", "Scores", "Session", "Shape", "Slot", "Status", "SubState", "Task", "VictimColumns",
    "View", "Vote", "Watch",
}  # fmt: skip

# Each line with an `ignore` is wrong: mypy complains of an ignore that it does not need.
WRONG_HOOKS = """
from collections.abc import Sequence
from pumice import sdk


def of_a_gang(gang: sdk.GangState) -> float:
    return 0.0


def of_a_task(task: sdk.Task) -> float:
    return 0.0


def admitted(gang: sdk.GangState) -> sdk.Vote | sdk.Reason:
    return sdk.Vote.PERMIT


def refused(shape: sdk.Shape) -> Sequence[sdk.Denial]:
    return []


def concerned(shape: sdk.Shape) -> bool:
    return True


def chosen(claimant: sdk.Task, candidates: Sequence[sdk.Task]) -> Sequence[sdk.Task]:
    return candidates


def register(on: sdk.Points) -> None:
    on.gang_order(of_a_gang)
    on.gang_order(of_a_task)  # type: ignore[arg-type]
    on.gang_order(admitted)  # type: ignore[arg-type]
    on.task_order(of_a_task)
    on.enqueueable(admitted)
    on.enqueueable(refused)  # type: ignore[arg-type]
    on.overused(of_a_gang)  # type: ignore[arg-type]
    on.filter(refused)
    on.filter(concerned)  # type: ignore[arg-type]
    on.live_filter(refused, concerns=concerned)
    on.live_filter(refused)  # type: ignore[call-arg]
    on.preemptable(chosen)
    on.preemptable.shield(chosen)
    on.evictable(chosen)  # type: ignore[arg-type]
    on.evictable.shield(chosen)  # type: ignore[arg-type]
    on.moved(lambda gang, shape, tasks, nodes, sign: None)
    on.moved(lambda gang: None)  # type: ignore[misc, arg-type]
    on.no_such_point(chosen)  # type: ignore[attr-defined]


def ask(session: sdk.Session, gang: sdk.GangState, task: sdk.Task) -> None:
    session.points.ready.holds(gang)
    session.points.ready.holds(task)  # type: ignore[arg-type]
    session.points.evictable.of(task, [task])  # type: ignore[call-arg, arg-type]
"""


def test_the_promise_to_plugins_is_neither_more_nor_less():
    assert set(sdk.__all__) == PROMISED
    assert all(hasattr(sdk, name) for name in PROMISED)


def test_a_wrong_hook_and_a_wrong_question_do_not_type_check(tmp_path):
    (tmp_path / "hooks.py").write_text(WRONG_HOOKS)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
