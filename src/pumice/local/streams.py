"""Answers that end when their writer says so: watches and logs, of the embedded server and of nodes."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web


class Streams:
    """The streams that are open on one listener."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[Any]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    def cancel(self) -> None:
        """End them all, as their listener stops."""
        self._stopping = True
        for task in self._open:
            task.cancel()

    async def send(
        self, received: web.BaseRequest, answer: web.StreamResponse, chunks: AsyncIterator[bytes]
    ) -> web.StreamResponse:
        """Write the chunks as they come, until they end, their reader leaves or the listener stops."""
        answer.enable_chunked_encoding()
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await answer.prepare(received)
            async for chunk in chunks:
                await answer.write(chunk)
            await answer.write_eof()
        except ConnectionError:
            pass  # the reader left
        except asyncio.CancelledError:
            if not self._stopping:
                raise  # only a stop ends a stream as if it had come to its end
        finally:
            self._open.discard(task)
            if (close := getattr(chunks, "aclose", None)) is not None:
                with contextlib.suppress(RuntimeError):
                    await close()
        return answer
