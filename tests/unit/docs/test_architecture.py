"""Every path that the page on the architecture names exists, and every package is in it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "pumice"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
# Between backticks: words with a slash, or the name of a file.
NAMED = sorted(
    {word for word in re.findall(r"`([\w./*-]+)`", PAGE) if "/" in word or re.search(r"\.(py|md|yaml|toml)$", word)}
)


def test_the_page_names_many_files():
    assert len(NAMED) > 70


@pytest.mark.parametrize("path", [path for path in NAMED if not path.startswith("/")])
def test_a_path_that_the_page_names_exists(path):
    assert any(any(folder.glob(path.rstrip("/"))) for folder in (ROOT, SOURCES)), path


def test_every_package_is_in_the_table():
    table = PAGE[PAGE.index("| package |") : PAGE.index("## One Job through the house")]
    packages = {path.stem for path in SOURCES.iterdir() if path.name[0] not in "_." and path.suffix in {"", ".py"}}
    rooms = {f"scheduling/{path.parent.name}" for path in SOURCES.glob("scheduling/*/__init__.py")}
    named = set(re.findall(r"`([\w/]+)`", table))
    assert (packages - {"scheduling"} | rooms) - named == set()


def test_every_word_has_one_line():
    words = re.findall(r"^\| ([a-z -]+) \| [A-Z]", PAGE[PAGE.index("## Words") :], re.MULTILINE)
    assert len(words) == len(set(words)) > 40
    assert words == sorted(words)
