"""Plugins of a job: known by name, and with the tasks that they are about."""

from collections.abc import Sequence
from typing import Final

from pumice.api.batch import JobSpec
from pumice.api.validation.field_errors import Findings, did_you_mean
from pumice.api.validation.names import LABEL_CHARS_MAX, service_name_problem
from pumice.api.validation.request import Settings

# The task without which a plugin does not work: its flag, which is also the task's usual name.
LEADERS: Final = {"mpi": "master", "pytorch": "master", "ray": "head"}


def check_plugins(findings: Findings, path: str, spec: JobSpec, settings: Settings) -> None:
    for name in spec.plugins or {}:
        if name not in settings.job_plugins:
            next_step = did_you_mean(name, settings.job_plugins)
            findings.refuse(f"{path}[{name}]", f"unable to find job plugin: {name}", next_step)
    if (leader := missing_leader(spec, "mpi")) is not None:
        findings.refuse(
            f"{path}[mpi]",
            f"The specified mpi master task was not found: no task is named {leader!r}",
            "add it, or set --master",
        )


def missing_leader(spec: JobSpec, plugin: str) -> str | None:
    """The name of the task that the plugin needs and that is not there."""
    if not spec.plugins or plugin not in spec.plugins:
        return None
    leader = flag(spec.plugins[plugin], LEADERS[plugin], LEADERS[plugin])
    return leader if all(task.name != leader for task in spec.tasks) else None


def flag(arguments: Sequence[str], name: str, default: str) -> str:
    """The value of a flag as Go's flag package reads it: -name=x, --name=x, or --name x."""
    value = default
    for index, argument in enumerate(arguments):
        key, equals, text = argument.partition("=")
        if key not in {f"-{name}", f"--{name}"}:
            continue
        if equals:
            value = text
        elif index + 1 < len(arguments):
            value = arguments[index + 1]
    return value


def warn_about_plugins(findings: Findings, path: str, job_name: str, spec: JobSpec) -> None:
    """What a plugin will fail at, or silently not do."""
    if (leader := missing_leader(spec, "ray")) is not None:
        findings.warn(f"{path}[ray]", f"no task is named {leader!r}: no pod can be made; add it, or set --head")
    if (leader := missing_leader(spec, "pytorch")) is not None:
        findings.warn(
            f"{path}[pytorch]", f"no task is named {leader!r}: the plugin does nothing; add it, or set --master"
        )
    if not spec.plugins or "svc" not in spec.plugins or not job_name:
        return
    if service_name_problem(job_name):
        findings.warn(
            "metadata.name", f"plugin svc needs a Service named {job_name!r}: use letters, digits and '-' only"
        )
    for index, task in enumerate(spec.tasks):
        last = f"{job_name}-{task.name}-{max(task.replicas - 1, 0)}"
        if len(last) > LABEL_CHARS_MAX:
            findings.warn(
                f"{path.removesuffix('plugins')}tasks[{index}].name",
                f"plugin svc cannot make a host named {last!r}; use shorter names",
            )
