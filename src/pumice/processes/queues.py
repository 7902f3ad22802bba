"""Queues that exist from the start: made where they are missing, and left alone afterwards.

The root and the default queue are needed before the first cycle; an operator's own are made beside the work.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice import files, yamltext
from pumice.api.kinds import type_meta
from pumice.api.meta import ObjectReference
from pumice.api.scheduling import ROOT_QUEUE, Queue
from pumice.errors import BadInput
from pumice.kube import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.meta import Json
    from pumice.clock import Clock
    from pumice.cluster.state import Cluster
    from pumice.kube.client import Client
    from pumice.runtime import Log


QUEUES_MAX = 1_000  # of one file
QUEUES_BYTES_MAX = 2**22  # of that file
PAUSE_S = 5.0  # between two tries
SOON_S = 1.0  # the same, where nothing can begin before
_META = type_meta(Queue)
# Events about everything are told of the root.
ROOT = ObjectReference(kind="Queue", name=ROOT_QUEUE, api_version=_META["apiVersion"])


def read_queues(name: str) -> Mapping[str, Json]:
    """The queues of a file, by name: `team-a: {weight: 2}`; BadInput where it holds something else."""
    try:
        documents = [
            each for each in yamltext.load_all(files.read(name, QUEUES_BYTES_MAX), source=name) if each is not None
        ]
    except OSError as error:
        raise BadInput(f"queues {name}: cannot be read: {error.strerror}; check the name and your rights") from error
    found = documents[0] if documents else {}
    if len(documents) > 1 or not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise BadInput(f"queues {name}: expected one table of names and specs, such as `team-a: {{weight: 2}}`")
    if len(found) > QUEUES_MAX:
        raise BadInput(f"queues {name}: {len(found)} queues, at most {QUEUES_MAX}; make the rest with kubectl")
    return found


async def make_own(client: Client, cluster: Cluster, *, clock: Clock, log: Log) -> None:
    """The root and the default queue exist, whichever scheduler was here before, however long the server takes."""
    wanted = {ROOT_QUEUE: False, cluster.default_queue: True}
    for name, reclaimable in wanted.items():
        spec: Json = {"weight": 1, "reclaimable": reclaimable}
        while name not in cluster.queues and not await _make(client, name, spec, log):
            await clock.sleep(SOON_S)


async def make_queues(client: Client, wanted: Mapping[str, Json], *, clock: Clock, log: Log) -> None:
    """Makes all of them, and stays until cancelled.

    A refusal is tried again: webhooks may be starting, and a parent may come after its child. Every replica may do this.
    """
    missing = dict(wanted)
    while missing:
        for name in list(missing):
            if await _make(client, name, missing[name], log):
                del missing[name]
        if missing:
            await clock.sleep(PAUSE_S)
    await asyncio.Event().wait()


async def _make(client: Client, name: str, spec: Json, log: Log) -> bool:
    body = {**_META, "metadata": {"name": name}, "spec": spec}
    try:
        await client.create(Queue, body)
    except errors.AlreadyExists:
        return True
    except errors.KubeError as error:
        log("queue_not_made", queue=name, error=str(error))
        return False
    log("queue_made", queue=name)
    return True
