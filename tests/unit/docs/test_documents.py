"""What the documentation says is what the code does."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.scheduling import clusters

from pumice.scheduling.core import builtin, cycle

ROOT = Path(__file__).parents[3]


def test_the_generated_references_are_current():
    done = subprocess.run(
        [sys.executable, "-m", "tools.docs.reference", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture
def reserved_nodes():
    path = ROOT / "docs" / "examples" / "reserved_nodes.py"
    spec = importlib.util.spec_from_file_location("reserved_nodes", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["reserved_nodes"] = module
    spec.loader.exec_module(module)
    return module.ReservedNodes


POLICY = """
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: reserved-nodes
    arguments: {reserved-nodes.label: team}
"""


def test_the_example_plugin_keeps_reserved_nodes_for_their_queue(reserved_nodes):
    extra = {"reserved-nodes": reserved_nodes}
    snapshot = clusters.a_cluster(
        clusters.a_node("n1", cpu="4", labels={"team": "red"}),
        clusters.a_node("n2", cpu="4"),
        clusters.a_queue("red"),
        clusters.a_queue("blue"),
        clusters.a_gang("b", 1, group={"queue": "blue"}, cpu="4"),
        clusters.a_gang("r", 1, group={"queue": "red"}, cpu="4"),
    ).snapshot()
    policy = builtin.parse(POLICY, "test", extra=extra)
    decisions = cycle.plan(snapshot, policy, now=clusters.NOW, extra_plugins=extra)
    assert {commit.gang: commit.binds[0].node for commit in decisions.commits} == {"default/b": "n2", "default/r": "n1"}


@pytest.mark.parametrize("name", ["day_limit", "reserved_nodes"])
def test_the_example_plugins_fit_a_screen_and_their_types_are_right(name, tmp_path):
    path = ROOT / "docs" / "examples" / f"{name}.py"
    assert len(path.read_text().splitlines()) <= 60
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_guide_shows_the_examples_as_they_are():
    guide = (ROOT / "docs" / "guides" / "writing-a-plugin.md").read_text()
    assert (ROOT / "docs" / "examples" / "day_limit.py").read_text().partition("class DayLimit")[2] in guide
