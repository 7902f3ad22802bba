"""Pictures are made by scripts, and show nothing that the pages do not."""

import html
import re
import tomllib

import pytest
from tools.docs import logo, pictures, record, shown

from pumice import __version__

TUTORIAL = record.FOLDER.parent / "tutorial.md"


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_drawing_is_what_its_script_draws(name):
    assert (pictures.FOLDER / f"{name}.svg").read_text() == pictures.PICTURES[name]()


def written(name):
    """The lines of a recorded picture."""
    rows = {}
    for x, y, text in re.findall(
        r'<text x="([\d.]+)" y="(\d+)"[^>]*>([^<]*)</text>', (record.FOLDER / f"{name}.svg").read_text()
    ):
        cell = round((float(x) - record.PAD) / record.CELL)
        rows[int(y)] = rows.get(int(y), "").ljust(cell) + html.unescape(text)
    return [rows[y] for y in sorted(rows)]


@pytest.mark.parametrize("name", record.TITLES)
def test_a_recording_shows_the_commands_and_the_output_of_the_tutorial(name):
    steps = [
        part for part in shown.parts(TUTORIAL.read_text()) if isinstance(part, shown.Step) and part.picture == name
    ]
    known = shown.plain([line for step in steps for line in (f"$ {step.command}", *step.shown)])
    text = " ".join(known)
    lines = shown.plain(written(name))
    assert len(lines) > 10
    assert [line for line in lines if line.strip() not in text and not line.startswith(("#", "..."))] == []


def test_letters_keep_their_places_and_colours():
    rows = list(record._wrapped(record.Text.from_ansi("\x1b[31mred\x1b[0m plain")))
    [row] = rows
    assert [piece.text for piece in row] == ["red", " plain"]
    assert row[0].colour == "#e5767d"
    svg = record.drawn([row], "a & b")
    assert f'x="{record.PAD + 3 * record.CELL:.1f}"' in svg
    assert "a &amp; b" in svg


def test_a_line_wider_than_the_terminal_is_wrapped():
    rows = list(record._wrapped(record.Text("x" * (record.COLUMNS + 5))))
    assert [len(row[0].text) for row in rows] == [record.COLUMNS, 5]


def test_the_logo_is_what_the_tool_draws():
    assert (pictures.FOLDER / "logo.svg").read_text() == logo.draw()


def test_the_site_has_the_logo_both_schemes_and_the_version():
    project = tomllib.loads((pictures.FOLDER.parents[1] / "zensical.toml").read_text())["project"]
    theme = project["theme"]
    assert {theme["logo"], theme["favicon"]} == {"pictures/logo.svg"}
    assert {"default", "slate"} <= {each.get("scheme") for each in theme["palette"]}
    assert project["copyright"] == f"Pumice {__version__}"
    front = (pictures.FOLDER.parent / "index.md").read_text()
    assert [name for name in ("logo", "gang", "waiting", "evicted") if f"pictures/{name}.svg" not in front] == []
