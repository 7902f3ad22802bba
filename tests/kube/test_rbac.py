"""Each process runs on its own service-account token with exactly the chart's role: no verb too few, and none too many.

One scenario touches everything that the processes can do on the real API server, with RBAC on. The server's audit log says what
they asked for; it is held against the roles of the chart.
"""

import json
import time
import urllib.error
import urllib.request

import pytest
from tests.kube.released import NAMESPACE, PROCESSES, Call, Grant, Release, grants_of, unused

from pumice.api import names
from pumice.scheduling.core.build_decisions import OWN_MEMORY
from pumice.scheduling.evicting import mend

pytestmark = pytest.mark.timeout(400)  # the first test waits for the whole story

TEAM = "team-a"
VALUES = {
    "queues": {"team-a": {"weight": 2}},
    "webhooks": {"queueAccess": "enforce"},
    "scheduler": {
        "defaultQueue": "research",
        "extraArgs": ["--gang-grace=2"],
        "policy": """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true, deviceshare.NodeLockEnable: true}
""",
    },
    "controllers": {
        "discovery": """
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      racks:
      - nodeLabel: rack
      - nodeLabel: kubernetes.io/hostname
"""
    },
}

# What is granted though the scenario cannot reach it, or not every time, and why it is needed all the same.
UNREACHED = {
    "scheduler": {
        Grant("get", "", "pods"): "read back when the answer to a bind was lost",
        Grant("patch", "", "events"): "counts up an event that comes again; the scheduler tells a reason once",
        **{
            Grant("update", "", "configmaps", NAMESPACE, f"pumice-scheduler-memory-{slot.name}"): (
                "written again a minute after it was made, at the earliest"
            )
            for slot, _ in OWN_MEMORY
            if slot.persistent
        },
    },
    "controllers": {
        Grant(
            "get", "", "pods"
        ): "asked about a missing member that nobody saw leave, unless something else comes first",
        Grant("get", "", "persistentvolumeclaims"): "read when one of that name was made between plan and write",
        Grant("get", "scheduling.volcano.sh", "podgroups"): "the same",
    },
    "webhooks": {},
}
# Asked by the server itself while it handles another request: no line in the audit log, but the scenario fails without them.
ASKED_INSIDE = ("/finalizers", "resourceclaims/binding")


@pytest.fixture(scope="module")
def release(binaries, tmp_path_factory):
    with Release(tmp_path_factory.mktemp("release"), VALUES) as running:
        Scenario(running).play()
        yield running


@pytest.mark.parametrize("process", PROCESSES)
def test_no_verb_is_missing(release, process):
    refused = {(call, message) for call, status, message in release.audited(process) if status in {401, 403}}
    assert not refused, "\n".join(f"{call}: {message}" for call, message in sorted(refused))


@pytest.mark.parametrize("process", PROCESSES)
def test_no_verb_is_granted_in_vain(release, process):
    calls = {call for call, _, _ in release.audited(process)}
    assert calls
    grants = {grant for grant in grants_of(release.objects, process) if not grant.resource.endswith(ASKED_INSIDE)}
    vain = unused(grants, calls)
    assert sorted(map(str, vain - UNREACHED[process].keys())) == []
    assert UNREACHED[process].keys() <= grants, "no longer granted: take it off the list"


@pytest.mark.parametrize("process", PROCESSES)
def test_everything_that_was_asked_for_is_covered_by_the_role_itself(release, process):
    """Not by what every account may do anyway."""
    grants = grants_of(release.objects, process)
    uncovered = {call for call, _, _ in release.audited(process) if not any(grant.covers(call) for grant in grants)}
    assert uncovered == set()


def test_nobody_may_do_everything_or_everywhere(release):
    for process in PROCESSES:
        for grant in grants_of(release.objects, process):
            assert "*" not in {grant.verb, grant.group, grant.resource}
            assert grant.resource not in {"clusterroles", "roles", "serviceaccounts/token", "pods/exec", "nodes/proxy"}
    for process in ("scheduler", "webhooks"):
        secrets = [grant for grant in grants_of(release.objects, process) if grant.resource == "secrets"]
        assert all(grant.namespace == NAMESPACE and grant.name for grant in secrets)


def test_a_grant_without_a_use_and_a_use_without_a_grant_are_noticed():
    grants = {Grant("get", "", "pods"), Grant("list", "", "secrets", NAMESPACE, "keys")}
    calls = {Call("get", "", "pods", TEAM, "a"), Call("list", "", "secrets", TEAM, "keys")}
    assert unused(grants, calls) == {Grant("list", "", "secrets", NAMESPACE, "keys")}
    assert not Grant("get", "", "pods").covers(Call("get", "", "pods/status", TEAM, "a"))
    assert not Grant("get", "apps", "pods").covers(Call("get", "", "pods", TEAM, "a"))


# ---------------------------------------------------------------------------------------------------------- the scenario


class Scenario:
    """Everything that a process can be made to do."""

    def __init__(self, release):
        self.release = release
        self.plane = release.plane

    def play(self):
        release, plane = self.release, self.plane
        plane.create_namespace(TEAM)
        release.apply(may_use_queues())
        self.half_a_gang()
        release.apply(release.webhook_objects)
        release.start("webhooks")
        release.until(lambda: release.ready("webhooks"), "the webhooks serve")
        release.until(self.is_trusted, "the CA is injected")
        for process in ("controllers", "scheduler"):
            release.start(process)
            release.until(lambda process=process: release.ready(process), f"the {process} lead")
            release.start(process, name=f"{process}-standby")
        release.until(self.queues_are_open, "root, default, research and the declared queue are open")
        self.start_waiting()
        self.run_gangs()
        self.bind_volumes()
        self.hand_out_devices()
        self.run_jobs()
        self.run_makers()
        self.group_workloads()
        self.limit_a_native_gang()
        self.discover_hyper_nodes()
        self.explain()
        counted = Grant("patch", "", "events")
        release.until(lambda: self.has_called("controllers", counted), "an event that repeats is counted up")

    # ------------------------------------------------------------------------------------------------ scheduler

    def half_a_gang(self):
        """What a scheduler leaves that died between two binds; the room for the second is gone, so the first is released."""
        self.add_node(node("slow", gpus=1))
        # Only what a controller would make anew is released.
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
        made = self.plane.request("POST", f"/api/v1/namespaces/{TEAM}/configmaps", owner).body
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        group, *pods = gang("half", 2, where="slow")
        owned = [{**pod, "metadata": {**pod["metadata"], "ownerReferences": [reference]}} for pod in pods]
        self.release.apply([group, *owned], TEAM)
        binding = {
            "metadata": {"name": "half-0", "annotations": {names.ATTEMPT: mend.attempt_id(time.time_ns(), "dead")}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "slow"},
        }
        answer = self.plane.request("POST", f"/api/v1/namespaces/{TEAM}/pods/half-0/binding", binding)
        assert answer.status == 201, answer.body

    def add_node(self, manifest):
        """Server-side apply would leave the status out."""
        answer = self.plane.request("POST", "/api/v1/nodes", manifest)
        assert answer.status == 201, answer.body

    def bound(self, name):
        pods = self.release.get(f"/api/v1/namespaces/{TEAM}/pods")["items"]
        return [pod for pod in pods if pod["metadata"]["name"].startswith(f"{name}-") and pod["spec"].get("nodeName")]

    def is_trusted(self):
        path = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/pumice-webhooks"
        found = [self.release.get(path.format(kind)) for kind in ("mutating", "validating")]
        return all(hook["clientConfig"].get("caBundle") for each in found for hook in each["webhooks"])

    def queues_are_open(self):
        queues = self.release.get("/apis/scheduling.volcano.sh/v1beta1/queues")["items"]
        opened = {each["metadata"]["name"] for each in queues if each.get("status", {}).get("state") == "Open"}
        return {"root", "default", "research", "team-a"} <= opened

    def start_waiting(self):
        self.add_node(node("narrow", gpus=1))
        self.release.apply(gang("too-big", 1, where="narrow", gpus=4), TEAM)
        self.release.until(lambda: self.waits("too-big-0"), "a gang that does not fit is told so")

    def waits(self, pod):
        found = self.release.get(f"/api/v1/namespaces/{TEAM}/pods/{pod}")
        conditions = found["status"].get("conditions", ())
        return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)

    def run_gangs(self):
        release = self.release
        release.apply(
            [
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": "high"},
                    "value": 1000,
                }
            ]
        )
        release.apply(gang("low", 2, where="gpu", gpus=8), TEAM)
        release.until(lambda: len(self.bound("low")) == 2, "the gang is bound")
        release.apply(gang("high", 1, where="gpu", gpus=8, priority="high"), TEAM)
        release.until(lambda: self.bound("high"), "the better gang has evicted another")
        release.until(lambda: not self.bound("half"), "half a gang is released")
        gate = [{"name": names.QUEUE_ALLOCATION_GATE}]
        gated = gang("gated", 1, where="gpu", gpus=0, schedulingGates=gate)
        gated[1]["metadata"]["annotations"] |= {names.QUEUE_ALLOCATION_GATE: "true"}  # the pod asks for it
        release.apply(gated, TEAM)
        release.until(lambda: self.bound("gated"), "a pod whose queue has a share for it is let through its gate")
        self.plane.kubectl("-n", TEAM, "delete", "pods", "-l", "test in (low, high, half)", "--wait=false")

    def bind_volumes(self):
        release = self.release
        storage = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        local = {**storage, "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}
        made = {**storage, "metadata": {"name": "made"}, "provisioner": "example.com/made"}
        term = {"matchExpressions": [{"key": "kind", "operator": "In", "values": ["gpu"]}]}
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "local": {"path": "/data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
        }
        release.apply([local, made, volume])
        for kind in ("local", "made"):
            claim = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": kind},
                "spec": claim_spec(kind),
            }
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": kind}}]
            release.apply([claim, *gang(f"on-{kind}", 1, where="gpu", gpus=0, volumes=volumes)], TEAM)
        release.until(lambda: self.bound("on-local"), "a pod is bound after its volume")
        selected = "volume.kubernetes.io/selected-node"
        claim = f"/api/v1/namespaces/{TEAM}/persistentvolumeclaims/made"
        release.until(
            lambda: selected in release.get(claim)["metadata"].get("annotations", {}), "a volume is asked for"
        )

    def hand_out_devices(self):
        release = self.release
        resource = {"apiVersion": "resource.k8s.io/v1"}
        device_class = {**resource, "kind": "DeviceClass", "metadata": {"name": "cards"}, "spec": {}}
        pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "cards.example.com", "nodeName": "node-0", "pool": pool, "devices": [{"name": "card-0"}]}
        cards = {**resource, "kind": "ResourceSlice", "metadata": {"name": "cards"}, "spec": spec}
        wish = {"name": "card", "exactly": {"deviceClassName": "cards"}}
        claim = {
            **resource,
            "kind": "ResourceClaim",
            "metadata": {"name": "card"},
            "spec": {"devices": {"requests": [wish]}},
        }
        release.apply([device_class, cards])
        claims = [{"name": "card", "resourceClaimName": "card"}]
        release.apply([claim, *gang("with-card", 1, where="gpu", gpus=0, resourceClaims=claims)], TEAM)
        release.until(lambda: self.bound("with-card"), "a pod is bound after its devices")
        shared = node("shared", gpus=0, more={"volcano.sh/vgpu-number": "10"})
        registered = "GPU-a,10,16000,NVIDIA-A100,true,hami-core:"
        shared["metadata"]["annotations"] = {names.VGPU_NODE_REGISTER: registered}
        self.add_node(shared)
        limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"}
        release.apply(gang("slice", 1, where="shared", limits=limits), TEAM)
        release.until(lambda: self.bound("slice"), "a pod is bound under its node's lock")

    def explain(self):
        release = self.release
        path = f"/v1/gangs/{TEAM}/too-big"
        address = f"http://127.0.0.1:{release.ports['scheduler']}{path}"
        account = ("-n", NAMESPACE, "create", "token", "pumice-viewer", "--audience=pumice.dev")
        token = self.plane.kubectl(*account).stdout.strip()
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})

        def told():
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return json.load(answer)
            except urllib.error.URLError as refusal:
                getattr(refusal, "close", lambda: None)()
                return None

        assert release.until(told, "the leader explains")["gang"]["key"] == f"{TEAM}/too-big"

    # ------------------------------------------------------------------------------------------------ controllers

    def phase(self, job):
        found = self.release.get(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{TEAM}/jobs/{job}")
        return found.get("status", {}).get("state", {}).get("phase", "") if found else "gone"

    def run_jobs(self):
        release = self.release
        full = job(
            "full",
            plugins={"svc": [], "ssh": [], "env": []},
            policies=[{"event": "PodEvicted", "action": "RestartJob"}],
        )
        refused = job("refused", volumes=[{"mountPath": "/data", "volumeClaim": {"accessModes": ["Never"]}}])
        claiming = job("claiming", volumes=[{"mountPath": "/data", "volumeClaim": claim_spec("made")}])
        short = job("short", run="1s")
        short["spec"]["ttlSecondsAfterFinished"] = 0
        release.apply([full, claiming, short], TEAM)
        self.plane.kubectl("-n", TEAM, "apply", "--server-side", "-f", "-", input=json.dumps(refused), check=False)
        release.until(lambda: self.phase("full") == "Running", "a Job runs")
        self.plane.kubectl("-n", TEAM, "delete", "pod", "full-worker-0", "--force", "--grace-period=0")
        release.until(lambda: self.phase("full") == "Running" and self.pod("full-worker-0"), "the Job runs again")
        grown = [
            {"op": "replace", "path": path, "value": 3} for path in ("/spec/minAvailable", "/spec/tasks/0/replicas")
        ]
        self.plane.kubectl("-n", TEAM, "patch", "vcjob", "full", "--type=json", f"--patch={json.dumps(grown)}")
        release.until(lambda: self.pod("full-worker-2"), "the Job has grown")
        uid = release.get(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{TEAM}/jobs/full")["metadata"]["uid"]
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "full", "uid": uid}
        command = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": "abort"},
            "action": "AbortJob",
            "target": {**target, "controller": True},
        }
        release.apply([command], TEAM)
        release.until(lambda: self.phase("full") == "Aborted", "the Job is aborted")
        release.until(lambda: self.phase("short") == "gone", "a finished Job is cleaned up")

    def pod(self, name):
        return self.release.get(f"/api/v1/namespaces/{TEAM}/pods/{name}")

    def run_makers(self):
        """CronJobs and JobFlows, one of which finds the name of its Job taken."""
        release = self.release
        spec = job("any", run="1s")["spec"]
        batch, flow = {"apiVersion": "batch.volcano.sh/v1alpha1"}, {"apiVersion": "flow.volcano.sh/v1alpha1"}
        cron = {
            **batch,
            "kind": "CronJob",
            "metadata": {"name": "often"},
            "spec": {"schedule": "@every 1s", "concurrencyPolicy": "Replace", "jobTemplate": {"spec": spec}},
        }
        template = {**flow, "kind": "JobTemplate", "metadata": {"name": "step"}, "spec": spec}
        stream = {**flow, "kind": "JobFlow", "metadata": {"name": "stream"}, "spec": {"flows": [{"name": "step"}]}}
        release.apply([job("stream-step"), cron, template], TEAM)
        # The second flow's Job can be made, and its template learns of it.
        free = {**stream, "metadata": {"name": "free"}}
        release.apply([stream, free], TEAM)
        for path in ("flow.volcano.sh/v1alpha1", "batch.volcano.sh/v1alpha1"):
            kind, name = ("jobflows", "stream") if path.startswith("flow") else ("cronjobs", "often")
            release.until(
                lambda path=path, kind=kind, name=name: release.get(
                    f"/apis/{path}/namespaces/{TEAM}/{kind}/{name}"
                ).get("status"),
                f"{kind} {name} has a status",
            )
        deleted = Grant("delete", "batch.volcano.sh", "jobs")
        release.until(lambda: self.has_called("controllers", deleted), "a Job of the CronJob is replaced")
        self.plane.kubectl("-n", TEAM, "delete", "cronjobs.batch.volcano.sh", "often")
        told = Grant("patch", "flow.volcano.sh", "jobtemplates/status")
        release.until(lambda: self.has_called("controllers", told), "the template knows of the flow's Job")
        asked = Grant("get", "batch.volcano.sh", "jobs")
        release.until(lambda: self.has_called("controllers", asked), "the flow asks whose the Job of that name is")

    def has_called(self, process, grant):
        return any(grant.covers(call) for call, _, _ in self.release.audited(process))

    def group_workloads(self):
        """Pods of Kubernetes' own workloads get a PodGroup that belongs to the workload."""
        release = self.release
        template = {
            "metadata": {"labels": {"app": "plain"}},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]},
        }
        selector = {"matchLabels": {"app": "plain"}}
        once = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
        apps = {"apiVersion": "apps/v1", "metadata": {"name": "plain"}}
        workloads = [
            {**apps, "kind": "ReplicaSet", "spec": {"replicas": 1, "selector": selector, "template": template}},
            {
                **apps,
                "kind": "StatefulSet",
                "spec": {"replicas": 1, "serviceName": "s", "selector": selector, "template": template},
            },
            {**apps, "kind": "DaemonSet", "spec": {"selector": selector, "template": template}},
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "plain"}, "spec": {"template": once}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"}, "spec": template["spec"]},
        ]
        release.apply(workloads, TEAM)

        def owners():
            groups = release.get(f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{TEAM}/podgroups")["items"]
            return {owner["kind"] for group in groups for owner in group["metadata"].get("ownerReferences", ())}

        kinds = {"ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Pod"}
        release.until(lambda: kinds <= owners(), "every workload has its group")

    def limit_a_native_gang(self):
        """A gang in Kubernetes' own words that may run for an hour: since when it runs is noted on its group."""
        native = {"apiVersion": "scheduling.k8s.io/v1alpha2"}
        policy = {"gang": {"minCount": 2}}
        workload = {
            **native,
            "kind": "Workload",
            "metadata": {"name": "limited"},
            "spec": {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": policy}]},
        }
        template = {"workload": {"workloadName": "limited", "podGroupTemplateName": "workers"}}
        group = {
            **native,
            "kind": "PodGroup",
            "metadata": {"name": "limited", "annotations": {names.TIME_LIMIT: "1h"}},
            "spec": {"podGroupTemplateRef": template, "schedulingPolicy": policy},
        }
        _, *pods = gang("limited", 2, where="gpu", gpus=0, schedulingGroup={"podGroupName": "limited"})
        for pod in pods:
            pod["metadata"].pop("annotations", None)
        for each in ([workload], [group], pods):  # a group is refused before its workload
            self.release.apply(each, TEAM)
        noted = Grant("patch", "scheduling.k8s.io", "podgroups")
        self.release.until(lambda: self.has_called("controllers", noted), "the native gang's run is noted")

    def discover_hyper_nodes(self):
        release = self.release
        path = "/apis/topology.volcano.sh/v1alpha1/hypernodes"

        def count():
            return len(release.get(path)["items"])

        self.plane.kubectl("label", "node", "node-0", "rack=a")
        release.until(lambda: count() == 1, "a rack is discovered")
        self.plane.kubectl("label", "node", "node-1", "rack=a")
        release.until(
            lambda: any(each.get("status", {}).get("nodeCount") == 2 for each in release.get(path)["items"]),
            "the rack has grown",
        )
        self.plane.kubectl("label", "node", "node-0", "node-1", "rack-")
        release.until(lambda: count() == 0, "the rack is gone")


def node(name, *, gpus, more=None):
    """A node that nobody plays: what is bound to it never starts."""
    room = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": str(gpus), **(more or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kind": name}},
        "spec": {"taints": [{"key": "unplayed", "effect": "NoSchedule"}]},  # only gangs that ask for it
        "status": {"capacity": room, "allocatable": room},
    }


def may_use_queues():
    """Pods of Kubernetes' own workloads are submitted by nobody but their namespace's account."""
    api, group = {"apiVersion": "rbac.authorization.k8s.io/v1"}, "rbac.authorization.k8s.io"
    rule = {
        "apiGroups": ["scheduling.volcano.sh"],
        "resources": ["queues"],
        "resourceNames": ["default"],
        "verbs": ["use"],
    }
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": TEAM}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "queue-user"}
    return [
        {**api, "kind": "ClusterRole", "metadata": {"name": "queue-user"}, "rules": [rule]},
        {
            **api,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "queue-user"},
            "roleRef": reference,
            "subjects": [subject],
        },
    ]


def gang(name, size, *, where, gpus=1, priority="", limits=None, **spec):
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size, "queue": "default", **({"priorityClassName": priority} if priority else {})},
    }
    limits = limits or ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    resources = {"limits": limits, "requests": {"cpu": "10m"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {
            "schedulerName": "volcano",
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kind": where},
            "tolerations": [
                {"operator": "Exists", "key": key}
                for key in ("unplayed", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
            ],
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            **({"priorityClassName": priority} if priority else {}),
            **spec,
        },
    }
    metadata = {"labels": {"test": name}, "annotations": {names.GROUP_NAME: name}}
    return [group, *({**pod, "metadata": {"name": f"{name}-{number}", **metadata}} for number in range(size))]


def job(name, *, run="", **spec):
    metadata = {"annotations": {"pumice.dev/pretend-run": run}} if run else {}
    template = {
        "metadata": metadata,
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}],
        },
    }
    task = {"name": "worker", "replicas": 1, "template": template}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"schedulerName": "volcano", "queue": "default", "minAvailable": 1, "tasks": [task], **spec},
    }


def claim_spec(storage):
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage,
        "resources": {"requests": {"storage": "1Gi"}},
    }
