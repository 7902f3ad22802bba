"""Processes beside a benchmark."""

import types

import pytest
from bench.processes import Failed, Process


def test_a_process_that_ends_before_it_is_ready_is_told_with_its_own_words_and_not_waited_for(tmp_path):
    nowhere = types.SimpleNamespace(kubeconfig=tmp_path / "no such file")
    process = Process(nowhere, "controllers", ready="controllers_started")
    with pytest.raises(
        Failed,
        match=r"(?s)pumice controllers ended with exit code [1-9].*has not said controllers_started.*no such file",
    ):
        process.wait()
