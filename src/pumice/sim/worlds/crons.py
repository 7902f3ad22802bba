"""What must hold of CronJobs: one Job for one time, none beside another where that is forbidden, and no more kept than wanted."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.api import names
from pumice.api.batch import ConcurrencyPolicy, CronJob
from pumice.api.kinds import is_of_kind, type_meta
from pumice.sim.worlds.apiserver import START
from pumice.sim.worlds.story import CRON_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pumice.api.batch import Job
    from pumice.sim.worlds.story import CronPlan

KEPT_MAX = 2  # finished Jobs of each kind
OVER = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


class Crons:
    """Sees CronJobs and their Jobs."""

    def __init__(self) -> None:
        self.seen: dict[str, CronJob] = {}  # by uid: those that are there
        self.calls_arrive = (
            True  # at once or never: a call that is given up does not make, much later, what was made and is gone again
        )
        self._made: dict[tuple[str, str], str] = {}  # CronJob and time -> uid of the Job that was made for it
        self._latest: dict[str, str] = {}  # CronJob -> the latest time that a Job was made for

    def of(self, job: Job) -> str:
        """The uid of the CronJob that made it, if one did."""
        owner = job.metadata.controller
        return owner.uid if owner is not None and is_of_kind(owner, CronJob) else ""

    def see_job(self, job: Job, jobs: Mapping[str, Job], *, is_quiet: bool) -> Iterator[str]:
        """What is wrong with a Job that a CronJob has made."""
        owner, at, uid = self.of(job), job.metadata.annotations.get(names.CRONJOB_SCHEDULED_TIMESTAMP), job.metadata.uid
        # Of a CronJob that is gone, and that its controllers have not heard of, a Job is collected as soon as it is made, and may be made again.
        if owner not in self.seen or at is None or self._made.get((owner, at)) == uid:
            return
        if (owner, at) in self._made and self.calls_arrive:
            yield f"a second Job was made for {at}: {job.metadata.name}"
        self._made[owner, at] = uid
        self._latest[owner] = max(self._latest.get(owner, ""), at)
        cron = self.seen.get(owner)
        if is_quiet and cron is not None and cron.spec.concurrency_policy == ConcurrencyPolicy.FORBID:
            others = [each for each in jobs.values() if each.metadata.uid != uid and self.of(each) == owner]
            for other in others:
                if other.status.state.phase not in OVER and other.metadata.deletion_timestamp is None:
                    yield f"{job.metadata.name} was made beside {other.metadata.name}, which its CronJob forbids"

    def has_run_since(self, seconds: float) -> bool:
        """Whether every CronJob has made a Job for a time after that many seconds of the world."""
        since = instant.format_instant(START + round(seconds) * instant.SECOND)
        return all(self._latest.get(uid, "") > since for uid in self.seen)

    def wrong(self, jobs: Mapping[str, Job]) -> Iterator[str]:
        """What does not hold in the end, when nothing is made any more and everything has ended."""
        kept: collections.Counter[str] = collections.Counter(
            self.of(job) for job in jobs.values() if job.status.state.phase in OVER
        )
        running = {self.of(job) for job in jobs.values() if job.status.state.phase not in OVER}
        for uid, cron in self.seen.items():
            name = cron.metadata.name
            if cron.status.active and uid not in running:
                yield f"CronJob {name} says that {cron.status.active[0].name} runs, and nothing does"
            if kept[uid] > 2 * KEPT_MAX:
                yield f"CronJob {name} keeps {kept[uid]} Jobs that have ended"
            if (cron.status.last_schedule_time or "") != self._latest.get(uid, ""):
                told = cron.status.last_schedule_time
                yield f"CronJob {name} says that it last made a Job for {told}, and it was {self._latest.get(uid)}"
        for uid in {self.of(job) for job in jobs.values()} - {"", *self.seen}:
            yield f"Jobs of CronJob {uid} are there, which is not"


def manifest(plan: CronPlan, spec: dict[str, Any]) -> dict[str, Any]:
    """The CronJob of a plan, whose Jobs have that spec."""
    return {
        **type_meta(CronJob),
        "metadata": {"name": CRON_NAME},
        "spec": {
            "schedule": f"@every {plan.every_s}s",
            "concurrencyPolicy": plan.policy,
            "successfulJobsHistoryLimit": KEPT_MAX,
            "failedJobsHistoryLimit": KEPT_MAX,
            "jobTemplate": {"spec": spec},
        },
    }
