"""Draws docs/pictures/gang.svg: the same eight workers on six GPUs, placed one by one and placed as a gang."""

from __future__ import annotations

from pathlib import Path

WIDTH, HEIGHT, BOX = 720, 250, 34
COLOURS = {"waits": "#f3f0ea", "burns": "#e07a5f", "free": "#ffffff", "runs": "#81b29a"}


def box(x: int, y: int, kind: str, text: str) -> str:
    colour = COLOURS[kind]
    return (
        f'<rect x="{x}" y="{y}" width="{BOX}" height="{BOX}" rx="5" fill="{colour}" stroke="#3d405b"/>'
        f'<text x="{x + BOX // 2}" y="{y + 22}" text-anchor="middle" font-size="13">{text}</text>'
    )


def row(x: int, y: int, kinds: list[str], texts: list[str]) -> str:
    pairs = zip(kinds, texts, strict=True)
    return "".join(box(x + index * (BOX + 6), y, kind, text) for index, (kind, text) in enumerate(pairs))


def text(x: int, y: int, words: str, *, bold: bool = False, size: int = 14) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" font-size="{size}"{weight}>{words}</text>'


def picture() -> str:
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" fill="#3d405b" '
            'role="img" aria-label="Eight workers on six GPUs: placed one by one, six wait and burn money; as a gang, none starts '
            'until all can">'
        ),
        text(20, 28, "Eight workers, six GPUs", bold=True, size=17),
        text(20, 62, "one by one", bold=True),
        row(130, 40, ["burns"] * 6 + ["waits"] * 2, [f"w{number}" for number in range(8)]),
        text(130, 96, "6 hold a GPU and wait at their barrier for 2 that never come: $15 an hour for nothing", size=13),
        text(20, 142, "as a gang", bold=True),
        row(130, 120, ["waits"] * 8, [f"w{number}" for number in range(8)]),
        text(130, 176, "0 of 8 start: nothing is held, and the group says why, in numbers", size=13),
        row(130, 196, ["runs"] * 8, [f"w{number}" for number in range(8)]),
        text(20, 218, "+2 GPUs", bold=True),
        text(462, 218, "8 of 8 start, by one decision", size=13),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("gang.svg").write_text(picture())
