"""How much memory the scheduler's state takes: 5,000 nodes and 50,000 running pods, decoded from what an API server sends.

python -m bench.memory [--nodes 5000] [--pods 50000]
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time

from pumice.api import changes, decoding
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.sharing import Siblings
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.kube.informer import Key


def node(number: int, gpus: int = 8) -> bytes:
    room = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": str(gpus), "ephemeral-storage": "3Ti"}
    name = f"node-{number:05}"
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"z{number % 3}",
        "kubernetes.io/os": "linux",
    }
    conditions = [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    ]
    status = {"allocatable": room, "capacity": room, "conditions": conditions}
    return json.dumps({"metadata": {"name": name, "uid": f"u-{name}", "labels": labels}, "status": status}).encode()


def pod(number: int, nodes: int) -> bytes:
    """A worker of a training job, about as large as such pods are."""
    gang = f"job-{number // 8}"
    name = f"{gang}-worker-{number % 8}"
    asks = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
    env = [{"name": f"SETTING_{index}", "value": f"value-{index}-{gang}"} for index in range(20)]
    container = {
        "name": "worker",
        "image": "registry.example/team/training:2026.1",
        "command": ["python", "-m", "train"],
        "env": env,
        "resources": {"requests": asks, "limits": asks},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "token", "mountPath": "/var/run/secrets"}],
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for what in ("not-ready", "unreachable")
    ]
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": gang,
        "uid": f"u-{gang}",
        "controller": True,
    }
    metadata = {
        "name": name,
        "namespace": "research",
        "uid": f"0b8f3a52-{number:012}",
        "resourceVersion": str(1_000_000 + number),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {
            "volcano.sh/job-name": gang,
            "volcano.sh/task-spec": "worker",
            "volcano.sh/task-index": str(number % 8),
        },
        "annotations": {"scheduling.k8s.io/group-name": gang, "volcano.sh/task-spec": "worker"},
        "ownerReferences": [owner],
    }
    spec = {
        "schedulerName": "volcano",
        "nodeName": f"node-{number % nodes:05}",
        "containers": [container],
        "tolerations": tolerations,
        "priority": 0,
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "token", "projected": {"sources": []}}],
    }
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    state = {"running": {"startedAt": "2026-01-01T00:00:05Z"}}
    containers = [{"name": "worker", "ready": True, "restartCount": 0, "state": state, "image": container["image"]}]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": containers, "podIP": "10.0.0.1"}
    return json.dumps({"metadata": metadata, "spec": spec, "status": status}).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    given = parser.parse_args()
    cluster, siblings = Cluster(), Siblings()
    intake = Intake(cluster)
    held: dict[Key, object] = {}  # as informers do
    for number in range(given.nodes):
        intake.apply(changes.Upserted(object=decoding.decode(Node, node(number))))
    for number in range(given.pods):
        made = siblings.share(decoding.decode(Pod, pod(number, given.nodes)))
        held[Key(made.metadata.namespace, made.metadata.name)] = made
        intake.apply(changes.Upserted(object=made))
    snapshot = cluster.snapshot()
    gc.collect()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sizes = {"nodes": given.nodes, "pods": given.pods, "gangs": len(cluster.gangs)}
    figure = {"bench": "memory", **sizes, "peak_mb": round(peak_mb), "cpu_s": round(time.process_time(), 1)}
    sys.stdout.write(json.dumps(figure) + "\n")
    del snapshot, held


if __name__ == "__main__":
    main()
