"""Without a device or a context, a request gets the driver's own error."""

import sys
from pathlib import Path

import pytest
import script
from conftest_guard import CARDS, MIB, PRELUDE, build_driver, environment, job

CALLS = """
class Prop(ctypes.Structure):
    _fields_ = [(name, c_int) for name in ("type", "handles", "where", "id")] + [("other", c_uint64 * 10)]
class Shape(ctypes.Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", ctypes.c_uint)]
class Volume(ctypes.Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("depth", c_size_t)]
    _fields_ += [("format", c_int), ("channels", ctypes.c_uint), ("flags", ctypes.c_uint)]
def calls():
    out, pitch = byref((c_uint64 * 16)()), byref(c_uint64())
    prop, none = byref(Prop(1, 0, 1, 0)), byref(Prop(1, 0, 1, 99))
    flat, deep = byref(Shape(1024, 1024, 0x20, 4)), byref(Volume(64, 64, 64, 0x20, 4, 0))
    for bytes in (c_size_t(0), c_size_t(4 * MIB), c_size_t(4096 * MIB)):
        yield cuda.cuMemAlloc_v2(out, bytes)
        yield cuda.cuMemAllocManaged(out, bytes, 0)
        yield cuda.cuMemAllocManaged(out, bytes, 1)
        yield cuda.cuMemAllocPitch_v2(out, pitch, bytes, c_size_t(4), 4)
        for stream in (c_void_p(), c_void_p(1), c_void_p(2)):
            yield cuda.cuMemAllocAsync(out, bytes, stream)
            yield cuda.cuMemAllocAsync_ptsz(out, bytes, stream)
            yield cuda.cuMemAllocFromPoolAsync(out, bytes, None, stream)
            yield cuda.cuMemAllocFromPoolAsync_ptsz(out, bytes, None, stream)
        yield cuda.cuMemCreate(out, bytes, none, c_uint64(0))
    if len(sys.argv) > 1:
        yield from (cuda.cuMemCreate(out, c_size_t(4 * MIB), prop, c_uint64(0)), cuda.cuMemPoolCreate(out, prop))
        for stream in (c_void_p(4096), c_void_p(1 << 40)):
            yield cuda.cuMemAllocAsync(out, c_size_t(4 * MIB), stream)
    yield cuda.cuArrayCreate_v2(out, flat)
    yield cuda.cuArray3DCreate_v2(out, deep)
    yield cuda.cuMipmappedArrayCreate(out, deep, 2)
print(list(calls()), cuda.cuInit(0), list(calls()))
"""


@pytest.mark.parametrize("version", [11040, 12040, 13050])
@pytest.mark.parametrize("gpus", ["0", "1", "2"])
def test_a_request_gets_the_drivers_own_error(tmp_path: Path, version: int, gpus: str) -> None:
    """Before cuInit, where it finds no device, and without a context; also if it would not fit."""
    folder = build_driver(tmp_path / "driver", version)
    command = [sys.executable, "-c", PRELUDE + CALLS, *["early"] * (gpus == "0")]
    base = environment(folder, FAKECUDA_GPUS=gpus)
    alone = script.completed(command, env=base, check=True).stdout
    with job(folder, dict.fromkeys(CARDS[:2], MIB), FAKECUDA_GPUS=gpus) as one:
        assert one.run(*command) == alone
        assert (one.used(), one.budget.log()) == (0, [])
    results = set(alone.replace("[", " ").replace("]", " ").replace(",", " ").split())
    assert {"3", {"0": "100"}.get(gpus, "201")} <= results
