"""Command objects: how a Job is suspended and a queue closed, by vcctl, by our commands and by the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.bus import Command
from pumice.api.kinds import type_meta

if TYPE_CHECKING:
    from pumice.api.kinds import Kind
    from pumice.api.meta import Json
    from pumice.kube.client import Client


QUEUES_NAMESPACE = "default"  # queues have no namespace, Commands must have one, and vcctl takes this


def command_for(kind: Kind, target: Json, action: str, *, namespace: str) -> Json:
    """The Command that asks the controllers to do `action` to the target, and goes when the target goes."""
    meta = target["metadata"]
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        **type_meta(Command),
        "metadata": {
            "generateName": f"{meta['name']}-{action.lower()}-",
            "namespace": namespace,
            "ownerReferences": [reference],
        },
        "target": reference,
        "action": action,
    }


async def command(client: Client, kind: Kind, target: Json, action: str, *, namespace: str) -> None:
    await client.create(Command, command_for(kind, target, action, namespace=namespace), namespace=namespace)
