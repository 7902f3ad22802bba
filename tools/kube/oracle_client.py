"""Asks Kubernetes' own libraries, through the Go program in oracle/, what they make of a value."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Self

from tools.kube import build

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class OracleRefusal(Exception):
    """The library refused the input; the text is the library's own."""


class Oracle:
    """One running oracle; a question is `ask(op, field=...)`. The operations are listed in oracle/main.go."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [str(build.require() / "oracle")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._asked = 0

    def ask(self, op: str, **fields: Any) -> Any:
        """What the library says; OracleRefusal where it reports an error."""
        (answer,) = self.ask_all([{"op": op, **fields}])
        if "error" in answer:
            raise OracleRefusal(answer["error"])
        return answer["ok"]

    def ask_all(self, questions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Raw answers in order: {"ok": ...} or {"error": ...}. One at a time, so that no pipe can fill up."""
        return [self._exchange(question) for question in questions]

    def _exchange(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asked += 1
        self._process.stdin.write(json.dumps({"id": self._asked, **question}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the oracle ended with exit code {self._process.wait()} on {question!r}")
        answer: dict[str, Any] = json.loads(line)
        assert answer.pop("id") == self._asked, "the oracle answers in order"
        return answer

    def close(self) -> None:
        """It ends when its input does."""
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
