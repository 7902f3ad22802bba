"""Everything fits on a screen, and no file hides behind a name that says nothing."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for folder in ("src", "tools", "bench") for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

FUNCTION_LINES_MAX = 70
CLASS_LINES_MAX = 300
FILE_LINES_MAX = 600
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base"}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_source_file_fits_its_limits(path: Path) -> None:
    text = path.read_text()
    too_long = []
    if text.count("\n") > FILE_LINES_MAX:
        too_long.append(f"{relative(path)}: {text.count(chr(10))} lines, at most {FILE_LINES_MAX}")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            limit = FUNCTION_LINES_MAX
        elif isinstance(node, ast.ClassDef):
            limit = CLASS_LINES_MAX
        else:
            continue
        if lines_of(node) > limit:
            too_long.append(f"{relative(path)}:{node.lineno} {node.name}: {lines_of(node)} lines, at most {limit}")
    assert not too_long, "\n".join(too_long)


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=relative)
def test_a_module_is_named_after_what_it_holds(path: Path) -> None:
    parts = {part.removesuffix(".py").strip("_") for part in path.relative_to(ROOT).parts}
    assert not parts & FORBIDDEN_NAMES


def test_there_are_sources_to_look_at() -> None:
    assert len(SOURCES) > 5
