"""Real GPUs: what NVML said on a machine with an H200, replayed."""

import os
import subprocess
import sys

import pytest
from tests.bodies.recorded_nvml import RecordedNvml

from pumice.api import decoding
from pumice.api.pods import Pod
from pumice.cluster.cards import Slice
from pumice.cluster.gpu_use import PodGpuUse
from pumice.errors import BadInput
from pumice.local.nodes.process.devices import Devices, Gpu, capacity_of, labels_of
from pumice.local.nodes.process.gpu_meter import GpuMeter, owners
from pumice.local.nodes.process.nvml import CardUse, Nvml, ProcessUse
from pumice.runtime import silent

H200 = "GPU-5aeb0008-6f60-2310-6852-d0bc5bfcc740"
HALF = 71_885


def opened(**given):
    library = RecordedNvml(**given)
    return library, Nvml.open(silent, library)


def test_cards_are_known_by_uuid_memory_and_model():
    _, nvml = opened(cards=2)
    assert nvml.gpus() == [
        Gpu(H200, 143_771, "NVIDIA H200"),
        Gpu(f"{H200[:-1]}1", 143_771, "NVIDIA H200"),
    ]


def test_a_card_that_was_cut_is_given_out_in_its_partitions():
    _, nvml = opened(name="h200_mig")
    gpus = nvml.gpus()
    assert capacity_of(gpus) == {"nvidia.com/mig-3g.71gb": "1", "nvidia.com/mig-1g.18gb": "1"}
    labels = labels_of(gpus)
    assert (labels["nvidia.com/mig.strategy"], labels["nvidia.com/mig-1g.18gb.count"]) == ("mixed", "1")
    (first, second) = nvml.look()
    assert (first.percent, second.percent) == (None, None)  # the driver does not say
    meter = GpuMeter()
    meter.note({"pod": [Slice(first.id, 71_424, 100)]}, [first, second], {}, 0.0)
    assert meter.uses(0.0) == {}


def test_a_machine_without_driver_or_cards_says_what_to_do():
    with pytest.raises(BadInput, match="NVML says NVML error 9; is NVIDIA's driver installed"):
        opened(driver=False)
    _, nvml = opened(cards=0)
    with pytest.raises(BadInput, match="NVML finds no GPU that can be given away"):
        nvml.gpus()


def test_what_processes_use_of_a_card_is_told_apart():
    _, nvml = opened()
    nvml.gpus()
    assert nvml.look() == [CardUse(H200, 0.0, 615, ())]
    assert nvml.look() == [CardUse(H200, 99.0, 1845, (ProcessUse(431, 1222, 85.0),))]
    (third,) = nvml.look()
    assert (third.percent, third.memory_mib) == (100.0, 3073)
    assert third.processes == (ProcessUse(431, 1222, 81.0), ProcessUse(457, 1222, 14.0))


def test_a_card_that_does_not_answer_is_told_of_once_and_the_others_still_count():
    told = []
    library = RecordedNvml(cards=2)
    nvml = Nvml.open(lambda event, **fields: told.append((event, fields["gpu"])), library)
    nvml.gpus()
    library.lost.add(library.cards[1])
    assert [len(nvml.look()) for _ in range(3)] == [1, 1, 1]
    assert told == [("gpu_does_not_answer", library.cards[1])]


def test_pods_that_share_a_card_have_the_part_of_their_processes():
    _, nvml = opened()
    nvml.gpus()
    meter, held = GpuMeter(), {"one": [Slice(H200, HALF, 0)], "two": [Slice(H200, HALF, 0)]}
    for second in (0.0, 5.0, 10.0):
        meter.note(held, nvml.look(), {431: "one", 457: "two"}, second)
    uses = meter.uses(10.0)
    assert uses["one"] == PodGpuUse(percent=round((0 + 85 + 81) / 3, 1), peak=85.0, memory_mib=1222)
    assert uses["two"] == PodGpuUse(percent=round(14 / 3, 1), peak=14.0, memory_mib=1222)
    meter.note({"two": held["two"]}, nvml.look(), {457: "two"}, 15.0)
    assert meter.uses(15.0).keys() == {"two"}


def test_a_pod_that_has_a_card_for_itself_has_all_of_what_is_used():
    meter = GpuMeter()
    cards = [CardUse("GPU-a", 40.0, 2000, ()), CardUse("GPU-b", 0.0, 1000, ())]
    meter.note({"one": [Slice("GPU-a", 24_000, 100), Slice("GPU-b", 24_000, 100)]}, cards, {}, 0.0)
    assert meter.uses(0.0) == {"one": PodGpuUse(20.0, 20.0, 3000)}


def test_processes_of_nobody_make_nobody_who_shares_the_card_look_idle():
    """As where the agent runs in a namespace of its own, and NVML's process ids mean nothing to it."""
    meter = GpuMeter()
    card = CardUse("GPU-a", 70.0, 2000, (ProcessUse(99, 1000, 70.0),))
    meter.note({"one": [Slice("GPU-a", 1, 0)], "two": [Slice("GPU-a", 1, 0)]}, [card], {}, 0.0)
    assert {uid: use.percent for uid, use in meter.uses(0.0).items()} == {"one": 70.0, "two": 70.0}


def test_a_peak_is_forgotten_after_ten_minutes():
    meter, held = GpuMeter(), {"one": [Slice("GPU-a", 24_000, 100)]}
    meter.note(held, [CardUse("GPU-a", 90.0, 0)], {}, 0.0)
    for second in range(5, 600, 5):
        meter.note(held, [CardUse("GPU-a", 1.0, 0)], {}, float(second))
    assert meter.uses(595.0)["one"] == PodGpuUse(1.0, 90.0, 0)
    meter.note(held, [CardUse("GPU-a", 1.0, 0)], {}, 605.0)
    assert meter.uses(605.0)["one"] == PodGpuUse(1.0, 1.0, 0)


def test_processes_belong_to_the_pod_whose_namespace_they_are_in():
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert owners([process.pid, 2**22 + 1], {os.getpid(): "here"}) == {process.pid: "here"}
        assert owners([process.pid], {2**22 + 1: "gone"}) == {}
        process.stdin.close()


def test_partitions_are_given_out_by_their_profile():
    devices = Devices([Gpu("MIG-a", 16_384, "H200", "nvidia.com/mig-1g.18gb"), Gpu("GPU-b", 143_771, "H200")])
    container = {"name": "c", "resources": {"limits": {"nvidia.com/mig-1g.18gb": "1"}}}
    pod = decoding.decode_value(Pod, {"metadata": {"name": "p", "uid": "p"}, "spec": {"containers": [container]}})
    assert [part.uuid for part in devices.take(pod)["c"]] == ["MIG-a"]
    assert [part.uuid for part in devices.held["p"]] == ["MIG-a"]
