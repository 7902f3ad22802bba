"""day-limit: at most so many gangs are admitted in a day. The number stands in a ConfigMap, and a restart forgets nothing."""

from __future__ import annotations

import msgspec

from pumice import sdk

DAY = 24 * 3600 * 10**9  # instants are nanoseconds since 1970, UTC


class Admitted(msgspec.Struct, frozen=True):
    """How many gangs were admitted on which day since 1970."""

    day: int = 0
    gangs: int = 0


ADMITTED = sdk.Slot("day-limit", Admitted, persistent=True)
LEFT = sdk.Metric("day_limit_left_gangs", sdk.MetricKind.GAUGE, "Gangs that may still be admitted today.")


def is_meant(was: sdk.ConfigMap | None, now: sdk.ConfigMap | None) -> bool:
    """Of all ConfigMaps that come, change and go, only those are news to plan for."""
    return any(each is not None and each.metadata.name == "day-limit" for each in (was, now))


class DayLimit(sdk.Plugin):
    """Refuses further gangs once the day's number is reached; without the ConfigMap there is no limit."""

    watches = (sdk.Watch(sdk.ConfigMap, concerns=is_meant),)
    memory = ADMITTED
    metrics = (LEFT,)

    def open(self, session: sdk.Session) -> None:
        known, self.today = session.memory.of(ADMITTED), session.now // DAY
        self.admitted = known.gangs if known.day == self.today else 0
        settings = session.snapshot.objects(sdk.ConfigMap).get("kube-system/day-limit")
        limit = settings.data.get("gangs", "") if settings is not None else ""
        self.left = int(limit) - self.admitted if limit.isdecimal() else None
        session.on.enqueueable(self.vote)
        session.on.enqueued(self.count)

    def vote(self, gang: sdk.GangState) -> sdk.Vote | sdk.Reason:
        if self.left is None or self.left > 0:
            return sdk.Vote.ABSTAIN
        return sdk.Reason(sdk.Code.PLUGIN, "day-limit", sdk.Facts(text="no more gangs today"), cure=sdk.Cure.WAITING)

    def count(self, gang: sdk.GangState) -> None:
        self.admitted += 1
        self.left = None if self.left is None else self.left - 1

    def learn(self, session: sdk.Session) -> Admitted:
        session.publish(LEFT, float("inf") if self.left is None else self.left)
        return Admitted(self.today, self.admitted)

    def next_change(self, session: sdk.Session) -> sdk.Instant | None:
        return None if self.left is None else (self.today + 1) * DAY
