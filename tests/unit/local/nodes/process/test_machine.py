import json
import os
import signal
import subprocess
import sys

import pytest

from pumice.api import decoding
from pumice.api.pods import Pod
from pumice.clock import RealClock
from pumice.cluster.cards import Slice
from pumice.errors import BadInput, Conflict
from pumice.local.nodes.process import addresses
from pumice.local.nodes.process.addresses import AddressBlock, NoAddress
from pumice.local.nodes.process.devices import Devices, Gpu, NoDevice, environment, fake
from pumice.local.nodes.process.leftovers import Leftovers, start_time
from pumice.local.nodes.process.machine import Machine, ProcessSettings

GPU = "nvidia.com/gpu"


# ------------------------------------------------------------------------------------------------------------ addresses


def test_two_nodes_of_one_machine_have_blocks_of_their_own():
    with AddressBlock() as one, AddressBlock() as other:
        assert one.node != other.node
        assert one.take("a").rpartition(".")[0] == one.node.rpartition(".")[0]


def test_every_pod_has_an_address_of_its_own_and_the_oldest_free_one_is_used_first():
    with AddressBlock() as block:
        first, second = block.take("a"), block.take("b")
        block.give_back("a")
        assert block.take("c") not in {first, second}
        rest = [block.take(f"p{number}") for number in range(len(addresses.HOSTS) - 3)]
        assert len({block.node, second, *rest}) == len(rest) + 2
        assert block.take("d") == first
        with pytest.raises(NoAddress, match="all 253 addresses of 127"):
            block.take("e")


# ------------------------------------------------------------------------------------------------------------ devices


def a_pod(*counts, inits=(), uid="u"):
    def container(name, count, **more):
        return {"name": name, "resources": {"limits": {GPU: str(count)}}, **more}

    spec = {
        "containers": [container(f"c{n}", count) for n, count in enumerate(counts)],
        "initContainers": [container(f"i{n}", count, **more) for n, (count, more) in enumerate(inits)],
    }
    return decoding.decode_value(Pod, {"metadata": {"name": uid, "uid": uid}, "spec": spec})


def seen(given):
    return {name: tuple(part.uuid for part in parts) for name, parts in given.items()}


def test_devices_are_given_to_one_pod_at_a_time():
    devices = Devices(fake(4))
    assert seen(devices.take(a_pod(2, uid="a"))) == {"c0": ("0", "1")}
    assert seen(devices.take(a_pod(1, uid="b"))) == {"c0": ("2",)}
    devices.give_back("a")
    assert seen(devices.take(a_pod(2, uid="c"))) == {"c0": ("0", "1")}
    with pytest.raises(NoDevice, match=r"pod d was promised 2 nvidia\.com/gpu, and 1 are free"):
        devices.take(a_pod(2, uid="d"))


def test_a_node_without_devices_gives_none():
    assert Devices(()).take(a_pod(2)) == {}


def test_containers_share_nothing_and_init_containers_use_what_will_be_theirs():
    pod = a_pod(1, 2, inits=[(3, {}), (1, {"restartPolicy": "Always"}), (2, {})])
    devices = Devices(fake(8))
    assert seen(devices.take(pod)) == {
        "i0": ("0", "1", "2"),
        "i1": ("0",),
        "i2": ("1", "2"),
        "c0": ("1",),
        "c1": ("2", "3"),
    }
    assert [part.uuid for part in devices.held["u"]] == ["0", "1", "2", "3"]


def a_sharing_pod(uid, slices, *limits):
    containers = [{"name": f"c{n}", "resources": {"limits": each}} for n, each in enumerate(limits)]
    metadata = {"name": uid, "uid": uid, "annotations": {"volcano.sh/vgpu-ids-new": slices} if slices else {}}
    return decoding.decode_value(Pod, {"metadata": metadata, "spec": {"containers": containers}})


TEN_GIB = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "10000"}
CARDS = (Gpu("GPU-a", 24_000, "RTX"), Gpu("GPU-b", 24_000, "RTX", is_shared=True))


def test_a_shared_card_is_given_in_slices_as_the_scheduler_has_written_them():
    devices = Devices(CARDS)
    first = a_sharing_pod("one", "GPU-b,NVIDIA,10000,30:", {"cpu": "1"}, TEN_GIB)
    assert devices.take(first) == {"c0": (), "c1": (Slice("GPU-b", 10_000, 30),)}
    both = a_sharing_pod("two", "GPU-b,NVIDIA,7000,0:;GPU-b,NVIDIA,7000,0:", TEN_GIB, TEN_GIB)
    assert seen(devices.take(both)) == {"c0": ("GPU-b",), "c1": ("GPU-b",)}
    assert seen(devices.take(a_pod(1, uid="whole"))) == {"c0": ("GPU-a",)}  # never the shared one
    with pytest.raises(NoDevice, match="would have given away 34000 of 24000 MiB"):
        devices.take(a_sharing_pod("three", "GPU-b,NVIDIA,10000,0:", TEN_GIB))
    devices.give_back("two")
    assert seen(devices.take(a_sharing_pod("three", "GPU-b,NVIDIA,10000,0:", TEN_GIB))) == {"c0": ("GPU-b",)}


def test_slices_that_no_scheduler_has_chosen_are_refused():
    devices = Devices(CARDS)
    with pytest.raises(NoDevice, match="asks for slices of GPUs in 1 containers, and its annotation"):
        devices.take(a_sharing_pod("one", "", TEN_GIB))
    with pytest.raises(NoDevice, match="a slice of GPU GPU-a, which is not shared here"):
        devices.take(a_sharing_pod("one", "GPU-a,NVIDIA,10000,0:", TEN_GIB))
    assert devices.held == {}


def test_a_container_is_told_which_cards_it_sees_and_what_of_them_is_its_own():
    assert environment(()) == {"CUDA_VISIBLE_DEVICES": ""}
    assert environment([Slice("GPU-a", 24_000, 100), Slice("GPU-c", 24_000, 100)]) == {
        "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-c"
    }
    assert environment([Slice("GPU-b", 10_000, 30)]) == {
        "CUDA_VISIBLE_DEVICES": "GPU-b",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "10000m",
        "CUDA_DEVICE_SM_LIMIT": "30",
    }


def test_a_node_counts_whole_cards_and_registers_shared_ones(tmp_path):
    facts = ProcessSettings(name="n", folder=tmp_path, gpus=CARDS, labels={"nvidia.com/gpu.count": "own"}).facts("", 0)
    assert facts.capacity[GPU] == "1"
    assert facts.annotations["volcano.sh/node-vgpu-register"] == "GPU-b,100,24000,RTX,true,hami-core:"
    assert (facts.labels["nvidia.com/gpu.product"], facts.labels["nvidia.com/gpu.count"]) == ("RTX", "own")


# ------------------------------------------------------------------------------------------------------------ leftovers


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    yield process
    process.kill()
    process.wait()


def test_what_a_killed_agent_left_is_ended_by_its_successor(tmp_path, sleeper):
    Leftovers(tmp_path).add(sleeper.pid)
    assert Leftovers(tmp_path).end_all() == [sleeper.pid]
    assert sleeper.wait(10) == -signal.SIGKILL
    assert Leftovers(tmp_path).end_all() == []


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}])
def test_a_process_that_only_has_the_same_number_is_left_alone(tmp_path, sleeper, change):
    Leftovers(tmp_path).add(sleeper.pid)
    record = tmp_path / str(sleeper.pid)
    record.write_text(json.dumps(json.loads(record.read_text()) | change))
    assert Leftovers(tmp_path).end_all() == []
    assert sleeper.poll() is None
    assert not record.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 999999999, "started": 1, "boot": "x"}'])
def test_half_a_record_is_no_reason_to_fail(tmp_path, text):
    records = Leftovers(tmp_path)
    (tmp_path / "123").write_text(text)
    assert records.end_all() == []


def test_a_start_time_is_that_of_the_process_and_of_no_other(sleeper):
    assert start_time(sleeper.pid) == start_time(sleeper.pid) >= start_time(os.getpid())
    assert start_time(2**22 + 1) is None


# ------------------------------------------------------------------------------------------------------------ machine


def test_a_folder_belongs_to_one_agent_at_a_time(tmp_path):
    settings = ProcessSettings(name="n", folder=tmp_path / "n")
    with Machine(settings, clock=RealClock()):
        second = Machine(settings, clock=RealClock())
        with pytest.raises(Conflict, match="is used by another node's agent"), second:
            pass
    with Machine(settings, clock=RealClock()):
        pass


def test_a_nodes_folder_is_nobody_elses_business(tmp_path):
    with Machine(ProcessSettings(name="n", folder=tmp_path / "n"), clock=RealClock()):
        assert (tmp_path / "n").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("uid", ["", "../x", "a/b", ".hidden"])
def test_a_uid_that_would_lead_elsewhere_is_refused(tmp_path, uid):
    with (
        Machine(ProcessSettings(name="n", folder=tmp_path / "n"), clock=RealClock()) as machine,
        pytest.raises(BadInput, match="cannot be a folder's name"),
    ):
        machine.pod_folder(uid)


def test_capacity_is_the_machines_unless_told_otherwise(tmp_path):
    settings = ProcessSettings(name="n", folder=tmp_path, gpus=fake(3), capacity={"cpu": "64", "example.com/x": "1"})
    capacity = settings.facts("127.64.0.1", 0).capacity
    assert (capacity["cpu"], capacity[GPU], capacity["example.com/x"]) == ("64", "3", "1")
    assert {"memory", "ephemeral-storage", "pods"} <= set(capacity)


@pytest.mark.parametrize(
    ("server", "expected"),
    [("https://127.0.0.1:6443", ("127.0.0.1", "6443")), ("https://[::1]", ("::1", "443")), ("", None)],
)
def test_programs_in_pods_find_the_api_server(server, expected, tmp_path):
    env = ProcessSettings(name="n", folder=tmp_path, server=server).server_env()
    found = (env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]) if env else None
    assert found == expected
