"""Pods that our scheduler serves: their disruption budgets and time limits must be readable."""

import re
from typing import Final

from pumice.api import names
from pumice.api.pods import Pod
from pumice.api.validation.field_errors import VALUE_CHARS_MAX, Findings
from pumice.api.validation.request import Operation, Request
from pumice.api.validation.time_limits import check_times

_PERCENT: Final = re.compile(r"[1-9][0-9]?%")
_NUMBER: Final = re.compile(r"0*[1-9][0-9]{0,8}")
WHOLE: Final = "positive integer"
PERCENTAGE: Final = "valid percentage which between 1% ~ 99%"
_BUDGETS: Final = (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE)


def review_pod(request: Request) -> Findings:
    """What is wrong with the annotations of a pod that is created."""
    findings = Findings()
    pod = findings.decode("", Pod, request.new) if request.operation == Operation.CREATE else None
    if pod is None or pod.spec.scheduler_name not in request.settings.scheduler_names:
        return findings
    annotations = pod.metadata.annotations
    given = [name for name in _BUDGETS if name in annotations]
    for name in given:
        value = annotations[name]
        if not (_PERCENT.fullmatch(value) or _NUMBER.fullmatch(value)):
            kind = PERCENTAGE if "%" in value else WHOLE
            cause = f'invalid value <"{value[:VALUE_CHARS_MAX]}"> for {name}, it must be a {kind}'
            findings.refuse(f"metadata.annotations[{name}]", cause, "write for example 2 or 50%")
    if len(given) > 1:
        cause = f"not allow configure multiple annotations <[{' '.join(_BUDGETS)}]> at same time"
        findings.refuse("metadata.annotations", cause, "keep one of them")
    check_times(findings, "metadata.annotations", annotations)
    return findings
