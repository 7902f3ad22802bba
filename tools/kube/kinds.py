"""Our kinds on a control plane, as `pumice crds | kubectl apply --server-side -f -` puts them there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import kinds
from pumice.cli.crds import manifests

if TYPE_CHECKING:
    from tools.kube.control_plane import ControlPlane


def install_kinds(plane: ControlPlane) -> None:
    """Returns once the API server serves them."""
    plane.kubectl("apply", "--server-side", "-f", "-", input=manifests())
    names = [f"crd/{kind.resource}" for kind in kinds.CUSTOM_KINDS]
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
