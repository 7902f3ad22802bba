"""The checkers are checked: each planted bug goes wrong in a world that is well without it, and that `make test` plays."""

import re
from pathlib import Path

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


def test_the_table_in_the_documentation_names_every_planted_bug_and_its_world():
    text = (Path(__file__).parents[2] / "docs/reliability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| `(\w+)` (\d+) \|", text, re.MULTILINE)
    assert {what: (profile, int(seed)) for what, profile, seed in rows} == {
        what: bug.world for what, bug in PLANTED.items()
    }
