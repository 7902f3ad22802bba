"""What runs in a pod of a batch script, with a real shell: Slurm's variables, tasks, output files and signals."""

import contextlib
import os
import signal
import subprocess

import pytest

from pumice.cli import batch_script

WAIT_S_MAX = 60


@contextlib.contextmanager
def running(text, *arguments, index=0, env=None):
    """The first container of the script's pod, as its node would start it."""
    read = batch_script.read(text, "x.sh")
    job = batch_script.job_of(read, arguments, source="x.sh", image="i", volumes=([], []))
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    known = {
        "SLURM_JOB_ID": "x-abcde",
        "SLURMD_NODENAME": "gpu-7",
        "VC_TASK_INDEX": str(index),
        "VC_NODE_HOSTS": "h0,h1",
    }
    given = {
        each["name"]: each["value"].replace("$$", "$") if "value" in each else known[each["name"]]
        for each in container["env"]
    }
    process = subprocess.Popen(
        [word.replace("$$", "$") for word in container["command"]],
        env={"PATH": os.environ["PATH"], **known, **given, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def outcome(text, *arguments, **more):
    with running(text, *arguments, **more) as process:
        told, _ = process.communicate(timeout=WAIT_S_MAX)
        return process.returncode, told.splitlines()


def test_a_script_finds_slurms_variables_and_its_arguments():
    text = '#!/bin/sh\n#SBATCH -N 2 --ntasks-per-node=4\necho $SLURM_JOB_ID $SLURM_NODEID $SLURM_NNODES $SLURM_PROCID $MASTER_ADDR\necho "$2"\n'
    assert outcome(text, "a", "b  c", index=1) == (0, ["x-abcde 1 2 4 h0", "b  c"])


def test_a_script_is_not_touched_by_shells_in_between():
    text = "#!/bin/sh\nprintf '%s\\n' '$$' \"\\$HOME\" 'it is'\" 'so'\" %d\n"
    assert outcome(text) == (0, ["$$", "$HOME", "it is 'so'", "%d"])


def test_srun_starts_the_tasks_of_its_node_and_passes_over_its_own_options():
    text = "#!/bin/sh\n#SBATCH -N 2 --ntasks-per-node=3\nsrun -n 6 --mpi=pmix -c 2 sh -c 'echo $SLURM_PROCID $SLURM_LOCALID'\necho done\n"
    code, told = outcome(text, index=1)
    assert (code, sorted(told[:-1]), told[-1]) == (0, ["3 0", "4 1", "5 2"], "done")


def test_a_pod_ends_as_its_script_does_and_srun_as_its_worst_task():
    assert outcome("#!/bin/sh\nexit 7\n") == (7, [])
    text = "#!/bin/sh\n#SBATCH --nodes=1 --ntasks-per-node=3\nsrun sh -c 'exit $SLURM_LOCALID'\n"
    assert outcome(text) == (2, [])
    assert outcome("#!/bin/sh\nsrun --label\n") == (2, ["srun: no command was given"])


def test_output_goes_into_a_file_as_well_whose_name_is_filled_in(tmp_path):
    text = f"#!/bin/sh\n#SBATCH -J Train -o {tmp_path}/logs/%x-%j-%n-%N.txt\necho out\necho err >&2\nexit 3\n"
    code, told = outcome(text, index=1)
    assert (code, sorted(told)) == (3, ["err", "out"])
    assert sorted((tmp_path / "logs" / "train-x-abcde-1-gpu-7.txt").read_text().splitlines()) == ["err", "out"]


def test_what_a_script_leaves_running_does_not_keep_its_pod(tmp_path):
    text = f"#!/bin/sh\n#SBATCH -o {tmp_path}/out.txt\necho left\ntail -f /dev/null &\necho $! >{tmp_path}/pid\n"
    with running(text) as process:
        try:
            assert process.stdout.readline() == "left\n"
            assert process.wait(timeout=WAIT_S_MAX) == 0
        finally:
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)  # elsewhere it ends with its pod


TASK = "sh -c 'trap \"echo saved; exit 0\" USR1; echo ready; while :; do sleep 0.01; done'"


@pytest.mark.parametrize(
    ("line", "command"),
    [("-t 9 --signal=USR1@60", f"srun {TASK}"), ("-t 9 --signal=B:USR1@60", f"exec {TASK}")],
    ids=["to the tasks", "to the script"],
)
def test_a_warning_reaches_those_for_whom_it_is_meant(line, command):
    with running(f"#!/bin/sh\n#SBATCH {line}\n{command}\n") as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        told, _ = process.communicate(timeout=WAIT_S_MAX)
        assert (process.returncode, told) == (0, "saved\n")


def test_the_end_reaches_the_script():
    with running(f"#!/bin/sh\nexec {TASK.replace('USR1', 'TERM')}\n") as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        told, _ = process.communicate(timeout=WAIT_S_MAX)
        assert (process.returncode, told) == (0, "saved\n")


def test_nothing_is_left_in_the_folder_of_temporary_files(tmp_path):
    assert outcome("#!/bin/sh\ntrue\n", env={"TMPDIR": str(tmp_path)})[0] == 0
    assert list(tmp_path.iterdir()) == []
