"""Draws docs/pictures/fair-share.svg: who holds how much of a cluster over five days, with and without a memory.

    python -m tools.docs.share_picture

The figures are those of two simulations: product works alone for two days, then research comes, with the same weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.sim import Submission, nodes, simulate
from tools.docs.pictures import EDGE, FILLS, FOLDER, INK, MUTED, paragraph, picture, swatch, text

if TYPE_CHECKING:
    from collections.abc import Sequence

DAYS, ALONE_DAYS, SLOTS = 5, 2, 16
STEP_H = 4
WIDTH, HEIGHT, LEFT = 700, 110, 90
POLICY = """\
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [PLUGINS, {name: predicates}, {name: nodeorder}]
"""
PANELS = {
    "By weight alone (proportion)": "{name: proportion}",
    "With a memory (fairshare, half-life of a day)": "{name: fairshare, arguments: {half-life: 24h}}",
}


def held(plugins: str) -> dict[str, Sequence[float]]:
    """Slots in each step, by queue."""
    work = []
    for queue, first in (("product", 0), ("research", ALONE_DAYS * 24)):
        for hour in range(first, DAYS * 24, 4):
            work += [Submission(at_s=hour * 3600, run_s=7200, size=2, queue=queue) for _ in range(SLOTS)]
    policy = POLICY.replace("PLUGINS", plugins)
    outcome = simulate(
        work, nodes(f"1x{SLOTS}"), queues={"product": 1, "research": 1}, policy=policy, until_s=DAYS * 86_400
    )
    usage = outcome.usage("queue", step_s=STEP_H * 3600, until_s=DAYS * 86_400)
    return {queue: usage[queue].tolist() for queue in ("product", "research")}


def panel(y: float, title: str, plugins: str) -> str:
    parts = [text(LEFT, y - 8, title, size=14, bold=True)]
    levels = held(plugins)
    steps = DAYS * 24 // STEP_H
    across = WIDTH / steps
    for number in range(steps):
        top = y + HEIGHT
        for queue, fill in (("product", FILLS["b"]), ("research", FILLS["a"])):
            tall = levels[queue][number] / SLOTS * HEIGHT
            top -= tall
            parts.append(
                f'<rect x="{LEFT + number * across:.1f}" y="{top:.1f}" width="{across:.1f}" height="{tall:.1f}" fill="{fill}"/>'
            )
    parts.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="{EDGE}"/>')
    parts += [
        text(LEFT - 42, y + 6 + HEIGHT * part, label, size=12, colour=MUTED)
        for part, label in ((0, "100%"), (0.5, "50%"))
    ]
    parts += [
        f'<path d="M{LEFT + day * WIDTH / DAYS} {y}v{HEIGHT}" stroke="{INK}" stroke-opacity="0.15"/>'
        + text(LEFT + (day - 0.6) * WIDTH / DAYS, y + HEIGHT + 16, f"day {day}", size=12, colour=MUTED)
        for day in range(1, DAYS + 1)
    ]
    return "\n".join(parts)


def draw() -> str:
    panels = [panel(40 + number * 170, *each) for number, each in enumerate(PANELS.items())]
    legend = [
        swatch(LEFT, 368, FILLS["b"], "product"),
        swatch(LEFT + 100, 368, FILLS["a"], "research"),
    ]
    said = paragraph(
        LEFT, 404, "Both queues have weight 1. Product has used the cluster alone for two days. A memory lets research go first",
        "until both have used alike; by weight alone, what product had is forgotten at once.",
    )  # fmt: skip
    return picture(
        820, 440, "Shares of two queues over five days, by weight alone and with a memory", *panels, *legend, said
    )


def main() -> None:
    (FOLDER / "fair-share.svg").write_text(draw())


if __name__ == "__main__":
    main()
