"""Listings of a record of many gangs: every question that a command asks, in milliseconds.

    python -m bench.record [--gangs 1000000] [--url postgresql://...]

One JSON line a listing with the median and the worst of nine and the median of CPU (of this process: SQLite's work is part of it, and
other programs' is not), as the controllers' server and `--record URL` ask it. The record is made first: 200 users, 40 queues, 60 namespaces, a year of hours.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from pumice.record import answers, model, queries
from pumice.record.schema import ATTEMPTS, CAPACITY, EVICTIONS, FORECASTS, GANGS, RUNS, USAGE
from pumice.record.store import Store, sum_day

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T0 = 1_761_955_200  # 2025-11-01
YEAR_S = 365 * 86_400
CHUNK = 20_000
USERS, QUEUES, NAMESPACES = 200, 40, 60
STATES = ("Completed",) * 16 + ("Failed",) * 3 + ("Terminated",)


def gangs(count: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(count):
        ended = T0 + number * YEAR_S // count
        user = int(chance.paretovariate(0.6)) % USERS  # a few do most
        run, gpus = chance.randint(60, 40_000), 8
        yield {
            "uid": f"{chance.getrandbits(128):032x}", "kind": "Job", "namespace": f"ns-{user % NAMESPACES}", "name": f"train-{number}",
            "user_name": f"user-{user}", "queue": f"queue-{user % QUEUES}", "team": f"queue-{user % 8}",
            "shapes": '[{"task":"w","pods":4,"resources":{"nvidia.com/gpu":2}}]', "minimum": 4, "submitted": ended - run - 300,
            "admitted": ended - run - 200, "started": ended - run, "ended": ended, "state": chance.choice(STATES), "reason": "",
            "seen": number, "attempts": 1, "evictions": 0, "lost_s": 0, "gpu_s": float(run * gpus), "lost_gpu_s": 0.0,
            "held": json.dumps({"cpu": run * 16.0, "nvidia.com/gpu": float(run * gpus)}),
        }  # fmt: skip


def usage(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Every hour of a year: 60 accounts at work, three resources each."""
    for hour in range(T0, T0 + YEAR_S, 3_600):
        for user in chance.sample(range(USERS), 60):
            for resource in ("cpu", "memory", "nvidia.com/gpu"):
                yield {
                    "hour": hour, "namespace": f"ns-{user % NAMESPACES}", "queue": f"queue-{user % QUEUES}", "user_name": f"user-{user}",
                    "resource": resource, "team": f"queue-{user % 8}", "held_s": 3_600.0 * chance.randint(1, 8), "lost_s": 0.0,
                }  # fmt: skip


def fill(store: Store, count: int) -> None:
    chance = random.Random(1)  # noqa: S311  a made-up year
    extra = []
    with store.begin() as connection:
        for table, rows in ((GANGS, gangs(count, chance)), (USAGE, usage(chance))):
            chunk = []
            for row in rows:
                chunk.append(row)
                if table is GANGS and row["seen"] % 1_000 == 0:
                    extra.append(row)
                if len(chunk) == CHUNK:
                    connection.execute(sa.insert(table), chunk)
                    chunk = []
            if chunk:
                connection.execute(sa.insert(table), chunk)
        for day in range(T0, T0 + YEAR_S, 86_400):
            sum_day(connection, day)
        connection.execute(sa.insert(CAPACITY), [{"at": T0, "resource": "nvidia.com/gpu", "amount": 512.0}])
        connection.execute(
            sa.insert(ATTEMPTS),
            [{"gang": row["uid"], "number": 0, "pods": 4, "started": row["started"], "ended": row["ended"], "state": row["state"], "seen": 1}
             for row in extra],
        )  # fmt: skip
        connection.execute(
            sa.insert(EVICTIONS),
            [{"uid": row["uid"], "gang": row["uid"], "attempt": 0, "pod": "p", "at": row["ended"], "rule": "preempt", "claimant": "a/b",
              "why": "", "lost_s": 60, "seen": 1} for row in extra],
        )  # fmt: skip
        connection.execute(
            sa.insert(RUNS),
            [{"uid": f"{row['uid']}-{pod}", "gang": row["uid"], "attempt": 0, "pod": f"p-{pod}", "task": "w", "node": "n", "resources": "{}",
              "bound": row["started"], "started": row["started"], "ended": row["ended"], "state": "Succeeded", "restarts": 0, "seen": 1}
             for row in extra for pod in range(4)],
        )  # fmt: skip
        connection.execute(
            sa.insert(FORECASTS),
            [{"gang": row["uid"], "made": row["submitted"], "p50": row["started"], "p90": row["started"] + 60} for row in extra],
        )  # fmt: skip
    with store.begin() as connection:
        connection.execute(sa.text("ANALYZE"))


def listings(store: Store) -> dict[str, Callable[[], object]]:
    end = T0 + YEAR_S

    def history(**wanted: Any) -> Callable[[], object]:
        return partial(answers.history, store, model.Filter(**wanted), {})

    def report(by: str, days: int, namespace: str = "", step: str = "day") -> Callable[[], object]:
        wanted = model.Period(by, end - days * 86_400, end, namespace, model.STEPS[step])
        return partial(answers.report, store, wanted, {}, end)

    def learned() -> object:
        with store.reading() as connection:
            return queries.completed(connection, since=0, limit=1_000)

    return {
        "last 50": history(),
        "last 1000": history(limit=1_000),
        "a user": history(user="user-1"),
        "a rare user": history(user="user-199"),
        "a queue": history(queue="queue-3"),
        "a namespace": history(namespace="ns-5"),
        "failed": history(state="Failed"),
        "state that nobody has": history(state="Gone"),
        "a user and a state": history(user="user-1", state="Terminated"),
        "a user and a queue that do not meet": history(user="user-1", queue="queue-2"),
        "a namespace and a user that do not meet": history(namespace="ns-1", user="user-2"),
        "a namespace, a queue and a state": history(namespace="ns-1", queue="queue-1", state="Terminated"),
        "a name": history(namespace="ns-1", name="train-12345"),
        "a name everywhere": history(name="train-12345"),
        "a day half a year ago": history(since=T0 + 180 * 86_400, until=T0 + 181 * 86_400),
        "a user half a year ago": history(user="user-3", since=T0 + 180 * 86_400, until=T0 + 187 * 86_400),
        "the page after 500,000": history(before=(T0 + YEAR_S // 2, "8")),
        "a month by team": report("team", 31),
        "a month by user": report("user", 31),
        "a month by queue": report("queue", 31),
        "a month by namespace": report("namespace", 31),
        "a month of a namespace": report("queue", 31, "ns-5"),
        "a year by team": report("team", 365),
        "a day by hour": report("user", 1, step="hour"),
        "a gang with its pods": partial(answers.gang, store, "ns-1", "train-12000", {}, sees_all=True),
        "lines of a gang": partial(answers.logs, store, "ns-1", "train-12000", None),
        "forecasts and what came true": partial(answers.forecasts, store, "", 0),
        "learned run times": learned,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--gangs", type=int, default=1_000_000)
    parser.add_argument("--url", default="", help="an empty database; without it a new file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{Path(folder) / 'record.db'}"
        store = Store(url)
        store.open()
        began = time.perf_counter()
        fill(store, given.gangs)
        filled = time.perf_counter() - began
        size = Path(folder, "record.db").stat().st_size if not given.url else 0
        print(
            json.dumps(
                {
                    "bench": "record fill",
                    "gangs": given.gangs,
                    "seconds": round(filled, 1),
                    "file_mb": round(size / 1e6),
                }
            )
        )
        worst = 0.0
        for name, ask in listings(store).items():
            times, spent = [], []
            for _ in range(9):
                began, before = time.perf_counter(), time.process_time()
                ask()
                times.append((time.perf_counter() - began) * 1e3)
                spent.append((time.process_time() - before) * 1e3)
            worst = max(worst, statistics.median(spent if not given.url else times))
            figures = {
                "median_ms": round(statistics.median(times), 1),
                "worst_ms": round(max(times), 1),
                "cpu_ms": round(statistics.median(spent), 1),
            }
            print(json.dumps({"bench": "record", "listing": name, "gangs": given.gangs, **figures}), flush=True)
        store.close()
    return int(worst > 300.0)


if __name__ == "__main__":
    sys.exit(main())
