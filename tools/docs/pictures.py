"""Draws the schematic pictures of the guides, docs/pictures/*.svg: nodes as boxes, GPUs as squares, members of gangs as letters.

    python -m tools.docs.pictures

Every picture brings its own background, so that it is readable on a light page and on a dark one.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
INK, PAPER, EDGE, MUTED = "#2f3142", "#fbfaf7", "#d9d5cb", "#6b6d7d"
RED = "#b5452f"
FILLS = {"a": "#8fbf9f", "b": "#8fb3d9", "c": "#e9c46a", "x": "#e07a5f"}
SLOT, GAP, PAD = 30, 6, 10
NODE_HEIGHT = SLOT + 2 * PAD + 16


def text(x: float, y: float, words: str, *, size: int = 14, bold: bool = False, colour: str = INK) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}"{weight}>{words}</text>'


def swatch(x: float, y: float, fill: str, label: str) -> str:
    """A line of a legend: a coloured square and what it stands for."""
    return f'<rect x="{x}" y="{y}" width="14" height="14" fill="{fill}"/>\n{text(x + 20, y + 12, label, size=13)}'


def paragraph(x: float, y: float, *lines: str, size: int = 13) -> str:
    return "".join(text(x, y + 18 * number, line, size=size, colour=MUTED) for number, line in enumerate(lines))


def slot(x: float, y: float, mark: str) -> str:
    """One GPU. `.` is free, a letter is a gang's member; with `?` it is tentative, with `!` it has to go, with `~` it is promised."""
    gang, sign = mark[0], mark[1:]
    fill = {"": FILLS.get(gang, "#ffffff"), "!": FILLS["x"]}.get(sign, "#ffffff")
    dash = ' stroke-dasharray="4 3"' if sign in {"?", "~"} else ""
    stroke = FILLS[gang] if sign in {"?", "~"} else INK
    width = 2.5 if sign in {"?", "~"} else 1
    box = (
        f'<rect x="{x}" y="{y}" width="{SLOT}" height="{SLOT}" rx="5" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="{width}"{dash}/>'
    )
    if gang == ".":
        return box
    middle = f'x="{x + SLOT / 2}" y="{y + 20}" text-anchor="middle" font-size="14"'
    cross = f'<path d="M{x + 5} {y + 5}L{x + SLOT - 5} {y + SLOT - 5}" stroke="{RED}" stroke-width="2"/>'
    return f'{box}<text {middle} fill="{INK}">{gang.upper()}</text>' + (cross if sign == "!" else "")


def width_of(slots: str) -> int:
    return len(slots.split()) * (SLOT + GAP) - GAP + 2 * PAD


def node(x: float, y: float, name: str, slots: str) -> str:
    marks = slots.split()
    frame = f'<rect x="{x}" y="{y}" width="{width_of(slots)}" height="{NODE_HEIGHT}" rx="8" fill="#f1eee6" stroke="{EDGE}"/>'
    label = text(x + PAD, y + 17, name, size=12, colour=MUTED)
    return frame + label + "".join(slot(x + PAD + n * (SLOT + GAP), y + 24, mark) for n, mark in enumerate(marks))


def nodes(x: float, y: float, *rows: str) -> str:
    """A cluster: one row of slots for each node."""
    return "".join(node(x, y + n * (NODE_HEIGHT + 8), f"node {n + 1}", row) for n, row in enumerate(rows))


def arrow(x: float, y: float, to_x: float, to_y: float, *, colour: str = INK) -> str:
    return (
        f'<path d="M{x} {y}L{to_x} {to_y}" stroke="{colour}" stroke-width="1.8" fill="none" '
        f'marker-end="url(#{"red" if colour == RED else "head"})"/>'
    )


def picture(width: int, height: int, title: str, *parts: str) -> str:
    heads = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
        for name, colour in (("head", INK), ("red", RED))
    )
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="{FONT}" role="img" aria-label="{title}">'
    )
    ground = f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="12" fill="{PAPER}" stroke="{EDGE}"/>'
    return "\n".join([opening, f"<defs>{heads}</defs>", ground, *parts, "</svg>"]) + "\n"


# ------------------------------------------------------------------------------------------------ the pictures


def gang() -> str:
    workers = [f"w{number}" for number in range(8)]

    def row(y: int, filled: int, fill: str) -> str:
        cells = []
        for number, word in enumerate(workers):
            x, colour = 130 + number * 40, fill if number < filled else "#ffffff"
            cells.append(
                f'<rect x="{x}" y="{y}" width="34" height="34" rx="5" fill="{colour}" stroke="{INK}"/>'
                f'<text x="{x + 17}" y="{y + 22}" text-anchor="middle" font-size="13" fill="{INK}">{word}</text>'
            )
        return "".join(cells)

    return picture(
        760,
        262,
        "Eight workers on six GPUs: placed one by one, six wait and burn money; as a gang, none starts until all can",
        text(20, 30, "Eight workers, six GPUs", bold=True, size=17),
        text(20, 70, "one by one", bold=True),
        row(48, 6, FILLS["x"]),
        paragraph(
            130, 102, "6 hold a GPU and wait at their barrier for 2 that never come: paid for, and nothing computed"
        ),
        text(20, 148, "as a gang", bold=True),
        row(126, 0, FILLS["a"]),
        paragraph(130, 180, "0 of 8 start: nothing is held, and the group says why, in numbers"),
        text(20, 222, "+2 GPUs", bold=True),
        row(200, 8, FILLS["a"]),
        paragraph(466, 222, "8 of 8 start, by one decision"),
    )


def statement() -> str:
    def story(
        y: int, snapshot: tuple[str, str], tentative: tuple[str, str], after: tuple[str, str], colour: str
    ) -> str:
        return (
            nodes(24, y, *snapshot)
            + arrow(196, y + 60, 262, y + 60)
            + nodes(272, y, *tentative)
            + arrow(446, y + 60, 520, y + 60, colour=colour)
            + nodes(530, y, *after)
        )

    return picture(
        860,
        440,
        "A gang of four is placed tentatively; if all of its minimum fits it is committed, else everything is rolled back",
        text(24, 34, "1  snapshot", bold=True),
        text(272, 34, "2  in a statement", bold=True),
        text(530, 34, "3  ready: commit", bold=True),
        story(50, ("b b . .", ". . . ."), ("b b a? a?", "a? a? . ."), ("b b a a", "a a . ."), INK),
        paragraph(24, 212, "gang A needs 4 GPUs"),
        paragraph(272, 212, "places are only noted, each with its undo"),
        paragraph(698, 84, "4 of 4 fit: the plan", "becomes binds, all", "of them together"),
        text(530, 254, "3  not ready: drop", bold=True, colour=RED),
        story(270, ("b b b .", ". . b b"), ("b b b a?", "a? a? b b"), ("b b b .", ". . b b"), RED),
        paragraph(
            698,
            304,
            "3 of 4 fit: all is",
            "rolled back, bit for",
            "bit. Nothing is held;",
            "the reasons are kept",
            "for the group.",
        ),
    )


def attempts() -> str:
    def bar(y: int, label: str, slots: str, *lines: str) -> str:
        return (
            text(24, y + 44, label, bold=True)
            + node(150, y, "members of the gang", slots)
            + paragraph(484, y + 32, *lines)
        )

    return picture(
        860,
        392,
        "A commit that was cut short after five of eight binds is completed by the next cycle, or released whole after the grace time",
        bar(
            20,
            "10:00:00",
            "a a a a a . . .",
            "5 of 8 are bound; then the scheduler is killed.",
            "Each bound pod carries the id of the attempt.",
        ),
        arrow(310, 92, 310, 124),
        bar(
            130,
            "10:00:08",
            "a a a a a a? a? a?",
            "The next leader finds an attempt without a start.",
            "It places the missing 3 before anybody else,",
            "and the gang starts.",
        ),
        paragraph(150, 222, "or, where the missing 3 have no room any more:"),
        arrow(310, 232, 310, 256, colour=RED),
        bar(
            262,
            "10:00:30",
            "a! a! a! a! a! . . .",
            "After the grace time all members are released.",
            "No part of a gang keeps GPUs that it cannot use.",
        ),
        paragraph(
            24,
            366,
            "The grace time is --gang-grace, 30 seconds. A gang that has started once is never touched by this, whatever it loses later.",
        ),
    )


def claims() -> str:
    return picture(
        860,
        300,
        "Victims are evicted for a gang, a claim keeps their room until the gang has it, and a smaller gang cannot take it",
        text(24, 34, "1  plan", bold=True),
        nodes(24, 50, "c! c! c c", "c! c! b b"),
        paragraph(
            24,
            222,
            "A needs 4 at once and outranks C.",
            "Four victims are enough; the others",
            "are spared. Would A not start whole",
            "by it, nobody would be evicted.",
        ),
        arrow(196, 110, 298, 110),
        text(308, 34, "2  the victims leave", bold=True),
        nodes(308, 50, "a~ c! c c", "a~ a~ b b"),
        paragraph(
            308,
            222,
            "Evictions go through the API, so",
            "disruption budgets count. What is",
            "free already is claimed for A:",
            "a smaller gang cannot take it.",
        ),
        arrow(480, 110, 582, 110),
        text(592, 34, "3  A starts", bold=True),
        nodes(592, 50, "a a c c", "a a b b"),
        paragraph(
            592,
            222,
            "All four are bound by one decision,",
            "and the claim ends. It also ends",
            "when its time is up, so that no",
            "room is kept for ever.",
        ),
    )


def part(x: float, y: float, width: int, name: str, *lines: str, fill: str = "#f1eee6") -> str:
    """A package, and what it is in a few words."""
    frame = (
        f'<rect x="{x}" y="{y}" width="{width}" height="{42 + 16 * len(lines)}" rx="8" fill="{fill}" stroke="{EDGE}"/>'
    )
    words = "".join(text(x + 12, y + 44 + 16 * n, line, size=12, colour=MUTED) for n, line in enumerate(lines))
    return frame + text(x + 12, y + 25, name, bold=True) + words


def architecture() -> str:
    return picture(
        860,
        462,
        "Watch events flow through kube, cluster and scheduling to dispatch, which writes to the API server; controllers, "
        "webhooks and what people ask stand beside it",
        _stages(),
        _beside(),
    )


def _stages() -> str:
    shared = "Kubernetes' own, or the embedded one (local/apiserver): the only thing that all parts share"
    state = ("what is true now, in columns", "one writer: intake", "readers take snapshots")
    decisions = ("what should happen", "actions and plugins", "work in statements")
    back = "M762 220L762 286L304 286L304 224"
    return "\n".join(
        [
            part(24, 20, 812, "API server", shared),
            part(24, 130, 148, "kube", "list and watch", "into typed changes", "leases, events"),
            f'<rect x="196" y="116" width="452" height="126" rx="10" fill="#e9f1ea" stroke="{FILLS["a"]}"/>',
            text(440, 236, "pure: no I/O, no clock, no chance", size=12, colour=MUTED),
            part(208, 130, 192, "cluster", *state, fill=PAPER),
            part(444, 130, 192, "scheduling", *decisions, fill=PAPER),
            part(688, 130, 148, "dispatch", "binds whole gangs,", "evicts, tells;", "the only writer"),
            arrow(98, 79, 98, 128),
            text(106, 108, "watch", size=12, colour=MUTED),
            arrow(172, 160, 206, 160),
            arrow(400, 160, 442, 160),
            arrow(636, 160, 686, 160),
            arrow(762, 128, 762, 81),
            text(692, 108, "bind, evict", size=12, colour=MUTED),
            f'<path d="{back}" stroke="{INK}" stroke-width="1.8" fill="none" marker-end="url(#head)"/>',
            text(480, 303, "what became of it, as changes", size=12, colour=MUTED),
        ]
    )


def _beside() -> str:
    jobs = ("Jobs, groups, queues:", "objects in, operations", "out; plans are pure")
    rules = ("defaults, rules, who", "may submit: the pure", "rules of api")
    view = ("what a cycle saw and", "decided, for explain", "and programs; pure")
    people = ("which parts make up", "a process; what", "people type")
    machine = ("one machine: server,", "nodes that pretend,", "one that runs things")
    said = "Controllers, webhooks and nodes are clients of the API server like all others, and meet the scheduler only in its objects."
    return "\n".join(
        [
            part(24, 330, 153, "controllers", *jobs),
            part(189, 330, 153, "webhooks", *rules),
            part(354, 330, 152, "readmodel", *view, fill="#e9f1ea"),
            part(518, 330, 153, "processes, cli", *people),
            part(683, 330, 153, "local", *machine),
            paragraph(24, 444, said),
        ]
    )


def fragments() -> str:
    return picture(
        860,
        330,
        "Six GPUs are free in pieces, and a worker of four fits nowhere; the gang b starts again elsewhere, and four are free in one piece",
        text(24, 34, "1  free in pieces", bold=True),
        nodes(24, 50, "a a . .", "b . . .", "c c c ."),
        paragraph(24, 290, "6 GPUs free, none usable", "for a worker of 4"),
        arrow(196, 140, 262, 140),
        text(272, 34, "2  consolidate", bold=True),
        nodes(272, 50, "a a b~ .", "b! . . .", "c c c ."),
        paragraph(272, 290, "B may be moved, and has room elsewhere"),
        arrow(446, 140, 520, 140),
        text(530, 34, "3  in one piece", bold=True),
        nodes(530, 50, "a a b .", "x x x x", "c c c ."),
        paragraph(530, 290, "the worker of 4 starts; everybody runs"),
    )


PICTURES = {
    "fragments": fragments,
    "gang": gang,
    "statement": statement,
    "attempts": attempts,
    "claims": claims,
    "architecture": architecture,
}


def main() -> None:
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
