"""Every input that comes from outside, fed with what nobody meant: a short round with each run of the tests, a long one with `make soak`."""

import os
import random
import subprocess
import sys

import pytest
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS

INPUTS = 300
INPUTS_SOAK = 100_000
GUIDED_S = 60  # of each input under atheris


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


@pytest.mark.soak
@pytest.mark.parametrize("name", TARGETS)
def test_the_same_guided_by_coverage(name, tmp_path):
    """Where the extra `fuzz` is installed; what it finds is in the folder of the test."""
    pytest.importorskip("atheris")
    command = [sys.executable, "-m", "tests.fuzz", name, f"-max_total_time={GUIDED_S}", f"-artifact_prefix={tmp_path}/found-"]  # fmt: skip
    found = subprocess.run(
        command, check=False, capture_output=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert found.returncode == 0, found.stderr.decode(errors="replace")[-3000:]
