"""Wedges on the real API server; the same bodies run on the embedded one."""

import pytest
from tests.bodies import wedges
from tests.bodies.wedges import *  # noqa: F403
from tests.kube.test_scheduler import world  # noqa: F401


@pytest.fixture
def policy():
    return wedges.POLICY
