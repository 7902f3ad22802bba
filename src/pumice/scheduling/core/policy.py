"""The policy file: which actions run, and which plugins in which tiers decide. Volcano's format, read strictly.

    actions: "enqueue, allocate, backfill"
    tiers:
    - plugins:
      - name: priority
      - name: gang
        enablePreemptable: false
      - name: binpack
        arguments: {binpack.weight: 10}
    configurations:
    - name: preempt
      arguments: {enableTopologyAwarePreemption: true}
    breakDeadlocks: true
    deadlockGrace: 5m

The last two are Pumice's own; Volcano skips them. It skips whatever it does not understand; a typo there silently turns a guarantee off. Here it is an error that names the
place and the likely meaning, and a reload that fails leaves the last good policy in force.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pumice import instant, yamltext
from pumice.api.run_time import positive_duration
from pumice.errors import BadInput
from pumice.values import Value

POLICY_BYTES_MAX = 2**20
DEADLOCK_GRACE = 5 * instant.MINUTE  # a machine that went is often back by then, and an autoscaler has made another

# Flag of a plugin option -> its meaning when the file does not mention it. The mixed spelling is Volcano's.
FLAGS: Mapping[str, bool] = {
    "enableJobOrder": True,
    "enableHierarchy": False,
    "enableJobReady": True,
    "enableJobPipelined": True,
    "enableTaskOrder": True,
    "enablePreemptable": True,
    "enableReclaimable": True,
    "enablePreemptive": True,
    "enableQueueOrder": True,
    "enabledClusterOrder": False,
    "enablePredicate": True,
    "enableBestNode": True,
    "enableNodeOrder": True,
    "enableTargetJob": True,
    "enableReservedNodes": True,
    "enableJobEnqueued": True,
    "enabledVictim": True,
    "enableJobStarving": True,
    "enabledOverused": True,
    "enabledAllocatable": True,
    "enabledHyperNodeOrder": True,
    "enabledSubJobReady": True,
    "enabledSubJobPipelined": True,
    "enabledSubJobOrder": True,
    "enabledHyperNodeGradient": True,
}
# It is hard to remember which flags are spelt `enable` and which `enabled`, or how they are capitalised: all spellings count.
_FLAG_BY_STEM = {re.sub("^enabled?", "", flag.lower()): flag for flag in FLAGS}
_TOP_KEYS = ("actions", "tiers", "configurations", "metrics", "breakDeadlocks", "deadlockGrace")
_OPTION_KEYS = ("name", "arguments", *FLAGS)


def _spelling(key: str) -> str:
    """The flag that a key means, or the key itself."""
    stem = re.sub("^enabled?", "", key.lower())
    return _FLAG_BY_STEM.get(stem, key) if stem != key.lower() else key


class PolicyError(BadInput):
    """The policy file cannot be used; its text says where and what to write instead."""


class PluginOption(Value):
    """One plugin in one tier."""

    name: str
    tier: int
    arguments: Mapping[str, Any]
    flags: Mapping[str, bool]

    def allows(self, flag: str) -> bool:
        return self.flags.get(flag, FLAGS[flag])


class Policy(Value):
    """What a cycle runs. `source` names the file in messages."""

    actions: tuple[str, ...]
    options: tuple[PluginOption, ...]  # in tier order, then file order
    configurations: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    metrics: Mapping[str, str] = msgspec.field(default_factory=dict)
    source: str = "built-in policy"
    break_deadlocks: bool = False  # what holds while it waits has to leave where others would start by that
    deadlock_grace: instant.Duration = DEADLOCK_GRACE  # after so long

    def option(self, plugin: str) -> PluginOption | None:
        return next((option for option in self.options if option.name == plugin), None)


def parse(text: str | bytes, *, source: str, actions: Sequence[str], plugins: Sequence[str]) -> Policy:
    """The policy in `text`, or PolicyError; `actions` and `plugins` are the names that exist."""
    if len(text) > POLICY_BYTES_MAX:
        raise PolicyError(f"policy {source}: larger than {POLICY_BYTES_MAX} bytes; this cannot be a policy file")
    documents = yamltext.load_all(text, source=source)
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        raise PolicyError(
            f"policy {source}: expected one YAML mapping with actions and tiers, found {len(documents)} documents"
        )
    return _Reader(source, actions, plugins).read(documents[0])


class _Reader:
    def __init__(self, source: str, actions: Sequence[str], plugins: Sequence[str]) -> None:
        self.source = source
        self.actions = actions
        self.plugins = plugins

    def fail(self, where: str, cause: str) -> PolicyError:
        return PolicyError(f"policy {self.source}: {where}: {cause}")

    def read(self, document: Mapping[str, Any]) -> Policy:
        self._check_keys(document, _TOP_KEYS, "top level")
        options = tuple(self._options(document.get("tiers")))
        self._check_conflicts(options)
        metrics = document.get("metrics") or {}
        if not isinstance(metrics, Mapping):
            raise self.fail("metrics", "expected a mapping")
        return Policy(
            actions=self._actions(document.get("actions")),
            options=options,
            configurations=self._configurations(document.get("configurations")),
            metrics={str(key): str(value) for key, value in metrics.items()},
            source=self.source,
            break_deadlocks=self._break_deadlocks(document.get("breakDeadlocks", False)),
            deadlock_grace=self._grace(document.get("deadlockGrace")),
        )

    def _break_deadlocks(self, written: Any) -> bool:
        if not isinstance(written, bool):
            raise self.fail("breakDeadlocks", f"expected true or false, not {written!r}")
        return written

    def _grace(self, written: Any) -> instant.Duration:
        try:
            return DEADLOCK_GRACE if written is None else positive_duration(str(written))
        except instant.DurationError as error:
            raise self.fail("deadlockGrace", str(error)) from error

    def _actions(self, written: Any) -> tuple[str, ...]:
        if not isinstance(written, str) or not written.strip():
            raise self.fail("actions", 'expected one string such as "enqueue, allocate, backfill"')
        found = tuple(name.strip() for name in written.split(","))
        for name in found:
            self._choose(name, self.actions, "actions", "action")
        return found

    def _options(self, tiers: Any) -> list[PluginOption]:
        if not isinstance(tiers, list):
            raise self.fail("tiers", "expected a list of tiers, each with plugins")
        options: list[PluginOption] = []
        for number, tier in enumerate(tiers):
            where = f"tiers[{number}]"
            if not isinstance(tier, Mapping) or not isinstance(tier.get("plugins") or [], list):
                raise self.fail(where, "expected a mapping with a list of plugins")
            self._check_keys(tier, ("plugins",), where)
            options += [
                self._option(option, number, f"{where}.plugins[{place}]")
                for place, option in enumerate(tier.get("plugins") or [])
            ]
        for option in options:
            if sum(other.name == option.name for other in options) > 1:
                raise self.fail("tiers", f"plugin {option.name} is listed twice; keep the one whose tier you mean")
        return options

    def _option(self, written: Any, tier: int, where: str) -> PluginOption:
        if not isinstance(written, Mapping) or not isinstance(written.get("name"), str):
            raise self.fail(where, "expected a mapping with a name")
        name = written["name"]
        spelt = [_spelling(str(key)) for key in written]
        written = dict(zip(spelt, written.values(), strict=True))
        if len(written) < len(spelt):
            twice = next(key for key in spelt if spelt.count(key) > 1)
            raise self.fail(where, f"{twice} is given twice, in two spellings; keep one")
        self._choose(name, self.plugins, where, "plugin")
        where = f"{where} ({name})"
        self._check_keys(written, _OPTION_KEYS, where)
        arguments = written.get("arguments") or {}
        if not isinstance(arguments, Mapping):
            raise self.fail(where, "arguments: expected a mapping")
        flags = {flag: written[flag] for flag in FLAGS if written.get(flag) is not None}
        for flag, value in flags.items():
            if not isinstance(value, bool):
                raise self.fail(where, f"{flag}: expected true or false, not {value!r}")
        return PluginOption(name, tier, {str(key): value for key, value in arguments.items()}, flags)

    def _configurations(self, written: Any) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        if not isinstance(written or [], list):
            raise self.fail("configurations", "expected a list of actions with arguments")
        for place, item in enumerate(written or []):
            where = f"configurations[{place}]"
            if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
                raise self.fail(where, "expected a mapping with the name of an action")
            self._check_keys(item, ("name", "arguments"), where)
            self._choose(item["name"], self.actions, where, "action")
            arguments = item.get("arguments") or {}
            if not isinstance(arguments, Mapping):
                raise self.fail(where, "arguments: expected a mapping")
            found.setdefault(item["name"], {str(key): value for key, value in arguments.items()})
        return found

    def _check_conflicts(self, options: Sequence[PluginOption]) -> None:
        tiers_of = {option.name: option.tier for option in options}
        for option in options:
            if option.name == "drf" and option.allows("enableHierarchy") and tiers_of.get("proportion") == option.tier:
                raise self.fail(
                    f"tiers[{option.tier}]",
                    "proportion and drf with hierarchy enabled conflicts; move one to another tier",
                )

    def _check_keys(self, mapping: Mapping[str, Any], known: Sequence[str], where: str) -> None:
        for key in mapping:
            self._choose(str(key), known, where, "key")

    def _choose(self, name: str, known: Sequence[str], where: str, what: str) -> None:
        if name in known:
            return
        near = difflib.get_close_matches(name, known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
        raise self.fail(where, f"unknown {what} {name!r}; {advice}")
