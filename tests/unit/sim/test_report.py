"""The report: one page that needs nothing else, with a picture for each question."""

import xml.dom.minidom

from pumice.sim import Submission, nodes, simulate
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
    assert "Work lost to evictions" not in text
    outcome.restarted(outcome.runs[0], 150.0)
    assert "Work lost to evictions" in page({"easy": outcome}, workload="w", cluster="1x1")
