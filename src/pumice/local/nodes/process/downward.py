"""The downward API: what a pod may ask about itself, for its environment and its files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pumice import quantity
from pumice.cluster import amounts
from pumice.errors import BadInput
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.api.meta import ResourceList
    from pumice.local.nodes.process.podspec import Container, ProcessPod, ResourceFieldSelector

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class Facts(Value):
    """What only the node knows of a pod."""

    host_ip: str
    pod_ip: str
    allocatable: ResourceList


def field(pod: ProcessPod, facts: Facts, path: str) -> str:
    """The text that a fieldRef stands for."""
    match = _SUBSCRIPT.fullmatch(path)
    if match:
        texts: Mapping[str, str] = getattr(pod.metadata, match.group(1))
        return texts.get(match.group(2), "")
    if path not in _FIELDS:
        raise BadInput(f"fieldPath {path!r} is not one that a pod may ask for; see the downward API's list of fields")
    return _FIELDS[path](pod, facts)


def _lines(texts: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={json.dumps(texts[key], ensure_ascii=False)}" for key in sorted(texts))


_FIELDS: Mapping[str, Callable[[ProcessPod, Facts], str]] = {
    "metadata.name": lambda pod, _: pod.metadata.name,
    "metadata.namespace": lambda pod, _: pod.metadata.namespace,
    "metadata.uid": lambda pod, _: pod.metadata.uid,
    "metadata.labels": lambda pod, _: _lines(pod.metadata.labels),
    "metadata.annotations": lambda pod, _: _lines(pod.metadata.annotations),
    "spec.nodeName": lambda pod, _: pod.spec.node_name,
    "spec.serviceAccountName": lambda pod, _: pod.spec.service_account_name,
    "status.hostIP": lambda _, facts: facts.host_ip,
    "status.hostIPs": lambda _, facts: facts.host_ip,
    "status.podIP": lambda _, facts: facts.pod_ip,
    "status.podIPs": lambda _, facts: facts.pod_ip,
}


def resource(pod: ProcessPod, own: Container, facts: Facts, selector: ResourceFieldSelector) -> str:
    """The number that a resourceFieldRef stands for, in its divisor's units and rounded up.

    A limit that was not set is what the node has, because that is all that the container could use.
    """
    container = _container(pod, own, selector.container_name)
    which, _, name = selector.resource.partition(".")
    if which not in {"limits", "requests"} or not name:
        raise BadInput(f"resource {selector.resource!r} is neither limits.<name> nor requests.<name>; correct it")
    amount = getattr(container.resources, which).get(name)
    if amount is None and which == "requests":
        amount = container.resources.limits.get(name)
    if amount is None:
        amount = facts.allocatable.get(name, "0") if which == "limits" else "0"
    divisor = selector.divisor if quantity.parse_milli(selector.divisor) else "1"
    if amounts.in_bytes(name):
        return str(-(-quantity.parse_value(amount) // quantity.parse_value(divisor)))
    return str(-(-quantity.parse_milli(amount) // quantity.parse_milli(divisor)))


def _container(pod: ProcessPod, own: Container, name: str) -> Container:
    if not name:
        return own
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        if container.name == name:
            return container
    raise BadInput(f"there is no container {name!r} whose resources could be asked for; correct containerName")
