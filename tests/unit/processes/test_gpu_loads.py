"""What DCGM measured, from a program that answers like Prometheus over a real socket; and what is told of it."""

import json
from urllib.parse import parse_qs, urlsplit

from tests.unit.processes.peers import Peer, always, answer
from tests.unit.processes.test_loads import Heard, a_policy
from tests.unit.processes.test_scheduler_metrics import lines
from tests.unit.scheduling.clusters import NOW, a_cluster, a_gang, a_node, a_queue, when

from pumice import instant
from pumice.api import names
from pumice.clock import VirtualClock
from pumice.cluster import gpu_use as reports
from pumice.cluster.gpu_use import PodGpuUse, Report
from pumice.processes import gpu_loads
from pumice.processes.gpu_loads import GangGpus, MeasuredGpus
from pumice.processes.load_settings import settings_of
from pumice.telemetry.meters import Meters

MINE = {"exported_namespace": "ml", "exported_pod": "train-0", "namespace": "gpu-operator", "pod": "dcgm-exporter-x"}
HONOURED = {"namespace": "ml", "pod": "infer-0"}


def dcgm(**values):
    """Answers the three questions with values for two pods and a card that nobody has."""

    def serve(peer, connection):
        first, _, _ = peer.request(connection)
        query = parse_qs(urlsplit(first.split()[1]).query)["query"][0]
        what = {
            gpu_loads.PEAK_QUERY: "peak",
            gpu_loads.PERCENT_QUERY: "percent",
            gpu_loads.MEMORY_QUERY: "memory",
        }[query]
        mine, theirs = values[what]
        result = [
            {"metric": MINE, "value": [1.5, mine]},
            {"metric": HONOURED, "value": [1.5, theirs]},
            {"metric": {}, "value": [1.5, "7"]},
        ]
        body = {"status": "success", "data": {"resultType": "vector", "result": result}}
        connection.sendall(answer(json.dumps(body).encode()))

    return serve


def measuring(address, **more):
    policy, clock, heard = a_policy(type="prometheus", address=address, **more), VirtualClock(NOW), Heard()
    return MeasuredGpus(lambda: policy, clock=clock, log=heard), settings_of(policy), clock, heard


async def test_prometheus_is_asked_what_pods_use_under_either_name_of_the_labels():
    with Peer(dcgm(peak=("3", "97"), percent=("1.5", "80"), memory=("1024", "NaN"))) as peer:
        gpus, settings, _, heard = measuring(peer.address)
        await gpus.measure(settings)
    assert gpus.current == {"ml/train-0": PodGpuUse(1.5, 3.0, 1024), "ml/infer-0": PodGpuUse(80.0, 97.0, 0)}
    assert [event for event, _ in heard.lines] == ["gpus_measured"]


async def test_a_prometheus_without_dcgm_is_asked_once_a_round_and_says_nothing():
    empty = answer(json.dumps({"status": "success", "data": {"result": []}}).encode())
    with Peer(always(empty)) as peer:
        gpus, settings, _, _ = measuring(peer.address)
        await gpus.measure(settings)
        assert len(peer.requests) == 1
    assert gpus.current == {}


async def test_without_an_answer_the_last_one_holds_for_five_minutes_and_the_failure_is_told_once():
    with Peer(dcgm(peak=("3", "97"), percent=("1.5", "80"), memory=("1024", "1"))) as peer:
        gpus, settings, clock, heard = measuring(peer.address)
        await gpus.measure(settings)
    await gpus.measure(settings)
    await gpus.measure(settings)
    assert len(gpus.current) == 2
    assert [event for event, _ in heard.lines] == ["gpus_measured", "gpus_not_measured"]
    clock.jump(gpu_loads.STALE_S)
    assert gpus.current == {}


# ------------------------------------------------------------------------------------------------------------ gangs


def test_gpus_that_are_held_for_nothing_are_counted_by_queue_with_what_they_cost():
    meters, policy = Meters(), a_policy()
    lazy = {f"default/g-w-{number}": PodGpuUse(0.0, 1.0) for number in range(2)}
    report = reports.write(Report(instant.format_instant(NOW), lazy))
    snapshot = a_cluster(
        a_queue("team"),
        a_node("n1", gpu=8, annotations={names.GPU_USE: report}),
        a_gang("g", 2, running=["n1", "n1"], gpu=3, group={"queue": "team"}, status={"startTime": when(0)}),
    ).snapshot()
    gpus = MeasuredGpus(lambda: policy, clock=VirtualClock(NOW), log=Heard())
    gangs = GangGpus(gpus, meters, {"nvidia.com/gpu": 2.5})
    assert gangs.look(snapshot, NOW)["default/g"].is_idle
    series = 'queue="team",resource="nvidia.com/gpu"'
    assert lines(meters, "pumice_idle_gang_gpus") == {series: 6.0}
    assert lines(meters, "pumice_idle_gang_dollars_per_hour") == {series: 15.0}
    emptied = a_cluster(a_queue("team"), a_node("n1", gpu=8)).snapshot()
    assert gangs.look(emptied, NOW + gpu_loads.ANEW) == {}
    assert lines(meters, "pumice_idle_gang_gpus") == {}
