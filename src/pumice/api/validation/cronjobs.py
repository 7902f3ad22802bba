"""CronJobs: schedules that can be read, and jobs that could be created, checked when they are submitted and not when the first one is due."""

from typing import Final

import msgspec

from pumice.api import cron, defaults
from pumice.api.batch import CronJob, JobSpec
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.job_warnings import warn_about_job
from pumice.api.validation.jobs import check_job_spec, name_of, same_json
from pumice.api.validation.names import qualified_name_problem
from pumice.api.validation.queue_entry import check_queue_is_leaf, check_queue_is_open
from pumice.api.validation.request import Request
from pumice.api.validation.time_limits import check_new_times

NAME_CHARS_MAX: Final = 52  # a job's name has 63; a hyphen and the time are appended
TIME: Final = "-01234567"  # minutes since 1970, until 2160
SPEC: Final = "spec.jobTemplate.spec"


def review_cron_job(request: Request) -> Findings:
    """What is wrong with a CronJob that is created or updated, and with the jobs that it would create."""
    findings = Findings()
    new = findings.decode("", CronJob, request.new)
    if new is None:
        return findings
    old = Findings().decode("", CronJob, request.old) if request.old is not None else None
    name = name_of(new.metadata)
    if old is None and not _check_name(findings, name):
        name = ""
    if old is None or (old.spec.schedule, old.spec.time_zone) != (new.spec.schedule, new.spec.time_zone):
        _check_schedule(findings, new)
    said = new.spec.job_template.metadata.annotations
    before = old.spec.job_template.metadata.annotations if old is not None else {}
    check_new_times(findings, "spec.jobTemplate.metadata.annotations", said, before)
    template = new.spec.job_template.spec
    if old is None or not same_json(_value(old.spec.job_template.spec), _value(template)):
        _check_template(findings, f"{name}{TIME}" if name else "", template, request)
    return findings


def _check_name(findings: Findings, name: str) -> bool:
    if len(name) > NAME_CHARS_MAX:
        findings.refuse("metadata.name", f"must be no more than {NAME_CHARS_MAX} characters", "shorten it", name)
        return False
    return not name or findings.name("metadata.name", name, qualified_name_problem)


def _value(raw: msgspec.Raw) -> object:
    return msgspec.json.decode(raw)


def _check_schedule(findings: Findings, cron_job: CronJob) -> None:
    text, zone = cron_job.spec.schedule, cron_job.spec.time_zone
    if zone is not None:
        try:
            cron.zone(zone)
        except cron.ScheduleError as error:
            findings.refuse_as("spec.timeZone", error)
    if not findings.require("spec.schedule", text):
        return
    try:
        schedule = cron.parse(text)
    except cron.ScheduleError as error:
        findings.refuse_as("spec.schedule", error)
    else:
        if schedule.next_after(0) is None:
            findings.warn("spec.schedule", f"{text!r} never comes: no job will be created")


def _check_template(findings: Findings, job_name: str, raw: msgspec.Raw, request: Request) -> None:
    """The job as it will be after defaulting. Its queue may come and go until then, so that is only worth a warning."""
    job = {"spec": _value(raw)}
    patch = defaults.job_patch(job, scheduler_name=request.settings.scheduler_names[0])
    spec = findings.decode(SPEC, JobSpec, defaults.apply_patch(job, patch)["spec"])
    if spec is None:
        return
    templates = check_job_spec(findings, SPEC, job_name, spec, request.settings)
    if findings.errors:
        return
    if request.lookup is not None:
        later = Findings()
        check_queue_is_open(later, f"{SPEC}.queue", spec.queue, request.lookup)
        check_queue_is_leaf(later, f"{SPEC}.queue", spec.queue, request.lookup)
        findings.add_as_warnings(later)
    for path, text in defaults.job_warnings(job):
        findings.warn(path.replace("spec", SPEC, 1), text)
    warn_about_job(findings, SPEC, job_name, spec, templates, lookup=request.lookup)
