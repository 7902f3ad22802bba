"""Forecasts of the first gangs in line, from a child process."""

import asyncio

from tests.unit.scheduling.clusters import NOW, a_gang, a_group, a_node, a_queue, flat, policy, when

from pumice import instant
from pumice.api import changes
from pumice.clock import RealClock
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.processes.forecasting import Forecasting
from pumice.readmodel.build import Cycle, Views
from pumice.scheduling.core import cycle
from pumice.scheduling.core.memory import Memory
from pumice.scheduling.time import accuracy
from pumice.scheduling.time.forecast import World

PLAIN = policy("enqueue, allocate", "priority gang predicates")
ESTIMATE = "pumice.dev/running-estimate"


def a_world(*objects):
    intake = Intake(Cluster())
    for thing in flat([a_queue(), *objects]):
        intake.apply(changes.Upserted(object=thing))
    return World(intake, PLAIN, NOW)


def full():
    group = {"phase": "Running", "annotations": {ESTIMATE: "70m"}}
    holder = a_gang("holder", 2, running=["n1", "n1"], group=group, status={"startTime": when(0)})
    waits = a_group("waits", 2, phase="Pending", minimum={"cpu": "2"}, roles={"master": 1, "worker": 1})  # as of a Job
    return a_world(a_node(cpu="2"), holder, waits)


def made(world):
    log = []
    forecasting = Forecasting(world, clock=RealClock(), log=lambda event, **fields: log.append((event, fields)))
    asyncio.run(forecasting.update())
    return forecasting, log


def test_the_first_in_line_have_a_forecast_also_those_without_pods():
    world = full()
    forecasting, log = made(lambda: world)
    assert log == []
    told = forecasting.current["default/waits"]
    assert NOW < told.p50 <= told.p90
    assert told.runs == 10
    assert forecasting.take_fresh() == forecasting.current
    assert forecasting.take_fresh() == {}  # a cycle remembers each once
    assert not world.intake.cluster.gangs["default/waits"].tasks  # the child's pods are its own


def test_where_nobody_waits_there_is_none():
    forecasting, log = made(lambda: None)
    assert (forecasting.current, log) == ({}, [])


def test_a_failure_is_logged_and_takes_old_forecasts_away():
    broken = World(None, PLAIN, NOW)
    forecasting, log = made(lambda: broken)
    assert forecasting.current == {}
    assert log[0][0] == "forecast_failed"
    assert "NoneType" in log[0][1]["error"]


def test_the_view_tells_forecasts_and_how_often_they_held():
    world = full()
    forecasting, _ = made(lambda: world)
    snapshot, views = world.intake.cluster.snapshot(), Views()
    memory = Memory({accuracy.SCORE.name: accuracy.Score(recent=(True, True, True, False))})
    decisions = cycle.plan(snapshot, PLAIN, memory, now=NOW)
    views.publish(
        Cycle(number=1, at=NOW, snapshot=snapshot, decisions=decisions, policy=PLAIN, forecasts=forecasting.current)
    )
    state = views.state()
    (gang,) = [each for each in state.gangs if each.name == "waits"]
    assert gang.forecast.p50 == instant.format_instant(forecasting.current["default/waits"].p50)
    assert (gang.forecast.ahead, gang.forecast.without_estimate) == (1, 0)
    assert (state.forecasts.forecasts, state.forecasts.held) == (4, 0.75)
