"""What was last said of each gang, compared as data: a topic stays equal while nothing but numbers changes.

Of what was said before this process started, the PodGroup's verdict tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.scheduling.core.decisions import GangReport, GangSummary
from pumice.scheduling.core.verdict import Verdict, decode

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from pumice.api.scheduling import PodGroup
    from pumice.scheduling.core.verdict import FitError, Reason

VERDICT_REASONS_MAX = 10


class Topics:
    """Bounded by the gangs of the last round."""

    def __init__(self) -> None:
        self._said: dict[str, Hashable] = {}  # gang -> the topic of the verdict with which its conditions were written
        self._read: dict[str, tuple[str, Hashable]] = {}  # gang -> the verdict on its group, and the topic of that
        self._known: dict[int, Hashable] = {}  # of what is there in this round, by id: many pods share it

    def begin(self, live: Collection[str]) -> None:
        """A new round of reports, on these gangs."""
        self._known.clear()
        for known in (self._said, self._read):
            for forgotten in [key for key in known if key not in live]:
                del known[forgotten]

    def of(self, what: GangReport | GangSummary | FitError | Reason) -> Hashable:
        """The topic of something that lives as long as this round; of a report, that of its verdict."""
        if id(what) not in self._known:
            self._known[id(what)] = verdict_of(what).topic if isinstance(what, GangReport) else what.topic
        return self._known[id(what)]

    def note(self, report: GangReport) -> None:
        """The report's conditions have been written."""
        self._said[report.gang] = self.of(report)

    def is_said(self, report: GangReport, group: PodGroup | None) -> bool:
        """Whether what was last written about the gang differs in nothing but numbers: by us, or by a leader before us."""
        topic = self.of(report)
        if self._said.get(report.gang) == topic:
            return True
        return group is not None and self.on(report.gang, group) == topic

    def on(self, gang: str, group: PodGroup) -> Hashable:
        """What the group's verdict is about; None where it has none that can be read."""
        text = group.metadata.annotations.get(names.VERDICT, "")
        known = self._read.get(gang)
        if known is None or known[0] != text:
            verdict = decode(text) if text else None
            known = self._read[gang] = (text, verdict.topic if verdict is not None else None)
        return known[1]


def verdict_of(report: GangReport, now: str = "") -> Verdict:
    """The reasons with their numbers of this moment; `now` says which, because numbers alone are no cause to write again."""
    reasons = report.reasons[:VERDICT_REASONS_MAX]
    summary = report.why.why if report.why is not None else None
    if not isinstance(summary, GangSummary):
        return Verdict(report.phase, now, reasons)
    return Verdict(report.phase, now, reasons, dict(summary.members), dict(summary.pending))
