"""Generated workloads: what was asked for comes out, and the same seed is the same workload."""

import pytest

from pumice.errors import BadInput
from pumice.sim.generator import RUN_S_MAX, RUN_S_MIN, generate


def test_the_same_seed_gives_the_same_workload_and_another_one_another():
    assert generate(50, 64, load=0.8, seed=1) == generate(50, 64, load=0.8, seed=1)
    assert generate(50, 64, load=0.8, seed=1) != generate(50, 64, load=0.8, seed=2)


@pytest.mark.parametrize("load", [0.3, 1.5])
def test_it_asks_for_the_load(load):
    work = generate(4000, 64, load=load, seed=3)
    asked = sum(each.size * each.run_s for each in work) / (64 * work[-1].at_s)
    assert asked == pytest.approx(load, rel=0.1)


def test_no_job_is_larger_than_the_cluster_and_run_times_have_bounds():
    work = generate(500, 4, load=1.0, seed=4)
    assert {each.size for each in work} == {1, 2, 4}
    assert all(RUN_S_MIN <= each.run_s <= RUN_S_MAX for each in work)


def test_a_number_of_jobs_has_bounds():
    with pytest.raises(BadInput, match="--jobs 0"):
        generate(0, 4, load=1.0, seed=1)
