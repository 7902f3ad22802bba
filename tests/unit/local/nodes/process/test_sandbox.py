"""The sandbox program by itself, as root and as a user who has nothing but user namespaces."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pumice.local.nodes.process import sandbox

NOBODY = 65_534
PROGRAM = Path(sandbox.__file__)


def a_python_for(uid):
    """An interpreter that this user may start; the one of the tests may lie in somebody's home."""
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            done = subprocess.run(
                [candidate, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], user=uid, check=False
            )
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    return pytest.skip("no Python of at least 3.11 that other users may run")


class Box:
    """Starts sandboxes as one user."""

    def __init__(self, folder, uid):
        self.uid = uid
        self.folder = folder
        self.python = sys.executable if uid is None else a_python_for(uid)
        self.program = folder / "sandbox.py"
        self.program.write_bytes(PROGRAM.read_bytes())
        self.root = folder / "root"
        self.root.mkdir()
        if uid is not None:
            os.chown(self.root, uid, uid)

    def folder_of_its_own(self, name):
        made = self.folder / name
        made.mkdir()
        made.chmod(0o777)
        return made

    def start(self, *argv, **order):
        reading, writing = os.pipe()
        given = {"argv": argv, "env": {"PATH": os.defpath}, "cwd": "/", "hostname": "box", "root": str(self.root)}
        who = {} if self.uid is None else {"user": self.uid, "group": self.uid, "extra_groups": []}
        process = subprocess.Popen(
            [self.python, "-I", "-S", str(self.program), str(os.getpid()), str(writing)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(writing,),
            cwd="/",
            **who,
        )
        os.close(writing)
        process.stdin.write(json.dumps(given | {"mounts": []} | order).encode())
        process.stdin.close()
        with os.fdopen(reading) as told:
            report = {}
            for line in told:
                report |= json.loads(line)
        return process, report

    def run(self, *argv, **order):
        """Exit code, output and report."""
        process, report = self.start(*argv, **order)
        output = process.stdout.read().decode()
        process.stdout.close()
        return process.wait(20), output, report


@pytest.fixture
def folder():
    """One that other users may enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)  # noqa: PTH101 - a text
        yield Path(made)


@pytest.fixture(params=["as we are", "as nobody"])
def box(request, folder):
    if request.param == "as nobody" and os.geteuid() != 0:
        pytest.skip("only root can become somebody else; `as we are` is the unprivileged case here")
    made = Box(folder, NOBODY if request.param == "as nobody" else None)
    code, _, report = made.run(probe=True)
    if code != 0 and os.geteuid() != 0:
        pytest.skip(f"this machine allows no namespaces: {report}")
    assert (code, "error" in report) == (0, False), report
    return made


def mount(source, target, **more):
    return {"source": str(source), "target": target, **more}


def test_a_command_runs_with_its_exit_code_output_and_environment(box):
    code, output, report = box.run(
        "sh", "-c", "echo $WHO on $(hostname); exit 7", env={"PATH": os.defpath, "WHO": "me"}
    )
    assert (code, output) == (7, "me on box\n")
    assert "error" not in report


def test_a_command_that_a_signal_ends_says_so_in_its_code(box):
    assert box.run("sh", "-c", "kill -9 $$")[0] == 128 + signal.SIGKILL


def test_a_command_that_does_not_exist_is_reported(box):
    code, _, report = box.run("/no/such/program")
    assert code == sandbox.STARTED_NOT
    assert report["error"].startswith("'/no/such/program' is not on this machine")


def test_sigterm_reaches_the_whole_process_group(box):
    inner = "(trap 'echo inner; exit' TERM; sleep 1000 & echo up; wait)"
    process, _ = box.start("sh", "-c", f"trap : TERM; {inner} & echo up; wait; wait; echo outer; exit 3")
    assert [process.stdout.readline() for _ in range(2)] == [b"up\n"] * 2
    process.terminate()
    assert sorted(process.stdout.read().split()) == [b"inner", b"outer"]
    process.stdout.close()
    assert process.wait(20) == 3


def test_what_a_command_left_in_the_background_ends_with_it(box):
    # `setsid` leaves the process group; the output would stay open as long as it lives.
    code, output, _ = box.run("sh", "-c", "setsid sleep 1000 & echo done")
    assert (code, output) == (0, "done\n")


def test_killing_init_ends_everything(box):
    process, report = box.start("sh", "-c", "setsid sleep 1000 & echo up; sleep 1000")
    assert process.stdout.readline() == b"up\n"
    os.kill(report["init"], signal.SIGKILL)
    assert process.stdout.read() == b""
    process.stdout.close()
    assert process.wait(20) == 128 + signal.SIGKILL


def test_killing_the_leash_ends_everything(box):
    process, _ = box.start("sh", "-c", "setsid sleep 1000 & echo up; sleep 1000")
    assert process.stdout.readline() == b"up\n"
    process.kill()
    assert process.stdout.read() == b""  # all who could write to it are gone
    process.stdout.close()
    process.wait(20)


def test_mount_points_are_made_in_the_view_and_nowhere_else(box):
    volume = box.folder_of_its_own("volume")
    (volume / "file").write_text("hello\n")
    targets = ["/brand/new", "/etc/brand-new", "/usr/brand-new/deep", "/var/run/brand-new"]
    script = "; ".join(f"cat {target}/file" for target in targets)
    code, output, report = box.run("sh", "-c", script, mounts=[mount(volume, target) for target in targets])
    assert (code, output) == (0, "hello\n" * 4), report
    assert not any(Path(target).exists() for target in (*targets, "/brand", "/usr/brand-new"))


def test_what_lies_beside_a_new_mount_point_is_still_there(box):
    volume = box.folder_of_its_own("volume")
    script = "ls /etc/passwd /dev/null && echo x > /dev/null && grep -c root /etc/passwd"
    code, output, _ = box.run("sh", "-c", script, mounts=[mount(volume, "/etc/new"), mount(volume, "/dev/new")])
    assert (code, output.splitlines()[:2]) == (0, ["/dev/null", "/etc/passwd"])


def test_a_file_can_be_mounted_over_a_file_and_over_nothing(box):
    folder = box.folder_of_its_own("files")
    hosts = folder / "hosts"
    hosts.write_text("127.64.0.9 peer\n")
    mounts = [mount(hosts, "/etc/hosts"), mount(hosts, "/opt/new/hosts")]
    code, output, _ = box.run("sh", "-c", "cat /etc/hosts /opt/new/hosts; getent hosts peer", mounts=mounts)
    assert (code, output.count("127.64.0.9")) == (0, 3)


def test_a_file_that_is_rewritten_in_place_is_seen_inside(box):
    folder = box.folder_of_its_own("files")
    hosts, fifo = folder / "hosts", folder / "fifo"
    hosts.write_text("one\n")
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    mounts = [mount(hosts, "/etc/hosts"), mount(fifo, "/fifo")]
    process, _ = box.start("sh", "-c", "cat /etc/hosts; read go < /fifo; cat /etc/hosts", mounts=mounts)
    assert process.stdout.readline() == b"one\n"
    with hosts.open("r+") as file:
        file.write("two\n")
    fifo.write_text("go\n")
    assert process.stdout.read() == b"two\n"
    process.stdout.close()
    assert process.wait(20) == 0


def test_a_read_only_mount_cannot_be_written(box):
    volume = box.folder_of_its_own("volume")
    _, output, _ = box.run("sh", "-c", "touch /v/x || echo no", mounts=[mount(volume, "/v", read_only=True)])
    assert "no" in output.split()
    assert list(volume.iterdir()) == []


def test_a_source_that_leads_out_of_its_folder_is_refused(box):
    volume = box.folder_of_its_own("volume")
    (volume / "link").symlink_to("/etc")
    mounts = [mount(volume / "link", "/v", within=str(volume))]
    code, _, report = box.run("ls", "/v", mounts=mounts)
    assert code == sandbox.STARTED_NOT
    assert report["error"] == f"volume mount /v: {volume}/link leads to /etc, which is outside of {volume}"


def test_a_mount_inside_a_volume_is_made_in_the_volume_if_it_is_the_pods_own(box):
    outer, inner = box.folder_of_its_own("outer"), box.folder_of_its_own("inner")
    for owned, appears in ((False, False), (True, True)):
        mounts = [mount(outer, "/v", own=owned), mount(inner, "/v/sub")]
        code, _, report = box.run("touch", "/v/sub/made", mounts=mounts)
        assert code == 0, report
        assert (outer / "sub").exists() is appears
    assert (inner / "made").exists()


def test_a_folder_over_a_file_is_refused_with_both_named(box):
    volume = box.folder_of_its_own("volume")
    code, _, report = box.run("true", mounts=[mount(volume, "/etc/passwd")])
    assert code == sandbox.STARTED_NOT
    assert report["error"] == "/etc/passwd: a folder cannot be mounted over a file of this machine"


def test_a_volume_that_is_not_there_is_named(box):
    _, _, report = box.run("true", mounts=[mount("/no/such/volume", "/v")])
    assert report["error"] == "volume mount /v: No such file or directory: /no/such/volume"


def test_a_working_directory_is_made_if_it_is_missing(box):
    assert box.run("pwd", cwd="/made/just/now")[:2] == (0, "/made/just/now\n")
    assert not Path("/made").exists()


def test_a_command_may_write_into_its_root_without_touching_the_machine(box):
    assert box.run("sh", "-c", "echo x > /left-behind && cat /left-behind")[:2] == (0, "x\n")
    assert not Path("/left-behind").exists()


def test_a_command_sees_only_its_own_processes(box):
    code, output, _ = box.run("sh", "-c", "ls /proc | grep -c '^[0-9]'")
    assert (code, int(output) < 10) == (0, True)


def test_the_agents_descriptors_do_not_reach_the_command(box):
    _, output, _ = box.run("sh", "-c", "ls /proc/self/fd")
    assert set(output.split()) <= {"0", "1", "2", "3"}  # 3 is what ls itself has open


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a command as somebody else")
def test_root_can_run_a_command_as_another_user(folder):
    box = Box(folder, None)
    user = {"uid": NOBODY, "gid": NOBODY, "groups": [7]}
    code, output, report = box.run("sh", "-c", "id -u; id -g; id -G", user=user)
    assert (code, output.split()) == (0, [str(NOBODY), str(NOBODY), str(NOBODY), "7"]), report
