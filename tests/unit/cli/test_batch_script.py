"""Batch scripts of Slurm's as Jobs: what their options ask for, and which are refused with their line."""

import pytest

from pumice.api import decoding, defaults, names, validation
from pumice.api.batch import Job
from pumice.api.validation import Operation, Request
from pumice.cli import batch_script
from pumice.cli.batch_script import GivenOption, Layout
from pumice.errors import BadInput

NOTHING = ([], [])


def script(*lines):
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "srun hostname", "#SBATCH --nodes=99", ""])


def options(*lines):
    return batch_script.read(script(*lines), "train.sh").options


def job(*lines, arguments=(), source="train.sh", volumes=NOTHING):
    read = batch_script.read(script(*lines), source)
    return batch_script.job_of(read, arguments, source=source, image="image", volumes=volumes)


def values(*lines):
    return {name: said.value for name, said in options(*lines).items()}


def test_options_are_read_in_all_of_slurms_spellings_up_to_the_first_command():
    assert values("--nodes=4", "--ntasks 8", "-c 2 -G8", "-t1:00 --job-name='my job'  # a comment") == {
        "nodes": "4",
        "ntasks": "8",
        "cpus-per-task": "2",
        "gpus": "8",
        "time": "1:00",
        "job-name": "my job",
    }


def test_what_a_line_asks_for_and_cannot_be_had_is_refused_with_that_line():
    for line, what in (
        ("--array=1-10", "train.sh, line 3: --array is not known here; give a task as many replicas"),
        ("--dependency afterok:7", "train.sh, line 3: --dependency is not known here; make a JobFlow of the Jobs"),
        ("-x node7", "train.sh, line 3: -x is not known here; add node affinity"),
        ("--bb=x", "train.sh, line 3: --bb is not known here; remove it, or use some of --job-name, --nodes"),
        ("--nodes", "train.sh, line 3: --nodes has no value; write --nodes=N"),
        ("nodes=4", "train.sh, line 3: 'nodes=4' is no option"),
        ("--job-name='x", "train.sh, line 3: No closing quotation"),
    ):
        with pytest.raises(BadInput) as caught:
            options("--time=10", line)
        assert what in str(caught.value)


def test_a_script_with_the_line_ends_of_windows_is_refused():
    with pytest.raises(BadInput, match="lines end as on Windows"):
        batch_script.read(script("--nodes=2").replace("\n", "\r\n"), "train.sh")


def test_what_means_nothing_here_is_said_and_left_out():
    read = batch_script.read(script("--mail-type=END", "-A physics", "--exclusive --nodes=2"), "train.sh")
    assert {name: said.value for name, said in read.options.items()} == {"nodes": "2"}
    assert read.warnings == (
        "train.sh, line 2: --mail-type means nothing here, and is left out",
        "train.sh, line 3: --account means nothing here, and is left out",
        "train.sh, line 4: --exclusive means nothing here, and is left out",
    )


@pytest.mark.parametrize("text", ["", "echo hello\n", "\n#!/bin/bash\n"])
def test_a_script_without_an_interpreter_is_refused(text):
    with pytest.raises(BadInput, match="names no interpreter"):
        batch_script.read(text, "train.sh")


def test_a_script_that_does_not_fit_into_a_variable_is_refused():
    with pytest.raises(BadInput, match="put data into a volume"):
        batch_script.read("#!/bin/sh\n" + "#" * batch_script.SCRIPT_BYTES_MAX, "train.sh")


# ------------------------------------------------------------------------------------------------------------- layout


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ((), Layout(1, 1, 1, 0, apart=False)),
        (("-n 4",), Layout(4, 1, 1, 0, apart=False)),
        (("-N 4",), Layout(4, 1, 1, 0, apart=True)),
        (("-N 4 -n 8 -c 3",), Layout(4, 2, 3, 0, apart=True)),
        (("-n 8 --ntasks-per-node=4",), Layout(2, 4, 1, 0, apart=True)),
        (("-N 2 --ntasks-per-node=8 --gpus-per-node=8",), Layout(2, 8, 1, 8, apart=True)),
        (("-N 2-2 -G 16",), Layout(2, 1, 1, 8, apart=True)),
        (("-n 2 --gres=gpu:a100:4",), Layout(2, 1, 1, 4, apart=False)),
        (("-N 1 --gpus-per-node=h100:2",), Layout(1, 1, 1, 2, apart=True)),
        (("--gres=gpu",), Layout(1, 1, 1, 1, apart=False)),
    ],
)
def test_nodes_tasks_and_gpus_become_pods(lines, wanted):
    assert batch_script.layout_of(options(*lines)) == wanted


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("-N 3 -n 8", "line 2: --ntasks 8: cannot be shared evenly by 3 (--nodes)"),
        ("-N 3 -G 8", "line 2: --gpus 8: cannot be shared evenly by 3 (--nodes)"),
        ("-n 3 -G 8", "line 2: --gpus 8: cannot be shared evenly by 3 (pods)"),
        ("-N 2 -n 6 --ntasks-per-node=4", "line 2: --ntasks 6: 2 nodes of 4 tasks are 8; drop one"),
        ("-G 8 --gpus-per-node=8", "two numbers for one thing"),
        ("-N 2-4", "line 2: --nodes 2-4: a gang has one size here"),
        ("-N 0", "line 2: --nodes '0': expected a whole number from 1 to 999999999"),
        ("-N two", "expected a whole number"),
        ("-n 99999999999999999999", "expected a whole number from 1 to 999999999"),
        (f"-G {'0' * 5000}", "expected a whole number from 0 to 999999999"),
        ("-n 999999999", "ask for less"),
        ("-N 1 --ntasks-per-node=100000", "ask for less"),
        ("--gres=fpga:1", "only gpu:N is known here"),
    ],
)
def test_numbers_that_do_not_fit_together_are_named(line, what):
    with pytest.raises(BadInput) as caught:
        batch_script.layout_of(options(line))
    assert what in str(caught.value)


# --------------------------------------------------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("30", "30m0s"),
        ("30:15", "30m15s"),
        ("2:00:00", "2h0m0s"),
        ("1-12", "36h0m0s"),
        ("1-12:30", "36h30m0s"),
        ("7-00:00:01", "168h0m1s"),
        ("UNLIMITED", None),
        ("infinite", None),
        ("0", None),
    ],
)
def test_times_are_read_as_slurm_reads_them(text, wanted):
    assert batch_script.time_limit(GivenOption(text, "--time")) == wanted


@pytest.mark.parametrize("text", ["soon", "1:2:3:4", "-5", "2h", "00:00", "999999-00"])
def test_a_time_that_is_none_is_refused(text):
    with pytest.raises(BadInput, match="--time"):
        batch_script.time_limit(GivenOption(text, "--time"))


def test_a_time_limit_and_its_signal_stand_on_the_job():
    found = job("--time=2:00:00", "--signal=B:USR1@120")
    assert found["metadata"]["annotations"] == {
        names.TIME_LIMIT: "2h0m0s",
        names.TIME_LIMIT_SIGNAL: "SIGUSR1",
        names.TIME_LIMIT_WARNING: "120s",
    }
    assert job("-t 10", "--signal=TERM")["metadata"]["annotations"][names.TIME_LIMIT_WARNING] == "60s"
    for line, what in (("--signal=USR1", "add --time"), ("-t 5 --signal=KILL", "use one of SIGUSR1")):
        with pytest.raises(BadInput, match=what):
            job(line)


# ---------------------------------------------------------------------------------------------------------------- jobs


def test_a_script_becomes_a_job_that_admission_accepts():
    found = job(
        "--job-name='My Training_1' --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 -c 4 --mem=64G",
        "--time=1-0 --partition=research --output=/data/%x-%j.log --chdir=/data",
        arguments=("--epochs", "3"),
        volumes=(
            [{"name": "volume-0", "persistentVolumeClaim": {"claimName": "home"}}],
            [{"name": "volume-0", "mountPath": "/data"}],
        ),
    )
    assert found["metadata"]["generateName"] == "my-training-1-"
    spec = found["spec"]
    assert (spec["minAvailable"], spec["queue"], spec["schedulerName"]) == (2, "research", "volcano")
    (task,) = spec["tasks"]
    (container,) = task["template"]["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "32", "memory": "64Gi", "nvidia.com/gpu": "8"},
        "limits": {"nvidia.com/gpu": "8"},
    }
    assert container["command"][-2:] == ["--epochs", "3"]
    assert container["workingDir"] == "/data"
    request = Request(
        Operation.CREATE, new=defaults.apply_patch(found, defaults.job_patch(found, scheduler_name="volcano"))
    )
    findings = validation.review("Job", request)
    assert (findings.errors, findings.warnings) == ([], [])
    decoding.decode_value(Job, found)


def test_nodes_are_nodes_and_tasks_may_share_one():
    apart = job("-N 2")["spec"]["tasks"][0]["template"]["spec"]
    (term,) = apart["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert (term["topologyKey"], term["matchLabelKeys"]) == ("kubernetes.io/hostname", ["volcano.sh/job-name"])
    assert "affinity" not in job("-n 2")["spec"]["tasks"][0]["template"]["spec"]


def test_the_environment_has_what_scripts_ask_for():
    container = job("-N 2 --ntasks-per-node=4 -G 8 -c 2 -p research")["spec"]["tasks"][0]["template"]["spec"][
        "containers"
    ][0]
    env = {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}
    assert {
        key: env[key] for key in ("SLURM_NNODES", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_CPUS_PER_TASK")
    } == {
        "SLURM_NNODES": "2",
        "SLURM_NTASKS": "8",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_CPUS_PER_TASK": "2",
    }
    assert (env["SLURM_GPUS_ON_NODE"], env["SLURM_JOB_PARTITION"]) == ("4", "research")
    assert env["SLURM_JOB_ID"] == {"fieldRef": {"fieldPath": "metadata.labels['volcano.sh/job-name']"}}


def test_kubernetes_hands_every_dollar_on_as_it_is():
    found = batch_script.read("#!/bin/sh\necho $$ $(HOME)\n", "x.sh")
    container = batch_script.job_of(found, ("$$",), source="x.sh", image="i", volumes=NOTHING)["spec"]["tasks"][0][
        "template"
    ]["spec"]["containers"][0]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["SBATCH_SCRIPT"] == "#!/bin/sh\necho $$$$ $$(HOME)\n"
    assert container["command"][-1] == "$$$$"


@pytest.mark.parametrize(
    ("lines", "source", "name"),
    [((), "/home/me/Run_42.sbatch", "run-42"), (("-J ___",), "x", "batch"), (("-J " + "x" * 80,), "x", "x" * 40)],
)
def test_a_job_is_named_after_itself_or_its_script(lines, source, name):
    assert job(*lines, source=source)["metadata"]["generateName"] == f"{name}-"


@pytest.mark.parametrize(("text", "wanted"), [("512", "512Mi"), ("64G", "64Gi"), ("2t", "2Ti"), ("100KB", "100Ki")])
def test_memory_is_in_slurms_units(text, wanted):
    container = job(f"--mem={text}")["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert container["resources"]["requests"]["memory"] == wanted
