"""The program between a node's agent and a container's command: gives it a view of the machine of its own, and never outlives the agent.

    python -I -S sandbox.py AGENT_PID REPORT_FD  <order as JSON

    agent --> supervisor --> init (process 1 of a PID namespace) --> command (a session of its own)

The supervisor dies with the agent (parent-death signal), init dies with the supervisor, and the kernel ends everything in the
namespace with init: nothing survives, however it tried to hide. SIGTERM to the supervisor reaches the command's process group, and
the others of PASSED_ON the command alone, as it is process 1 of a container elsewhere.
On the report descriptor one JSON line names init's process id; a second one says why the command could not be started, and
the descriptor's end without it says that it was.

The view is a new root on a private tmpfs in which every entry of the real root is bind-mounted, so that mount points can
be made anywhere without touching the machine's files: a folder that lacks one is first mirrored in the same way. This is
no security boundary: the command may do what the agent's user may do.

Only the standard library, and little of it: this runs once for every container.
"""

# pathlib takes longer to import than all the rest together.
# ruff: noqa: PTH102, PTH115, PTH120, PTH123, PTH208, PTH211
from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import stat
import sys
from collections import deque
from typing import Any, NoReturn

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1

MIRRORED_ENTRIES_MAX = 8_192  # of one folder; /dev has 200, /etc 300, /usr/bin 2,000
LINKS_MAX = 40  # as the kernel's own limit
ROOT_TMPFS_OPTIONS = "mode=755,size=256m"  # what a command writes into the root itself is held in memory
STARTED_NOT = 128  # the exit code of a container that could not be started, as in containerd
KILLED = 128
PASSED_ON = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT)

_libc = ctypes.CDLL(None, use_errno=True)


class StartError(Exception):
    """The command cannot be started; the text says why."""


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None
    )
    _check(result, f"mount {source} on {target}")


def die_with_parent() -> None:
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def die_with(parent: int) -> None:
    die_with_parent()
    if os.getppid() != parent:  # it died before the kernel knew
        os._exit(KILLED + signal.SIGKILL)


def separate() -> None:
    """Leaves the machine's mount, host name and process namespaces; as root directly, else by way of a user namespace."""
    flags = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0 and _libc.unshare(flags) == 0:
        return
    _check(_libc.unshare(flags | CLONE_NEWUSER), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


class Root:
    """The new root while it is built at `at`, in the machine's own view."""

    def __init__(self, at: str) -> None:
        self._at = at
        # Where something is mounted -> whether mount points may be made in it; the deepest one above a path decides.
        self._mounted: dict[str, bool] = {}
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        mount("tmpfs", at, "tmpfs", MS_NOSUID | MS_NODEV, ROOT_TMPFS_OPTIONS)
        self._mounted[at] = True
        self._bind_entries("/", at)

    def enter(self) -> None:
        """Makes it this process's root, and lets go of the old one."""
        os.chdir(self._at)
        _check(_libc.pivot_root(b".", b"."), "pivot_root")
        _check(_libc.umount2(b".", MNT_DETACH), "umount of the old root")
        os.chdir("/")

    def own_processes(self) -> None:
        """A /proc that shows the namespace's own processes; where that is not allowed, the machine's stays."""
        proc = f"{self._at}/proc"
        try:
            mount("proc", proc, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        except OSError as error:
            if error.errno not in {errno.EPERM, errno.ENOENT}:
                raise

    def bind(self, order: dict[str, Any]) -> None:
        """Shows `source` at `target`. A source that leads out of the folder that it must lie `within` is refused.

        The check and the mount use one open descriptor, so that no process can put a link in the way between the two.
        """
        source, target = order["source"], order["target"]
        try:
            descriptor = os.open(source, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise StartError(f"volume mount {target}: {error.strerror}: {source}") from error
        try:
            real = os.readlink(f"/proc/self/fd/{descriptor}")
            within = order.get("within", "")
            if within and real != within and not real.startswith(f"{within.rstrip('/')}/"):
                raise StartError(f"volume mount {target}: {source} leads to {real}, which is outside of {within}")
            is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            place = self.place(target, is_folder=is_folder)
            mount(f"/proc/self/fd/{descriptor}", place, flags=MS_BIND | MS_REC)
        finally:
            os.close(descriptor)
        if order.get("read_only"):
            flags = os.statvfs(place).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
            mount("none", place, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | flags)
        self._mounted[place] = bool(order.get("own"))

    def place(self, target: str, *, is_folder: bool) -> str:
        """Where `target` is in the new root: links are followed within it, and what is missing is made."""
        here, parts, links = self._at, deque(target.split("/")), 0
        while parts:
            part = parts.popleft()
            if part in {"", "."}:
                continue
            if part == "..":
                here = here if here == self._at else os.path.dirname(here)
                continue
            path = f"{here}/{part}"
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:
                self._make(here, path, is_folder=is_folder or any(parts))
                mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                links += 1
                if links > LINKS_MAX:
                    raise StartError(f"{target}: too many symbolic links")
                leads = os.readlink(path)
                here = self._at if leads.startswith("/") else here
                parts.extendleft(reversed(leads.split("/")))
                continue
            here = path
        if stat.S_ISDIR(os.lstat(here).st_mode) != is_folder:
            kinds = ("a folder", "a file") if is_folder else ("a file", "a folder")
            raise StartError(f"{target}: {kinds[0]} cannot be mounted over {kinds[1]} of this machine")
        return here

    def _make(self, folder: str, path: str, *, is_folder: bool) -> None:
        above = folder
        while above not in self._mounted and above != self._at and len(above) > len(self._at):
            above = above[: above.rindex("/")]
        if not self._mounted.get(above, False):
            self._mirror(folder)
        if is_folder:
            os.mkdir(path, 0o755)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))

    def _mirror(self, folder: str) -> None:
        """Puts a tmpfs over a folder that shows the same entries, and in which more can be made."""
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
            mount("tmpfs", folder, "tmpfs", MS_NOSUID, f"mode={mode:o},size=256m")
            self._mounted[folder] = True
            self._bind_entries(f"/proc/self/fd/{descriptor}", folder)
        finally:
            os.close(descriptor)

    def _bind_entries(self, source: str, target: str) -> None:
        names = os.listdir(source)
        if len(names) > MIRRORED_ENTRIES_MAX:
            raise StartError(
                f"{target.removeprefix(self._at)} has {len(names)} entries, too many to make a mount point beside them; "
                "mount over a path that exists, or elsewhere"
            )
        for name in names:
            try:
                self._show(f"{source.rstrip('/')}/{name}", f"{target}/{name}")
            except (PermissionError, FileNotFoundError):
                continue  # a file system of another user, whose place stays empty; or it has just been removed

    def _show(self, old: str, new: str) -> None:
        mode = os.lstat(old).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(old), new)
            return
        if stat.S_ISDIR(mode):
            os.mkdir(new)
        else:
            os.close(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        mount(old, new, flags=MS_BIND | MS_REC)
        self._mounted[new] = False


# ------------------------------------------------------------------------------------------------------ the processes


def tell(report: int, **facts: object) -> None:
    os.write(report, json.dumps(facts).encode() + b"\n")


def exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else KILLED - code


def run_supervisor(order: dict[str, Any], report: int, agent: int) -> NoReturn:
    """Starts init and waits for its end; passes signals on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until there is a child to pass them on to
    held, holding = os.pipe()
    separate()
    die_with(agent)  # once more: the kernel forgets it where rights change
    init = os.fork()
    if init == 0:
        os.close(holding)
        run_init(order, report, held)
    os.close(held)
    for each in PASSED_ON:
        signal.signal(each, lambda number, _: os.kill(init, number))
    tell(report, init=init)
    os.close(report)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    for descriptor in (0, 1, 2):
        os.close(descriptor)  # the command's output ends with the command
    _, status = os.waitpid(init, 0)
    os._exit(exit_code(status))


def run_init(order: dict[str, Any], report: int, held: int) -> NoReturn:
    """Builds the view, starts the command, takes over its orphans, and ends with it."""
    try:
        die_with_parent()
        os.set_blocking(held, False)
        if _is_at_end(held):
            os._exit(KILLED + signal.SIGKILL)  # the supervisor was gone before the kernel knew
        view(order)
        if order.get("probe"):
            os._exit(0)
        command = os.fork()
        if command == 0:
            run_command(order, report)
    except (OSError, StartError) as error:
        tell(report, error=str(error))
        os._exit(STARTED_NOT)
    os.close(report)
    for each in PASSED_ON:
        signal.signal(each, lambda number, _: _pass_on(command, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    while True:
        ended, status = os.wait()
        if ended == command:
            os._exit(exit_code(status))


def _is_at_end(descriptor: int) -> bool:
    try:
        return os.read(descriptor, 1) == b""
    except BlockingIOError:
        return False


def _pass_on(command: int, number: int) -> None:
    if number != signal.SIGTERM:
        os.kill(command, number)
        return
    try:
        os.killpg(command, number)
    except ProcessLookupError:
        os.kill(command, number)  # it has not become the leader of its group yet


def view(order: dict[str, Any]) -> None:
    """Enters a root in which the order's mounts are."""
    _libc.sethostname(order["hostname"].encode(), len(order["hostname"].encode()))
    root = Root(order["root"])
    root.own_processes()
    for each in sorted(order["mounts"], key=lambda each: each["target"].count("/")):
        root.bind(each)
    root.place(order["cwd"], is_folder=True)
    root.enter()


def run_command(order: dict[str, Any], report: int) -> NoReturn:
    try:
        os.setsid()
        os.umask(0o022)
        _become(order.get("user"))
        os.chdir(order["cwd"])
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these two; a command expects the defaults
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606 - what the pod's owner asked for
    except FileNotFoundError:
        tell(
            report,
            error=f"{order['argv'][0]!r} is not on this machine, or not in PATH: images are not pulled here; give a command that exists",
        )
    except (OSError, ValueError) as error:
        tell(report, error=f"cannot run {order['argv'][0]!r}: {error}")
    os._exit(STARTED_NOT)


def _become(user: dict[str, Any] | None) -> None:
    if user is None:
        return
    if os.geteuid() == 0:
        os.setgroups(user["groups"])
    os.setresgid(user["gid"], user["gid"], user["gid"])
    os.setresuid(user["uid"], user["uid"], user["uid"])


def main(agent: int, report: int) -> NoReturn:
    os.set_inheritable(report, False)
    die_with(agent)
    order = json.loads(sys.stdin.buffer.read())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        run_supervisor(order, report, agent)
    except OSError as error:
        tell(report, error=f"{error.filename or 'sandbox'}: {error.strerror}")
        os._exit(STARTED_NOT)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
