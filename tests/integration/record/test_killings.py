"""kill -9 of the real scheduler and the real controllers, with a record in SQLite; on PostgreSQL in tests/kube."""

import random

import pytest
from tests.bodies import killings

pytestmark = pytest.mark.timeout(3600)  # processes start and die


async def test_every_gang_is_once_in_the_record_and_usage_is_hardly_off(tmp_path):
    await killings.jobs_survive(
        tmp_path, f"sqlite:///{tmp_path}/record.db", jobs=12, deaths=2, run_s=2, seed=random.randint(0, 10**6)
    )


@pytest.mark.soak
async def test_the_same_over_two_hundred_jobs(tmp_path):
    await killings.jobs_survive(
        tmp_path, f"sqlite:///{tmp_path}/record.db", jobs=200, deaths=10, run_s=10, seed=random.randint(0, 10**6)
    )
