"""Views become HTML: a whole page, or those of its parts that are kept up to date.

A part is a block of a page's template whose name begins with `live_`; it holds one element with the id of the block's name, which a
stream of changes replaces. Everything that people named is escaped by the template engine.
"""

from __future__ import annotations

import functools
import hashlib
import re
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

from pumice import __version__, instant
from pumice.dashboard import figures

if TYPE_CHECKING:
    from collections.abc import Mapping

    import jinja2

LIVE = "live_"
_COLOURS = (*(f"c{colour}" for colour in range(figures.COLOURS)), "grey")
_TIMES = re.compile(r"(<time [^>]*>)[^<]*")  # they go on by themselves, in the browser


@functools.cache
def environment() -> jinja2.Environment:
    """Made for the first page: `pumice up` serves pages at which nobody may ever look, and should be there sooner."""
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.PackageLoader("pumice.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "number": figures.number,
        "money": money,
        "ago": ago,
        "ahead": ahead,
        "painted": painted,
        "span": span,
        "when": when,
        "quoted": functools.partial(quote, safe=""),
        "plural": figures.counted,
    }
    found.globals |= {"version": __version__, "asset": asset, "colours": _COLOURS}
    found.globals["ui"] = found.get_template("macros.html").module
    return found


def page(template: str, values: Mapping[str, Any]) -> str:
    return environment().get_template(template).render(values)


def parts(template: str, values: Mapping[str, Any]) -> dict[str, str]:
    """The parts of a page that are kept up to date, by their ids."""
    found = environment().get_template(template)
    context = found.new_context(dict(values))
    return {name: "".join(block(context)) for name, block in found.blocks.items() if name.startswith(LIVE)}


def digest(html: str) -> bytes:
    """Of what has to be sent again: that time passes is seen without us."""
    return hashlib.sha256(_TIMES.sub(r"\1", html).encode()).digest()


@functools.cache
def static() -> Mapping[str, tuple[bytes, str]]:
    """Files by name, with their types."""
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    folder = resources.files("pumice.dashboard") / "static"
    return {
        file.name: (file.read_bytes(), kinds[file.name.rpartition(".")[2]])
        for file in folder.iterdir()
        if file.name.rpartition(".")[2] in kinds
    }


@functools.cache
def asset(name: str) -> str:
    """Where a file is; another address once it has changed, so that browsers may keep it for good."""
    return f"/static/{name}?{hashlib.sha256(static()[name][0]).hexdigest()[:12]}"


# ------------------------------------------------------------------------------------------------------ filters


def painted(look: str) -> Markup:
    """The attributes of a rectangle with a look: plain ones are of the stylesheet, patterns are drawings of the page."""
    words = look.split()
    pattern = next((each for each in words if each in figures.PATTERNS), "")
    if not pattern:
        return Markup('class="{}"').format(look)
    return Markup('class="{}" fill="url(#{}-{})"').format(look, pattern, words[words.index("look") + 1])


def money(dollars: float | None) -> str:
    if dollars is None:
        return "–"  # noqa: RUF001  a dash stands for nothing in a table
    return f"${dollars:,.2f}" if abs(dollars) < 100 else f"${dollars:,.0f}"


def span(seconds: float) -> str:
    return instant.human_duration(int(seconds) * instant.SECOND)


def when(seconds: int | None) -> str:
    """A time of the record."""
    return instant.format_instant(seconds * instant.SECOND) if seconds is not None else ""


def ago(text: str, now: instant.Instant) -> Markup | str:
    return _time(text, now, "ago") if text else ""


def ahead(text: str, now: instant.Instant) -> Markup | str:
    return _time(text, now, "ahead") if text else ""


def _time(text: str, now: instant.Instant, kind: str) -> Markup:
    at = instant.parse_instant(text)
    if kind == "ago":
        shown = instant.human_duration(max(now - at, 0))
    else:
        shown = f"in {instant.human_duration(at - now)}" if at > now else "now"
    return Markup('<time datetime="{0}" title="{0}" data-{1}>{2}</time>').format(text, kind, shown)
