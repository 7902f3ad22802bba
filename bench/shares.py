"""How near the use of a cluster comes to the weights of its queues, in simulated weeks: the table of docs/guides/fair-share.md.

    python -m bench.shares [--queues 2,5,10,20,50] [--days 14] [--seed 1] [--policies fairshare]

`--days 3,7,14` are three looks at the same two weeks.

Work comes in bursts, hours apart, each of up to a day's work of its queue; on average every queue asks for somewhat more than its
weight gives it. Gangs have 1 to 4 slots and run for 1 to 6 hours.

A gang is in or out when the clock stops, and no policy can say more of a share than that: `one gang` is the largest gang, as a part of what
the smallest queue has by weight in all that time. Where it is above what is to be shown, time or cluster are too small: so the cluster grows
with the number of queues. A larger cluster costs less than more weeks: the line is as long, and there are fewer cycles.
"""

from __future__ import annotations

import argparse
import random
import sys
from typing import TYPE_CHECKING

from pumice.sim import Submission, nodes, simulate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.sim import Outcome

HOUR = 3600
SIZES, HOURS = (1, 1, 2, 4), (1, 2, 3, 4, 6)
BETWEEN_BURSTS_H = (2, 4, 8, 16, 24)
QUEUES_ON_8_NODES = 5  # of 8 slots each: a queue of weight 1 has four slots or so, as large as a gang


def _policy(*sharing: str) -> str:
    middle = "\n".join(f"  - name: {name}" for name in sharing)
    return f"""\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: overcommit
{middle}
  - name: predicates
  - name: nodeorder
"""


FAIR = _policy("fairshare", "drf")
POLICIES = {
    "proportion": _policy("proportion", "drf"),
    "drf": _policy("drf"),
    "fairshare and proportion": _policy("fairshare", "drf", "proportion"),
    "fairshare": FAIR,
}


def workload(queues: int, *, days: int, cluster: str, seed: int) -> tuple[dict[str, int], list[Submission]]:
    """Weights of queues, and what is submitted to them."""
    chance = random.Random(seed)  # noqa: S311  the same workload every time
    machines, slots = map(int, cluster.split("x"))
    weights = {f"q{number:02}": chance.randint(1, 5) for number in range(queues)}
    found = []
    for name, weight in weights.items():
        fair = weight / sum(weights.values()) * machines * slots
        at = 0
        while at < days * 24:
            pause = chance.choice(BETWEEN_BURSTS_H)
            left = fair * pause * chance.uniform(0.9, 1.4) + max(SIZES)
            while left > 0:
                size, hours, user = chance.choice(SIZES), chance.choice(HOURS), f"{name}-{chance.randint(0, 3)}"
                found.append(Submission(at_s=at * HOUR, run_s=hours * HOUR, size=size, queue=name, user=user))
                left -= size * hours
            at += pause
    return weights, sorted(found, key=lambda each: each.at_s)


def deviations(outcome: Outcome, weights: Mapping[str, int], *, days: int) -> dict[str, float]:
    """By queue: how much more than its part by weight it has had of all that was used; 0.02 are two percent more."""
    used = {
        name: float(held.sum()) for name, held in outcome.usage("queue", step_s=HOUR, until_s=days * 24 * HOUR).items()
    }
    total, weight = sum(used.get(name, 0.0) for name in weights), sum(weights.values())
    return {name: used.get(name, 0.0) / total / (own / weight) - 1 for name, own in weights.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.shares")
    parser.add_argument("--queues", default="2,5,10,20,50")
    parser.add_argument("--days", default="14")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policies", default=",".join(POLICIES))
    given = parser.parse_args()
    sys.stdout.write(
        "| queues | slots | days | policy | worst queue | mean | one gang | slots in use |\n|" + " --- |" * 8 + "\n"
    )
    for number in map(int, given.queues.split(",")):
        for name in given.policies.split(","):
            days = [int(each) for each in given.days.split(",")]
            cluster = f"{max(8 * number // QUEUES_ON_8_NODES, 4)}x8"
            weights, work = workload(number, days=max(days), cluster=cluster, seed=given.seed)
            until_s = max(days) * 24 * HOUR
            outcome = simulate(work, nodes(cluster), queues=weights, policy=POLICIES[name], until_s=until_s)
            sys.stdout.writelines(_row(outcome, weights, each, name) for each in days)
            sys.stdout.flush()


def _row(outcome: Outcome, weights: Mapping[str, int], days: int, policy: str) -> str:
    """The run as it stood after so many days."""
    off = [abs(each) for each in deviations(outcome, weights, days=days).values()]
    held = sum(float(each.sum()) for each in outcome.usage("queue", step_s=HOUR, until_s=days * 24 * HOUR).values())
    least = outcome.slots * days * 24 * min(weights.values()) / sum(weights.values())
    return (
        f"| {len(weights)} | {outcome.slots} | {days} | {policy} | {max(off):.1%} | {sum(off) / len(off):.1%} "
        f"| {max(SIZES) * max(HOURS) / least:.1%} | {held / (outcome.slots * days * 24):.0%} |\n"
    )


if __name__ == "__main__":
    main()
