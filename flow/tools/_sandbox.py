"""One folder, and no way out of it.

A path is walked component by component from the folder's descriptor; each step opens the next name
relative to the directory reached so far and refuses links. So `..`, absolute paths and links (those made
while we look too) have nothing to act on, and there is no moment between a check and an opening that
somebody could use. Where the system cannot open relative to a directory (Windows), the path is checked,
opened, and what was opened is compared with what was checked.

A hard link is the file itself under a second name: no system call tells that it "comes from" elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

from .errors import FileAccessError

_WALKS_BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FILE_FLAGS = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_FOLDER_FLAGS = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_DIRECTORY", 0)
_LONGEST_PATH = 1000
_LEFT_OUT = frozenset({"__pycache__", "node_modules"})
MAX_DEPTH = 30
"""Deepest folder that is looked into."""


class FileContent(NamedTuple):
    """What was read of a file."""

    data: bytes
    size: int
    """The whole file's size, of which `data` may be the first part."""


class Sandbox:
    """Reads files below one folder.

    Hidden files and folders (a leading dot), `__pycache__` and `node_modules` are left out unless `hidden` is
    set.
    """

    def __init__(self, folder: str | os.PathLike[str], *, hidden: bool = False) -> None:
        """Take the folder as it is now.

        Args:
            folder: An existing folder. It may itself be a link, which is resolved here, once.
            hidden: Whether to show what is hidden.

        Raises:
            FileAccessError: If there is no such folder.
        """
        self._root = Path(folder).expanduser().resolve()
        self._hidden = hidden
        if not self._root.is_dir():
            raise FileAccessError(f"{os.fspath(folder)!r} is not a folder")

    def read(self, path: str, limit: int) -> FileContent:
        """Read the beginning of a file.

        Args:
            path: The path within the folder, with `/` between its parts.
            limit: How many bytes to read at most.

        Returns:
            The bytes and the file's size.

        Raises:
            FileAccessError: If the path leads outside, over a link, to nothing, or to what is no file.
        """
        parts = self._parts(path)
        try:
            descriptor = self._open_file(parts, path)
        except (FileNotFoundError, NotADirectoryError):
            raise FileAccessError(f"there is no file {path!r}") from None
        except PermissionError:
            raise FileAccessError(f"{path!r} may not be read (no permission)") from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise FileAccessError(_not_a_file(path, stat.S_IFLNK)) from None
            raise FileAccessError(f"{path!r} cannot be opened: {error.strerror or error}") from None
        with open(descriptor, "rb", closefd=True) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FileAccessError(_not_a_file(path, status.st_mode))
            return FileContent(file.read(limit), status.st_size)

    def walk(self) -> Iterator[str]:
        """List the files below the folder, in the order of their names, without following links.

        Yields:
            Each file's path within the folder, with `/` between its parts. What cannot be read is left out.
        """
        yield from self._walk(())

    def _walk(self, parts: tuple[str, ...]) -> Iterator[str]:
        """List one folder: its files first, then its folders."""
        folders: list[str] = []
        for name, is_folder in self._entries(parts):
            if is_folder:
                folders.append(name)
            else:
                yield "/".join((*parts, name))
        if len(parts) < MAX_DEPTH:
            for name in folders:
                yield from self._walk((*parts, name))

    def _entries(self, parts: tuple[str, ...]) -> list[tuple[str, bool]]:
        """Give the names in one folder that are files or folders, sorted."""
        try:
            descriptor = self._open_folder(parts) if _WALKS_BY_DESCRIPTOR else None
        except (OSError, FileAccessError):
            return []
        try:
            with os.scandir(self._root.joinpath(*parts) if descriptor is None else descriptor) as found:
                entries = [(entry.name, _is_folder(entry)) for entry in found if self._shows(entry.name)]
        except OSError:
            return []
        finally:
            if descriptor is not None:
                os.close(descriptor)
        return sorted((name, bool(is_folder)) for name, is_folder in entries if is_folder is not None)

    def _shows(self, name: str) -> bool:
        """Whether a name may be seen; one that cannot be written in a line of text may not."""
        if any(ord(character) < 32 or "\ud800" <= character <= "\udfff" for character in name):
            return False
        return self._hidden or not (name.startswith(".") or name in _LEFT_OUT)

    def _parts(self, path: str) -> tuple[str, ...]:
        """Split a path, refusing every form that points elsewhere."""
        if len(path) > _LONGEST_PATH:
            raise FileAccessError(f"the path has {len(path)} characters; at most {_LONGEST_PATH} are taken")
        pure = PurePath(path)
        if pure.is_absolute() or pure.drive or pure.root:
            raise FileAccessError(f"{path!r} is outside the folder; give a path relative to it")
        if ".." in pure.parts:
            raise FileAccessError(f"{path!r} is outside the folder: '..' is not allowed")
        if not pure.parts:
            raise FileAccessError("the path is empty; give a file's path relative to the folder")
        for part in pure.parts:
            if not self._shows(part):
                raise FileAccessError(f"{path!r} is hidden, or no proper name, and may not be read")
        return pure.parts

    def _open_file(self, parts: tuple[str, ...], path: str) -> int:
        """Open a file, and only a file, without ever following a link."""
        if not _WALKS_BY_DESCRIPTOR:
            return self._open_checked(parts, path)
        folder = self._open_folder(parts[:-1], path)
        try:
            # looking first keeps us from opening a device, which may act on being opened
            mode = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode
            if not stat.S_ISREG(mode):
                raise FileAccessError(_not_a_file(path, mode))
            return os.open(parts[-1], _FILE_FLAGS, dir_fd=folder)
        finally:
            os.close(folder)

    def _open_folder(self, parts: tuple[str, ...], path: str = "") -> int:
        """Open a folder by walking to it; each step refuses a link."""
        current = os.open(self._root, _FOLDER_FLAGS)
        try:
            for part in parts:
                mode = os.stat(part, dir_fd=current, follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    raise FileAccessError(_not_a_file(path, mode))
                below = os.open(part, _FOLDER_FLAGS, dir_fd=current)
                os.close(current)
                current = below
        except BaseException:
            os.close(current)
            raise
        return current

    def _open_checked(self, parts: tuple[str, ...], path: str) -> int:
        """Check a path, open it, and make sure that what was opened is what was checked."""
        location = self._root
        for part in parts:
            location = location / part
            if location.is_symlink() or location.resolve() != location:
                raise FileAccessError(_not_a_file(path, stat.S_IFLNK))
        before = location.stat(follow_symlinks=False)
        if not stat.S_ISREG(before.st_mode):
            raise FileAccessError(_not_a_file(path, before.st_mode))
        descriptor = os.open(location, _FILE_FLAGS)
        if not os.path.samestat(before, os.fstat(descriptor)):
            os.close(descriptor)
            raise FileAccessError(f"{path!r} was changed while it was opened; try again")
        return descriptor


def _is_folder(entry: os.DirEntry[str]) -> bool | None:
    """Tell a folder from a file; `None` for links, devices and the like."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return True
        return False if entry.is_file(follow_symlinks=False) else None
    except OSError:
        return None


def _not_a_file(path: str, mode: int) -> str:
    """Say what is found at a path instead of a file."""
    if stat.S_ISLNK(mode):
        return f"{path!r} leads over a link; links are not followed"
    if stat.S_ISDIR(mode):
        return f"{path!r} is a folder; give the path of a file in it"
    return f"{path!r} is a device or a pipe, not a file"
