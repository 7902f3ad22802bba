"""The Containerfile: no container runtime is needed to see that its commands work and that its result is small and safe."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
INSTALLED = "/opt/pumice"
COMMAND_S_MAX = 100.0
PIPS_OWN = ("--no-cache-dir", "--disable-pip-version-check", "--quiet", "--yes")


def instructions():
    """Instruction and rest, of each line that is no comment; a line may go on after a backslash."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_the_image_has_two_stages_and_the_last_one_builds_nothing():
    words = [word for word, _ in instructions()]
    assert words.count("FROM") == 2
    last = words[len(words) - 1 - words[::-1].index("FROM") :]
    assert "RUN" not in last
    assert last.count("COPY") == 1


def test_the_image_runs_as_the_user_that_the_chart_asks_for():
    (user,) = [rest for word, rest in instructions() if word == "USER"]
    assert user == "65532:65532"
    pods = (ROOT / "deploy/helm/pumice/templates/_pods.tpl").read_text()
    assert "runAsUser: 65532" in pods
    assert "runAsGroup: 65532" in pods


def test_everything_from_a_package_index_is_pinned_by_hash():
    installs = [rest for word, rest in instructions() if word == "RUN" and " install " in rest]
    assert installs
    for command in installs:
        assert "--require-hashes" in command or "--no-index" in command, command


def test_what_is_copied_exists_and_is_not_ignored():
    ignored = (ROOT / ".containerignore").read_text().split()
    for word, rest in instructions():
        if word == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source}" in ignored, source


def _with_uv(command):
    """The same with uv, which takes pip's options that decide the outcome, and has every package in its cache."""
    if command[:3] == ["python", "-m", "venv"]:
        return [sys.executable, *command[1:], "--without-pip"]
    if command[0] == "rm":
        return command
    python, minus_m, pip, verb, *options = command
    assert (minus_m, pip) == ("-m", "pip")
    kept = [each for each in options if each not in PIPS_OWN]
    kept = [each for each in kept if verb == "install" or each != "pip"]
    return [str(Path(sys.executable).with_name("uv")), "pip", verb, "--python", python, *kept]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Where the commands of the build stage have put everything, run one by one on this machine."""
    build = tmp_path_factory.mktemp("build")
    target = tmp_path_factory.mktemp("opt") / "pumice"
    for word, rest in instructions()[: [word for word, _ in instructions()].index("ENV")]:
        if word == "COPY" and "--from" not in rest:
            *sources, place = rest.split()
            for source in sources:
                where = build / place / Path(source).name if place.endswith("/") else build / place
                where.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy  # a build may delete what it got
                copy(ROOT / source, where)
        elif word == "RUN":
            command = _with_uv(shlex.split(rest.replace(INSTALLED, str(target))))
            done = subprocess.run(
                command, cwd=build, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False
            )
            assert done.returncode == 0, f"{rest}\n{done.stdout}{done.stderr}"
    return target


def test_the_entry_point_starts_with_what_the_build_stage_installed(installed):
    (entry,) = [rest for word, rest in instructions() if word == "ENTRYPOINT"]
    program = entry.strip('[]"').replace(INSTALLED, str(installed))
    environment = {"PATH": os.environ["PATH"]}
    for arguments in (["--version"], *([process, "--help"] for process in ("scheduler", "controllers", "webhooks"))):
        done = subprocess.run(
            [program, *arguments],
            cwd=installed,
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_tools_of_the_build_do_not_go_into_the_image(installed):
    packages = {path.name.partition("-")[0] for path in installed.glob("lib/python*/site-packages/*.dist-info")}
    assert "pumice" in packages
    assert not packages & {"hatchling", "editables", "setuptools"}


def test_the_image_leaves_the_cluster_on_one_machine_out_and_says_so(installed):
    assert not list(installed.glob("lib/python*/site-packages/pumice/local"))
    for command in ("up", "demo"):
        done = subprocess.run(
            [installed / "bin/pumice", command],
            cwd=installed,
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr.startswith("pumice: this image has no cluster on one machine; install the package")
