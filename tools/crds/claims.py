"""Schema of a claim's spec (core v1 PersistentVolumeClaimSpec)."""

from tools.crds.schema import Schema, label_selector, record, resources, text, texts


def claim_spec(description: str) -> Schema:
    typed_reference = {
        "apiGroup": text("Group of the source; empty is the core group."),
        "kind": text("Kind of the source."),
        "name": text("Name of the source."),
    }
    return record(
        description,
        {
            "accessModes": texts("How the volume may be mounted, such as ReadWriteOnce or ReadWriteMany.", atomic=True),
            "selector": label_selector("Volumes to choose from."),
            "resources": record(
                "Size of the volume.",
                {
                    "requests": resources("The least that is needed."),
                    "limits": resources("The most that may be given."),
                },
            ),
            "volumeName": text("A certain volume."),
            "storageClassName": text("Class to provide the volume; absent is the default one, empty is none."),
            "volumeMode": text("Filesystem or Block."),
            "volumeAttributesClassName": text("Class of attributes that can change later."),
            "dataSource": record(
                "What the volume is filled from.", typed_reference, required=("kind", "name"), atomic=True
            ),
            "dataSourceRef": record(
                "What the volume is filled from, in any namespace.",
                typed_reference | {"namespace": text("Namespace of the source.")},
                required=("kind", "name"),
            ),
        },
    )
