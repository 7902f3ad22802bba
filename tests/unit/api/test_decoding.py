import gc
import json

import pytest

from pumice.api import batch, scheduling
from pumice.api.changes import PodRef
from pumice.api.decoding import decode, decode_value
from pumice.api.meta import ObjectMeta, OwnerReference
from pumice.api.pods import Container, Pod, PodTemplate, ResourceRequirements, Toleration
from pumice.errors import BadInput

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train-worker-0",
        "namespace": "research",
        "uid": "u1",
        "annotations": {"scheduling.k8s.io/group-name": "train"},
        "ownerReferences": [
            {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "j1", "controller": True}
        ],
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "schedulerName": "volcano",
        "initContainers": [{"name": "logs", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}],
        "containers": [
            {
                "name": "main",
                "image": "train:1",
                "env": [{"name": "RANK", "value": "0"}],
                "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}],
                "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": 0.5}, "requests": {"memory": "1Gi"}},
            }
        ],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "overhead": {"cpu": "10m"},
        "schedulingGroup": {"podGroupName": "native"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                }
            }
        },
    },
    "status": {
        "phase": "Running",
        "podIP": "10.1.1.1",
        "hostIP": "10.0.0.1",
        "containerStatuses": [{"name": "main", "restartCount": 2, "lastState": {"terminated": {"exitCode": 137}}}],
    },
}


def test_a_pod_is_read_as_far_as_we_read_pods():
    pod = decode(Pod, json.dumps(POD).encode())
    assert pod.metadata.key == "research/train-worker-0"
    assert pod.metadata.controller == OwnerReference("batch.volcano.sh/v1alpha1", "Job", "train", "j1", controller=True)
    (main,) = pod.spec.containers
    assert main.resources == ResourceRequirements(limits={"nvidia.com/gpu": 1, "cpu": 0.5}, requests={"memory": "1Gi"})
    assert (main.ports[0].host_port, main.ports[0].host_ip, main.ports[0].protocol) == (8080, "10.0.0.1", "TCP")
    assert not main.is_sidecar
    assert pod.spec.init_containers[0].is_sidecar
    assert pod.spec.tolerations == (Toleration(key="gpu", operator="Exists"),)
    assert pod.spec.overhead == {"cpu": "10m"}
    assert pod.spec.scheduling_group.pod_group_name == "native"
    assert pod.spec.affinity.node_affinity.required.node_selector_terms[0].match_expressions[0].values == ("a",)
    assert pod.status.pod_ip == "10.1.1.1"
    assert pod.status.container_statuses[0].last_state.terminated.exit_code == 137
    assert PodRef.of(pod.metadata) == PodRef(namespace="research", name="train-worker-0", uid="u1")


def test_what_is_absent_is_empty_and_shared():
    one, two = decode(Pod, b"{}"), decode(Pod, b'{"metadata":{}}')
    assert one.metadata.labels == {}
    assert one.metadata.labels is two.metadata.labels
    assert one.spec.containers == ()
    assert one.metadata.controller is None


def test_a_shared_emptiness_cannot_be_filled():
    with pytest.raises(TypeError):
        ObjectMeta().labels["a"] = "b"


def test_structs_are_frozen():
    with pytest.raises(AttributeError):
        Container(name="a").name = "b"


def test_names_with_capitals_are_read_as_kubernetes_spells_them():
    group = decode(scheduling.PodGroup, b'{"status":{"conditions":[{"type":"Scheduled","transitionID":"t1"}]}}')
    assert group.status.conditions[0].transition_id == "t1"


def test_a_pod_template_stays_as_it_was_written():
    template = b'{"spec": {"containers": [{"name": "main"}], "fieldOfNextYear": {"a": null}}}'
    job = decode(batch.Job, b'{"spec": {"tasks": [{"name": "worker", "template": ' + template + b"}]}}")
    assert bytes(job.spec.tasks[0].template) == template
    assert decode(PodTemplate, job.spec.tasks[0].template).spec.containers == (Container(name="main"),)


def test_a_job_template_is_kept_raw_and_can_be_read_as_a_job_spec():
    cron = decode(batch.CronJob, b'{"spec": {"schedule": "@daily", "jobTemplate": {"spec": {"minAvailable": 2}}}}')
    spec = decode(batch.JobSpec, cron.spec.job_template.spec)
    assert (spec.min_available, spec.queue, spec.max_retry) == (2, "default", 3)


def test_a_null_that_somebody_wrote_counts_as_absent():
    job = decode(
        batch.Job,
        b'{"metadata": {"name": "a", "labels": null, "annotations": {"x": "y"}}, "spec": {"tasks": [{"replicas": 2, "policies": null}], "queue": null}}',
    )
    assert job.metadata.labels == {}
    assert job.metadata.annotations == {"x": "y"}
    assert job.spec.tasks[0].policies == ()
    assert job.spec.queue == "default"


def test_an_object_from_a_yaml_file_is_read_like_one_from_a_server():
    assert decode_value(Pod, POD) == decode(Pod, json.dumps(POD).encode())


def test_absent_and_empty_plugins_differ_because_defaults_are_added_to_a_present_map_only():
    assert decode(batch.JobSpec, b"{}").plugins is None
    assert decode(batch.JobSpec, b'{"plugins": {}}').plugins == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            b'{"spec": {"minMember": "three"}}',
            "PodGroup: Expected `int`, got `str` - at `$.spec.minMember`; correct that field",
        ),
        (
            b'{"metadata": {"labels": ["a"]}}',
            "PodGroup: Expected `object`, got `array` - at `$.metadata.labels`; correct that field",
        ),
        (b"[]", "PodGroup: Expected `object`, got `array`; correct that field"),
        (b'{"spec": ', "PodGroup: not JSON: Input data was truncated; correct the text"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_path_and_what_to_do(text, said):
    with pytest.raises(BadInput) as refused:
        decode(scheduling.PodGroup, text)
    assert str(refused.value) == said


def test_structs_are_not_tracked_by_the_garbage_collector():
    assert not gc.is_tracked(decode(Pod, json.dumps(POD).encode()))
    assert not gc.is_tracked(decode(batch.Job, b'{"spec": {"tasks": [{}]}}'))


@pytest.mark.parametrize("written", [b"{}", b'{"volumeClaim": null}'])
def test_raw_json_that_is_not_there_is_absent_whether_or_not_somebody_wrote_null(written):
    assert decode(batch.JobVolume, written).volume_claim == batch.ABSENT


def test_raw_json_that_is_there_is_not_absent():
    volume = decode(batch.JobVolume, b'{"mountPath": "/a", "volumeClaim": {"accessModes": []}}')
    assert bytes(volume.volume_claim) == b'{"accessModes": []}'


def test_absent_raw_json_reads_as_an_empty_object():
    assert decode(batch.JobSpec, batch.ABSENT) == batch.JobSpec()
