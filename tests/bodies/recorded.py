"""Helpers for a whole embedded cluster that keeps a record."""

import asyncio
import contextlib

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.changes import Upserted
from pumice.local.apiserver.serving import Place
from pumice.local.nodes.pretend import pretend_nodes
from pumice.local.up import Up
from pumice.processes.controller_settings import ControllerSettings
from pumice.record.settings import RecordSettings
from pumice.runtime import silent

WAIT_S_MAX = 100


def a_job(name, *, pods=2, gpus=1, run="1s", **metadata):
    resources = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": str(gpus)}}
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "resources": resources}]}
    template = {"metadata": {"annotations": {names.PRETEND_RUN: run}}, "spec": spec}
    tasks = [{"name": "w", "replicas": pods, "template": template}]
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"minAvailable": pods, "schedulerName": "volcano", "tasks": tasks},
    }


@contextlib.asynccontextmanager
async def cluster(folder, url, **settings):
    record = RecordSettings(url, **settings)
    prices = {"nvidia.com/gpu": 2.0}
    made = Up(
        Place(folder), pretend_nodes(2, gpus=8), log=silent, settings=ControllerSettings(record=record, prices=prices)
    )
    async with made as up:
        yield up


async def until_completed(up, *wanted, phase="Completed"):
    """Returns when all Jobs of these names have reached a phase."""
    left, done = set(wanted), asyncio.Event()

    def see(news):
        for change in news:
            if isinstance(change, Upserted) and change.object.status.state.phase == phase:
                left.discard(change.object.metadata.name)
        if not left:
            done.set()

    leave = up._informers.of(Job).subscribe(see)
    async with asyncio.timeout(WAIT_S_MAX):
        await done.wait()
    leave()
