"""How many worlds are played, and by whom."""

from pumice.sim.worlds import profiles

SEEDS = 38  # of each profile, in `make test`
SOAK_SEEDS = 625  # of each profile: 5,000 worlds in `make soak`
BLOCK = 25  # worlds of one soak test

PROFILES = list(profiles.PROFILES)
