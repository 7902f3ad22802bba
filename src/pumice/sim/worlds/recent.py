"""What a number has been lately."""

from __future__ import annotations


class Recent:
    """The values of a number, and since when each of them was true."""

    def __init__(self) -> None:
        self._values: list[tuple[float, int]] = []

    def put(self, at: float, value: int) -> None:
        if not self._values or self._values[-1][1] != value:
            self._values.append((at, value))

    def now(self) -> int:
        return self._values[-1][1] if self._values else 0

    def since(self, at: float) -> list[int]:
        """The present value, and those that have been true since then."""
        first = max((number for number, (since, _) in enumerate(self._values) if since < at), default=0)
        return [value for _, value in self._values[first:]]

    def most(self, at: float) -> int:
        return max(self.since(at), default=0)
