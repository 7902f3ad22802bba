"""A place for Jobs, on the embedded server or on the real one: a client, a namespace, and everything that makes Jobs run.

It has the scheduler and the controllers over one client whose writes are counted, and pretend nodes over another.
Who waits looks whenever a watch says that something changed; nothing here sleeps.
"""

import asyncio
import collections
import contextlib
import dataclasses
import json
import random
from typing import Any

from tests.bodies.patience import PATIENCE_S

from pumice.api import kinds, names
from pumice.api.batch import Job
from pumice.api.bus import Command
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.clock import RealClock
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.kube.transport import Transport
from pumice.local.nodes.pretend import PretendAgent, pretend_nodes
from pumice.processes.controller_settings import ControllerSettings
from pumice.processes.controllers import Controllers
from pumice.processes.scheduler import Scheduler, Served
from pumice.runtime import Runtime
from pumice.scheduling.core import builtin
from pumice.scheduling.core.cycle import GRACE_SECONDS

RESTORE_S = 0.5  # how often plugins' objects are looked for: nobody here wants to wait
WORKERS = 8

Json = dict[str, Any]


class Counting:
    """A transport that counts the writes of one namespace, by verb and resource, events not among them.

    A bind that is refused because its pod has changed since it was decided (409) writes nothing, and is not counted.

    Writes of a Job's or a group's status that change no phase are counted for each object, too: how often these come depends on
    how long it lives.
    """

    def __init__(self, inner: Transport, namespace: str) -> None:
        self._inner = inner
        self._where = f"/namespaces/{namespace}/"
        self.writes: collections.Counter[str] = collections.Counter()
        self.numbers: collections.Counter[tuple[str, str]] = collections.Counter()  # by resource and name
        self.told: collections.Counter[str] = collections.Counter()  # writes of pods' statuses, by pod

    async def call(self, request):
        answer = await self._inner.call(request)
        if request.method != "GET" and self._where in request.path and answer.status != 409:
            resource = self._resource(request.path)
            if resource != "events":
                self.writes[f"{request.method} {resource}"] += 1
            if resource == "pods" and request.path.endswith("/status"):
                self.told[self._name(request.path, resource)] += 1
            if request.method == "PATCH" and resource in {"jobs", "podgroups"}:
                status = json.loads(request.body).get("status", {})
                if "state" not in status and "phase" not in status:
                    self.numbers[resource, self._name(request.path, resource)] += 1
        return answer

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

    async def submit(
        self, name="train", *, workers=WORKERS - 1, gpus=1, run="", tasks=None, annotations=None, **spec
    ) -> Json:
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
            "metadata": {"name": name, "annotations": annotations or {}},
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
            async with asyncio.timeout(self.patience_s) as patience:
                while True:
                    changed.clear()
                    if found := await look():
                        return found
                    await changed.wait()
                    patience.reschedule(asyncio.get_running_loop().time() + self.patience_s)
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
async def job_world(
    transport, other, namespace, *, nodes=2, gpus=8, controls=True, policy=builtin.TEXT, grace_s=GRACE_SECONDS
):
    """A place over two transports to one server: one for us, whose writes are counted, and one for nodes and the test.

    Without `controls`, the controllers are somebody else's business. After `grace_s` the scheduler gives a gang up that it has bound in part.
    """
    clock, chance = RealClock(), random.Random(1)
    counting = Counting(transport, namespace)
    ours = Client(counting, clock=clock, chance=chance)
    client = Client(other, clock=clock, chance=chance)
    informers = Informers(ours, clock=clock, chance=chance)
    watching = Informers(client, clock=clock, chance=chance)
    chosen = builtin.parse(policy, "test")
    runtime = Runtime(clock=clock, chance=chance)
    scheduler = Scheduler(ours, informers, lambda: chosen, runtime, Served(grace_s=grace_s))
    controllers = Controllers(ours, informers, runtime, ControllerSettings(restore_s=RESTORE_S))
    facts = pretend_nodes(nodes, prefix=f"{namespace}-", gpus=gpus, labels={"test": namespace})
    agent = PretendAgent(client, watching, facts, Runtime(clock=clock, chance=chance))
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
