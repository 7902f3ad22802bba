"""Makes a world that goes wrong small: leaves out whatever it goes wrong without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.sim.worlds.world import Verdict, play

if TYPE_CHECKING:
    from pumice.sim.worlds.story import Story

PLAYS_MAX = 200


def shrink(story: Story, left_out: frozenset[str] = frozenset()) -> tuple[frozenset[str], Verdict]:
    """What can be left out so that something still goes wrong, large parts first; and how that smaller world went."""
    verdict = play(story.without(left_out))
    assert verdict.wrong, "nothing goes wrong in this world: there is nothing to shrink"
    plays, size = 0, max(1, len(story.parts()) // 2)
    while size >= 1 and plays < PLAYS_MAX:
        rest = [part for part in story.parts() if part not in left_out]
        smaller = None
        for first in range(0, len(rest), size):
            tried = left_out | frozenset(rest[first : first + size])
            plays += 1
            found = play(story.without(tried))
            if found.wrong:
                smaller = tried, found
                break
            if plays >= PLAYS_MAX:
                break
        if smaller is not None:
            left_out, verdict = smaller
        else:
            size //= 2
    return left_out, verdict
