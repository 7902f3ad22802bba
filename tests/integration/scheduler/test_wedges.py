"""Wedges on the embedded server; the same bodies run on the real one."""

import pytest
from tests.bodies import wedges
from tests.bodies.scheduler import test_of_two_gangs_of_64_on_100_slots_one_runs_and_the_other_follows  # noqa: F401
from tests.bodies.wedges import *  # noqa: F403


@pytest.fixture
def policy():
    return wedges.POLICY
