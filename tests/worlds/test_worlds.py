"""Worlds: whatever befalls the shipped processes, nothing goes wrong that must not, and everything comes to rest (docs/reliability.md)."""

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.worlds.volume import BLOCK, FOUND, PROFILES, SEEDS, SOAK_SEEDS, TURNS, TURNS_S

from pumice.sim.worlds import draw, play, profiles, world
from pumice.sim.worlds.__main__ import POINTS, line
from pumice.sim.worlds.mishaps import MISHAPS
from pumice.sim.worlds.network import CALM

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_nothing_goes_wrong(profile, seed):
    assert play(draw(seed, profile)).wrong == (), f"repeat it with: {line(profile, seed)}"


@pytest.mark.parametrize(("profile", "seed"), FOUND)
def test_what_once_went_wrong_does_not_again(profile, seed):
    assert play(draw(seed, profile)).wrong == (), f"repeat it with: {line(profile, seed)}"


@pytest.mark.parametrize(("profile", "seed"), TURNS)
def test_gangs_that_take_turns_are_let_pass(profile, seed, monkeypatch):
    monkeypatch.setattr(world, "REST_S_MAX", TURNS_S)
    assert play(draw(seed, profile)).wrong == (), f"repeat it with: {line(profile, seed)}"


@pytest.mark.soak
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("first", range(SEEDS + 1, SOAK_SEEDS + 1, BLOCK))
def test_nothing_goes_wrong_in_many(profile, first):
    gc.collect()  # a world leaves some 2 MB in cycles that the collector does not come to by itself
    for seed in range(first, min(first + BLOCK, SOAK_SEEDS + 1)):
        assert play(draw(seed, profile)).wrong == (), f"repeat it with: {line(profile, seed)}"


def test_every_fail_point_of_the_scheduler_is_passed_and_dispatch_dies_at_some():
    points = frozenset().union(*(play(draw(seed, "processes")).points for seed in (1, 2)))
    assert {
        "scheduler:assumed",
        "scheduler:binding",
        "scheduler:bound",
        "scheduler:dispatched",
        "scheduler:status",
    } <= points


def test_the_report_knows_every_fail_point_and_every_mishap_is_drawn():
    """What a run never met is told by name, so the names have to be all that there are."""
    found = {
        f"scheduler:{name}"
        for file in (ROOT / "src/pumice/dispatch").glob("*.py")
        for name in re.findall(r'fail_point\("(\w+)"\)', file.read_text())
    }
    assert found == {point for point in POINTS if point.startswith("scheduler:")}
    drawn = {kind for each in profiles.PROFILES.values() for kind in each.kinds}
    assert set(MISHAPS) == set(profiles.SUBJECTS) == {*drawn, *profiles.CRON, *profiles.WEBHOOKS, *profiles.STOPS}


def test_one_seed_is_one_world_byte_for_byte():
    """Two runs in this process, and one in another whose sets have another order."""
    here = [play(draw(3, "all")).digest for _ in range(2)]
    command = "from pumice.sim.worlds import draw, play; print(play(draw(3, 'all')).digest)"
    there = subprocess.run(
        [sys.executable, "-c", command], env={**os.environ, "PYTHONHASHSEED": "77"}, cwd=ROOT, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert [*here, there.stdout.strip()] == here[:1] * 3


def test_a_story_told_without_nothing_is_the_same_world():
    """That is how a world is repeated from the command line."""
    quiet = msgspec.structs.replace(draw(2, "calm"), rates=CALM)
    assert play(quiet.without(frozenset())).digest == play(quiet).digest


def test_a_story_is_told_without_its_jobs_though_one_of_them_was_to_be_a_bad_one():
    """That is how a world in which somebody submits a Job that must not get in is made small."""
    story = draw(363, "nodes")
    assert "bad-job" in {each.what for each in story.mishaps}
    assert play(story.without(frozenset(story.parts()) - {"m0", "webhooks"})).wrong == ()


def test_another_seed_is_another_world():
    assert play(draw(1, "calm")).digest != play(draw(2, "calm")).digest
