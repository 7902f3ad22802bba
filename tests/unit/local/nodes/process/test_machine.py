import json
import os
import signal
import subprocess
import sys

import pytest

from pumice.api import decoding
from pumice.api.pods import Pod
from pumice.clock import RealClock
from pumice.errors import BadInput, Conflict
from pumice.local.nodes.process import addresses
from pumice.local.nodes.process.addresses import AddressBlock, NoAddress
from pumice.local.nodes.process.devices import Devices, NoDevice, share_out
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


def test_devices_are_given_to_one_pod_at_a_time():
    devices = Devices(4)
    assert devices.take(a_pod(2, uid="a")) == (0, 1)
    assert devices.take(a_pod(1, uid="b")) == (2,)
    devices.give_back("a")
    assert devices.take(a_pod(2, uid="c")) == (0, 1)
    with pytest.raises(NoDevice, match="pod d was promised 2 GPUs, and 1 are free"):
        devices.take(a_pod(2, uid="d"))


def test_a_node_without_devices_gives_none():
    assert Devices(0).take(a_pod(2)) == ()


def test_containers_share_nothing_and_init_containers_use_what_will_be_theirs():
    pod = a_pod(1, 2, inits=[(3, {}), (1, {"restartPolicy": "Always"}), (2, {})])
    numbers = Devices(8).take(pod)
    assert numbers == (0, 1, 2, 3)
    assert share_out(pod, numbers) == {"i0": (0, 1, 2), "i1": (0,), "i2": (1, 2), "c0": (1,), "c1": (2, 3)}


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
    settings = ProcessSettings(name="n", folder=tmp_path, gpus=3, capacity={"cpu": "64", "example.com/x": "1"})
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
