"""Objects for tables of cases: a small good one with some fields set to something else."""

from __future__ import annotations

import copy
import re
from typing import Any


def edited(subject: dict[str, Any], edits: dict[str, Any]) -> dict[str, Any]:
    """A copy with each path (`a.b[0].c`) set to its value; `...` removes what stands there."""
    result = copy.deepcopy(subject)
    for path, value in edits.items():
        _put(result, path, copy.deepcopy(value))
    return result


def _put(target: Any, path: str, value: Any) -> None:
    *parents, last = [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", path)]
    for part in parents:
        target = target[part] if isinstance(part, int) else target.setdefault(part, {})
    if value is ...:
        del target[last]
    else:
        target[last] = value
