from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tools.kube import build
from tools.kube.children import StartError
from tools.kube.client import Client
from tools.kube.control_plane import ControlPlane, KubectlError
from tools.kube.nodes import pretend_node, pretend_nodes


def a_pod(name, *, node=None, annotations=None):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "busybox"}]},
    }


def create(kubectl, manifest):
    return json.loads(kubectl("create", "-f", "-", "-o", "json", input=json.dumps(manifest)).stdout)


def wait_for(kubectl, what, path, value):
    kubectl("wait", what, f"--for=jsonpath={{{path}}}={value}", "--timeout=120s")


def port(plane):
    return int(plane.url.rpartition(":")[2])


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


# ------------------------------------------------------------------------------------------------ what it is


def test_the_server_and_kubectl_say_the_pinned_version(plane):
    assert plane.request("GET", "/version").body["gitVersion"] == build.kubernetes_version()
    said = json.loads(plane.kubectl("version", "-o", "json").stdout)
    assert said["clientVersion"]["gitVersion"] == said["serverVersion"]["gitVersion"] == "v1.36.1"


def test_pretend_nodes_are_ready_with_their_gpus_labels_and_taints(plane):
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    plane.add_nodes([pretend_node("labelled", gpus=2, labels={"zone": "z1"}, taints=[taint])])
    try:
        nodes = {n["metadata"]["name"]: n for n in plane.request("GET", "/api/v1/nodes").body["items"]}
        assert {"node-0", "node-1", "node-2", "node-3"} <= nodes.keys()
        for node in nodes.values():
            assert [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"] == ["True"]
        assert nodes["node-0"]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert nodes["labelled"]["status"]["allocatable"]["nvidia.com/gpu"] == "2"
        assert nodes["labelled"]["metadata"]["labels"]["zone"] == "z1"
        assert nodes["labelled"]["spec"]["taints"] == [taint]
    finally:
        plane.request("DELETE", "/api/v1/nodes/labelled")


# ------------------------------------------------------------------------------------------------ pretend kubelets


def test_a_pod_bound_to_a_pretend_node_runs(plane, namespace, kubectl):
    create(kubectl, a_pod("p"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node-1"}}
    assert plane.request("POST", f"/api/v1/namespaces/{namespace}/pods/p/binding", binding).status == 201
    wait_for(kubectl, "pod/p", ".status.phase", "Running")
    pod = json.loads(kubectl("get", "pod", "p", "-o", "json").stdout)
    assert pod["spec"]["nodeName"] == "node-1"
    assert pod["status"]["podIP"]
    assert {c["type"]: c["status"] for c in pod["status"]["conditions"]}["Ready"] == "True"


def test_a_pretend_pod_ends_when_and_how_its_annotations_say(kubectl):
    create(kubectl, a_pod("good", node="node-0", annotations={"pumice.dev/pretend-run": "10ms"}))
    bad = {"pumice.dev/pretend-run": "10ms", "pumice.dev/pretend-exit-code": "3"}
    create(kubectl, a_pod("bad", node="node-0", annotations=bad))
    wait_for(kubectl, "pod/good", ".status.phase", "Succeeded")
    wait_for(kubectl, "pod/bad", ".status.phase", "Failed")
    wait_for(kubectl, "pod/bad", ".status.containerStatuses[0].state.terminated.exitCode", "3")


def test_a_deleted_pretend_pod_goes_after_the_time_it_asks_for(plane, namespace, kubectl):
    create(kubectl, a_pod("quick", node="node-0"))
    create(kubectl, a_pod("slow", node="node-0", annotations={"pumice.dev/pretend-stop": "1h"}))
    kubectl("delete", "pod", "quick", "slow", "--wait=false")
    kubectl("wait", "pod/quick", "--for=delete", "--timeout=120s")
    slow = plane.request("GET", f"/api/v1/namespaces/{namespace}/pods/slow")
    assert slow.status == 200
    assert "deletionTimestamp" in slow.body["metadata"]


def test_a_pretend_node_goes_down_and_comes_back(plane, kubectl):
    plane.add_nodes([pretend_node("fragile")])
    try:
        ready = '.status.conditions[?(@.type=="Ready")].status'
        kubectl("annotate", "node", "fragile", "pumice.dev/pretend-down=true")
        wait_for(kubectl, "node/fragile", ready, "False")
        kubectl("annotate", "node", "fragile", "pumice.dev/pretend-down-")
        wait_for(kubectl, "node/fragile", ready, "True")
    finally:
        plane.request("DELETE", "/api/v1/nodes/fragile")


# ------------------------------------------------------------------------------------------------ what dispatch leans on


def test_a_binding_is_refused_for_another_uid_and_copies_its_annotations_onto_the_pod(plane, namespace, kubectl):
    pod = create(kubectl, a_pod("p", annotations={"own": "kept"}))
    path = f"/api/v1/namespaces/{namespace}/pods/p/binding"
    binding = {
        "metadata": {
            "name": "p",
            "uid": "00000000-dead-beef-0000-000000000000",
            "annotations": {"pumice.dev/attempt": "a1"},
        },
        "target": {"kind": "Node", "name": "node-0"},
    }
    refused = plane.request("POST", path, binding)
    assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    untouched = plane.request("GET", f"/api/v1/namespaces/{namespace}/pods/p").body
    assert "nodeName" not in untouched["spec"]
    assert untouched["metadata"]["annotations"] == {"own": "kept"}

    binding["metadata"]["uid"] = pod["metadata"]["uid"]
    assert plane.request("POST", path, binding).status == 201
    bound = plane.request("GET", f"/api/v1/namespaces/{namespace}/pods/p").body
    assert bound["spec"]["nodeName"] == "node-0"
    assert bound["metadata"]["annotations"] == {"own": "kept", "pumice.dev/attempt": "a1"}

    again = plane.request("POST", path, binding)
    assert (again.status, again.body["reason"]) == (409, "Conflict")


# ------------------------------------------------------------------------------------------------ who may do what


def test_rbac_denies_a_stranger_until_a_role_is_bound(plane, kubectl):
    stranger = plane.user("stranger", groups=["visitors"])
    with pytest.raises(KubectlError, match='User "stranger" cannot list resource "pods"'):
        kubectl("get", "pods", kubeconfig=stranger)
    kubectl("create", "rolebinding", "look", "--clusterrole=view", "--group=visitors")
    kubectl("get", "pods", kubeconfig=stranger)


def test_a_wrong_token_is_nobody(plane):
    assert plane.request("GET", "/api/v1/nodes").status == 200
    assert Client(port=port(plane), ca=plane.ca, token="wrong").request("GET", "/api/v1/nodes").status == 401


# ------------------------------------------------------------------------------------------------ life and death


def test_a_second_plane_with_its_own_features_runs_beside_the_first_and_leaves_nothing_behind(plane):
    names = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
    with ControlPlane(
        nodes=pretend_nodes(1, prefix="other-"),
        scheduler=True,
        feature_gates={"GenericWorkload": True},
        runtime_config={"scheduling.k8s.io/v1alpha2": True},
    ) as other:
        assert other.url != plane.url
        assert [n["metadata"]["name"] for n in other.request("GET", "/api/v1/nodes").body["items"]] == ["other-0"]
        assert other.request("GET", "/apis/scheduling.k8s.io/v1alpha2").status == 200
        assert plane.request("GET", "/apis/scheduling.k8s.io/v1alpha2").status == 404
        other.kubectl("create", "-f", "-", input=json.dumps(a_pod("p")))
        other.kubectl("wait", "pod/p", "--for=jsonpath={.spec.nodeName}=other-0", "--timeout=120s")
        pids = [other.pid(name) for name in names]
        assert all(is_running(pid) for pid in pids)
    assert not any(is_running(pid) for pid in pids)
    assert not other.folder.exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port(other))) != 0
    other.stop()  # a second time is harmless
    assert plane.request("GET", "/readyz").status == 200


def test_data_and_address_survive_crashes_and_restarts(binaries):
    with ControlPlane(durable=True) as plane:
        create(
            plane.kubectl, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "1"}}
        )
        url = plane.url
        for name in ("kube-apiserver", "etcd"):
            plane.kill(name)
        for name in ("etcd", "kube-apiserver"):
            plane.restart(name)
        plane.restart_apiserver()
        assert plane.url == url
        assert plane.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}").stdout == "1"
        plane.create_namespace("alive")  # the controller manager found the server again


def test_a_program_that_ends_early_fails_the_start(binaries, short_tmp, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(short_tmp))
    with pytest.raises(StartError, match="kube-scheduler ended with exit code 1"):
        ControlPlane(scheduler=True, arguments={"kube-scheduler": ["--no-such-flag"]}).start()


def test_a_temporary_folder_too_deep_for_sockets_is_refused_with_the_way_out(binaries, tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(StartError, match="set TMPDIR"):
        ControlPlane().start()
    assert list(deep.iterdir()) == []


def test_a_failed_start_shows_the_log_and_keeps_the_folder(binaries, short_tmp, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(short_tmp))
    with pytest.raises(StartError, match="unknown flag: --no-such-flag") as failure:
        ControlPlane(arguments={"kube-apiserver": ["--no-such-flag"]}).start()
    (folder,) = short_tmp.iterdir()
    assert f"{folder}/kube-apiserver.log ends with" in str(failure.value)


def test_a_folder_whose_owner_was_killed_is_removed_by_the_next_start(binaries, short_tmp, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(short_tmp))
    leftover, fresh, owned = (short_tmp / f"pumice-kube-{name}" for name in ("leftover", "fresh", "owned"))
    for folder in (leftover, fresh, owned):
        folder.mkdir()
        (folder / "owner.lock").touch()
    os.utime(leftover, (0, 0))
    os.utime(owned, (0, 0))
    with (owned / "owner.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StartError):
            ControlPlane(arguments={"etcd": ["--no-such-flag"]}).start()
    assert (leftover.exists(), fresh.exists(), owned.exists()) == (False, True, True)


# ------------------------------------------------------------------------------------------------ for people


@pytest.fixture
def short_tmp():
    """Sockets need short names, and pytest's own folders have long ones."""
    with tempfile.TemporaryDirectory(prefix="pk-") as folder:
        yield Path(folder)


@pytest.fixture
def home(binaries, short_tmp):
    """A cache folder and a place for temporary files of its own, with the binaries already built."""
    cache = short_tmp / "cache" / "pumice" / "kube"
    cache.mkdir(parents=True)
    (cache / binaries.name).symlink_to(binaries)
    (short_tmp / "tmp").mkdir()
    return short_tmp


@pytest.fixture
def runner(home):
    def run(*args):
        environment = os.environ | {"XDG_CACHE_HOME": str(home / "cache"), "TMPDIR": str(home / "tmp")}
        command = [sys.executable, str(build.HERE / "control_plane.py"), *args]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    yield run
    run("down")


def test_up_returns_with_a_running_plane_and_down_cleans_up(runner, home, binaries):
    up = runner("up", "--nodes=2", "--gpus=3", "--label=zone=z1", "--taint=team=a:NoSchedule")
    assert up.returncode == 0, up
    kubeconfig = home / "cache" / "pumice" / "kube" / "run" / "default.kubeconfig"
    assert f"export KUBECONFIG={kubeconfig}" in up.stdout
    look = [str(binaries / "kubectl"), f"--kubeconfig={kubeconfig}", "get", "nodes", "--selector=zone=z1", "-o", "json"]
    nodes = json.loads(subprocess.run(look, capture_output=True, text=True, check=True).stdout)["items"]
    assert [n["metadata"]["name"] for n in nodes] == ["node-0", "node-1"]
    assert nodes[0]["status"]["capacity"]["nvidia.com/gpu"] == "3"
    assert nodes[0]["spec"]["taints"] == [{"key": "team", "value": "a", "effect": "NoSchedule"}]

    again = runner("up")
    assert (again.returncode, "is up already" in again.stderr) == (1, True)
    assert kubeconfig.exists()

    assert "is down" in runner("down").stdout
    assert list((home / "tmp").iterdir()) == []
    assert not kubeconfig.exists()
    assert "is not up" in runner("down").stdout


def test_nothing_outlives_an_owner_that_was_killed(runner, home):
    assert runner("up", "--nodes=0").returncode == 0
    owner = int((home / "cache" / "pumice" / "kube" / "run" / "default.lock").read_text())
    children = [
        int(p) for task in Path(f"/proc/{owner}/task").iterdir() for p in (task / "children").read_text().split()
    ]
    assert len(children) == 4
    handles = [os.pidfd_open(pid) for pid in children]
    try:
        os.kill(owner, signal.SIGKILL)
        for handle in handles:
            assert select.select([handle], [], [], 30)[0], "still running 30 s after its owner's death"
    finally:
        for handle in handles:
            os.close(handle)


def test_a_failed_up_shows_why(runner):
    up = runner("up", "--feature-gate=NoSuchGate=true")
    assert up.returncode == 1
    assert "unrecognized feature gate: NoSuchGate" in up.stdout
