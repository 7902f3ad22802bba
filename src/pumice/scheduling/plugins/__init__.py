"""The plugins, one file each. A new one is a file here and a line in this table; out-of-tree ones come by entry point.

Read `gang` (the smallest) and `priority` first. Which nodes: `predicates` and `nodegroup`. Which of them first: `nodeorder`, `binpack`,
`resource_strategy_fit`, `usage`. Shares of queues: `proportion` or `capacity`, `drf`, `overcommit`, `resourcequota`. Places within the hardware: `deviceshare`,
`numa_aware`, `network_topology_aware`, `task_topology`. Time: `sla`, `tdm`, `cdp`, `rescheduling`. Limits of evictions: `conformance`, `pdb`.
`extender` asks a program of the operator's.
"""

from __future__ import annotations

import dataclasses
import importlib
import operator
from typing import TYPE_CHECKING, Any, ClassVar

from pumice.scheduling.core import arguments
from pumice.scheduling.core.arguments import Args

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import msgspec

    from pumice.api.meta import Struct
    from pumice.instant import Instant
    from pumice.scheduling.core.memory import Slot
    from pumice.scheduling.core.policy import PluginOption, Policy
    from pumice.scheduling.core.session import Session
    from pumice.telemetry.catalogue import Metric

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


@dataclasses.dataclass(frozen=True, slots=True)
class Watch:
    """A kind that a plugin reads, by `session.snapshot.objects(kind)`. Its informer and the right to list it follow from this.

    `concerns` is asked about news of such an object, as it was and as it is (None: not there): whether to plan again for it.
    """

    kind: type[Struct]
    concerns: Callable[[Any, Any], bool] = operator.ne


class Plugin:
    """Made anew for every cycle from its arguments; registers what it has to say in `open`. All else has a default.

    What a plugin depends on beside the snapshot it declares: nothing else can change its mind.
    """

    args_type: ClassVar[type[Args]] = Args
    watches: ClassVar[tuple[Watch, ...]] = ()
    memory: ClassVar[Slot[Any] | None] = None  # what it knows of earlier cycles: `session.memory.of(slot)`
    essential: ClassVar[bool] = False  # it protects something: where it fails as such, nothing is started or evicted
    metrics: ClassVar[tuple[Metric, ...]] = ()  # gauges; `session.publish` sets them

    def __init__(self, args: Any, option: PluginOption) -> None:
        """Most plugins keep some of their arguments."""

    def open(self, session: Session) -> None:
        raise NotImplementedError

    def next_change(self, session: Session) -> Instant | None:
        """After the last action: when the clock alone may change what the plugin says; None where it cannot."""
        del session
        return None

    def learn(self, session: Session) -> msgspec.Struct | None:
        """After the last action: the next value of the plugin's memory; None leaves it as it is."""
        del session
        return None


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


def of_policy(policy: Policy, extra: Mapping[str, type[Plugin]]) -> list[type[Plugin]]:
    """The classes of a policy's plugins, in its order."""
    return [find(option.name, extra) for option in policy.options]
