"""The files that the simulator's libraries are built from, for tests that build them themselves or break one of
them.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def table(path: str) -> str:
    """Return the text of a table of macros, each row in one line."""
    return re.sub(r" \\\n\t {4}", " ", (ROOT / path).read_text())


def rust() -> bool:
    """Report whether there is a Rust compiler that works: rustup's rustc without a toolchain only prints an error."""
    return shutil.which("rustc") is not None and not subprocess.run(["rustc", "-vV"], capture_output=True).returncode


def sources(library: str) -> list[Path]:
    """Return the files of a library, "cuda" or "nvml", with the hooks of tests."""
    hooks = {"cuda": "fakecuda/libcuda", "nvml": "fakenvml/libnvidia-ml"}[library]
    folders = (f"gocore/sim/{library}", "gocore/lease/budget", "gocore/machine/models", f"tests_go/machine/{hooks}")
    return [path for folder in folders for path in sorted((ROOT / folder).glob("*.c"))]


def objects(files: list[Path], flags: list[str], defines: dict[str, str]) -> list[Path]:
    """Compile files, each once for all tests."""
    compiled: list[Path] = runpy.run_path(str(ROOT / "tests_go/machine/fakecuda/build.py"))["objects"](
        files, flags, defines
    )
    return compiled


def program(
    target: Path, main: Path, flags: list[str], broken: str = "", text: str = "", more: tuple[Path, ...] = ()
) -> Path:
    """Compile a program of the driver and more files, with another text in the place of the file that is named
    ``broken``.
    """
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-g", "-O1", "-DGPUCONF_TEST_HOOKS", *flags]
    parts = objects([main, *more, *(path for path in sources("cuda") if path.name != broken)], flags, {})
    if broken:
        file = target.with_name(broken)
        file.write_text(text)
        parts.append(file)
    command = [
        *shlex.split(os.environ.get("CC", "cc")),
        *flags,
        f"-I{ROOT / 'gocore/sim/cuda'}",
        "-o",
        target,
        *parts,
    ]
    subprocess.run([*command, "-lpthread", "-ldl"], check=True)
    return target


def compiles(folder: Path, flags: list[str]) -> bool:
    """Whether the compiler has what the flags request."""
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    command = [*shlex.split(os.environ.get("CC", "cc")), *flags, "-o", folder / "empty", folder / "empty.c"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


# All that simulates a GPU, for `make count WHAT=simulator`. The tables are data: functions, models, errors.
SIMULATORS = ("gocore/sim", "gocore/machine/models", "tests_go/machine/fakecuda", "tests_go/machine/fakenvml")
TABLES = ("functions.h", "models.h", "errors.h")


def count(root: Path = ROOT) -> dict[str, tuple[int, int, int]]:
    """Count the lines of each folder: written by hand, those of them that are neither empty nor a comment, and of
    tables.
    """
    found: dict[str, tuple[int, int, int]] = {}
    for name in SIMULATORS:
        for path in sorted((root / name).rglob("*")) or [root / name]:
            if path.suffix not in (".c", ".h", ".go", ".py"):
                continue
            lines = path.read_text().splitlines()
            folder = str(path.parent.relative_to(root))
            hand, code, table = found.get(folder, (0, 0, 0))
            if path.name in TABLES:
                found[folder] = hand, code, table + len(lines)
            else:
                plain = [
                    line for line in map(str.strip, lines) if line and not line.startswith(("//", "/*", "*", "#:"))
                ]
                found[folder] = hand + len(lines), code + len(plain), table
    return found


if __name__ == "__main__":
    rows = count()
    rows["together"] = tuple(map(sum, zip(*rows.values(), strict=True)))  # type: ignore[assignment]
    print(f"{'':32}{'by hand':>10}{'code':>10}{'tables':>10}")
    for folder, numbers in rows.items():
        print(f"{folder:32}" + "".join(f"{number:10,}" for number in numbers))
