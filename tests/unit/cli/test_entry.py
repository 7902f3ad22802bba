"""What holds while a command's modules are imported."""

import gc
import importlib
import sys

import pytest

from pumice.cli.entry import importing


@pytest.fixture(autouse=True)
def as_before():
    yield
    gc.unfreeze()


def test_the_collector_rests_while_modules_are_imported_and_leaves_them_alone_afterwards(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with importing():
        assert not gc.isenabled()
        importlib.import_module("colorsys")
        alive = [[]]
    assert gc.isenabled()
    assert not any(each is alive for each in gc.get_objects())


def test_where_nothing_was_new_the_collector_looks_at_everything_as_before():
    with importing():
        alive = [[]]
    assert gc.isenabled()
    assert any(each is alive for each in gc.get_objects())
