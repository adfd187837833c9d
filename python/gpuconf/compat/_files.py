# SPDX-License-Identifier: Apache-2.0
"""``tf.io.gfile``, ``compat.v1.gfile`` and ``tf.compat.as_bytes``: files of this machine, paths, and text as bytes.

Other file systems, such as ``gs://``, need TensorFlow.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import wraps
from glob import glob as _glob

from .. import errors
from .._core.block import Entered
from .._typing import Any
from ._names import publish


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Return text as bytes, and bytes as they are. Raises TypeError for anything else.

    >>> as_bytes("GPU")
    b'GPU'
    """
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Return bytes as text, and text as it is. Raises TypeError for anything else."""
    if isinstance(bytes_or_text, (str, bytes)):
        return bytes_or_text if isinstance(bytes_or_text, str) else bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Return bytes as text, and ``str`` of anything else."""
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """Return the text of a path object, and anything else as it is."""
    return as_str_any(os.fspath(path)) if hasattr(path, "__fspath__") else path


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    F = TypeVar("F", bound=Callable[..., Any])


_KINDS: tuple[tuple[type[OSError], type[errors.OpError]], ...] = (
    (FileNotFoundError, errors.NotFoundError),
    (FileExistsError, errors.AlreadyExistsError),
    (PermissionError, errors.PermissionDeniedError),
    (OSError, errors.FailedPreconditionError),
)


def _as_tensorflow(function: F) -> F:
    """Let a function raise TensorFlow's errors in place of OSErrors."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            kind = next(kind for os_error, kind in _KINDS if isinstance(error, os_error))
            where = error.filename if error.filename is not None else args[0] if args else ""
            raise kind(None, None, f"{where}; {os.strerror(error.errno or 0)}") from None

    return call  # type: ignore[return-value]


def _local(path: Any) -> str:
    """Return a path of this machine. Raises UnimplementedError for another file system's, and TypeError for no path."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"Expected binary or unicode string, got {path!r}")
    text = os.fsdecode(path)
    scheme, found, rest = text.partition("://")
    if found and scheme == "file":
        return rest
    if found and scheme.isalnum():
        raise errors.UnimplementedError(
            f"File system scheme '{scheme}' not implemented (file: '{text}'): it needs TensorFlow"
        )
    return text


@_as_tensorflow
def exists(path: Any) -> bool:
    """Return whether there is a file or folder."""
    return os.path.exists(_local(path))


@_as_tensorflow
def isdir(path: Any) -> bool:
    """Return whether there is a folder."""
    return os.path.isdir(_local(path))


@_as_tensorflow
def makedirs(path: Any) -> None:
    """Make a folder and those above it. Does nothing if it is there."""
    os.makedirs(_local(path), exist_ok=True)


@_as_tensorflow
def mkdir(path: Any) -> None:
    """Make a folder. Does nothing if it is there. Raises NotFoundError if the one above is not there."""
    here = _local(path)
    if not os.path.isdir(here):
        os.mkdir(here)


@_as_tensorflow
def listdir(path: Any) -> list[str]:
    """Return the names in a folder. Raises NotFoundError if there is none."""
    here = _local(path)
    if not os.path.isdir(here):
        raise errors.NotFoundError(None, None, f"Could not find directory {here}")
    return os.listdir(here)


@_as_tensorflow
def glob(pattern: Any) -> list[str]:
    """Return the paths that match a pattern, or a list of patterns, sorted."""
    patterns = pattern if isinstance(pattern, (list, tuple)) else [pattern]
    return [path for each in patterns for path in sorted(_glob(_local(each)))]


@_as_tensorflow
def remove(path: Any) -> None:
    """Delete a file. Raises NotFoundError if there is none."""
    os.remove(_local(path))


@_as_tensorflow
def rmtree(path: Any) -> None:
    """Delete a folder and what is in it. Raises NotFoundError if there is none."""
    here = _local(path)
    if not os.path.exists(here):
        raise errors.NotFoundError(None, None, f"{here} not found")
    shutil.rmtree(here)


@_as_tensorflow
def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Move a file or folder. Raises AlreadyExistsError if ``dst`` is there and ``overwrite`` is not set."""
    _vacant(dst, overwrite)
    os.replace(_local(src), _local(dst))


@_as_tensorflow
def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copy a file. Raises AlreadyExistsError if ``dst`` is there and ``overwrite`` is not set."""
    _vacant(dst, overwrite)
    shutil.copyfile(_local(src), _local(dst))


def _vacant(path: Any, overwrite: bool) -> None:
    if not overwrite and os.path.exists(_local(path)):
        raise errors.AlreadyExistsError(None, None, "file already exists")


@_as_tensorflow
def stat(path: Any) -> os.stat_result:
    """Return what ``os.stat`` returns, with TensorFlow's ``length`` as ``st_size``."""
    return os.stat(_local(path))


def walk(top: Any, topdown: bool = True, onerror: Any = None) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield the path, the folders and the files of each folder."""
    return os.walk(_local(top), topdown, onerror)


def join(path: Any, *paths: Any) -> str:
    """Return a path of several parts."""
    return os.path.join(os.fsdecode(path), *map(os.fsdecode, paths))


class GFile(Entered):
    """A file, opened when it is first read or written. Raises InvalidArgumentError for an unknown mode."""

    def __init__(self, name: Any, mode: str = "r") -> None:
        if mode.replace("b", "") not in ("r", "w", "a", "r+", "w+", "a+"):
            raise errors.InvalidArgumentError(None, None, "mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+'")
        self._name, self._mode = name, mode
        self._opened: Any = None

    @property
    def name(self) -> Any:
        """The path."""
        return self._name

    @property
    def mode(self) -> str:
        """The mode."""
        return self._mode

    @_as_tensorflow
    def _file(self) -> Any:
        if self._opened is None:
            encoding = None if "b" in self._mode else "utf-8"
            self._opened = open(_local(self._name), self._mode, encoding=encoding)  # noqa: SIM115 - close() closes it
        return self._opened

    def read(self, n: int = -1) -> Any:
        """Return the next ``n`` characters, or bytes in a binary mode; all by default."""
        return self._file().read(n)

    def readline(self) -> Any:
        """Return the next line."""
        return self._file().readline()

    def readlines(self) -> list[Any]:
        """Return the remaining lines."""
        return list(self._file().readlines())

    def write(self, file_content: Any) -> None:
        """Add to the file."""
        self._file().write(file_content)

    def size(self) -> int:
        """Return the number of bytes."""
        return int(stat(self._name).st_size)

    def seek(self, offset: int, whence: int = 0) -> None:
        """Go to a position."""
        self._file().seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return int(self._file().tell())

    def flush(self) -> None:
        """Write what is not yet written."""
        if self._opened is not None:
            self._opened.flush()

    def close(self) -> None:
        """Close the file."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file())

    def _leave(self, *_: object) -> None:
        self.close()


publish(__name__)
