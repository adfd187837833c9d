# SPDX-License-Identifier: Apache-2.0
"""The lock of a GPU between the workers of one run. GPU tests hold it shared, those marked ``gpu_exclusive`` alone."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .._typing import Any


def _folder(run: str) -> str:
    return os.path.join(tempfile.gettempdir(), f"gpuconf-pytest-{os.getuid()}-{run}")


def remove(run: str) -> None:
    """Remove the files of a run."""
    shutil.rmtree(_folder(run), ignore_errors=True)


@contextmanager
def held(config: pytest.Config, exclusive: bool) -> Iterator[None]:
    """Hold the lock of this worker's GPU. Does nothing without pytest-xdist.

    A test that needs it alone would wait forever while others keep taking it together. So each test passes a gate
    first, closed by the one that waits.
    """
    given: Any = getattr(config, "workerinput", None)
    if given is None:
        yield
        return
    folder = _folder(given["testrunuid"])
    os.makedirs(folder, mode=0o700, exist_ok=True)
    name = "".join(c if c.isalnum() else "-" for c in os.environ.get("CUDA_VISIBLE_DEVICES", ""))[:100] or "all"
    gate, lock = (
        os.open(os.path.join(folder, f"{name}.{part}"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for part in ("gate", "lock")
    )
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield
    finally:
        os.close(gate)
        os.close(lock)
