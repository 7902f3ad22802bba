"""Nine of ten forecasts hold, although estimates are wrong and nobody knows what will be submitted; `bench.forecast` plays whole weeks."""

from tests.properties.weeks import holds, told_and_true

from pumice.scheduling.time.forecast import Effort
from pumice.sim.generator import generate
from pumice.sim.policies import NAMED

EFFORT = Effort(runs=1, cycles=40, blur=0.25)
SEEDS = (1, 2, 3)


def test_p90_holds_in_about_nine_of_ten_cases():
    held = []
    for seed in SEEDS:
        work = generate(150, 16, load=0.85, seed=seed)
        pairs, _ = told_and_true(work, "4x4", effort=EFFORT, seed=seed, policy=NAMED["easy"].text)
        held += [holds(*each) for each in pairs]
    assert len(held) > 200
    assert 0.85 <= sum(held) / len(held) <= 0.95
