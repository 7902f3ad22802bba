"""What is read before an `await` and written after it is lost, if somebody else has written it meanwhile."""

import ast
from pathlib import Path

import pytest
from tests.gates.test_sizes import SOURCES, relative


def awaits_within(text: str) -> list[str]:
    """Augmented assignments to what others see, whose right side awaits: the left side was read before that."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.AugAssign)
        and not isinstance(node.target, ast.Name)
        and any(isinstance(each, ast.Await) for each in ast.walk(node.value))
    ]


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_nothing_is_read_before_an_await_and_written_after_it(path: Path) -> None:
    assert awaits_within(path.read_text()) == []


def test_such_an_assignment_is_found() -> None:
    text = "async def f(self):\n    self.unwritten |= not await self.write()\n    own += await self.read()"
    assert awaits_within(text) == ["self.unwritten |= not await self.write()"]
