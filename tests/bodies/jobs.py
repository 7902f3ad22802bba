"""What becomes of a Job on every API server: the same bodies run on the embedded server and on the real one.

A place for them has the scheduler and the controllers over one client whose writes are counted, and pretend nodes over another.
Who waits looks whenever a watch says that something changed; nothing here sleeps.
"""

import asyncio
import collections
import contextlib
import dataclasses
import json
import random
from typing import Any

from pumice.api import kinds, names
from pumice.api.batch import Job
from pumice.api.bus import Command
from pumice.api.core import ConfigMap, Node, Secret, Service
from pumice.api.events import CoreEvent
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.clock import RealClock
from pumice.controllers.job.plugins.svc import NETWORK_POLICY
from pumice.dispatch.rim import Rim
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.kube.requests import PatchType
from pumice.kube.transport import Transport
from pumice.nodes.pretend import PretendAgent, pretend_nodes
from pumice.processes.controller_settings import ControllerSettings
from pumice.processes.controllers import Controllers
from pumice.processes.scheduler import Scheduler, Served
from pumice.scheduling import builtin

PATIENCE_S = 60.0  # a busy machine takes its time
RESTORE_S = 0.5  # how often plugins' objects are looked for: nobody here wants to wait
WORKERS = 8
PLUGIN_OBJECTS = (
    (Service, "train"),
    (ConfigMap, "train-svc"),
    (Secret, "train-ssh"),
    (NETWORK_POLICY, "train"),
)

Json = dict[str, Any]


class Counting:
    """A transport that counts the writes that leave for one namespace, by verb and resource, events not among them.

    Writes of a Job's or a group's status that change no phase are counted for each object, too: how often these come depends on
    how long it lives.
    """

    def __init__(self, inner: Transport, namespace: str) -> None:
        self._inner = inner
        self._where = f"/namespaces/{namespace}/"
        self.writes: collections.Counter[str] = collections.Counter()
        self.numbers: collections.Counter[tuple[str, str]] = collections.Counter()  # by resource and name

    async def call(self, request):
        if request.method != "GET" and self._where in request.path:
            resource = self._resource(request.path)
            if resource != "events":
                self.writes[f"{request.method} {resource}"] += 1
            if request.method == "PATCH" and resource in {"jobs", "podgroups"}:
                status = json.loads(request.body).get("status", {})
                if "state" not in status and "phase" not in status:
                    self.numbers[resource, self._name(request.path, resource)] += 1
        return await self._inner.call(request)

    @staticmethod
    def _name(path: str, resource: str) -> str:
        return path.partition(f"/{resource}/")[2].partition("/")[0]

    @staticmethod
    def _resource(path: str) -> str:
        """`pods` of /api/v1/namespaces/n/pods/p, but `binding` of .../pods/p/binding."""
        parts = path.strip("/").split("/")
        if parts[-1] in {"binding", "eviction"}:
            return parts[-1]
        rest = parts[3:] if parts[0] == "apis" else parts[2:]
        return rest[2] if rest[0] == "namespaces" and len(rest) > 2 else rest[0]

    async def close(self) -> None:
        await self._inner.close()


@dataclasses.dataclass
class JobWorld:
    client: Client
    namespace: str
    informers: Informers
    controllers: Controllers
    counted: Counting
    patience_s: float = PATIENCE_S

    # ------------------------------------------------------------------------------------------------- making

    async def submit(self, name="train", *, workers=WORKERS - 1, gpus=1, run="", tasks=None, **spec) -> Json:
        """The README's Job: a master and its workers under the pytorch plugin; they run for `run`, or for ever."""
        made = tasks or [self.task("master", 1, gpus=gpus, run=run), self.task("worker", workers, gpus=gpus, run=run)]
        total = sum(task.get("minAvailable", task["replicas"]) for task in made)
        fixed = {
            "minAvailable": total,
            "schedulerName": "volcano",
            "queue": "default",
            "plugins": {"pytorch": []},
            "tasks": made,
        }
        body = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {**fixed, **spec},
        }
        return (await self.client.create(Job, body, namespace=self.namespace)).json()

    def task(self, name, replicas, *, gpus=1, run="", **more) -> Json:
        container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
        spec = {
            "restartPolicy": "Never",
            "nodeSelector": {"test": self.namespace},
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        annotations = {names.PRETEND_RUN: run} if run else {}
        return {
            "name": name,
            "replicas": replicas,
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
            **more,
        }

    async def command(self, action, name="train") -> None:
        target = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": name,
            "uid": (await self.job(name))["metadata"]["uid"],
        }
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": "test-"},
            "action": action,
            "target": target,
        }
        await self.client.create(Command, body, namespace=self.namespace)

    async def evict(self, pod) -> None:
        await self.client.evict(pod, namespace=self.namespace)

    async def end(self, *pods, code=0) -> None:
        for pod in pods:
            body = {"metadata": {"annotations": {names.PRETEND_RUN: "0s", names.PRETEND_EXIT_CODE: str(code)}}}
            await self.client.patch(Pod, pod, body, namespace=self.namespace)

    async def scale(self, name="train", **replicas) -> None:
        tasks = (await self.job(name))["spec"]["tasks"]
        for task in tasks:
            task["replicas"] = replicas.get(task["name"], task["replicas"])
            task["minAvailable"] = min(task.get("minAvailable", task["replicas"]), task["replicas"])
        await self.client.patch(Job, name, {"spec": {"tasks": tasks}}, namespace=self.namespace)

    # ------------------------------------------------------------------------------------------------- looking

    async def job(self, name="train") -> Json:
        return (await self.client.get(Job, name, namespace=self.namespace)).json()

    async def all(self, struct) -> list[Json]:
        return list(await self.client.list_json(kinds.by_struct(struct), namespace=self.namespace))

    async def pods(self) -> dict[str, Json]:
        return {pod["metadata"]["name"]: pod for pod in await self.all(Pod)}

    async def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in (await self.pods()).items()}

    async def until(self, look, what, *more):
        """What `look` finds as soon as it finds something; it looks at Jobs, pods, groups, Commands and at `more` kinds."""
        changed = asyncio.Event()
        watched = (Job, Pod, PodGroup, Command, *more)
        leave = [self.informers.of(struct).subscribe(lambda _: changed.set()) for struct in watched]
        try:
            async with asyncio.timeout(self.patience_s):
                while True:
                    changed.clear()
                    if found := await look():
                        return found
                    await changed.wait()
        except TimeoutError:
            raise AssertionError(f"{what} did not come about; {await self._account()}") from None
        finally:
            for each in leave:
                each()

    async def _account(self) -> str:
        jobs = [job.get("status") for job in await self.all(Job)]
        pods = {name: pod["status"].get("phase") for name, pod in (await self.pods()).items()}
        groups = [(group["metadata"]["name"], group.get("status")) for group in await self.all(PodGroup)]
        return json.dumps({"jobs": jobs, "pods": pods, "groups": groups})

    async def phase(self, *phases, name="train", **status) -> Json:
        """The Job once it is in one of the phases, with these numbers in its status."""

        async def look():
            job = await self.job(name)
            found = job.get("status", {})
            is_there = found.get("state", {}).get("phase") in phases
            return job if is_there and all(found.get(key, 0) == value for key, value in status.items()) else None

        return await self.until(look, f"phase {phases} with {status}")

    async def group(self, name="train") -> Json:
        uid = (await self.job(name))["metadata"]["uid"]
        return (await self.client.get(PodGroup, f"{name}-{uid}", namespace=self.namespace)).json()


@contextlib.asynccontextmanager
async def job_world(transport, other, namespace, *, nodes=2, gpus=8, controls=True):
    """A place over two transports to one server: one for us, whose writes are counted, and one for nodes and the test.

    Without `controls`, the controllers are somebody else's business.
    """
    clock, chance = RealClock(), random.Random(1)
    counting = Counting(transport, namespace)
    ours = Client(counting, clock=clock, chance=chance)
    client = Client(other, clock=clock, chance=chance)
    informers = Informers(ours, clock=clock, chance=chance)
    watching = Informers(client, clock=clock, chance=chance)
    policy = builtin.parse(builtin.TEXT, "built-in policy")
    rim = Rim(clock=clock, chance=chance)
    scheduler = Scheduler(ours, informers, lambda: policy, rim, Served())
    controllers = Controllers(ours, informers, rim, ControllerSettings(restore_s=RESTORE_S))
    facts = pretend_nodes(nodes, prefix=f"{namespace}-", gpus=gpus, labels={"test": namespace})
    agent = PretendAgent(client, watching, facts, clock=clock, chance=chance)
    works = [informers.run(), watching.run(), scheduler.run(), agent.run(), *([controllers.run()] if controls else [])]
    tasks = [asyncio.create_task(each) for each in works]
    try:
        async with asyncio.timeout(PATIENCE_S):
            await agent.ready.wait()
        yield JobWorld(client, namespace, watching, controllers, counting)
    finally:
        with contextlib.suppress(errors.KubeError):
            for job in await client.list_json(kinds.by_struct(Job), namespace=namespace):
                await client.delete(Job, job["metadata"]["name"], namespace=namespace)
        for task in reversed(tasks):
            task.cancel()
        await asyncio.wait(tasks)
        for pod in await client.list_json(kinds.by_struct(Pod), namespace=namespace):
            with contextlib.suppress(errors.NotFound):
                await client.delete(Pod, pod["metadata"]["name"], namespace=namespace, grace_s=0)
        for fact in facts:
            with contextlib.suppress(errors.NotFound):
                await client.delete(Node, fact.name)
        for task in tasks:
            if not task.cancelled():
                task.result()


def phases_of(job) -> list[str]:
    return [condition["status"] for condition in job["status"]["conditions"]]


# ------------------------------------------------------------------------------------------------------------- bodies


async def an_eight_worker_pytorch_job_goes_from_pending_over_running_to_completed(world):
    await world.submit()
    job = await world.phase("Running", running=WORKERS)
    group = await world.group()
    assert group["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert group["spec"]["minMember"] == WORKERS
    assert group["spec"]["minTaskMember"] == {"master": 1, "worker": WORKERS - 1}
    assert group["spec"]["minResources"]["nvidia.com/gpu"] == str(WORKERS)  # though the templates set only limits
    pods = await world.pods()
    assert len(pods) == WORKERS
    env = {each["name"]: each.get("value") for each in pods["train-worker-2"]["spec"]["containers"][0]["env"]}
    assert (env["MASTER_ADDR"], env["WORLD_SIZE"], env["RANK"]) == ("train-master-0.train", str(WORKERS), "3")
    assert pods["train-worker-2"]["spec"]["hostname"] == "train-worker-2"
    hosts = (await world.client.get(ConfigMap, "train-svc", namespace=world.namespace)).json()
    assert hosts["data"]["VC_WORKER_NUM"] == str(WORKERS - 1)
    await world.end(*pods)
    job = await world.phase("Completed", succeeded=WORKERS)
    assert phases_of(job) == ["Pending", "Running", "Completed"]
    assert job["status"]["taskStatusCount"]["worker"]["phase"] == {"Succeeded": WORKERS - 1}

    async def all_is_tidy():
        left = [*(await world.all(PodGroup)), *(await world.all(Service))]
        return not left and len(await world.pods()) == WORKERS

    await world.until(all_is_tidy, "the end of everything but finished pods")


async def a_gang_costs_its_controller_one_write_a_pod_and_five_for_itself(world):
    """Of the budget of 2 a pod and 8 a gang; the scheduler has the rest: one bind a pod, and the phases of the group."""
    await world.submit(plugins={})
    await world.phase("Running", running=WORKERS)
    await world.end(*await world.pods())
    await world.phase("Completed")

    async def the_group_is_gone():
        return not await world.all(PodGroup)

    await world.until(the_group_is_gone, "the end of the group")
    ours = {"create PodGroup": 1, "create Pod": WORKERS, "patch Job": 3, "delete PodGroup": 1}
    assert {
        what: count for what, count in world.controllers.carrier.writes.items() if not what.endswith("Queue")
    } == ours
    assert world.counted.writes["POST binding"] == WORKERS


async def one_evicted_pod_restarts_the_whole_gang_under_restart_job(world):
    await world.submit(policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    await world.phase("Running", running=WORKERS)
    before = await world.uids()
    group = await world.group()
    await world.evict("train-worker-3")
    job = await world.phase("Running", retryCount=1, running=WORKERS)
    after = await world.uids()
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    assert (await world.group())["metadata"]["uid"] != group["metadata"]["uid"]
    assert job["status"]["version"] == 1
    progress = json.loads(job["status"]["controlledResources"][names.PROGRESS])
    (restart,) = progress["restarts"]
    assert restart["action"] == "RestartJob"
    assert "pod train-worker-3 was evicted" in restart["why"]

    async def told():
        events = await world.all(CoreEvent)
        return [each for each in events if each["reason"] == "PodEvicted" and each["involvedObject"]["name"] == "train"]

    found = await world.until(told, "an event on the job", CoreEvent)
    assert "RestartJob: pod train-worker-3 was evicted" in found[0]["message"]
    assert "run time" in found[0]["message"]


async def one_evicted_pod_comes_back_alone_under_restart_pod(world):
    await world.submit(policies=[{"event": "PodEvicted", "action": "RestartPod"}])
    await world.phase("Running", running=WORKERS)
    before = await world.uids()
    group = await world.group()
    await world.evict("train-worker-3")
    await world.phase("Running", retryCount=1, running=WORKERS)
    after = await world.uids()
    assert [name for name in before if after[name] != before[name]] == ["train-worker-3"]
    assert (await world.group())["metadata"]["uid"] == group["metadata"]["uid"]


async def a_job_is_suspended_and_resumed_by_commands_and_keeps_its_retries(world):
    await world.submit(maxRetry=1)
    await world.phase("Running", running=WORKERS)
    for _ in range(2):
        await world.command("AbortJob")
        await world.phase("Aborted")
        assert await world.pods() == {}
        await world.command("ResumeJob")
        job = await world.phase("Running", running=WORKERS)
        assert job["status"].get("retryCount", 0) == 0

    async def commands_are_gone():
        return not await world.all(Command)

    await world.until(commands_are_gone, "the end of the commands")


async def a_job_is_scaled_up_and_down_without_touching_the_rest(world):
    policies = [{"event": "*", "action": "RestartJob"}]
    tasks = [world.task("worker", 2, minAvailable=2)]
    await world.submit(tasks=tasks, plugins={"svc": []}, policies=policies)
    await world.phase("Running", running=2)
    before = await world.uids()
    await world.scale(worker=4)
    await world.phase("Running", running=4)
    await world.scale(worker=2)

    async def two_are_left():
        return len(await world.pods()) == 2

    await world.until(two_are_left, "two pods")
    job = await world.phase("Running", running=2)
    assert await world.uids() == before
    assert job["status"].get("retryCount", 0) == 0


async def a_release_by_the_scheduler_costs_nothing(world):
    await world.submit(
        policies=[{"event": "*", "action": "RestartJob"}], workers=2, gpus=5
    )  # two nodes of 8: three find no room

    async def all_are_there():
        return len(await world.pods()) == 3

    await world.until(all_are_there, "three pods")
    before = await world.uids()
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "GangReleased", "message": "never whole"}
    body = {"status": {"conditions": [condition]}}
    patch = world.client.patch
    await patch(Pod, "train-worker-0", body, namespace=world.namespace, subresource="status", how=PatchType.STRATEGIC)
    await world.client.delete(Pod, "train-worker-0", namespace=world.namespace)

    async def it_is_back():
        uids = await world.uids()
        return uids.get("train-worker-0", before["train-worker-0"]) != before["train-worker-0"]

    await world.until(it_is_back, "a new pod")
    job = await world.job()
    assert (job["status"].get("retryCount", 0), job["status"]["state"]["phase"]) == (0, "Pending")
    assert (await world.uids())["train-master-0"] == before["train-master-0"]


async def a_deleted_job_takes_everything_with_it(world):
    await world.submit(plugins={"mpi": []})
    await world.phase("Running", running=WORKERS)
    assert len(await world.all(Secret)) >= 1
    await world.client.delete(Job, "train", namespace=world.namespace)

    async def nothing_is_left():
        made = [
            *(await world.all(Pod)),
            *(await world.all(PodGroup)),
            *(await world.all(Service)),
            *(await world.all(Secret)),
        ]
        return not made

    await world.until(nothing_is_left, "an empty namespace")


async def a_job_of_the_same_name_follows_one_that_was_deleted(world):
    first = await world.submit()
    await world.phase("Running", running=WORKERS)
    await world.client.delete(Job, "train", namespace=world.namespace)
    second = await world.submit()
    await world.phase("Running", running=WORKERS)
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in (await world.pods()).values()}
    assert owners == {second["metadata"]["uid"]} != {first["metadata"]["uid"]}


async def the_ssh_plugins_keys_survive_a_restart(world):
    await world.submit(plugins={"ssh": []}, policies=[{"event": "PodEvicted", "action": "RestartPod"}], workers=1)
    await world.phase("Running", running=2)
    secret = (await world.client.get(Secret, "train-ssh", namespace=world.namespace)).json()
    assert set(secret["data"]) == {"id_rsa", "id_rsa.pub", "authorized_keys", "config"}
    await world.evict("train-worker-0")
    await world.phase("Running", retryCount=1, running=2)
    again = (await world.client.get(Secret, "train-ssh", namespace=world.namespace)).json()
    assert again["metadata"]["uid"] == secret["metadata"]["uid"]


async def what_somebody_deletes_of_a_jobs_plugins_is_made_again(world):
    await world.submit(plugins={"ssh": [], "svc": []}, workers=1)
    await world.phase("Running", running=2)
    before = await world.uids()
    for kind, name in PLUGIN_OBJECTS:
        await world.client.delete(kind, name, namespace=world.namespace)

    async def all_are_back():
        with contextlib.suppress(errors.NotFound):
            return [await world.client.get(kind, name, namespace=world.namespace) for kind, name in PLUGIN_OBJECTS]

    async def all_were_told():
        events = [each["message"] for each in await world.all(CoreEvent) if each["reason"] == "PluginObjectMissing"]
        return len(events) == len(PLUGIN_OBJECTS) and events

    await world.until(all_are_back, "the plugins' objects", ConfigMap, Service, Secret)
    told = await world.until(all_were_told, "an event for each", CoreEvent)
    assert any("Secret train-ssh was deleted" in message and "new keys" in message for message in told)
    assert await world.uids() == before


async def a_restart_goes_on_when_the_node_of_a_stuck_pod_is_removed(world):
    """The node has lost its power: its pods are told to go, and nobody is there to say that they have."""
    await world.submit(workers=3, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    await world.phase("Running", running=4)
    pods = await world.pods()
    node = pods["train-worker-1"]["spec"]["nodeName"]
    stuck = {name for name, pod in pods.items() if pod["spec"]["nodeName"] == node}
    before = await world.uids()
    await world.client.patch(Node, node, {"metadata": {"annotations": {names.PRETEND_GONE: "true"}}})
    await world.client.patch(Node, node, {"spec": {"unschedulable": True}})
    await world.evict("train-worker-1")

    async def all_must_go():
        found = await world.pods()
        return all(name in found and "deletionTimestamp" in found[name]["metadata"] for name in stuck)

    await world.until(all_must_go, "pods that cannot end")
    await world.phase("Restarting", retryCount=1)
    assert stuck <= {name for name, uid in (await world.uids()).items() if uid == before[name]}
    await world.client.delete(Node, node)
    await world.phase("Running", retryCount=1, running=4)
    assert not set((await world.uids()).values()) & set(before.values())

    async def told():
        events = [each for each in await world.all(CoreEvent) if each["reason"] == "PodGivenUp"]
        return events if len(events) >= len(stuck) else None

    found = await world.until(told, "an event for each pod that was given up", CoreEvent)
    assert all(f"node {node} no longer exists" in each["message"] for each in found)
    assert {each["involvedObject"]["name"] for each in found} == {"train"}


BODIES = [
    an_eight_worker_pytorch_job_goes_from_pending_over_running_to_completed,
    a_gang_costs_its_controller_one_write_a_pod_and_five_for_itself,
    one_evicted_pod_restarts_the_whole_gang_under_restart_job,
    one_evicted_pod_comes_back_alone_under_restart_pod,
    a_job_is_suspended_and_resumed_by_commands_and_keeps_its_retries,
    a_job_is_scaled_up_and_down_without_touching_the_rest,
    a_release_by_the_scheduler_costs_nothing,
    a_deleted_job_takes_everything_with_it,
    a_job_of_the_same_name_follows_one_that_was_deleted,
    the_ssh_plugins_keys_survive_a_restart,
    what_somebody_deletes_of_a_jobs_plugins_is_made_again,
    a_restart_goes_on_when_the_node_of_a_stuck_pod_is_removed,
]
