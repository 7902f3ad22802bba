import asyncio

import msgspec
import pytest
from click.testing import CliRunner

from pumice import sdk
from pumice.cli.offline import schedule
from pumice.clock import VirtualClock
from pumice.errors import BadInput
from pumice.processes.policies import PolicyFile, parse_policy
from pumice.scheduling.core.policy import PolicyError

GOOD = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n"
BROKEN = {
    "action": "actions: alocate\ntiers: []\n",
    "action's argument": (
        "actions: allocate\ntiers: []\nconfigurations:\n- {name: allocate, arguments: {predicateErrorCacheEnable: soon}}\n"
    ),
    "argument": "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments: {binpack.weight: heavy}\n",
    "yaml": ": not yaml : [",
    "extender": (
        'actions: allocate\ntiers:\n- plugins:\n  - name: extender\n    arguments: {extender.urlPrefix: "http://:80"}\n'
    ),
    "metrics": "actions: allocate\ntiers: []\nmetrics: {type: prometheus}\n",
}


class Heard(list):
    def __call__(self, event, /, **facts):
        self.append((event, facts))


def test_without_a_file_the_built_in_policy_is_in_force():
    policies = PolicyFile(None, extra={}, log=Heard())
    assert policies.current.actions == ("enqueue", "allocate", "preempt", "reclaim", "lend", "backfill")
    assert not policies.look()


def test_a_file_that_cannot_be_read_at_the_start_is_an_error(tmp_path):
    with pytest.raises(BadInput, match="cannot be read: No such file or directory; check the name"):
        PolicyFile(str(tmp_path / "nowhere.yaml"), extra={}, log=Heard())


def test_a_bad_file_at_the_start_is_an_error(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD.replace("gang", "gnag"))
    with pytest.raises(PolicyError, match="unknown plugin 'gnag'; did you mean gang"):
        PolicyFile(str(path), extra={}, log=Heard())


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_what_would_be_refused_later_is_refused_at_the_start(tmp_path, broken):
    path = tmp_path / "policy.yaml"
    path.write_text(broken)
    with pytest.raises(BadInput, match=r"policy\.yaml"):
        PolicyFile(str(path), extra={}, log=Heard())


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_what_a_scheduler_refuses_is_refused_offline(tmp_path, broken):
    path, objects = tmp_path / "policy.yaml", tmp_path / "objects.json"
    path.write_text(broken)
    objects.write_text('{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}')
    refusal = CliRunner().invoke(schedule, ["-f", str(objects), "--policy", str(path)]).exception
    assert isinstance(refusal, BadInput)
    assert "policy.yaml" in str(refusal)


def test_each_refusal_is_told_once_and_so_is_its_end(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD)
    policies = PolicyFile(str(path), extra={}, log=Heard())
    told = []

    async def main():
        looking = asyncio.create_task(policies.run(clock, told.append))
        for text in (BROKEN["action"], BROKEN["metrics"], GOOD):
            path.write_text(text)
            await clock.sleep(5)
        looking.cancel()

    clock = VirtualClock()
    clock.run(main())
    assert [text[:6] for text in told] == ["policy", "policy", ""]


def test_a_changed_file_is_in_force_after_the_next_look(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD)
    heard = Heard()
    policies = PolicyFile(str(path), extra={}, log=heard)
    path.write_text(GOOD.replace("allocate", '"allocate, backfill"'))
    assert policies.look()
    assert policies.current.actions == ("allocate", "backfill")
    assert heard[-1][0] == "policy_loaded"


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_refused_file_leaves_the_last_good_policy_in_force_and_is_told_once(tmp_path, broken):
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD)
    heard = Heard()
    policies = PolicyFile(str(path), extra={}, log=heard)
    path.write_text(broken)
    assert not policies.look()
    assert not policies.look()
    assert policies.current.actions == ("allocate",)
    assert policies.refused
    assert [event for event, _ in heard] == ["policy_refused"]
    path.write_text(GOOD + "\n")
    assert policies.look()
    assert not policies.refused


def test_a_file_that_vanishes_leaves_the_last_good_policy_in_force(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD)
    policies = PolicyFile(str(path), extra={}, log=Heard())
    path.unlink()
    assert not policies.look()
    assert policies.current.actions == ("allocate",)
    assert "cannot be read" in policies.refused


class Notes(msgspec.Struct, frozen=True):
    number: int = 0


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"memory": sdk.Slot("tdm", Notes)}, "plugin mine: its memory slot tdm is that of tdm already"),
        ({"memory": sdk.Slot("eviction-backoff", Notes)}, "slot eviction-backoff is that of the scheduler already"),
        (
            {"metrics": (sdk.Metric("pumice_nodes", sdk.MetricKind.GAUGE, "Nodes."),)},
            "plugin mine: its metric pumice_nodes is that of the scheduler already; rename it in the plugin",
        ),
    ],
)
def test_a_plugin_that_declares_what_is_anothers_is_refused(declared, why):
    mine = type("Mine", (sdk.Plugin,), declared)
    text = "actions: allocate\ntiers:\n- plugins: [{name: tdm}, {name: mine}]\n"
    with pytest.raises(PolicyError, match=why):
        parse_policy(text, "test", {"mine": mine})
