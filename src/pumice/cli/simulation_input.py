"""What `pumice simulate` is given: a workload, and the cluster that it goes to, from files, the record, or a word."""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from pumice import instant
from pumice.api import decoding, kinds
from pumice.api.batch import Job
from pumice.api.meta import ObjectMeta
from pumice.api.pods import Pod
from pumice.api.scheduling import Queue, QueueStatus
from pumice.cli import future_pods
from pumice.cli.input_files import DUMP_BYTES_MAX, read_file
from pumice.cli.offline import read_objects, world_of
from pumice.cluster import edits
from pumice.digits import counted, is_number
from pumice.errors import BadInput
from pumice.record.settings import without_password
from pumice.scheduling.time.stand_ins import with_stand_ins
from pumice.sim import workload
from pumice.sim.generator import generate
from pumice.sim.gpu_traces import is_gpu_trace, is_philly, read_csv, read_nodes, read_philly
from pumice.sim.past import cluster_of_dump, in_slots, others_of_dump, work_of_dump, work_of_record
from pumice.sim.simulation import START, gpus_of, nodes
from pumice.sim.workload import TOO_LARGE, left_out_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pumice.api.core import Node
    from pumice.api.meta import Struct
    from pumice.instant import Instant
    from pumice.sim.workload import Submission

GENERATED = "generated"
GENERATED_JOBS = 1_000
RECORD, SQLITE = "record:", "sqlite:///"
DUMPS = frozenset({".yaml", ".yml", ".json"})
NODE_LIST = ".csv"
PACKED = ".gz"
QUEUES_SHOWN_MAX = 20  # in a message
HEAD_SHOWN_CHARS_MAX = 80
WEIGHT_MAX = 1_000_000
_GZIP = b"\x1f\x8b"
_TIMES = frozenset({"creationTimestamp", "startTime", "startedAt", "finishedAt", "lastTransitionTime", "lastHeartbeatTime", "renewTime"})  # fmt: skip
DUMP_COMMAND = "kubectl get nodes,queues,podgroups,pods,jobs.batch.volcano.sh,priorityclasses -A -o yaml"


class Place(NamedTuple):
    """Where the work goes."""

    machines: list[Node]
    queues: list[Queue] | dict[str, int]
    others: list[Struct]
    begin: Instant = START
    of_dump: frozenset[str] = frozenset()  # queues that a dump has


class Given(NamedTuple):
    """All that a simulation is made from."""

    work: list[Submission]
    place: Place
    left_out: Counter[str]  # jobs, by the reason


class Asked(NamedTuple):
    """The options that say what is simulated."""

    file: str
    cluster: str
    weights: tuple[str, ...]
    jobs: int | None
    run_s: float
    load: float
    seed: int


def read(asked: Asked) -> Given:
    """The workload and the cluster; what cannot be taken from them is said on stderr."""
    left_out = Counter[str]()
    if not _is_dump(asked.file) or _is_philly(asked.file):
        place = _place(asked, as_it_is=False)
        work = _work(asked, sum(map(gpus_of, place.machines)), left_out)
    elif _is_dump(asked.cluster):
        return _dump_on_dump(asked)
    else:
        place, work = _place(asked, as_it_is=False), in_slots(_of_dump(asked)[0], left_out)
        if not work:
            raise BadInput(f"{asked.file}: no gang in it asks for GPUs; give what `{DUMP_COMMAND}` prints")
    work = _that_fit(work, place.machines, asked.cluster, left_out)
    if left_out:
        click.echo(f"pumice: {shown(asked.file)}: {left_out_text(left_out)}", err=True)
    _check_queues(asked, work, place)
    return Given(work, place, left_out)


def _dump_on_dump(asked: Asked) -> Given:
    """Gangs and nodes as they are."""
    (work, dump), place = _of_dump(asked), _place(asked, as_it_is=True)
    others = others_of_dump(dump.objects, work) if asked.file == asked.cluster else place.others
    known = {node.metadata.name for node in place.machines}
    _check_queues(asked, work, place)
    return Given(_on_nodes(work, known), place._replace(others=others, begin=dump.newest), Counter())


def shown(name: str) -> str:
    """A file or an address as an answer may have it: without a password, and every byte of it as text."""
    if name.startswith(RECORD):
        name = RECORD + without_password(name.removeprefix(RECORD))
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def file_of(name: str) -> str:
    """What is read where this is given: a record may be a file, too."""
    return name.removeprefix(RECORD).removeprefix(SQLITE)


# ------------------------------------------------------------------------------------------------- the workload


def _work(asked: Asked, slots: int, left_out: Counter[str]) -> list[Submission]:
    most = asked.jobs if asked.jobs is not None else workload.JOBS_MAX
    if asked.file == GENERATED:
        return generate(
            asked.jobs if asked.jobs is not None else GENERATED_JOBS, slots, load=asked.load, seed=asked.seed
        )
    if asked.file.startswith(RECORD):
        work = _recorded(asked.file.removeprefix(RECORD), most, left_out)
        if not work:
            raise BadInput("--workload: no gang in the record held GPUs and has ended; is it the right database?")
        return work
    text = _text(asked.file)
    if is_philly(text):
        work = read_philly(_json(text, asked.file), asked.file, most=most, left_out=left_out)
    else:
        head = text.partition("\n")[0]
        _check_head(head, asked.file)
        read_lines = read_csv if is_gpu_trace(head) else workload.read_swf
        work = read_lines(io.StringIO(text), asked.file, most=most, left_out=left_out)
    if not work:
        raise BadInput(
            f"{asked.file}: no job in it has a run time and processors; is it a trace in the Standard Workload Format, or the CSV of a GPU trace?"
        )
    return work


def _check_head(head: str, file: str) -> None:
    """A first line that no trace can have: most often it is a table or a dump under another name."""
    words = head.split()
    if not words or head.startswith(";") or is_gpu_trace(head) or is_number(words[0]):
        return
    raise BadInput(
        f"{file}: its first line is {head.strip()[:HEAD_SHOWN_CHARS_MAX]!r}; the CSV of a GPU trace has columns such as submit_time, gpu_num and duration "
        "there, with commas between them, the Standard Workload Format has numbers, and the name of a dump ends in .yaml or .json"
    )


def _text(file: str) -> str:
    data = read_file(file)
    if data.startswith(_GZIP):
        try:
            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(DUMP_BYTES_MAX + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise BadInput(f"{file}: damaged gzip file: {error}; fetch it again") from error
        if len(data) > DUMP_BYTES_MAX:
            raise BadInput(f"{file}: larger than {DUMP_BYTES_MAX} bytes when unpacked; split it into several files")
    text = data.decode("utf-8-sig", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text  # the second is of old spreadsheets


def _json(text: str, file: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file}: not JSON: {error}; is the file whole?") from error


def _recorded(url: str, most: int, left_out: Counter[str]) -> list[Submission]:
    """Gangs that have ended, page by page, the last first."""
    from pumice.record import queries
    from pumice.record.model import Filter
    from pumice.record.settings import check
    from pumice.record.store import Store

    check(url, f"--workload {RECORD}")
    store, rows = Store(url), list[Any]()
    try:
        store.check()
        page_of = Filter(limit=queries.LIMIT_MAX)
        with store.reading() as connection:
            while len(rows) < most and (found := queries.history(connection, page_of)):
                rows += found
                page_of = msgspec.structs.replace(page_of, before=(found[-1].ended, found[-1].uid))
    finally:
        store.close()
    return work_of_record(rows[:most], left_out)


def _that_fit(
    work: Sequence[Submission], machines: Sequence[Node], cluster: str, left_out: Counter[str]
) -> list[Submission]:
    """Jobs that the empty cluster has room for; the others could never start."""
    sizes = [gpus_of(node) for node in machines]
    room = {slots: sum(size // slots for size in sizes) for slots in {each.slots for each in work}}
    found = [each for each in work if (each.minimum or each.size) <= room[each.slots]]
    if not found:
        least = min(work, key=lambda each: each.size * each.slots)
        raise BadInput(
            f"--cluster {cluster}: no job of the workload fits: the smallest wants {counted(least.size, 'pod')} of {counted(least.slots, 'slot')}, "
            f"and {counted(len(sizes), 'node')} of up to {max(sizes)} have {sum(sizes)}; give more or larger nodes"
        )
    if len(found) < len(work):
        left_out[TOO_LARGE] = len(work) - len(found)
    return found


def _check_queues(asked: Asked, work: Iterable[Submission], place: Place) -> None:
    """The weight of a queue that nobody is in would change nothing, without a word."""
    known = {each.queue for each in work} | place.of_dump
    for name in _weights(asked.weights):
        if name not in known:
            listed = ", ".join(sorted(known)[:QUEUES_SHOWN_MAX])
            raise BadInput(f"--queue {name[:80]}: no job of the workload is in it; there are {listed}")


# ------------------------------------------------------------------------------------------------- dumps


class _Dump(NamedTuple):
    objects: list[Struct]  # those that the scheduler knows
    newest: Instant  # the last moment that any of them names: a dump has no clock


def _is_dump(file: str) -> bool:
    return not file.startswith(RECORD) and Path(file).suffix.lower() in DUMPS


def _is_philly(file: str) -> bool:
    return file.lower().endswith(".json") and is_philly(_text(file))


def _dump(file: str) -> _Dump:
    found, newest = list["Struct"](), START
    for thing in read_objects(file):
        newest = max([newest, *_moments(thing)])
        kind = kinds.by_kind(str(thing.get("apiVersion", "")), str(thing["kind"]))
        if kind is not None and kind.struct is not None:
            found.append(decoding.decode_value(kind.struct, thing))
    return _Dump(found, newest)


def _moments(thing: Any) -> Iterator[Instant]:
    """When something has happened, as the API server and kubelets note it."""
    if isinstance(thing, dict):
        for key, value in thing.items():
            if key in _TIMES and isinstance(value, str):
                try:
                    yield instant.parse_instant(value)
                except BadInput:
                    continue
            elif isinstance(value, dict | list):
                yield from _moments(value)
    elif isinstance(thing, list):
        for each in thing:
            yield from _moments(each)


def _of_dump(asked: Asked) -> tuple[list[Submission], _Dump]:
    """Its gangs, with the pods that controllers are going to make for those that have none yet."""
    dump = _dump(asked.file)
    world = world_of(dump.objects, None, source="built-in policy", now=dump.newest)
    world = future_pods.with_pods(world, [each for each in dump.objects if isinstance(each, Job)])
    work = work_of_dump(with_stand_ins(world).intake.cluster, dump.newest, asked.run_s)
    if not work:
        raise BadInput(f"{asked.file}: no gang in it runs or waits; give what `{DUMP_COMMAND}` prints")
    return work[: asked.jobs], dump


def _on_nodes(work: Iterable[Submission], known: set[str]) -> list[Submission]:
    """Gangs that run on nodes which are not there begin again."""
    found = []
    for job in work:
        places = {name for thing in job.objects if (name := getattr(getattr(thing, "spec", None), "node_name", ""))}
        if places <= known:
            found.append(job)
        else:
            anew = tuple(edits.made_anew(thing) if isinstance(thing, Pod) else thing for thing in job.objects)
            found.append(msgspec.structs.replace(job, ran_s=None, objects=anew))
    return found


def _place(asked: Asked, *, as_it_is: bool) -> Place:
    wanted = _weights(asked.weights)
    if not _is_dump(asked.cluster):
        return Place(_listed_or_equal(asked.cluster), wanted, [])
    machines, queues, others = cluster_of_dump(_dump(asked.cluster).objects, asked.cluster, as_it_is=as_it_is)
    known = {queue.metadata.name: queue for queue in queues}
    of_dump = frozenset(known)
    for name, weight in wanted.items():
        was = known.get(name, Queue(metadata=ObjectMeta(name=name, uid=name), status=QueueStatus(state="Open")))
        known[name] = msgspec.structs.replace(was, spec=msgspec.structs.replace(was.spec, weight=weight))
    return Place(machines, list(known.values()), others, of_dump=of_dump)


def _listed_or_equal(cluster: str) -> list[Node]:
    if Path(cluster.lower().removesuffix(PACKED)).suffix == NODE_LIST:
        return read_nodes(io.StringIO(_text(cluster)), cluster)
    try:
        return nodes(cluster)
    except BadInput as error:
        raise BadInput(f"--{error}; or name a dump (.yaml, .json) or a list of nodes (.csv, .csv.gz)") from error


def _weights(given: Iterable[str]) -> dict[str, int]:
    found = dict[str, int]()
    for name, weight in map(_weight, given):
        if found.setdefault(name, weight) != weight:
            raise BadInput(f"--queue {name[:80]}: it is given the weights {found[name]} and {weight}; give one of them")
    return found


def _weight(text: str) -> tuple[str, int]:
    name, _, weight = text.partition("=")
    if not name or not (weight.isascii() and weight.isdecimal()) or not 1 <= int(weight[:9]) <= WEIGHT_MAX:
        raise BadInput(
            f"--queue {text[:80]!r}: write NAME=WEIGHT, such as research=3, with a weight of 1 to {WEIGHT_MAX}"
        )
    return name, int(weight)
