"""What becomes of a cycle in which a plugin raises: it is planned again without the gang, or without the plugin, that it broke on.

A plan is pure, so planning again from the start is safe: nothing of the broken attempt is left, and no gang is ever in it by half.
An error during one gang's turn sets that gang aside for the cycle. An error outside of any turn, or in the turns of too many gangs,
sets the plugin aside. A plugin that protects something (`essential`: quotas, filters, gangs themselves) is not done without:
then the cycle starts and evicts nothing, and says why.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import msgspec

from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

GANGS_ASIDE_MAX = 8  # on more gangs than these one plugin fails as such
PLANS_MAX = 32  # of one cycle; with a plugin that fails on every gang, each of its gangs costs one
TEXT_CHARS_MAX = 200


class BadAnswer(TypeError):
    """A plugin returned what it may not; found only after its call, so that no frame of it is on the way to the error."""

    def __init__(self, plugin: object, text: str) -> None:
        super().__init__(f"{type(plugin).__name__} {text}")
        self.module = type(plugin).__module__


class Failure(Value):
    """A plugin (or, where none was on the way, the engine itself) raised, in the turn of this gang or of none."""

    plugin: str
    gang: str
    error: str
    trace: str

    @property
    def reason(self) -> Reason:
        return Reason(Code.PLUGIN_FAILED, self.plugin, Facts(name=self.plugin, text=self.error), cure=Cure.CHANGE)


class Aside(Value):
    """What this cycle is planned without."""

    gangs: Mapping[str, Failure] = msgspec.field(default_factory=dict)
    plugins: Mapping[str, Failure] = msgspec.field(default_factory=dict)

    @property
    def failures(self) -> tuple[Failure, ...]:
        return (*self.gangs.values(), *self.plugins.values())

    def after(self, failure: Failure) -> Aside | None:
        """What to leave out next; None where there is nothing left to do without."""
        of_plugin = sum(each.plugin == failure.plugin for each in self.gangs.values())
        if failure.gang and failure.gang not in self.gangs and of_plugin < GANGS_ASIDE_MAX:
            return msgspec.structs.replace(self, gangs={**self.gangs, failure.gang: failure})
        if failure.plugin and failure.plugin not in self.plugins:
            return msgspec.structs.replace(self, plugins={**self.plugins, failure.plugin: failure})
        return None


NOTHING_ASIDE = Aside()


def failure_of(error: Exception, gang: str, modules: Mapping[str, str]) -> Failure:
    """`modules` are the names of the policy's plugins by the module that each is defined in."""
    text = f"{type(error).__name__}: {error}"[:TEXT_CHARS_MAX]
    plugin = modules.get(error.module, "") if isinstance(error, BadAnswer) else _culprit(error.__traceback__, modules)
    return Failure(plugin, gang, text, "".join(traceback.format_exception(error)))


def _culprit(trace: TracebackType | None, modules: Mapping[str, str]) -> str:
    """The plugin that was called last on the way to the error; empty where none was."""
    found = ""
    while trace is not None:
        found = modules.get(trace.tb_frame.f_globals.get("__name__", ""), found)
        trace = trace.tb_next
    return found
