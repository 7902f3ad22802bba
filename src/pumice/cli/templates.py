r"""kubectl's `-o jsonpath=`: text with paths in braces, `{range PATH}...{end}` and quoted text such as `{"\n"}`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pumice import jsonpath
from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

_PART = re.compile(r"""\{((?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^{}"'])*)\}""")
_SELF = frozenset({"", ".", "$", "@"})


def render(template: str, obj: Any) -> str:
    """The template filled from the object; a path that leads nowhere is empty text."""
    if "{" not in template:
        template = f"{{{template}}}"  # kubectl takes a bare path, too
    parts = _split(template)
    text, rest = _fill(parts, obj, inside=False)
    assert not rest
    return text


def _split(template: str) -> list[tuple[str, str]]:
    """Alternating ("text", ...) and ("code", ...)."""
    parts, position = [], 0
    for match in _PART.finditer(template):
        parts += [("text", template[position : match.start()]), ("code", match[1].strip())]
        position = match.end()
    parts.append(("text", template[position:]))
    for kind, text in parts:
        if kind == "text" and ("{" in text or "}" in text):
            raise BadInput(f"jsonpath {template!r}: a brace has no partner near {text!r}; close it")
    return parts


def _fill(parts: Sequence[tuple[str, str]], obj: Any, *, inside: bool) -> tuple[str, Sequence[tuple[str, str]]]:
    """The text up to the end of this range, and the parts behind it."""
    found = []
    while parts:
        (kind, text), parts = parts[0], parts[1:]
        if kind == "text":
            found.append(text)
        elif text == "end":
            if not inside:
                raise BadInput("jsonpath: {end} without {range ...}; remove it")
            return "".join(found), parts
        elif text.startswith("range "):
            items = _values(text.removeprefix("range ").strip(), obj)
            _, after = _fill(parts, None, inside=True)
            found += [_fill(parts, item, inside=True)[0] for item in items]
            parts = after
        elif text[:1] in {'"', "'"}:
            found.append(_unquote(text))
        else:
            found.append(" ".join(_text(value) for value in _values(text, obj)))
    if inside:
        raise BadInput("jsonpath: {range ...} has no {end}; add it")
    return "".join(found), ()


def _values(path: str, obj: Any) -> list[Any]:
    if path in _SELF:
        return [obj]
    path = path.removeprefix("@")
    if not jsonpath.is_path(path):
        raise BadInput(
            f"jsonpath: {path!r} is not understood; "
            "there are .field, ['field'], [0], [*] and [?(@.field==\"value\")]: use jq for more"
        )
    return jsonpath.find(path, obj)


def _unquote(text: str) -> str:
    if text[0] == "'":
        text = '"' + text[1:-1].replace('"', '\\"') + '"'
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise BadInput(f"jsonpath: {text} is no quoted text: {error}; correct it") from error


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
