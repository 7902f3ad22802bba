"""Kinds of worlds: which faults there are, how likely, and how much goes on."""

from __future__ import annotations

from pumice.sim.worlds import policies
from pumice.sim.worlds.network import CALM, Rates
from pumice.values import Value

# What a mishap is about, by its name (mishaps.py has what it does).
SUBJECTS = {
    "kill-scheduler": "scheduler",
    "kill-leader": "leader",
    "kill-at": "leader",
    "kill-controllers": "controllers",
    "kill-controllers-at": "controllers",
    "kill-after-binds": "",
    "hold-binds": "",
    "stop-scheduler": "scheduler",
    "stop-leader": "leader",
    "stop-controllers": "controllers",
    "pause-leader": "leader",
    "pause-leader-at": "leader",
    "pause-controllers": "controllers",
    "cut-scheduler": "scheduler",
    "cut-controllers": "controllers",
    "skew": "scheduler",
    "skew-controllers": "controllers",
    "expire-watches": "scheduler",
    "restart-store": "",
    "disk-full": "",
    "node-down": "node",
    "node-flaps": "node",
    "node-gone": "node",
    "node-deleted": "node",
    "node-shrinks": "node",
    "node-cordoned": "node",
    "intruder": "node",
    "binds-refused": "node",
    "delete-job": "job",
    "recreate-job": "job",
    "delete-pod": "job",
    "scale-job": "job",
    "abort-job": "job",
    "edit-queue": "",
    "close-queue": "",
    "bad-job": "",
    "kill-webhooks": "",
    "cut-webhooks": "",
    "pause-webhooks": "",
    "delete-cron": "",
}
_PROCESSES = (
    "kill-scheduler",
    "kill-leader",
    "kill-at",
    "kill-at",
    "kill-controllers",
    "kill-controllers-at",
    "stop-scheduler",
    "pause-leader",
)
_ROLLOUT = ("stop-leader", "stop-leader", "stop-controllers")
_NODES = (
    "node-down",
    "node-flaps",
    "node-gone",
    "node-deleted",
    "node-shrinks",
    "node-cordoned",
    "intruder",
    "binds-refused",
)
_USERS = (
    "delete-job", "recreate-job", "delete-pod", "delete-pod", "scale-job", "abort-job", "edit-queue", "close-queue",
)  # fmt: skip
# In worlds with a CronJob, and with webhooks, one of these more.
CRON = ("delete-cron",)
STOPS = ("pause-leader-at",)  # and in some of those in which leaders are paused
WEBHOOKS = ("kill-webhooks", "cut-webhooks", "pause-webhooks", "bad-job", "bad-job")
NODES_AND_USERS = frozenset({*_NODES, *_USERS, *CRON, "bad-job"})
_STORE = ("restart-store", "disk-full")
_LINES = (
    "cut-scheduler", "cut-controllers", "pause-leader", "pause-controllers", "skew", "skew-controllers", "expire-watches",
)  # fmt: skip

STORM = Rates(
    refused=0.03, conflict=0.03, throttled=0.03, error=0.02, error_acted=0.02, lost=0.03, late=0.03, slow=0.05,
    gone=0.03, lag=0.15, twice=0.05, dropped=0.02, watch_s=25.0,
)  # fmt: skip
BREEZE = Rates(refused=0.01, conflict=0.01, lost=0.01, late=0.01, slow=0.02, lag=0.05, dropped=0.01, watch_s=60.0)


class Profile(Value):
    """`kinds` of mishaps, at most so many; the chances of faults; how many processes, jobs (one of these numbers) and members."""

    kinds: tuple[str, ...] = ()
    mishaps: int = 0
    rates: Rates = CALM
    schedulers: int = 1
    controllers: int = 1
    jobs: tuple[int, ...] = (2, 2, 2, 3, 3)
    members: int = 4
    faults_s: float = 24.0
    is_in_line: bool = False  # instead: one job runs, an important one waits for all, a small one fits beside the first
    early: float = 0.65  # mishaps begin in this part of the time in which things go wrong
    policy: str = ""  # the only one; without it any is drawn
    quiet: float = 0.1  # the chance that no call and no watch goes wrong, whatever else does


PROFILES = {
    "calm": Profile(),
    "storm": Profile(rates=STORM),
    "processes": Profile(kinds=_PROCESSES, mishaps=4, rates=BREEZE, schedulers=2),
    "rollout": Profile(kinds=_ROLLOUT, mishaps=3, schedulers=2, controllers=2),
    "successors": Profile(
        kinds=("kill-after-binds", "hold-binds"),
        mishaps=1,
        schedulers=2,
        early=0.12,
        is_in_line=True,
        policy=policies.IN_LINE,
    ),
    "lines": Profile(kinds=_LINES, mishaps=4, rates=BREEZE, schedulers=2),
    "nodes": Profile(kinds=_NODES, mishaps=4, rates=BREEZE, quiet=0.6),
    "refusals": Profile(kinds=("binds-refused",), mishaps=1, early=0.15),
    "reserved": Profile(kinds=_NODES, mishaps=1, jobs=(4, 5), policy=policies.RESERVING),
    "users": Profile(kinds=(*_USERS, "expire-watches"), mishaps=5, rates=BREEZE, quiet=0.5),
    "store": Profile(kinds=_STORE, mishaps=3, rates=BREEZE),
    "all": Profile(
        kinds=(*_PROCESSES, *_NODES, *_USERS, *_STORE, *_LINES), mishaps=6, rates=STORM, schedulers=2, controllers=2
    ),
}
