"""Options that the processes of a cluster share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable


def reaches_cluster(body: Callable[..., Any]) -> Callable[..., Any]:
    """Which API server, and as whom."""
    body = click.option("--context", default="", help="Context of the kubeconfig.")(body)
    return click.option(
        "-k",
        "--kubeconfig",
        default="",
        help="Kubeconfig file; without it $KUBECONFIG, ~/.kube/config or the pod's own account.",
    )(body)
