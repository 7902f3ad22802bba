"""Jobs from flags and from files."""

from __future__ import annotations

import copy
import shlex
from typing import TYPE_CHECKING

from pumice import quantity, yamltext
from pumice.api import defaults, names
from pumice.api.batch import Job
from pumice.api.kinds import by_struct, type_meta
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.time_limits import check_times
from pumice.cli.input_files import MANIFEST_BYTES_MAX, read_file_or_stdin
from pumice.cli.results import Done
from pumice.errors import BadInput, NotFound
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.api.meta import Json
    from pumice.cli.cluster_command import ClusterAccess


GPU = "nvidia.com/gpu"
# The task of a framework that is there once, and is the Job's head; a framework without one has workers only.
_HEADS = {"pytorch": "master", "mpi": "master", "ray": "head"}
_TIME_FLAGS = {
    names.TIME_LIMIT: "--time-limit",
    names.TIME_LIMIT_WARNING: "--time-limit-warning",
    names.TIME_LIMIT_SIGNAL: "--time-limit-signal",
    names.RUNNING_ESTIMATE: names.RUNNING_ESTIMATE,
}
_SSHD = "mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e"  # what MPI's workers run: the head starts the rest through it


class Shape(Value):
    """The pods of a Job that is made from flags."""

    image: str
    replicas: int
    minimum: int
    requests: str
    limits: str
    command: str = ""
    gpus: int = 0
    env: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    framework: str = ""


def job_of(name: str, shape: Shape, *, scheduler: str, queue: str = "", priority: str = "") -> Json:
    """The Job that vcctl makes of these flags: one task, one container, never restarted; a framework's has its tasks."""
    spec: Json = {"schedulerName": scheduler, "minAvailable": shape.minimum, "tasks": _tasks(name, shape)}
    if shape.framework:
        spec["plugins"] = {shape.framework: []}
    if queue:
        spec["queue"] = queue
    if priority:
        spec["priorityClassName"] = priority
    return {**type_meta(Job), "metadata": {"name": name}, "spec": spec}


def with_times(wanted: Json, *, limit: str | None, warning: str | None) -> Json:
    """The Job with what flags say about its time; what they do not say stays as the Job has it."""
    given = {names.TIME_LIMIT: limit, names.TIME_LIMIT_WARNING: warning}
    said = {key: text for key, text in given.items() if text is not None}
    if not said:
        return wanted
    annotations = {**(wanted["metadata"].get("annotations") or {}), **said}
    findings = Findings()
    check_times(findings, "", annotations)
    for error in findings.errors:
        flag = _TIME_FLAGS[error.path.strip("[]")]
        raise BadInput(f"{flag} {annotations[error.path.strip('[]')]!r}: {error.cause}; {error.next_step}")
    return {**wanted, "metadata": {**wanted["metadata"], "annotations": annotations}}


def _tasks(name: str, shape: Shape) -> list[Json]:
    template = _template(name, shape)
    head = _HEADS.get(shape.framework)
    if not shape.framework:
        return [{"replicas": shape.replicas, "template": template}]
    if head is None:
        return [{"name": "worker", "replicas": shape.replicas, "template": template}]
    if shape.replicas < 2:
        raise BadInput(f"--framework {shape.framework} needs a {head} and a worker: give --replicas 2 or more")
    first: Json = {"name": head, "replicas": 1, "template": template}
    workers = copy.deepcopy(template)
    if shape.framework == "mpi":
        # Workers wait for the head for ever: it ends them.
        first["policies"] = [{"event": "TaskCompleted", "action": "CompleteJob"}]
        workers["spec"]["containers"][0]["command"] = ["sh", "-ec", _SSHD]
    return [first, {"name": "worker", "replicas": shape.replicas - 1, "template": workers}]


def _template(name: str, shape: Shape) -> Json:
    gpus = {GPU: str(shape.gpus)} if shape.gpus else {}
    requests, limits = resources(shape.requests, "--requests"), resources(shape.limits, "--limits")
    if gpus and GPU in {*requests, *limits}:
        raise BadInput(f"--gpus {shape.gpus} and {GPU} in --requests or --limits: two numbers for one thing; drop one")
    container: Json = {
        "name": name,
        "image": shape.image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {**requests, **gpus}, "limits": {**limits, **gpus}},
    }
    if shape.command:
        try:
            container["command"] = shlex.split(shape.command)
        except ValueError as error:
            raise BadInput(f"--command {shape.command!r}: {error}; close the quotation") from error
    if shape.env:
        container["env"] = [_variable(each) for each in shape.env]
    spec: Json = {"containers": [container], "restartPolicy": "Never"}
    if shape.volumes:
        spec["volumes"], container["volumeMounts"] = mounted(shape.volumes)
    return {"metadata": {"labels": {names.CLI_JOB_NAME: name}}, "spec": spec}


def _variable(text: str) -> Json:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise BadInput(f"--env {text!r}: expected NAME=VALUE")
    return {"name": name, "value": value}


def mounted(texts: Iterable[str]) -> tuple[list[Json], list[Json]]:
    """Volumes of a pod and their mounts, as `--volume` has them."""
    found = [_volume(number, each) for number, each in enumerate(texts)]
    return [volume for volume, _ in found], [mount for _, mount in found]


def _volume(number: int, text: str) -> tuple[Json, Json]:
    """A volume and its mount, from `CLAIM:PATH` or, for a folder of the node, `/FOLDER:PATH`; `:ro` behind it if only read."""
    source, _, rest = text.partition(":")
    path, _, mode = rest.partition(":")
    if not source or not path.startswith("/") or mode not in {"", "ro", "rw"}:
        raise BadInput(
            f"--volume {text!r}: expected CLAIM:/PATH or /FOLDER:/PATH, with :ro behind it if it is only read"
        )
    name = f"volume-{number}"
    what = {"hostPath": {"path": source}} if source[0] == "/" else {"persistentVolumeClaim": {"claimName": source}}
    return {"name": name, **what}, {"name": name, "mountPath": path, **({"readOnly": True} if mode == "ro" else {})}


def resources(text: str, flag: str) -> dict[str, str]:
    """`cpu=1000m,memory=100Mi` as a resource list."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, amount = part.partition("=")
        if not name or not equals:
            raise BadInput(f"{flag} {part!r}: expected NAME=AMOUNT, such as cpu=1000m or nvidia.com/gpu=1")
        try:
            quantity.parse_milli(amount)
        except quantity.QuantityError as error:
            raise BadInput(f"{flag} {part!r}: {error}") from error
        found[name] = amount
    return found


def read_documents(filename: str) -> list[Json]:
    """The objects in a file, or in standard input."""
    return yamltext.load_all(read_file_or_stdin(filename, MANIFEST_BYTES_MAX), source=filename)


def read_job(filename: str) -> Json:
    documents = read_documents(filename)
    if not documents:
        raise BadInput(f"{filename}: there is nothing in it; write a Job into it, or name another file")
    if len(documents) > 1:
        raise BadInput(f"{filename}: {len(documents)} objects, expected one Job; use `kubectl apply -f` for several")
    return check_kind(documents[0], "batch.volcano.sh/v1alpha1", "Job", filename)


def check_kind(found: object, api_version: str, kind: str, filename: str) -> Json:
    """The object, if it is one of that kind."""
    if not isinstance(found, dict) or (found.get("apiVersion"), found.get("kind")) != (api_version, kind):
        raise BadInput(f"{filename}: expected a {kind} of {api_version}; correct apiVersion and kind")
    if not isinstance(found.get("metadata"), dict):
        raise BadInput(f"{filename}: the {kind} has no metadata; give it at least a name")
    return found


async def submit(access: ClusterAccess, wanted: Json, *, dry_run: bool = False) -> Done:
    """Create the Job: in the namespace that the user wrote, else in its own, else in the context's."""
    own = wanted["metadata"].get("namespace", "")
    namespace = access.namespace if access.named_namespace or not own else own
    wanted = {**wanted, "metadata": {**wanted["metadata"], "namespace": namespace}}
    made = await access.client.create(Job, wanted, namespace=namespace, dry_run=dry_run, strict=True)
    return Done(by_struct(Job), made.json(), "created (dry run)" if dry_run else "created")


def scale_job(job: Json, replicas: int, *, task: str, minimum: int | None) -> Json:
    """The Job with another number of pods in one of its tasks."""
    wanted = copy.deepcopy(job)
    tasks = wanted["spec"].get("tasks") or []
    chosen = [each for each in tasks if each.get("name") == task] if task else tasks
    name = job["metadata"]["name"]
    known = ", ".join(each.get("name") or "(unnamed)" for each in tasks)
    if not chosen:
        raise NotFound(f"job {name} has no task {task!r}; its tasks: {known}")
    if len(chosen) > 1:
        raise BadInput(f"job {name} has several tasks ({known}); name one with --task")
    chosen[0]["replicas"] = replicas
    if minimum is not None:
        wanted["spec"]["minAvailable"] = minimum
    return defaults.apply_patch(wanted, defaults.job_update_patch(wanted, job))
