"""A server in this process whose clock stands still and whose chance is seeded."""

import random

import pytest
from tests.unit.local.apiserver.words import Api

from pumice import instant
from pumice.local.apiserver.server import Server, Settings

START = instant.parse_instant("2026-01-02T03:04:05Z")


@pytest.fixture
def clock():
    """A clock that stands still until it is moved."""

    class NodeCache:
        now = START

        def __call__(self):
            return self.now

        def advance(self, seconds):
            self.now += int(seconds * instant.SECOND)

    return NodeCache()


@pytest.fixture
def server(clock):
    return Server(Settings(now=clock, chance=random.Random(7)))


@pytest.fixture
def api(server):
    return Api(server)
