"""The policy file while the scheduler runs: read again when it changes, checked as a whole, and the last good one kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pumice import files
from pumice.errors import BadInput, PumiceError
from pumice.processes.extender_client import extender_of
from pumice.processes.load_settings import settings_of
from pumice.scheduling import plugins
from pumice.scheduling.core import builtin
from pumice.scheduling.core.build_decisions import OWN_MEMORY
from pumice.scheduling.core.policy import POLICY_BYTES_MAX, PolicyError
from pumice.telemetry import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.clock import Clock
    from pumice.runtime import Log
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import Policy

LOOK_S = 1.0  # a ConfigMap's files are swapped by the kubelet about once a minute: looking is cheaper than watching


def parse_policy(text: str | bytes, source: str, extra: Mapping[str, type[Plugin]]) -> Policy:
    """The policy in the text, with every plugin's arguments and every address understood; raises for anything else."""
    policy = builtin.parse(text, source, extra=extra)
    for option in policy.options:
        plugins.make(option, plugins.read(option, policy.source, extra), extra)
    extender_of(policy)
    settings_of(policy)
    _check_declarations(policy, extra)
    return policy


def _check_declarations(policy: Policy, extra: Mapping[str, type[Plugin]]) -> None:
    """No two plugins have the same memory or the same metric, and none has ours."""
    slots = {slot.name: "the scheduler" for slot, _ in OWN_MEMORY}
    metrics = {metric.name: "the scheduler" for metric in (*catalogue.VOLCANO, *catalogue.PUMICE)}
    for option in policy.options:
        plugin = plugins.find(option.name, extra)
        names = [(slots, "memory slot", plugin.memory.name)] if plugin.memory is not None else []
        names += [(metrics, "metric", metric.name) for metric in plugin.metrics]
        for taken, what, name in names:
            if name in taken:
                raise PolicyError(
                    f"policy {policy.source}: plugin {option.name}: its {what} {name} is that of {taken[name]} already; rename it in the plugin"
                )
            taken[name] = option.name


class PolicyFile:
    """`current` is always a policy that can be used; `refused` says what is wrong with the file as it is now."""

    def __init__(self, path: str | None, *, extra: Mapping[str, type[Plugin]], log: Log) -> None:
        self._path = Path(path) if path is not None else None
        self._extra = extra
        self._log = log
        self._text = self._read()
        self.current: Policy = self._parse(self._text)
        self.refused = ""

    def _read(self) -> bytes:
        if self._path is None:
            return builtin.TEXT.encode()
        try:
            return files.read(self._path, POLICY_BYTES_MAX)
        except OSError as error:
            raise BadInput(
                f"policy {self._path}: cannot be read: {error.strerror}; check the name and your rights"
            ) from error

    def _parse(self, text: bytes) -> Policy:
        return parse_policy(text, str(self._path or "built-in policy"), self._extra)

    def look(self) -> bool:
        """Read the file again if it changed; True where a new policy is in force."""
        try:
            text = self._read()
            if text == self._text:
                return False
            self._text = text
            self.current = self._parse(text)
        except PumiceError as error:
            if str(error) != self.refused:
                self.refused = str(error)
                self._log("policy_refused", error=str(error), still="the last good policy is in force")
            return False
        self.refused = ""
        self._log("policy_loaded", path=str(self._path), actions=self.current.actions)
        return True

    async def run(self, clock: Clock, tell: Callable[[str], None]) -> None:
        """Look for changes until cancelled; `tell` hears each refusal, and an empty text when the file is good again."""
        told = ""
        while True:
            await clock.sleep(LOOK_S)
            self.look()
            if self.refused != told:
                told = self.refused
                tell(told)
