"""Every admission rule with at least one example that is refused and one that is accepted.

A case is a change to one object in a small world. The same table serves the pure rules, the webhooks on the embedded server
and those on a real one: objects are whole manifests, and `world` is what must exist beforehand. Statuses in `world` and in
`old` are written through the status subresource where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.cases.editing import edited

from pumice.api import names, validation
from pumice.api.core import Namespace, Node
from pumice.api.decoding import decode_value
from pumice.api.flow import JobTemplate
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import Queue
from pumice.api.validation import ClusterSize
from pumice.api.validation.amounts import quantity_text, sums, units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Json = dict[str, Any]
NAMESPACE = "team"


class Case(NamedTuple):
    id: str
    new: Json | None
    old: Json | None = None
    world: tuple[Json, ...] = ()
    refused: str = ""  # path of the field that is wrong; empty: nothing is
    says: str = ""  # essential words of the refusal
    warns: str = ""  # essential words of a warning; empty: none is given
    settings: Mapping[str, Any] = {}

    @property
    def operation(self) -> str:
        return "CREATE" if self.old is None else "DELETE" if self.new is None else "UPDATE"

    @property
    def kind(self) -> str:
        subject = self.new or self.old
        assert subject is not None
        return str(subject["kind"])

    def review(self) -> validation.Findings:
        """What the pure rules say."""
        request = validation.Request(
            validation.Operation(self.operation),
            new=self.new,
            old=self.old,
            lookup=World(self.world),
            settings=validation.Settings(**self.settings),
        )
        return validation.review(self.kind, request)


class World:
    """A look-up over literals."""

    def __init__(self, objects: Iterable[Json]) -> None:
        self.objects = list(objects)

    def _all(self, kind: str) -> list[Json]:
        return [item for item in self.objects if item["kind"] == kind]

    def queues(self) -> list[Queue]:
        return [decode_value(Queue, item) for item in self._all("Queue")]

    def queue(self, name: str) -> Queue | None:
        return next((queue for queue in self.queues() if queue.metadata.name == name), None)

    def children(self, queue: str) -> Sequence[Queue]:
        return [child for child in self.queues() if child.spec.parent == queue]

    def job_template(self, namespace: str, name: str) -> JobTemplate | None:
        templates = (decode_value(JobTemplate, item) for item in self._all("JobTemplate"))
        return next((found for found in templates if found.metadata.key == f"{namespace}/{name}"), None)

    def namespace_annotations(self, namespace: str) -> Mapping[str, str]:
        spaces = (decode_value(Namespace, item).metadata for item in self._all("Namespace"))
        return next((found.annotations for found in spaces if found.name == namespace), {})

    def priority_class(self, name: str) -> PriorityClass | None:
        classes = (decode_value(PriorityClass, item) for item in self._all("PriorityClass"))
        return next((found for found in classes if found.metadata.name == name), None)

    def cluster_size(self) -> ClusterSize | None:
        lists = [decode_value(Node, item).status.allocatable for item in self._all("Node")]
        if not lists:
            return None
        total = {name: quantity_text(name, amount) for name, amount in sums(lists).items()}
        largest = {
            name: max((one[name] for one in lists if name in one), key=lambda amount, n=name: units(n, amount))
            for name in total
        }
        return ClusterSize(total=total, largest_node=largest)


# --------------------------------------------------------------------------------------------------------- manifests


def queue(name: str = "q", edits: Json | None = None, **spec: Any) -> Json:
    base = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": True, **spec},
        "status": {"state": "Open", "allocated": {}},
    }
    return edited(base, edits or {})


def node(name: str, **allocatable: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


ROOT, DEFAULT, OPEN_QUEUE = queue("root"), queue("default", parent="root"), queue("q", parent="root")
QUEUES = (ROOT, DEFAULT, OPEN_QUEUE)

JOB: Json = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": NAMESPACE},
    "spec": {
        "queue": "q",
        "schedulerName": "volcano",
        "minAvailable": 3,
        "maxRetry": 3,
        "tasks": [
            {
                "name": "worker",
                "replicas": 3,
                "minAvailable": 3,
                "maxRetry": 3,
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train:1"}]},
                },
            }
        ],
    },
}
TASK: Json = JOB["spec"]["tasks"][0]


def job(edits: Json | None = None) -> Json:
    return edited(JOB, edits or {})


def task(name: str = "worker", **fields: Any) -> Json:
    return TASK | {"name": name} | fields


def master_and_worker(**worker: Any) -> Json:
    return {
        "spec.tasks": [task("master", replicas=1, minAvailable=1), task("worker", replicas=2, minAvailable=2, **worker)]
    }


def creating(id_: str, edits: Json, refused: str = "", says: str = "", warns: str = "", **more: Any) -> Case:
    """A job that somebody creates while queue q is open."""
    return Case(id_, job(edits), world=more.pop("world", QUEUES), refused=refused, says=says, warns=warns, **more)


def policies(*entries: Json, of: str = "spec.policies") -> Json:
    return {of: list(entries)}


def policy(event: str = "", action: str = "RestartJob", **fields: Any) -> Json:
    return {"event": event, "action": action, **fields} if event else {"action": action, **fields}


T0 = "spec.tasks[0]"
POD = f"{T0}.template.spec"
MAIN = f"{POD}.containers[0]"
PARTS = {"totalPartitions": 3, "partitionSize": 1}
BOTH_TIERS = {"mode": "hard", "highestTierAllowed": 1, "highestTierName": "rack"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
GPU = "nvidia.com/gpu"
GPUS = {"limits": {GPU: 8, "cpu": "8", "memory": "64Gi"}}
NODES = (node("n1", cpu="16", memory="128Gi", **{GPU: "8"}), node("n2", cpu="32", memory="64Gi", **{GPU: "4"}))

NOTES = "metadata.annotations"
AT_LIMIT = f"{NOTES}[{names.TIME_LIMIT}]"


def times(limit: str, *, warning: str = "", signal: str = "", estimate: str = "") -> Json:
    more = {names.TIME_LIMIT_WARNING: warning, names.TIME_LIMIT_SIGNAL: signal, names.RUNNING_ESTIMATE: estimate}
    return {NOTES: {names.TIME_LIMIT: limit, **{key: value for key, value in more.items() if value}}}


JOBS_CREATED = [
    creating("a small job", {}),
    creating("a job whose name the server makes", {"metadata": {"generateName": "train-", "namespace": NAMESPACE}}),
    # ------------------------------------------------------------------------------------------------------ numbers
    creating("no tasks", {"spec.tasks": ...}, "spec.tasks", "No task specified in job spec"),
    creating("task minimum above replicas", {f"{T0}.minAvailable": 4, "spec.minAvailable": 3},
             f"{T0}.minAvailable", "'minAvailable' is greater than 'replicas' in task: worker"),
    creating("task minimum below replicas", {f"{T0}.minAvailable": 1, "spec.minAvailable": 1}),
    creating("negative task minimum", {f"{T0}.minAvailable": -1}, f"{T0}.minAvailable"),
    creating("negative job minimum", {"spec.minAvailable": -1}, "spec.minAvailable"),
    creating("job minimum above total", {"spec.minAvailable": 4}, "spec.minAvailable",
             "job 'minAvailable' should not be greater than total replicas in tasks"),
    creating("as many replicas as a job may have", {
        "spec.tasks": [task("a", replicas=60_000, minAvailable=1), task("b", replicas=40_000, minAvailable=0)],
        "spec.minAvailable": 1,
    }),
    creating("more replicas than a job may have", {
        "spec.tasks": [task("a", replicas=60_000, minAvailable=1), task("b", replicas=40_001, minAvailable=0)],
        "spec.minAvailable": 1,
    }, "spec.tasks", "at most 100000 replicas together (JOB_REPLICAS_MAX)"),
    creating("job minimum below total", {"spec.minAvailable": 1, f"{T0}.minAvailable": 1}),
    creating("pods that can never succeed", {"spec.minSuccess": 4}, warns="spec.minSuccess: 4 pods can never succeed"),
    creating("pods that can succeed", {"spec.minSuccess": 3}),
    creating("no replicas at all", {f"{T0}.replicas": 0, f"{T0}.minAvailable": 0, "spec.minAvailable": 0},
             warns="no pod will be made"),
    # -------------------------------------------------------------------------------------------------------- names
    creating("task twice", {"spec.tasks": [task(), task()], "spec.minAvailable": 3}, "spec.tasks[1].name",
             "duplicated task name"),
    creating("two tasks", {"spec.tasks": [task("a"), task("b")], "spec.minAvailable": 6}),
    creating("task in capitals", {f"{T0}.name": "Worker"}, f"{T0}.name"),
    creating("long pod names", {"metadata.name": "j" * 40, f"{T0}.name": "t" * 24}, f"{T0}.name", "validate failed"),
    creating("pod names that just fit", {"metadata.name": "j" * 40, f"{T0}.name": "t" * 20}),
    creating("long job name", {"metadata.name": "j" * 64, f"{T0}.name": "t"}, "metadata.name", "create job with name jjj"),
    creating("long generated name", {"metadata": {"generateName": "j" * 59, "namespace": NAMESPACE}}, "metadata.name"),
    # ---------------------------------------------------------------------------------------------------- templates
    creating("bad template", {f"{MAIN}.image": ""}, f"{MAIN}.image"),
    creating("mount without volume", {f"{MAIN}.volumeMounts": [{"name": "x", "mountPath": "/x"}]},
             f"{MAIN}.volumeMounts[0].name", "not found"),
    creating("template of the second task", {"spec.tasks": [task("a"), task("b", template={"spec": {}})]},
             "spec.tasks[1].template.spec.containers"),
    creating("priority class in capitals", {"spec.priorityClassName": "High"}, "spec.priorityClassName"),
    # ----------------------------------------------------------------------------------------------------- topology
    creating("both tiers", {"spec.networkTopology": BOTH_TIERS}, "spec.networkTopology", "must not specify both"),
    creating("one tier", {"spec.networkTopology": {"mode": "hard", "highestTierAllowed": 2}}),
    creating("pinned half cores", {f"{T0}.topologyPolicy": "restricted", f"{MAIN}.resources": {"requests": {"cpu": "1500m"}}},
             f"{MAIN}.resources.requests[cpu]", "isn't an integer"),
    creating("pinned nothing", {f"{T0}.topologyPolicy": "best-effort"}, f"{MAIN}.resources.requests[cpu]"),
    creating("pinned no number", {f"{T0}.topologyPolicy": "restricted", f"{MAIN}.resources": {"requests": {"cpu": "two"}}},
             f"{MAIN}.resources.requests[cpu]", "quantity"),
    creating("pinned cores by limit", {
        f"{T0}.topologyPolicy": "single-numa-node", f"{MAIN}.resources": {"limits": {"cpu": "2"}},
    }),
    creating("half cores without pinning", {
        f"{T0}.topologyPolicy": "none", f"{MAIN}.resources": {"requests": {"cpu": "1500m"}},
    }),
    # --------------------------------------------------------------------------------------------------- partitions
    creating("partitions that do not add up", {f"{T0}.partitionPolicy": PARTS | {"totalPartitions": 2}},
             f"{T0}.partitionPolicy", "equal to replicas"),
    creating("no partitions", {f"{T0}.partitionPolicy": PARTS | {"totalPartitions": 0}},
             f"{T0}.partitionPolicy.totalPartitions"),
    creating("empty partitions", {f"{T0}.partitionPolicy": PARTS | {"partitionSize": 0}}, f"{T0}.partitionPolicy.partitionSize"),
    creating("minimum of partitions against minimum of pods", {f"{T0}.partitionPolicy": PARTS | {"minPartitions": 2}},
             f"{T0}.partitionPolicy.minPartitions", "equal to minAvailable"),
    creating("both tiers of a partition", {f"{T0}.partitionPolicy": PARTS | {"networkTopology": BOTH_TIERS}},
             f"{T0}.partitionPolicy.networkTopology", "must not specify both"),
    creating("partitions", {f"{T0}.partitionPolicy": PARTS | {"minPartitions": 3}}),
    # ----------------------------------------------------------------------------------------------------- policies
    creating("policies", policies(
        policy("PodEvicted"), policy(events=["PodFailed", "TaskFailed"], action="AbortJob", timeout="10m"),
        policy("TaskCompleted", "CompleteJob"), policy("Unknown", "AbortJob"),
    )),
    creating("policy for everything", policies(policy("*", "AbortJob"))),
    creating("policy for an exit code", policies(policy(exitCode=3, action="TerminateJob"))),
    creating("policy for nothing", policies(policy()), "spec.policies[0]", "either event and exitCode should be specified"),
    creating("policy for an event and an exit code", policies(policy("PodFailed", exitCode=3)), "spec.policies[0]",
             "must not specify event and exitCode simultaneously"),
    creating("policy for an event twice", policies(policy("PodFailed"), policy(events=["PodFailed"], action="AbortJob")),
             "spec.policies[1]", "duplicate event PodFailed across different policy"),
    creating("policy for an internal event", policies(policy("PodRunning")), "spec.policies[0].event", "invalid policy event"),
    creating("policy for a misspelt event", policies(policy(events=["PodFailled"])), "spec.policies[0].events[0]",
             "did you mean PodFailed?"),
    creating("policy for everything and more", policies(policy("*"), policy("PodFailed")), "spec.policies",
             "if there's * here, no other policy should be here"),
    creating("policy with a misspelt action", policies(policy("PodFailed", "RestartTaskOnly")), "spec.policies[0].action",
             "did you mean RestartTask?"),
    creating("policy with an internal action", policies(policy("PodFailed", "SyncJob")), "spec.policies[0].action",
             "invalid policy action"),
    creating("policy without action", policies({"event": "PodFailed"}), "spec.policies[0].action"),
    creating("exit code with a misspelt action", policies(policy(exitCode=3, action="Restart")), "spec.policies[0].action"),
    creating("exit code of success", policies(policy(exitCode=0)), "spec.policies[0].exitCode", "not a valid error code"),
    creating("exit code twice", policies(policy(exitCode=3), policy(exitCode=3, action="AbortJob")),
             "spec.policies[1].exitCode", "duplicate exitCode"),
    creating("policy with a malformed timeout", policies(policy("PodFailed", timeout="10 minutes")), "spec.policies[0].timeout"),
    creating("policy of a task", policies(policy("PodFailled"), of=f"{T0}.policies"), f"{T0}.policies[0].event"),
    creating("same event in job and task", {
        **policies(policy("PodFailed")), "spec.tasks": [task("a", policies=[policy("PodFailed", "RestartTask")]), task("b")],
        "spec.minAvailable": 6,
    }),
    # --------------------------------------------------------------------------------- policies that never do anything
    creating("pending without a timeout", policies(policy("PodPending")), warns="PodPending never fires without a timeout"),
    creating("pending with a timeout", policies(policy("PodPending", timeout="1h"))),
    creating("update that is never told", policies(policy("JobUpdated")), warns="JobUpdated is never raised"),
    creating("exit code that no container has", policies(policy(exitCode=256)), warns="no container can end with exit code 256"),
    creating("exit code behind failed pods", policies(policy("PodFailed"), policy(exitCode=3)), warns="put exit codes first"),
    creating("exit code before failed pods", policies(policy(exitCode=3), policy("PodFailed"))),
    creating("exit code of restarted containers", {
        **policies(policy(exitCode=3)), f"{POD}.restartPolicy": "OnFailure",
    }, warns="use restartPolicy Never"),
    creating("task that never completes", {
        **policies(policy("TaskCompleted", "CompleteJob")), f"{POD}.restartPolicy": ...,
    }, warns="TaskCompleted never fires with restartPolicy Always"),
    creating("policy that every task overrides", {
        **policies(policy("PodFailed")), f"{T0}.policies": [policy("*", "RestartTask")],
    }, warns="every task has a policy of its own"),
    creating("restart of no partition", policies(policy("PodFailed", "RestartPartition")), warns="RestartPartition does nothing"),
    creating("restart of a partition", {
        **policies(policy("PodFailed", "RestartPartition")), f"{T0}.partitionPolicy": PARTS,
    }),
    creating("restart of no pod", policies(policy("Unknown", "RestartPod")), warns="would only use up a retry"),
    creating("restart of an elastic job", {
        **policies(policy("PodFailed")), f"{MAIN}.command": ["torchrun", "--nnodes=1:3", "train.py"],
    }, warns="though torchrun goes on without lost workers"),
    creating("restart of a rigid job", {
        **policies(policy("PodFailed")), f"{MAIN}.command": ["torchrun", "--nnodes=3", "train.py"],
    }),
    creating("restart of a ray cluster", {
        "spec.plugins": {"ray": [], "svc": []}, **policies(policy("PodEvicted")),
        "spec.tasks": [task("head", replicas=1, minAvailable=1), task("worker")],
    }, warns="though Ray goes on"),
    # -------------------------------------------------------------------------------------------------- time limits
    creating("time limit", times("2h", warning="2m", signal="SIGUSR1", estimate="90m")),
    creating("time limit of half an hour", times("0.5h")),
    creating("time limit without unit", times("3600"), AT_LIMIT, "a unit is missing"),
    creating("empty time limit", times(""), AT_LIMIT, "empty"),
    creating("time limit of nothing", times("0s"), AT_LIMIT, "must be longer than 0"),
    creating("negative time limit", times("-2h"), AT_LIMIT, "must be longer than 0"),
    creating("time limit beyond all time", times("9999999h"), AT_LIMIT, "longer than 292 years"),
    creating("warning that comes at once", times("2h", warning="2h"), f"{NOTES}[{names.TIME_LIMIT_WARNING}]",
             "a warning 2h0m0s before the end comes too early for a time limit of 2h0m0s"),
    creating("warning of nothing", times("2h", warning="0"), f"{NOTES}[{names.TIME_LIMIT_WARNING}]", "longer than 0"),
    creating("warning without limit", {NOTES: {names.TIME_LIMIT_WARNING: "2m"}}, f"{NOTES}[{names.TIME_LIMIT_WARNING}]",
             "no time limit to warn of"),
    creating("signal that cannot be sent", times("2h", signal="SIGKILL"), f"{NOTES}[{names.TIME_LIMIT_SIGNAL}]",
             "unsupported value"),
    creating("estimate without unit", times("2h", estimate="90"), f"{NOTES}[{names.RUNNING_ESTIMATE}]", "a unit is missing"),
    creating("running estimate", {"spec.runningEstimate": "90m"}),
    creating("running estimate without unit", {"spec.runningEstimate": "90"}, "spec.runningEstimate", "a unit is missing"),
    creating("time limit of pods", {f"{T0}.template.{NOTES}": {names.TIME_LIMIT: "2h"}}, warns="set it on the job"),
    creating("bad time limit of pods", {f"{T0}.template.{NOTES}": {names.TIME_LIMIT: "2"}},
             f"{T0}.template.{AT_LIMIT}", "a unit is missing"),
    creating("checkpoint signal that cannot be sent", {NOTES: {names.CHECKPOINT_SIGNAL: "SIGSTOP"}},
             f"{NOTES}[{names.CHECKPOINT_SIGNAL}]", "unsupported value"),
    creating("signal of pods", {f"{T0}.template.{NOTES}": {names.TIME_LIMIT_SIGNAL: "SIGUSR2"}}),
    creating("policy for the end of time", policies(policy("TimeLimitExceeded", "RestartJob"))),
    creating("policy for the end of time that ends nothing", policies(policy("TimeLimitExceeded", "RestartPod")),
             warns="RestartPod does not end it"),
    creating("policy of a task for the end of time", policies(policy("TimeLimitExceeded"), of=f"{T0}.policies"),
             warns="never fires for a task"),
    # ------------------------------------------------------------------------------------------------------ plugins
    creating("unknown plugin", {"spec.plugins": {"pytorh": []}}, "spec.plugins[pytorh]", "unable to find job plugin"),
    creating("known plugins", {"spec.plugins": {"env": [], "svc": [], "ssh": []}}),
    creating("mpi without master", {"spec.plugins": {"mpi": []}}, "spec.plugins[mpi]", "The specified mpi master task was not found"),
    creating("mpi with master", {"spec.plugins": {"mpi": [], "ssh": [], "svc": []}, **master_and_worker()}),
    creating("mpi with another master", {"spec.plugins": {"mpi": ["--master=worker"], "ssh": [], "svc": []}}),
    creating("pytorch without master", {"spec.plugins": {"pytorch": [], "svc": []}}, warns="the plugin does nothing"),
    creating("pytorch with master", {"spec.plugins": {"pytorch": ["--master", "master"], "svc": []}, **master_and_worker()}),
    creating("ray without head", {"spec.plugins": {"ray": ["-head=boss"], "svc": []}}, warns="no task is named 'boss'"),
    creating("service with a dot", {"spec.plugins": {"svc": []}, "metadata.name": "a.b"}, warns="needs a Service named"),
    creating("hosts with long names", {
        "spec.plugins": {"svc": []}, "metadata.name": "j" * 59, f"{T0}.name": "t", f"{T0}.replicas": 101,
    }, warns="cannot make a host named"),
    # ------------------------------------------------------------------------------------------------------ volumes
    creating("volumes", {"spec.volumes": [
        {"mountPath": "/a", "volumeClaimName": "a"}, {"mountPath": "/b", "volumeClaim": CLAIM},
    ]}),
    creating("volume without path", {"spec.volumes": [{"mountPath": "", "volumeClaimName": "a"}]}, "spec.volumes[0].mountPath",
             "mountPath is required"),
    creating("volumes at one path", {"spec.volumes": [{"mountPath": "/a", "volumeClaimName": name} for name in "ab"]},
             "spec.volumes[1].mountPath", "duplicated mountPath"),
    creating("volume of nothing", {"spec.volumes": [{"mountPath": "/a"}]}, "spec.volumes[0]",
             "either VolumeClaim or VolumeClaimName must be specified"),
    creating("volume of two claims", {"spec.volumes": [{"mountPath": "/a", "volumeClaimName": "a", "volumeClaim": CLAIM}]},
             "spec.volumes[0]"),
    creating("volume of a claim in capitals", {"spec.volumes": [{"mountPath": "/a", "volumeClaimName": "A"}]},
             "spec.volumes[0].volumeClaimName"),
    creating("volume of a claim without size", {"spec.volumes": [{"mountPath": "/a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]},
             "spec.volumes[0].volumeClaim.resources.requests[storage]"),
    creating("volume where a container mounts its own", {
        "spec.volumes": [{"mountPath": "/a", "volumeClaimName": "a"}], f"{POD}.volumes": [{"name": "v"}],
        f"{MAIN}.volumeMounts": [{"name": "v", "mountPath": "/a"}],
    }, f"{MAIN}.volumeMounts[0].mountPath"),
    # -------------------------------------------------------------------------------------------------------- queue
    creating("no such queue", {"spec.queue": "r"}, "spec.queue", "unable to find job queue"),
    creating("closed queue", {}, "spec.queue", "can only submit job to queue with state `Open`",
             world=(ROOT, queue(edits={"status.state": "Closed"}))),
    creating("closing queue", {}, "spec.queue", "`Closing`", world=(ROOT, queue(edits={"status.state": "Closing"}))),
    creating("queue without a state yet", {}, world=(ROOT, queue(edits={"status": {}}))),
    creating("root queue", {"spec.queue": "root"}, "spec.queue", "root queue"),
    creating("queue with children", {}, "spec.queue", "can only submit job to leaf queue",
             world=(*QUEUES, queue("child", parent="q"))),
    creating("queue below another", {"spec.queue": "child"}, world=(*QUEUES, queue("child", parent="q"))),
    # ------------------------------------------------------------------------------------------------- dependencies
    creating("dependency", {**master_and_worker(dependsOn={"name": ["master"]}), "spec.minAvailable": 1}),
    creating("dependency on nothing", master_and_worker(dependsOn={"name": ["mster"]}), "spec.tasks[1].dependsOn.name", "DAG"),
    creating("dependency on itself", {**master_and_worker(dependsOn={"name": ["worker"]}), "spec.minAvailable": 1},
             "spec.tasks[1].dependsOn.name", "worker -> worker"),
    creating("dependencies in a circle", {"spec.tasks": [
        task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["c"]}), task("c", dependsOn={"name": ["a"]}),
    ]}, "spec.tasks[0].dependsOn.name", "DAG"),
    creating("gang that waits for itself", {**master_and_worker(dependsOn={"name": ["master"]}), "spec.minAvailable": 3},
             warns="deadlock; use 1 or less"),
    # ----------------------------------------------------------------------------------------------- what will hurt
    creating("affinity that no node matches", {
        f"{POD}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms": [
            {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["four"]}]},
        ],
    }, warns="no node matches this"),
    creating("pods bound by hand", {f"{POD}.nodeName": "n1"}, warns="the pods skip the scheduler"),
    creating("pods of another scheduler", {f"{POD}.schedulerName": "default-scheduler"}, warns="do not join the gang"),
    creating("pods of the same scheduler", {f"{POD}.schedulerName": "volcano"}),
    creating("cards alone", {f"{MAIN}.resources": {"limits": {GPU: 1}}}, warns="without a limit or request of memory"),
    creating("cards with cpu and memory", {f"{MAIN}.resources": GPUS}),
    creating("cards requested without limits", {f"{MAIN}.resources": {"requests": {GPU: 1}}}, f"{MAIN}.resources.limits",
             "limit must be set"),
    creating("no such priority class", {"spec.priorityClassName": "high"}, warns="there is no priority class 'high'"),
    creating("priority class", {"spec.priorityClassName": "high"}, world=(*QUEUES, {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5,
    })),
    creating("gang larger than the cluster", {f"{MAIN}.resources": {"limits": {GPU: 5, "cpu": "1", "memory": "1Gi"}}},
             warns=f"at least 15 {GPU} must start at once, but all nodes together have 12", world=(*QUEUES, *NODES)),
    creating("pod larger than every node", {
        f"{MAIN}.resources": {"limits": {"cpu": "33"}}, "spec.minAvailable": 1, f"{T0}.minAvailable": 1,
    }, warns="one pod needs 33 cpu, but no node has more than 32", world=(*QUEUES, *NODES)),
    creating("gang that needs what no node has", {f"{MAIN}.resources": {"limits": {"amd.com/gpu": 1, "cpu": "1", "memory": "1Gi"}}},
             warns="one pod needs 1 amd.com/gpu, but no node has more than 0", world=(*QUEUES, *NODES)),
    creating("pod with a large init container", {
        f"{POD}.initContainers": [
            {"name": "side", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}},
            {"name": "init", "image": "i", "resources": {"requests": {"cpu": "31"}}},
        ],
        f"{MAIN}.resources": {"requests": {"cpu": "1"}}, f"{POD}.overhead": {"memory": "1Gi"},
    }, warns="one pod needs 33 cpu", world=(*QUEUES, *NODES)),
    creating("pod that is large as a whole", {f"{POD}.resources": {"requests": {"cpu": "40"}}}, warns="one pod needs 40 cpu",
             world=(*QUEUES, *NODES)),
    creating("gang that fits the cluster", {f"{MAIN}.resources": {"limits": {GPU: 4, "cpu": "8", "memory": "32Gi"}}},
             world=(*QUEUES, *NODES)),
    creating("small gang of a large job", {
        f"{MAIN}.resources": {"limits": {GPU: 5, "cpu": "1", "memory": "1Gi"}}, "spec.minAvailable": 2,
    }, world=(*QUEUES, *NODES)),
    creating("gang larger than its queue", {f"{MAIN}.resources": {"requests": {"cpu": "2"}}},
             warns="at least 6 cpu must start at once, but the capability of queue 'q' is 5",
             world=(ROOT, queue("q", parent="root", capability={"cpu": "5"}))),
    creating("gang larger than the queue above", {"spec.queue": "child", f"{MAIN}.resources": {"requests": {"cpu": "2"}}},
             warns="the capability of queue 'q' is 5",
             world=(ROOT, queue("q", parent="root", capability={"cpu": "5"}), queue("child", parent="q"))),
    creating("gang as large as its queue", {f"{MAIN}.resources": {"requests": {"cpu": "2"}}},
             world=(ROOT, queue("q", parent="root", capability={"cpu": "6"}))),
]  # fmt: skip


def updating(id_: str, edits: Json, refused: str = "", says: str = "", before: Json | None = None) -> Case:
    """A job that somebody updates; nothing is looked up."""
    return Case(id_, edited(job(before), edits), old=job(before), refused=refused, says=says)


OTHER = "may not change fields other than"
MADE = {"spec.volumes": [{"mountPath": "/a", "volumeClaim": CLAIM}]}

JOBS_UPDATED = [
    updating("nothing", {}),
    updating("metadata", {"metadata.labels": {"a": "b"}}),
    updating("more time", times("4h"), before=times("2h")),
    updating("more time without unit", times("4"), AT_LIMIT, "a unit is missing", before=times("2h")),
    updating("later warning than the limit", times("1h", warning="90m"), f"{NOTES}[{names.TIME_LIMIT_WARNING}]",
             "comes too early", before=times("2h", warning="90m")),
    updating("another signal", times("2h", signal="USR1"), f"{NOTES}[{names.TIME_LIMIT_SIGNAL}]", "did you mean SIGUSR1?",
             before=times("2h")),
    updating("labels beside an old bad limit", {"metadata.labels": {"a": "b"}}, before=times("4")),
    updating("scaled up", {f"{T0}.replicas": 5}),
    updating("scaled down", {f"{T0}.replicas": 2, f"{T0}.minAvailable": 2, "spec.minAvailable": 2}),
    updating("priority class changed", {"spec.priorityClassName": "high"}),
    updating("minimum of a task above replicas", {f"{T0}.minAvailable": 4}, f"{T0}.minAvailable"),
    updating("scaled below the minimum", {f"{T0}.replicas": 2}, "spec.minAvailable",
             "job 'minAvailable' must not be greater than total replicas", {f"{T0}.minAvailable": 1}),
    updating("scaled beyond what a job may have", {
        "spec.tasks": [task("worker", replicas=100_001)],
    }, "spec.tasks", "at most 100000 replicas together (JOB_REPLICAS_MAX)"),
    updating("negative replicas", {f"{T0}.replicas": -1, f"{T0}.minAvailable": 0, "spec.minAvailable": 0}, f"{T0}.replicas"),
    updating("partitions that no longer add up", {f"{T0}.replicas": 4}, f"{T0}.partitionPolicy", "equal to replicas",
             {f"{T0}.partitionPolicy": PARTS}),
    updating("task added", {"spec.tasks": [task("worker"), task("more")]}, "spec.tasks", "may not add or remove tasks"),
    updating("queue changed", {"spec.queue": "default"}, "spec.queue", OTHER),
    updating("scheduler changed", {"spec.schedulerName": "other"}, "spec.schedulerName", OTHER),
    updating("retries changed", {"spec.maxRetry": 5}, "spec.maxRetry", OTHER),
    updating("plugins changed", {"spec.plugins": {"svc": []}}, "spec.plugins", OTHER),
    updating("empty plugins", {"spec.plugins": {}}),
    updating("policies changed", policies(policy("PodFailed")), "spec.policies", OTHER),
    updating("time to live changed", {"spec.ttlSecondsAfterFinished": 5}, "spec.ttlSecondsAfterFinished", OTHER),
    updating("topology changed", {"spec.networkTopology": {"mode": "soft"}}, "spec.networkTopology", OTHER),
    updating("task renamed", {f"{T0}.name": "w"}, f"{T0}.name", OTHER),
    updating("image changed", {f"{MAIN}.image": "train:2"}, f"{T0}.template", OTHER),
    updating("template written otherwise", {
        f"{MAIN}.resources.requests": {"cpu": "1", "memory": "1024Mi"}, f"{MAIN}.env": [], f"{POD}.nodeSelector": {},
        f"{POD}.tolerations": None,
    }, before={f"{MAIN}.resources.requests": {"cpu": "1000m", "memory": "1Gi"}}),
    updating("request changed", {f"{MAIN}.resources.requests": {"cpu": "2"}}, f"{T0}.template", OTHER,
             {f"{MAIN}.resources.requests": {"cpu": "1000m"}}),
    updating("request that was never one", {f"{MAIN}.resources.requests": {"cpu": "one"}}, f"{T0}.template", OTHER,
             {f"{MAIN}.resources.requests": {"cpu": "1"}}),
    updating("policies of a task changed", {f"{T0}.policies": [policy("PodFailed")]}, f"{T0}.policies", OTHER),
    updating("claim named by the controller", {"spec.volumes[0].volumeClaimName": "made"}, before=MADE),
    updating("claim exchanged", {"spec.volumes[0].volumeClaimName": "b"}, "spec.volumes", OTHER,
             {"spec.volumes": [{"mountPath": "/a", "volumeClaimName": "a"}]}),
    updating("mount moved", {"spec.volumes[0].mountPath": "/b"}, "spec.volumes", OTHER, MADE),
    updating("label on a job that would be refused today", {"metadata.labels": {"a": "b"}},
             before={"spec.minAvailable": 9, "spec.queue": "gone"}),
]  # fmt: skip


# -------------------------------------------------------------------------------------------------------- pod groups

GROUP: Json = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": NAMESPACE},
    "spec": {"queue": "q", "minMember": 3},
}


def grouping(id_: str, edits: Json, refused: str = "", says: str = "", warns: str = "", **more: Any) -> Case:
    return Case(
        id_, edited(GROUP, edits), world=more.pop("world", QUEUES), refused=refused, says=says, warns=warns, **more
    )


CONTROLLED = {"metadata.ownerReferences": [
    {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "1", "controller": True},
]}  # fmt: skip

POD_GROUPS = [
    grouping("group", {}),
    grouping("group of less than nobody", {"spec.minMember": -1}, "spec.minMember"),
    grouping("group in no queue", {"spec.queue": "r"}, "spec.queue", "unable to find job queue"),
    grouping("group in a closed queue", {}, "spec.queue", "`Open`", world=(queue(edits={"status.state": "Closed"}),)),
    grouping("group with both tiers", {"spec.networkTopology": BOTH_TIERS}, "spec.networkTopology", "must not specify both"),
    grouping("group with one tier", {"spec.networkTopology": {"mode": "soft", "highestTierName": "rack"}}),
    grouping("sub group with both tiers", {"spec.subGroupPolicy": [{"name": "a", "networkTopology": BOTH_TIERS}]},
             "spec.subGroupPolicy[0].networkTopology", "must not specify both"),
    grouping("sub group with a bad selector", {
        "spec.subGroupPolicy": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}],
    }, "spec.subGroupPolicy[0].labelSelector.matchExpressions[0]"),
    grouping("group with a negative minimum", {"spec.minResources": {"cpu": "-1"}}, "spec.minResources[cpu]"),
    grouping("group with a nameless minimum", {"spec.minResources": {"c p u": "1"}}, "spec.minResources[c p u]"),
    grouping("group with tasks", {"spec.minTaskMember": {"a": 1, "b": 2}}),
    grouping("group with larger tasks", {"spec.minTaskMember": {"a": 2, "b": 2}}, warns="the minimums of tasks are ignored"),
    grouping("group with larger tasks, made for a job", {"spec.minTaskMember": {"a": 2, "b": 2}, **CONTROLLED}),
    grouping("group with larger sub groups", {"spec.subGroupPolicy": [{"subGroupSize": 2, "minSubGroups": 2}]},
             warns="needs 4 pods at once"),
    grouping("group in a queue with children", {}, warns="may never start", world=(*QUEUES, queue("child", parent="q"))),
    grouping("group larger than the cluster", {"spec.minResources": {f"requests.{GPU}": "13", "count/pods": "3"}},
             warns=f"at least 13 {GPU} must start at once, but all nodes together have 12", world=(*QUEUES, *NODES)),
    grouping("group that fits", {"spec.minResources": {"cpu": "48", f"requests.{GPU}": "12"}}, world=(*QUEUES, *NODES)),
    grouping("group with a time limit", times("2h", warning="2m")),
    grouping("group with a bad time limit", times("2 h"), AT_LIMIT, "unknown unit"),
    grouping("group with a bad time limit, made for a job", {**times("2 h"), **CONTROLLED}),
    grouping("group that is warned too early", times("2h", warning="3h"), f"{NOTES}[{names.TIME_LIMIT_WARNING}]", "too early"),
    grouping("group with a bad signal", times("2h", signal="TERM"), f"{NOTES}[{names.TIME_LIMIT_SIGNAL}]", "unsupported value"),
    Case("group moved to no queue", edited(GROUP, {"spec.queue": "r"}), old=GROUP, world=QUEUES),
]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- queues

Q = "q"


def queueing(id_: str, spec: Json, refused: str = "", says: str = "", warns: str = "", **more: Any) -> Case:
    """A queue that somebody creates."""
    new = queue(Q, more.pop("edits", None), **spec)
    return Case(id_, new, world=more.pop("world", (ROOT, DEFAULT)), refused=refused, says=says, warns=warns, **more)


def requeueing(id_: str, before: Json, after: Json, refused: str = "", says: str = "", **more: Any) -> Case:
    """A queue that somebody updates, seen by the look-up as it was."""
    name = more.pop("name", Q)
    old = queue(name, more.pop("status", None), **before)
    new = queue(name, more.pop("edits", None), **after) | {"status": old["status"]}
    world = (ROOT, DEFAULT, *more.pop("world", ()), *(() if name == "root" else (old,)))
    return Case(id_, new, old=old, world=world, refused=refused, says=says, **more)


def tree(*levels: str) -> tuple[Json, ...]:
    """Queues each below the one before it."""
    return tuple(queue(name, parent=above) for above, name in zip(("root", *levels), levels, strict=False))


def hierarchy(path: str, weights: str) -> Json:
    return {"metadata.annotations": {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}}


def resources(**amounts: Any) -> Json:
    return {"resource": amounts}


TEAM = queue("team", parent="root", capability={"cpu": "10"}, deserved={"cpu": "8"}, guarantee=resources(cpu="4"))
BUSY = queue("busy", {"status.allocated": {"pods": "2", "cpu": "4"}}, parent="root")

QUEUES_CREATED = [
    queueing("queue", {}),
    queueing("amounts that fit", {
        "capability": {"cpu": "10", GPU: "8"}, "deserved": {"cpu": "8"}, "guarantee": resources(cpu="4"),
    }),
    queueing("negative capability", {"capability": {"cpu": "-1"}}, "spec.capability[cpu]", "negative"),
    queueing("half a card deserved", {"deserved": {GPU: "500m"}}, f"spec.deserved[{GPU}]", "integer"),
    queueing("guarantee without deserved", {"guarantee": resources(cpu="4")}, "spec.deserved[cpu]",
             "guarantee should less equal than deserved"),
    queueing("guarantee above deserved", {"deserved": {"cpu": "3"}, "guarantee": resources(cpu="4")}, "spec.deserved[cpu]"),
    queueing("guarantee above capability", {"capability": {"cpu": "1"}, "guarantee": resources(cpu="2")}, "spec.deserved[cpu]",
             "guarantee should less equal than capability"),
    queueing("deserved above capability", {"capability": {"cpu": "1500m"}, "deserved": {"cpu": "2"}}, "spec.deserved[cpu]",
             "deserved should less equal than capability"),
    queueing("state that only the controller says", {}, "status.state", "`Open` or `Closed`",
             edits={"status.state": "Closing"}),
    queueing("guarantee beyond the cluster", {"deserved": {"cpu": "99"}, "guarantee": resources(cpu="99")},
             warns="all nodes together have 48", world=(ROOT, *NODES)),
    # ------------------------------------------------------------------------------------------------- annotations
    queueing("hierarchy", {}, edits=hierarchy("root/eng/prod", "1/2/8")),
    queueing("hierarchy without a weight", {}, "metadata.annotations[volcano.sh/hierarchy-weights]", "same length",
             edits=hierarchy("root/eng/prod", "1/2")),
    queueing("hierarchy with a weight of nothing", {}, "metadata.annotations[volcano.sh/hierarchy-weights]", "0 in the 1/0 must be larger than 0",
             edits=hierarchy("root/eng", "1/0")),
    queueing("hierarchy with a word as weight", {}, "metadata.annotations[volcano.sh/hierarchy-weights]", "is invalid number",
             edits=hierarchy("root/eng", "1/a")),
    queueing("hierarchy on the way to another", {}, "metadata.annotations[volcano.sh/hierarchy]", "sub path",
             edits=hierarchy("root/eng", "1/2"), world=(ROOT, queue("p", hierarchy("root/eng/prod", "1/2/8")))),
    queueing("hierarchy beside another", {}, edits=hierarchy("root/eng", "1/2"),
             world=(ROOT, queue("p", hierarchy("root/engine", "1/2")))),
    queueing("limits for users", {}, edits={"metadata.annotations": {"pumice.dev/user-limits": "running=4,nvidia.com/gpu=8"}}),
    queueing("limits for users that are none", {}, "metadata.annotations[pumice.dev/user-limits]", "'lots' is no number of gangs",
             edits={"metadata.annotations": {"pumice.dev/user-limits": "running=lots"}}),
    queueing("a minimum run time", {}, edits={"metadata.annotations": {"pumice.dev/min-runtime": "30m"}}),
    queueing("no minimum run time", {}, edits={"metadata.annotations": {"pumice.dev/min-runtime": "0s"}}),
    queueing("a minimum run time that is none", {}, "metadata.annotations[pumice.dev/min-runtime]", "unknown unit",
             edits={"metadata.annotations": {"pumice.dev/min-runtime": "30 minutes"}}),
    queueing("a negative minimum run time", {}, "metadata.annotations[pumice.dev/min-runtime]", "must not be negative",
             edits={"metadata.annotations": {"pumice.dev/min-runtime": "-5m"}}),
    # ------------------------------------------------------------------------------------------------------ parents
    queueing("parent", {"parent": "team"}, world=(ROOT, TEAM)),
    queueing("parent itself", {"parent": Q}, "spec.parent", "itself as parent"),
    queueing("parent that is not there", {"parent": "gone"}, "spec.parent", "'gone'"),
    queueing("parent whose parent is not there", {"parent": "a"}, "spec.parent", "'gone'", world=(ROOT, queue("a", parent="gone"))),
    queueing("fifth level", {"parent": "d"}, world=(ROOT, *tree("a", "b", "c", "d"))),
    queueing("sixth level", {"parent": "e"}, "spec.parent", "depth exceeds the maximum of 5", world=(ROOT, *tree("a", "b", "c", "d", "e"))),
    queueing("third level of two", {"parent": "b"}, "spec.parent", "maximum of 2", world=(ROOT, *tree("a", "b")),
             settings={"queue_depth_max": 2}),
    queueing("parent in which pods run", {"parent": "busy"}, "spec.parent", "allocated Pods", world=(ROOT, BUSY)),
    queueing("parent that is one already", {"parent": "busy"}, world=(ROOT, BUSY, queue("other", parent="busy"))),
    # ------------------------------------------------------------------------------------------- amounts in the tree
    queueing("capability above the parent's", {"parent": "team", "capability": {"cpu": "11"}}, "spec.capability[cpu]",
             "ancestor 'team'", world=(ROOT, TEAM)),
    queueing("capability above an ancestor's", {"parent": "b", "capability": {"cpu": "11"}}, "spec.capability[cpu]",
             "ancestor 'team'", world=(ROOT, TEAM, queue("b", parent="team", capability={"memory": "1Gi"}))),
    queueing("capability of what the parent does not limit", {"parent": "team", "capability": {GPU: "8"}}, world=(ROOT, TEAM)),
    queueing("deserved above the parent's", {"parent": "team", "deserved": {"cpu": "9"}}, "spec.deserved[cpu]",
             "the sum of deserved of the queues below 'team' is 9", world=(ROOT, TEAM)),
    queueing("deserved above what siblings leave", {"parent": "team", "deserved": {"cpu": "4"}}, "spec.deserved[cpu]", "is 9",
             world=(ROOT, TEAM, queue("s", parent="team", deserved={"cpu": "5"}))),
    queueing("deserved of what siblings leave", {"parent": "team", "deserved": {"cpu": "3"}},
             world=(ROOT, TEAM, queue("s", parent="team", deserved={"cpu": "5"}))),
    queueing("deserved of what the parent does not mention", {"parent": "team", "deserved": {GPU: "8", "memory": "1Gi"}},
             world=(ROOT, TEAM)),
    queueing("guarantee above the parent's", {"parent": "team", "deserved": {"cpu": "5"}, "guarantee": resources(cpu="5")},
             "spec.guarantee.resource[cpu]", world=(ROOT, TEAM)),
    queueing("guarantee that the parent does not back", {
        "parent": "team", "deserved": {GPU: "1"}, "guarantee": resources(**{GPU: "1"}),
    }, warns="holds against its other children only", world=(ROOT, TEAM)),
    queueing("deserved below the root", {"parent": "root", "deserved": {"cpu": "9999"}}),
]  # fmt: skip

QUEUES_CHANGED = [
    requeueing("weight", {"parent": "root"}, {"parent": "root", "weight": 5}),
    requeueing("closing queue", {"parent": "root"}, {"parent": "root", "weight": 5}, status={"status.state": "Closing"}),
    requeueing("unknown queue", {"parent": "root"}, {"parent": "root", "weight": 5}, status={"status.state": "Unknown"}),
    requeueing("weight of a queue that would be refused today", {"guarantee": resources(cpu="4")},
               {"guarantee": resources(cpu="4"), "weight": 5}),
    requeueing("amounts written otherwise", {"guarantee": resources(cpu="4")}, {"guarantee": resources(cpu="4000m")}),
    requeueing("guarantee above deserved", {"deserved": {"cpu": "4"}}, {"deserved": {"cpu": "4"}, "guarantee": resources(cpu="5")},
               "spec.deserved[cpu]"),
    requeueing("moved below another", {"parent": "root"}, {"parent": "team"}, world=(TEAM,)),
    requeueing("moved below its own child", {"parent": "root"}, {"parent": "c"}, "spec.parent", "below queue 'q' itself",
               world=tree(Q, "b", "c")[1:]),
    requeueing("moved with what is below it, too deep", {"parent": "root"}, {"parent": "y"}, "spec.parent", "it would be 6",
               world=(*tree("w", "x", "y"), *tree(Q, "b", "c")[1:])),
    requeueing("moved with far too much below it", {"parent": "root"}, {"parent": "w"}, "spec.parent", "depth exceeds",
               world=(*tree("w"), *tree(Q, *"abcdefgh")[1:])),
    requeueing("resized in a circle", {"parent": "c"}, {"parent": "c", "capability": {"cpu": "1"}}, world=(queue("c", parent=Q),)),
    requeueing("resized above what is no number", {"capability": {"cpu": "9"}}, {"capability": {"cpu": "8"}, "deserved": {"cpu": "8"}},
               world=(queue("b", parent=Q, capability={"cpu": "many"}, deserved={"cpu": "few"}),)),
    requeueing("corrected", {"capability": {"cpu": "many"}}, {"capability": {"cpu": "5"}}),
    requeueing("capability below a child's", {"capability": {"cpu": "10"}}, {"capability": {"cpu": "5"}}, "spec.capability[cpu]",
               "'c' below it", world=(queue("b", parent=Q), queue("c", parent="b", capability={"cpu": "6"}))),
    requeueing("capability as large as a child's", {"capability": {"cpu": "10"}}, {"capability": {"cpu": "6"}},
               world=(queue("b", parent=Q), queue("c", parent="b", capability={"cpu": "6"}))),
    requeueing("deserved below what children deserve", {"deserved": {"cpu": "9"}}, {"deserved": {"cpu": "6"}}, "spec.deserved[cpu]",
               "is 7", world=(queue("b", parent=Q, deserved={"cpu": "3"}), queue("c", parent=Q, deserved={"cpu": "4"}))),
    requeueing("deserved that children never mention", {"deserved": {"cpu": "9"}}, {"deserved": {}},
               world=(queue("b", parent=Q, deserved={"cpu": "3"}),)),
    requeueing("root resized", {}, {"capability": {"cpu": "5"}}, "spec.capability", "root queue resources cannot be modified", name="root"),
    requeueing("root resized where that is allowed", {}, {"capability": {"cpu": "5"}}, name="root", settings={"protect_root_queue": False}),
    requeueing("root reweighted", {}, {"weight": 5}, name="root"),
    requeueing("root below another", {}, {"parent": "team"}, "spec.parent", "no parent", name="root", world=(TEAM,)),
]  # fmt: skip


def dequeueing(id_: str, old: Json, refused: str = "", says: str = "", **more: Any) -> Case:
    return Case(id_, None, old=old, world=(*QUEUES, *more.pop("world", ())), refused=refused, says=says, **more)


QUEUES_DELETED = [
    dequeueing("queue goes", OPEN_QUEUE),
    dequeueing("default queue stays", DEFAULT, "metadata.name", "`default` queue can not be deleted"),
    dequeueing("root queue stays", ROOT, "metadata.name", "`root` queue can not be deleted"),
    dequeueing("parent stays", OPEN_QUEUE, "metadata.name", "child queues: b, c", world=(queue("c", parent="q"), queue("b", parent="q"))),
    dequeueing("busy queue goes", BUSY),
    dequeueing("busy queue stays", BUSY, "status.allocated[pods]", "pods are running", settings={"check_allocated_pods": True}),
    dequeueing("idle queue goes", OPEN_QUEUE, settings={"check_allocated_pods": True}),
]  # fmt: skip


# --------------------------------------------------------------------------------------------------- the other kinds


def pod(annotations: Json, scheduler: str = "volcano") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "main", "image": "train:1"}]},
    }


MIN, MAX = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"

PODS = [
    Case("budget of two", pod({MIN: "2"})),
    Case("budget of half", pod({MAX: "50%"})),
    Case("budget of nothing", pod({MIN: "0"}), refused=f"metadata.annotations[{MIN}]", says="positive integer"),
    Case("budget of all", pod({MAX: "100%"}), refused=f"metadata.annotations[{MAX}]", says="it must be a valid percentage which between 1% ~ 99%"),
    Case("budget of no percent", pod({MAX: "0%"}), refused=f"metadata.annotations[{MAX}]"),
    Case("budget in words", pod({MIN: "two"}), refused=f"metadata.annotations[{MIN}]"),
    Case("budget below zero", pod({MIN: "-1"}), refused=f"metadata.annotations[{MIN}]"),
    Case("both budgets", pod({MIN: "1", MAX: "1"}), refused="metadata.annotations", says="not allow configure multiple annotations"),
    Case("pod with a time limit", pod({names.TIME_LIMIT: "2h", names.TIME_LIMIT_SIGNAL: "SIGINT"})),
    Case("pod with a bad time limit", pod({names.TIME_LIMIT: "2d"}), refused=AT_LIMIT, says="unknown unit 'd'"),
    Case("pod that is warned too early", pod({names.TIME_LIMIT: "2h", names.TIME_LIMIT_WARNING: "120m"}),
         refused=f"{NOTES}[{names.TIME_LIMIT_WARNING}]", says="too early"),
    Case("pod that wants to write a checkpoint first", pod({names.CHECKPOINT_SIGNAL: "SIGUSR1"})),
    Case("pod with a bad checkpoint signal", pod({names.CHECKPOINT_SIGNAL: "USR1"}), refused=f"{NOTES}[{names.CHECKPOINT_SIGNAL}]"),
    Case("pod with a bad signal", pod({names.TIME_LIMIT_SIGNAL: "9"}), refused=f"{NOTES}[{names.TIME_LIMIT_SIGNAL}]"),
    Case("bad time limit of a pod that is not ours", pod({names.TIME_LIMIT: "2d"}, "default-scheduler")),
    Case("budget of a pod that is not ours", pod({MIN: "two"}, "default-scheduler")),
    Case("budget of a pod of our other name", pod({MIN: "two"}, "pumice"), refused=f"metadata.annotations[{MIN}]",
         settings={"scheduler_names": ("volcano", "pumice")}),
]  # fmt: skip


def flow(edits: Json | None = None, *flows: tuple[str, list[str]]) -> Json:
    base = {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "f", "namespace": NAMESPACE},
        "spec": {
            "jobRetainPolicy": "retain",
            "flows": [
                {"name": name, "dependsOn": {"targets": targets}} if targets else {"name": name}
                for name, targets in flows
            ],
        },
    }
    return edited(base, edits or {})


def job_template(name: str) -> Json:
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobTemplate",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": JOB["spec"],
    }


TEMPLATES = tuple(map(job_template, "abcd"))

JOB_FLOWS = [
    Case("flow", flow({}, ("a", []), ("b", ["a"]), ("c", ["a"]), ("d", ["b", "c"])), world=TEMPLATES),
    Case("flow of nothing", flow()),
    Case("flow that waits for nothing", flow({}, ("a", ["x"])), world=TEMPLATES, refused="spec.flows[0].dependsOn.targets",
         says="jobflow Flow is not DAG: vertex is not defined: x"),
    Case("flow in a circle", flow({}, ("a", ["b"]), ("b", ["a"])), world=TEMPLATES, refused="spec.flows[0].dependsOn.targets",
         says="jobflow Flow is not DAG"),
    Case("flow that waits for itself", flow({}, ("a", []), ("b", ["b"])), world=TEMPLATES,
         refused="spec.flows[1].dependsOn.targets", says="b -> b"),
    Case("flow whose jobs have long names", flow({"metadata.name": "f" * 62}, ("a", [])), world=TEMPLATES,
         refused="spec.flows[0].name", says="invalid job name"),
    Case("flow without a template", flow({}, ("a", []), ("x", ["a"])), world=TEMPLATES, warns="no JobTemplate 'x' yet"),
    Case("flow with one name twice", flow({}, ("a", []), ("a", [])), world=TEMPLATES, warns="occurs a second time"),
    Case("flow updated into a circle", flow({}, ("a", ["b"]), ("b", ["a"])), old=flow({}, ("a", []), ("b", [])), world=TEMPLATES,
         refused="spec.flows[0].dependsOn.targets"),
    Case("flow updated", flow({}, ("a", []), ("b", ["a"])), old=flow({}, ("a", []), ("b", [])), world=TEMPLATES),
    Case("label on a flow in a circle", flow({"metadata.labels": {"a": "b"}}, ("a", ["a"])), old=flow({}, ("a", ["a"])), world=TEMPLATES),
]  # fmt: skip


def cron_job(edits: Json | None = None) -> Json:
    base = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": NAMESPACE},
        "spec": {"schedule": "30 2 * * *", "jobTemplate": {"spec": JOB["spec"]}},
    }
    return edited(base, edits or {})


def planning(id_: str, edits: Json, refused: str = "", says: str = "", warns: str = "", **more: Any) -> Case:
    return Case(id_, cron_job(edits), world=more.pop("world", QUEUES), refused=refused, says=says, warns=warns, **more)


J = "spec.jobTemplate.spec"

CRON_JOBS = [
    planning("cron job", {}),
    planning("cron job in a zone", {"spec.timeZone": "Europe/Berlin"}),
    planning("cron job every so often", {"spec.schedule": "@every 90m"}),
    planning("cron job without a schedule", {"spec.schedule": ""}, "spec.schedule", "required"),
    planning("cron job with a bad schedule", {"spec.schedule": "61 * * * *"}, "spec.schedule", "minute 61"),
    planning("cron job with a zone in its schedule", {"spec.schedule": "TZ=UTC 0 0 * * *"}, "spec.schedule", "timeZone"),
    planning("cron job that never runs", {"spec.schedule": "0 0 30 2 *"}, warns="never comes"),
    planning("cron job in no zone", {"spec.timeZone": ""}, "spec.timeZone"),
    planning("cron job in the local zone", {"spec.timeZone": "Local"}, "spec.timeZone", "local"),
    planning("cron job in an unknown zone", {"spec.timeZone": "Europe/Atlantis"}, "spec.timeZone", "unknown"),
    planning("cron job with 50 letters", {"metadata.name": "n" * 50, f"{J}.tasks[0].name": "t"}),
    planning("cron job with a long name", {"metadata.name": "n" * 53}, "metadata.name", "52 characters"),
    planning("cron job with a malformed name", {"metadata.name": "night_"}, "metadata.name"),
    # ------------------------------------------------------------------------------------------- the jobs that it makes
    planning("cron job of nothing", {f"{J}.tasks": ...}, f"{J}.tasks", "No task specified"),
    planning("cron job without defaults", {f"{J}.minAvailable": ..., f"{J}.tasks[0].minAvailable": ..., f"{J}.tasks[0].name": ...}),
    planning("cron job with a number as text", {f"{J}.tasks[0].replicas": "3"}, f"{J}.tasks[0].replicas"),
    planning("cron job with a bad minimum", {f"{J}.minAvailable": 9}, f"{J}.minAvailable", "greater than total replicas"),
    planning("cron job with a bad template", {f"{J}.tasks[0].template.spec.containers[0].image": ""},
             f"{J}.tasks[0].template.spec.containers[0].image"),
    planning("cron job with long pod names", {"metadata.name": "n" * 50}, f"{J}.tasks[0].name", "validate failed"),
    planning("cron job with a time limit", {f"spec.jobTemplate.{NOTES}": {names.TIME_LIMIT: "2h"}}),
    planning("cron job with a bad time limit", {f"spec.jobTemplate.{NOTES}": {names.TIME_LIMIT: "two hours"}},
             f"spec.jobTemplate.{AT_LIMIT}", "a number should stand at"),
    planning("cron job in no queue yet", {f"{J}.queue": "r"}, warns=f"{J}.queue: unable to find job queue"),
    planning("cron job with a zero", {f"{J}.maxRetry": 0}, warns=f"{J}.maxRetry: 0 is replaced by 3"),
    planning("cron job with a policy that never fires", {f"{J}.policies": [policy("PodPending")]}, warns="PodPending never fires"),
    Case("cron job suspended", cron_job({"spec.suspend": True}), old=cron_job(), world=QUEUES),
    Case("cron job rescheduled badly", cron_job({"spec.schedule": "x"}), old=cron_job(), refused="spec.schedule", world=QUEUES),
    Case("cron job changed into a bad job", cron_job({f"{J}.tasks": []}), old=cron_job(), refused=f"{J}.tasks", world=QUEUES),
    Case("suspending a cron job that would be refused today", cron_job({f"{J}.tasks": [], "spec.schedule": "x", "spec.suspend": True}),
         old=cron_job({f"{J}.tasks": [], "spec.schedule": "x"}), world=QUEUES),
]  # fmt: skip


def hyper_node(*members: Json) -> Json:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": "rack"},
        "spec": {"tier": 1, "members": list(members)},
    }


def member(kind: str = "Node", **selector: Any) -> Json:
    return {"type": kind, "selector": selector}


PATTERN = "spec.members[0].selector.regexMatch.pattern"

HYPER_NODES = [
    Case("hyper node by name", hyper_node(member(exactMatch={"name": "n1"}))),
    Case("hyper node by pattern", hyper_node(member(regexMatch={"pattern": "^n-[0-9]{1,3}$"}))),
    Case("hyper node by label", hyper_node(member(labelMatch={"matchLabels": {"rack": "a"}}))),
    Case("hyper node of hyper nodes", hyper_node(member("HyperNode", exactMatch={"name": "leaf"}))),
    Case("hyper node of the highest tier", edited(hyper_node(member(exactMatch={"name": "n1"})), {"spec.tier": 1000})),
    Case("hyper node of a tier beyond all", edited(hyper_node(member(exactMatch={"name": "n1"})), {"spec.tier": 1001}),
         refused="spec.tier", says="use 0 to 1000"),
    Case("hyper node without members", edited(hyper_node(), {"spec.members": ...}), refused="spec.members", says="must not be empty"),
    Case("hyper node of nothing", hyper_node(), refused="spec.members", says="must not be empty"),
    Case("hyper node by a broken pattern", hyper_node(member(regexMatch={"pattern": "n-["})), refused=PATTERN,
         says="not a regular expression"),
    Case("hyper node by what RE2 lacks", hyper_node(member(regexMatch={"pattern": r"(a)\1"})), refused=PATTERN),
    Case("hyper node by no selector", hyper_node(member()), refused="spec.members[0].selector", says="none of"),
    Case("hyper node by two selectors", hyper_node(member(exactMatch={"name": "a"}, regexMatch={"pattern": "a"})),
         refused="spec.members[0].selector", says="more than one of"),
    Case("hyper node by a bad label", hyper_node(member(labelMatch={"matchLabels": {"a b": "c"}})),
         refused="spec.members[0].selector.labelMatch.matchLabels"),
    Case("hyper node by the label of hyper nodes", hyper_node(member("HyperNode", labelMatch={"matchLabels": {"a": "b"}})),
         warns="labels select nodes only"),
    Case("hyper node of itself", hyper_node(member("HyperNode", exactMatch={"name": "rack"})), warns="its own member"),
    Case("hyper node of neither nodes nor hyper nodes", hyper_node(member("Pod", exactMatch={"name": "n1"})),
         refused="spec.members[0].type"),
    Case("hyper node by a malformed name", hyper_node(member(exactMatch={"name": "N 1"})),
         refused="spec.members[0].selector.exactMatch.name"),
    Case("hyper node by an empty pattern", hyper_node(member(regexMatch={"pattern": ""})), refused=PATTERN),
    Case("hyper node updated badly", hyper_node(member(regexMatch={"pattern": "("})),
         old=hyper_node(member(exactMatch={"name": "n1"})), refused=PATTERN),
]  # fmt: skip

CASES = [
    *JOBS_CREATED,
    *JOBS_UPDATED,
    *POD_GROUPS,
    *QUEUES_CREATED,
    *QUEUES_CHANGED,
    *QUEUES_DELETED,
    *PODS,
    *JOB_FLOWS,
    *CRON_JOBS,
    *HYPER_NODES,
]
