import pytest

from pumice.errors import BadInput
from pumice.processes.policies import PolicyFile
from pumice.scheduling.policy import PolicyError

GOOD = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n"


class Heard(list):
    def __call__(self, event, /, **facts):
        self.append((event, facts))


def test_without_a_file_the_built_in_policy_is_in_force():
    policies = PolicyFile(None, extra={}, log=Heard())
    assert policies.current.actions == ("enqueue", "allocate", "preempt", "reclaim", "backfill")
    assert not policies.look()


def test_a_file_that_cannot_be_read_at_the_start_is_an_error(tmp_path):
    with pytest.raises(BadInput, match="cannot be read: No such file or directory; check the name"):
        PolicyFile(str(tmp_path / "nowhere.yaml"), extra={}, log=Heard())


def test_a_bad_file_at_the_start_is_an_error(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD.replace("gang", "gnag"))
    with pytest.raises(PolicyError, match="unknown plugin 'gnag'; did you mean gang"):
        PolicyFile(str(path), extra={}, log=Heard())


def test_a_changed_file_is_in_force_after_the_next_look(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD)
    heard = Heard()
    policies = PolicyFile(str(path), extra={}, log=heard)
    path.write_text(GOOD.replace("allocate", '"allocate, backfill"'))
    assert policies.look()
    assert policies.current.actions == ("allocate", "backfill")
    assert heard[-1][0] == "policy_loaded"


@pytest.mark.parametrize(
    "broken",
    [
        "actions: alocate\ntiers: []\n",
        "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments: {binpack.weight: heavy}\n",
        ": not yaml : [",
        'actions: allocate\ntiers:\n- plugins:\n  - name: extender\n    arguments: {extender.urlPrefix: "http://:80"}\n',
        "actions: allocate\ntiers: []\nmetrics: {type: prometheus}\n",
    ],
    ids=["action", "argument", "yaml", "extender", "metrics"],
)
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
    assert (policies.refusals, [event for event, _ in heard]) == (1, ["policy_refused"])
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
