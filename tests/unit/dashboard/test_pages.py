"""What pages make of a view, on literal clusters."""

import msgspec
import numpy as np
import pytest
from tests.unit.readmodel.test_build import CAPACITY, views_of
from tests.unit.scheduling.clusters import NOW, a_gang, a_hyper_node, a_node, a_queue

from pumice import instant
from pumice.dashboard import figures, rendering
from pumice.dashboard.pages import gangs, history, nodes, overview, queues, timeline
from pumice.dashboard.pages.health import sums
from pumice.readmodel import model

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
    assert [each.width for each in rows["child"].bars] == [12.5, 25.0]


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
    tile = nodes._tile(state.nodes[0], nodes._Painter(state, GPU, "gang"), {})
    assert (tile.used, tile.total, len(tile.squares)) == (3, 4, 4)
    assert [(piece.x, piece.width, piece.colour) for piece in tile.pieces] == [
        (0, 14, "c0"),
        (17, 14, "c1"),
        (34, 14, "c1"),
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
    tile = nodes._tile(half, nodes._Painter(state, GPU, "queue"), {})
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
    drawing = timeline.draw(timeline.in_order(list(state.gangs)), NOW, {"default": 0})
    kinds = {row.gang.name: [span.kind for span in row.spans] for row in drawing.rows}
    assert kinds["runs"] in (["open"], ["running"])
    assert kinds["waits"][0] == "waiting"
    assert all(timeline.LEFT <= span.x <= timeline.WIDTH for row in drawing.rows for span in row.spans)


def test_samples_of_a_metric_are_added_up():
    assert sums('# TYPE a_total counter\na_total{x="1"} 2\na_total{x="2"} 3\n') == {"a_total": 5.0}


def test_that_time_passes_changes_nothing_that_has_to_be_sent():
    first, later = (rendering.ago("2026-11-01T00:00:00Z", instant.parse_instant(now)) for now in (
        "2026-11-01T00:01:00Z", "2026-11-01T00:02:00Z",
    ))  # fmt: skip
    assert first != later
    assert rendering.digest(str(first)) == rendering.digest(str(later))


def test_numbers_are_short():
    assert [figures.number(each) for each in (1, 1.25, 12_345, np.float64(2.0))] == ["1", "1.2", "12,345", "2"]
