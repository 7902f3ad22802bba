"""A container's environment, by a kubelet's rules.

envFrom first and in order, then env, each of which may refer to what stands before it as $(NAME); the command and its
arguments may refer to all of it. Values may be secret: nothing here puts one into a message.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pumice.local.nodes.process import downward
from pumice.local.nodes.process.sources import MissingSource
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.local.nodes.process.downward import Facts
    from pumice.local.nodes.process.podspec import Container, EnvFromSource, EnvVarSource, KeySelector, ProcessPod
    from pumice.local.nodes.process.sources import Content, PodSources

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


class Asking(Value):
    """Who asks: one container of a pod, with what its node knows and where its sources are."""

    pod: ProcessPod
    container: Container
    facts: Facts
    sources: PodSources


async def compute(asking: Asking, given: Mapping[str, str]) -> dict[str, str]:
    """The whole environment, on top of what this node gives to every container."""
    env = dict(given)
    for source in asking.container.env_from:
        for key, value in (await _all_of(asking, source)).items():
            name = f"{source.prefix}{key}"
            if name and "=" not in name and b"\0" not in value:
                env[name] = _text(value)
    for variable in asking.container.env:
        if variable.value_from is None:
            env[variable.name] = expand(variable.value, env)
        elif (value_from := await _one_of(asking, variable.value_from)) is not None:
            env[variable.name] = value_from
    return env


def expand(text: str, env: Mapping[str, str]) -> str:
    """$(NAME) becomes its value; one that is not known stays as it is, and $$ is a dollar sign."""

    def replaced(match: re.Match[str]) -> str:
        return "$" if match.group(1) else env.get(match.group(2), match.group(0))

    return _REFERENCE.sub(replaced, text)


async def _all_of(asking: Asking, source: EnvFromSource) -> Content:
    content: Content = {}
    if (reference := source.config_map_ref) is not None:
        content |= await asking.sources.config_map(reference.name, optional=reference.optional) or {}
    if (reference := source.secret_ref) is not None:
        content |= await asking.sources.secret(reference.name, optional=reference.optional) or {}
    return content


async def _one_of(asking: Asking, source: EnvVarSource) -> str | None:
    """The variable's value; None if it is optional and not there, and then there is no such variable."""
    if source.field_ref is not None:
        return downward.field(asking.pod, asking.facts, source.field_ref.field_path)
    if source.resource_field_ref is not None:
        return downward.resource(asking.pod, asking.container, asking.facts, source.resource_field_ref)
    if (key := source.config_map_key_ref) is not None:
        return _value_of_key(await asking.sources.config_map(key.name, optional=key.optional), key, asking, "ConfigMap")
    if (key := source.secret_key_ref) is not None:
        return _value_of_key(await asking.sources.secret(key.name, optional=key.optional), key, asking, "Secret")
    return None


def _value_of_key(content: Content | None, key: KeySelector, asking: Asking, kind: str) -> str | None:
    if content is not None and key.key in content:
        return _text(content[key.key])
    if key.optional:
        return None
    raise MissingSource(f"couldn't find key {key.key} in {kind} {asking.pod.metadata.namespace}/{key.name}")


def _text(value: bytes) -> str:
    """Bytes that are no UTF-8 reach the process as they are."""
    return value.decode("utf-8", errors="surrogateescape")
