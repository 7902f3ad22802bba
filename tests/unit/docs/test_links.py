"""Links lead somewhere, and every page can be reached from the site's navigation."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


def without_code(text):
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)


def headings(page):
    """The anchors of a page, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.+)$", without_code(page.read_text()), re.MULTILINE)
    raw = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)  # titles with code in them
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in [*titles, *raw]}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in headings(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_navigation():
    def listed(entries):
        for entry in entries:
            for value in entry.values():
                yield from listed(value) if isinstance(value, list) else [value]

    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.parent.name != "adr"}
    assert set(listed(nav)) == pages
