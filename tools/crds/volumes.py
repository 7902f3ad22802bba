"""Schema of a pod's volumes: the sources that people write are typed, the others are kept as they are."""

from tools.crds.claims import claim_spec
from tools.crds.schema import (
    Schema,
    anything,
    array,
    flag,
    integer,
    label_selector,
    long,
    quantity,
    record,
    text,
    words,
)

# Vendors' own and removed ones; whoever still writes them knows their fields better than we do.
_KEPT_SOURCES = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "iscsi",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
]

_MODE = integer("Permission bits of files.", minimum=0, maximum=0o777)
_OPTIONAL = flag("Whether the pod starts without it.")
_KEY_TO_PATH = record(
    "One key as a file.",
    {"key": text("Key to take."), "path": text("File to write it to."), "mode": _MODE},
    required=("key", "path"),
)
_ITEMS = array("Keys to show, and as which files; absent shows all.", _KEY_TO_PATH)

FIELD_REF = record(
    "A field of the pod.",
    {"apiVersion": text("Version of the pod's schema."), "fieldPath": text("Path of the field.")},
    required=("fieldPath",),
    atomic=True,
)
RESOURCE_FIELD_REF = record(
    "An amount that a container asks for.",
    {
        "containerName": text("Container that asks."),
        "resource": text("Such as limits.cpu."),
        "divisor": quantity("Unit to count in."),
    },
    required=("resource",),
    atomic=True,
)
_DOWNWARD_ITEMS = array(
    "Fields to show as files.",
    record(
        "One field as a file.",
        {
            "path": text("File to write it to."),
            "fieldRef": FIELD_REF,
            "resourceFieldRef": RESOURCE_FIELD_REF,
            "mode": _MODE,
        },
        required=("path",),
    ),
)


def _projection() -> Schema:
    named = {"name": text("Its name."), "items": _ITEMS, "optional": _OPTIONAL}
    return record(
        "One source.",
        {
            "secret": record("A Secret's keys.", named),
            "configMap": record("A ConfigMap's keys.", named),
            "downwardAPI": record("Fields of the pod.", {"items": _DOWNWARD_ITEMS}),
            "serviceAccountToken": record(
                "A token of the pod's service account.",
                {
                    "audience": text("Whom the token is for."),
                    "expirationSeconds": long("How long the token is valid."),
                    "path": text("File to write it to."),
                },
                required=("path",),
            ),
            "clusterTrustBundle": record(
                "Trust anchors.",
                {
                    "name": text("Its name."),
                    "signerName": text("Bundles of this signer."),
                    "labelSelector": label_selector("Bundles with these labels."),
                    "optional": _OPTIONAL,
                    "path": text("File to write it to."),
                },
                required=("path",),
            ),
            "podCertificate": anything("A certificate for the pod."),
        },
    )


def _data_sources() -> dict[str, Schema]:
    """Folders that live with the pod, and what the API server knows."""
    return {
        "emptyDir": record(
            "An empty folder that lives as long as the pod.",
            {"medium": text("Memory, or the node's disk."), "sizeLimit": quantity("Most that it may hold.")},
        ),
        "hostPath": record(
            "A path of the node.",
            {"path": text("Path on the node."), "type": text("What must be there, such as Directory.")},
            required=("path",),
        ),
        "configMap": record(
            "A ConfigMap's keys as files.",
            {"name": text("Its name."), "items": _ITEMS, "defaultMode": _MODE, "optional": _OPTIONAL},
        ),
        "secret": record(
            "A Secret's keys as files.",
            {"secretName": text("Its name."), "items": _ITEMS, "defaultMode": _MODE, "optional": _OPTIONAL},
        ),
        "downwardAPI": record("Fields of the pod as files.", {"items": _DOWNWARD_ITEMS, "defaultMode": _MODE}),
        "projected": record(
            "Several sources in one folder.",
            {"sources": array("The sources.", _projection()), "defaultMode": _MODE},
        ),
    }


def _storage_sources() -> dict[str, Schema]:
    """What outlives the pod, or comes from outside of the cluster."""
    return {
        "persistentVolumeClaim": record(
            "A claim in the pod's namespace.",
            {"claimName": text("Its name."), "readOnly": flag("Whether it is mounted read-only.")},
            required=("claimName",),
        ),
        "ephemeral": record(
            "A claim that lives as long as the pod.",
            {
                "volumeClaimTemplate": record(
                    "The claim to make.",
                    {"metadata": anything("Labels and annotations of the claim."), "spec": claim_spec("Its spec.")},
                    required=("spec",),
                )
            },
        ),
        "nfs": record(
            "A folder of an NFS server.",
            {
                "server": text("Its address."),
                "path": text("The exported path."),
                "readOnly": flag("Whether it is mounted read-only."),
            },
            required=("server", "path"),
        ),
        "csi": record(
            "A volume of a CSI driver that lives as long as the pod.",
            {
                "driver": text("Name of the driver."),
                "readOnly": flag("Whether it is mounted read-only."),
                "fsType": text("File system."),
                "volumeAttributes": words("The driver's own settings."),
                "nodePublishSecretRef": record("Secret for the driver.", {"name": text("Its name.")}, atomic=True),
            },
            required=("driver",),
        ),
        "image": record(
            "An OCI image's files.",
            {"reference": text("The image."), "pullPolicy": text("When it is pulled.")},
        ),
    }


def volume() -> Schema:
    kept = {name: anything("Kept as it is written.") for name in _KEPT_SOURCES}
    return record(
        "A name and one source.",
        {"name": text("What mounts call it."), **_data_sources(), **_storage_sources(), **kept},
        required=("name",),
    )
