"""What is taking a pod away: the message that our scheduler writes into a pod's condition DisruptionTarget, and how it is read again.

Whoever evicts says so in the condition's reason. Our scheduler's message has three parts: the rule, for whom, and why.
"""

import re
from typing import NamedTuple

from pumice.api.pods import Pod

CONDITION = "DisruptionTarget"
PREEMPTED = "PreemptionByScheduler"
RELEASED = "GangReleased"  # not a failure: it neither costs a retry nor fires a policy
_MESSAGE = re.compile(r"(\S+) for gang (\S+): (.*)", re.DOTALL)


class Disruption(NamedTuple):
    rule: str  # the scheduler's action, or the reason that somebody else gave
    claimant: str = ""  # the gang that gets the room, as `namespace/name`
    why: str = ""
    since: str = ""  # RFC 3339
    is_release: bool = False  # the gang was never whole: the scheduler takes back what it had begun


def message(rule: str, claimant: str, why: str) -> str:
    """The condition's message for an eviction by our scheduler."""
    return f"{rule} for gang {claimant}: {why}" if claimant else rule


def of_pod(pod: Pod) -> Disruption | None:
    """What is taking the pod away, as its condition says; None where nothing is."""
    for each in pod.status.conditions:
        if each.type == CONDITION and each.status == "True":
            since, is_release = each.last_transition_time or "", each.reason == RELEASED
            found = _MESSAGE.fullmatch(each.message) if each.reason == PREEMPTED else None
            if found is not None:
                rule, claimant, why = found.groups()
                return Disruption(rule, claimant, why, since)
            rule = each.message if each.reason == PREEMPTED and " " not in each.message else ""
            return Disruption(rule or each.reason, "", "" if rule else each.message, since, is_release)
    return None
