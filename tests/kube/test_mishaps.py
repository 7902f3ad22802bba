"""Mishaps on the real API server; the same bodies run on the embedded one."""

import asyncio
import contextlib
import itertools

import pytest
from tests.bodies import mishaps
from tests.bodies.mishaps import *  # noqa: F403

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport

_numbers = itertools.count()


@pytest.fixture
async def place(empty_plane):
    namespace = f"mishap-{next(_numbers)}"
    await asyncio.to_thread(empty_plane.create_namespace, namespace)
    connection = config.find(str(empty_plane.kubeconfig), clock=RealClock())
    async with contextlib.AsyncExitStack() as stack:

        def connect():
            transport = HttpTransport(connection, user_agent="pumice-test")
            stack.push_async_callback(transport.close)
            return transport

        yield mishaps.Place(connect, namespace)
