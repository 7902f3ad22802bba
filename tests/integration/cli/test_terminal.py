"""What a person at a terminal sees, and what is left when he presses Ctrl-C."""

import json
import re
from pathlib import Path

import pytest
from tests.integration.cli.causes import a_job
from tests.integration.cli.terminals import CTRL_C, HIDE_CURSOR, SHOW_CURSOR, terminal

from pumice.api.batch import Job
from pumice.api.pods import Pod
from pumice.errors import NotFound

GREEN, RED, YELLOW, PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[0m"


@pytest.fixture
def config(cluster, emptied):
    return {"KUBECONFIG": str(cluster.kubeconfig)}


@pytest.fixture
def train(client, until, emptied):
    client("create", Job, a_job("train", replicas=2), namespace="default")
    until(Job, lambda job: job.get("status", {}).get("running") == 2, name="train")


def test_phases_are_coloured_on_a_terminal_and_columns_stay_straight(config, train, pumice):
    with terminal("job", "list", **config) as seen:
        assert seen.end() == 0
    assert f"{GREEN}Running{PLAIN}" in seen.shown
    head, row = seen.plain.splitlines()
    assert head.index("JOBTYPE") == row.index("Batch")
    assert [line.split()[:4] for line in (head, row)] == [line.split()[:4] for line in pumice("job", "list").lines]


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_no_colour_gets_none(config, train, env):
    with terminal("job", "list", **config, **env) as seen:
        assert seen.end() == 0
    assert "\x1b" not in seen.shown


def test_colour_can_be_forced_into_a_pipe(pumice, train, monkeypatch):
    assert "\x1b" not in pumice("job", "list").out
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    assert f"{GREEN}Running{PLAIN}" in pumice("job", "list").out
    assert "\x1b" not in pumice("job", "list", "-o", "json").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in pumice("job", "list").out


def test_reasons_and_errors_are_coloured_on_a_terminal(config, client, until):
    client("create", Job, a_job("picky", nodeSelector={"disk": "ssd"}), namespace="default")
    until(Pod, lambda pod: pod["status"].get("conditions"), name="picky-w-0")
    with terminal("explain", "job/picky", **config) as seen:
        assert seen.end() == 0
    assert f"2 of 2 nodes: {YELLOW}node(s) didn't match Pod's node affinity/selector{PLAIN}" in seen.shown
    assert f"Phase:      {GREEN}Inqueue{PLAIN}" in seen.shown
    with terminal("job", "view", "ghost", **config) as seen:
        assert seen.end() == 3
    assert seen.shown.startswith(f"{RED}pumice:{PLAIN} ")


def test_ctrl_c_ends_a_watch_with_130_and_no_traceback(config, train):
    with terminal("job", "list", "-w", **config) as seen:
        seen.until("train ")
        seen.press(CTRL_C)
        assert seen.end() == 130
    assert "Traceback" not in seen.plain


def test_ctrl_c_while_waiting_for_a_job_says_that_the_job_goes_on_and_gives_the_cursor_back(config, client):
    with terminal("job", "run", "long", "-r", "2", "--wait", **config) as seen:
        seen.until("2 of 2 pods run")
        seen.press(CTRL_C)
        assert seen.end() == 130
    assert "pumice: job default/long goes on; `pumice job delete long` ends it" in seen.plain
    assert "Traceback" not in seen.plain
    assert HIDE_CURSOR in seen.shown
    assert seen.shown.rindex(SHOW_CURSOR) > seen.shown.rindex(HIDE_CURSOR)
    assert client("get", Job, "long", namespace="default").json()["status"]["running"] == 2


def test_ctrl_c_ends_a_cluster_and_leaves_neither_files_nor_a_note(tmp_path):
    with terminal("up", "--nodes", "1", XDG_CACHE_HOME=str(tmp_path / "cache"), TMPDIR=str(tmp_path)) as seen:
        seen.until("end it   Ctrl-C")
        assert [path.name[:10] for path in tmp_path.iterdir() if path.name != "cache"] == ["pumice-up-"]
        seen.press(CTRL_C)
        assert seen.end() == 0
    assert "cluster ended" in seen.plain
    assert seen.shown.rindex(SHOW_CURSOR) > seen.shown.rindex(HIDE_CURSOR)
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_ctrl_c_while_a_cluster_starts_leaves_nothing_either(tmp_path):
    with terminal("up", "--nodes", "200", XDG_CACHE_HOME=str(tmp_path / "cache"), TMPDIR=str(tmp_path)) as seen:
        seen.until("starting a cluster of 200 nodes")
        seen.press(CTRL_C)
        assert seen.end() in {0, 130}
    assert "Traceback" not in seen.plain
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_ctrl_c_cuts_all_simulations_short_that_are_under_way_and_keeps_what_they_have(tmp_path):
    policies = ("builtin", "conservative", "greedy", "volcano")
    words = [word for each in policies for word in ("--policy", each)]
    report = tmp_path / "report.html"
    with terminal(
        "simulate", "--workload", "generated", "--jobs", "5000", "--load", "2", "--cluster", "16x8", "--report", str(report), *words
    ) as seen:  # fmt: skip
        seen.until("builtin")  # it has begun, and is far from its end
        seen.press(CTRL_C)
        assert seen.end() == 130
    assert "Traceback" not in seen.plain
    cut_short = [each for each in policies if f"pumice: cut short: {each} had come to day " in seen.plain]
    untried = re.search("pumice: not tried: (.*)", seen.plain)
    assert "builtin" in cut_short
    assert [*cut_short, *(untried[1].strip().split(", ") if untried else ())] == list(policies)
    assert seen.plain.count("\nbuiltin ") >= 1
    assert "builtin" in report.read_text()
    assert HIDE_CURSOR in seen.shown
    assert seen.shown.rindex(SHOW_CURSOR) > seen.shown.rindex(HIDE_CURSOR)


def test_the_demo_counts_money_on_a_terminal_and_can_be_left_at_any_time(tmp_path):
    with terminal("demo", TMPDIR=str(tmp_path)) as seen:
        seen.until("2. The same job as a gang")
        seen.press(CTRL_C)
        assert seen.end() == 130
    assert seen.plain.count(" for nothing after ") > 3
    assert "Traceback" not in seen.plain
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_completes_is_waited_for(pumice, made_to_end):
    result = pumice("job", "run", "-f", made_to_end(0), "--wait", "--timeout", "60s")
    assert (result.code, result.out, result.err) == (0, "job.batch.volcano.sh/brief completed\n", "job brief created\n")


def test_a_job_that_fails_is_code_1_with_its_reason(pumice, made_to_end):
    result = pumice("job", "run", "-f", made_to_end(3), "--wait")
    assert (result.code, result.out) == (1, "")
    assert "pumice: job default/brief ended Failed" in result.err
    assert "see `pumice job logs brief`" in result.err


def test_who_waits_too_long_is_code_5_and_the_job_goes_on(pumice, client):
    result = pumice("job", "run", "endless", "--wait", "--timeout", "100ms")
    assert (result.code, result.out) == (5, "")
    assert "not over within 0.1 s; it goes on: see `pumice explain job/endless`" in result.err
    assert client("get", Job, "endless", namespace="default").json()["metadata"]["name"] == "endless"


def test_a_deletion_is_waited_for_until_the_last_pod_is_gone(pumice, client, train):
    assert pumice("job", "delete", "train", "--wait", "--timeout", "60s").out == "job.batch.volcano.sh/train deleted\n"
    with pytest.raises(NotFound):
        client("get", Job, "train", namespace="default")
    assert client("list", Pod, namespace="default").items == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--timeout", "5s"), "--timeout says how long --wait waits; add --wait, or drop it"),
        (("--wait", "--timeout", "soon"), "--timeout: duration 'soon'"),
        (("--wait", "--timeout", "-1s"), "expected more than no time at all, such as 90s"),
        (("--wait", "--dry-run"), "--wait and --dry-run exclude each other"),
    ],
)
def test_waiting_that_makes_no_sense_is_refused_before_anything_is_made(pumice, options, said):
    result = pumice("job", "run", "unmade", *options)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert pumice("job", "view", "unmade").code == 3


@pytest.fixture
def made_to_end(tmp_path):
    """A file with a Job whose only pod runs for a moment and ends with this code."""

    def write(code):
        job = a_job("brief")
        fate = {"pumice.dev/pretend-run": "10ms", "pumice.dev/pretend-exit-code": str(code)}
        job["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": fate}
        job["spec"]["maxRetry"] = 1
        path = Path(tmp_path) / "brief.json"
        path.write_text(json.dumps(job))
        return str(path)

    return write
