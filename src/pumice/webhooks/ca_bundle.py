"""What API servers trust, written into the webhook configurations that were installed for us."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from pumice.api.kinds import Kind
from pumice.kube.requests import PatchType
from pumice.webhooks.registration import DOMAIN

if TYPE_CHECKING:
    from pumice.kube.client import Client

_GROUP = "admissionregistration.k8s.io"
CONFIGURATIONS = (
    Kind(_GROUP, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False),
    Kind(_GROUP, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False),
)


async def inject(client: Client, name: str, bundle: bytes) -> int:
    """Every webhook of ours in both configurations trusts the bundle; how many did not before. NotFound where one is missing."""
    wanted = base64.b64encode(bundle).decode()
    return sum([await _inject(client, kind, name, wanted) for kind in CONFIGURATIONS])


async def _inject(client: Client, kind: Kind, name: str, wanted: str) -> int:
    found = (await client.get(kind, name)).json()
    changes: list[dict[str, Any]] = []
    for index, hook in enumerate(found.get("webhooks") or ()):
        if hook["name"].endswith(f".{DOMAIN}") and hook["clientConfig"].get("caBundle", "") != wanted:
            where = f"/webhooks/{index}"
            # Another client may have put another webhook in this place since we looked.
            changes.append({"op": "test", "path": f"{where}/name", "value": hook["name"]})
            changes.append({"op": "add", "path": f"{where}/clientConfig/caBundle", "value": wanted})
    if changes:
        await client.patch(kind, name, changes, how=PatchType.JSON)
    return len(changes) // 2
