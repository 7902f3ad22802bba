"""On a machine with an NVIDIA GPU, for real. Elsewhere tests/integration/processes/test_workstation.py replays one's answers."""

import pytest
from tools.gpu import workstation

from pumice.errors import BadInput
from pumice.local.nodes.process.nvml import Nvml
from pumice.runtime import silent


@pytest.fixture
def a_card():
    try:
        nvml = Nvml.open(silent)
        gpus = nvml.gpus()
    except BadInput as error:
        pytest.skip(f"no NVIDIA GPU here: {error}")
    yield gpus[0]
    nvml.close()


def test_two_ranks_share_a_card_are_evicted_and_resume(a_card, tmp_path):
    workstation.story(workstation.Workstation(tmp_path, "--shared-gpus", "all"))
