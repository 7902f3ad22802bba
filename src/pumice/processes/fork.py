"""Questions that take seconds are answered in a child process, so that they delay no cycle and no renewal of a lease.

The child is a fork: it has the snapshot without a copy of it. It computes and nothing else: it closes every socket that it inherited,
writes its answer into a pipe and ends without running anything that the parent meant to run at its own end.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import warnings
from typing import TYPE_CHECKING, NoReturn

from pumice.errors import BadInput, NotFound, PumiceError

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_BYTES_MAX = 64 * 2**20
ERROR_CHARS_MAX = 4_000
NICENESS = 10  # whoever only asks gives way to those that schedule
_OK = b"+"
_ERRORS: dict[bytes, type[PumiceError]] = {b"i": BadInput, b"n": NotFound, b"-": PumiceError}


async def answer(question: Callable[[], bytes], *, limit_s: float) -> bytes:
    """What the pure function `question` returns, computed in a child; PumiceError where it fails, or takes longer than allowed."""
    pipe, their_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: the child uses no lock of theirs
        child = os.fork()
    if child == 0:
        _compute(question, their_end)
    os.close(their_end)
    try:
        async with asyncio.timeout(limit_s):
            said = await _read(pipe)
    except TimeoutError:
        raise PumiceError(f"the answer took longer than {limit_s:g} s, and was given up; ask for less") from None
    finally:
        os.kill(child, signal.SIGKILL)  # it is still ours to wait for, whether it has ended or not
        await asyncio.to_thread(os.waitpid, child, 0)
    if said[:1] == _OK:
        return said[1:]
    raise _ERRORS.get(said[:1], PumiceError)(said[1:].decode() or "the process that should answer has died; ask again")


async def _read(pipe: int) -> bytes:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", buffering=0)
    )
    parts, size = [], 0
    try:
        while part := await reader.read(2**16):
            parts.append(part)
            size += len(part)
            if size > ANSWER_BYTES_MAX:
                raise PumiceError(f"the answer is larger than {ANSWER_BYTES_MAX} bytes; ask for less")
    finally:
        transport.close()
    return b"".join(parts)


def _compute(question: Callable[[], bytes], pipe: int) -> NoReturn:
    """The child's whole life."""
    try:
        gc.disable()  # a collection would touch, and so copy, every page
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.nice(NICENESS)
        os.closerange(3, pipe)
        os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
        _write(pipe, _OK + question())
    except PumiceError as error:
        mark = next(mark for mark, kind in _ERRORS.items() if isinstance(error, kind))
        _write(pipe, mark + str(error)[:ERROR_CHARS_MAX].encode())
    except BaseException as error:  # noqa: BLE001 the parent tells it; nothing of ours may run on in the child
        _write(pipe, b"-" + f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX].encode())
    finally:
        sys.stderr.flush()
        os._exit(0)


def _write(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]
