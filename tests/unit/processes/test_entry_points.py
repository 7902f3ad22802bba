from importlib.metadata import EntryPoint

import pytest

from pumice.errors import BadInput
from pumice.processes import entry_points


def installed(monkeypatch, *entries):
    points = [EntryPoint(name=name, value=value, group="pumice.plugins") for name, value in entries]
    monkeypatch.setattr(entry_points, "entry_points", lambda group: points if group == "pumice.plugins" else [])


def test_plugins_are_found_by_entry_point(monkeypatch):
    installed(monkeypatch, ("mine", "pumice.scheduling.plugins.binpack:Binpack"))
    assert entry_points.plugins_from_outside()["mine"].__name__ == "Binpack"


def test_a_name_of_ours_cannot_be_taken(monkeypatch):
    installed(monkeypatch, ("gang", "pumice.scheduling.plugins.binpack:Binpack"))
    with pytest.raises(BadInput, match=r"plugin gang of .*: the name is taken; rename the entry point"):
        entry_points.plugins_from_outside()


def test_a_plugin_that_cannot_be_loaded_is_named(monkeypatch):
    installed(monkeypatch, ("mine", "no_such_module:Plugin"))
    with pytest.raises(BadInput, match="plugin mine of no_such_module:Plugin cannot be loaded: No module named"):
        entry_points.plugins_from_outside()


def test_what_is_no_plugin_is_refused(monkeypatch):
    installed(monkeypatch, ("mine", "json:dumps"))
    with pytest.raises(BadInput, match=r"is no subclass of pumice\.sdk\.Plugin"):
        entry_points.plugins_from_outside()
