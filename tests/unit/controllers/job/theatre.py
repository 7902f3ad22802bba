"""Jobs on a stage: the embedded server, the Job controller, nodes that play pods, and a scheduler that says yes.

The scheduler here is a stand-in, because the real one plans in a thread and threads have no place under virtual time: it admits every
group, binds every pod and says that the gang runs. tests/bodies/jobs.py has the real one.
"""

import asyncio
import random

from tests.unit.controllers.stage import Stage

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.bus import Command
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.controllers.job import loop
from pumice.kube import errors
from pumice.kube.informer import Informers
from pumice.local.nodes.pretend import PretendAgent, pretend_nodes
from pumice.runtime import Runtime

NODE = "node-0"


class Theatre(Stage):
    def __init__(self, *others):
        super().__init__(loop.controller, *others, kinds=(Job, Command, PodGroup, Queue))

    async def _run(self, body):
        async def played(stage):
            chance = random.Random(0)
            informers = Informers(self.client, clock=self.clock, chance=chance)
            self.agent = agent = PretendAgent(
                self.client, informers, pretend_nodes(1), Runtime(clock=self.clock, chance=chance)
            )
            crew = [asyncio.create_task(each) for each in (informers.run(), agent.run(), self._schedule(informers))]
            await agent.ready.wait()
            await self.make(Queue, "default", spec={"weight": 1})
            try:
                return await body(stage)
            finally:
                for task in crew:
                    task.cancel()
                await asyncio.wait(crew)

        return await super()._run(played)

    async def _schedule(self, informers):
        changed = asyncio.Event()
        for struct in (Pod, PodGroup):
            informers.of(struct).subscribe(lambda _: changed.set())
        while True:
            await changed.wait()
            changed.clear()
            for pod in list(informers.of(Pod).objects.values()):
                if not pod.spec.node_name and pod.metadata.deletion_timestamp is None:
                    await self._try(
                        self.client.bind(pod.metadata.name, namespace="team", uid=pod.metadata.uid, node=NODE)
                    )
            for group in list(informers.of(PodGroup).objects.values()):
                bound = sum(
                    pod.metadata.annotations.get(names.GROUP_NAME) == group.metadata.name and bool(pod.spec.node_name)
                    for pod in informers.of(Pod).objects.values()
                )
                phase = "Running" if bound >= group.spec.min_member else "Inqueue"
                if group.status.phase != phase and not (phase == "Inqueue" and group.status.phase == "Running"):
                    body = {"metadata": {"uid": group.metadata.uid}, "status": {"phase": phase}}
                    await self._try(self.client.patch(PodGroup, group.metadata.name, body, namespace="team"))

    async def _try(self, call):
        try:
            await call
        except errors.StatusError:
            await self.clock.sleep(0.01)

    # ------------------------------------------------------------------------------------------------- words

    async def submit(self, *tasks, name="train", run="", metadata=None, **spec):
        """A Job; tasks as (name, replicas); pods run for `run`, or for ever."""
        annotations = {names.PRETEND_RUN: run} if run else {}
        template = {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train"}]},
        }
        made = [{"name": task, "replicas": replicas, "template": template} for task, replicas in tasks]
        total = sum(replicas for _, replicas in tasks)
        fixed = {"minAvailable": total, "queue": "default", "schedulerName": "volcano", "tasks": made}
        return await self.make(Job, name, metadata=metadata, spec={**fixed, **spec})

    async def job(self, name="train"):
        return await self.get(Job, name)

    async def phase(self, name="train"):
        return (await self.job(name))["status"]["state"]["phase"]

    async def command(self, action, name="train"):
        target = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": name,
            "uid": (await self.job(name))["metadata"]["uid"],
        }
        await self.make(Command, f"{name}-{action.lower()}", action=action, target=target)

    async def pods(self):
        """Name -> (phase, uid)."""
        return {
            each["metadata"]["name"]: (each["status"]["phase"], each["metadata"]["uid"]) for each in await self.all(Pod)
        }

    async def end(self, *pods, code=0):
        """Pods end now, well or with an exit code."""
        for name in pods:
            annotations = {names.PRETEND_RUN: "0s", names.PRETEND_EXIT_CODE: str(code)}
            await self.patch(Pod, name, {"metadata": {"annotations": annotations}})
