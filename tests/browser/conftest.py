"""Needs Chromium (Debian's, or the one that $CHROMIUM names) and Playwright; `make test-browser` installs both."""

import pathlib

import pytest
from tests.browser.stage import CHROMIUM

PICTURES = pathlib.Path(__file__).parents[2] / "build" / "pictures"


def pytest_collection_modifyitems(items):
    missing = _missing()
    for item in items:
        if missing and pathlib.Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=missing))


def _missing():
    if CHROMIUM is None:
        return "no Chromium on this machine: `make test-browser` installs it"
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "no Playwright in this environment: `make test-browser` installs it"
    return ""


@pytest.fixture
def pictures():
    """Where screenshots go: looked at by people, kept as build output."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    return PICTURES
