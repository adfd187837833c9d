"""Every way to take device memory, by every way to find the driver's functions, is refused at exactly the limit."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest_guard import CARDS, MIB, ROOT, build_driver, job

# The rows of rows.h, by the CUDA version that they need.
ROWS = {
    11000: (
        "linear linear_v1 pitch pitch_v1 managed virtual mapped retained imported array array_v1 array3d array3d_v1 layers"
        " mipmapped context context2"
    ),
    11010: "tile",
    11020: "ordered async async_ptsz pool pool_ptsz orphan set_pool",
    11040: "graph_v1 graph_v2 graph_flags captured context3",
    12000: "graph_params graph_params_ptsz",
    12010: "bound bound_address",
    12050: "context4",
}
WAYS = ["linked", "dlsym", "default", "resolver", "resolver2"]
FULL = "8 2 0 512"  # eight chunks of 64 MiB, refused with CUDA_ERROR_OUT_OF_MEMORY, nothing left, and all of it after the free


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
        assert one.run(client[""], "path", "fill", "linear", "virtual", **by_path).splitlines() == filled(["linear", "virtual"])
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


def test_each_failing_driver_call_leaves_the_account_as_it_was(driver: Path, client: dict[str, Path]) -> None:
    rows = rows_until(12040)
    with job(driver, 512 * MIB) as one:
        told = dict(line.split(maxsplit=1) for line in one.run(client[""], "dlsym", "walk", *rows).splitlines())
        assert one.used() == 0
    assert set(told) == set(rows)
    assert all(int(failures) >= 2 for failures in told.values()), told


def test_the_rows_are_all_hooks_that_take_memory() -> None:
    """A new hook in functions.h needs a row in rows.h."""
    hooks = {
        line.split("(")[1].split(",")[0]
        for line in (ROOT / "pybind/guard/functions.h").read_text().splitlines()
        if "\tX(cu" in line
    }
    used = (Path(__file__).parent / "rows.h").read_text()
    takes = {
        name for name in hooks if any(word in name for word in ("Alloc", "ArrayCreate", "3DCreate", "Instantiate", "CtxCreate"))
    }
    takes |= {"cuMemCreate", "cuMemMap", "cuMulticastBindMem"}
    takes -= {"cuMemAllocFromPool", "cuGraphMemAllocNodeGetParams"}
    assert not {name for name in takes if f"cu.{name}(" not in used}
