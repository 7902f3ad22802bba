"""Every input that comes from outside, fed with what nobody meant: a short round with each run of the tests, a long one with `make soak`."""

import random

import pytest
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS

INPUTS = 300
INPUTS_SOAK = 100_000


def feed(name, inputs, seed):
    target, chance = TARGETS[name], random.Random(f"{name}/{seed}")
    for number in range(inputs):
        data = mutated(chance.choice(target.seeds), chance)
        try:
            target.feed(data)
        except target.may_raise:
            continue
        except Exception as error:
            raise AssertionError(f"{name}, seed {seed}, input {number}: {data!r}") from error


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes_in_is_understood_or_refused_with_an_error_that_is_documented(name):
    feed(name, INPUTS, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("name", TARGETS)
def test_the_same_for_long(name):
    feed(name, INPUTS_SOAK, seed=random.SystemRandom().randrange(2**32))
