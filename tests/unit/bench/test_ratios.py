"""What `make bench` calls worse."""

import json

import bench.__main__ as bench

PLAN = {"bench": "plan", "nodes": 1000, "gangs": 20, "size": 50, "seconds": 0.03, "calibrated": 2.0}


def test_lines_are_compared_by_what_they_measured_and_not_by_their_times():
    assert bench.figures([PLAN, {"bench": "pumice --help", "fastest_s": 0.1}]) == {"plan 1000 20 50 calibrated": 2.0}


def test_only_what_is_beyond_the_tolerance_is_worse_and_what_is_new_is_not():
    committed = bench.figures([PLAN])
    for ratio, count in ((1.0, 0), (2.9, 0), (3.1, 1)):
        assert len(bench.worse(bench.figures([{**PLAN, "calibrated": ratio}]), committed)) == count
    assert bench.worse({"plan 5 5 5 calibrated": 9.0}, committed) == []
    assert bench.worse({"plan 1000 20 50 calibrated": 3.5}, committed) == [
        "worse: plan 1000 20 50 calibrated: 3.5, was 2"
    ]


def test_a_share_of_the_limit_is_worse_when_it_is_less_and_a_write_beyond_the_budget_always():
    live = {"bench": "live burst", "nodes": 1000, "size": 50, "of_limit": 0.8, "over_budget": {}}
    committed = bench.figures([live])
    assert bench.worse(bench.figures([{**live, "of_limit": 0.7}]), committed) == []
    assert bench.worse(
        bench.figures([{**live, "of_limit": 0.6, "over_budget": {"patch jobs/status": 1, "create pods": 2}}]), committed
    ) == [
        "worse: live burst 1000 50 over_budget: 3, was 0",
        "worse: live burst 1000 50 of_limit: 0.6, was 0.8",
    ]


def test_the_committed_ratios_can_be_read():
    committed = json.loads(bench.RATIOS.read_text())
    assert committed
    assert all(name.rpartition(" ")[2] in bench.TOLERANCE and value >= 0 for name, value in committed.items())
