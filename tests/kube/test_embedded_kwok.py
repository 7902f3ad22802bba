"""The real KWOK controller plays nodes and pods against the embedded server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.kube.test_embedded_kubectl import Embedded, run
from tools.kube import commands
from tools.kube.nodes import pretend_nodes

from pumice import yamltext

STAGES = Path(commands.__file__).parent / commands.STAGES
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "busybox"}]},
}


@pytest.fixture
def kubectl(binaries, tmp_path):
    """kubectl on an embedded server beside which KWOK runs."""
    server = Embedded(tmp_path / "server", binaries / "kubectl")
    command = [
        binaries / "kwok",
        f"--kubeconfig={server.kubeconfig}",
        f"--config={STAGES}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        "--node-ip=127.0.0.1",
        "--cidr=10.64.0.0/10",
    ]
    with (tmp_path / "kwok.log").open("wb") as log:
        kwok = subprocess.Popen(command, stderr=log)

    def kubectl_done(*arguments, text=""):
        outcome = run(binaries / "kubectl", server.kubeconfig, tmp_path / "cache", ["-n", "default", *arguments], text)
        assert outcome.code == 0, f"{outcome}\n{(tmp_path / 'kwok.log').read_text()[-3000:]}"
        return outcome.out

    yield kubectl_done
    kwok.terminate()
    kwok.wait()
    server.stop()


def test_kwok_makes_nodes_ready_and_runs_and_ends_pods(kubectl):
    nodes = {"apiVersion": "v1", "kind": "List", "items": pretend_nodes(3, gpus=8)}
    kubectl("create", "-f", "-", text=yamltext.dump(nodes))
    kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=120s")
    assert len(kubectl("get", "leases", "-n", "kube-node-lease", "-o", "name").split()) == 3
    kubectl("create", "-f", "-", text=yamltext.dump(POD))
    kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=120s")
    assert kubectl("get", "pod", "p", "-o", "jsonpath={.status.phase},{.status.podIP}").startswith("Running,10.")
    kubectl("delete", "pod", "p", "--timeout=120s")
