"""How long tests wait for what must come.

No test is about this time: it only ends a wait that would never end. What is meant to come within some time is measured in `bench/`.
"""

PATIENCE_S = 120.0  # for one thing, on a machine that is busy with ten others; processes take longest to start
