"""Where the programs begin: Ctrl-C while something is being imported ends the process as it ends any other, without a traceback."""

import contextlib
import gc
import importlib
import signal
import sys
import threading
from collections.abc import Iterator

from pumice.cli.commands import show_help


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Inside, Ctrl-C ends the process at once: an exception in the middle of an import may be lost in one of its callbacks.

    And the collector rests: what is imported stays. To look through it again and again, and once more in the end, takes a tenth of the time.
    """
    is_ours = (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where it is ignored, as with nohup
        and threading.current_thread() is threading.main_thread()
    )
    known = len(sys.modules)
    gc.disable()
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if len(sys.modules) > known:
            gc.freeze()
        gc.enable()
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def import_beside(module: str) -> None:
    """Begins to import a module in a thread, for one that waits for something else than the interpreter; who imports it later waits for it."""
    threading.Thread(target=importlib.import_module, args=(module,), daemon=True).start()


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if sys.argv[1:] in (["--help"], ["-h"]):
        show_help()
        return
    with importing():
        from pumice.cli.main import main as run
    run()
