# SPDX-License-Identifier: Apache-2.0
"""PyTorch on simulated GPUs: before its first import, libraries that stand in for CUDA's are loaded (``stand_ins.py``).

Package `values` then lets the CPU compute what launches would, with the choice "cpu" for all operations, with "none"
for small tensors only.
"""

from __future__ import annotations

import os
import sys

from .. import errors
from .._core import import_hook, runtime
from .._core.settings import VALUES, checked_values, requested_values
from .._core.texts import plain_machine
from . import other_libraries, stand_ins

STRICT_VARIABLE = "GPUCONF_SIMULATE_STRICT"
_SMALL = 64 << 10  # bytes of what has a value with "none", in package `values`, too
_values = ""  # what was chosen last; "" stands for the variable's choice
_values_requested = False  # by an argument or the variable: then a PyTorch that sees no simulated GPU is an error
_may_lack_cuda = False  # whether it is a warning nevertheless
_strict = False
_started_on = ""  # the machine that PyTorch has started on
_llama_on = ""  # the one that llama.cpp's library has been loaded on
_of_environment = False  # whether that is the machine of GPUCONF_SIMULATE, which stays if a simulation ends
# The machine without which PyTorch must not start, while a test of the pytest plugin has its own.
starts_only_on: str | None = None


def choose(values: str | None, strict: bool | None, *, caller: str = "") -> None:
    """Let PyTorch see the simulated GPUs of the moment when it is first imported, with these values.

    Raises InvalidArgumentError for another choice, and FailedPreconditionError if a PyTorch that is built for CUDA is
    imported already, or has started with another choice.
    """
    global _values, _values_requested, _strict
    other_libraries.watch()
    import_hook.before_import("llama_cpp", _before_llama)
    wanted = checked_values(values, "values") if values is not None else ""
    if _started_on:
        if wanted and wanted != _values:
            raise errors.FailedPreconditionError(
                f'PyTorch runs on simulated GPUs with values="{_values}" until the process ends: choose '
                f'values="{wanted}" before the first import of torch'
            )
        return
    torch = sys.modules.get("torch")
    if torch is not None:
        if getattr(getattr(torch, "version", None), "cuda", None) is not None:
            raise errors.FailedPreconditionError(_too_late(caller))
        return
    _values = wanted or requested_values()
    _values_requested = bool(wanted or os.environ.get(VALUES))
    _strict = os.environ.get(STRICT_VARIABLE, "") not in ("", "0") if strict is None else strict
    import_hook.before_import("torch", _before)


def choose_by_environment() -> None:
    """Like :func:`choose`.

    An invalid choice is an error of ``import torch``, and of the first call: this is an import.
    """
    try:
        choose(None, None)
    except errors.InvalidArgumentError:
        import_hook.before_import("torch", _refuse)


def is_chosen() -> bool:
    """Whether this process has made a choice."""
    return bool(_values)


def runs() -> bool:
    """Whether PyTorch has started on simulated GPUs."""
    return bool(_started_on)


def held(ordinal: int) -> int:
    """Return the bytes that this process has on a card on which PyTorch has started, whichever library requested
    them.
    """
    import ctypes

    size = ctypes.c_uint64()
    stand_ins.driver.gpuconf_simulator_held(ordinal, ctypes.byref(size))
    return size.value


def _too_late(caller: str) -> str:
    """Return the error for a simulation after ``import torch``, with the line of that import if it is in the caller's
    file.
    """
    import linecache
    import re

    where = "torch is imported already"
    file, _, rest = caller.rpartition(" (")[0].rpartition(":")
    for number, line in enumerate(linecache.getlines(file)[: int(rest) if rest.isdigit() else 0], 1):
        if re.match(r"\s*(import|from)\s+torch\b", line):
            where = f"torch is imported already, in line {number} of {file}"
            break
    return f"{where}, so it uses the real driver or none. Simulate GPUs before the first import of torch"


def _refuse() -> None:
    requested_values()


def keeps_machine() -> bool:
    """Whether a library has started on simulated GPUs, which it keeps until the process ends."""
    return bool(_started_on or _llama_on)


def refuse_another_machine(spec: str) -> None:
    """Raise FailedPreconditionError if PyTorch has started on another simulated machine.

    ``spec`` "" is the end of a simulation.
    """
    kept = _started_on or _llama_on
    if not kept or spec == kept or (not spec and _of_environment and os.environ.get("GPUCONF_SIMULATE") == kept):
        return
    change = f"cannot simulate {spec}" if spec else "cannot end the simulation"
    library = "PyTorch" if _started_on else "llama.cpp"
    raise errors.FailedPreconditionError(
        f"{change}: {library} runs on simulated GPUs ({plain_machine(kept)}) until the process ends. Start another "
        "process for other GPUs"
    )


def libraries_of(folder: str) -> list[str]:
    """Return the paths of PyTorch's libraries."""
    names = (name for name in sorted(os.listdir(folder)) if name.startswith(("libtorch", "libc10", "libcaffe2")))
    return [os.path.join(folder, name) for name in names if name.endswith(".so")]


def _before() -> None:
    import importlib.util

    global _started_on, _of_environment
    machine = runtime.simulated()
    if starts_only_on is not None and machine != starts_only_on:
        import_hook.before_import("torch", _before)
        raise errors.FailedPreconditionError(
            f"PyTorch would keep the GPUs that this test simulates ({machine}): import torch before gpu_simulate, in "
            "the test's "
            f'module, or mark the test: @pytest.mark.gpu_process("{machine}") runs it in a process of its own'
        )
    if not machine:
        return
    spec = importlib.util.find_spec("torch")
    folder = os.path.join(os.path.dirname(spec.origin), "lib") if spec is not None and spec.origin else ""
    if os.path.exists(os.path.join(folder, "libtorch_cuda.so")):
        _of_environment = os.environ.get("GPUCONF_SIMULATE") == machine
        # PyTorch counts cards with NVML, which reads it, and has processes of its own.
        os.environ["GPUCONF_SIMULATE"] = machine
        _load(libraries_of(folder), "this PyTorch", "Use a newer gpuconf, or PyTorch 2.9")
        stand_ins.library.gpuconf_runtime_versions(*_versions(folder))
        _started_on = machine
        import_hook.right_after_import("torch", _after)
    elif os.path.isdir(folder):
        _without_cuda(os.path.dirname(folder), machine)


def accept_without_cuda() -> None:
    """Let a PyTorch that is built without CUDA be imported, with a warning, although values were requested."""
    global _may_lack_cuda
    _may_lack_cuda = True


def _without_cuda(folder: str, machine: str) -> None:
    """Raise FailedPreconditionError if values were requested for PyTorch, else warn: the program may not need GPUs in
    PyTorch.
    """
    text = (
        f"PyTorch ({folder}) is built without CUDA and does not see the simulated GPUs ({machine}). The wheel of "
        "https://pypi.org/project/torch for Linux on x86-64 is built with it: pip install torch"
    )
    if _values_requested and not _may_lack_cuda:
        import_hook.before_import("torch", _before)
        raise errors.FailedPreconditionError(text)
    import warnings

    warnings.warn(text, RuntimeWarning, stacklevel=5)  # the line that imports torch


def _after() -> None:
    from .values import install

    install.install(_values, _started_on, stand_ins.library, strict=_strict)


def _before_llama() -> None:
    """Let llama.cpp's library, if it is built for CUDA, find the libraries that stand in for CUDA's when it is
    loaded.
    """
    global _llama_on, _of_environment
    machine = runtime.simulated()
    if not machine or not (paths := other_libraries.libraries()):
        return
    version = other_libraries.cuda_of([name for path in paths for name in stand_ins.needs(path)[0]])
    if version is None:
        other_libraries.tell_without_cuda(machine)
        return
    _of_environment = os.environ.get("GPUCONF_SIMULATE") == machine
    os.environ["GPUCONF_SIMULATE"] = machine  # which the driver reads
    _load(paths, "llama.cpp", "Use a newer gpuconf, or its wheel for the CPU")
    if not _started_on:
        from .values import unmarked

        stand_ins.library.gpuconf_runtime_versions(version, 0, 0, version * 10)
        unmarked.install(stand_ins.library, strict=_strict)
    _llama_on = machine
    other_libraries.tell(machine)


def _load(paths: list[str], what: str, instead: str) -> None:
    import ctypes

    stand_ins.load(paths, what, instead)
    stand_ins.library.gpuconf_runtime_collective_limit(ctypes.c_uint64(_SMALL if _values == "none" else 1 << 63))


def _versions(folder: str) -> tuple[int, int, int, int]:
    """Return the versions of CUDA (as 12080), cuDNN (91002), NCCL (22705) and cuBLAS (120804).

    CUDA's is the one that PyTorch was built for; those of the others are of what is installed, else of what PyTorch
    requires.
    """
    import re

    with open(os.path.join(os.path.dirname(folder), "version.py"), encoding="utf-8") as file:
        found = re.search(r"^cuda[^=]*= '(\d+)\.(\d+)", file.read(), re.M)
    cuda = int(found[1]) * 1000 + int(found[2]) * 10 if found else 12080
    required = re.findall(r"^Requires-Dist: *(.*)", _metadata("torch"), re.M)
    versions = {"cudnn": 91002, "nccl": 22705, "cublas": cuda // 1000 * 10000 + cuda % 1000 * 10}
    for name in versions:
        texts = [
            f"{text} (=={_installed(text)})" for text in (f"nvidia-{name}-cu{cuda // 1000}", f"nvidia-{name}")
        ] + required
        for text in reversed(texts):
            pinned = re.match(rf"nvidia-{name}(-cu\d+)? *\(?==(\d+)\.(\d+)\.(\d+)", text)
            if pinned:
                versions[name] = int(pinned[2]) * 10000 + int(pinned[3]) * 100 + int(pinned[4])
    return cuda, versions["cudnn"], versions["nccl"], versions["cublas"]


def _installed(name: str) -> str:
    import re

    found = re.search(r"^Version: *(.*)", _metadata(name), re.M)
    return found[1] if found else ""


def _metadata(name: str) -> str:
    """Return what a package says of itself, or "".

    `importlib.metadata` parses it as an email, which takes longer than all else.
    """
    import importlib.metadata

    try:
        return importlib.metadata.distribution(name).read_text("METADATA") or ""
    except importlib.metadata.PackageNotFoundError:
        return ""
