"""What gpuconf declares of the CUDA driver is what NVIDIA's own cuda.h declares, which comes with PyTorch's CUDA
runtime.
"""

import os
import re
import shlex
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest
import script
import simulator_sources

ROOT = Path(__file__).resolve().parents[2]
HEADERS = sorted(Path(sysconfig.get_paths()["purelib"], "nvidia").glob("*/include/cudaTypedefs.h"))

pytestmark = pytest.mark.skipif(not HEADERS, reason="no package of the CUDA runtime is installed")


class Function(NamedTuple):
    """A line of a table of functions, and how the driver finds it: by its exported name, or by a base name and a
    version.
    """

    space: str
    exported: str
    base: str
    version: int
    own_stream: bool
    parameters: str


def functions() -> list[Function]:
    """The functions of the driver that the core calls, and those that the guard calls or stands before."""
    core = simulator_sources.table("gocore/machine/cuda/symbols.h")
    guard = simulator_sources.table("gocore/lease/guard/functions.h")
    found = [
        Function("core", exported, base, int(version), False, parameters)
        for base, exported, version, parameters in re.findall(
            r'X\(\w+, "(\w+)", "(\w+)", (\d+), (\(.*\))\)(?: \\)?$', core, re.M
        )
    ]
    line = r'X\((cu\w+), (?:NULL|"(\w+)"), (\d+), (\d), (\(.*?\)), \([\w, ]*\)\)(?: \\)?$'
    for exported, base, version, flag, parameters in re.findall(line, guard, re.M):
        found.append(Function("guard", exported, base, int(version), flag == "2", parameters))
    return found


def test_the_tables_are_read_whole() -> None:
    for path, pattern in (
        ("gocore/machine/cuda/symbols.h", r"^\tX\(cu"),
        ("gocore/lease/guard/functions.h", r"^\tX\(cu"),
    ):
        space = "core" if "machine" in path else "guard"
        lines = len(re.findall(pattern, simulator_sources.table(path), re.M))
        assert lines == sum(one.space == space for one in functions()) > 50


@pytest.mark.parametrize("typedefs", HEADERS, ids=str)
def test_every_declaration_is_nvidias(typedefs: Path, tmp_path: Path) -> None:
    header = typedefs.with_name("cuda.h").read_text()
    newest = int(re.findall(r"#define CUDA_VERSION (\d+)", header)[0])
    forms = set(re.findall(r"CUDAAPI \*PFN_(\w+)\)", typedefs.read_text()))
    exported = set(re.findall(r"CUDAAPI (cu\w+)\(", header))
    rows, unknown = [], []
    for one in functions():
        form = f"{one.base}_v{one.version}" + ("_ptsz" if one.own_stream else "")
        if one.base and form in forms:
            rows.append(f"FUNCTION({one.space}, {one.parameters}, PFN_{form})")
        elif one.base and one.version <= newest:
            unknown.append(form)
        elif one.exported in exported:
            rows.append(f"FUNCTION({one.space}, {one.parameters}, decltype(&::{one.exported}))")
        elif not one.base:
            rows.append(f"FUNCTION({one.space}, {one.parameters}, PFN_{_newest(one.exported, forms)})")
    assert not unknown, f"the driver has no such forms: {unknown}"
    (tmp_path / "rows.inc").write_text("\n".join(rows) + "\n")
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    command = [*compiler, "-std=c++17", "-fsyntax-only", f"-I{tmp_path}", f"-I{ROOT}", f"-I{typedefs.parent}"]
    script.printed([*command, Path(__file__).with_name("driver_header.cpp")])


@pytest.mark.parametrize("typedefs", HEADERS, ids=str)
def test_every_constant_is_nvidias(typedefs: Path, tmp_path: Path) -> None:
    """Those that a header of an older CUDA lacks are left out."""
    theirs = set(re.findall(r"\bCU\w+", typedefs.with_name("cuda.h").read_text()))
    text = (ROOT / "gocore/machine/cuda/constants.h").read_text()
    ours = {name: value for name, value in re.findall(r"^\t(CU\w+) = (\w+),$", text, re.M) if name in theirs}
    assert len(ours) > 200
    rows = [f'_Static_assert({name} == {value}, "{name}");' for name, value in ours.items()]
    (tmp_path / "constants.c").write_text("\n".join(["#include <cuda.h>", *rows, ""]))
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command = [*compiler, "-fsyntax-only", f"-I{typedefs.parent}", tmp_path / "constants.c"]
    script.printed(command)


def _newest(exported: str, forms: set[str]) -> str:
    """The form of a function that is called by its exported name only."""
    base = exported.removesuffix("_ptsz").removesuffix("_v2")
    pattern = re.compile(base + r"_v(\d+)" + ("_ptsz" if exported.endswith("_ptsz") else ""))
    return max(
        (form for form in forms if pattern.fullmatch(form)), key=lambda form: int(re.findall(r"_v(\d+)", form)[0])
    )


@pytest.mark.parametrize("typedefs", HEADERS, ids=str)
def test_the_guard_stands_before_every_form(typedefs: Path) -> None:
    guarded = {(one.base, one.version, one.own_stream) for one in functions() if one.space == "guard" and one.base}
    forms = re.findall(r"CUDAAPI \*PFN_(\w+?)_v(\d+)(_ptsz)?\)", typedefs.read_text())
    bases = {base for base, _, _ in guarded}
    missing = [form for form in forms if form[0] in bases and (form[0], int(form[1]), bool(form[2])) not in guarded]
    assert not missing, f"forms that are not counted: {missing}"
