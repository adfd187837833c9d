# SPDX-License-Identifier: Apache-2.0
"""Files that users keep: each is written beside the one that it replaces, which a full disk then leaves as it was."""

from __future__ import annotations

import os
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .._typing import Any


@contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "w", **options: Any) -> Iterator[Any]:
    """Open a file that takes its name at the end of the block, if nothing fails. ``options`` are those of ``open``.

    What is no regular file, such as /dev/stdout, is opened itself, and so is a file in a folder that takes no new ones,
    or one without a name, such as /proc/self/fd/3 of a memfd.
    Raises OSError as ``open`` does, with this name.
    """
    target: Any = os.path.realpath(path)
    beside: Any = f"{target}.{os.getpid()}.{get_ident()}.part"  # this thread's alone
    named = os.path.exists(target) and os.path.samefile(path, target)
    if os.path.exists(path) and not (named and os.path.isfile(path) and os.access(os.path.dirname(target), os.W_OK)):
        beside = target = path
    try:
        with open(beside, mode if beside is target else mode.replace("w", "x"), **options) as file:
            yield file
        if beside is not target:
            with suppress(FileNotFoundError):
                os.chmod(beside, os.stat(target).st_mode & 0o7777)
            os.replace(beside, target)
    except OSError as error:
        if error.filename in (None, beside):
            error.filename = os.fspath(path)
        raise
    finally:
        if beside is not target:
            with suppress(FileNotFoundError):
                os.unlink(beside)
