"""What the bodies assert is shown as in a test."""

import pytest

for name in ("world", "gate", "pretend_nodes", "process_nodes", "process_files"):
    pytest.register_assert_rewrite(f"tests.bodies.{name}")


@pytest.fixture(scope="session")
def namespaces(tmp_path_factory):
    from tests.bodies.gate import require_namespaces

    require_namespaces(tmp_path_factory.mktemp("probe"))
