"""Extension points: where plugins take part in a cycle, and how their answers combine.

Read `table` first: every point, what it is asked and when. `combination` has the rules by which answers of several plugins become
one, `nodes` the points with a rule of their own.
"""

from pumice.scheduling.core.points.combination import Bound, EvictionKind, TaskVictims, Vote
from pumice.scheduling.core.points.nodes import Beyond, Freed, Indexes, Pull, Reach, Scores, Shared
from pumice.scheduling.core.points.table import Points

__all__ = [
    "Beyond",
    "Bound",
    "EvictionKind",
    "Freed",
    "Indexes",
    "Points",
    "Pull",
    "Reach",
    "Scores",
    "Shared",
    "TaskVictims",
    "Vote",
]
