"""Worlds: the shipped scheduler, controllers and embedded API server, unchanged, under virtual time, with faults, and watched at every step.

One seed is one world, and the same seed is the same world, byte for byte. A world that goes wrong prints the line that repeats it:

    python -m pumice.sim.worlds --profile storm --seed 7
    python -m pumice.sim.worlds --profile storm --seed 7 --shrink      # leave out what it can go wrong without

Read `story` (what will happen, as data) and `world` (how it is played); `witness` says what must never be, `ending` what must hold once the
faults are over. Below them lie `loop` (time and processes that die between two awaits), `network`, `apiserver`, `replicas` and `mishaps`.
docs/reliability.md has the figures.
"""

from pumice.sim.worlds.story import Story, draw
from pumice.sim.worlds.world import Verdict, play

__all__ = ["Story", "Verdict", "draw", "play"]
