"""How long a gang may run, as annotations and fields say it: durations that can be read, longer than 0, and a warning before the end, a known signal."""

from collections.abc import Mapping

from pumice.api import names
from pumice.api.run_time import HANDED_ON, SIGNALS, TIMES, duration_of, limit_of, positive_duration
from pumice.api.validation.field_errors import Findings
from pumice.instant import DurationError


def check_times(findings: Findings, path: str, annotations: Mapping[str, str]) -> None:
    """Each duration for itself, the warning within the limit, and a signal that may be asked for."""
    before = len(findings.errors)
    for key in TIMES:
        try:
            duration_of(annotations, key)
        except DurationError as error:
            findings.refuse_as(f"{path}[{key}]", error)
    if len(findings.errors) == before:
        try:
            limit_of(annotations)
        except DurationError as error:
            findings.refuse_as(f"{path}[{names.TIME_LIMIT_WARNING}]", error)
    for key in (names.TIME_LIMIT_SIGNAL, names.CHECKPOINT_SIGNAL):
        findings.choose(f"{path}[{key}]", annotations.get(key, ""), SIGNALS)


def check_new_times(findings: Findings, path: str, new: Mapping[str, str], old: Mapping[str, str]) -> None:
    """The same of what changes; what was wrong before stays as it is."""
    if any(new.get(key) != old.get(key) for key in HANDED_ON):
        check_times(findings, path, new)


def check_estimate(findings: Findings, path: str, text: str | None) -> None:
    if text is not None:
        try:
            positive_duration(text)
        except DurationError as error:
            findings.refuse_as(path, error)
