"""Mishaps on the embedded server; the same bodies run on the real one."""

import pytest
from tests.bodies import mishaps
from tests.bodies.mishaps import *  # noqa: F403

from pumice.api.core import Namespace


@pytest.fixture
async def place(client):
    await client.create(Namespace, {"metadata": {"name": "team"}})
    return mishaps.Place(lambda: client._transport, "team")
