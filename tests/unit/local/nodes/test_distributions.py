import random
import statistics

import pytest

from pumice.errors import BadInput
from pumice.local.nodes import distributions


def drawn(text, count=4_001, seed=7):
    chance, distribution = random.Random(seed), distributions.parse(text)
    return [distribution(chance) for _ in range(count)]


def test_a_plain_duration_is_always_the_same():
    assert set(drawn("1m30s", 5)) == {90.0}


def test_uniform_stays_between_its_bounds_and_reaches_for_both():
    values = drawn("uniform:10s,60s")
    assert 10 <= min(values) < 11
    assert 59 < max(values) <= 60


def test_exponential_has_its_mean():
    assert statistics.mean(drawn("exponential:60s")) == pytest.approx(60, rel=0.05)


def test_lognormal_has_its_median_and_a_long_tail():
    values = drawn("lognormal:60s,1.5")
    assert statistics.median(values) == pytest.approx(60, rel=0.1)
    assert statistics.mean(values) > 120


def test_the_same_seed_draws_the_same_times():
    assert drawn("exponential:60s", seed=1) == drawn("exponential:60s", seed=1) != drawn("exponential:60s", seed=2)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gaussian:1s", "'gaussian:1s' is not known; write 90s, uniform"),
        ("uniform:60s,10s", "is not known"),
        ("uniform:60s", "is not known"),
        ("lognormal:60s,wide", "'wide' is no number"),
        ("lognormal:60s,-1", "a spread of -1 is not between 0 and 100"),
        ("-5s", "'-5s' is negative"),
        ("soon", "duration 'soon'"),
    ],
)
def test_a_text_that_is_no_distribution_is_refused_with_those_that_are(text, problem):
    with pytest.raises(BadInput, match=problem):
        distributions.parse(text)
