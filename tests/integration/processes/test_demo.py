"""`pumice demo` as a newcomer runs it: real output, exit 0, and every scene told."""

import subprocess
import sys

import pytest


@pytest.mark.timeout(180)
def test_the_demo_tells_its_story_and_ends_well():
    done = subprocess.run([sys.executable, "-m", "pumice.cli", "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout
    assert "6 of 8 workers run" in told
    assert "$0.0083 for nothing after 2.0 s" in told
    assert "$ pumice explain pg/train" in told
    assert "0 of 8 are placed" in told
    assert "8 of 8 run, all bound by one decision" in told
    assert "64 of 64" in told
    assert "of each worker: 24 of 1, 12 of 2, 4 of 4, 0 of 8" in told
    assert "packed by Pumice's built-in policy: 3 of 4 nodes whole" in told
    assert "of each worker: 24 of 1, 12 of 2, 6 of 4, 3 of 8" in told
    assert "long, 3 hours: waits, because it would delay gang default/large" in told
    assert "short, 30 minutes: runs at once. The reservation still stands" in told
    assert "resumes after step" in told or "process nodes need namespaces" in told
    assert "Start a cluster to play with: pumice up" in told
