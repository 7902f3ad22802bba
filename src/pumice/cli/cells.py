"""Cells of tables and of CSV files that hold what other people wrote."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from pumice.digits import is_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CELL_CHARS_MAX = 120
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would compute


def without_control_characters(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)


def clean(text: str) -> str:
    """One line without control characters, of limited length: a reason may hold whatever a container wrote."""
    line = without_control_characters(text)
    return line if len(line) <= CELL_CHARS_MAX else f"{line[: CELL_CHARS_MAX - 3]}..."


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Rows as CSV; a text that a spreadsheet would take for a formula begins with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        writer.writerow([f"'{cell}" if cell.startswith(_FORMULAS) and not is_number(cell) else cell for cell in row])
    return out.getvalue()


def money(dollars: float | None) -> str:
    return "-" if dollars is None else f"${dollars:,.2f}"
