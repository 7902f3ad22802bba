"""Jobs, pods and groups as literals, and what a plan says in a few words."""

from typing import Any

import msgspec

from pumice import instant
from pumice.api import decoding, names
from pumice.api.batch import Job
from pumice.api.bus import Command
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.controllers.job.plan import plan
from pumice.controllers.job.progress import Progress, progress_of
from pumice.controllers.job.view import JobView
from pumice.controllers.operations import Apply, Create, Delete, Emit, Patch

Json = dict[str, Any]

UID = "5f2d"
GROUP_UID = "9a1c"
BORN = "2026-03-01T12:00:00Z"
NOW = instant.parse_instant("2026-03-01T13:00:00Z")
SINGLE = {"spec": {"containers": [{"name": "main", "image": "train"}]}}


def a_task(name="worker", replicas=3, **fields) -> Json:
    return {"name": name, "replicas": replicas, "minAvailable": replicas, "template": SINGLE, **fields}


def a_job(
    *tasks, name="train", phase="Running", status=None, progress=None, labels=None, annotations=None, **spec
) -> Job:
    """A Job of a master and three workers unless tasks are given, an hour old."""
    tasks = list(tasks) or [a_task("master", 1), a_task("worker", 3)]
    total = sum(task.get("minAvailable", task["replicas"]) for task in tasks)
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": UID,
        "resourceVersion": "7",
        "creationTimestamp": BORN,
        "labels": labels or {},
        "annotations": annotations or {},
    }
    written: Json = {"minAvailable": spec.get("minAvailable", total)}
    if phase:
        written["state"] = {"phase": phase, "lastTransitionTime": BORN}
        written["conditions"] = [{"status": phase, "lastTransitionTime": BORN}]
    controlled = {}
    if progress:
        controlled[names.PROGRESS] = msgspec.json.encode(progress).decode()
    written = {**written, **(status or {})}
    written["controlledResources"] = {**written.get("controlledResources", {}), **controlled}
    fixed = {"minAvailable": total, "queue": "default", "schedulerName": "volcano", "maxRetry": 3}
    return decoding.decode_value(
        Job, {"metadata": metadata, "spec": {**fixed, "tasks": tasks, **spec}, "status": written}
    )


def a_pod(
    task,
    index,
    phase="Running",
    *,
    version=0,
    retries=0,
    leaving=False,
    disruption="",
    ready=True,
    name="train",
    **more,
) -> Pod:
    """A pod of the Job; `more`: exit_code, restarts, started, finished, created, owner, uid, annotations."""
    full = f"{name}-{task}-{index}"
    annotations = {
        names.JOB_NAME: name,
        names.TASK_SPEC: task,
        names.TASK_INDEX: str(index),
        names.JOB_VERSION: str(version),
        names.JOB_RETRY_COUNT: str(retries),
        names.GROUP_NAME: f"{name}-{UID}",
        **more.get("annotations", {}),
    }
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": name,
        "uid": more.get("owner", UID),
        "controller": True,
    }
    metadata = {
        "name": full,
        "namespace": "team",
        "uid": more.get("uid", f"uid-{task}-{index}-{version}-{retries}"),
        "creationTimestamp": more.get("created", BORN),
        "annotations": annotations,
        "ownerReferences": [owner],
    }
    if leaving:
        metadata |= {"deletionTimestamp": "2026-03-01T13:00:20Z", "deletionGracePeriodSeconds": 30}
    status: Json = {"phase": phase, "conditions": []}
    started = more.get("started", BORN)
    if phase == "Running":
        state = {"running": {"startedAt": started}}
    elif phase in {"Succeeded", "Failed"}:
        code = more.get("exit_code", 0 if phase == "Succeeded" else 1)
        state = {
            "terminated": {
                "exitCode": code,
                "startedAt": started,
                "finishedAt": more.get("finished", "2026-03-01T12:50:00Z"),
            }
        }
    else:
        state = {"waiting": {"reason": "ContainerCreating"}}
    status["containerStatuses"] = [
        {"name": "main", "state": state, "ready": ready and phase == "Running", "restartCount": more.get("restarts", 0)}
    ]
    if disruption:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": disruption,
            "message": more.get("message", ""),
        }
        status["conditions"].append(condition)
    return decoding.decode_value(Pod, {"metadata": metadata, "spec": {}, "status": status})


def a_group(phase="Running", *, uid=GROUP_UID, name="train", conditions=(), annotations=None, **spec) -> PodGroup:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": UID, "controller": True}
    metadata = {
        "name": f"{name}-{UID}",
        "namespace": "team",
        "uid": uid,
        "resourceVersion": "5",
        "ownerReferences": [owner],
        "annotations": annotations or {},
    }
    return decoding.decode_value(
        PodGroup, {"metadata": metadata, "spec": spec, "status": {"phase": phase, "conditions": list(conditions)}}
    )


def a_command(action, name="cmd", *, uid="c1", target=UID, created=BORN) -> Command:
    reference = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": target}
    metadata = {"name": name, "namespace": "team", "uid": uid, "creationTimestamp": created}
    return decoding.decode_value(Command, {"metadata": metadata, "action": action, "target": reference})


QUEUE = decoding.decode_value(Queue, {"metadata": {"name": "default", "uid": "q"}})


def gang(**overrides) -> list[Pod]:
    """Master and three workers; `overrides` by `master0`, `worker1`... replaces one, None leaves it out."""
    pods = {
        "master0": a_pod("master", 0),
        **{f"worker{index}": a_pod("worker", index) for index in range(3)},
        **overrides,
    }
    return [pod for pod in pods.values() if pod is not None]


def a_view(job, *pods, group="Running", commands=(), now=NOW, queue=QUEUE, **more) -> JobView:
    """The world around a Job; its PodGroup is as the Job wants it, in the given phase, unless it is given whole or None."""
    if isinstance(group, str):
        group = fitting_group(job, group)
    return JobView(job=job, now=now, group=group, pods=tuple(pods), commands=tuple(commands), queue=queue, **more)


def fitting_group(job, phase, *, uid=GROUP_UID, conditions=(), annotations=None) -> PodGroup:
    from pumice.controllers.job.defaulting import with_defaults
    from pumice.controllers.job.podgroup import _spec

    return a_group(
        phase,
        uid=uid,
        conditions=conditions,
        annotations=annotations,
        name=job.metadata.name,
        **_spec(with_defaults(job), {}),
    )


# ------------------------------------------------------------------------------------------------- reading a plan


class Told:
    """A plan in the words of a test."""

    def __init__(self, view: JobView) -> None:
        self.view = view
        self.plan = plan(view)

    @property
    def operations(self) -> list:
        return list(self.plan)

    def named(self, kind, operation) -> list[str]:
        return sorted(each.name for each in self.operations if isinstance(each, operation) and each.kind == kind)

    @property
    def killed(self) -> set[str]:
        return {name.removeprefix("train-") for name in self.named(Pod, Delete)}

    @property
    def created(self) -> list[str]:
        return [
            each.name.removeprefix("train-")
            for each in self.operations
            if isinstance(each, Create) and each.kind is Pod
        ]

    @property
    def bodies(self) -> dict[str, Json]:
        """What is made or applied, by kind and name."""
        made = [each for each in self.operations if isinstance(each, Create | Apply)]
        return {f"{each.body['kind']}/{each.name}": each.body for each in made}

    @property
    def loses_group(self) -> bool:
        return bool(self.named(PodGroup, Delete))

    @property
    def patch(self) -> Patch | None:
        """The write of the Job's status."""
        found = [each for each in self.operations if isinstance(each, Patch) and each.kind is Job and each.subresource]
        assert len(found) <= 1, "a plan writes the status once"
        return found[0] if found else None

    @property
    def job(self) -> Job:
        """The Job as it is after that write."""
        value = msgspec.to_builtins(
            self.view.job,
            enc_hook=lambda each: dict(each) if not isinstance(each, msgspec.Raw) else msgspec.json.decode(each),
        )
        if self.patch is not None:
            merged(value, self.patch.body)
        return decoding.decode_value(Job, value)

    @property
    def phase(self) -> str:
        return self.job.status.state.phase

    @property
    def progress(self) -> Progress:
        return progress_of(self.job.status)

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(each.reason, each.message) for each in self.operations if isinstance(each, Emit)]

    def writes_before_deeds(self) -> bool:
        """The status is written in a stage of its own before anything is deleted."""
        stages = [
            {
                "status" if isinstance(each, Patch) and each.kind is Job else "deed"
                for each in stage
                if not isinstance(each, Emit)
            }
            for stage in self.plan.stages
        ]
        return stages[:1] == [{"status"}]


def told(job, *pods, **more) -> Told:
    return Told(a_view(job, *pods, **more))


def merged(target: Json, patch: Json) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            merged(target.setdefault(key, {}), value)
        else:
            target[key] = value
