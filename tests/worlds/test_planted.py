"""The checkers are checked: each planted bug goes wrong in a world that is well without it, and that `make test` plays."""

import pytest
from tests.worlds.planted import PLANTED
from tests.worlds.volume import SEEDS

from pumice.sim.worlds import draw, play

NEAR = 4  # seeds from the named one on: a change of the product shifts what happens in a world by moments


@pytest.mark.parametrize("name", list(PLANTED))
def test_a_planted_bug_is_found(name, monkeypatch):
    bug = PLANTED[name]
    profile, seed = bug.world
    assert seed <= SEEDS, "a world of the volume of `make test` should find it"
    monkeypatch.setattr(bug.where, bug.name, bug.made_of(getattr(bug.where, bug.name)))
    assert any(play(draw(each, profile)).wrong for each in range(seed, min(seed + NEAR, SEEDS + 1)))
