from typing import ClassVar

import pytest

from pumice.api import batch, columns, kinds, meta, native, pods, scheduling


def test_a_path_leads_to_its_kind():
    assert kinds.by_resource("", "pods").struct is pods.Pod
    assert kinds.by_resource("batch.volcano.sh", "jobs").struct is batch.Job
    assert kinds.by_resource("batch", "jobs").struct is not batch.Job
    assert kinds.by_resource("batch.volcano.sh", "pods") is None


def test_an_object_leads_to_its_kind():
    assert kinds.by_kind("scheduling.volcano.sh/v1beta1", "PodGroup").struct is scheduling.PodGroup
    assert kinds.by_kind("scheduling.k8s.io/v1alpha2", "PodGroup").struct is native.NativePodGroup
    assert kinds.by_kind("v1", "Pod").plural == "pods"
    assert kinds.by_kind("v2", "Pod") is None


def test_a_struct_leads_to_its_kind():
    assert kinds.by_struct(scheduling.Queue).resource == "queues.scheduling.volcano.sh"
    assert all(kinds.by_struct(kind.struct) is kind for kind in kinds.KINDS if kind.struct)


def test_no_two_kinds_share_a_resource_an_api_version_and_kind_or_a_struct():
    assert len({kind.resource for kind in kinds.KINDS}) == len(kinds.KINDS)
    assert len({(kind.api_version, kind.kind) for kind in kinds.KINDS}) == len(kinds.KINDS)
    structs = [kind.struct for kind in kinds.KINDS if kind.struct]
    assert len(set(structs)) == len(structs)


def test_a_kind_is_named_as_objects_paths_and_crds_name_it():
    job = kinds.by_struct(batch.Job)
    assert (job.api_version, job.singular, job.scope, job.resource) == (
        "batch.volcano.sh/v1alpha1",
        "job",
        "Namespaced",
        "jobs.batch.volcano.sh",
    )
    queue = kinds.by_struct(scheduling.Queue)
    assert (queue.scope, queue.has_status) == ("Cluster", True)
    assert not kinds.by_struct(scheduling.PodGroup).has_status
    assert kinds.by_struct(pods.Pod).api_version == "v1"


def test_our_kinds_columns_are_all_paths_because_a_crd_can_compute_nothing():
    assert [c.name for kind in kinds.CUSTOM_KINDS for c in kind.columns if c.path is None] == []


def test_a_pod_prints_as_kubectl_users_know_it():
    narrow = [c.name for c in columns.POD if c.priority == 0]
    wide = [c.name for c in columns.POD if c.priority == 1]
    assert narrow == ["Ready", "Status", "Restarts", "Age"]
    assert wide == ["IP", "Node", "Nominated Node", "Readiness Gates"]


def test_a_struct_from_outside_names_its_kind_itself():
    class Licence(meta.Object):
        KIND: ClassVar[kinds.Kind] = kinds.Kind("example.com", "v1", "Licence", "licences")

    assert kinds.by_struct(Licence).resource == "licences.example.com"
    with pytest.raises(AssertionError, match="ObjectMeta is no kind of the table, and has no KIND of its own"):
        kinds.by_struct(meta.ObjectMeta)
