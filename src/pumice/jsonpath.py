"""The part of kubectl's JSONPath that printer columns use: fields, quoted fields, indices, wildcards and simple filters."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

PATH_CHARS_MAX = 1_024

_STEP = re.compile(
    r"""\.(?P<field>[A-Za-z0-9_$-]+(?:\\\.[A-Za-z0-9_$-]+)*)   # .name, with \. inside
      | \[\s*['"](?P<quoted>[^'"]+)['"]\s*\]                   # ['name']
      | \[(?P<index>-?\d+)\]                                   # [0]
      | (?P<all>\[\*\]|\.\*)                                   # [*]
      | \[\?\(\s*@\.(?P<key>[A-Za-z0-9_.-]+)\s*(?P<operator>==|!=)\s*(?P<value>[^)]+?)\s*\)\]  # [?(@.type=="Ready")]
    """,
    re.VERBOSE,
)


@functools.lru_cache(1024)
def _steps(path: str) -> tuple[dict[str, str], ...]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if len(text) > PATH_CHARS_MAX:
        return ()
    if text and text[0] not in ".[":
        text = "." + text
    found, position = [], 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return ()
        found.append({key: value for key, value in match.groupdict().items() if value is not None})
        position = match.end()
    return tuple(found)


def is_path(path: str) -> bool:
    return bool(_steps(path))


def find(path: str, obj: Any) -> list[Any]:
    """All values at the path, in order."""
    values = [obj]
    for step in _steps(path):
        values = [found for value in values for found in _follow(step, value)]
    return values


def _follow(step: dict[str, str], value: Any) -> list[Any]:
    name = step.get("quoted") or step.get("field", "").replace("\\.", ".")
    if name:
        return [value[name]] if isinstance(value, dict) and name in value else []
    if "index" in step:
        index = int(step["index"])
        return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if "all" in step:
        return items
    wanted = _literal(step["value"])
    return [item for item in items if _equal(item, step["key"], wanted) == (step["operator"] == "==")]


def _literal(text: str) -> Any:
    if text[:1] == "'" and text[-1:] == "'":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _equal(item: Any, key: str, wanted: Any) -> bool:
    for part in key.split("."):
        item = item.get(part) if isinstance(item, dict) else None
    return bool(item == wanted)
