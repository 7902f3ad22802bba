"""All benchmarks, one JSON line each, and which of them got worse; those on the real API server only where it has been built.

    python -m bench [NAME ...] [--write]

Times differ between machines and moments; ratios to the calibration loop, shares, counts and peaks of memory hardly do. Those are compared
with `ratios.json`, which --write brings up to date: what is worse than there by more than the tolerance is named, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.kube import build

HERE = (
    "engine",
    "evictions",
    "explain",
    "fairshare",
    "reservations",
    "month",
    "memory",
    "restart",
    "large",
    "apiserver",
    "cli",
    "admission",
    "record",
    "dashboard",
)
ON_KUBE = ("live", "record_live")
RATIOS = Path(__file__).with_name("ratios.json")
TOLERANCE = {
    "calibrated": 1.5,
    "peak_mb": 1.15,
    "scheduler_mb": 1.15,
    "controllers_mb": 1.15,
    "ratio": 1.15,
    "gang_p50_of_all": 1.25,
    "over_budget": 1.0,
    "of_limit": 0.8,  # more is better
}  # what a busy machine does to the best of five, and a Python release to memory
_SETTINGS = ("bench", "nodes", "gangs", "size", "pods")  # what makes two lines the same measurement


def run(module: str) -> tuple[int, list[dict[str, Any]]]:
    """A benchmark's exit code and its lines, which are printed as they come."""
    lines = []
    with subprocess.Popen([sys.executable, "-m", f"bench.{module}"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(json.loads(line))
    return process.returncode, lines


def figures(lines: list[dict[str, Any]]) -> dict[str, float]:
    """The figures that can be compared, by a name that says what was measured."""
    return {
        " ".join([*(str(line[key]) for key in _SETTINGS if key in line), figure]): _number(line[figure])
        for line in lines
        for figure in TOLERANCE
        if figure in line
    }


def _number(figure: float | dict[str, int]) -> float:
    """Counts of several kinds are one."""
    return float(sum(figure.values()) if isinstance(figure, dict) else figure)


def worse(found: dict[str, float], committed: dict[str, float]) -> list[str]:
    """What got worse by more than chance, in words."""
    return [
        f"worse: {name}: {value:g}, was {committed[name]:g}"
        for name, value in found.items()
        if name in committed and _is_worse(value, committed[name], TOLERANCE[name.rpartition(" ")[2]])
    ]


def _is_worse(value: float, committed: float, tolerance: float) -> bool:
    limit = committed * tolerance
    return value < limit if tolerance < 1 else value > limit


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *HERE, *ON_KUBE], help="all without any")
    parser.add_argument("--write", action="store_true", help=f"write what was found into {RATIOS.name}")
    given = parser.parse_args()
    modules = given.names or [*HERE, *ON_KUBE]
    try:
        build.require()
    except build.BuildError as error:
        sys.stderr.write(f"skipped {', '.join(ON_KUBE)}: {error}\n")
        modules = [name for name in modules if name not in ON_KUBE]
    code, lines = 0, list[dict[str, Any]]()
    for module in modules:
        ended, more = run(module)
        code, lines = max(code, ended), lines + more
    found, committed = figures(lines), json.loads(RATIOS.read_text()) if RATIOS.exists() else {}
    if given.write:
        RATIOS.write_text(json.dumps(committed | found, indent=2, sort_keys=True) + "\n")
        return code
    faults = worse(found, committed)
    sys.stderr.write("".join(f"{fault}\n" for fault in faults) or f"{len(found)} ratios are as committed, or better\n")
    return max(code, int(bool(faults)))


if __name__ == "__main__":
    sys.exit(main())
