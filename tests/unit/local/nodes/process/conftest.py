import pytest
from tests.bodies.gate import require_namespaces


@pytest.fixture(scope="session")
def namespaces(tmp_path_factory):
    require_namespaces(tmp_path_factory.mktemp("probe"))
