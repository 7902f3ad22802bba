"""The plugins, one file each. A new one is a file here and a line in this table; out-of-tree ones come by entry point.

Read `gang` (the smallest) and `priority` first. Which nodes: `predicates` and `nodegroup`. Which of them first: `nodeorder`, `binpack`,
`resource_strategy_fit`, `usage`. Shares of queues: `proportion` or `capacity`, `drf`, `fairshare`, `overcommit`, `resourcequota`,
`user_limits`. Places within the hardware: `deviceshare`, `numa_aware`, `network_topology_aware`, `task_topology`. Time: `reservation`,
`sla`, `tdm`, `cdp`, `rescheduling`. Limits of evictions: `conformance`, `pdb`, `eviction`.
`extender` asks a program of the operator's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling.core import arguments
from pumice.scheduling.plugins import (
    binpack,
    capacity,
    cdp,
    conformance,
    deviceshare,
    drf,
    eviction,
    extender,
    fairshare,
    fragmentation,
    gang,
    network_topology_aware,
    nodegroup,
    nodeorder,
    numa_aware,
    overcommit,
    pdb,
    predicates,
    priority,
    proportion,
    rescheduling,
    reservation,
    resource_strategy_fit,
    resourcequota,
    sla,
    task_topology,
    tdm,
    usage,
    user_limits,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import PluginOption, Policy

NAMES: Mapping[str, type[Plugin]] = {
    "binpack": binpack.Binpack,
    "capacity": capacity.Capacity,
    "cdp": cdp.Cdp,
    "conformance": conformance.Conformance,
    "deviceshare": deviceshare.DeviceShare,
    "drf": drf.Drf,
    "eviction": eviction.EvictionPlugin,
    "extender": extender.Extender,
    "fairshare": fairshare.Fairshare,
    "fragmentation": fragmentation.Fragmentation,
    "gang": gang.GangPlugin,
    "network-topology-aware": network_topology_aware.NetworkTopologyAware,
    "nodegroup": nodegroup.NodeGroup,
    "nodeorder": nodeorder.NodeOrder,
    "numa-aware": numa_aware.NumaAware,
    "overcommit": overcommit.Overcommit,
    "pdb": pdb.Pdb,
    "predicates": predicates.Predicates,
    "priority": priority.Priority,
    "proportion": proportion.Proportion,
    "rescheduling": rescheduling.Rescheduling,
    "reservation": reservation.ReservationPlugin,
    "resource-strategy-fit": resource_strategy_fit.ResourceStrategyFit,
    "resourcequota": resourcequota.ResourceQuotaPlugin,
    "sla": sla.Sla,
    "task-topology": task_topology.TaskTopology,
    "tdm": tdm.Tdm,
    "usage": usage.Usage,
    "user-limits": user_limits.UserLimitsPlugin,
}


def find(name: str, extra: Mapping[str, type[Plugin]]) -> type[Plugin]:
    """The class behind a name; `extra` are out-of-tree plugins, which may not take a name of ours."""
    return NAMES[name] if name in NAMES else extra[name]


def read(option: PluginOption, source: str, extra: Mapping[str, type[Plugin]]) -> arguments.Args:
    """The plugin's arguments as it takes them."""
    return arguments.read(find(option.name, extra).args_type, option, source)


def make(option: PluginOption, args: arguments.Args, extra: Mapping[str, type[Plugin]]) -> Plugin:
    return find(option.name, extra)(args, option)


def of_policy(policy: Policy, extra: Mapping[str, type[Plugin]]) -> list[type[Plugin]]:
    """The classes of a policy's plugins, in its order."""
    return [find(option.name, extra) for option in policy.options]
