"""Plugins from outside, found by Python entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from pumice import sdk
from pumice.errors import BadInput
from pumice.scheduling import plugins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.sdk import Plugin


def plugins_from_outside() -> Mapping[str, type[Plugin]]:
    """All installed plugins by name; one that cannot be loaded, or takes a name of ours, is an error and not a surprise later."""
    found: dict[str, type[Plugin]] = {}
    for entry in sorted(entry_points(group=sdk.ENTRY_POINTS), key=lambda each: each.name):
        if entry.name in plugins.NAMES or entry.name in found:
            raise BadInput(f"plugin {entry.name} of {entry.value}: the name is taken; rename the entry point")
        try:
            loaded = entry.load()
        except Exception as error:
            raise BadInput(
                f"plugin {entry.name} of {entry.value} cannot be loaded: {error}; repair or uninstall it"
            ) from error
        if not isinstance(loaded, type) or not issubclass(loaded, sdk.Plugin):
            raise BadInput(
                f"plugin {entry.name} of {entry.value} is no subclass of pumice.sdk.Plugin; derive it from that, or uninstall it"
            )
        found[entry.name] = loaded
    return found
