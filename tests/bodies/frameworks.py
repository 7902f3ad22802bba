"""What the guide to frameworks shows, for tests that run it: its manifests and programs, and places to run them."""

import contextlib
import random
import re
from pathlib import Path

from tests.bodies.beside import beside
from tests.bodies.jobs import JobWorld

from pumice import yamltext
from pumice.api import kinds
from pumice.clock import RealClock
from pumice.kube.informer import Informers
from pumice.local.apiserver.serving import Place
from pumice.local.nodes.pretend import pretend_nodes
from pumice.local.up import Up
from pumice.runtime import silent

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "frameworks.md"
_FENCED = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def shown(title):
    """The text of the guide's file of this title."""
    return dict(_FENCED.findall(GUIDE.read_text()))[title]


def titles():
    return [title for title, _ in _FENCED.findall(GUIDE.read_text())]


def manifests(title):
    return yamltext.load_all(shown(title), source=title)


def job_of(objects):
    (job,) = [each for each in objects if each["kind"] == "Job"]
    return job


def only_container(job, task):
    """The container of a task of a Job's manifest, to be changed for a test."""
    (template,) = [each["template"] for each in job["spec"]["tasks"] if each["name"] == task]
    (container,) = template["spec"]["containers"]
    return container


async def submit(world, objects):
    """Creates them, what the Job needs before the Job."""
    for each in sorted(objects, key=lambda each: each["kind"] == "Job"):
        struct = kinds.by_kind(each["apiVersion"], each["kind"]).struct
        await world.client.create(struct, each, namespace=world.namespace)


async def over(world, name):
    """The Job once it has ended, however."""
    return await world.phase("Completed", "Failed", "Aborted", "Terminated", name=name)


async def gone(world, *structs):
    """Returns once nothing of these kinds is left."""

    async def look():
        return not [each for struct in structs for each in await world.all(struct)]

    await world.until(look, f"the end of all {[struct.__name__ for struct in structs]}", *structs)


@contextlib.asynccontextmanager
async def a_cluster(folder, *, nodes=4, gpus=8):
    """`pumice up`, with its admission rules: the cluster, and a world over it."""
    async with Up(Place(folder), pretend_nodes(nodes, gpus=gpus), log=silent) as up:
        watching = Informers(up.client, clock=RealClock(), chance=random.Random(0))
        async with beside(watching.run()):
            yield up, JobWorld(up.client, "default", watching, up.controllers, None)
