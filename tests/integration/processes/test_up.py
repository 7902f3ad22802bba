"""`pumice up`, `status` and `down` as processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.bodies.patience import PATIENCE_S


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}


def pumice(environment, *arguments):
    command = [sys.executable, "-m", "pumice.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


class Started:
    """A cluster in the background; its first lines say where it is."""

    def __init__(self, environment, *arguments):
        command = [sys.executable, "-m", "pumice.cli", "up", "--nodes", "3", "--gpus", "2", *arguments]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines = [self.process.stdout.readline() for _ in range(6)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def test_a_cluster_starts_is_listed_and_ends(environment, tmp_path):
    out = tmp_path / "kubeconfig"
    with Started(environment, "--kubeconfig-out", str(out)) as cluster:
        assert cluster.lines[0] == "starting a cluster of 3 nodes with 2 GPUs each ...\n"
        assert "3 nodes with 2 GPUs each" in cluster.lines[1]
        assert f"export KUBECONFIG={out}" in cluster.lines[3]
        listed = pumice(environment, "status")
        assert str(cluster.process.pid) in listed.stdout
        (same,) = json.loads(pumice(environment, "status", "-o", "json").stdout)["clusters"]
        assert (same["pid"], same["nodes"]) == (cluster.process.pid, 3)
        assert "certificate-authority-data" in out.read_text()
        assert out.stat().st_mode & 0o077 == 0
        ended = pumice(environment, "down")
        assert (ended.returncode, ended.stdout) == (0, f"cluster {cluster.process.pid} ended\n")
        assert cluster.process.wait(timeout=PATIENCE_S) == 0
    assert json.loads(pumice(environment, "status", "-o", "json").stdout) == {"clusters": []}
    gone = pumice(environment, "down")
    assert (gone.returncode, gone.stderr) == (3, "pumice: no embedded cluster runs here; start one with `pumice up`\n")


def test_a_cluster_takes_a_policy_file_and_says_what_is_wrong_with_one(environment, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n")
    with Started(environment, "--policy", str(policy)) as cluster:
        assert "3 nodes with 2 GPUs each" in cluster.lines[1]
    policy.write_text("actions: allocate\ntiers:\n- plugins: [{name: gagn}]\n")
    refused = pumice(environment, "up", "--policy", str(policy))
    assert refused.returncode == 2
    assert "ready" not in refused.stdout
    assert "did you mean gang" in refused.stderr


def test_a_disk_that_takes_nothing_more_is_named(environment, tmp_path):
    command = f"ulimit -f 0; exec {sys.executable} -m pumice.cli up --nodes 1 --data-dir {tmp_path / 'data'}"
    refused = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"pumice: {tmp_path / 'data'}: File too large; check the path, its permissions and the room on the disk\n"
    )


def test_a_kubeconfig_that_a_full_disk_does_not_take_is_named(environment, tmp_path):
    full = tmp_path / "kubeconfig"
    full.symlink_to("/dev/full")
    refused = pumice(environment, "up", "--nodes", "1", "--kubeconfig-out", str(full))
    assert refused.returncode == 1
    assert refused.stderr == (
        f"pumice: {full}: No space left on device; check the path, its permissions and the room on the disk\n"
    )


def test_a_record_that_cannot_be_kept_is_told_on_the_terminal(environment, tmp_path):
    (tmp_path / "file").touch()  # no folder can be made below it, not even by root
    url = f"sqlite:///{tmp_path / 'file' / 'record.db'}"
    with Started(environment, "--record", url, "--no-dashboard") as cluster:
        told = cluster.process.stderr.readline()
        assert "record_delayed" in told
        assert f"{url}: its folder cannot be made" in told


def test_a_journal_that_breaks_is_told_on_the_terminal(environment, tmp_path):
    data = tmp_path / "data"
    with Started(environment, "--data-dir", str(data), "--no-dashboard") as cluster:
        (data / "objects.db").unlink()
        asked = pumice({**environment, "KUBECONFIG": str(data / "kubeconfig")}, "queue", "create", "late")
        told = cluster.process.stderr.readline()
        assert told.startswith(f"pumice: journal {data / 'objects.db'}: the file was removed or replaced; nothing more")
        assert asked.returncode == 1
        assert "the file was removed or replaced" in asked.stderr
        cluster.process.send_signal(signal.SIGINT)
        assert cluster.process.wait(timeout=PATIENCE_S) == 1
        assert cluster.process.stderr.read() == told


def test_a_home_that_cannot_be_written_costs_the_cluster_nothing_but_its_note(tmp_path):
    (tmp_path / "file").touch()  # no folder can be made below it, not even by root
    with Started({**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file")}) as cluster:
        assert "3 nodes with 2 GPUs each" in cluster.lines[1]
        assert "`pumice status` and `pumice down` will not find this cluster" in cluster.process.stderr.readline()
        cluster.process.send_signal(signal.SIGINT)
        assert cluster.process.wait(timeout=PATIENCE_S) == 0


def test_a_port_that_is_taken_is_named_in_plain_words(environment):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = pumice(environment, "up", "--nodes", "1", "--port", str(port))
    assert refused.returncode == 5
    assert refused.stderr == (
        f"pumice: port {port} of 127.0.0.1: nothing can listen there (Address already in use); end what does, or choose another port\n"
    )


def test_two_clusters_do_not_collide_and_down_asks_which(environment):
    with Started(environment) as first, Started(environment) as second:
        asked = pumice(environment, "down")
        assert asked.returncode == 2
        assert "name one with --pid" in asked.stderr
        assert pumice(environment, "down", "--pid", str(first.process.pid)).returncode == 0
        assert second.process.poll() is None


def test_ctrl_c_ends_everything(environment):
    with Started(environment) as cluster:
        folder = cluster.lines[2].split()[1]
        assert Path(folder).is_dir()
        cluster.process.send_signal(signal.SIGINT)
        assert cluster.process.wait(timeout=PATIENCE_S) == 0
        assert not Path(folder).exists()


def test_a_data_dir_keeps_everything_for_the_next_start(environment, tmp_path):
    data = tmp_path / "data"
    with Started(environment, "--data-dir", str(data)) as cluster:
        made = pumice({**environment, "KUBECONFIG": str(data / "kubeconfig")}, "queue", "create", "--name", "kept")
        assert made.returncode == 0, made.stderr
        cluster.process.send_signal(signal.SIGTERM)
        cluster.process.wait(timeout=PATIENCE_S)
    with Started(environment, "--data-dir", str(data)):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            listed = pumice({**environment, "KUBECONFIG": str(data / "kubeconfig")}, "queue", "list")
            if "kept" in listed.stdout:
                return
        raise AssertionError(listed.stdout + listed.stderr)


@pytest.mark.parametrize(
    "arguments",
    [("up", "--nodes", "-1"), ("up", "--nodes", "2147483647"), ("up", "--gpus", "2147483647"),
     ("node", "--process", "--gpus", "2147483647"), ("node", "--pretend", "2147483647")],
)  # fmt: skip
def test_nonsense_is_refused(environment, arguments):
    refused = pumice(environment, *arguments)
    assert refused.returncode == 2
    assert f"{arguments[-1]} is not in the range" in refused.stderr
