"""The plugins, one file each. A new one is a file here and a line in this table; out-of-tree ones come by entry point."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pumice.scheduling.core import arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.scheduling.core.arguments import Args
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session

# Name in the policy file -> module and class.
NAMES: Mapping[str, tuple[str, str]] = {
    "binpack": ("binpack", "Binpack"),
    "capacity": ("capacity", "Capacity"),
    "cdp": ("cdp", "Cdp"),
    "conformance": ("conformance", "Conformance"),
    "deviceshare": ("deviceshare", "DeviceShare"),
    "drf": ("drf", "Drf"),
    "extender": ("extender", "Extender"),
    "gang": ("gang", "GangPlugin"),
    "network-topology-aware": ("network_topology_aware", "NetworkTopologyAware"),
    "nodegroup": ("nodegroup", "NodeGroup"),
    "nodeorder": ("nodeorder", "NodeOrder"),
    "numa-aware": ("numa_aware", "NumaAware"),
    "overcommit": ("overcommit", "Overcommit"),
    "pdb": ("pdb", "Pdb"),
    "predicates": ("predicates", "Predicates"),
    "priority": ("priority", "Priority"),
    "proportion": ("proportion", "Proportion"),
    "rescheduling": ("rescheduling", "Rescheduling"),
    "resource-strategy-fit": ("resource_strategy_fit", "ResourceStrategyFit"),
    "resourcequota": ("resourcequota", "ResourceQuotaPlugin"),
    "sla": ("sla", "Sla"),
    "task-topology": ("task_topology", "TaskTopology"),
    "tdm": ("tdm", "Tdm"),
    "usage": ("usage", "Usage"),
}


class Plugin(Protocol):
    """Made anew for every cycle from its arguments; registers what it has to say in `open`."""

    args_type: ClassVar[type[Args]]

    def __init__(self, args: Any, option: PluginOption) -> None: ...

    def open(self, session: Session) -> None: ...


def find(name: str, extra: Mapping[str, type[Plugin]]) -> type[Plugin]:
    """The class behind a name; `extra` are out-of-tree plugins, which may not take a name of ours."""
    if name in extra and name not in NAMES:
        return extra[name]
    module, attribute = NAMES[name]
    plugin: type[Plugin] = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    return plugin


def make(option: PluginOption, source: str, extra: Mapping[str, type[Plugin]]) -> Plugin:
    kind = find(option.name, extra)
    return kind(arguments.read(kind.args_type, option, source), option)
