"""Measure gpuconf on this machine's GPU and write benchmarks/reports/gpu-results.md:
``python benchmarks/gpu.py [dist/gpuconf-*.whl]``.

Needs Python and the NVIDIA driver; no Go, no network. Contenders whose library is missing are skipped, by name. A
process keeps its allocator until it ends, so each contender runs in its own processes, alternating with the others;
ratios are of medians
in one run.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import datetime
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve()
PAGE = HERE.parent.parent / "benchmarks" / "reports" / "gpu-results.md"
MIB = 1 << 20
SIZES = (512, 64 << 10, 2 * MIB, 64 * MIB)
TURNS = 3
MISSING = 77

# The tasks that run in a separate process. Each prepares one contender and returns a function that allocates and frees
# once.


def torch_pair(mode: str, side: bool = False) -> Callable[[int], Callable[[], None]]:
    """``torch.empty`` and ``del``, in PyTorch's own allocator or one of gpuconf's modes, on the default stream or one
    beside it.
    """
    import torch

    if mode != "own":
        import gpuconf

        gpuconf.configure(limit="1GiB", libraries={"torch": mode})
    torch.empty(1, device="cuda")
    if side:
        torch.cuda.set_stream(torch.cuda.Stream())

    def of(size: int) -> Callable[[], None]:
        def pair() -> None:
            torch.empty(size, dtype=torch.uint8, device="cuda")

        return pair

    return of


def cupy_pair(kind: str) -> Callable[[int], Callable[[], None]]:
    """``cupy.empty`` and ``del``, in CuPy's own pool, its asynchronous one, or gpuconf's."""
    import cupy

    if kind == "gpuconf":
        import gpuconf

        gpuconf.configure(limit="1GiB", libraries=["cupy"])
    if kind == "async":
        cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    return lambda size: lambda: cupy.empty(size, dtype=cupy.uint8)


def cupy_pool_pair() -> Callable[[int], Callable[[], None]]:
    """An allocation from CuPy's pool and its free, without an array: over a driver of host memory CuPy has no
    arrays.
    """
    import cupy

    pool = cupy.cuda.MemoryPool()
    return lambda size: lambda: pool.malloc(size)


def buffer_pair() -> Callable[[int], Callable[[], None]]:
    """``gpuconf.memory.allocate`` and ``free``."""
    import gpuconf

    gpuconf.configure(limit="1GiB", libraries=[])
    allocate = gpuconf.memory.allocate
    return lambda size: lambda: allocate(size).free()


def driver_pair() -> Callable[[int], Callable[[], None]]:
    """``cuMemAlloc`` and ``cuMemFree``, through ctypes."""
    driver = ctypes.CDLL("libcuda.so.1")
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    if driver.cuInit(0) or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or driver.cuCtxSetCurrent(context):
        raise SystemExit("the driver gives no context")

    def of(size: int) -> Callable[[], None]:
        def pair() -> None:
            driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
            driver.cuMemFree_v2(pointer)

        return pair

    return of


def c_abi_pair() -> Callable[[int], Callable[[], None]]:
    """``gpuconf_malloc`` and ``gpuconf_free``, also through ctypes."""
    import gpuconf

    gpuconf.configure(limit="1GiB", libraries=[])
    gpuconf.config.list_logical_devices()
    library = ctypes.CDLL(gpuconf.library_path())
    library.gpuconf_malloc.restype = ctypes.c_void_p
    library.gpuconf_free.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)

    def of(size: int) -> Callable[[], None]:
        wanted = ctypes.c_size_t(size)
        first = library.gpuconf_malloc(wanted, 0, None)
        if not first:
            raise SystemExit(f"gpuconf_malloc of {size} bytes failed")
        library.gpuconf_free(first, 0, 0, None)

        def pair() -> None:
            library.gpuconf_free(library.gpuconf_malloc(wanted, 0, None), 0, 0, None)

        return pair

    return of


CONTENDERS: dict[str, tuple[str, Callable[[], Callable[[int], Callable[[], None]]]]] = {
    "torch, own": ("torch", lambda: torch_pair("own")),
    "torch, segments": ("torch", lambda: torch_pair("segments")),
    "torch, whole": ("torch", lambda: torch_pair("whole")),
    "torch, own, other stream": ("torch", lambda: torch_pair("own", side=True)),
    "torch, whole, other stream": ("torch", lambda: torch_pair("whole", side=True)),
    "cupy, own pool": ("cupy", lambda: cupy_pair("own")),
    "cupy, async pool": ("cupy", lambda: cupy_pair("async")),
    "cupy, gpuconf": ("cupy", lambda: cupy_pair("gpuconf")),
    "cupy, own pool without an array": ("cupy", cupy_pool_pair),
    "gpuconf.memory.allocate + free": ("", buffer_pair),
    "cuMemAlloc + cuMemFree": ("", driver_pair),
    "gpuconf_malloc + gpuconf_free": ("", c_abi_pair),
}

# Goals for ratios: (contender, compared with, maximum).
BARS = (
    ("torch, segments", "torch, own", 1.05),
    ("torch, whole", "torch, own", 1.3),
    ("torch, whole, other stream", "torch, own, other stream", 1.3),
    ("gpuconf.memory.allocate + free", "torch, own", 1.0),
    ("gpuconf.memory.allocate + free", "cupy, own pool without an array", 1.0),
    ("cupy, gpuconf", "cupy, own pool", 1.3),
    ("gpuconf_malloc + gpuconf_free", "cuMemAlloc + cuMemFree", 1 / 50),
)


def measure(name: str) -> dict[str, float]:
    """Nanoseconds of one pair, by size; the minimum of seven rounds."""
    pair_of = CONTENDERS[name][1]()
    found = {}
    for size in SIZES:
        pair = pair_of(size)
        count = 20
        while (spent := _round(pair, count)) < 0.05:
            count *= 2
        found[str(size)] = min(spent, *(_round(pair, count) for _ in range(6))) / count * 1e9
    return found


def _round(pair: Callable[[], None], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        pair()
    return time.perf_counter() - begin


def limit_seen_from_outside() -> dict[str, float]:
    """The memory that the driver has allocated to this process at the limit, beyond that before the first
    allocation.
    """
    import gpuconf

    gpuconf.configure(limit="1GiB", growth=True, libraries=[])
    gpuconf.config.list_logical_devices()
    driver = ctypes.CDLL("libcuda.so.1")
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxSetCurrent(context)
    driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    before, buffers = free.value, []
    with contextlib.suppress(MemoryError):
        while True:
            buffers.append(gpuconf.memory.allocate(MIB + 256))
    driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    used = before - free.value
    for buffer in buffers:
        buffer.free()
    return {"limit": float(1 << 30), "taken": float(used)}


def child(task: str, env: dict[str, str]) -> Any:
    """Run one task in a process; None if its library is missing."""
    done = subprocess.run(
        [sys.executable, HERE, "--task", task], capture_output=True, text=True, check=False, env=env, timeout=900
    )
    if done.returncode == MISSING:
        return None
    if done.returncode:
        raise SystemExit(f"{task} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().rpartition("\n")[2])


# What a process with the package prints about the GPUs, the driver and the libraries, as JSON.
FACTS = """
import ctypes, gpuconf, importlib.metadata, json
cards = [f"{card.name}, {card.total_memory >> 20} MiB" for card in gpuconf.visible_devices()]
version, text = ctypes.c_int(), ctypes.create_string_buffer(80)
try:
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2() or nvml.nvmlSystemGetDriverVersion(text, len(text))
except (OSError, AttributeError):
    pass
cuda = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
versions = {(d.metadata["Name"] or "").lower(): d.version for d in importlib.metadata.distributions()}
named = [name for name in sorted(versions) if name in ("jax", "numba-cuda", "torch") or name.startswith("cupy")]
print(json.dumps({
    "cards": cards,
    "driver": f"driver {text.value.decode() or 'unknown'} ({cuda})",
    "libraries": [f"{name} {versions[name]}" for name in named],
    "gpuconf": gpuconf.__version__,
}))
"""


def machine(env: dict[str, str]) -> str:
    """GPU, driver and versions. Without a GPU, or a package that can be imported, the program ends and says why."""
    done = subprocess.run(
        [sys.executable, "-c", FACTS], capture_output=True, text=True, check=False, env=env, timeout=120
    )
    if done.returncode:
        raise SystemExit(f"gpuconf cannot be used from {sys.executable}; nothing was run:\n{done.stderr.strip()}")
    found = json.loads(done.stdout.strip().rpartition("\n")[2])
    if not found["cards"]:
        doctor = subprocess.run(
            [sys.executable, "-m", "gpuconf", "doctor"], capture_output=True, text=True, check=False, env=env
        )
        told = (doctor.stdout + doctor.stderr).strip()
        raise SystemExit(f"this machine has no NVIDIA GPU that gpuconf can use; nothing was run:\n{told}")
    libraries = ", ".join(found["libraries"]) or "no library"
    python = f"{platform.system()} {platform.machine()}, CPython {platform.python_version()}"
    return f"{'; '.join(found['cards'])}; {found['driver']}; {python}, gpuconf {found['gpuconf']}, {libraries}"


def today() -> str:
    """The date."""
    return str(datetime.datetime.now(tz=datetime.timezone.utc).date())


def lines_of(found: dict[str, list[dict[str, float]]], limit: dict[str, float] | None) -> list[str]:
    """The page's sections on speed and on the limit, from the rounds of each contender."""
    medians = {
        name: {size: statistics.median(one[size] for one in runs) for size in runs[0]} for name, runs in found.items()
    }
    lines = [
        "## One allocation and one free",
        "",
        "ns of host time; the contenders take turns; medians of their best rounds.",
        "",
    ]
    lines += ["| | " + " | ".join(human(size) for size in SIZES) + " |", "|---" * (len(SIZES) + 1) + "|"]
    for name, by_size in medians.items():
        lines.append(f"| {name} | " + " | ".join(f"{by_size[str(size)]:.0f}" for size in SIZES) + " |")
    lines += [
        "",
        "| ratio | " + " | ".join(human(size) for size in SIZES) + " | at most |",
        "|---" * (len(SIZES) + 2) + "|",
    ]
    for what, over, bar in BARS:
        if what in medians and over in medians:
            ratios = [medians[what][str(size)] / medians[over][str(size)] for size in SIZES]
            lines.append(f"| {what} / {over} | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + f" | {bar:.3g} |")
    if limit:
        taken, wanted = limit["taken"] / MIB, limit["limit"] / MIB
        lines += ["", "## The limit, seen by the driver", ""]
        lines += [f"Limit {wanted:.0f} MiB; taken from the driver {taken:.2f} MiB ({taken - wanted:+.2f}; at most +2)."]
    missing = sorted(set(CONTENDERS) - set(found))
    if missing:
        lines += ["", f"Left out, because the library is not installed: {', '.join(missing)}."]
    return lines


def write(env: dict[str, str], path: Path) -> None:
    """Run all measurements and write the page."""
    found: dict[str, list[dict[str, float]]] = {}
    for _ in range(TURNS):
        for name in CONTENDERS:
            measured = child(name, env)
            if measured is not None:
                found.setdefault(name, []).append(measured)
    lines = [
        "# On a GPU",
        "",
        f"Written by `make gpu-bench` on {today()}: {machine(env)}.",
        "",
        *lines_of(found, child("limit", env)),
    ]
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def human(size: int) -> str:
    """A size in binary units."""
    return f"{size // MIB} MiB" if size >= MIB else f"{size // 1024} KiB" if size >= 1024 else f"{size} B"


def main() -> None:
    """Run all measurements, or one task of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", nargs="?", help="the wheel to measure; else the gpuconf that this Python has")
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        if options.task == "limit":
            print(json.dumps(limit_seen_from_outside()))
            return
        library = CONTENDERS[options.task][0]
        if library:
            try:
                importlib.import_module(library)
            except ImportError as error:
                print(f"{library} is not installed ({error})")
                sys.exit(MISSING)
        print(json.dumps(measure(options.task)))
        return
    with contextlib.ExitStack() as stack:
        env = dict(os.environ)
        if options.wheel:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            zipfile.ZipFile(options.wheel).extractall(folder)
            env["PYTHONPATH"] = os.pathsep.join([folder, env.get("PYTHONPATH", "")])
        write(env, options.out)


if __name__ == "__main__":
    main()
