"""What `pumice scheduler` remembers outlives its process and is its successor's, on the real API server."""

import json
import signal
import time

import pytest
from tests.bodies.patience import PATIENCE_S
from tests.kube.test_telemetry import Scheduler, wait_until
from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds
from tools.kube.nodes import pretend_nodes

from pumice.scheduling.evicting import backoff

LEASE = ("--lease-name", "remembering")
PATH = "/api/v1/namespaces/kube-system/configmaps/remembering-memory-eviction-backoff"


@pytest.fixture(scope="module")
def small_plane(binaries):
    with ControlPlane(nodes=pretend_nodes(1, gpus=4, prefix="small-")) as plane:
        install_kinds(plane)
        yield plane


def a_gang_that_fits_nowhere():
    """Evictions are planned for it, and come to nothing."""
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "64"}}}
    notes = {"scheduling.k8s.io/group-name": "too-big"}
    spec = {"schedulerName": "volcano", "containers": [container]}
    return (
        {**group, "metadata": {"name": "too-big"}, "spec": {"minMember": 1}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "too-big-0", "annotations": notes}, "spec": spec},
    )


def known(plane):
    """The back-off of the one gang that waits; None where none is written."""
    answer = plane.request("GET", PATH)
    if answer.status != 200:
        return None
    entries = backoff.SLOT.decode(answer.body["data"]["memory.json"]).actions.get("preempt", {})
    return next(iter(entries.values()), None)


def stop(scheduler):
    scheduler.process.send_signal(signal.SIGTERM)
    assert scheduler.process.wait(timeout=PATIENCE_S) == 0


def test_a_successor_goes_on_where_the_former_leader_has_stopped(small_plane, tmp_path):
    plane = small_plane
    plane.create_namespace("team")
    for body in a_gang_that_fits_nowhere():
        plane.kubectl("-n", "team", "create", "-f", "-", input=json.dumps(body))
    with Scheduler(plane, tmp_path, *LEASE) as first:
        wait_until(lambda: known(plane), "the leader writes what it learned")
        stop(first)
    before = known(plane)
    wait_until(lambda: time.time_ns() > before.until, "the back-off has passed")
    with Scheduler(plane, tmp_path, *LEASE) as second:
        wait_until(lambda: known(plane).until > before.until, "the successor has tried again")
        stop(second)
    after = known(plane)
    assert (after.gang, after.rules) == (before.gang, before.rules)  # the same to another process
    assert after.pause >= 2 * before.pause


def test_what_cannot_be_read_is_set_aside(small_plane, tmp_path):
    plane = small_plane
    plane.kubectl(
        "-n", "kube-system", "delete", "configmap", "remembering-memory-eviction-backoff", "--ignore-not-found"
    )
    body = {"metadata": {"name": "remembering-memory-eviction-backoff"}, "data": {"memory.json": "not ours"}}
    assert plane.request("POST", PATH.rpartition("/")[0], body).status == 201
    with Scheduler(plane, tmp_path, *LEASE) as scheduler:
        wait_until(lambda: scheduler.heard("memory_set_aside"), "the log says so")

        def told():
            events = plane.request("GET", "/api/v1/namespaces/kube-system/events").body["items"]
            return [each for each in events if each["reason"] == "MemorySetAside"]

        wait_until(told, "an event says so")
        wait_until(scheduler.is_ready, "it works all the same")
