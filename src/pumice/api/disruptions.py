"""Why a pod is evicted: the condition DisruptionTarget for everyone who reads pods, and the details as data in an annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
from msgspec import Meta

from pumice import instant
from pumice.api import names
from pumice.api.decoding import UNREADABLE
from pumice.api.meta import Struct

if TYPE_CHECKING:
    from pumice.api.pods import Pod

CONDITION = "DisruptionTarget"
PREEMPTED = "PreemptionByScheduler"
NOTICE = "pumice.dev/EvictionNotice"  # condition: it is going to be evicted
RELEASED = "GangReleased"  # not a failure: it neither costs a retry nor fires a policy


class Party(Struct, omit_defaults=True):
    """A gang that gives room or gets it, and what its queue holds of the resource that is fought for, before and after."""

    gang: str = ""  # namespace/name of its PodGroup; empty to readers of another namespace (docs/adr/0040)
    job: str = ""
    queue: str = ""
    user: str = ""
    priority: int = 0
    held_before: str = ""  # quantities
    held_after: str = ""
    deserved: str = ""  # empty where no plugin divides the cluster
    uid: str = ""  # of the PodGroup: names it to those who may list it

    @property
    def owner(self) -> str:
        """Whose gang it is, in words: `job train, queue research, user alice`."""
        named = (("job", self.job), ("queue", self.queue), ("user", self.user))
        return ", ".join(f"{name} {value}" for name, value in named if value)


class Story(Struct, omit_defaults=True):
    """One eviction: whose pod goes, for whom, by which rule, and what that costs."""

    rule: str  # the scheduler's action
    code: str = ""
    why: str = ""  # the sentence that the code makes of its facts
    victim: Party = Party()
    claimant: Party = Party()
    resource: str = ""
    lost_seconds: Annotated[int, Meta(description="run time since the start, or since the last checkpoint")] = 0

    @property
    def text(self) -> str:
        """For people: `reclaim for gang a/b (job b, queue q, user u): ...`."""
        claimant = self.claimant
        if claimant.gang:
            whom = f" for gang {claimant.gang} ({claimant.owner})"
        elif claimant.queue:
            whom = f" for a gang of others ({claimant.owner}, priority {claimant.priority})"
        else:
            whom = ""
        return f"{self.rule}{whom}: {self.why}{self._shares}{self._loss}"

    @property
    def _shares(self) -> str:
        victim, claimant = self.victim, self.claimant
        if not self.resource or not claimant.queue or victim.queue == claimant.queue:
            return ""
        held = [
            f"queue {each.queue} held {each.held_before} and then {each.held_after}"
            + (f" of {each.deserved} that it deserves" if each.deserved else "")
            for each in (victim, claimant)
        ]
        return f"; of {self.resource}, {' and '.join(held)}"

    @property
    def _loss(self) -> str:
        return f"; {self.lost_seconds} s of run time are lost" if self.lost_seconds else ""


class Notice(Struct, omit_defaults=True):
    """What stands in `pumice.dev/eviction-notice`: the pod's gang loses members soon. Instants are RFC 3339 texts."""

    since: str
    until: str  # at the latest: a gang that has made its work safe before goes then
    story: Story
    leaves: bool = True  # this pod goes; else others of its gang do, which falls below its minimum by that


class Disruption(NamedTuple):
    story: Story
    since: str = ""  # RFC 3339
    is_release: bool = False  # the gang was never whole: the scheduler takes back what it had begun


_DECODER = msgspec.json.Decoder(Story)
_NOTICES = msgspec.json.Decoder(Notice)


def of_pod(pod: Pod) -> Disruption | None:
    """Why the pod is being evicted; None if it is not. Without our annotation, the condition's reason and message say all that is known."""
    for each in pod.status.conditions:
        if each.type == CONDITION and each.status == "True":
            since = each.last_transition_time or ""
            story = _story(pod) if each.reason == PREEMPTED else None
            return Disruption(story or Story(each.reason, why=each.message), since, each.reason == RELEASED)
    return None


def notice_of(pod: Pod) -> Notice | None:
    """The notice that the pod was given; None where it has none, or nothing that can be read."""
    text = pod.metadata.annotations.get(names.EVICTION_NOTICE)
    if text is None:
        return None
    try:
        notice = _NOTICES.decode(text)
        for each in (notice.since, notice.until):
            instant.parse_instant(each)
    except (*UNREADABLE, instant.InstantError):
        return None  # somebody else wrote it
    return notice


def _story(pod: Pod) -> Story | None:
    text = pod.metadata.annotations.get(names.EVICTION)
    try:
        return _DECODER.decode(text) if text else None
    except UNREADABLE:
        return None  # somebody else wrote it
