"""How a process lives: work until told to stop, then end the work first and what it stands on after it."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence


def identity() -> str:
    """Who we are in a lease: no two processes are the same, whatever host and number they have."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


def address(listen: str, port: int) -> str:
    """Where a process can be asked: through the API server if it is a pod that says so, else by whoever is on its machine."""
    namespace, pod = os.environ.get("KUBE_POD_NAMESPACE", ""), os.environ.get("KUBE_POD_NAME", "")
    if namespace and pod:
        return f"pods/{namespace}/{pod}:{port}"
    host = listen.rpartition(":")[0]
    return f"http://{host if host not in {'', '0.0.0.0', '[::]'} else '127.0.0.1'}:{port}"  # noqa: S104  compared


async def until_stopped(work: Coroutine[Any, Any, None], beside: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run `work` with everything `beside` it until SIGTERM or SIGINT; an error of any of them ends all and is raised."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    standing = [asyncio.create_task(each) for each in beside]
    working = asyncio.create_task(work)
    stopping: asyncio.Task[Any] = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping, *standing}, return_when=asyncio.FIRST_COMPLETED)
        for task in (working, *standing):
            if task.done():
                task.result()
    finally:
        await _end([working])  # it may still need the rest: to release a lease, to finish a write
        await _end([*standing, stopping])


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
