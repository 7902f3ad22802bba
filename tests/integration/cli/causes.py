"""What tests of `pumice explain` put into a cluster: Jobs, groups, pods and queues of a few words each."""

GPU = "nvidia.com/gpu"


def a_job(name, *, replicas=1, minimum=None, queue="default", resources=None, topology=None, **pod):
    resources = resources or {"cpu": "1"}
    container = {"name": "c", "image": "i", "resources": {"requests": resources, "limits": resources}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **pod}}
    tasks = [{"name": "w", "replicas": replicas, "template": template}]
    spec = {"minAvailable": minimum or replicas, "schedulerName": "volcano", "queue": queue, "tasks": tasks}
    if topology:
        spec["networkTopology"] = topology
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def a_group(name, minimum, **spec):
    whole = {"minMember": minimum, "queue": "default", **spec}
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    return {**kind, "metadata": {"name": name}, "spec": whole}


def a_pod(name, group, resources=None, **spec):
    """A member of a group that nobody but the test made."""
    container = {"name": "c", "image": "i", "resources": {"limits": resources or {"cpu": "1"}}}
    annotations = {"scheduling.k8s.io/group-name": group}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": [container], **spec},
    }


def a_queue(name, **spec):
    whole = {"weight": 1, **spec}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": whole,
    }
