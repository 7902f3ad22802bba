"""What the bodies assert is shown as in a test."""

import pytest


@pytest.fixture(scope="session")
def namespaces(tmp_path_factory):
    from tests.bodies.gate import require_namespaces

    require_namespaces(tmp_path_factory.mktemp("probe"))
