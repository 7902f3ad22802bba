"""How many worlds are played, and by whom."""

from pumice.sim.worlds import profiles

SEEDS = 28  # of each profile: 308 worlds in `make test`
SOAK_SEEDS = 455  # of each profile: 5,005 worlds in `make soak`
BLOCK = 25  # worlds of one soak test

PROFILES = list(profiles.PROFILES)
