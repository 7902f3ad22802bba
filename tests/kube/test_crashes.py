"""kill -9 at each step of dispatch: no gang stays partly bound, nothing is bound twice, nothing started is touched.

The scheduler runs as a process of its own and dies exactly at a named step; a second one takes over. A handful of rounds here,
a hundred in `make soak`.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from tools.kube.control_plane import ControlPlane
from tools.kube.nodes import pretend_nodes

from pumice.api import kinds, names
from pumice.cli.crds import manifests

SIZE = 8
WAIT_S = 40.0
STEPS = ("assumed:1", "binding:1", "binding:4", "binding:8", "bound:1", "dispatched:1", "status:1", "status:2")


@pytest.fixture(scope="module")
def crash_plane(binaries):
    with ControlPlane(nodes=pretend_nodes(2, gpus=SIZE, prefix="crash-"), durable=True) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", input=manifests())
        plane.kubectl(
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            *(f"crd/{kind.resource}" for kind in kinds.CUSTOM_KINDS),
        )
        yield plane


class Scheduler:
    """`pumice scheduler` as a process; it ends with the test that started it."""

    def __init__(self, plane, log, fail_point=""):
        environment = {**os.environ, "PUMICE_FAIL_POINT": fail_point}
        command = [
            sys.executable,
            "-m",
            "pumice.cli",
            "scheduler",
            "--kubeconfig",
            str(plane.kubeconfig),
            "--no-leader-elect",
        ]
        self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=20)


def a_gang(name, size=SIZE, minimum=None):
    yield {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size if minimum is None else minimum},
    }
    for number in range(size):
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-w-{number}", "annotations": {names.GROUP_NAME: name}},
            "spec": {
                "schedulerName": "volcano",
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
            },
        }


def create(plane, namespace, objects):
    text = "\n---\n".join(json.dumps(each) for each in objects)
    plane.kubectl("-n", namespace, "create", "-f", "-", input=text)


def pods_of(plane, namespace):
    return json.loads(plane.kubectl("-n", namespace, "get", "pods", "-o", "json").stdout)["items"]


def wait_until(test, what):
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        found = test()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(what)


def round_of(plane, namespace, log, fail_point):
    create(plane, namespace, a_gang("train"))
    with Scheduler(plane, log, fail_point) as first:
        wait_until(lambda: first.process.poll() is not None, f"the scheduler should die at {fail_point}")
        assert first.process.returncode == -signal.SIGKILL
    before = {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in pods_of(plane, namespace)}
    with Scheduler(plane, log):

        def all_bound():
            pods = pods_of(plane, namespace)
            return pods if all(pod["spec"].get("nodeName") for pod in pods) and len(pods) == SIZE else None

        pods = wait_until(all_bound, f"after a crash at {fail_point} the gang should be completed")
    for pod in pods:  # a bound pod stays where it is, and none was made anew
        assert before[pod["metadata"]["uid"]] in {None, pod["spec"]["nodeName"]}
    per_node = {}
    for pod in pods:
        per_node[pod["spec"]["nodeName"]] = per_node.get(pod["spec"]["nodeName"], 0) + 1
    assert max(per_node.values()) <= SIZE


def empty(plane, namespace):
    plane.kubectl("-n", namespace, "delete", "pods,podgroups", "--all", "--grace-period=0", "--force", "--wait=true")


@pytest.fixture
def crash_namespace(crash_plane, request):
    name = f"crash-{abs(hash(request.node.name)) % 10**8}"
    crash_plane.create_namespace(name)
    yield name
    empty(crash_plane, name)


@pytest.mark.parametrize("fail_point", ["binding:4", "bound:1"])
def test_a_gang_whose_commit_was_cut_short_is_completed_by_the_next_leader(
    crash_plane, crash_namespace, tmp_path, fail_point
):
    with (tmp_path / "scheduler.log").open("w") as log:
        round_of(crash_plane, crash_namespace, log, fail_point)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_crashes_at_random_steps(crash_plane, crash_namespace, tmp_path):
    seed = random.SystemRandom().getrandbits(32)
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    with (tmp_path / "scheduler.log").open("w") as log:
        for _ in range(100):
            round_of(crash_plane, crash_namespace, log, chance.choice(STEPS))
            empty(crash_plane, crash_namespace)


def test_a_gang_that_has_started_loses_nothing_to_recovery(crash_plane, crash_namespace, tmp_path):
    """Elastic, degraded, with a raised minimum: a restart touches none of its pods."""
    plane, namespace = crash_plane, crash_namespace
    create(plane, namespace, a_gang("train", size=6, minimum=4))
    with (tmp_path / "scheduler.log").open("w") as log:
        with Scheduler(plane, log):

            def is_running():
                group = json.loads(plane.kubectl("-n", namespace, "get", "pg", "train", "-o", "json").stdout)
                return group.get("status", {}).get("phase") == "Running" and names.ATTEMPT in group["metadata"].get(
                    "annotations", {}
                )

            wait_until(is_running, "the gang should run, and its group should say by which attempt")
        plane.kubectl(
            "-n", namespace, "delete", "pod", "train-w-0", "train-w-1", "train-w-2", "--grace-period=0", "--force"
        )
        patch = '{"spec":{"minMember":6}}'
        plane.kubectl("-n", namespace, "patch", "pg", "train", "--type=merge", "-p", patch)
        left = {pod["metadata"]["uid"] for pod in pods_of(plane, namespace)}
        assert len(left) == 3
        with Scheduler(plane, log):
            create(plane, namespace, a_gang("other", size=1))

            def other_is_bound():
                return [
                    pod
                    for pod in pods_of(plane, namespace)
                    if pod["metadata"]["name"].startswith("other") and pod["spec"].get("nodeName")
                ]

            wait_until(other_is_bound, "the scheduler should be at work")
        assert left <= {pod["metadata"]["uid"] for pod in pods_of(plane, namespace)}
