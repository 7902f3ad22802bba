"""The embedded server beside the real one: the same kubectl, the same commands, the same outcome."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.bodies.patience import PATIENCE_S
from tests.kube.kubectl_scenario import STORY, Step
from tests.manifests import cases

from pumice import yamltext
from pumice.cli.crds import manifests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMESPACE = "story"


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


class Embedded:
    """An embedded server in a process of its own."""

    def __init__(self, folder: Path, kubectl: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._kubectl = kubectl
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pumice.local.apiserver", folder], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("https://127.0.0.1:")

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=PATIENCE_S)


def run(kubectl: Path, kubeconfig: Path, cache: Path, arguments: list[str], text: str = "") -> Outcome:
    command = [kubectl, f"--kubeconfig={kubeconfig}", f"--cache-dir={cache}", f"--namespace={NAMESPACE}", *arguments]
    environment = os.environ | {"KUBECTL_EXTERNAL_DIFF": "diff -u"}
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def embedded(binaries, tmp_path_factory) -> Iterator[Embedded]:
    server = Embedded(tmp_path_factory.mktemp("embedded"), binaries / "kubectl")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def both(plane, crds, embedded, binaries, tmp_path_factory):
    """Runs a command on the real and on the embedded server."""
    caches = [tmp_path_factory.mktemp("real-cache"), tmp_path_factory.mktemp("embedded-cache")]

    def run_on_both(arguments: list[str], text: str = "") -> tuple[Outcome, Outcome]:
        return tuple(
            run(binaries / "kubectl", kubeconfig, cache, arguments, text)
            for kubeconfig, cache in zip((plane.kubeconfig, embedded.kubeconfig), caches, strict=True)
        )

    taken = run(binaries / "kubectl", embedded.kubeconfig, caches[1], ["apply", "-f", "-"], manifests())
    assert taken.code == 0, taken.err
    return run_on_both


@pytest.fixture(scope="module")
def outcomes(both) -> list[tuple[Outcome, Outcome]]:
    both(["create", "namespace", NAMESPACE])
    both(["wait", "--for=create", "serviceaccount/default", "--timeout=120s"])
    return [
        both(shlex.split(step.command.format(ns=NAMESPACE), posix=False), step.input.replace("{ns}", NAMESPACE))
        for step in STORY
    ]


def normal(text: str) -> str:
    """Without what differs between any two clusters: ids, times, addresses, versions, widths of columns."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME", text)
    text = re.sub(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "TIME", text)
    text = re.sub(r'[rR]esource ?[vV]ersion"?: +"?\d+"?', "VERSION", text)
    text = re.sub(r"https://127\.0\.0\.1:\d+", "URL", text)
    text = re.sub(r"\b\d+(s|m|h|d|m\d+s|h\d+m|d\d+h)\b(?! ago)", "AGE", text)
    text = re.sub(r"Warning: \w+ are stored but nothing acts on them here.*\n", "", text)
    return "\n".join(re.sub(r"[ \t]+", " ", line).strip() for line in text.splitlines())


def fields(text: str) -> list[str]:
    """The field names and types that `kubectl explain` lists; descriptions are each server's own."""
    return re.findall(r"^ +(\S+)\s+(<\S+>(?: -required-)?)", text, re.MULTILINE)


@pytest.mark.parametrize("number", range(len(STORY)), ids=lambda n: f"{n:03}-{STORY[n].command.split(' -f')[0][:50]}")
def test_a_command_ends_alike_on_both_servers(outcomes, number):
    step: Step = STORY[number]
    real, ours = outcomes[number]
    assert ours.code == real.code, f"real: {real}\nours: {ours}"
    if step.compare == "fields":
        assert fields(ours.out) == fields(real.out)
        assert len(fields(ours.out)) > 1
    elif step.compare in {"all", "out"}:
        assert normal(ours.out) == normal(real.out)
        if step.compare == "all":
            assert normal(ours.err) == normal(real.err)


def complaints(text: str) -> set[str]:
    """What is wrong with an object, one sentence each."""
    lines = (line.removeprefix("* ") for line in normal(text).splitlines())
    return {re.sub(r'^The \w+ "\S*" is invalid: ?', "", line) for line in lines} - {""}


def fields_of(sentences: set[str]) -> set[str]:
    return {sentence.split(": ")[0] for sentence in sentences} - {"<nil>"}


def test_the_story_is_long_enough():
    assert len([step for step in STORY if step.compare != "code"]) >= 60


@pytest.mark.parametrize("case", [*cases.valid(), *cases.invalid()], ids=lambda case: case.id)
def test_a_manifest_is_accepted_or_refused_alike(both, case):
    """The real server says some things twice and in two ways (anyOf); ours must say nothing that it does not say."""
    text = yamltext.dump(case.object)
    arguments = ["create", "--dry-run=server", "--namespace=default", "-f", "-"]
    real, ours = both(arguments, text)
    assert ours.code == real.code == int(bool(case.refused)), f"real: {real}\nours: {ours}"
    assert complaints(ours.err) <= complaints(real.err)
    assert fields_of(complaints(ours.err)) == fields_of(complaints(real.err))
