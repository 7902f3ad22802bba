"""When a Job that has not ended is far enough for the next one.

A probe concerns those targets that have its task (a probe without a task concerns them all). Enough pods of the task must be
there, as many as the task's minimum, and every one of them must pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.api.batch import Job, Task
    from pumice.api.flow import FlowProbe
    from pumice.api.pods import Pod

PODS_PROBED_MAX = 64  # of one task: the first ones speak for the rest
HTTP_PORT = 80
_RUNNING = "Running"


class Question(Value):
    """Something to ask of one pod: an HTTP GET if there is a path, else whether the port is open."""

    address: str
    port: int
    path: str = ""
    header: tuple[str, str] | None = None


class Verdict(Value):
    concerned: bool = False  # some probe has to do with the Job
    passed: bool = True
    questions: tuple[Question, ...] = ()

    def __and__(self, other: Verdict) -> Verdict:
        questions = (*self.questions, *other.questions)
        return Verdict(self.concerned or other.concerned, self.passed and other.passed, questions)


NOT_CONCERNED = Verdict()


def examine(probe: FlowProbe, job: Job, pods: Sequence[Pod], answers: Mapping[Question, bool]) -> Verdict:
    """What the probes say of a Job, and what to ask to know more."""
    verdict = NOT_CONCERNED
    for state in probe.task_status_list:
        for task in _tasks(job, state.task_name):
            verdict &= Verdict(concerned=True, passed=_in_phase(job, task, state.phase) >= _minimum(task))
    for http in probe.http_get_list:
        header = (http.http_header.name, http.http_header.value) if http.http_header is not None else None
        path = http.path if http.path.startswith("/") else f"/{http.path}"
        for task in _tasks(job, http.task_name):
            asked = [Question(each, http.port or HTTP_PORT, path, header) for each in _addresses(task, pods)]
            verdict &= _judge(task, asked, answers)
    for tcp in probe.tcp_socket_list:
        for task in _tasks(job, tcp.task_name):
            verdict &= _judge(task, [Question(each, tcp.port) for each in _addresses(task, pods)], answers)
    return verdict


def tasks_named(probe: FlowProbe) -> set[str]:
    """The tasks that probes name."""
    named = {each.task_name for each in probe.task_status_list}
    named |= {each.task_name for each in probe.http_get_list}
    named |= {each.task_name for each in probe.tcp_socket_list}
    return named - {""}


def _judge(task: Task, asked: list[Question], answers: Mapping[Question, bool]) -> Verdict:
    enough = len(asked) >= min(_minimum(task), PODS_PROBED_MAX)
    return Verdict(True, enough and all(answers.get(each, False) for each in asked), tuple(asked))


def _tasks(job: Job, name: str) -> Iterable[Task]:
    return [task for task in job.spec.tasks if name in ("", task.name)]


def _minimum(task: Task) -> int:
    return max(task.replicas if task.min_available is None else task.min_available, 1)


def _in_phase(job: Job, task: Task, phase: str) -> int:
    """How many pods of the task are in the phase; who has succeeded has run."""
    counted = job.status.task_status_count.get(task.name)
    if counted is None:
        return 0
    return counted.phase.get(phase, 0) + (counted.phase.get("Succeeded", 0) if phase == _RUNNING else 0)


def _addresses(task: Task, pods: Sequence[Pod]) -> list[str]:
    found = [
        (pod.metadata.name, pod.status.pod_ip)
        for pod in pods
        if pod.metadata.annotations.get(names.TASK_SPEC) == task.name
        and pod.status.phase == _RUNNING
        and pod.status.pod_ip
        and pod.metadata.deletion_timestamp is None
    ]
    return [address for _, address in sorted(found)[:PODS_PROBED_MAX]]
