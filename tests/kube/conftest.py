"""One real control plane for the whole run (one a worker under pytest-xdist), and a namespace for each test."""

from __future__ import annotations

import itertools
import re
import signal
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pytest
from tools.kube import build
from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds
from tools.kube.nodes import pretend_nodes
from tools.kube.oracle_client import Oracle

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

NAMESPACE_NAME_MAX = 50  # 63 is the server's; leave room for names made from it
_numbers = itertools.count(1)


class Kubectl(Protocol):
    def __call__(
        self,
        *args: str,
        input: str | None = None,  # noqa: A002 - named as subprocess.run names it
        check: bool = True,
        kubeconfig: Path | None = None,
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The folder of the real programs. Without them a kube test fails: it must never pass by not running."""
    try:
        return build.require()
    except build.BuildError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def plane(binaries: Path) -> Iterator[ControlPlane]:
    """Four nodes of 8 GPUs that every test shares, and no scheduler; whoever needs more room adds nodes of its own."""
    # A terminated run takes the control plane down as an interrupted one does.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ControlPlane(nodes=pretend_nodes(4, gpus=8)) as control_plane:
        yield control_plane
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def empty_plane(binaries: Path) -> Iterator[ControlPlane]:
    """A control plane of the file's own, without nodes: shares are shares of all nodes, so nobody else's may be there."""
    with ControlPlane(nodes=()) as plane:
        install_kinds(plane)
        yield plane


@pytest.fixture(scope="session")
def crds(plane: ControlPlane) -> None:
    """Our kinds are installed, as `pumice crds | kubectl apply --server-side -f -` does it."""
    install_kinds(plane)


@pytest.fixture
def namespace(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty namespace named after the test; its pods are off their nodes before the next test starts."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    name = f"{words[:NAMESPACE_NAME_MAX].strip('-')}-{next(_numbers)}"
    plane.create_namespace(name)
    yield name
    plane.request("DELETE", f"/api/v1/namespaces/{name}")  # from now on nothing new can be created in it
    plane.request("DELETE", f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")


@pytest.fixture
def kubectl(plane: ControlPlane, namespace: str) -> Kubectl:
    """Runs kubectl in the test's namespace."""

    return partial(plane.kubectl, f"--namespace={namespace}")


@pytest.fixture(scope="session")
def oracle(binaries: Path) -> Iterator[Oracle]:
    """Kubernetes' own libraries, to compare ours with."""
    with Oracle() as running:
        yield running
