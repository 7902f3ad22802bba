"""The one table of kinds: what a resource is called, where it lives, what kubectl prints of it, and which Struct reads it.

A kind that we only write or pass through has no Struct. Adding a kind is one line here; a kind of ours needs a CRD as well.
"""

from pumice.api import (
    apps,
    batch,
    bus,
    columns,
    coordination,
    core,
    events,
    flow,
    native,
    nodeinfo,
    pods,
    policy,
    priority,
    resource,
    scheduling,
    storage,
    topology,
)
from pumice.api.columns import Column
from pumice.api.meta import ObjectReference, OwnerReference, Struct


class Kind(Struct):
    group: str  # empty: the core group
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    columns: tuple[Column, ...] = columns.DEFAULT
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    struct: type[Struct] | None = None
    is_custom: bool = False  # one of ours: defined by a CRD, not built into API servers

    @property
    def api_version(self) -> str:
        """`group/version`, as objects carry it; the core group has no name."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The kind's name in lower case, which is the singular of every kind that we know."""
        return self.kind.lower()

    @property
    def scope(self) -> str:
        """The word that a CRD uses."""
        return "Namespaced" if self.namespaced else "Cluster"

    @property
    def resource(self) -> str:
        """`plural.group`: unique among kinds, and the name of the kind's CRD."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        """True where status is written through its own subresource."""
        return "status" in self.subresources


_ALL = ("all",)
_STATUS = ("status",)
_SCALED = ("status", "scale")

# In the order in which a bare word such as `jobs` is understood: core first, then built-in groups, then ours. One kind a line.
# fmt: off
KINDS: tuple[Kind, ...] = (
    Kind("", "v1", "Pod", "pods", ("po",), categories=_ALL, columns=columns.POD, subresources=("status", "binding", "eviction", "log"), struct=pods.Pod),
    Kind("", "v1", "Node", "nodes", ("no",), namespaced=False, columns=columns.NODE, subresources=_STATUS, struct=core.Node),
    Kind("", "v1", "Namespace", "namespaces", ("ns",), namespaced=False, columns=columns.NAMESPACE, subresources=("status", "finalize"), struct=core.Namespace),
    Kind("", "v1", "Service", "services", ("svc",), categories=_ALL, columns=columns.SERVICE, subresources=_STATUS, struct=core.Service),
    Kind("", "v1", "ConfigMap", "configmaps", ("cm",), columns=columns.CONFIG_MAP, struct=core.ConfigMap),
    Kind("", "v1", "Secret", "secrets", columns=columns.SECRET, struct=core.Secret),
    Kind("", "v1", "Event", "events", ("ev",), columns=columns.EVENT, struct=events.CoreEvent),
    Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", ("pvc",), columns=columns.PERSISTENT_VOLUME_CLAIM, subresources=_STATUS, struct=core.PersistentVolumeClaim),
    Kind("", "v1", "PersistentVolume", "persistentvolumes", ("pv",), namespaced=False, columns=columns.PERSISTENT_VOLUME, subresources=_STATUS, struct=core.PersistentVolume),
    Kind("", "v1", "ResourceQuota", "resourcequotas", ("quota",), columns=columns.RESOURCE_QUOTA, subresources=_STATUS, struct=core.ResourceQuota),
    Kind("", "v1", "ServiceAccount", "serviceaccounts", ("sa",), subresources=("token",), struct=core.ServiceAccount),
    Kind("", "v1", "ReplicationController", "replicationcontrollers", ("rc",), categories=_ALL, columns=columns.REPLICATION_CONTROLLER, subresources=_SCALED, struct=apps.ReplicationController),
    Kind("apps", "v1", "Deployment", "deployments", ("deploy",), categories=_ALL, columns=columns.DEPLOYMENT, subresources=_SCALED),
    Kind("apps", "v1", "ReplicaSet", "replicasets", ("rs",), categories=_ALL, columns=columns.REPLICA_SET, subresources=_SCALED, struct=apps.ReplicaSet),
    Kind("apps", "v1", "StatefulSet", "statefulsets", ("sts",), categories=_ALL, columns=columns.STATEFUL_SET, subresources=_SCALED, struct=apps.StatefulSet),
    Kind("apps", "v1", "DaemonSet", "daemonsets", ("ds",), categories=_ALL, columns=columns.DAEMON_SET, subresources=_STATUS, struct=apps.DaemonSet),
    Kind("batch", "v1", "Job", "jobs", categories=_ALL, columns=columns.KUBE_JOB, subresources=_STATUS, struct=apps.KubeJob),
    Kind("events.k8s.io", "v1", "Event", "events", ("ev",), columns=columns.EVENT),
    Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", ("pdb",), columns=columns.POD_DISRUPTION_BUDGET, subresources=_STATUS, struct=policy.PodDisruptionBudget),
    Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", ("pc",), namespaced=False, columns=columns.PRIORITY_CLASS, struct=priority.PriorityClass),
    Kind("scheduling.k8s.io", "v1alpha2", "Workload", "workloads"),
    Kind("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", columns=columns.NATIVE_POD_GROUP, subresources=_STATUS, struct=native.NativePodGroup),
    Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", ("sc",), namespaced=False, columns=columns.STORAGE_CLASS, struct=storage.StorageClass),
    Kind("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False, columns=columns.CSI_NODE, struct=storage.CSINode),
    Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", namespaced=False, columns=columns.CSI_DRIVER, struct=storage.CSIDriver),
    Kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", columns=columns.CSI_STORAGE_CAPACITY, struct=storage.CSIStorageCapacity),
    Kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", namespaced=False, columns=columns.VOLUME_ATTACHMENT, subresources=_STATUS, struct=storage.VolumeAttachment),
    Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", columns=columns.RESOURCE_CLAIM, subresources=_STATUS, struct=resource.ResourceClaim),
    Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False, columns=columns.RESOURCE_SLICE, struct=resource.ResourceSlice),
    Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False, struct=resource.DeviceClass),
    Kind("coordination.k8s.io", "v1", "Lease", "leases", columns=columns.LEASE, struct=coordination.Lease),
    Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", ("netpol",), columns=columns.NETWORK_POLICY),
    Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", ("crd", "crds"), namespaced=False, categories=("api-extensions",), columns=columns.CUSTOM_RESOURCE_DEFINITION, subresources=_STATUS),
    Kind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False, categories=("api-extensions",), columns=columns.WEBHOOK_CONFIGURATION),
    Kind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False, categories=("api-extensions",), columns=columns.WEBHOOK_CONFIGURATION),
    Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs", ("vcjob", "vj"), columns=columns.JOB, subresources=_STATUS, struct=batch.Job, is_custom=True),
    Kind("batch.volcano.sh", "v1alpha1", "CronJob", "cronjobs", ("cronvcjob", "cronvj"), subresources=_STATUS, struct=batch.CronJob, is_custom=True),
    Kind("bus.volcano.sh", "v1alpha1", "Command", "commands", struct=bus.Command, is_custom=True),
    # No status subresource, as in Volcano: status is written through the object itself.
    Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", ("pg", "podgroup-v1beta1"), columns=columns.POD_GROUP, struct=scheduling.PodGroup, is_custom=True),
    Kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues", ("q", "queue-v1beta1"), namespaced=False, columns=columns.QUEUE, subresources=_STATUS, struct=scheduling.Queue, is_custom=True),
    Kind("flow.volcano.sh", "v1alpha1", "JobFlow", "jobflows", ("jf",), columns=columns.JOB_FLOW, subresources=_STATUS, struct=flow.JobFlow, is_custom=True),
    Kind("flow.volcano.sh", "v1alpha1", "JobTemplate", "jobtemplates", ("jt",), subresources=_STATUS, struct=flow.JobTemplate, is_custom=True),
    Kind("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", ("hn",), namespaced=False, columns=columns.HYPER_NODE, subresources=_STATUS, struct=topology.HyperNode, is_custom=True),
    Kind("nodeinfo.volcano.sh", "v1alpha1", "Numatopology", "numatopologies", ("numatopo",), namespaced=False, struct=nodeinfo.Numatopology, is_custom=True),
    Kind("shard.volcano.sh", "v1alpha1", "NodeShard", "nodeshards", ("nsh",), namespaced=False, columns=columns.NODE_SHARD, subresources=_STATUS, is_custom=True),
    Kind("config.volcano.sh", "v1alpha1", "ColocationConfiguration", "colocationconfigurations", subresources=_STATUS, is_custom=True),
)
# fmt: on

CUSTOM_KINDS: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind.is_custom)

_BY_RESOURCE = {(kind.group, kind.plural): kind for kind in KINDS}
_BY_KIND = {(kind.api_version, kind.kind): kind for kind in KINDS}
_BY_STRUCT = {kind.struct: kind for kind in KINDS if kind.struct is not None}


def by_resource(group: str, plural: str) -> Kind | None:
    """The kind behind a path's group and plural, as in `/apis/<group>/<version>/<plural>`."""
    return _BY_RESOURCE.get((group, plural))


def by_kind(api_version: str, kind: str) -> Kind | None:
    """The kind that an object's own `apiVersion` and `kind` name."""
    return _BY_KIND.get((api_version, kind))


def by_struct(struct: type[Struct]) -> Kind:
    """The kind that a Struct reads; every top-level Struct reads exactly one. A Struct of a plugin from outside names it itself, as KIND."""
    kind: Kind | None = _BY_STRUCT.get(struct) or getattr(struct, "KIND", None)
    assert kind is not None, f"{struct.__name__} is no kind of the table, and has no KIND of its own"
    return kind


def type_meta(struct: type[Struct]) -> dict[str, str]:
    """The first two fields of an object that is to be written."""
    kind = by_struct(struct)
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def is_of_kind(reference: OwnerReference | ObjectReference, struct: type[Struct]) -> bool:
    """True where a reference names an object of the Struct's kind."""
    return {"apiVersion": reference.api_version, "kind": reference.kind} == type_meta(struct)
