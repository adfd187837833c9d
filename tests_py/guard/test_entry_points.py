"""Every way to take device memory, by every way to find the driver's functions, is refused at exactly the limit."""

import re
import sys
from pathlib import Path

import pytest
import script
import simulator_sources
from conftest_guard import CARDS, MIB, PRELUDE, build_driver, environment, job
from gpuconf._core import elf

# The rows of rows.h, by the CUDA version that they need.
ROWS = {
    11000: (
        "linear linear_v1 pitch pitch_v1 managed virtual mapped retained imported array array_v1 array3d array3d_v1 "
        "layers"
        " mipmapped context context2"
    ),
    11010: "tile",
    11020: "ordered async async_ptsz pool pool_ptsz orphan set_pool",
    11040: "graph_v1 graph_v2 graph_flags child captured context3",
    12000: "graph_params graph_params_ptsz",
    12010: "bound bound_address",
    12050: "context4",
    13000: "location",
    13010: "bound2 bound_address2",
}
WAYS = ["linked", "dlsym", "default", "resolver", "resolver2"]
# Eight chunks of 64 MiB, refused with CUDA_ERROR_OUT_OF_MEMORY, nothing left, and all of it after the free.
FULL = "8 2 0 512"


def rows_until(version: int) -> list[str]:
    return [row for since, rows in ROWS.items() if since <= version for row in rows.split()]


def filled(rows: list[str]) -> list[str]:
    return [f"{row} {FULL}" for row in rows]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["proxy", "preload"])
def test_every_row_ends_at_the_limit(driver: Path, client: dict[str, Path], mode: str, way: str) -> None:
    rows = rows_until(12040)
    with job(driver, 512 * MIB, mode) as one:
        told = one.run(client.get(way, client[""]), way, "fill", *rows).splitlines()
        assert told == filled(rows)
        assert (one.used(), one.budget.usage()[CARDS[0]].peak, one.budget.log()) == (0, 512 * MIB, [])


def test_the_driver_by_its_path(driver: Path, client: dict[str, Path]) -> None:
    """Only preloading covers it, and auto picks that for a program that names the path."""
    by_path = {"DRIVER": str(driver / "libcuda.so.1")}
    with job(driver, 512 * MIB, "preload") as one:
        assert one.run(client[""], "path", "fill", "linear", "virtual", **by_path).splitlines() == filled(
            ["linear", "virtual"]
        )
    with job(driver, 512 * MIB, "proxy") as one:
        assert one.run(client[""], "path", "fill", "linear", **by_path) == "linear 32 2 0 2048\n"
    naming = driver / "naming"
    naming.write_bytes(client[""].read_bytes() + b"/usr/lib/libcuda.so.1\0")
    naming.chmod(0o755)
    for program, mode in ((client[""], "proxy"), (naming, "preload")):
        with job(driver, MIB, "auto", command=[str(program)]) as one:
            assert one.budget.mode == mode


@pytest.mark.parametrize("version", [11000, 11010, 11020, 11040, 12000, 13000, 13050])
def test_older_and_newer_drivers(tmp_path: Path, client: dict[str, Path], version: int) -> None:
    """A resolver of its own addresses, and one of another version than the program knows."""
    folder = build_driver(tmp_path / "driver", version)
    rows = rows_until(version)
    ways = ["dlsym"] + ["resolver"] * (version >= 11030) + ["resolver2"] * (version >= 12000)
    for way in ways:
        with job(folder, 512 * MIB, FAKECUDA_ALIASES="1") as one:
            assert one.run(client[""], way, "fill", *rows).splitlines() == filled(rows), way
            assert one.budget.log() == []


def test_functions_that_a_driver_lacks_whose_file_does_not_name_them(tmp_path: Path) -> None:
    """They cannot be cut out of the guard then, so they say that they are not supported."""
    folder = build_driver(tmp_path / "driver", 11000)
    lacking = sorted(
        name for name in hooks() - (elf.exports(str(folder / "libcuda.so.1")) or set()) if name.startswith("cu")
    )
    data = bytearray((folder / "libcuda.so.1").read_bytes())
    data[40:48], data[58:64] = bytes(8), bytes(6)  # the place, size and number of the section headers
    (folder / "libcuda.so.1").write_bytes(data)
    code = f"""
        begin()
        for name in {lacking}:
            function = getattr(cuda, name)
            if function(*7 * [None]) != 801:
                print(name)
        print(allocate(512)[0])
    """
    with job(folder, 512 * MIB) as one:
        assert one.python(code) == "0\n"
    assert {"cuGetProcAddress", "cuGetProcAddress_v2", "cuMemAllocFromPoolAsync", "cuMemGetDefaultMemPool"} <= set(
        lacking
    )


def test_no_function_takes_memory_under_a_damaged_budget(driver: Path, client: dict[str, Path]) -> None:
    with job(driver, 512 * MIB) as one:
        with open(one.budget.path, "r+b") as file:
            file.write(b"PK\3\4")
        told = [one.run(client[""], "dlsym", "fill", row) for row in rows_until(12040)]
        assert [line for line in told if not re.fullmatch(r"\w+ 0 2 2048 2048\n", line)] == []


def test_each_failing_driver_call_leaves_the_account_as_it_was(driver: Path, client: dict[str, Path]) -> None:
    rows = rows_until(12040)
    with job(driver, 512 * MIB) as one:
        told = dict(line.split(maxsplit=1) for line in one.run(client[""], "dlsym", "walk", *rows).splitlines())
        assert one.used() == 0
    assert set(told) == set(rows)
    assert all(int(failures) >= 2 for failures in told.values()), told


def hooks() -> set[str]:
    text = simulator_sources.table("gocore/lease/guard/functions.h").split("#define CUDA_CALLS")[0]
    return set(re.findall(r"^\tX\(((?:cu|nvml)\w+),", text, re.MULTILINE))


def test_every_hook_is_called_by_a_test() -> None:
    """A prototype that was copied wrongly is found here and not by a user."""
    folder = Path(__file__).parent
    texts = "".join(path.read_text() for kind in ("*.h", "*.c", "*.py") for path in folder.rglob(kind))
    uncalled = {name for name in hooks() if not re.search(rf"\b(cu|cuda|library|driver|nvml)\.{name}\(", texts)}
    assert not uncalled - {"cuGetProcAddress", "cuGetProcAddress_v2"}  # found by dlsym in rows.h
    assert len(hooks()) >= 79


def test_every_row_is_run() -> None:
    """Or the hook that it calls would be called by no test."""
    text = (Path(__file__).parent / "c" / "rows.h").read_text().split("} rows[] = {")[1]
    assert set(re.findall(r'\{"(\w+)", take_', text)) == set(rows_until(13050))


def test_calls_without_a_result_to_write_are_the_drivers_to_refuse(driver: Path) -> None:
    with job(driver, 512 * MIB) as one:
        assert one.python("""
            begin()
            some, whole, event = (ctypes.c_uint * 2)(), c_size_t(), c_void_p()
            for call, value in ((cuda.cuMemGetInfo_v2, c_size_t()), (cuda.cuMemGetInfo, ctypes.c_uint())):
                print(call(None, None), call(byref(value), None), call(None, byref(value)))
            print(cuda.cuMemGetInfo(byref(some), byref(some, 4)), some[0] // MIB, some[1] // MIB)
            print(cuda.cuDeviceTotalMem(byref(some), 0), some[0] // MIB, cuda.cuDriverGetVersion(None))
            print(cuda.cuEventCreate(byref(event), 0), cuda.cuEventRecord(event, None), cuda.cuEventSynchronize(event))
        """).splitlines() == ["0 0 0", "1 1 1", "0 512 512", "0 512 1", "0 0 0"]


def test_the_newest_driver_of_these_tests_has_every_hook(tmp_path: Path) -> None:
    """Or else `gpuconf run` would cut the hook out of the guard, and no test would reach it."""
    exported = elf.exports(str(build_driver(tmp_path / "driver", 13050) / "libcuda.so.1"))
    assert exported is not None
    assert not {name for name in hooks() if name.startswith("cu")} - exported


# What the resolver answers, and of which names of the driver the address is, as far as dlsym returns it.
ASK = """
names = sys.argv[1:]
versions = [0, 1000, 2000, 3010, 3020, 9020, 10020, 11000, 11020, 11030, 11040, 12000, 12040, 12050, 13000, 13010,
            99000]
for name in ["", "cuNothing", "cuMemAlloc_v2", "cuMemAllocAsync_ptsz", *names]:
    for version in versions:
        for flags in (0, 1, 2, 8):
            place, status = c_void_p(), c_int(-1)
            call = (name.encode(), byref(place), version, c_uint64(flags))
            print(name or "-", version, flags, cuda.cuGetProcAddress(*call), bool(place), end=" ")
            if hasattr(cuda, "cuGetProcAddress_v2"):
                print(cuda.cuGetProcAddress_v2(*call, byref(status)), bool(place), status.value, end="")
            print()
"""


def bases() -> list[str]:
    text = simulator_sources.table("gocore/lease/guard/functions.h")
    return sorted(set(re.findall(r'^\tX\(cu\w+, "(\w+)"', text, re.MULTILINE)))


@pytest.mark.parametrize("aliases", ["", "1"])
@pytest.mark.parametrize("version", [11030, 12040, 13050])
def test_the_resolver_answers_as_without_the_guard(tmp_path: Path, version: int, aliases: str) -> None:
    """Also for a name that the driver does not know, a version without the function, and flags that do not exist."""
    folder = build_driver(tmp_path / "driver", version)
    more = {"FAKECUDA_ALIASES": aliases} if aliases else {}
    command = [sys.executable, "-c", PRELUDE + ASK, *bases()]
    alone = script.completed(command, env=environment(folder, **more), check=True).stdout
    with job(folder, 512 * MIB, **more) as one:
        assert one.run(*command).splitlines() == alone.splitlines()
        assert one.budget.log() == []
    second = version >= 12000
    for question, first, with_status in (
        ("- 12000 0", "500 False", "0 False 1"),
        ("cuNothing 12000 0", "500 False", "0 False 1"),
        ("cuMemAlloc_v2 12000 0", "500 False", "0 False 1"),
        ("cuMemAlloc 1000 0", "500 False", "0 False 2"),
        ("cuMemAllocAsync 11000 0", "500 False", "0 False 2"),
        ("cuMemAllocAsync 11020 2", "0 True", "0 True 0"),
        # From CUDA 13 on, a version that is newer than the driver is an error.
        ("cuMemAlloc 99000 0", *(("1 False", "1 False 0") if version >= 13000 else ("0 True", "0 True 0"))),
        ("cuMemAlloc 12000 8", "1 False", "1 False -1"),
    ):
        assert f"{question} {first} {with_status if second else ''}" in alone.splitlines()
