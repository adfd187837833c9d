"""The loops of c_abi.c, compiled and bound to gpuconf's C functions, on a simulated GPU."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import gpuconf as tf

if TYPE_CHECKING:
    from collections.abc import Iterator


class Loops(NamedTuple):
    """Each method runs a loop of ``number`` steps and returns the nanoseconds of one call."""

    library: ctypes.CDLL
    core: ctypes.CDLL

    def empty(self, number: int) -> float:
        """An empty call from C into Go and back."""
        return float(self.library.time_empty(self.core.gpuconf_empty_call, number))

    def pair(self, number: int) -> float:
        """gpuconf_malloc and gpuconf_free of 4 KiB."""
        return float(
            self.library.time_pair(self.core.gpuconf_malloc, self.core.gpuconf_free, ctypes.c_size_t(4096), number)
        )

    def tagged_pair(self, number: int) -> float:
        """The same under a tag."""
        self.core.gpuconf_tag_push(b"weights")
        try:
            return self.pair(number)
        finally:
            self.core.gpuconf_tag_pop()

    def churn(self, number: int) -> float:
        """Random blocks of 512 B to 8 MiB are replaced, of 1000 that are live."""
        return float(self.library.time_churn(self.core.gpuconf_malloc, self.core.gpuconf_free, 1000, number))


@contextlib.contextmanager
def loops() -> Iterator[Loops]:
    """Compile the loops, on a simulated H100."""
    with tempfile.TemporaryDirectory() as folder, tf.simulate("H100-80GB"):
        built = str(Path(folder, "loops.so"))
        source = Path(__file__).with_name("c_abi.c")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", built, source], check=True)
        library = ctypes.CDLL(built)
        for loop in (library.time_empty, library.time_pair, library.time_churn):
            loop.restype = ctypes.c_double
        tf.config.list_logical_devices()
        yield Loops(library, ctypes.CDLL(tf.library_path()))
