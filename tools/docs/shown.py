"""What a document shows is what happens: its commands are run in order, and what they print is held against the page.

In a document

- a `console` block holds commands, each after `$ `, and below each what it prints; a line `...` stands for any lines;
- a `console` block with a title that ends in "terminal" belongs to a shell of that name, for commands that do not end;
- any other block with a title is a file of that name;
- `<!-- not run: REASON -->` before a block says why nobody can run it here;
- `<!-- picture: NAME -->` before a block puts its commands into a picture (tools.docs.record).

Ages, ports, identifiers and the width of columns are no part of the comparison. A command that only reads is asked again until the page is
true, for at most PATIENCE_S: readers type more slowly than we do.

    python -m tools.docs.shown docs/tutorial.md           runs it, and fails where the page is wrong
    python -m tools.docs.shown --write docs/tutorial.md   puts what was printed into the page
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = "/tmp/pumice-tutorial"  # noqa: S108  where documents say that they are; a run has a folder of its own
PATIENCE_S = 120.0
SETTLING_S = 8.0  # with --write: how long a page may take to come true before it counts as out of date
END_S_MAX = 20.0
LOOK_S = 0.05
MAIN = ""

_FENCE = re.compile(r'^```(\w*)(?: title="([^"]+)")?$')
_NOTE = re.compile(r"^<!-- (not run|picture): (.+) -->$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_READS = re.compile(
    r"^(pumice (job (list|view|logs)|explain|nodes|top|queue (list|get|view)|pod list|status|squeue|sinfo)"
    r"|kubectl get|cat|grep)\b"
)
_VOLATILE = (
    (re.compile(r"#token=[\w-]+(\.\.\.)?"), "#token=<once>"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "<day>"),
    (re.compile(r"\b\d+(\.\d+)? s\b"), "<age>"),
    (re.compile(r"\b(\d+[dhms]){1,2}\b"), "<age>"),
    (re.compile(r"\b\d+:\d\d\b"), "<age>"),
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "-<made by the server>"),
    (re.compile(r"step \d+"), "step <number>"),
    (re.compile(r"^\d+$"), "<number>"),
    (re.compile(r"(?<=-worker)-\d+"), "-<number>"),  # members of one task can stand in for one another
    (re.compile(r"^cluster \d+ ended"), "cluster <pid> ended"),
    (re.compile(r"(/\S*)?/pumice-up-\w+"), "<folder>"),
    (re.compile(r" +"), " "),
)


class Untrue(Exception):
    """A document shows something else than what happens."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A command of a document. Its shown output are the lines [first, last) of the document."""

    command: str
    shown: tuple[str, ...]
    terminal: str
    first: int
    last: int
    picture: str = ""


@dataclasses.dataclass(frozen=True)
class File:
    """A file of a document."""

    name: str
    text: str


@dataclasses.dataclass(frozen=True)
class NotRun:
    """A block of commands that is not run, and why."""

    reason: str
    commands: tuple[str, ...]


Part = Step | File | NotRun


def parts(text: str) -> Iterator[Part]:
    """Everything in a document that can be run, in order; a console block that breaks the rules is an error."""
    lines = text.splitlines()
    number, notes = 0, dict[str, str]()
    while number < len(lines):
        if note := _NOTE.match(lines[number]):
            notes[note[1]] = note[2]
        if not (fence := _FENCE.match(lines[number])):
            number += 1
            continue
        end = lines.index("```", number + 1)
        language, title = fence[1], fence[2] or MAIN
        if language == "console":
            steps = list(_steps(lines, number + 1, end, title))
            if reason := notes.get("not run"):
                yield NotRun(reason, tuple(each.command for each in steps))
            else:
                yield from (dataclasses.replace(each, picture=notes.get("picture", "")) for each in steps)
        elif language in {"bash", "sh", "shell"} and title == MAIN and "not run" not in notes:
            raise Untrue(f"line {number + 1}: commands stand in console blocks, each after `$ `")
        elif title:
            yield File(title, "\n".join(lines[number + 1 : end]) + "\n")
        number, notes = end + 1, {}


def _steps(lines: Sequence[str], first: int, end: int, title: str) -> Iterator[Step]:
    if title and not title.endswith("terminal"):
        raise Untrue(f"line {first}: the title of a console block ends in 'terminal', this one is {title!r}")
    starts = [number for number in range(first, end) if lines[number].startswith("$ ")]
    if starts[:1] != [first]:
        raise Untrue(f"line {first + 1}: a console block begins with a command, after `$ `")
    for start, stop in zip(starts, [*starts[1:], end], strict=True):
        last = start
        while lines[last].endswith("\\"):
            last += 1
        command = "\n".join(lines[start : last + 1]).removeprefix("$ ").partition("    # ")[0]
        yield Step(command, tuple(lines[last + 1 : stop]), title, last + 1, stop)


def plain(lines: Sequence[str]) -> list[str]:
    """Lines without what differs from run to run."""
    found = []
    for line in lines:
        kept = _COLOUR.sub("", line).rstrip()
        for pattern, word in _VOLATILE:
            kept = pattern.sub(word, kept)
        found.append(kept)
    return found


def agrees(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether a page tells what was printed; where it shows nothing, nothing may be printed."""
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in plain(shown))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in plain(printed))) is not None


class Terminal:
    """A shell in a folder of its own. `async`-free on purpose: a document is one thing after another."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed by close()
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
        )
        self._number = 0

    def start(self, command: str) -> int:
        """Begin a command; gives the place in the output where its own begins."""
        place = self._output.seek(0, os.SEEK_END)
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{command}\n".encode())
        self._shell.stdin.flush()
        return place

    def lines(self, place: int) -> list[str]:
        """What has been printed since."""
        descriptor = self._output.fileno()
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, size - place, place).decode(errors="replace").splitlines()

    def run(self, command: str, limit_s: float = PATIENCE_S) -> tuple[list[str], int]:
        """Run a command to its end; gives its lines and its exit code."""
        self._number += 1
        mark = f"<end of {self._number}>"
        place = self.start(f'{command}\nended=$?; echo; echo "{mark} $ended"')
        deadline = time.monotonic() + limit_s
        while True:
            lines = self.lines(place)
            if lines and lines[-1].startswith(mark):
                code = int(lines[-1].removeprefix(mark))
                return lines[:-2] if lines[-2:-1] == [""] else lines[:-1], code
            if time.monotonic() > deadline or self._shell.poll() is not None:
                raise Untrue(f"`{command}` did not end within {limit_s:.0f} s; it printed: {lines}")
            time.sleep(LOOK_S)

    def close(self) -> None:
        """Interrupt what runs, and end the shell with everything in it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGINT)
        assert self._shell.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.close()
        deadline = time.monotonic() + END_S_MAX
        while _lives(self._shell) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        self._output.close()


def _lives(shell: subprocess.Popen[bytes]) -> bool:
    """Whether anything of the shell's process group is left."""
    shell.poll()
    try:
        os.killpg(shell.pid, 0)
    except ProcessLookupError:
        return False
    return True


class Desk:
    """The terminals of one document, in one folder, and away from the user's own files."""

    def __init__(self, folder: Path, *, colour: bool = False, programs: Sequence[Path] = ()) -> None:
        self.folder = folder
        path = [str(Path(sys.executable).parent), *map(str, programs), os.environ["PATH"]]
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        looks = {"CLICOLOR_FORCE": "1", "TERM": "xterm-256color"} if colour else {"NO_COLOR": "1", "TERM": "dumb"}
        home = {"HOME": str(folder / ".home"), "XDG_CACHE_HOME": str(folder / ".home" / "cache")}
        self._environment = {**kept, **looks, **home, "PATH": ":".join(path), "COLUMNS": "132"}
        self._terminals: dict[str, Terminal] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        (self.folder / ".home").mkdir(exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def terminal(self, name: str) -> Terminal:
        if name not in self._terminals:
            self._terminals[name] = Terminal(self.folder, self._environment)
            self._stack.callback(self._terminals[name].close)
        return self._terminals[name]

    def write(self, file: File) -> None:
        (self.folder / file.name).write_text(file.text.replace(FOLDER, str(self.folder)))

    def run(self, step: Step, patience_s: float = PATIENCE_S) -> list[str]:
        """What a command of the page prints, as soon as it agrees with the page, or after all patience."""
        command = step.command.replace(FOLDER, str(self.folder))
        terminal = self.terminal(step.terminal)
        deadline = time.monotonic() + patience_s
        if step.terminal != MAIN:
            place = terminal.start(command)
            while not agrees(step.shown, printed := self._told(terminal.lines(place))) and time.monotonic() < deadline:
                time.sleep(LOOK_S)
            return printed
        while True:
            lines, code = terminal.run(command)
            printed = self._told(lines)
            if agrees(step.shown, printed) and (code == 0 or any(line.startswith("pumice: ") for line in step.shown)):
                return printed
            if time.monotonic() > deadline or not _READS.match(command):
                if code and agrees(step.shown, printed):
                    raise Untrue(f"`{command}` failed with {code}: {printed}")
                return printed
            time.sleep(4 * LOOK_S)

    def _told(self, lines: Sequence[str]) -> list[str]:
        return [line.replace(str(self.folder), FOLDER) for line in lines]


def check(document: Path, folder: Path, programs: Sequence[Path] = ()) -> int:
    """Run a document; raises Untrue at the first command that prints something else. Gives how many were run."""
    count = 0
    with Desk(folder, programs=programs) as desk:
        for part in parts(document.read_text()):
            if isinstance(part, File):
                desk.write(part)
            elif isinstance(part, Step):
                count += 1
                printed = desk.run(part)
                if not agrees(part.shown, printed):
                    listed = "\n".join(["the page:", *part.shown, "", "printed:", *printed])
                    raise Untrue(f"{document.name}, line {part.first}: $ {part.command}\n{listed}")
    return count


def write(document: Path, folder: Path) -> None:
    """Put what was printed into the page, wherever it shows something else."""
    lines = document.read_text().splitlines()
    changes = []
    with Desk(folder) as desk:
        for part in parts(document.read_text()):
            if isinstance(part, File):
                desk.write(part)
            elif isinstance(part, Step):
                printed = desk.run(part, SETTLING_S)
                if not agrees(part.shown, printed):
                    print(f"{document.name}, line {part.first}: $ {part.command}")
                    changes.append((part, [line.rstrip() for line in printed]))
    for part, printed in reversed(changes):
        lines[part.first : part.last] = printed
    document.write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("documents", nargs="+", type=Path)
    given = parser.parse_args()
    for document in given.documents:
        with tempfile.TemporaryDirectory(prefix="pumice-docs-") as folder:
            if given.write:
                write(document, Path(folder))
            else:
                try:
                    print(f"{document}: {check(document, Path(folder))} commands do what the page says")
                except Untrue as error:
                    print(error)
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
