"""What is fed with bytes that nobody meant, and what it may answer: a value, or one of the errors that it documents. Anything else is a bug."""

import dataclasses
import functools
import json
import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
from aiohttp import web
from tests.cases import admission

from pumice import instant, jsonpath, quantity, selectors, yamltext
from pumice.api import cron, decoding, kinds
from pumice.api.pods import Pod
from pumice.errors import PumiceError
from pumice.flight import frames
from pumice.flight.replay import play
from pumice.kube import kubeconfig, watch
from pumice.local.apiserver import request_parsing
from pumice.local.apiserver.patches.plain import apply_json_patch, apply_merge_patch
from pumice.local.apiserver.patches.strategic import apply_strategic_patch
from pumice.processes.policies import parse_policy
from pumice.scheduling.core import builtin
from pumice.sim.gpu_traces import read_csv, read_philly
from pumice.sim.workload import read_swf
from pumice.webhooks import serving
from pumice.webhooks.reviews import PATHS, Reviewer

POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "team", "labels": {"app": "train"}, "resourceVersion": "7"},
    "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "500m"}}}]},
    "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
}  # fmt: skip
JOB = {
    "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train", "namespace": "team"},
    "spec": {"minAvailable": 2, "queue": "default", "policies": [{"event": "PodEvicted", "action": "RestartJob"}], "plugins": {"svc": []},
             "tasks": [{"name": "w", "replicas": 2, "template": {"spec": POD["spec"]}}]},
}  # fmt: skip
GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g", "namespace": "team"},
    "spec": {"minMember": 2, "queue": "default", "minResources": {"cpu": "2"}, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
}  # fmt: skip
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"},
    "spec": {"weight": 2, "capability": {"cpu": "8"}, "guarantee": {"resource": {"cpu": "1"}}, "deserved": {"cpu": "2"}, "parent": "root"},
}  # fmt: skip
CONFIG = {
    "apiVersion": "v1", "kind": "Config", "current-context": "here",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", "certificate-authority-data": "YQ=="}}],
    "users": [{"name": "u", "user": {"token": "t", "exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1", "env": [{"name": "A", "value": "b"}]}}}],
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
}  # fmt: skip
NODE = {
    "metadata": {"name": "n1", "uid": "n1", "labels": {"rack": "r1"}}, "spec": {},
    "status": {"allocatable": {"cpu": "8", "pods": "10", "nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
}  # fmt: skip
MEMBER = POD | {
    "metadata": {"name": "a", "namespace": "team", "uid": "a", "annotations": {"scheduling.k8s.io/group-name": "g"}}
}
FLIGHT = (
    {"type": "Head", "version": "1", "scheduler_names": ["volcano"], "default_queue": "default", "grace_s": 30},
    {"type": "State", "revision": 1, "shifts": 0, "resources": ["cpu"], "gone": [], "rows": [["+", "Queue", QUEUE], ["+", "Node", NODE], ["+", "PodGroup", GROUP], ["+", "Pod", MEMBER]]},
    {"type": "Inputs", "number": 1, "at": 10**18, "budget": 1000, "rows": [["-", "Pod", MEMBER], ["=", "Node", ["n1"]]], "resting": {}, "forecasts": {}, "policy": None},
    {"type": "Outcome", "number": 1, "seconds": 0.1, "digests": {"binds": "x"}, "binds": {"a": "n1"}, "evictions": []},
)  # fmt: skip
REVIEWER = Reviewer(admission.World(admission.QUEUES))


@dataclasses.dataclass(frozen=True)
class Target:
    """One input: what reads it, from which seeds its inputs are made, and what it may raise."""

    feed: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    may_raise: tuple[type[Exception], ...] = (PumiceError,)


def _json(*values) -> tuple[bytes, ...]:
    return tuple(json.dumps(value).encode() for value in values)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _quantity(data: bytes) -> None:
    text = _text(data)
    printed = quantity.canonical(text)
    assert quantity.canonical(printed) == printed
    quantity.parse_milli(text)
    quantity.parse_value(text)


def _selectors(data: bytes) -> None:
    text = _text(data)
    for parse in (selectors.parse_label_selector, selectors.parse_field_selector):
        try:
            parse(text)
        except PumiceError:
            continue


def _times(data: bytes) -> None:
    for parse in (instant.parse_instant, instant.parse_duration, cron.parse, jsonpath.is_path):
        try:
            parse(_text(data))
        except PumiceError:
            continue


def _yaml(data: bytes) -> None:
    for document in yamltext.load_all(data, source="fuzz"):
        assert yamltext.load_all(yamltext.dump(document), source="again") == [document]


def _objects(data: bytes) -> None:
    for kind in kinds.KINDS:
        if kind.struct is not None:
            try:
                decoding.decode(kind.struct, data)
            except PumiceError:
                continue


def _patches(data: bytes) -> None:
    body = request_parsing.read_value(data, "application/json")
    for apply in (apply_json_patch, apply_merge_patch, functools.partial(apply_strategic_patch, "core.v1.Pod")):
        try:
            apply(json.loads(json.dumps(POD)), body)
        except PumiceError:
            continue


def _kubeconfig(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        kubeconfig.read([Path(file.name)], must_exist=True)


def _admission(data: bytes) -> None:
    request = serving._decode(bytearray(data))["request"]
    for path in PATHS:
        REVIEWER.answer(path)(request)


def _watch(data: bytes) -> None:
    lines, decoder = watch.Lines(bytes_max=10_000), watch.Decoder(Pod, "WATCH", lambda _: None)
    for start in range(0, len(data), 7):
        for line in lines.feed(data[start : start + 7]):
            decoder.decode(line)


def _flight(data: bytes) -> None:
    list(play(frames.unpack(data, "fuzz"), {}))


def _frames(data: bytes) -> None:
    """A line each, with the checksums that they ought to have: bytes at random seldom come past those."""
    whole = b"".join(map(_framed, data.split(b"\n")))
    list(play(frames.unpack(frames.first_line() + whole, "fuzz"), {}))


def _framed(text: bytes) -> bytes:
    body = zlib.compress(text)
    return struct.pack(">II", len(body), zlib.crc32(body)) + body


def _traces(data: bytes) -> None:
    for read in (read_swf, read_csv):
        try:
            read(_text(data).splitlines(), "fuzz", most=100)
        except PumiceError:
            continue
    try:
        log = json.loads(data)
    except ValueError:
        return
    read_philly(log, "fuzz", most=100)


def _review(subject, kind, operation="CREATE", old=None):
    group, _, version = subject["apiVersion"].rpartition("/")
    request = {
        "uid": "u", "kind": {"group": group, "version": version, "kind": kind}, "resource": {"group": group, "version": version, "resource": kind.lower() + "s"},
        "operation": operation, "namespace": "team", "name": subject["metadata"]["name"], "userInfo": {"username": "ann"}, "object": subject, "oldObject": old,
    }  # fmt: skip
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _flight_lines(actions: str) -> bytes:
    policy = parse_policy(
        f'{{"actions": "{actions}", "tiers": [{{"plugins": [{{"name": "gang"}}, {{"name": "predicates"}}]}}]}}',
        "fuzz",
        {},
    )
    given = [
        each | {"policy": json.loads(msgspec.json.encode(policy))} if each["type"] == "Inputs" else each
        for each in FLIGHT
    ]
    return b"\n".join(_json(*given))


TARGETS = {
    "quantity": Target(_quantity, (b"1", b"500m", b"1.5Gi", b"-3e2", b"100k", b"0.1n")),
    "selectors": Target(_selectors, (b"app=train,tier in (a, b),!x,y!=z", b"metadata.name=a,spec.nodeName!=b\\,c", b"a notin (b)")),
    "times": Target(_times, (b"2026-01-01T00:00:00.5Z", b"1h30m0.5s", b"*/5 1-3 * jan mon", b".a[0].b['c']", b"@every 1h")),
    "policy": Target(lambda data: parse_policy(data, "fuzz", {}), (builtin.TEXT.encode(), b'{"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}')),
    "yaml": Target(_yaml, (b"a: &x {b: [1, 0x1f, ~, yes]}\nc: *x\n---\n- |\n  text\n", *_json(POD))),
    "objects": Target(_objects, _json(POD, JOB, GROUP, QUEUE)),
    "patches": Target(_patches, _json(
        [{"op": "replace", "path": "/spec/containers/0/image", "value": "x"}, {"op": "move", "from": "/metadata/labels", "path": "/a"}],
        {"metadata": {"labels": {"app": None}}, "spec": {"containers": [{"name": "c", "$patch": "replace"}], "$setElementOrder/containers": [{"name": "c"}]}},
    )),
    "kubeconfig": Target(_kubeconfig, _json(CONFIG)),
    "admission": Target(_admission, _json(
        _review(JOB, "Job"), _review(JOB, "Job", "UPDATE", JOB), _review(GROUP, "PodGroup"), _review(QUEUE, "Queue"), _review(POD, "Pod"),
    ), (PumiceError, web.HTTPException)),
    "watch": Target(_watch, (b"\n".join(_json({"type": "ADDED", "object": POD}, {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})) + b"\n",)),
    "flight": Target(_flight, (frames.first_line() + frames.pack(frames.Head("1", ("volcano",), "default", 30)) + frames.pack({"type": "State", "revision": 1, "shifts": 0, "resources": [], "gone": [], "rows": []}),)),
    "frames": Target(_frames, (_flight_lines("allocate"), _flight_lines("enqueue, allocate, backfill, preempt, reclaim"))),
    "traces": Target(_traces, (b"1 0 -1 100 3 -1 -1 -1 -1\n", b"submit_time,duration,gpu_num,user\n1,2,3,a\n2026-01-01,5,1,b\n", *_json([
        {"vc": "v", "user": "u", "submitted_time": "2017-10-07 02:13:28", "attempts": [{"start_time": "2017-10-07 02:14:00", "end_time": "None", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
    ]))),
}  # fmt: skip
