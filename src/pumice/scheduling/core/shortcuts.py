"""What a plan that only answers a question about one gang may leave out, because its answer is the same without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Collection


class Shortcuts(Value):
    """None of them for a plan that is carried out."""

    passed_over: Collection[str] = frozenset()  # gangs that have no turn: whoever asks knows that they could not start
    until: str = ""  # a gang: what others would get after it has started cannot take that back, and is not planned


NO_SHORTCUTS = Shortcuts()
