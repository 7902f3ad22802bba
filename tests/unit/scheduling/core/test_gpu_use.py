"""Who holds GPUs for nothing, from literal clusters and measurements."""

import pytest
from tests.unit.scheduling.clusters import NOW, a_cluster, a_gang, a_node, when

from pumice import instant
from pumice.api import names
from pumice.cluster import gpu_use as reports
from pumice.cluster.gpu_use import PodGpuUse, Report
from pumice.scheduling.core.gpu_use import GangGpuUse, gang_uses

LONG_AGO = {"status": {"startTime": when(0)}}  # an hour before now
BUSY, LAZY = PodGpuUse(80.0, 95.0, 1000), PodGpuUse(1.0, 4.9, 500)


def uses(measured, *gangs, now=NOW):
    return gang_uses(a_cluster(a_node("n1", gpu=8), *gangs).snapshot().gangs.values(), measured, now)


def test_a_gang_all_of_whose_gpus_do_nothing_is_idle():
    gang = a_gang("g", 2, running=["n1", "n1"], gpu=1, **LONG_AGO)
    assert uses({"default/g-w-0": LAZY, "default/g-w-1": LAZY}, gang) == {"default/g": GangGpuUse(2, 1.0, 1000, True)}
    one_works = uses({"default/g-w-0": LAZY, "default/g-w-1": BUSY}, gang)
    assert one_works == {"default/g": GangGpuUse(2, 40.5, 1500, False)}


def test_a_pod_that_was_not_measured_makes_nobody_idle():
    gang = a_gang("g", 2, running=["n1", "n1"], gpu=1, **LONG_AGO)
    assert uses({"default/g-w-0": LAZY}, gang) == {"default/g": GangGpuUse(1, 1.0, 500, False)}
    assert uses({"default/other": LAZY}, gang) == uses({}, gang) == {}


def test_members_without_gpus_do_not_count():
    group, *workers = a_gang("g", 1, running=["n1"], gpu=1, **LONG_AGO)
    _, *launchers = a_gang("g", 2, running=["n1", "n1"], **LONG_AGO)
    assert uses({"default/g-w-0": LAZY}, group, workers, launchers[1:])["default/g"].is_idle


def test_a_gang_that_has_run_for_less_than_ten_minutes_is_not_idle():
    gang = a_gang("g", 1, running=["n1"], gpu=1, status={"startTime": when(3600 - 599)})
    assert not uses({"default/g-w-0": LAZY}, gang)["default/g"].is_idle
    assert uses({"default/g-w-0": LAZY}, gang, now=NOW + instant.SECOND)["default/g"].is_idle
    unborn = a_gang("h", 1, running=["n1"], gpu=1)
    assert not uses({"default/h-w-0": LAZY}, unborn)["default/h"].is_idle


@pytest.mark.parametrize("asks", [{names.VGPU_NUMBER: 1, names.VGPU_MEMORY: 1000}, {"nvidia.com/mig-1g.18gb": 1}])
def test_slices_and_partitions_are_gpus_too(asks):
    gang = a_gang("g", 1, running=["n1"], more=asks, **LONG_AGO)
    assert uses({"default/g-w-0": LAZY}, gang)["default/g"].is_idle


# ------------------------------------------------------------------------------------------------------------ reports


def a_reporting_node(name, at, pods):
    text = reports.write(Report(instant.format_instant(at), pods))
    return a_node(name, annotations={names.GPU_USE: text})


def test_what_nodes_report_is_read_as_long_as_it_is_fresh():
    nodes = [
        a_reporting_node("n1", NOW - instant.MINUTE, {"default/a": BUSY}),
        a_reporting_node("n2", NOW - 3 * instant.MINUTE, {"default/b": BUSY}),
        a_node("n3"),
    ]
    assert reports.reported(nodes, NOW) == {"default/a": BUSY}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"at": "yesterday"}', '{"at": 7}', '{"pods": {"a": {}}, "at": ""}'])
def test_what_is_no_report_says_nothing(text):
    assert reports.reported([a_node("n1", annotations={names.GPU_USE: text})], NOW) == {}
