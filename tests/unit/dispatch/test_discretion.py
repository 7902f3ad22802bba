"""What stands on a gang's objects names no gang of another namespace, whatever the reason (docs/adr/0040)."""

import msgspec
import pytest

from pumice.api.disruptions import Party, Story
from pumice.dispatch import discretion
from pumice.dispatch.topics import verdict_of
from pumice.scheduling.core.codes import NAMES_ARE_GANGS, Code, Facts
from pumice.scheduling.core.decisions import Condition, GangReport, GangSummary, PodVerdict, Shortage
from pumice.scheduling.core.verdict import Cause, FitError, Reason, decode, encode


def facts(code, other):
    names = (other, "red/mine") if code.value in NAMES_ARE_GANGS else ("one", "two")
    return Facts(
        gang=other, holders=(other, "red/mine"), names=names, name=f"{other}-budget" if code is Code.DISRUPTION_BUDGET else "",
        text="{gang}", free=2, wanted=3,
        until="2026-11-16T11:00:00Z", former="2026-11-16T10:30:00Z", seconds=5,
    )  # fmt: skip


def a_report(*reasons):
    """The reasons wherever a report can have them."""
    fit = FitError(reasons, 3, instead=reasons[0])
    summary = GangSummary({"Pending": 3}, 3, {}, origin=fit, others=reasons[0])
    shortage = Shortage(3, 3, summary)
    pods = tuple(PodVerdict(None, "Unschedulable", why) for why in (fit, summary, fit, *reasons))
    return GangReport(
        "red/mine",
        "Inqueue",
        0,
        0,
        0,
        (Condition("Unschedulable", True, "NotEnough", shortage),),
        shortage,
        reasons,
        pods,
    )


def texts(report):
    return [
        report.message, *(each.message for each in (*report.conditions, *report.pods)),
        *(each.text for each in report.reasons), encode(verdict_of(report, "now")),
    ]  # fmt: skip


@pytest.mark.parametrize("code", Code)
def test_no_condition_event_or_annotation_names_a_gang_of_others(code):
    report = a_report(Reason(code, "plugin", facts(code, "blue/secret")))
    told = discretion.of_gang("red/mine").report(report)
    assert not [text for text in texts(told) if "secret" in text]
    assert not [text for text in texts(told) if "gang a gang" in text]
    [reason] = decode(encode(verdict_of(told))).reasons
    assert reason.topic == told.reasons[0].topic, (
        "what was written is known again, or it would be written with every cycle"
    )


def test_gangs_of_the_same_namespace_are_named_and_nothing_is_copied():
    report = a_report(*(Reason(code, "plugin", facts(code, "red/other")) for code in (Code.BEHIND, Code.SURPLUS_AHEAD)))
    assert discretion.of_gang("red/mine").report(report) is report
    assert "red/other" in report.message


def test_a_namespace_whose_name_begins_alike_is_another_one():
    report = a_report(Reason(Code.BEHIND, "plugin", Facts(queue="q", gang="reddish/secret")))
    assert "secret" not in discretion.of_gang("red/mine").report(report).message


CLAIMANT = Party("blue/secret", "secret-job", "prod", "eve-secret", 1000, "8", "16", "16", "u-1")
VICTIM = Party("red/mine", "mine", "lab", "ann", 1, "16", "8", "8")


def test_a_victim_is_told_queue_priority_and_shares_of_a_claimant_elsewhere():
    deadlock = Facts(gang="red/mine", names=("blue/secret",), free=1, wanted=2, seconds=3)
    cause = Cause(Code.VICTIM_OF_DEADLOCK, deadlock)
    story = Story("deadlock", cause.code.value, cause.text, VICTIM, CLAIMANT, "nvidia.com/gpu", 60)
    for told in (discretion.of_gang("red/mine").story(story, cause), discretion.of_gang("red/mine").story(story)):
        assert "secret" not in msgspec.json.encode(told).decode() + told.text
        assert told.text.startswith(
            "deadlock for a gang of others (queue prod, priority 1000): gang red/mine held its room"
        )
        assert told.text.endswith(
            "of nvidia.com/gpu, queue lab held 16 and then 8 of 8 that it deserves and queue prod held 8 and then 16 of 16 "
            "that it deserves; 60 s of run time are lost"
        )
        assert told.claimant.uid == "u-1", "whoever may list its group finds it"
    assert discretion.of_gang("blue/own").story(story, cause).claimant is CLAIMANT


def test_of_a_ring_those_of_others_are_counted_as_one():
    assert discretion.of_gang("red/a").names(("red/a", "blue/b", "green/c")) == "red/a, others"
