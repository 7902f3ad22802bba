"""Takes Volcano's gate off pods whose queue has a share for them: one write a pod that has asked for the gate."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice.api.pods import Pod
from pumice.kube import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.tasks import Task
    from pumice.kube.client import Client
    from pumice.runtime import Runtime

WRITES_AT_ONCE = 32


class Gates:
    """Belongs to one event loop."""

    def __init__(self, client: Client, runtime: Runtime) -> None:
        self._client = client
        self._log = runtime.log
        self._window = asyncio.Semaphore(WRITES_AT_ONCE)
        self._asked: dict[
            str, str
        ] = {}  # uid -> version of a pod whose gate we have taken off, until the watch shows it
        self.unwritten = False  # something could not be written: ask once more

    async def remove(self, tasks: Sequence[Task]) -> None:
        """The gate goes, unless the pod has changed since it was looked at: the next cycle looks again."""
        self.unwritten = False
        known = {task.uid: task.pod.metadata.resource_version for task in tasks}
        self._asked = {uid: version for uid, version in self._asked.items() if known.get(uid) == version}
        fresh = [task for task in tasks if task.uid not in self._asked]
        self._asked |= {task.uid: known[task.uid] for task in fresh}
        async with asyncio.TaskGroup() as group:
            for task in fresh:
                await self._window.acquire()
                group.create_task(self._remove(task))

    async def _remove(self, task: Task) -> None:
        metadata = {"uid": task.uid, "resourceVersion": task.pod.metadata.resource_version}
        body = {"metadata": metadata, "spec": {"schedulingGates": None}}
        try:
            await self._client.patch(Pod, task.name, body, namespace=task.namespace)
        except errors.NotFound:
            pass
        except errors.KubeError as error:
            self._asked.pop(task.uid, None)
            self.unwritten = True
            self._log("gate_not_removed", pod=task.key, reason=str(error))
        finally:
            self._window.release()
