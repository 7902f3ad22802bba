"""Which kinds an API server serves: a watch of one that it does not would wait for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice.api import kinds
from pumice.kube import errors
from pumice.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.meta import Struct
    from pumice.kube.client import Client


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] = ()


async def served_kinds(client: Client, wanted: Sequence[type[Struct]]) -> list[type[Struct]]:
    """Those of the wanted kinds that the server serves now, in their order; one call for each group."""
    served: dict[str, frozenset[str]] = {}
    found = []
    for struct in wanted:
        kind = kinds.by_struct(struct)
        where = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        if where not in served:
            served[where] = await _resources(client, where)
        if kind.plural in served[where]:
            found.append(struct)
    return found


async def _resources(client: Client, where: str) -> frozenset[str]:
    try:
        response = await client.call(Request("GET", where, {}, {"accept": "application/json"}))
    except errors.NotFound:
        return frozenset()
    return frozenset(each.name for each in msgspec.json.decode(response.body, type=_Resources).resources)
