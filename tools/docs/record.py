"""Records pictures of a terminal: runs a document with colours on, and draws the commands that it marks for a picture.

    python -m tools.docs.record docs/tutorial.md

What is drawn was printed just now by the commands themselves; long outputs are cut where the picture says so. The picture has its own dark
background, as terminals have, and uses no font that the reader may lack.
"""

from __future__ import annotations

import argparse
import dataclasses
import html
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tools.docs.shown import MAIN, Desk, File, Step, agrees, parts, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.color import Color
    from rich.style import Style

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
COLUMNS = 132
OUTPUT_LINES_MAX = 12
UNSHOWN = ("export ",)  # of a marked block, what would only fill the picture
SIZE, LINE, PAD, BAR = 13, 19, 20, 34
CELL = 7.8  # width of a letter at SIZE
INK, GROUND, FRAME, PROMPT, MUTED = "#d8dee9", "#1f2430", "#3b4252", "#a3be8c", "#7b88a1"
THEME = TerminalTheme(
    (31, 36, 48),
    (216, 222, 233),
    [(59, 66, 82), (229, 118, 125), (163, 190, 140), (235, 203, 139), (129, 161, 193), (180, 142, 173), (136, 192, 208), (216, 222, 233)],
    [(123, 136, 161), (229, 118, 125), (163, 190, 140), (235, 203, 139), (143, 188, 230), (190, 150, 185), (143, 208, 220), (236, 239, 244)],
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Piece:
    """Letters of one look."""

    text: str
    colour: str = INK
    bold: bool = False


Row = list[Piece]


def record(document: Path, folder: Path) -> dict[str, list[Row]]:
    """Run the document; gives the rows of each of its pictures."""
    pictures: dict[str, list[Row]] = {}
    with Desk(folder, colour=True) as desk:
        for part in parts(document.read_text()):
            if isinstance(part, File):
                desk.write(part)
            elif isinstance(part, Step):
                printed = desk.run(part)
                if not agrees(part.shown, printed):
                    raise SystemExit(
                        f"{document}, line {part.first}: the page is out of date; run tools.docs.shown --write first"
                    )
                if part.picture and not part.command.startswith(UNSHOWN):
                    pictures.setdefault(part.picture, []).extend(_rows(part, printed))
    return pictures


def _rows(step: Step, printed: Sequence[str]) -> Iterator[Row]:
    if step.terminal != MAIN:
        yield [Piece(f"# in the {step.terminal}", MUTED)]
    yield [Piece("$ ", PROMPT, bold=True), Piece(step.command, "#eceff4", bold=True)]
    for line in _cut(step, printed):
        yield from [[Piece(line, MUTED)]] if line.startswith("...") else _wrapped(Text.from_ansi(line))
    yield []


def _cut(step: Step, printed: Sequence[str]) -> Iterator[str]:
    """What was printed, as far as the page shows it and the picture has room; `...` stands for the rest."""
    lines = list(printed)
    if "..." in step.shown:
        wanted = [*plain(step.shown)]
        found = dict(zip(plain(lines), lines, strict=True))
        yield from (found.get(line, line) for line in wanted)
        return
    while lines and not lines[-1].strip():
        lines.pop()
    yield from lines[:OUTPUT_LINES_MAX]
    if len(lines) > OUTPUT_LINES_MAX:
        yield f"... {len(lines) - OUTPUT_LINES_MAX} more lines"


def _wrapped(line: Text) -> Iterator[Row]:
    """A line as a terminal of COLUMNS shows it."""
    console = Console(width=COLUMNS)
    if not line.plain:
        yield []
    for start in range(0, len(line.plain), COLUMNS):
        part = line[start : start + COLUMNS]
        yield [_piece(each.text, each.style) for each in part.render(console, end="") if each.text]


def _piece(text: str, style: Style | None) -> Piece:
    if style is None:
        return Piece(text)
    colour = _hex(style.color) if style.color is not None else (MUTED if style.dim else INK)
    return Piece(text, colour, bold=bool(style.bold))


def _hex(colour: Color) -> str:
    return colour.get_truecolor(THEME).hex


def drawn(rows: Sequence[Row], title: str) -> str:
    """The picture as SVG. Each piece has the width of its letters in cells, whatever font the reader has."""
    while rows and not rows[-1]:
        rows = rows[:-1]
    width, height = round(COLUMNS * CELL + 2 * PAD), BAR + len(rows) * LINE + PAD
    fonts = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="{fonts}" font-size="{SIZE}" role="img" aria-label="{html.escape(title)}">'
        ),
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10" fill="{GROUND}" stroke="{FRAME}"/>',
        *(
            f'<circle cx="{PAD + 16 * number}" cy="17" r="5" fill="{colour}"/>'
            for number, colour in enumerate(("#e5767d", "#ebcb8b", "#a3be8c"))
        ),
    ]
    for number, row in enumerate(rows):
        lines += _texts(row, BAR + number * LINE + SIZE)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _texts(row: Row, y: int) -> Iterator[str]:
    cell = 0
    for piece in row:
        if piece.text.strip():
            weight = ' font-weight="600"' if piece.bold else ""
            yield (
                f'<text x="{PAD + cell * CELL:.1f}" y="{y}" fill="{piece.colour}"{weight} xml:space="preserve" '
                f'textLength="{len(piece.text) * CELL:.1f}" lengthAdjust="spacingAndGlyphs">{html.escape(piece.text)}</text>'
            )
        cell += len(piece.text)


TITLES = {
    "waiting": "A gang of eight waits on six GPUs and says why; when a node joins, all eight run",
    "evicted": "An elastic gang gives two GPUs back, restarts whole and resumes from its checkpoint",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pumice-docs-") as folder:
        for name, rows in record(given.document, Path(folder)).items():
            (FOLDER / f"{name}.svg").write_text(drawn(rows, TITLES[name]))
            print(f"docs/pictures/{name}.svg: {len(rows)} lines")


if __name__ == "__main__":
    main()
