"""What operators may set of the controllers, under the names that Volcano's users know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice.api.scheduling import SCHEDULER_NAMES
from pumice.controllers.job.dead_nodes import SILENCE
from pumice.controllers.job.repair_rounds import RESTORE_S_MIN
from pumice.errors import BadInput
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.instant import Duration
    from pumice.record.settings import RecordSettings

# Volcano's name of each controller, and ours; the last one is Pumice's own.
NAMES = {
    "job-controller": "job",
    "pg-controller": "podgroup",
    "queue-controller": "queue",
    "cronjob-controller": "cronjob",
    "jobflow-controller": "jobflow",
    "jobtemplate-controller": "jobtemplate",
    "gc-controller": "garbage",
    "hyperNode-controller": "hypernode",
    "timelimit-controller": "timelimit",
}
# Volcano's that we do not have: they may be named, so that its command lines work, and nothing is started for them.
ABSENT = frozenset({"colocation-config-controller", "sharding-controller"})
WORKERS_MAX = 256


class ControllerSettings(Value):
    scheduler_names: frozenset[str] = frozenset(SCHEDULER_NAMES)  # whose pods get PodGroups
    inherits_annotations: bool = True  # PodGroups of pods take over what their workloads say
    enabled: frozenset[str] = frozenset(NAMES.values())
    workers: Mapping[str, int] = msgspec.field(default_factory=dict)  # by our name; the driver's default otherwise
    silence: Duration = SILENCE  # after which pods on silent nodes are given up
    restore_s: float = RESTORE_S_MIN  # how often plugins' objects are looked for
    record: RecordSettings | None = None  # where what happened is kept; None: nowhere
    prices: Mapping[str, float] = msgspec.field(default_factory=dict)  # dollars per hour: a card, a core, a GiB


def enabled(text: str) -> frozenset[str]:
    """Which controllers a list names: `*` for all, `name` or `+name` for one, `-name` for all but one. The first word on each counts."""
    said: dict[str, bool] = {}
    every_other = False
    for word in filter(None, (part.strip() for part in text.split(","))):
        name = word.lstrip("+-")
        if word == "*":
            every_other = True
        elif name not in NAMES and name not in ABSENT:
            raise BadInput(f"--controllers: there is no controller {name!r}; choose of *, {', '.join(NAMES)}")
        elif name in said:
            raise BadInput(f"--controllers: {name!r} is named twice; name it once")
        else:
            said[name] = not word.startswith("-")
    return frozenset(ours for name, ours in NAMES.items() if said.get(name, every_other))
