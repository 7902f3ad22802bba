"""Files that change as a whole, and folders out of which no link can lead.

    volume/
      ..2026_01_31.a1b2/config.yaml   what was written last
      ..data -> ..2026_01_31.a1b2     swapped in one step, so that a reader sees all of the old or all of the new
      config.yaml -> ..data/config.yaml

This is a kubelet's layout; programs that watch `..data` find it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

_DATA = "..data"
_PRIVATE = ".."


class File(NamedTuple):
    content: bytes
    mode: int


class AtomicFolder:
    """A volume whose files are replaced all at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: Mapping[str, File] | None = None
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)

    def write(self, files: Mapping[str, File]) -> bool:
        """Makes these the volume's files; False if they were already."""
        if files == self._written:
            return False
        for name in files:
            _check_inside(name)
        before = os.readlink(self.path / _DATA) if (self.path / _DATA).is_symlink() else ""  # noqa: PTH115 - the text
        fresh = Path(tempfile.mkdtemp(prefix=_PRIVATE, dir=self.path))
        fresh.chmod(0o755)
        for name, file in files.items():
            self._put(fresh / name, file)
        self._point(_DATA, fresh.name)
        tops = {PurePosixPath(name).parts[0] for name in files}
        for top in tops:
            self._point(top, f"{_DATA}/{top}")
        for entry in self.path.iterdir():
            if not entry.name.startswith(_PRIVATE) and entry.name not in tops:
                entry.unlink()
        if before:
            shutil.rmtree(self.path / before)
        self._written = dict(files)
        return True

    def _put(self, path: Path, file: File) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(file.content)
            os.fchmod(descriptor, file.mode)

    def _point(self, name: str, target: str) -> None:
        link = self.path / name
        if link.is_symlink() and os.readlink(link) == target:  # noqa: PTH115 - the text
            return
        fresh = self.path / f"{_PRIVATE}link"
        fresh.symlink_to(target)
        fresh.replace(link)


def _check_inside(name: str) -> None:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or parts[0].startswith(_PRIVATE):
        raise BadInput(
            f"path {name!r} of a volume's file must stay within the volume; write a relative path without .."
        )


def make_folder(root: Path, relative: str, *, mode: int = 0o777) -> Path:
    """A folder beneath `root`, made where it is missing. Links on the way are refused: a pod may have put them there."""
    parts = PurePosixPath(relative).parts
    if relative.startswith("/") or ".." in parts:
        raise BadInput(f"path {relative!r} must lie within {root}; write a relative path without ..")
    descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            try:
                os.mkdir(part, mode, dir_fd=descriptor)
                made = True
            except FileExistsError:
                made = False
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
            if made:
                os.fchmod(descriptor, mode)  # whatever our umask is
    except OSError as error:
        raise BadInput(
            f"folder {relative!r} cannot be made within {root}: {error.strerror}; choose another one"
        ) from error
    finally:
        os.close(descriptor)
    return root / relative
