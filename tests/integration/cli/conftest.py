"""A whole embedded cluster behind its kubeconfig, and the command line as a user has it."""

import asyncio
import contextlib
import dataclasses
import threading

import pytest
from tests.bodies.patience import PATIENCE_S

from pumice.api.batch import Job
from pumice.api.kinds import by_struct
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.cli import fetching, main
from pumice.cli.results import Query
from pumice.clock import RealClock
from pumice.errors import NotFound
from pumice.local.apiserver.serving import Place
from pumice.local.nodes.pretend import pretend_nodes
from pumice.local.up import Up
from pumice.runtime import silent


@dataclasses.dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()


class Background:
    """An event loop in a thread of its own, for what has to live while the command line runs in this one."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    def end(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture(scope="module")
def background():
    made = Background()
    yield made
    made.end()


@pytest.fixture(scope="module")
def cluster(background, tmp_path_factory):
    """Two nodes of 8 GPUs, with scheduler and controllers."""
    folder = tmp_path_factory.mktemp("cluster")

    async def start():
        return await stack.enter_async_context(Up(Place(folder), pretend_nodes(2, gpus=8), log=silent))

    stack = contextlib.AsyncExitStack()
    yield background.run(start())
    background.run(stack.aclose())


@pytest.fixture
def emptied(cluster, background):
    """After the test, its Jobs, groups and pods are gone, so that the next one finds empty nodes."""
    yield

    async def empty():
        client = cluster.client
        for kind in (Job, PodGroup):
            for each in (await client.list(kind)).items:
                with contextlib.suppress(NotFound):
                    await client.delete(kind, each.metadata.name, namespace=each.metadata.namespace)
        async with asyncio.timeout(PATIENCE_S):
            while (await client.list(Pod)).items or (await client.list(PodGroup)).items:
                await RealClock().sleep(0.02)

    background.run(empty())


@pytest.fixture
def pumice(cluster, emptied, monkeypatch, capsys):
    """Runs the command line and gives back its exit code and what it wrote."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))

    def run(*arguments):
        capsys.readouterr()
        code = main.run(list(arguments))
        written = capsys.readouterr()
        return Result(int(code), written.out, written.err)

    return run


@pytest.fixture
def client(cluster, background):
    """Calls the cluster's own client from this thread: `client("get", Job, "name", namespace=...)`."""
    return lambda verb, *args, **options: background.run(getattr(cluster.client, verb)(*args, **options))


@pytest.fixture
def until(cluster, background):
    """Waits for objects of a kind to be as wanted, woken by their changes: `until(Job, lambda job: ..., name="train")`."""

    def wait(struct, wanted, *, name="", namespace="default"):
        def is_it(each):
            return name in {"", each["metadata"]["name"]}  # which need not be there yet

        query = Query(kind=by_struct(struct), columns=(), keep=is_it, namespace=namespace)

        async def watch():
            async with asyncio.timeout(PATIENCE_S):
                async for objects in fetching.follow(query, cluster.client):
                    for each in objects:
                        if wanted(each):
                            return each
            raise AssertionError("a watch has no end")

        return background.run(watch())

    return wait
