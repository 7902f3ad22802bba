"""How many worlds are played, and by whom."""

from pumice.sim.worlds import profiles

SEEDS = 25  # of each profile: 300 worlds in `make test`
SOAK_SEEDS = 417  # of each profile: 5,004 worlds in `make soak`
BLOCK = 25  # worlds of one soak test

PROFILES = list(profiles.PROFILES)
# Worlds beyond those seeds in which something once went wrong (docs/reliability.md).
FOUND = [
    ("all", 4145),
    ("all", 5071),
    ("all", 6291),
    ("all", 8081),
    ("all", 12569),
    ("calm", 1115),
    ("calm", 4023),
    ("calm", 8103),
    ("lines", 1017),
    ("lines", 12403),
    ("nodes", 363),
    ("nodes", 3008),
    ("nodes", 4529),
    ("nodes", 8642),
    ("nodes", 8686),
    ("refusals", 3005),
    ("refusals", 6036),
    ("reserved", 373),
    ("reserved", 1035),
    ("reserved", 1138),
    ("reserved", 1176),
    ("reserved", 1200),
    ("reserved", 3013),
    ("reserved", 4399),
    ("reserved", 4570),
    ("reserved", 5090),
    ("reserved", 6062),
    ("reserved", 6503),
    ("reserved", 8009),
    ("reserved", 12675),
    ("store", 1439),
    ("store", 6027),
    ("store", 8424),
    ("store", 12060),
    ("store", 12782),
    ("storm", 45),
    ("storm", 1417),
    ("storm", 3020),
    ("storm", 6008),
    ("storm", 6080),
    ("storm", 6465),
    ("storm", 8654),
    ("users", 3029),
    ("users", 4397),
    ("users", 4465),
    ("users", 8028),
]
# The same of worlds that never come to rest, because gangs take turns in them.
TURNS = [("calm", 12230), ("nodes", 12485), ("users", 12319)]
TURNS_S = 150.0  # so long they are waited for
