"""A month's bill, and the page that shows it."""

import xml.etree.ElementTree as ET

import pytest

from pumice.errors import BadInput
from pumice.record import chargeback, model, page
from pumice.record.model import Report, UsageRow
from pumice.record.usage import capacity_within

T0 = 1_793_491_200  # 2026-11-01T00:00:00Z
DAY = 86_400
GPU = "nvidia.com/gpu"


def a_report(**more):
    rows = [
        UsageRow("research", GPU, 100.0, 10.0),
        UsageRow("research", "cpu", 400.0, 40.0),
        UsageRow("product", GPU, 20.0, 0.0),
    ]
    fields = {
        "since": T0, "until": T0 + 30 * DAY, "by": "team", "rows": rows, "days": [(T0, "research", 60.0), (T0 + DAY, "product", 20.0)],
        "capacity": {GPU: 200.0, "cpu": 1000.0}, "gaps": [],
    }  # fmt: skip
    return Report(**{**fields, **more})


def test_a_bill_has_what_was_used_lost_and_idle_in_hours_and_dollars():
    bill = chargeback.bill(a_report(), {GPU: 2.0, "cpu": 0.1})
    assert [
        (line.name, line.gpu_hours, line.lost_gpu_hours, line.dollars, line.lost_dollars) for line in bill.lines
    ] == [
        ("research", 100.0, 10.0, 240.0, 24.0),
        ("product", 20.0, 0.0, 40.0, 0.0),
    ]
    assert (bill.total.gpu_hours, bill.total.dollars) == (120.0, 280.0)
    assert (bill.capacity_gpu_hours, bill.idle_gpu_hours, bill.idle_dollars) == (200.0, 80.0, 80 * 2.0 + 600 * 0.1)


def test_without_prices_and_without_known_capacity_there_are_no_such_figures():
    bill = chargeback.bill(a_report(capacity={}), {})
    assert (bill.total.dollars, bill.idle_gpu_hours, bill.idle_dollars) == (None, None, None)


def test_capacity_is_a_step_function_of_time():
    steps = [(T0 - 50, GPU, 4.0), (T0 + 10, GPU, 8.0), (T0 + 20, "cpu", 1.0), (T0 + 1000, GPU, 99.0)]
    assert capacity_within(steps, T0, T0 + 100) == {GPU: 4.0 * 10 + 8.0 * 90, "cpu": 80.0}
    assert capacity_within([], T0, T0 + 100) == {}


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><svg onload=x>', "a & b", "'; drop table gangs; --"])
def test_whatever_an_account_is_called_the_page_only_shows_it(name):
    report = a_report(rows=[UsageRow(name, GPU, 5.0, 1.0)], days=[(T0, name, 5.0)], gaps=[(T0, T0 + 60, 12)])
    text = page.html(report, chargeback.bill(report, {GPU: 2.0}), title=f"GPU use of {name}")
    assert "<script" not in text
    tree = ET.fromstring(
        text.replace("<!doctype html>", "").replace('<meta charset="utf-8">', "").replace("inline'\">", "inline'\"/>")
    )
    cells = ["".join(cell.itertext()) for cell in tree.iter("td")]
    assert cells[0] == name
    assert next(each.text for each in tree.iter("title")) == f"GPU use of {name}"
    assert "12 rows were given up between 2026-11-01T00:00:00Z" in text


def test_the_plot_has_a_bar_for_each_day_and_account_within_its_frame():
    rows = [UsageRow(f"team-{number:02}", GPU, 20.0 - number, 0.0) for number in range(12)]
    days = [(T0 + day * DAY, row.name, row.used_hours / 30) for day in range(30) for row in rows]
    report = a_report(rows=rows, days=days)
    plot = page.daily(report, chargeback.bill(report, {}))
    assert [name for _, name in plot.legend] == [f"team-{number:02}" for number in range(8)] + ["others"]
    assert len(plot.bars) == 30 * 9
    assert all(bar.x >= page.MARGIN and bar.x + bar.width <= page.WIDTH - page.MARGIN for bar in plot.bars)
    assert all(
        bar.y >= page.MARGIN - 0.1 and bar.y + bar.height <= page.HEIGHT - page.MARGIN + 0.1 for bar in plot.bars
    )


@pytest.mark.parametrize(
    ("hours", "ticks"),
    [
        (0.19, ["0", "0.05", "0.1", "0.15", "0.2"]),
        (12_345.0, ["0", "5,000", "10,000", "15,000", "20,000"]),
        (8.0, ["0", "2", "4", "6", "8"]),
    ],
)
def test_the_axis_has_numbers_that_people_write(hours, ticks):
    report = a_report(rows=[UsageRow("team", GPU, hours, 0.0)], days=[(T0, "team", hours)])
    assert [text for _, text in page.daily(report, chargeback.bill(report, {})).ticks] == ticks


def test_an_empty_month_has_a_page_too():
    report = a_report(rows=[], days=[], capacity={})
    assert "total" in page.html(report, chargeback.bill(report, {}), title="nothing")


def test_the_plot_of_a_day_has_a_bar_for_each_hour():
    rows = [UsageRow("team", GPU, 24.0, 0.0)]
    days = [(T0 + hour * 3600, "team", 1.0) for hour in range(24)]
    report = a_report(rows=rows, days=days, until=T0 + DAY, step=3600)
    plot = page.daily(report, chargeback.bill(report, {}))
    assert len({bar.x for bar in plot.bars}) == 24
    assert plot.bars[1].title == "2026-11-01 01:00 team: 1.00 GPU-hours"
    assert [text for _, text in plot.days][:2] == ["00:00", "02:00"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"step": "week"}, "step='week': there are day, hour"),
        ({"step": "hour", "until": str(T0 + 40 * DAY)}, "more than 400; ask for a shorter time"),
    ],
)
def test_steps_that_cannot_be_told_are_refused(query, said):
    with pytest.raises(BadInput, match=said):
        model.period_of({"by": "team", "since": str(T0), "until": str(T0 + DAY), **query})
