# SPDX-License-Identifier: Apache-2.0
"""Libraries that stand in for CUDA's: the simulated driver and NVML, and the runtime with the functions of the others.

A program's libraries find the functions there because they are global and come first. They find CUDA's libraries
themselves, which may be missing, because empty ones of their names are loaded.
"""

from __future__ import annotations

import os

from .. import errors
from .._typing import Any

# Not compiled yet: few programs need them, and compiling takes a millisecond of each simulated process.
CUDA = r"lib(cu(dart|blas|blasLt|dnn|fft|file|pti|rand|solver|sparse|sparseLt)|nccl|nvrtc|nvshmem_host)\.so"
IMPORTED = (
    r"(__cuda|cuda|cublas|cudnn|cufft|curand|cusolver|cusparse|nccl|cupti)[A-Z]\w+|cuFile[A-Z]\w+|(nvrtc|nvshmem)\w+"
)
_UNMAPPED = 65534  # root's files in a rehearsal's user namespace: see gocore/machine/cuda
_RUNTIME = "libgpuconf-runtime.so"
_loaded: list[object] = []
library: Any = None  # the runtime; None: not loaded
driver: Any = None


def load(paths: list[str], what: str, instead: str) -> None:
    """Load them for a program's libraries, ``what`` in a message, that import functions of CUDA's.

    Raises UnimplementedError if they import functions that gpuconf does not have. ``instead`` is what a user can do
    then.
    """
    import ctypes
    import re

    global library, driver
    here = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_simulator")
    needed: set[str] = set()
    imported: set[str] = set()
    for path in paths:
        libraries, symbols = needs(path)
        needed.update(filter(re.compile(CUDA).match, libraries))
        imported.update(filter(re.compile(IMPORTED).fullmatch, symbols))
    for name, behind in (("libcuda.so.1", "libgpuconf-driver.so"), ("libnvidia-ml.so.1", "libgpuconf-nvml.so")):
        _loaded.append(ctypes.CDLL(_trusted(_guarded(os.path.join(here, name), behind)), ctypes.RTLD_GLOBAL))
    # PyTorch keeps contexts and addresses, so no reset may close the machine.
    driver = ctypes.CDLL(os.path.join(here, "libcuda.so.1"))
    driver.gpuconf_simulator_keep()
    # Triton looks for a driver in ldconfig's folders alone, and links with it.
    os.environ.setdefault("TRITON_LIBCUDA_PATH", os.path.join(here, "link"))
    library = ctypes.CDLL(_trusted(os.path.join(here, _RUNTIME)), ctypes.RTLD_GLOBAL)
    _loaded.append(library)
    missing = sorted(name for name in imported if not hasattr(library, name))
    if missing:
        raise errors.UnimplementedError(
            f"{what} ({os.path.dirname(paths[0])}) does not run on simulated GPUs: it imports {len(missing)} functions "
            "of CUDA's libraries that gpuconf does not have: "
            f"{', '.join(missing[:10])}{', ...' if len(missing) > 10 else ''}. {instead}"
        )
    _stand_in(sorted(needed))


def _guarded(library: str, behind: str) -> str:
    """Return the guard's library before one of the simulator's, in a job of ``gpuconf run``, else that library
    itself.
    """
    folder = os.path.dirname(os.environ.get("GPUCONF_GUARD", ""))
    if folder and os.path.realpath(os.path.join(folder, behind)) == os.path.realpath(library):
        return os.path.join(folder, os.path.basename(library))
    return library


def _trusted(library: str) -> str:
    """Return the path of a library that only this user and root can have written, as the core asks of its driver
    (gocore/machine/cuda).
    """
    owners = {0, os.geteuid()} | ({_UNMAPPED} if os.path.isdir("/run/gpuconf") else set())
    for part in (library, os.path.dirname(library)):
        facts = os.stat(part)
        why = ""
        if facts.st_uid not in owners:
            why = "belongs to another user"
        elif facts.st_mode & 0o002:
            why = "can be written by every user"
        elif facts.st_mode & 0o020 and facts.st_gid != facts.st_uid:
            why = "can be written by its group"
        if why:
            raise errors.FailedPreconditionError(
                f"the simulator is not loaded from {library}: {part} {why}. Install gpuconf where only its owner can "
                "write"
            )
    return library


def needs(path: str) -> tuple[list[str], set[str]]:
    """Return the libraries that one needs, and the functions that it imports."""
    from .._core.elf import needs

    return needs(path)


def _stand_in(names: list[str]) -> None:
    """Load empty libraries of these names, so that neither NVIDIA's are loaded nor their absence is an error."""
    import ctypes

    from .._core import elf

    files = []
    try:
        for name in names:
            files.append(os.memfd_create(name))
            os.write(files[-1], elf.library(name, [_RUNTIME]))
            # The loader takes a path that it knows for the same library: the files stay open, and the spelling is our
            # own.
            _loaded.append(ctypes.CDLL(f"/proc/self/task/../fd/{files[-1]}", ctypes.RTLD_GLOBAL))
    except OSError as error:
        raise errors.UnavailableError(
            f"what stands in for CUDA's libraries needs {len(names)} more open files: {error}. Raise ulimit -n"
        ) from None
    finally:
        for file in files:
            os.close(file)
