"""What the bodies of process nodes are made of: agents, programs for their pods, and a gate at which programs wait.

Programs in pods are small Python scripts. Where a test must hold one at a certain point it gives it a gate: the program
connects to the test and waits there, so nobody has to guess how long anything takes. A connection that breaks also shows
that whoever held it is dead.
"""

import asyncio
import contextlib
import random
import sys
import textwrap
from pathlib import Path

import pytest
from tests.bodies.patience import PATIENCE_S
from tests.bodies.world import World

from pumice.local.nodes.process import launch
from pumice.local.nodes.process.agent import ProcessAgent
from pumice.local.nodes.process.leftovers import Leftovers
from pumice.local.nodes.process.machine import ProcessSettings
from pumice.runtime import Runtime

PRELUDE = """
import os, pathlib, signal, socket, sys, time
def gate(word):
    host, port = os.environ["GATE"].split(":")
    held = socket.create_connection((host, int(port)))
    held.sendall(word.encode() + b"\\n")
    return held
def wait(word):
    gate(word).recv(1)
"""


class Gate:
    """Where programs report and wait; arrivals are known by the word that they say."""

    def __init__(self) -> None:
        self.address = ""
        self._arrived: dict[str, asyncio.Future] = {}
        self._writers: list[asyncio.StreamWriter] = []

    def _future(self, word):
        return self._arrived.setdefault(word, asyncio.get_running_loop().create_future())

    async def _meet(self, reader, writer):
        self._writers.append(writer)
        word = (await reader.readline()).decode().strip()
        if word:
            self._future(word).set_result((reader, writer))

    async def arrival(self, word):
        """Returns once somebody stands at the gate with this word."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._future(word)

    async def open(self, word):
        """Lets the one go who says this word, now or later."""
        _, writer = await self.arrival(word)
        writer.write(b"!")
        await writer.drain()

    async def broken(self, word):
        """Returns once the one who said this word is dead."""
        reader, _ = await self.arrival(word)
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""


@contextlib.asynccontextmanager
async def a_gate():
    gate = Gate()
    server = await asyncio.start_server(gate._meet, "127.0.0.1", 0)
    gate.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield gate
    finally:
        server.close()
        for writer in gate._writers:  # also of those who came twice, or died before they said a word
            writer.transport.abort()


def require_namespaces(folder: Path) -> None:
    """Skips what cannot be on a machine that allows no namespaces, such as a plain container."""
    try:
        asyncio.run(launch.probe(folder, Leftovers(folder / "running")))
    except launch.StartFailed as error:
        pytest.skip(str(error))


def an_agent(world: World, folder: Path, name: str, **settings) -> ProcessAgent:
    made = ProcessSettings(
        name=name,
        folder=folder / name,
        authority=world.authority,
        server=world.server,
        **({"back_off_s_first": 0.05, "shutdown_grace_s": 1.0} | settings),
    )
    return ProcessAgent(world.client, world.informers, made, Runtime(clock=world.clock, chance=random.Random(0)))


def python(program: str, *args: str, gate: Gate | None = None, env=(), **container):
    """A container that runs a Python program."""
    given = [{"name": "GATE", "value": gate.address}] if gate else []
    command = [sys.executable, "-u", "-c", PRELUDE + textwrap.dedent(program), *args]
    return {"command": command, "env": [*given, *env], "name": "main", "image": "none"} | container


async def log(world, pod, container="main", **options):
    return (await world.client.log(pod, namespace=world.namespace, container=container, **options)).decode()


def ended(status, name="main"):
    containers = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
    return next(each["state"]["terminated"] for each in containers if each["name"] == name)
