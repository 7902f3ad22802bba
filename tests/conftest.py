"""For all tests: assertions in shared bodies explain themselves, and no event loop ends with connections that nobody closed."""

import asyncio
import functools
import signal
import warnings
from asyncio.selector_events import BaseSelectorEventLoop
from asyncio.sslproto import SSLProtocol, SSLProtocolState

import pytest
from hypothesis import settings

# A busy machine is no counter-example: how long something takes is measured in bench/.
settings.register_profile("pumice", deadline=None)
settings.load_profile("pumice")

# Before anybody imports them.
pytest.register_assert_rewrite("tests.bodies", "tests.cases", "tests.unit.controllers.stage")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Whoever starts the tests in a shell's background hands that down, and programs that are tested with Ctrl-C would rightly ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

SOAK_S = 2 * 3600  # for one test of a long round


def pytest_collection_modifyitems(items):
    """Long rounds have a limit of their own, whoever starts them: on a busy machine the usual one would end them."""
    for item in items:
        if item.get_closest_marker("soak") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SOAK_S))


_close = BaseSelectorEventLoop.close


@functools.wraps(_close)
def _close_and_count(loop: asyncio.AbstractEventLoop) -> None:
    """The test that leaves a connection open fails, and not one that comes after it, when the garbage collector runs."""
    forgotten = []
    for transport in list(getattr(loop, "_transports", {}).values()):
        if transport._sock is None:
            continue
        if not _is_ending(transport):
            forgotten.append(f"{transport!r} of {transport.get_protocol()!r}")
        transport._sock.close()
        transport._sock = None
    _close(loop)
    if forgotten:
        warnings.warn(f"connections were left open: {', '.join(forgotten)}", ResourceWarning, stacklevel=2)


def _is_ending(transport) -> bool:
    """Whether all that was missing is the peer's part: its goodbye, or its half of a handshake."""
    protocol = transport.get_protocol()
    if isinstance(protocol, SSLProtocol):
        return protocol._state is not SSLProtocolState.WRAPPED or transport.is_closing()
    return transport.is_closing()


BaseSelectorEventLoop.close = _close_and_count
