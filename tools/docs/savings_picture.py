"""Draws docs/pictures/simulate.svg: what three policies do with the same jobs, GPU by GPU over two days.

python -m tools.docs.savings_picture
"""

from __future__ import annotations

import numpy as np

from pumice.sim import nodes
from pumice.sim.generator import generate
from pumice.sim.one_by_one import OneByOne
from pumice.sim.outcome import Outcome, mean_levels
from pumice.sim.policies import NAMED
from pumice.sim.simulation import Simulation
from tools.docs.pictures import EDGE, FILLS, FOLDER, INK, MUTED, paragraph, picture, swatch, text

CLUSTER, SLOTS = "16x8", 128
HOURS, STEPS = 40, 160
WIDTH, HEIGHT, LEFT = 700, 90, 90
PANELS = {
    "one-by-one": "Pod by pod, as kube-scheduler places",
    "fifo": "Whole gangs, first come, first served",
    "easy": "Whole gangs with EASY backfill",
}


def outcome_of(name: str) -> Outcome:
    work, machines, policy = generate(500, SLOTS, load=1.1, seed=1), nodes(CLUSTER), NAMED[name]
    if policy.pod_by_pod:
        simulation: OneByOne | Simulation = OneByOne(work, machines)
    else:
        simulation = Simulation(work, machines, policy=policy.text, source=name, strict=policy.strict)
    for _ in simulation.steps():
        pass
    return simulation.outcome


def area(low: list[float], high: list[float], y: float, fill: str) -> str:
    def points(levels: list[float]) -> list[str]:
        return [
            f"{LEFT + number * WIDTH / (STEPS - 1):.1f},{y + HEIGHT - level / SLOTS * HEIGHT:.1f}"
            for number, level in enumerate(levels)
        ]

    return f'<polygon points="{" ".join([*points(high), *reversed(points(low))])}" fill="{fill}"/>'


def panel(y: float, name: str, title: str) -> str:
    outcome, edges = outcome_of(name), np.linspace(0.0, HOURS * 3600.0, STEPS + 1)
    runs, blocked = (
        mean_levels([(at, slots) for at, _, slots in changes], edges).tolist()
        for changes in (outcome.held, outcome.blocked)
    )
    wait = round((outcome.figures["mean_wait_s"] or 0.0) / 60)
    both = [one + other for one, other in zip(runs, blocked, strict=True)]
    return "\n".join(
        [
            text(LEFT, y - 8, title, size=14, bold=True),
            text(LEFT + WIDTH - 150, y - 8, f"mean wait {wait} minutes", size=13, colour=MUTED),
            area([0.0] * STEPS, runs, y, FILLS["b"]),
            area(runs, both, y, FILLS["x"]),
            f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="{EDGE}"/>',
            text(LEFT - 42, y + 6, f"{SLOTS}", size=12, colour=MUTED),
            *(
                f'<path d="M{LEFT + hour * WIDTH / HOURS} {y}v{HEIGHT}" stroke="{INK}" stroke-opacity="0.12"/>'
                + text(LEFT + hour * WIDTH / HOURS - 12, y + HEIGHT + 16, f"{hour} h", size=12, colour=MUTED)
                for hour in range(10, HOURS + 1, 10)
            ),
        ]
    )


def draw() -> str:
    panels = [panel(40 + number * 145, *each) for number, each in enumerate(PANELS.items())]
    legend = [
        swatch(LEFT, 462, FILLS["b"], "GPUs of gangs that run"),
        swatch(LEFT + 220, 462, FILLS["x"], "held by gangs that cannot start"),
    ]
    said = paragraph(
        LEFT, 498, "500 generated jobs on 16 nodes of 8 GPUs. Pod by pod, gangs hold GPUs and wait for more. First come, first",
        "served, GPUs stay free behind a large gang. With backfill, whoever ends in time goes first.",
    )  # fmt: skip
    return picture(820, 534, "GPUs in use over forty hours under three policies", *panels, *legend, said)


def main() -> None:
    (FOLDER / "simulate.svg").write_text(draw())


if __name__ == "__main__":
    main()
