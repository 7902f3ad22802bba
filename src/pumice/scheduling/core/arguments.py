"""Plugin arguments: a mapping from the policy file into the plugin's own Args, or an error that names the argument."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from pumice.instant import DurationError, parse_duration
from pumice.scheduling.core.policy import PolicyError

if TYPE_CHECKING:
    from pumice.instant import Duration
    from pumice.scheduling.core.policy import PluginOption, Policy


class Args(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a plugin: one field each, named as in the policy file, with its default and description.

    Arguments with a free part in their name (`binpack.resources.<name>`) are collected in `named`, by the prefix that
    `PREFIXES` declares with its description.
    """

    PREFIXES: ClassVar[Mapping[str, str]] = {}
    NAMED: ClassVar[Any] = Any  # the type of each argument with a free part
    IGNORED: ClassVar[frozenset[str]] = frozenset()  # Volcano's files carry them, nothing reads them

    named: dict[str, Any] = msgspec.field(default_factory=dict, name="<named>")


A = TypeVar("A", bound=Args)
DURATIONS_KEPT_MAX = 256


def _argument_names(kind: type[Args]) -> frozenset[str]:
    """The names that the policy file may use."""
    return frozenset(kind.__struct_encode_fields__) - {"<named>"}


def read(kind: type[A], option: PluginOption, source: str) -> A:
    """The option's arguments as `kind`; quoted numbers and booleans count as what they say."""
    known = _argument_names(kind)
    fixed: dict[str, Any] = {}
    named: dict[str, Any] = {}
    for key, value in option.arguments.items():
        if key in known:
            fixed[key] = value
        elif any(key.startswith(prefix) for prefix in kind.PREFIXES):
            named[key] = _convert(value, kind.NAMED, f"policy {source}: plugin {option.name}: {key}")
        elif key not in kind.IGNORED:
            near = difflib.get_close_matches(key, known, n=1)
            advice = f"did you mean {near[0]}?" if near else f"it takes {', '.join(sorted(known)) or 'none'}"
            raise PolicyError(f"policy {source}: plugin {option.name}: unknown argument {key!r}; {advice}")
    return _convert({**fixed, "<named>": named}, kind, f"policy {source}: plugin {option.name}")


class ActionArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a policy file's `configurations` item that is named like an action."""


class CachingArgs(ActionArgs, frozen=True):
    """Of actions that Volcano lets remember why a node was refused; here equal pods are one shape, which is that memory."""

    error_cache: bool = msgspec.field(name="predicateErrorCacheEnable", default=True)


T = TypeVar("T")


def read_action(kind: type[T], policy: Policy, action: str) -> T:
    """The arguments of one action as `kind`."""
    return _convert(policy.configurations.get(action, {}), kind, f"policy {policy.source}: configurations: {action}")


def _convert(value: Any, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise PolicyError(f"{where}: {error}; correct that argument") from error


@functools.lru_cache(DURATIONS_KEPT_MAX)  # plugins are made anew in every cycle
def duration(name: str, text: str) -> Duration:
    """A duration longer than zero among the arguments; call it from `__post_init__`, where `read` names plugin and file."""
    try:
        found = parse_duration(text)
    except DurationError as error:
        raise ValueError(f"{name}: {error}") from error
    if found <= 0:
        raise ValueError(f"{name}: {text} is not longer than zero; write for example 90s or 1h30m")
    return found
