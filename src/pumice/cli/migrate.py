"""`pumice migrate`: what changes for the users of a cluster when Pumice takes over from Volcano."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from pumice.cli.cluster_command import ClusterAccess, Target, connect
from pumice.cli.results import output_option
from pumice.cli.suggestions import SuggestingGroup
from pumice.errors import PumiceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.cli.migration import Finding

# What is read of a cluster: everything of Volcano's kinds, and how Volcano itself runs.
CUSTOM = (
    "jobs.batch.volcano.sh",
    "cronjobs.batch.volcano.sh",
    "podgroups.scheduling.volcano.sh",
    "queues.scheduling.volcano.sh",
    "jobflows.flow.volcano.sh",
    "jobtemplates.flow.volcano.sh",
    "hypernodes.topology.volcano.sh",
    "nodeshards.shard.volcano.sh",
    "colocationconfigurations.config.volcano.sh",
)
WHERE_VOLCANO_RUNS = (
    ("/api/v1", "configmaps", "ConfigMap"),
    ("/apis/apps/v1", "deployments", "Deployment"),
    ("/apis/apps/v1", "daemonsets", "DaemonSet"),
)
CLUSTER_WIDE = (
    ("/apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    ("/apis/admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    ("/apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
)


class WouldBreak(PumiceError):
    """Something would not work; the findings have been printed."""


@click.group(cls=SuggestingGroup)
def migrate() -> None:
    """Change over from Volcano, and back."""


@migrate.command()
@click.option("-f", "--filename", "files", multiple=True, help="File or folder with objects, instead of a cluster.")
@click.option("--volcano-namespace", default="volcano-system", show_default=True, help="Where Volcano is installed.")
@click.option("--strict", is_flag=True, help="Fail for differences, too.")
@output_option
@click.option("--context", default="", help="Context of the kubeconfig.")
@click.option("-k", "--kubeconfig", default="", help="Kubeconfig file; else $KUBECONFIG or ~/.kube/config.")
def check(
    files: tuple[str, ...], volcano_namespace: str, strict: bool, output: str, context: str, kubeconfig: str
) -> None:
    """List what will behave differently, and why; nothing is changed.

    Reads a cluster, or what `kubectl get ... -o yaml` printed. Ends with 1 if something will not work as it is (with --strict
    also if something works differently), with 0 otherwise.
    """
    from pumice.cli.migration import Severity, findings
    from pumice.cli.offline import read_objects
    from pumice.cli.printing import echo_data
    from pumice.processes.entry_points import plugins_from_outside

    if files:
        objects = [each for name in files for each in read_objects(name)]
    else:
        objects = asyncio.run(_read_cluster(Target(kubeconfig, context), volcano_namespace))
    found = findings(objects, plugins_from_outside())
    if output == "table":
        click.echo(_text(found, len(objects)))
    else:
        echo_data({"objects": len(objects), "findings": [each.as_data() for each in found]}, output)
    worst = {Severity.BREAKS, *([Severity.DIFFERS] if strict else [])}
    count = sum(each.severity in worst for each in found)
    if count:
        raise WouldBreak(f"{count} of the findings need somebody's attention before Pumice takes over")


def _text(found: Sequence[Finding], objects: int) -> str:
    from pumice.cli.printing import align

    if not found:
        return f"Nothing in {objects} objects will behave differently."
    rows = [("SEVERITY", "SUBJECT", "WHAT", "SEE")]
    rows += [(each.severity.value, each.subject, each.what, each.see) for each in found]
    return align(rows)


async def _read_cluster(target: Target, namespace: str) -> list[Mapping[str, Any]]:
    from pumice.api import kinds

    async with connect(target) as access:
        objects: list[Mapping[str, Any]] = []
        for kind in kinds.CUSTOM_KINDS:
            if kind.resource in CUSTOM:
                where = f"/apis/{kind.api_version}/{kind.plural}"
                objects += await _list_objects(access, where, kind.api_version, kind.kind)
        for prefix, plural, name in WHERE_VOLCANO_RUNS:
            where = f"{prefix}/namespaces/{namespace}/{plural}"
            objects += await _list_objects(access, where, prefix.removeprefix("/apis/").removeprefix("/api/"), name)
        for prefix, plural, name in CLUSTER_WIDE:
            objects += await _list_objects(access, f"{prefix}/{plural}", prefix.removeprefix("/apis/"), name)
        return objects


async def _list_objects(access: ClusterAccess, where: str, api_version: str, kind: str) -> list[Mapping[str, Any]]:
    """All objects of a collection, each with its kind; none where the server does not know it."""
    import msgspec

    from pumice.kube import errors
    from pumice.kube.transport import Request

    found: list[Mapping[str, Any]] = []
    token = ""
    while True:
        query = {"limit": "500", **({"continue": token} if token else {})}
        try:
            response = await access.client.call(Request("GET", where, query, {"accept": "application/json"}))
        except errors.NotFound:
            return found
        page: dict[str, Any] = msgspec.json.decode(response.body)
        found += [{**each, "apiVersion": api_version, "kind": kind} for each in page.get("items") or ()]
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            return found
