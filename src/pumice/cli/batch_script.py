"""A batch script of Slurm's as a Job: one pod a node, or a task; the script runs in each, and `srun` starts that pod's tasks. Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from pumice import instant
from pumice.api import names
from pumice.api.batch import Job
from pumice.api.kinds import type_meta
from pumice.api.run_time import SIGNALS
from pumice.api.scheduling import VOLCANO
from pumice.api.validation.limits import JOB_REPLICAS_MAX
from pumice.cli.batch_pod import SRUN, START
from pumice.errors import BadInput
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pumice.api.meta import Json

SCRIPT_BYTES_MAX: Final = 96 * 2**10  # it travels in a variable, of which Linux allows 128 KiB
TASKS_MAX: Final = 1_024  # of one node
GPU: Final = "nvidia.com/gpu"
TASK: Final = "node"
SIGNAL_S: Final = 60  # Slurm's own, where --signal gives no time
IMAGE: Final = "ubuntu:24.04"  # it has bash, which most batch scripts ask for
NUMBER_MAX: Final = 10**9 - 1  # of anything that an option counts
CPUS: Final = 1  # for each task, as with Slurm


class Option(NamedTuple):
    """A flag of sbatch that means something here."""

    name: str
    letter: str
    value: str
    text: str


OPTIONS: Final = (
    Option("job-name", "J", "NAME", "What the Job's name begins with."),
    Option("nodes", "N", "N", "Nodes, each with one pod; all at once."),
    Option("ntasks", "n", "N", "Tasks in all; without --nodes, one pod for each."),
    Option("ntasks-per-node", "", "N", "Tasks that srun starts on each node."),
    Option("cpus-per-task", "c", "N", "Cores of each task."),
    Option("mem", "", "SIZE", "Memory of each node: 512M, 64G; a number alone is MiB."),
    Option("gpus", "G", "N", "GPUs in all."),
    Option("gpus-per-node", "", "N", "GPUs of each node."),
    Option("gres", "", "gpu:N", "The same in older words."),
    Option("time", "t", "TIME", "Time limit: 30, 30:00, 2:00:00, 1-12, 1-12:00."),
    Option("signal", "", "SIG@S", "Tell it so many seconds before the end: USR1@120."),
    Option("partition", "p", "QUEUE", "Queue that the Job draws from."),
    Option("output", "o", "FILE", "Write what it prints into this file as well; %j %x %n %N."),
    Option("chdir", "D", "FOLDER", "Where the script runs."),
    Option("container-image", "", "IMAGE", f"Container image; else $PUMICE_IMAGE, else {IMAGE}."),
)
_BY_NAME: Final = {option.name: option for option in OPTIONS}
_BY_LETTER: Final = {option.letter: option for option in OPTIONS if option.letter}
# What changes nothing about where and how long a Job runs: said, and left out.
IGNORED: Final = frozenset(
    {
        "account",
        "comment",
        "error",
        "export",
        "exclusive",
        "get-user-env",
        "hint",
        "mail-type",
        "mail-user",
        "open-mode",
    }
    | {"no-requeue", "parsable", "qos", "requeue", "verbose", "wait-all-nodes"}
)
# What people ask for most that has another form here.
INSTEAD: Final = {
    "array": "give a task as many replicas, or submit a Job for each number",
    "dependency": "make a JobFlow of the Jobs",
    "constraint": "add a nodeSelector to what --to-yaml prints",
    "exclude": "add node affinity to what --to-yaml prints",
    "nodelist": "add node affinity to what --to-yaml prints",
    "mem-per-cpu": "use --mem, the memory of each node",
    "mem-per-gpu": "use --mem, the memory of each node",
    "cpus-per-gpu": "use --cpus-per-task",
    "gpus-per-task": "use --gpus-per-node, or --gpus for all nodes together",
}
_LETTERS_INSTEAD: Final = {"a": "array", "d": "dependency", "C": "constraint", "x": "exclude", "w": "nodelist"}
_IGNORED_LETTERS: Final = {"A": "account", "e": "error", "q": "qos", "v": "verbose"}
_WITHOUT_VALUE: Final = frozenset({"exclusive", "no-requeue", "parsable", "requeue", "verbose", "get-user-env"})
_NAME: Final = re.compile(r"[^a-z0-9-]+")
NAME_CHARS_MAX: Final = 40  # the server adds six, and pods' names are longer


class GivenOption(Value):
    """An option as somebody wrote it, and where."""

    value: str
    where: str  # `train.sh, line 3: --nodes` or `--nodes`


class Script(Value):
    """A script, the options at its head, and what of them is left out."""

    text: str
    options: Mapping[str, GivenOption]
    warnings: tuple[str, ...] = ()


def read(text: str, source: str) -> Script:
    """The `#SBATCH` lines before the first command, as Slurm reads them."""
    if len(text.encode()) > SCRIPT_BYTES_MAX:
        raise BadInput(f"{source}: more than {SCRIPT_BYTES_MAX} bytes; put data into a volume")
    if not text.startswith("#!"):
        raise BadInput(f"{source}: the first line names no interpreter; begin it with #!/bin/bash, or use --wrap")
    if "\r\n" in text:
        raise BadInput(
            f"{source}: lines end as on Windows (\\r\\n), and no shell reads that; convert it, as with dos2unix"
        )
    found: dict[str, GivenOption] = {}
    warnings: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            break
        if line.startswith("#SBATCH"):
            where = f"{source}, line {number}"
            for option, value in _words(line.removeprefix("#SBATCH"), where):
                if option in IGNORED:
                    warnings.append(f"{where}: --{option} means nothing here, and is left out")
                else:
                    found[option] = GivenOption(value, f"{where}: --{option}")
    return Script(text, found, tuple(warnings))


def _words(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Options and their values, behind `=`, behind a blank, or glued to a letter."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise BadInput(f"{where}: {error}; close the quotation") from error
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            name = name[2:]
        elif word.startswith("-") and len(word) > 1:
            letter, value = word[1], word[2:].removeprefix("=")
            option = _BY_LETTER.get(letter)
            name, equals = option.name if option is not None else _IGNORED_LETTERS.get(letter, word[:2]), value
        else:
            raise BadInput(f"{where}: {word!r} is no option; write --name=value")
        if name not in _BY_NAME and name not in IGNORED:
            known = ", ".join(f"--{option.name}" for option in OPTIONS)
            instead = INSTEAD.get(_LETTERS_INSTEAD.get(name[1:], name), f"remove it, or use some of {known}")
            raise BadInput(f"{where}: {word.partition('=')[0]} is not known here; {instead}")
        if not equals and name not in _WITHOUT_VALUE:
            value = next(rest, "")
            if not value and name in _BY_NAME:
                raise BadInput(f"{where}: --{name} has no value; write --{name}={_BY_NAME[name].value}")
        yield name, value


# ------------------------------------------------------------------------------------------------------------- layout


class Layout(Value):
    """How tasks, cores and GPUs lie on pods."""

    pods: int
    tasks_each: int
    cpus_per_task: int
    gpus_each: int
    apart: bool  # each pod on a node of its own

    @property
    def tasks(self) -> int:
        return self.pods * self.tasks_each


def layout_of(options: Mapping[str, GivenOption]) -> Layout:
    """The pods that these options ask for; refuses what does not divide evenly, naming both."""
    nodes, tasks = _count(options, "nodes"), _count(options, "ntasks")
    each = _count(options, "ntasks-per-node")
    if nodes is None and each is not None and tasks is not None:
        nodes = _divide(options, tasks, each, "ntasks", "ntasks-per-node")
    if nodes is not None and each is None:
        each = _divide(options, tasks, nodes, "ntasks", "nodes") if tasks is not None else 1
    pods = nodes if nodes is not None else tasks or 1
    each = each or 1
    if nodes is not None and tasks is not None and tasks != nodes * each:
        raise BadInput(f"{options['ntasks'].where} {tasks}: {nodes} nodes of {each} tasks are {nodes * each}; drop one")
    if each > TASKS_MAX or pods > JOB_REPLICAS_MAX:
        raise BadInput(f"{pods} pods of {each} tasks are more than {JOB_REPLICAS_MAX} of {TASKS_MAX}; ask for less")
    return Layout(pods, each, _count(options, "cpus-per-task") or CPUS, _gpus(options, pods), apart=nodes is not None)


def _gpus(options: Mapping[str, GivenOption], pods: int) -> int:
    given = [name for name in ("gpus", "gpus-per-node", "gres") if name in options]
    if len(given) > 1:
        raise BadInput(f"{' and '.join(options[name].where for name in given)}: two numbers for one thing; drop one")
    if "gpus" in options:
        return _divide(options, _count(options, "gpus", least=0) or 0, pods, "gpus", "nodes")
    if "gres" not in options:
        return _count(options, "gpus-per-node", least=0) or 0
    kind, _, number = options["gres"].value.partition(":")
    if kind != "gpu":
        raise BadInput(f"{options['gres'].where} {options['gres'].value}: only gpu:N is known here; correct it")
    return _whole(number.rpartition(":")[2] or "1", options["gres"].where, least=0)


def _count(options: Mapping[str, GivenOption], name: str, *, least: int = 1) -> int | None:
    said = options.get(name)
    if said is None:
        return None
    text = said.value
    if name == "nodes" and "-" in text:
        low, _, high = text.partition("-")
        if low != high:
            raise BadInput(f"{said.where} {text}: a gang has one size here; write one number")
        text = low
    if name.startswith("gpus") and ":" in text:
        text = text.rpartition(":")[2]  # a type of GPU, which nodes' labels tell here
    return _whole(text, said.where, least=least)


def _whole(text: str, where: str, *, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 20) or not least <= int(text) <= NUMBER_MAX:
        raise BadInput(f"{where} {text[:40]!r}: expected a whole number from {least} to {NUMBER_MAX}")
    return int(text)


def _divide(options: Mapping[str, GivenOption], whole: int, parts: int, name: str, other: str) -> int:
    if whole % parts:
        beside = f"--{other}" if other in options else "pods"
        raise BadInput(f"{options[name].where} {whole}: cannot be shared evenly by {parts} ({beside}); make them fit")
    return whole // parts


# ------------------------------------------------------------------------------------------------------ times and sizes

_TIME: Final = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,9})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?")
_SIZE: Final = re.compile(r"([0-9]{1,12})([KMGT]?)B?", re.IGNORECASE)
_ENDLESS: Final = frozenset({"0", "INFINITE", "UNLIMITED"})


def time_limit(said: GivenOption) -> str | None:
    """Slurm's time as a duration: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]; None for no limit."""
    if said.value.upper() in _ENDLESS:
        return None
    match = _TIME.fullmatch(said.value)
    if match is None:
        raise BadInput(f"{said.where} {said.value!r}: expected MINUTES, H:MM:SS or D-HH:MM:SS, such as 2:00:00")
    days, first, second, third = match.groups()
    if days is not None:
        seconds = int(days) * 86_400 + int(first) * 3_600 + int(second or 0) * 60 + int(third or 0)
    elif third is not None:
        seconds = int(first) * 3_600 + int(second) * 60 + int(third)
    else:
        seconds = int(first) * 60 + int(second or 0)
    if not 0 < seconds * instant.SECOND <= instant.DURATION_MAX:
        raise BadInput(f"{said.where} {said.value!r}: no time that a Job could run; write for example 2:00:00")
    return instant.format_duration(seconds * instant.SECOND)


def _signal(said: GivenOption) -> tuple[str, str]:
    """The signal and the warning of `[B:]USR1[@120]`."""
    name, _, seconds = said.value.rpartition(":")[2].partition("@")
    signal = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    if signal not in SIGNALS:
        raise BadInput(
            f"{said.where} {said.value!r}: not a signal that can be asked for; use one of {', '.join(SIGNALS)}"
        )
    return signal, f"{_whole(seconds or str(SIGNAL_S), said.where, least=1)}s"


def _memory(said: GivenOption) -> str:
    match = _SIZE.fullmatch(said.value)
    if match is None:
        raise BadInput(f"{said.where} {said.value!r}: expected a size such as 512M or 64G")
    return f"{match.group(1)}{(match.group(2) or 'M').upper()}i"


# --------------------------------------------------------------------------------------------------------------- a Job


def annotations_of(options: Mapping[str, GivenOption]) -> dict[str, str]:
    limit = time_limit(options["time"]) if "time" in options else None
    found = {names.TIME_LIMIT: limit} if limit is not None else {}
    if "signal" in options:
        if limit is None:
            raise BadInput(f"{options['signal'].where}: there is no time limit to warn of; add --time")
        found[names.TIME_LIMIT_SIGNAL], found[names.TIME_LIMIT_WARNING] = _signal(options["signal"])
    return found


def name_of(options: Mapping[str, GivenOption], source: str) -> str:
    """What the Job's name begins with: its name in Slurm, or the script's, in Kubernetes' letters."""
    text = options["job-name"].value if "job-name" in options else source.rpartition("/")[2].partition(".")[0]
    return _NAME.sub("-", text.lower())[:NAME_CHARS_MAX].strip("-") or "batch"


def job_of(
    script: Script, arguments: Iterable[str], *, source: str, image: str, volumes: tuple[list[Json], list[Json]]
) -> Json:
    """The Job; `volumes` and their mounts are those of every pod."""
    options = script.options
    layout = layout_of(options)
    name = name_of(options, source)
    mounted, mounts = volumes
    requests = {"cpu": str(layout.cpus_per_task * layout.tasks_each)}
    if "mem" in options:
        requests["memory"] = _memory(options["mem"])
    gpus = {GPU: str(layout.gpus_each)} if layout.gpus_each else {}
    container: Json = {
        "name": "script",
        "image": image,
        "command": [as_it_is(word) for word in ("/bin/sh", "-c", START, "sbatch", *arguments)],
        "env": _environment(script, layout, name),
        "resources": {"requests": {**requests, **gpus}, "limits": gpus},
        **({"workingDir": options["chdir"].value} if "chdir" in options else {}),
        **({"volumeMounts": mounts} if mounts else {}),
    }
    label = {names.CLI_JOB_NAME: name}
    spec: Json = {"restartPolicy": "Never", "containers": [container], **({"volumes": mounted} if mounted else {})}
    if layout.apart and layout.pods > 1:
        spec["affinity"] = _apart()
    return {
        **type_meta(Job),
        "metadata": {"generateName": f"{name}-", "annotations": annotations_of(options)},
        "spec": {
            "schedulerName": VOLCANO,
            "minAvailable": layout.pods,
            "plugins": {"env": [], "svc": []},
            # As in Slurm: a node that is lost starts the Job anew, and a script that fails ends it everywhere.
            "policies": [
                {"event": "PodEvicted", "action": "RestartJob"},
                {"event": "PodFailed", "action": "TerminateJob"},
            ],
            **({"queue": options["partition"].value} if "partition" in options else {}),
            "tasks": [
                {"name": TASK, "replicas": layout.pods, "template": {"metadata": {"labels": label}, "spec": spec}}
            ],
        },
    }


def as_it_is(text: str) -> str:
    """A word that Kubernetes hands on as it is: it would put variables into `$(NAME)`, and make one `$` of two."""
    return text.replace("$", "$$")


def _apart() -> Json:
    """No two pods of one task of a Job on one node: the label that counts is the Job's own name."""
    term = {
        "labelSelector": {"matchLabels": {names.TASK_SPEC: TASK}},
        "matchLabelKeys": [names.JOB_NAME],
        "topologyKey": names.HOSTNAME,
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _environment(script: Script, layout: Layout, name: str) -> list[Json]:
    """Slurm's variables, as far as they are known before the pods are; the rest is set where the script starts."""
    options = script.options
    texts = {
        "SBATCH_SCRIPT": script.text,
        "SBATCH_SRUN": SRUN,
        "SBATCH_SIGNALS": "script" if "signal" in options and options["signal"].value.startswith("B:") else "steps",
        "SBATCH_OUTPUT": options["output"].value if "output" in options else "",
        "SLURM_JOB_NAME": name,
        "SLURM_JOB_NUM_NODES": str(layout.pods),
        "SLURM_NNODES": str(layout.pods),
        "SLURM_NTASKS": str(layout.tasks),
        "SLURM_NTASKS_PER_NODE": str(layout.tasks_each),
        "SLURM_CPUS_PER_TASK": str(layout.cpus_per_task),
        "SLURM_GPUS_ON_NODE": str(layout.gpus_each),
        "SLURM_JOB_PARTITION": options["partition"].value if "partition" in options else "default",
    }
    fields = {"SLURM_JOB_ID": f"metadata.labels['{names.JOB_NAME}']", "SLURMD_NODENAME": "spec.nodeName"}
    return [
        *({"name": key, "value": as_it_is(value)} for key, value in texts.items()),
        *({"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()),
    ]
