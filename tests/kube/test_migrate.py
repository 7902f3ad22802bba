"""Coming from Volcano on the real API server: what Volcano wrote is taken over in place, running gangs untouched; and back again.

The objects are what Volcano's controllers and scheduler leave behind, by their documented names, labels, annotations and
statuses. Nothing of Pumice has touched them before.
"""

import base64
import contextlib
import datetime as dt
import json
import subprocess
import sys
import time

import pytest
from tests.bodies.patience import PATIENCE_S
from tools.deploy import generate
from tools.kube.children import Children, LoopbackPort
from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds
from tools.kube.nodes import pretend_nodes

from pumice import certificates
from pumice.api import kinds
from pumice.cli.crds import manifests

pytestmark = pytest.mark.timeout(300)  # the first test waits for the whole story

TEAM = "team"
NOW = "2026-11-01T08:00:00Z"
BATCH = "/apis/batch.volcano.sh/v1alpha1"
SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
AUTHORITY = base64.b64encode(certificates.authority("test", now=dt.datetime.now(dt.UTC)).certificate).decode()


def task_template():
    limits = {"limits": {"nvidia.com/gpu": "4"}}
    container = {"name": "main", "image": "train", "resources": limits}
    return {"spec": {"restartPolicy": "OnFailure", "containers": [container]}}


def vcjob(name, replicas):
    """As Volcano's admission leaves it."""
    task = {
        "name": "worker",
        "replicas": replicas,
        "minAvailable": replicas,
        "maxRetry": 3,
        "template": task_template(),
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {
            "schedulerName": "volcano",
            "queue": "default",
            "minAvailable": replicas,
            "maxRetry": 3,
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "tasks": [task],
        },
    }


def job_status(phase, *, running):
    counters = {"running": running, "taskStatusCount": {"worker": {"phase": {"Running": running}}}} if running else {}
    conditions = [{"status": "Pending", "lastTransitionTime": NOW}]
    conditions += [{"status": phase, "lastTransitionTime": NOW}] if phase != "Pending" else []
    return {
        "state": {"phase": phase, "lastTransitionTime": NOW},
        "minAvailable": 2,
        "version": 1,
        "conditions": conditions,
        **counters,
    }


def owner(job):
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def group_of(job, phase, *, running):
    """PodGroups have no status subresource: it is written with the object."""
    scheduled = {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"}
    waiting = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
        "message": "2/2 tasks in gang",
    }
    condition = {**(scheduled if running else waiting), "transitionID": "1f1f", "lastTransitionTime": NOW}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": f"{job['metadata']['name']}-{job['metadata']['uid']}",
            "namespace": TEAM,
            "ownerReferences": [owner(job)],
        },
        "spec": {
            "minMember": 2,
            "minTaskMember": {"worker": 2},
            "queue": "default",
            "minResources": {"count/pods": "2", "pods": "2", "limits.nvidia.com/gpu": "8"},
        },
        "status": {"phase": phase, "running": running, "conditions": [condition]},
    }


def pod_of(job, index, *, node=""):
    name = job["metadata"]["name"]
    both = {
        "volcano.sh/job-name": name,
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": str(index),
        "volcano.sh/queue-name": "default",
    }
    annotations = {
        **both,
        "volcano.sh/job-version": "1",
        "volcano.sh/job-retry-count": "0",
        "volcano.sh/template-uid": f"{name}-worker",
        "scheduling.k8s.io/group-name": f"{name}-{job['metadata']['uid']}",
    }
    spec = {**task_template()["spec"], "schedulerName": "volcano", **({"nodeName": node} if node else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-worker-{index}",
            "namespace": TEAM,
            "labels": {**both, "volcano.sh/job-namespace": TEAM},
            "annotations": annotations,
            "ownerReferences": [owner(job)],
        },
        "spec": spec,
    }


class Cluster:
    """A cluster that Volcano has run until now."""

    def __init__(self, plane, folder):
        self.plane = plane
        self.children = Children(folder)
        self.ports = {name: LoopbackPort() for name in ("scheduler", "controllers")}

    def close(self):
        self.children.close()
        for port in self.ports.values():
            port.close()

    def create(self, path, body):
        answer = self.plane.request("POST", path, body)
        assert answer.status == 201, answer.body
        return answer.body

    def get(self, path):
        answer = self.plane.request("GET", path)
        return answer.body if answer.status == 200 else None

    def job_of_volcano(self, name, phase, *, nodes=(), replicas=2):
        job = self.create(f"{BATCH}/namespaces/{TEAM}/jobs", vcjob(name, replicas))
        status = {"status": job_status(phase, running=len(nodes))}
        path = f"{BATCH}/namespaces/{TEAM}/jobs/{name}/status"
        answer = self.plane.request("PATCH", path, status, content_type="application/merge-patch+json")
        assert answer.status == 200, answer.body
        group_phase = "Running" if nodes else "Pending"
        self.create(f"{SCHEDULING}/namespaces/{TEAM}/podgroups", group_of(job, group_phase, running=len(nodes)))
        for index, node in enumerate(nodes):
            self.create(f"/api/v1/namespaces/{TEAM}/pods", pod_of(job, index, node=node))
        return job

    def start(self, process):
        port = self.ports[process].number
        arguments = [f"--kubeconfig={self.plane.kubeconfig}", "--no-leader-elect", f"--listen=127.0.0.1:{port}"]
        self.children.start(process, [sys.executable, "-m", "pumice.cli", process, *arguments])

    def stop(self):
        for process in self.children.names():
            self.children.stop(process, grace_s=30.0)

    def pods(self):
        return {pod["metadata"]["name"]: pod for pod in self.get(f"/api/v1/namespaces/{TEAM}/pods")["items"]}

    def phase(self, name):
        return self.get(f"{BATCH}/namespaces/{TEAM}/jobs/{name}")["status"]["state"]["phase"]

    def until(self, test, what):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = test()
            if found:
                return found
            time.sleep(0.1)
        stories = "\n".join(self.children.story(name) for name in self.children.names())
        raise AssertionError(f"in {PATIENCE_S:.0f} s it did not come about that {what}\n{stories}")


@pytest.fixture(scope="module")
def cluster(binaries, tmp_path_factory):
    with ControlPlane(nodes=pretend_nodes(2, gpus=8)) as plane:
        install_kinds(plane)
        plane.create_namespace(TEAM)
        with contextlib.closing(Cluster(plane, tmp_path_factory.mktemp("logs"))) as made:
            yield made


@pytest.fixture(scope="module")
def story(cluster):
    """Volcano's objects before and after Pumice has run on them for a while, and after it has left."""
    for name in ("root", "default"):
        body = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": 1},
        }
        cluster.create(f"{SCHEDULING}/queues", body)
        state = {"status": {"state": "Open"}}
        path = f"{SCHEDULING}/queues/{name}/status"
        cluster.plane.request("PATCH", path, state, content_type="application/merge-patch+json")
    running = cluster.job_of_volcano("running", "Running", nodes=("node-0", "node-1"))
    cluster.until(lambda: all_run(cluster, "running", 2), "Volcano's gang runs")
    cluster.job_of_volcano("waiting", "Pending")
    cluster.job_of_volcano("too-many", "Pending", replicas=4)
    before = cluster.pods(), cluster.get(f"{BATCH}/namespaces/{TEAM}/jobs/running")
    group = cluster.get(f"{SCHEDULING}/namespaces/{TEAM}/podgroups/running-{running['metadata']['uid']}")
    for process in ("controllers", "scheduler"):
        cluster.start(process)
    cluster.until(lambda: cluster.phase("waiting") == "Running", "the Job that waited for Volcano runs")
    cluster.until(lambda: explained(cluster, "too-many"), "the one that does not fit is told why")
    after = cluster.pods(), cluster.get(f"{BATCH}/namespaces/{TEAM}/jobs/running")
    cluster.stop()
    return {"before": before, "after": after, "group": group}


def all_run(cluster, name, count):
    pods = [pod for pod in cluster.pods().values() if pod["metadata"]["labels"]["volcano.sh/job-name"] == name]
    return len(pods) == count and all(pod["status"].get("phase") == "Running" for pod in pods)


def explained(cluster, name):
    groups = cluster.get(f"{SCHEDULING}/namespaces/{TEAM}/podgroups")["items"]
    found = [group for group in groups if group["metadata"]["name"].startswith(f"{name}-")]
    return [
        each for group in found for each in group["status"].get("conditions", ()) if each["type"] == "Unschedulable"
    ]


def test_a_running_gang_is_not_touched(story):
    (pods, job), (pods_now, job_now) = story["before"], story["after"]
    for name in ("running-worker-0", "running-worker-1"):
        old, new = pods[name], pods_now[name]
        assert new["metadata"]["uid"] == old["metadata"]["uid"]
        assert new["spec"]["nodeName"] == old["spec"]["nodeName"]
        assert "deletionTimestamp" not in new["metadata"]
        assert new["status"]["phase"] == "Running"
        assert old["metadata"]["annotations"].items() <= new["metadata"]["annotations"].items()
        assert old["metadata"]["labels"] == new["metadata"]["labels"]
    assert job_now["metadata"]["uid"] == job["metadata"]["uid"]
    assert job_now["spec"] == job["spec"]
    status = job_now["status"]
    assert status["state"]["phase"] == "Running"
    assert (status["version"], status.get("retryCount", 0), status["running"]) == (1, 0, 2)


def test_no_pod_was_deleted_or_made_for_a_running_gang(story):
    of_running = {name for name in story["after"][0] if name.startswith("running-")}
    assert of_running == {"running-worker-0", "running-worker-1"}


def test_a_groups_identity_and_wishes_stay(cluster, story):
    group = story["group"]
    now = cluster.get(f"{SCHEDULING}/namespaces/{TEAM}/podgroups/{group['metadata']['name']}")
    assert now["metadata"]["uid"] == group["metadata"]["uid"]
    for key in ("minMember", "minTaskMember", "queue"):
        assert now["spec"][key] == group["spec"][key]
    assert now["status"]["phase"] == "Running"


def test_what_waited_for_volcano_starts_in_the_group_that_volcano_made(cluster, story):
    pods = {name: pod for name, pod in story["after"][0].items() if name.startswith("waiting-")}
    assert set(pods) == {"waiting-worker-0", "waiting-worker-1"}
    groups = cluster.get(f"{SCHEDULING}/namespaces/{TEAM}/podgroups")["items"]
    assert sum(group["metadata"]["name"].startswith("waiting-") for group in groups) == 1


def test_what_pumice_made_is_what_volcano_looks_for(cluster, story):
    """Back again: Volcano finds pods, groups and counters by these, and ignores pods without them."""
    job = cluster.get(f"{BATCH}/namespaces/{TEAM}/jobs/waiting")
    group = f"waiting-{job['metadata']['uid']}"
    for index in range(2):
        pod = story["after"][0][f"waiting-worker-{index}"]
        like = pod_of(job, index)["metadata"]
        annotations = pod["metadata"]["annotations"]
        wanted = {**like["annotations"], "volcano.sh/job-version": str(job["status"].get("version", 0))}
        assert wanted.items() <= annotations.items()
        assert like["labels"].items() <= pod["metadata"]["labels"].items()
        assert pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
        assert pod["spec"]["schedulerName"] == "volcano"
        assert annotations["scheduling.k8s.io/group-name"] == group
    status = job["status"]
    assert status["state"]["phase"] == "Running"
    assert status["running"] == status["minAvailable"] == 2
    assert status["taskStatusCount"] == {"worker": {"phase": {"Running": 2}}}
    kept = cluster.get(f"{SCHEDULING}/namespaces/{TEAM}/podgroups/{group}")
    assert kept["status"]["phase"] in {"Running", "Inqueue"}
    assert cluster.get(f"{SCHEDULING}/queues/default")["status"]["state"] == "Open"


def test_a_live_volcano_keeps_pumice_out(cluster, story):
    """Never two masters: while its lease is renewed, our processes refuse to start."""
    cluster.plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    for lease in ("volcano", "vc-controller-manager"):
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": lease},
            "spec": {"holderIdentity": "volcano-0", "renewTime": now, "leaseDurationSeconds": 3600},
        }
        cluster.create("/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases", body)
    for process in ("scheduler", "controllers"):
        command = [sys.executable, "-m", "pumice.cli", process, f"--kubeconfig={cluster.plane.kubeconfig}"]
        done = subprocess.run(
            [*command, "--listen=127.0.0.1:0"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 5, done.stderr
        assert "Volcano is running here" in done.stderr


def test_migrate_check_reads_the_cluster(cluster, story):
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-scheduler-configmap"},
        "data": {"volcano-scheduler.conf": 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gnag\n'},
    }
    cluster.plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
    cluster.create("/api/v1/namespaces/volcano-system/configmaps", config)
    command = [sys.executable, "-m", "pumice.cli", "migrate", "check", f"--kubeconfig={cluster.plane.kubeconfig}"]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)["findings"]
    assert [each["see"] for each in told if each["severity"] == "breaks"] == ["docs/differences.md#policy-file"]
    subjects = {each["subject"] for each in told}
    assert "Job team/running" in subjects  # a policy for PodEvicted


# ---------------------------------------------------------------------------------------------------------- with Helm


def test_the_commands_of_the_guides_take_over_crds_and_keep_what_the_processes_wrote(binaries):
    """CRDs of another owner; an upgrade later, the keys and the authority that the webhooks wrote are still there."""
    chart, where = str(generate.CHART), ["--namespace=pumice-system", "--wait=hookOnly"]

    def helm(*arguments):
        done = subprocess.run(
            [str(binaries / "helm"), *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with ControlPlane() as plane:
        plane.kubectl("apply", "--server-side", "--field-manager=helm", "-f", "-", input=manifests())
        older = [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}]
        queues = "queues.scheduling.volcano.sh"
        plane.kubectl("patch", "crd", queues, "--type=json", f"--patch={json.dumps(older)}")
        plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=helm("show", "crds", chart))
        assert "additionalPrinterColumns" in plane.kubectl("get", "crd", queues, "-o", "json").stdout
        release = ["pumice", chart, "--create-namespace", "--skip-crds", f"--kubeconfig={plane.kubeconfig}", *where]
        helm("upgrade", "--install", *release)
        keys = {"data": {"tls.crt": "Y2VydA=="}}
        plane.kubectl("-n", "pumice-system", "patch", "secret", "pumice-webhooks-tls", f"--patch={json.dumps(keys)}")
        trust = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": AUTHORITY}]
        hooks = ["validatingwebhookconfiguration", "pumice-webhooks"]
        plane.kubectl("patch", *hooks, "--type=json", f"--patch={json.dumps(trust)}")
        helm("upgrade", *release, "--set=webhooks.replicas=3")
        assert AUTHORITY in plane.kubectl("get", *hooks, "-o", "json").stdout
        assert (
            "Y2VydA=="
            in plane.kubectl("-n", "pumice-system", "get", "secret", "pumice-webhooks-tls", "-o", "json").stdout
        )
        helm("uninstall", "pumice", f"--kubeconfig={plane.kubeconfig}", *where)
        kinds_left = plane.kubectl(
            "get", "validatingwebhookconfigurations,mutatingwebhookconfigurations,crd", "-o", "name"
        ).stdout
        assert "webhook" not in kinds_left  # or everything would be refused from now on
        assert kinds_left.count(".volcano.sh") == len(kinds.CUSTOM_KINDS)
