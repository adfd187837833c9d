"""The simulator's libcuda as a program sees it: what it exports, resolves and refuses, and what fork and dlclose do."""

import re
import runpy
import sys
from pathlib import Path

import gpuconf
import pytest
import script
from driver import functions, observe
from driver.answers import Answers
from fake_nvml import fake_nvml

ROOT = Path(__file__).resolve().parents[2]
BEGIN = """
import ctypes, os, sys
from ctypes import byref, c_char_p, c_int, c_uint64, c_void_p
cuda = ctypes.CDLL(sys.argv[1])
def noted():
    cuda.fakecuda_noted.restype = c_char_p
    names = iter(map(cuda.fakecuda_noted, range(2000)))
    return [name.decode() for name in iter(lambda: next(names), None)]
def resolve(name, version, flags=0):
    place, status = c_void_p(), c_int(-1)
    result = cuda.cuGetProcAddress_v2(name.encode(), byref(place), version, c_uint64(flags), byref(status))
    return result, status.value, place.value
def exported(name):
    return ctypes.cast(getattr(cuda, name), c_void_p).value
"""


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A driver for CUDA 12.4 that exports the newer functions, too, as the one of the wheel."""
    build = runpy.run_path(str(ROOT / "tests_go/machine/fakecuda/build.py"))["build"]
    library: Path = build(tmp_path_factory.mktemp("newest"), newest=True)
    return library


def run(library: Path, program: str, **environment: str) -> tuple[str, str]:
    done = script.completed(
        [sys.executable, "-c", BEGIN + program, library], timeout=120, env=script.plain() | environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def every_form() -> set[str]:
    forms, unresolved = functions.table(Answers.load())
    return {form.exported for form in forms} | set(unresolved)


def test_every_function_of_the_newest_driver_is_exported(newest: Path) -> None:
    assert len(every_form()) > 700
    assert every_form() <= observe.exports_of(newest)


def test_the_hooks_of_tests_are_not_in_the_wheel(newest: Path, tmp_path: Path) -> None:
    """The wheel's driver and NVML export what those of tests do, but for the hooks, and read no variable of tests."""

    def exports_of(library: Path) -> set[str]:
        command = ["nm", "-D", "--defined-only", library]
        rows = script.completed(command, check=True).stdout.splitlines()
        return {row.split()[-1] for row in rows}

    for own in (newest, fake_nvml(tmp_path) / "libnvidia-ml.so.1"):
        shipped = Path(gpuconf.__file__).parent / "_simulator" / own.name
        exports = exports_of(own)
        hooks = {name for name in exports if name.startswith("fakecuda_")}
        assert exports_of(shipped) == exports - hooks
        assert bool(hooks) == (own == newest)
        assert b"FAKE" in own.read_bytes()
        assert b"FAKE" not in shipped.read_bytes()
        assert b"fakecuda" not in shipped.read_bytes()


def test_what_is_not_written_says_so_and_is_noted_once(newest: Path) -> None:
    stubs = sorted(observe.stubs_of(newest))
    assert stubs
    out, errors = run(
        newest,
        f"""
stubs = {stubs}
print({{getattr(cuda, name)() for name in stubs}}, noted())
assert cuda.cuInit(0) == 0
print({{getattr(cuda, name)() for name in stubs + stubs}}, noted() == stubs)
""",
        GPUCONF_SIMULATOR_LOG="1",
    )
    assert out.splitlines() == ["{3} []", "{801} True"]
    assert re.findall(r"does not do (\w+);", errors) == stubs
    assert run(newest, f"cuda.cuInit(0); print(cuda.{stubs[0]}())") == ("801\n", "")


def test_a_function_newer_than_the_driver_is_exported_but_does_nothing(newest: Path) -> None:
    program = """
version, pool = c_int(), c_void_p()
cuda.cuInit(0)
print(cuda.cuDriverGetVersion(byref(version)), version.value)
print(resolve("cuMemGetDefaultMemPool", 13000)[:2], cuda.cuMemGetDefaultMemPool(byref(pool), (c_int * 2)(1, 0), 1),
      noted())
"""
    assert run(newest, program)[0].splitlines() == ["0 12040", "(0, 1) 801 ['cuMemGetDefaultMemPool']"]
    assert run(newest, program, GPUCONF_SIMULATE="T4:driver=13.0")[0].splitlines() == ["0 13000", "(0, 0) 0 []"]


def test_the_resolver(newest: Path) -> None:
    program = """
for name, version, flags in (("", 12000, 0), ("cuNothing", 12000, 0), ("cuMemAlloc_v2", 12000, 0),
                             ("cuMemAlloc", 1000, 0), ("cuMemAllocAsync", 11000, 0), ("cuMemAlloc", 12000, 8)):
    place = c_void_p(7)
    result = cuda.cuGetProcAddress(name.encode(), byref(place), version, c_uint64(flags))
    print(name or "-", resolve(name, version, flags), result, place.value)
for name, version, flags, form in (
    ("cuMemAlloc", 2000, 0, "cuMemAlloc"), ("cuMemAlloc", 99000, 0, "cuMemAlloc_v2"),
    ("cuMemAlloc", -1, 0, "cuMemAlloc_v2"),
    ("cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz"), ("cuLaunchKernel", 12000, 1, "cuLaunchKernel"),
    ("cuLaunchKernel", 12000, 3, "cuLaunchKernel_ptsz"), ("cuMemcpyHtoD", 12000, 2, "cuMemcpyHtoD_v2_ptds"),
):
    assert resolve(name, version, flags) == (0, 0, exported(form)), (name, version, flags)
"""
    assert run(newest, program)[0].splitlines() == [
        "- (0, 1, None) 500 7",
        "cuNothing (0, 1, None) 500 7",
        "cuMemAlloc_v2 (0, 1, None) 500 7",
        "cuMemAlloc (0, 2, None) 500 7",
        "cuMemAllocAsync (0, 2, None) 500 7",
        "cuMemAlloc (1, -1, None) 1 7",
    ]


def test_names_and_texts_of_errors(newest: Path) -> None:
    program = """
for number in (0, 2, 304, 402, 12345, -1):
    name, text = c_char_p(b"unset"), c_char_p(b"unset")
    print(number, cuda.cuGetErrorName(number, byref(name)), name.value, cuda.cuGetErrorString(number, byref(text)),
          text.value)
print(cuda.cuGetErrorName(0, None), cuda.cuGetErrorString(0, None))
"""
    out = run(newest, program)[0].splitlines()
    assert out[0] == "0 0 b'CUDA_SUCCESS' 0 b'no error'"
    assert out[1] == "2 0 b'CUDA_ERROR_OUT_OF_MEMORY' 0 b'out of memory'"
    assert out[2].startswith("304 0 b'CUDA_ERROR_OPERATING_SYSTEM' 0 ")
    assert out[3].startswith("402 0 b'CUDA_ERROR_LOSSY_QUERY' 0 ")
    assert out[4:] == ["12345 1 None 1 None", "-1 1 None 1 None", "1 1"]
    out = run(newest, program, GPUCONF_SIMULATE="T4:driver=12.2")[0].splitlines()
    assert out[3] == "402 1 None 1 None", "later drivers know it"


def test_a_child_that_was_forked_after_cuinit_cannot_use_the_driver(newest: Path) -> None:
    program = """
def child():
    count, pointer = c_int(), c_void_p()
    sys.stdout.flush()
    if os.fork() == 0:
        print(cuda.cuDeviceGetCount(byref(count)), cuda.cuInit(0), cuda.cuDeviceGetCount(byref(count)),
              cuda.cuDriverGetVersion(byref(count)), cuda.cuMemAlloc_v2(byref(pointer), c_uint64(1)),
              cuda.cuTexRefCreate())
        sys.stdout.flush()
        os._exit(0)
    os.wait()
child()
print(cuda.cuInit(0))
child()
print(cuda.cuDeviceGetCount(byref(c_int())), noted())
"""
    assert run(newest, program)[0].splitlines() == ["3 0 0 0 201 801", "0", "3 304 3 0 3 3", "0 []"]


def test_it_stays_loaded(newest: Path) -> None:
    program = """
import _ctypes
before = exported("cuInit")
_ctypes.dlclose(cuda._handle)
print(any(sys.argv[1] in line for line in open("/proc/self/maps")), exported("cuInit") == before, cuda.cuInit(0))
"""
    assert run(newest, program)[0] == "True True 0\n"


def test_tables_of_functions_are_refused(newest: Path) -> None:
    program = "print(cuda.cuGetExportTable(byref(c_void_p()), bytes(16)), cuda.cuGetExportTable(None, None))"
    assert run(newest, program)[0] == "1 1\n"


def test_compilers_of_other_processes_may_end_while_old_objects_are_looked_for(tmp_path: Path) -> None:
    """What is listed may be gone when it is looked at, like a link to nothing."""
    compile_all = runpy.run_path(str(ROOT / "tests_go/machine/fakecuda/build.py"))["objects"]
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    compile_all.__globals__["OBJECTS"] = tmp_path
    (target,) = compile_all([source], [], {})
    assert target.parent == tmp_path
    assert target.exists()


def test_the_handle_of_a_destroyed_stream_is_named_once(newest: Path) -> None:
    """NVIDIA's driver ends the process there (driver/calls, sequences.stream_gone): a program that does so gets a
    line.
    """
    program = """
stream, context = c_void_p(), c_void_p()
assert cuda.cuInit(0) == 0 == cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == cuda.cuCtxSetCurrent(context)
assert cuda.cuStreamCreate(byref(stream), 1) == 0 == cuda.cuStreamQuery(stream) == cuda.cuStreamDestroy_v2(stream)
print(cuda.cuStreamQuery(c_void_p(0x123456789)), flush=True)
sys.stderr.write("then ")
sys.stderr.flush()
print(cuda.cuStreamQuery(stream), cuda.cuStreamSynchronize(stream), cuda.cuStreamDestroy_v2(stream))
"""
    out, errors = run(newest, program, GPUCONF_SIMULATE="H200")
    assert out.split() == ["400"] * 4
    assert errors == (
        "then gpuconf: the program uses the handle of a CUDA stream that it has destroyed: "
        "with an H200's driver, such a call ends the process\n"
    )
