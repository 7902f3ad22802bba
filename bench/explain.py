"""What it costs the leader to explain a gang on a large cluster: the reasons, and the single changes that would start it; and to say what four more nodes would change.

python -m bench.explain

5,000 nodes of 8 GPUs, all in use, and 1,000 gangs of 8 to 64 that wait. CPU time; of the second answer that of the child process in which
the leader has it found, fork and copied pages included.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from typing import Any

import msgspec

from bench.forecast import POLICY, add_gang
from pumice import instant
from pumice.cli import bench as plan_bench
from pumice.cluster.intake import Intake
from pumice.processes.questions import Questions
from pumice.readmodel.build import Cycle, Views
from pumice.scheduling.core import cycle
from pumice.scheduling.time.forecast import World
from pumice.scheduling.whatif.outcome import Outcome
from pumice.scheduling.whatif.suggestion import Suggestions

NODES, RUNNING, WAITING, SIZE = 5000, 1000, 1000, 40
WITHOUT_S, WITH_S = 0.3, 2.0  # the goals
ASKED = ("w0000", "w0500", "w0999")  # first, in the middle and last in line


def main() -> int:
    now = instant.parse_instant("2026-01-02T00:00:00Z")
    cluster = plan_bench.cluster_with_waiting_gangs(NODES, 0, 1)
    intake = Intake(cluster)
    for number in range(RUNNING):
        places = [(number * SIZE + place) % NODES for place in range(SIZE)]
        add_gang(intake, f"r{number:04}", SIZE, now, run_s=600 + 97 * number % 50_000, places=places)
    for number in range(WAITING):
        add_gang(intake, f"w{number:04}", 8 * (1 + number % 8), now, run_s=3600)
    snapshot = cluster.snapshot()
    memory = cycle.plan(snapshot, POLICY, now=now).memory  # what a scheduler knows that has run for a cycle
    started = time.process_time()
    decisions = cycle.plan(snapshot, POLICY, memory, now=now)
    plan_s = time.process_time() - started
    views = Views()
    seen = Cycle(
        number=1,
        at=now,
        snapshot=snapshot,
        decisions=decisions,
        policy=POLICY,
        memory=memory,
        world=World(intake, POLICY, now, memory),
    )
    views.publish(seen)
    met = True
    for name in ASKED:
        found = explained(views, seen, f"default/{name}")
        met = met and found["without_s"] <= WITHOUT_S and found["with_s"] <= WITH_S
        line = {
            "bench": "explain",
            "nodes": NODES,
            "gangs": RUNNING + WAITING,
            "gang": name,
            "plan_s": round(plan_s, 2),
        }
        sys.stdout.write(json.dumps({**line, **found}) + "\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps({"bench": "what-if", "nodes": NODES, **asked_what_if(seen)}) + "\n")
    return 0 if met else 1


def asked_what_if(seen: Cycle) -> dict[str, Any]:
    """Four more nodes: two cycles, and a look ahead from both."""
    started = _of_children_s()
    query = {"add-nodes": "4", "like": seen.snapshot.nodes.names[0]}
    body = asyncio.run(Questions().what_if(seen, query))
    spent_s = _of_children_s() - started
    found = msgspec.json.decode(body, type=Outcome)
    known = [
        each for each in found.forecasts.values() if each.before and each.after and each.before.p50 and each.after.p50
    ]
    return {
        "what_if_s": round(spent_s, 2),
        "starts": len(found.starts),
        "asked": len(found.forecasts),
        "known": len(known),
    }


def explained(views: Views, seen: Cycle, key: str) -> dict[str, Any]:
    """One gang, explained as to the first who asks."""
    started = time.process_time()
    detail = views.gang(key)
    size = len(msgspec.json.encode(detail))
    without_s = time.process_time() - started
    started = _of_children_s()
    body = asyncio.run(Questions().suggestions(seen, key, sees_all=True))
    with_s = _of_children_s() - started
    found = msgspec.json.decode(body, type=Suggestions)
    return {
        "without_s": round(without_s, 3),
        "bytes": size,
        "with_s": round(with_s, 3),
        "tried": found.tried,
        "found": [each.kind.value for each in found.found],
    }


def _of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
