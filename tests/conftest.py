"""For all tests: assertions in shared bodies explain themselves as those in tests do. Before anybody imports them."""

import pytest

pytest.register_assert_rewrite("tests.bodies", "tests.cases", "tests.unit.controllers.stage")
