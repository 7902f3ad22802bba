"""Programs in a real terminal, where a person presses Ctrl-C and colours mean something."""

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time

from tests.bodies.patience import PATIENCE_S

CTRL_C = b"\x03"
SHOW_CURSOR = "\x1b[?25h"
HIDE_CURSOR = "\x1b[?25l"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

# The program leads a session of its own whose terminal is ours, so that Ctrl-C reaches it as it would a user's.
_LEADER = (
    "import fcntl, os, signal, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGINT, signal.default_int_handler); os.execv(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """A program and the other end of its terminal."""

    def __init__(self, arguments, env):
        self._keys, inside = pty.openpty()
        termios.tcsetwinsize(inside, (50, 200))
        command = [sys.executable, "-c", _LEADER, *arguments]
        try:
            self.process = subprocess.Popen(command, stdin=inside, stdout=inside, stderr=inside, env=env)
        finally:
            os.close(inside)
        self.shown = ""

    def until(self, text):
        """Reads until the text has been shown."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.plain:
            assert self._read(deadline - time.monotonic()), f"{text!r} never came; there was: {self.shown!r}"

    def until_more(self):
        """Reads until anything more has been shown."""
        assert self._read(PATIENCE_S), f"nothing more came; there was: {self.shown!r}"

    @property
    def plain(self):
        return _ESCAPES.sub("", self.shown).replace("\r\n", "\n")

    def press(self, keys):
        os.write(self._keys, keys)

    def end(self):
        """Reads to the end; the exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(deadline - time.monotonic()):
            pass
        return self.process.wait(timeout=PATIENCE_S)

    def _read(self, seconds):
        ready, _, _ = select.select([self._keys], [], [], max(seconds, 0))
        if not ready:
            return False
        try:
            data = os.read(self._keys, 2**16)
        except OSError:  # Linux says so where nobody holds the other end any more
            return False
        self.shown += data.decode()
        return bool(data)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._keys)


@contextlib.contextmanager
def program(*words, **env):
    """Any program, by its path, in a terminal."""
    wiped = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "CLICOLOR_FORCE", "CI"}}
    running = Terminal(words, {**wiped, "TERM": "xterm-256color", **env})
    try:
        yield running
    finally:
        running.close()


def terminal(*arguments, **env):
    """`pumice` with these arguments in a terminal."""
    return program(sys.executable, "-m", "pumice.cli", *arguments, **env)
