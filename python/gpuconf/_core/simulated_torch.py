# SPDX-License-Identifier: Apache-2.0
"""PyTorch on simulated GPUs: before its first import, libraries that stand in for CUDA's are loaded.

Nothing computes values there yet, so a program has to choose that: ``values="none"``, or ``GPUCONF_SIMULATE_VALUES=none``.

PyTorch's libraries find the functions there because they are global and come first, and find the libraries themselves, which may be
missing, because empty ones of their names are loaded.
"""

from __future__ import annotations

import os
import re
import sys
import warnings

from .. import errors
from . import import_hook, runtime

_CUDA = re.compile(
    r"lib(cudart|cublas|cublasLt|cudnn|cufft|cufile|cupti|curand|cusolver|cusparse|cusparseLt|nccl|nvrtc|nvshmem_host|nvToolsExt)\.so"
)
IMPORTED = re.compile(
    r"(__cuda|cuda|cublas|cudnn|cufft|curand|cusolver|cusparse|nccl|cupti|nvtx)[A-Z]\w+|cuFile[A-Z]\w+|(nvrtc|nvshmem)\w+"
)
VARIABLE = "GPUCONF_SIMULATE_VALUES"
_RUNTIME = "libgpuconf-runtime.so"
_loaded: list[object] = []


def prepare() -> None:
    """Load the libraries when PyTorch is first imported, if GPUs are simulated then.

    Raises FailedPreconditionError if PyTorch is imported already, without them.
    """
    if _loaded:
        return
    if "torch" in sys.modules:
        raise errors.FailedPreconditionError(
            'values="none": torch is imported already, and uses the real driver or none. '
            "Simulate GPUs before the first import of torch"
        )
    import_hook.before_import("torch", _before)


def requested() -> bool:
    """Whether ``GPUCONF_SIMULATE_VALUES`` is "none". Raises InvalidArgumentError for another value than that or an empty one."""
    return is_none(os.environ.get(VARIABLE) or None, VARIABLE)


def is_none(values: str | None, name: str) -> bool:
    """Whether the values of a simulation are "none". Raises InvalidArgumentError for another text."""
    if values not in (None, "none"):
        raise errors.InvalidArgumentError(
            f'{name} is {values!r}: the only choice is "none", with which PyTorch allocates on simulated GPUs and computes nothing'
        )
    return values == "none"


def libraries_of(folder: str) -> list[str]:
    """Return the paths of PyTorch's libraries."""
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if re.fullmatch(r"lib(torch|c10|caffe2).*\.so", name)]


def _before() -> None:
    import importlib.util

    machine = runtime.simulated()
    if not machine:
        return
    spec = importlib.util.find_spec("torch")
    folder = os.path.join(os.path.dirname(spec.origin), "lib") if spec is not None and spec.origin else ""
    if os.path.exists(os.path.join(folder, "libtorch_cuda.so")):
        os.environ["GPUCONF_SIMULATE"] = machine  # PyTorch counts cards with NVML, which reads it, and has processes of its own
        _load(folder)
        warnings.warn(
            f'PyTorch runs on simulated GPUs ({machine}) with values="none": it allocates as on the cards, but nothing is '
            "computed, and what it reads from a GPU has no meaning",
            RuntimeWarning,
            stacklevel=2,
        )


def _load(folder: str) -> None:
    import ctypes

    here = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_simulator")
    needed: set[str] = set()
    imported: set[str] = set()
    for path in libraries_of(folder):
        libraries, symbols = _needs(path)
        needed.update(filter(_CUDA.match, libraries))
        imported.update(filter(IMPORTED.fullmatch, symbols))
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        _loaded.append(ctypes.CDLL(os.path.join(here, name), ctypes.RTLD_GLOBAL))
    library = ctypes.CDLL(os.path.join(here, _RUNTIME), ctypes.RTLD_GLOBAL)
    _loaded.append(library)
    missing = sorted(name for name in imported if not hasattr(library, name))
    if missing:
        raise errors.UnimplementedError(
            f"this PyTorch ({folder}) does not run on simulated GPUs: it imports {len(missing)} functions of CUDA's libraries that "
            f"gpuconf does not have: {', '.join(missing[:10])}{', ...' if len(missing) > 10 else ''}. "
            "Use a newer gpuconf, or PyTorch 2.9"
        )
    library.gpuconf_runtime_versions(*_versions(folder))
    _stand_in(sorted(needed))


def _needs(path: str) -> tuple[list[str], set[str]]:
    from .elf import needs

    return needs(path)


def _stand_in(names: list[str]) -> None:
    """Load empty libraries of these names, so that neither NVIDIA's are loaded nor their absence is an error."""
    import ctypes

    from .elf import empty

    machine = {"x86_64": 62, "aarch64": 183}[os.uname().machine]
    files = []
    try:
        for name in names:
            files.append(os.memfd_create(name))
            os.write(files[-1], empty(name, _RUNTIME, machine))
            # The loader takes a path that it knows for the same library: the files stay open, and the spelling is our own.
            _loaded.append(ctypes.CDLL(f"/proc/self/task/../fd/{files[-1]}", ctypes.RTLD_GLOBAL))
    finally:
        for file in files:
            os.close(file)


def _versions(folder: str) -> tuple[int, int, int, int]:
    """Return the versions of CUDA (as 12080), cuDNN (91002), NCCL (22705) and cuBLAS (120804): what is installed, else what PyTorch requires."""
    import importlib.metadata

    with open(os.path.join(os.path.dirname(folder), "version.py"), encoding="utf-8") as file:
        found = re.search(r"^cuda[^=]*= '(\d+)\.(\d+)", file.read(), re.M)
    cuda = int(found[1]) * 1000 + int(found[2]) * 10 if found else 12080
    try:
        required = importlib.metadata.requires("torch") or []
    except importlib.metadata.PackageNotFoundError:
        required = []
    versions = {"cudnn": 91002, "nccl": 22705, "cublas": cuda // 1000 * 10000 + cuda % 1000 * 10}
    for name in versions:
        texts = [f"{text} (=={_installed(text)})" for text in (f"nvidia-{name}-cu{cuda // 1000}", f"nvidia-{name}")] + required
        for text in reversed(texts):
            pinned = re.match(rf"nvidia-{name}(-cu\d+)? *\(?==(\d+)\.(\d+)\.(\d+)", text)
            if pinned:
                versions[name] = int(pinned[2]) * 10000 + int(pinned[3]) * 100 + int(pinned[4])
    return cuda, versions["cudnn"], versions["nccl"], versions["cublas"]


def _installed(name: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
