"""A program under a limit:
``python guard_fill.py WHAT`` fills it, and prints what it saw as JSON. guarded.py starts it.

WHAT is "driver", which takes memory by every call of ``gpuconf run --check`` and every way to find it, or a library:
"torch", "torch-whole", "torch-segments", "cupy", "numba", "jax" or "jax-growing".
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from gpuconf.jobs import budget as _budget

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 64 << 20
LONGEST = 140  # seconds; guarded.py ends this program after 150
MOST = 64  # four times the limit: a guard that fails must not fill the card, with managed memory least of all


def budget() -> Any:
    """The use of the card."""
    reader = _budget.current()
    assert reader is not None, "there is no budget"
    return next(use for use in reader.usage().values() if use.limit)


def free_and_total() -> tuple[int, int]:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value, total.value


def fill(take: Callable[[], tuple[int, Callable[[], object]]]) -> dict[str, Any]:
    """Take chunks until one is refused, and give them back."""
    undo, result, before = [], 0, budget().used
    try:
        while not result and len(undo) < MOST:
            result, give_back = take()
            if not result:
                undo.append(give_back)
    except AttributeError:
        result = 801  # the driver lacks the function: CUDA_ERROR_NOT_SUPPORTED
    left = free_and_total()[0]
    for give_back in undo:
        give_back()
    ctypes.CDLL("libcuda.so.1").cuCtxSynchronize()
    return {"before": before, "chunks": len(undo), "result": result, "left": left, "after": budget().used}


def driver() -> dict[str, Any]:
    """Each call, by each way."""
    from gpuconf.cli import guard_check as check

    assert not check._begin()
    found: dict[str, Any] = {}
    for way, find in check._ways(check._real(_budget.current()) or ""):
        for name, call in check._CALLS.items():
            if way != "by path":
                found[f"{name}, {way}"] = fill(lambda call=call, find=find: call(find, CHUNK))  # type: ignore[misc]
    library = check.load_runtime()
    find = None if library is None else check._exported(library)
    for name, call in check.RUNTIME_CALLS.items() if find is not None else ():
        found[f"{name}, CUDA runtime"] = fill(lambda call=call: call(find, CHUNK))  # type: ignore[misc]
    return found


def hold(allocate: Callable[[int], Any], error: type[BaseException]) -> dict[str, Any]:
    """Hold arrays until the library has no memory; then drop them, and request one that only fits if its cache is
    emptied.
    """
    held: list[Any] = []
    said = ""
    try:
        while len(held) < MOST:
            held.append(allocate(CHUNK))
    except error as raised:
        said = type(raised).__name__
        raised.__traceback__ = None
    use = budget()
    count = len(held)
    held.clear()
    try:
        larger = allocate(CHUNK * count // 2)
        del larger
        emptied = ""
    except error as raised:  # of a library that keeps its regions, such as JAX
        emptied = str(raised)
    again = budget()
    return {
        "emptied": emptied,
        "chunks": count,
        "error": said,
        "used": use.used,
        "outside": use.outside,
        "limit": use.limit,
        "refused": again.refused > 0,
        "after": again.used,
        "peak": again.peak,
    }


def torch(mode: str = "") -> dict[str, Any]:
    """PyTorch with its own allocator, or with gpuconf's pool as the whole limit."""
    import torch

    if mode:
        import gpuconf

        gpuconf.configure(limit=budget().limit, growth=True, libraries={"torch": mode})
    total = torch.cuda.mem_get_info()[1]
    return hold(lambda size: torch.empty(size, dtype=torch.uint8, device="cuda"), torch.cuda.OutOfMemoryError) | {
        "total": total
    }


def cupy() -> dict[str, Any]:
    """CuPy with its own pool."""
    import cupy

    total = cupy.cuda.runtime.memGetInfo()[1]
    return hold(cupy.cuda.alloc, cupy.cuda.memory.OutOfMemoryError) | {"total": total}


def numba() -> dict[str, Any]:
    """Numba, which frees later."""
    from numba import cuda
    from numba.cuda.cudadrv.driver import CudaAPIError

    total = cuda.current_context().get_memory_info().total
    return hold(lambda size: cuda.device_array(size, "u1"), (CudaAPIError, MemoryError)) | {"total": total}  # type: ignore[arg-type]


def jax(preallocate: str) -> dict[str, Any]:
    """JAX, which takes its fraction of what it sees when it starts, or grows to that."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = preallocate
    import jax

    if jax.default_backend() == "cpu":
        return {"platform": "cpu"}
    arrays = hold(lambda size: jax.numpy.zeros(size, "uint8").block_until_ready(), jax.errors.JaxRuntimeError)
    return arrays | {"platform": "gpu", "total": free_and_total()[1]}


PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {
    "driver": driver,
    "torch": torch,
    "torch-whole": lambda: torch("whole"),
    "torch-segments": lambda: torch("segments"),
    "cupy": cupy,
    "numba": numba,
    "jax": lambda: jax("true"),
    "jax-growing": lambda: jax("false"),
}

if __name__ == "__main__":
    faulthandler.dump_traceback_later(LONGEST)
    print(json.dumps(PROGRAMS[sys.argv[1]]()), flush=True)
    os._exit(0)  # some libraries end badly where the driver is the tests'
