"""Pods that share their equal parts are equal to what they were, whatever came before them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.scheduling.clusters import a_pod, merged

from pumice.api import names, sharing
from pumice.api.sharing import Siblings

OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u-j", "controller": True}
ENCODER = msgspec.msgpack.Encoder(enc_hook=dict)
CONDITIONS = [{"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"} for kind in ("a", "b")]


def a_member(number, **manifest):
    metadata = {"ownerReferences": [OWNER], "labels": {"index": str(number), "job": "train"}}
    spec = {"tolerations": [{"key": "gpu", "operator": "Exists"}], "nodeSelector": {"pool": "a"}}
    own = {"metadata": metadata, "spec": spec, "status": {"conditions": CONDITIONS}}
    return a_pod(f"train-worker-{number}", gang="train", role="worker", **merged(own, manifest))


def test_members_keep_once_what_is_equal_in_them():
    siblings = Siblings()
    first, second = (siblings.share(a_member(number)) for number in range(2))
    assert second == a_member(1)
    assert second.spec.containers is first.spec.containers
    assert second.spec.tolerations is first.spec.tolerations
    assert second.metadata.owner_references is first.metadata.owner_references
    assert second.metadata.annotations is first.metadata.annotations
    assert second.metadata.labels["job"] is first.metadata.labels["job"]
    assert second.status.conditions is first.status.conditions


def test_of_what_differs_a_little_the_rest_is_kept_once():
    siblings = Siblings()
    later = {**CONDITIONS[1], "lastTransitionTime": "2026-01-01T00:00:09Z"}
    first, second = (
        siblings.share(each) for each in (a_member(0), a_member(1, status={"conditions": [CONDITIONS[0], later]}))
    )
    assert second.status.conditions[0] is first.status.conditions[0]
    assert second.status.conditions[1].last_transition_time == "2026-01-01T00:00:09Z"


@pytest.mark.parametrize(
    "other", [a_member(1, metadata={"ownerReferences": [{**OWNER, "uid": "u-k"}]}), a_pod("alone")]
)
def test_those_of_another_owner_are_not_looked_at(other):
    siblings = Siblings()
    siblings.share(a_member(0))
    assert siblings.share(other) is other


def test_nothing_is_kept_of_pods_that_are_gone():
    siblings = Siblings()
    last = [siblings.share(a_member(number)) for number in range(3)][-1]
    siblings.forget(a_member(0))
    assert len(siblings) == 1
    siblings.forget(last)
    assert len(siblings) == 0


def test_owners_are_remembered_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(sharing, "SIBLINGS_MAX", 3)
    siblings = Siblings()
    for number in range(10):
        siblings.share(a_member(0, metadata={"ownerReferences": [{**OWNER, "uid": f"u-{number}"}]}))
        assert len(siblings) <= 3


_TEXT = st.sampled_from(["", "a", "b"])
_PODS = st.builds(
    lambda number, label, phase, keys, node: a_member(
        number,
        metadata={"labels": {"x": label}, "annotations": dict.fromkeys(keys, "1")},
        spec={"nodeName": node, "tolerations": [{"key": key} for key in keys]},
        status={"phase": phase, "conditions": [{"type": key, "status": "True"} for key in keys]},
    ),
    st.integers(0, 3), _TEXT, st.sampled_from(["Pending", "Running"]), st.lists(_TEXT.filter(bool), max_size=3), _TEXT,
)  # fmt: skip


@given(st.lists(_PODS, max_size=8))
def test_sharing_changes_no_pod(pods):
    siblings = Siblings()
    before = ENCODER.encode(pods)
    assert [siblings.share(each) for each in pods] == pods
    assert ENCODER.encode(pods) == before


def test_the_role_tells_members_of_one_job_apart():
    siblings = Siblings()
    master = a_member(0, metadata={"annotations": {names.TASK_SPEC: "master"}})
    siblings.share(a_member(0))
    assert siblings.share(master) is master
