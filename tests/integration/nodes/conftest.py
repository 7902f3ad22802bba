"""What the bodies assert is shown as in a test."""

import pytest

pytest.register_assert_rewrite("tests.bodies.world", "tests.bodies.pretend_nodes", "tests.bodies.process_nodes")
