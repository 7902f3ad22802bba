import pytest

from pumice.api import names
from pumice.api.decoding import decode_value
from pumice.api.groups import Group, group_of
from pumice.api.pods import Pod

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "7", "controller": True}


def pod(*, owner=None, native=None, **annotations):
    metadata = {"name": "p", "namespace": "team", "uid": "1", "ownerReferences": [owner] if owner else []}
    spec = {"containers": [], **({"schedulingGroup": {"podGroupName": native}} if native is not None else {})}
    return decode_value(Pod, {"metadata": {**metadata, "annotations": annotations}, "spec": spec})


@pytest.mark.parametrize(
    ("member", "group"),
    [
        (pod(**{names.GROUP_NAME: "train"}), Group("train")),
        (pod(**{names.VOLCANO_GROUP_NAME: "train"}), Group("train")),
        (pod(**{names.GROUP_NAME: "a", names.VOLCANO_GROUP_NAME: "b"}), Group("a")),
        (pod(native="ring"), Group("ring", is_native=True)),
        (pod(native="ring", owner=OWNER), Group("ring", is_native=True)),
        (pod(native="ring", **{names.GROUP_NAME: "train"}), Group("train")),
        (pod(owner=OWNER), Group("podgroup-7", is_implied=True)),
        (pod(), Group("podgroup-1", is_implied=True)),
        (pod(owner=OWNER, **{names.GROUP_NAME: "podgroup-7"}), Group("podgroup-7")),
        (pod(owner=OWNER, native="", **{names.GROUP_NAME: "", names.VOLCANO_GROUP_NAME: ""}),
         Group("podgroup-7", is_implied=True)),
    ],
)  # fmt: skip
def test_a_pod_belongs_to_the_group_that_it_names_or_implies(member, group):
    assert group_of(member) == group
