"""What a plan may leave out that only answers a question, or is one of many in a run ahead, because its answer is the same without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Collection


class Shortcuts(Value):
    """None of them for a plan that is carried out in a cluster."""

    passed_over: Collection[str] = frozenset()  # gangs that have no turn: whoever asks knows that they could not start
    until: str = ""  # a gang: what others would get after it has started cannot take that back, and is not planned
    forgets_backoffs: bool = False  # whoever asks throws away which evictions came to nothing, and sets no budget


NO_SHORTCUTS = Shortcuts()
