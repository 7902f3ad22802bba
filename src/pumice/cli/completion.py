"""Completion of names that are in the cluster now; it never prints, and never waits long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice.cli.cluster_command import Target, connect
from pumice.errors import PumiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    import click

ANSWER_S_MAX = 2.0  # a key was pressed: a slow cluster is as good as none


def live(resource: str, prefix: str = "") -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Names of a kind (`plural.group`) in the namespace that the line so far means, each behind a prefix."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        if not prefix.startswith(incomplete[: len(prefix)]):
            return []
        kubeconfig, context, master, namespace = (
            str(ctx.params.get(field) or "") for field in ("kubeconfig", "context", "master", "namespace")
        )
        target = Target(kubeconfig, context, master, namespace)
        try:
            found = asyncio.run(_names(resource, target))
        except (PumiceError, TimeoutError, OSError):
            return []
        return [prefix + name for name in found if (prefix + name).startswith(incomplete)]

    return complete


async def _names(resource: str, target: Target) -> list[str]:
    from pumice.api.kinds import by_resource

    plural, _, group = resource.partition(".")
    kind = by_resource(group, plural)
    assert kind is not None, resource
    async with asyncio.timeout(ANSWER_S_MAX), connect(target) as access:
        return sorted(
            each["metadata"]["name"] for each in await access.client.list_json(kind, namespace=access.namespace)
        )


def subjects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What `pumice explain` may be asked about; names come once the kind is written."""
    known = {"job/": "jobs.batch.volcano.sh", "pg/": "podgroups.scheduling.volcano.sh", "pod/": "pods"}
    for prefix, resource in known.items():
        if incomplete.startswith(prefix):
            return live(resource, prefix)(ctx, param, incomplete)
    return [prefix for prefix in known if prefix.startswith(incomplete)]
