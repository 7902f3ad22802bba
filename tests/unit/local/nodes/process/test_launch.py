import shutil
import subprocess
import sys

import pytest

from pumice.local.nodes.process import launch
from pumice.local.nodes.process.leftovers import Leftovers
from pumice.local.nodes.process.logs import LogWriter

PROBE = """
import asyncio, sys
from pathlib import Path
from pumice.local.nodes.process import launch
from pumice.local.nodes.process.leftovers import Leftovers
folder = Path(sys.argv[1])
try:
    asyncio.run(launch.probe(folder, Leftovers(folder / "running")))
except launch.StartFailed as error:
    print(error)
"""


@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv takes the rights away that this test is about")
def test_a_machine_that_allows_no_namespaces_is_told_plainly(tmp_path):
    # In a user namespace of its own the limit can be set to none without touching the machine.
    without = (
        "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin"
    )
    command = ["unshare", "--map-root-user", "sh", "-c", f'{without} "$@"', "sh", sys.executable, "-c", PROBE, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip("this machine allows no user namespaces to begin with")
    assert done.stdout.startswith("process nodes need namespaces of their own: run as root, or allow user namespaces")
    assert "unshare: No space left on device" in done.stdout


async def test_bytes_that_are_no_text_reach_a_commands_environment(namespaces, tmp_path):
    order = {
        "argv": [sys.executable, "-c", "import os; print(os.environb[b'RAW'])"],
        "env": {"RAW": b"\xff".decode("utf-8", "surrogateescape")},
        "cwd": "/",
        "hostname": "h",
        "root": str(tmp_path / "root"),
        "mounts": [],
    }
    (tmp_path / "root").mkdir()
    log = LogWriter(tmp_path / "log", lambda: 0)
    process = await launch.start(order, log, Leftovers(tmp_path / "running"))
    assert await process.wait() == 0
    assert b"b'\\xff'" in (tmp_path / "log" / "0.log").read_bytes()
    assert list((tmp_path / "running").iterdir()) == []


async def test_a_command_on_record_is_struck_off_when_it_ends(namespaces, tmp_path):
    order = {"argv": ["sleep", "1000"], "env": {"PATH": "/usr/bin:/bin"}, "cwd": "/", "hostname": "h", "mounts": []}
    (tmp_path / "root").mkdir()
    process = await launch.start(order | {"root": str(tmp_path / "root")}, None, Leftovers(tmp_path / "running"))
    assert len(list((tmp_path / "running").iterdir())) == 1
    process.kill()
    assert await process.wait() == 137
    process.kill()  # of no effect, and no error
    assert list((tmp_path / "running").iterdir()) == []
