"""What pages make of a view, on literal clusters."""

import re

import msgspec
import numpy as np
import pytest
from tests.unit.readmodel.test_build import CAPACITY, views_of
from tests.unit.scheduling.clusters import NOW, a_gang, a_hyper_node, a_node, a_queue

from pumice import instant
from pumice.clock import VirtualClock
from pumice.dashboard import figures, rendering
from pumice.dashboard.answers import Answers
from pumice.dashboard.pages import gangs, history, nodes, overview, queues, timeline
from pumice.readmodel import model
from pumice.record.model import Report

GPU = "nvidia.com/gpu"


def test_totals_tell_what_is_used_idle_and_of_no_use():
    state = views_of(
        a_node("n1", cpu="64", gpu=8), a_node("n2", cpu="64", gpu=8), a_gang("one", 1, gpu=6, running=["n1"]),
        a_gang("big", 2, gpu=8),
    ).state()  # fmt: skip
    told = overview.totals(state.totals)
    assert (told.resource, told.noun, told.total, told.used, told.idle) == (GPU, "GPUs", 16, 6, 10)
    assert (told.each, told.fragmented) == (8, 2)
    assert [(each.kind, each.width) for each in told.bars] == [("used", 37.5), ("fragmented", 12.5), ("idle", 50.0)]


def test_gangs_that_use_nothing_of_what_they_hold_are_told_with_their_gpus():
    state = views_of(
        a_node("n1", cpu="64", gpu=8), a_gang("busy", 1, gpu=2, running=["n1"]), a_gang("idle", 1, gpu=4, running=["n1"]),
        a_gang("unmeasured", 1, gpu=1, running=["n1"]),
    ).state()  # fmt: skip
    uses = {"default/busy": model.GpuUse(1, 80.0), "default/idle": model.GpuUse(1, 1.0, idle=True)}
    told = [msgspec.structs.replace(each, gpu_use=uses.get(each.key)) for each in state.gangs]
    assert overview.held_for_nothing(msgspec.structs.replace(state, gangs=told), GPU) == (1, 4)


def test_waiting_gangs_are_counted_by_reason():
    state = views_of(a_node("n1", gpu=8), a_gang("a", 2, gpu=8), a_gang("b", 3, gpu=8), a_gang("c", 1, gpu=1)).state()
    first, *_ = overview.reasons(state, GPU)
    assert (first.gangs, first.share, first.cure) == (2, 100.0, "change")
    assert first.sentence.startswith("can never run here: ")


def test_queues_are_a_tree_with_bars_and_marks():
    state = views_of(
        a_node("n1", cpu="8"),
        a_queue("team", deserved={"cpu": "4"}, capability={"cpu": "6"}),
        a_queue("child", parent="team", deserved={"cpu": "1"}),
        a_gang("runs", 3, running=["n1"] * 3, group={"queue": "child", "phase": "Running"}),
        policy=CAPACITY,
    ).state()
    rows = {each.queue.name: each for each in queues.rows(state, "cpu")}
    assert [(name, each.depth) for name, each in rows.items()] == [("default", 0), ("team", 0), ("child", 1)]
    assert (rows["child"].held, rows["child"].borrowed, rows["child"].deserved) == (3, 2, 1)
    assert queues.scale(state, "cpu") == 3  # no queue holds, deserves or may have more
    assert [each.width for each in rows["child"].bars] == [33.33, 66.67]


def test_a_limit_beyond_the_scale_has_no_mark():
    """A bar that ends at 6 has no place for a limit of 8: at its end it would say that the queue is nearly there."""
    state = views_of(
        a_node("n1", cpu="8"),
        a_queue("small", deserved={"cpu": "6"}),
        a_queue("wide", capability={"cpu": "8"}),
        policy=CAPACITY,
    ).state()
    marks = {each.queue.name: [kind for kind, _ in each.marks] for each in queues.rows(state, "cpu")}
    assert "deserved" in marks["small"]
    assert "limit" not in marks["wide"]


def test_a_ring_of_parents_ends():
    state = views_of(a_node("n1"), a_queue("a", parent="b"), a_queue("b", parent="a")).state()
    assert {each.queue.name for each in queues.rows(state, "cpu")} <= {"default", "a", "b"}


def test_gpus_are_squares_in_the_colour_of_their_holder():
    state = views_of(
        a_node("n1", cpu="64", gpu=4), a_node("n2", gpu=4), a_hyper_node("rack", 1, nodes=["n1"]),
        a_gang("a", 1, gpu=1, running=["n1"]), a_gang("b", 1, gpu=2, running=["n1"]),
    ).state()  # fmt: skip
    groups = nodes.grouped(state.nodes)
    assert {name: [each.name for each in own] for name, own in groups.items()} == {
        "rack": ["n1"], "in no hyper node": ["n2"],
    }  # fmt: skip
    tile = nodes._tile(state.nodes[0], nodes._GangLooks(state, GPU, "gang"), {})
    assert (tile.used, tile.total, len(tile.squares)) == (3, 4, 4)
    assert [(piece.x, piece.width, piece.look) for piece in tile.pieces] == [
        (0, 14, "look c0"),
        (17, 14, "look c1"),
        (34, 14, "look c1"),
    ]
    assert tile.pieces[0].title.startswith("default/a, queue default, since ")


def test_many_nodes_are_drawn_as_groups():
    state = views_of(*(a_node(f"n{number:04}", gpu=8) for number in range(nodes.NODES_DRAWN_MAX + 1))).state()
    groups = nodes.grouped(state.nodes)
    assert max(map(len, groups.values())) <= nodes.GROUP_NODES
    assert sum(map(len, groups.values())) == nodes.NODES_DRAWN_MAX + 1


def test_a_fraction_of_a_gpu_fills_a_part_of_a_square():
    state = views_of(a_node("n1", gpu=2), a_gang("a", 1, gpu=1, running=["n1"])).state()
    [node] = state.nodes
    half = type(node)(
        node.name, node.allocatable, {**node.used, GPU: "500m"}, node.free, node.gangs, {"default/a": {GPU: "500m"}}
    )
    tile = nodes._tile(half, nodes._GangLooks(state, GPU, "queue"), {})
    assert [piece.width for piece in tile.pieces] == [7.0]


def test_links_keep_what_was_chosen_and_escape_it():
    assert gangs.link({"queue": "a&b", "q": ""}, page="2") == "/gangs?queue=a%26b&page=2"


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_a_spreadsheet_gets_no_formulas(cell):
    assert history.csv_text([[cell, -1, "a,b"]]).startswith(f"'{cell},-1,") or "\t" in cell


def test_a_timeline_shows_what_runs_and_waits():
    state = views_of(
        a_node("n1", gpu=8),
        a_gang("runs", 1, gpu=8, running=["n1"], group={"phase": "Running"}),
        a_gang("waits", 1, gpu=8),
    ).state()
    lines = list(timeline.by_queue(timeline.in_order(list(state.gangs)), NOW, {"default": "look c0"}))
    drawing = timeline.draw(lines, NOW)
    assert (drawing.rows[0].line.label, drawing.rows[0].bars) == ("default", ())  # a heading
    kinds = {row.line.label: [bar.kind for bar in row.bars] for row in drawing.rows}
    assert kinds["runs"] in (["open look c0"], ["running look c0"])
    assert kinds["waits"][0] == "waiting look c0"
    assert all(timeline.LEFT <= bar.x <= timeline.WIDTH for row in drawing.rows for bar in row.bars)


def test_a_timeline_by_node_has_gangs_beside_each_other_and_those_that_are_expected_there():
    state = views_of(
        a_node("n1", cpu="64", gpu=8),
        a_node("n2", gpu=8),
        a_gang("one", 1, gpu=2, running=["n1"], group={"phase": "Running"}),
        a_gang("two", 1, gpu=2, running=["n1"], group={"phase": "Running"}),
        a_gang("soon", 2, gpu=8),
    ).state()
    later = instant.format_instant(NOW + instant.HOUR)
    forecast = model.Forecast(instant.format_instant(NOW), later, later, nodes={"n2": 1})
    told = [
        msgspec.structs.replace(each, forecast=forecast) if each.name == "soon" else each
        for each in state.gangs
        if each.name != "two"  # of a namespace that this reader does not see
    ]
    nodes_seen = [
        msgspec.structs.replace(each, gangs={("others" if gang == "default/two" else gang): 1 for gang in each.gangs})
        for each in state.nodes
    ]
    first, second = timeline.by_node(nodes_seen, told, NOW, {"default": "look c3"})
    assert [(span.kind, span.lane, span.lanes) for span in first.spans] == [("running", 0, 2), ("others", 1, 2)]
    assert [span.kind for span in second.spans] == ["forecast"]
    bars = timeline.draw([first, second], NOW).rows[0].bars
    assert bars[0].y + bars[0].height <= bars[1].y
    assert [each.kind for each in bars] == ["running look c3", "others"]


@pytest.mark.parametrize(
    ("hours", "first", "count"),
    [
        (0.005, "10:03:00", 10),
        (1, "10:10", 6),
        (6, "11:00", 6),
        (30, "16 Nov 12:00", 5),
        (24 * 30, "18 Nov", 6),
        (24 * 900, "13 Dec", 9),
    ],
)
def test_an_axis_has_round_times(hours, first, count):
    begin = instant.parse_instant("2026-11-16T10:03:00Z")
    told = figures.ticks(begin, begin + int(hours * instant.HOUR), 10)
    assert (told[0][1], len(told)) == (first, count)
    assert all(begin <= at <= begin + hours * instant.HOUR for at, _ in told)


def test_what_queues_held_in_the_last_day_is_a_bar_for_each_hour_and_those_above_have_what_is_below():
    state = views_of(a_node("n1", gpu=8), a_queue("team"), a_queue("child", parent="team")).state()
    since = 1_700_000_000 // 3600 * 3600
    report = Report(
        since, since + 86_400, "queue", [], [(since, "child", 4.0), (since + 7200, "team", 2.0)], {}, [], 3600
    )
    found = queues.pasts(queues.rows(state, GPU), report)
    assert set(found) == {"team", "child"}
    assert found["team"].mean == 6 / 24
    assert [(x, tall) for x, tall, _ in found["team"].bars] == [(0, 22.0), (6, 11.0)]
    assert found["child"].bars[0][2].endswith(" UTC: 4 on average")


def test_a_jobs_own_name_is_told_instead_of_its_groups():
    [gang] = views_of(a_node("n1"), a_gang("train-1f2e", 1)).state().gangs
    named = msgspec.structs.replace(gang, job="train")
    short = figures.by_job([named])
    assert short("when default/train-1f2e, x/y (nvidia.com/gpu: 1)") == "when default/train, x/y (nvidia.com/gpu: 1)"


async def test_samples_of_a_metric_are_added_up_and_its_rate_is_told_once_it_is_known():
    clock, told = VirtualClock(), ['# TYPE a_total counter\na_total{x="1"} 2\na_total{x="2"} 3\n']

    class Leader:
        async def ask(self, question):
            assert question[0] == "/metrics"
            return told[-1].encode()

    answers = Answers(Leader(), Leader(), None, None, clock)
    first = await answers.metrics()
    assert (first.sums, first.per_s) == ({"a_total": 5.0}, {})
    clock.jump(10.0)
    told.append("# TYPE a_total counter\na_total 25\n")
    assert (await answers.metrics()).per_s == {"a_total": 2.0}
    clock.jump(10.0)
    told.append("# TYPE a_total counter\na_total 1\n")  # another process leads
    assert (await answers.metrics()).per_s == {}


def test_that_time_passes_changes_nothing_that_has_to_be_sent():
    first, later = (rendering.ago("2026-11-01T00:00:00Z", instant.parse_instant(now)) for now in (
        "2026-11-01T00:01:00Z", "2026-11-01T00:02:00Z",
    ))  # fmt: skip
    assert first != later
    assert rendering.digest(str(first)) == rendering.digest(str(later))


def test_names_with_numbers_are_in_their_order():
    names = ["node-10", "node-9", "a-1-2", "node-9b", "9", "b" + "1" * 40]
    assert sorted(names, key=figures.natural) == ["9", "a-1-2", "b" + "1" * 40, "node-9", "node-9b", "node-10"]


def test_numbers_are_short():
    assert [figures.number(each) for each in (1, 1.25, 12_345, np.float64(2.0))] == ["1", "1.2", "12,345", "2"]


def test_no_two_queues_look_alike_and_what_is_too_many_is_told_as_such():
    names = [f"q{number:02}" for number in range(figures.COLOURS * len(figures.PATTERNS))]
    looks = figures.looks_of(dict.fromkeys(reversed(names), 1.0))
    assert len(set(looks.values())) == len(names) == 30
    assert [looks[name] for name in ("q00", "q10", "q20")] == ["look c0", "look c0 striped", "look c0 hatched"]
    more = figures.looks_of({**dict.fromkeys(names, 1.0), "a": 0.5, "x": 0.0})
    assert more == {**looks, "a": figures.REST, "x": figures.REST}, "the largest can be told apart"


@pytest.mark.parametrize(
    ("look", "attributes"),
    [
        ("look c3", 'class="look c3"'),
        ("running look c3 striped", 'class="running look c3 striped" fill="url(#striped-c3)"'),
        (f"{figures.REST} borrowed", 'class="look grey hatched borrowed" fill="url(#hatched-grey)"'),
        ("promised", 'class="promised"'),
    ],
)
def test_patterns_are_drawings_of_the_page(look, attributes):
    assert rendering.painted(look) == attributes
    wanted = re.search(r"#([\w-]+)", attributes)
    drawings = rendering.environment().from_string("{{ ui.patterns(colours) }}").render()
    assert wanted is None or f'<pattern id="{wanted[1]}"' in drawings


def test_the_legend_of_nodes_names_every_look_that_it_shows():
    state = views_of(a_node("n1", gpu=1), *(a_queue(f"q{number:02}") for number in range(32))).state()
    painter = nodes._GangLooks(state, GPU, "queue")
    assert [name for _, name in painter.legend()] == ["default", *(f"q{number:02}" for number in range(29))]
    assert [name for name, look in painter.looks.items() if look == figures.REST] == ["q29", "q30", "q31"]
