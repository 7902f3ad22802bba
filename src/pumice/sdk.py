"""The stable surface for plugins that live outside of Pumice.

A plugin is a subclass of Plugin that registers in `open(session)`, published under the entry point group `pumice.plugins`:

    [project.entry-points."pumice.plugins"]
    quiet-hours = "quiet_hours:QuietHours"

and named in the policy file like any other. What is imported from here keeps its meaning between minor versions; what is not
may change. `docs/guides/writing-a-plugin.md` has a worked example.
"""

from pumice.api.core import ConfigMap
from pumice.api.kinds import Kind as ResourceKind
from pumice.api.meta import Object
from pumice.cluster.amounts import Amounts
from pumice.cluster.columns import Column, Mask, NodeTable
from pumice.cluster.queues import QueueInfo
from pumice.cluster.tasks import Status, Task
from pumice.instant import Duration, Instant
from pumice.scheduling.core.arguments import Args
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.gangstate import GangState, SubState
from pumice.scheduling.core.memory import Memory, Slot
from pumice.scheduling.core.plugin import Plugin, Watch
from pumice.scheduling.core.points import Bound, EvictionKind, Indexes, Points, Pull, Scores, Vote
from pumice.scheduling.core.policy import PluginOption, PolicyError
from pumice.scheduling.core.session import Session
from pumice.scheduling.core.shapes import Reads, Shape
from pumice.scheduling.core.verdict import Cure, Denial, Reason
from pumice.scheduling.evicting.victim_columns import VictimColumns, View
from pumice.scheduling.placing.placement import Pairs
from pumice.telemetry.catalogue import Metric, MetricKind

ENTRY_POINTS = "pumice.plugins"

__all__ = [
    "ENTRY_POINTS",
    "Amounts",
    "Args",
    "Bound",
    "Code",
    "Column",
    "ConfigMap",
    "Cure",
    "Denial",
    "Duration",
    "EvictionKind",
    "Facts",
    "GangState",
    "Indexes",
    "Instant",
    "Mask",
    "Memory",
    "Metric",
    "MetricKind",
    "NodeTable",
    "Object",
    "Pairs",
    "Plugin",
    "PluginOption",
    "Points",
    "PolicyError",
    "Pull",
    "QueueInfo",
    "Reads",
    "Reason",
    "ResourceKind",
    "Scores",
    "Session",
    "Shape",
    "Slot",
    "Status",
    "SubState",
    "Task",
    "VictimColumns",
    "View",
    "Vote",
    "Watch",
]
