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
    assert "given back 1 times" in text
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
