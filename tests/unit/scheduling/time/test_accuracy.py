"""What ended gangs teach about estimates, and started ones about forecasts."""

import random

import numpy as np
import pytest
from tests.unit.scheduling.clusters import NOW, a_gang, a_group, a_node, a_queue, plan_for, policy, when

from pumice import instant
from pumice.scheduling.core.memory import Memory
from pumice.scheduling.core.ports import Ports
from pumice.scheduling.time import accuracy
from pumice.scheduling.time.accuracy import Errors, Forecast, Open, Score
from pumice.scheduling.time.estimates import Source

SECOND = instant.SECOND
ASKS = policy("allocate", "gang", ["reservation"])


def a_forecast(uid, *, p90, made=0, found=None):
    p90, found = (None if each is None else each * SECOND for each in (p90, found))
    return Forecast(gang=uid, uid=uid, made=made * SECOND, p90=p90, found=found)


def ended(name, *, after_s, estimate):
    group = {"phase": "Running", "annotations": {"pumice.dev/running-estimate": estimate}}
    return a_gang(name, 2, phase="Succeeded", group=group, status={"startTime": when(3600 - after_s)})


def test_a_gang_that_has_ended_says_once_how_wrong_its_estimate_was():
    world = [a_queue(), a_node(), ended("g", after_s=1200, estimate="10m")]
    first = plan_for(*world, policy=ASKS).memory
    assert first.of(accuracy.SLOT).ratios == {"declared": (2000,)}
    again = plan_for(*world, policy=ASKS, memory=first, now=NOW + SECOND).memory
    assert again.of(accuracy.SLOT).ratios == {"declared": (2000,)}


def test_nothing_is_remembered_where_nobody_asks_for_estimates():
    memory = plan_for(
        a_queue(), a_node(), ended("g", after_s=9, estimate="1m"), policy=policy("allocate", "gang")
    ).memory
    assert memory.of(accuracy.SLOT).ratios == {}


def test_errors_are_bounded():
    errors = Errors()
    for number in range(500):
        errors = errors.after(Source.DECLARED, number)
    assert len(errors.ratios["declared"]) == accuracy.KEPT_MAX
    assert errors.after(Source.LIMIT, 1e30).ratios["limit"] == (10**9,)


LUCK = [number / 100 for number in range(100)]


def test_only_errors_count_that_leave_a_running_gang_alive():
    errors = Errors({"declared": tuple([500] * 20 + [1500] * 5)})
    assert {errors.drawn(Source.DECLARED, 0.9, luck) for luck in LUCK} == {1.5}
    assert [errors.drawn(Source.DECLARED, 0, luck) for luck in (0, 0.79, 0.81, 0.99)] == [0.5, 0.5, 1.5, 1.5]
    assert all(2 < errors.drawn(Source.DECLARED, 2.0, luck) < 4 for luck in LUCK)


def test_without_experience_that_of_others_helps_out():
    drawn = {Errors({"limit": (500,)}).drawn(Source.LIMIT, 0, luck) for luck in LUCK}
    assert drawn == {0.5, *accuracy.USUAL[Source.LIMIT]}


# ------------------------------------------------------------------------------------------------- forecasts


def test_a_forecast_that_held_and_one_that_did_not():
    score = Score().opened([a_forecast("early", p90=100), a_forecast("late", p90=100), a_forecast("never", p90=None)])
    assert score.open == (Open("early", 0, 100), Open("late", 0, 100))
    score = score.judged({"early": 90 * SECOND}, {"late"}, 95 * SECOND)
    assert (score.recent, [each.gang for each in score.open]) == ((True,), ["late"])
    score = score.judged({}, {"late"}, 101 * SECOND)  # it waits longer than was said: that needs no start to be wrong
    assert (score.recent, score.held, score.total) == ((True, False), 0.5, 2)
    score = score.judged({}, {"late"}, 200 * SECOND).judged({"late": 300 * SECOND}, set(), 300 * SECOND)
    assert (score.open, score.total) == ((), 2)  # it was wrong once, however long it waited


def test_waits_are_compared_to_what_was_found_and_the_ninth_decile_of_them_stretches_the_next():
    score = Score()
    for number in range(20):
        score = score.opened([a_forecast(f"g{number}", p90=10**6, found=100)])
        score = score.judged({f"g{number}": (100 + 10 * number) * SECOND}, set(), 0)
    assert score.waits == tuple(1000 + 100 * number for number in range(20))
    assert score.stretch == pytest.approx(
        2.8 * np.exp(score.bias)
    )  # 18 of 20 waited for no more than 2.7 times as long
    assert score.bias == pytest.approx(-0.015 * 20)  # all held: a little less will do
    few = Score(waits=(500, 3000, 700))
    assert (Score().stretch, few.stretch) == (1.0, 3.0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("center", [-1.0, 0.0, 0.7])
@pytest.mark.parametrize("likeness", [0.0, 0.8])
def test_nine_of_ten_of_the_first_200_hold_although_they_are_judged_late_and_err_alike(seed, center, likeness):
    """Real waits are log-normal about a multiple of what was found; neighbours err alike, and gangs start some forecasts later."""
    chance = random.Random(seed)
    score, error, held, starts = Score(), chance.gauss(0, 1), [], []
    for number in range(200):
        for gang, at in [each for each in starts if each[1] <= number * 1000]:
            score = score.judged({gang: at * SECOND}, {each[0] for each in starts}, number * 1000 * SECOND)
            starts.remove((gang, at))
        error = likeness * error + (1 - likeness**2) ** 0.5 * chance.gauss(0, 1)
        made, found = number * 1000, chance.randint(500, 8000)
        p90, at = made + round(found * score.stretch), made + round(found * np.exp(center + 0.8 * error))
        score = score.opened([a_forecast(f"g{number}", p90=p90, made=made, found=made + found)])
        starts.append((f"g{number}", at))
        held.append(at <= p90)
    assert 0.85 <= sum(held) / len(held) <= 0.95


def test_only_the_first_forecast_of_a_gang_counts():
    score = Score().opened([a_forecast("g", p90=100)]).opened([a_forecast("g", p90=900, made=50)])
    assert score.open == (Open("g", 0, 100),)


def test_a_gang_that_was_deleted_says_nothing():
    score = Score().opened([a_forecast("g", p90=100)]).judged({}, set(), 50 * SECOND)
    assert (score.open, score.recent) == ((), ())


def test_what_is_remembered_is_bounded():
    score = Score().opened(a_forecast(f"{number:036}", p90=10**9) for number in range(3000))
    assert len(score.open) == accuracy.FORECASTS_MAX
    assert len(accuracy.SCORE.encode(score)) < accuracy.SCORE.bytes_max
    for _ in range(1000):
        score = score.after_verdict(held=False)
    assert score.stretch == pytest.approx(accuracy.STRETCH_MAX)
    assert len(score.recent) == accuracy.RECENT_MAX


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("error", [0.3, 1.0, 2.0])
def test_in_the_long_run_nine_of_ten_hold_however_wrong_the_forecasts_are(seed, error):
    """Real waits are log-normal about what was said, by a factor that no forecast knows; p90 begins as what was said."""
    chance = random.Random(seed)
    score, held = Score(), []
    for number in range(1500):
        said, real = 1000.0, 1000.0 * chance.lognormvariate(0.5, error)
        score = score.opened([a_forecast(f"g{number}", p90=round(said * score.stretch))])
        score = score.judged({f"g{number}": round(real * SECOND)}, set(), round(real * SECOND))
        held.append(score.recent[-1])
    assert 0.85 <= sum(held[200:]) / len(held[200:]) <= 0.95, f"seed {seed}"


def test_cycles_remember_forecasts_and_judge_them():
    told = Forecast(gang="default/g", uid="default/g", made=NOW, p90=NOW + 60 * SECOND)
    waits = [a_queue(), a_node(cpu="1"), a_gang("g", 2)]
    memory = plan_for(*waits, policy=ASKS, ports=Ports(forecasts={"default/g": told})).memory
    assert [each.gang for each in memory.of(accuracy.SCORE).open] == ["default/g"]
    later = plan_for(*waits, policy=ASKS, memory=memory, now=NOW + 30 * SECOND).memory
    assert later.of(accuracy.SCORE).recent == ()
    started = a_gang("g", 2, running=["n1", "n1"], status={"startTime": when(3640)}, group={"phase": "Running"})
    runs = plan_for(a_queue(), a_node(), started, policy=ASKS, memory=later, now=NOW + 50 * SECOND).memory
    assert runs.of(accuracy.SCORE).recent == (True,)
    late = plan_for(*waits, policy=ASKS, memory=memory, now=NOW + 90 * SECOND).memory
    assert late.of(accuracy.SCORE).recent == (False,)
    assert isinstance(late, Memory)


def test_the_forecast_of_a_gang_that_waits_for_its_admission_is_judged_too():
    told = Forecast(gang="default/g", uid="default/g", made=NOW, p90=NOW + 60 * SECOND)
    waits = [a_queue(), a_node(cpu="1"), a_group("g", 2, phase="Pending", minimum={"cpu": "2"})]
    memory = plan_for(*waits, policy=ASKS, ports=Ports(forecasts={"default/g": told})).memory
    assert [each.gang for each in memory.of(accuracy.SCORE).open] == ["default/g"]
    late = plan_for(*waits, policy=ASKS, memory=memory, now=NOW + 90 * SECOND).memory
    assert late.of(accuracy.SCORE).recent == (False,)
