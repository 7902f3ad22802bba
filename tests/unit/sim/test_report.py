"""The report: one page that needs nothing else, with a picture for each question."""

import re
import xml.dom.minidom

from pumice.sim import Submission, nodes, simulate
from pumice.sim.one_by_one import OneByOne
from pumice.sim.report import page

WORK = [Submission(at_s=0, run_s=100, size=3), Submission(at_s=1, run_s=100, size=4), Submission(at_s=2, run_s=50)]


def test_every_policy_has_its_figures_and_pictures():
    outcomes = {name: simulate(WORK, nodes("4x1")) for name in ("one", "<two>")}
    text = page(outcomes, workload="a & b", cluster="4x1")
    assert "a &amp; b on 4x1" in text
    assert "<two>" not in text
    assert text.count("<svg") == 3 + 2
    assert text.count("<polyline") == 2 * 2
    assert "At no time." in text  # nothing was free while somebody waited who would fit
    assert text.count("<td>2-8</td><td>2</td>") == 2  # waits in numbers: two gangs of this size under each policy
    assert "http" not in text
    body = text.partition("<body>")[2].partition("</body>")[0]
    xml.dom.minidom.parseString(f"<div>{body}</div>")  # well-formed


def test_a_workload_that_never_ran_says_so():
    outcome = simulate([Submission(at_s=0, run_s=100, size=9)], nodes("1x1"), until_s=10)
    assert page({"easy": outcome}, workload="w", cluster="1x1").count("Nothing ran.") == 4


def test_users_evictions_and_dollars_are_shown_where_there_are_any():
    work = [Submission(at_s=0, run_s=100, user="ann"), Submission(at_s=0, run_s=100, user="<bob>")]
    outcome = simulate(work, nodes("1x1"))
    text = page({"easy": outcome}, workload="w", cluster="1x1", gpu_price=36.0)
    assert "Fairness between users" in text
    assert "&lt;bob&gt;" in text
    assert "<th>idle $</th>" in text
    assert "<th>lost GPU&#8209;h</th>" in text
    assert "Work lost to evictions" not in text
    outcome.restarted(outcome.runs[0], 150.0)
    assert "Work lost to evictions" in page({"easy": outcome}, workload="w", cluster="1x1")


def test_what_gangs_hold_that_cannot_start_is_shown_and_paid_for():
    simulation = OneByOne(
        [Submission(at_s=0, run_s=100, size=30), Submission(at_s=0, run_s=100, size=30)], nodes("40x1")
    )
    for _ in simulation.steps():
        pass
    text = page({"one-by-one": simulation.outcome}, workload="w", cluster="40x1", gpu_price=2.0)
    assert "Held by gangs that cannot start" in text
    assert "given back 1 time" in text
    figures = simulation.outcome.figures
    assert f"<td>{(figures['idle_gpu_h'] + figures['blocked_gpu_h']) * 2:,.0f}</td>" in text


def test_a_simulation_that_was_cut_short_says_so():
    outcome = simulate(WORK, nodes("4x1"), until_s=50)
    outcome.cut_short_s = 50.0
    assert "<b>easy was cut short</b> after 50s" in page({"easy": outcome}, workload="w", cluster="4x1")


def test_all_policies_have_the_same_time_axis():
    """The second policy takes twice as long: under the first, bars end in the middle of the picture."""
    slow = [Submission(at_s=0, run_s=200)]
    outcomes = {"fast": simulate([Submission(at_s=0, run_s=100)], nodes("1x1")), "slow": simulate(slow, nodes("1x1"))}
    bars = re.findall(r'<rect x="64.0" y="12" width="([0-9.]+)"', page(outcomes, workload="w", cluster="1x1"))
    assert [float(each) for each in bars] == [398.0, 796.0]


def gantt(outcome, **told):
    return page({"easy": outcome}, workload="w", cluster="c", **told).partition("Who ran when")[2]


def test_the_jobs_that_held_the_most_are_drawn_and_not_those_that_ended_last(monkeypatch):
    monkeypatch.setattr("pumice.sim.report.GANTT_JOBS_MAX", 1)
    outcome = simulate([Submission(at_s=0, run_s=1000, size=4), Submission(at_s=5000, run_s=10, size=4)], nodes("4x1"))
    text = gantt(outcome)
    assert "<title>4 slots, waited 0s, ran 16m40s</title>" in text
    assert "1 smaller ones are not drawn." in text


def test_each_attempt_of_a_job_that_was_evicted_is_a_bar():
    outcome = simulate([Submission(at_s=0, run_s=100, size=2)], nodes("4x1"))
    run = outcome.runs[0]
    outcome.held, run.end_s, run.restarts = (
        [(0.0, run, 2), (60.0, run, -2), (200.0, run, 2), (300.0, run, -2)],
        300.0,
        1,
    )
    text = gantt(outcome)
    assert "<title>2 slots, waited 0s, ran 60s and was evicted</title>" in text
    assert "<title>2 slots, begun anew, ran 100s</title>" in text


def test_what_runs_when_a_simulation_is_cut_short_is_drawn_until_then():
    outcome = simulate(WORK, nodes("4x1"), until_s=50)
    outcome.cut_short_s = 50.0
    assert "<title>3 slots, waited 0s, ran 50s until then</title>" in gantt(outcome)


def test_long_names_of_users_stand_slanted_and_whole_beside_their_dots():
    names = [f"researcher-{number:03}-of-a-team" for number in range(20)]
    work = [Submission(at_s=0, run_s=100, user=name) for name in names]
    text = page({"easy": simulate(work, nodes("4x1"))}, workload="w", cluster="4x1")
    assert text.count("rotate(-38") == 20
    assert ">researcher-000-…</text>" in text
    assert "<title>researcher-000-of-a-team, easy: 1.0</title>" in text
    short = [Submission(at_s=0, run_s=100, user=f"user-{number}") for number in range(20)]
    assert "rotate" not in page({"easy": simulate(short, nodes("4x1"))}, workload="w", cluster="4x1")


def test_who_leaves_jobs_waiting_for_ever_is_not_the_best():
    """Its waits are short and its end is early, because others wait still."""
    good = simulate(WORK, nodes("4x1"))
    bad = simulate(WORK, nodes("3x1"))
    text = page({"good": good, "<bad>": bad}, workload="w", cluster="4x1")
    assert "<b>&lt;bad&gt;: 1 job never started</b>: waits and slowdowns are those of the others." in text
    assert bad.figures["makespan_s"] < good.figures["makespan_s"]
    first, second = re.findall(r"<tr><td><i.*?</tr>", text)[:2]
    assert '<td class="best">' in first
    assert "best" not in second


def test_slowdowns_that_are_all_alike_are_a_line_too():
    text = page({"easy": simulate([Submission(at_s=0, run_s=100)], nodes("1x1"))}, workload="w", cluster="1x1")
    assert "1 job, 1 slot;" in text
    points = re.findall(r'<polyline points="([^"]*)"', text.partition("Bounded slowdown")[2])[0].split()
    assert points == ["64.0,206.0", "64.0,12.0", "860.0,12.0"]
