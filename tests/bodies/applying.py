"""Manifests as people write them, without anything that admission fills in, to be applied again with one change."""

import contextlib
from typing import Any

from tests.bodies.webhooks import Hooked, manifest

from pumice.api import kinds, names
from pumice.api.scheduling import Queue
from pumice.kube import errors

Json = dict[str, Any]


async def prepare(here: Hooked) -> None:
    """The queues that every installation has."""
    for name in ("root", "default"):
        with contextlib.suppress(errors.AlreadyExists):
            spec = {} if name == "root" else {"parent": "root"}
            await here.client.create(Queue, manifest(kinds.by_struct(Queue), name, spec))
        await here.knows(Queue, name)


def job(replicas: int) -> Json:
    """Every field that admission may fill in is left out."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x", "ports": [{"containerPort": 80}]}]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "again"},
        "spec": {
            "plugins": {"mpi": []},
            "tasks": [
                {"name": "master", "replicas": 1, "template": {"spec": {**pod, "hostNetwork": True}}},
                {"replicas": replicas, "template": {"spec": pod}},
            ],
        },
    }


def queue(priority: int) -> Json:
    marks = {names.HIERARCHY: "a/b", names.HIERARCHY_WEIGHTS: "1/2"}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "again", "annotations": marks},
        "spec": {"priority": priority},
    }


def check_job(made: Json, replicas: int, minimum: int) -> None:
    """What the server keeps: the replicas that were asked for, and what admission had filled in."""
    spec = made["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"]) == ("default", "volcano", 3)
    assert spec["plugins"] == {"mpi": [], "ssh": [], "svc": []}
    assert spec["minAvailable"] == minimum
    master, worker = spec["tasks"]
    assert master["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert [worker[key] for key in ("name", "replicas", "minAvailable", "maxRetry")] == [
        "default1",
        replicas,
        replicas,
        3,
    ]


def check_queue(made: Json, priority: int) -> None:
    marks, spec = made["metadata"]["annotations"], made["spec"]
    assert (marks[names.HIERARCHY], marks[names.HIERARCHY_WEIGHTS]) == ("root/a/b", "1/1/2")
    assert (spec["weight"], spec["reclaimable"], spec["priority"]) == (1, True, priority)


# (replicas, the minimum of the Job): all of its pods, because nobody wrote another.
SCALED = ((3, 4), (5, 6), (2, 3), (2, 3))
