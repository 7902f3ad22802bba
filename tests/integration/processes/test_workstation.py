"""`pumice up --gpus auto` with NVML's recorded answers: the story that tests/gpu tells with a real card."""

import os
from pathlib import Path

import pytest
from tests.bodies.gate import require_namespaces
from tools.gpu import workstation

ROOT = Path(__file__).resolve().parents[3]
RECORDED = os.pathsep.join([str(ROOT / "tests" / "bodies" / "nvml"), str(ROOT)])


def test_two_ranks_share_a_card_are_evicted_and_resume(tmp_path, monkeypatch):
    require_namespaces(tmp_path)
    monkeypatch.setenv("PYTHONPATH", RECORDED)
    workstation.story(workstation.Workstation(tmp_path, "--shared-gpus", "all"))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["up", "--gpus", "auto", "--shared-gpus", "2"], "--shared-gpus 2: this machine has 1 GPUs"),
        (["up", "--gpus", "4", "--shared-gpus", "1"], "give --gpus auto with it"),
        (["up", "--gpus", "some"], "'some' is not a valid integer"),
        (["node", "--pretend", "3", "--gpus", "auto"], "--gpus auto is for a process node"),
    ],
)
def test_what_cannot_be_is_refused(options, complaint, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RECORDED)
    with pytest.raises(workstation.Failed, match=complaint):
        workstation.Workstation(tmp_path).pumice(*options)
