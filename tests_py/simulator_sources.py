"""The folders that the simulator's libraries are built from, for tests that build them themselves or break a copy of them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("pybind/simulator", "pybind/budget", "gocore/models")


def sources(library: str, root: Path = ROOT) -> list[Path]:
    """Return the files of a library, "cuda" or "nvml"."""
    return [path for folder in (f"pybind/simulator/{library}", *COPIED[1:]) for path in sorted((root / folder).glob("*.c"))]


# All that simulates a GPU, for `make count-simulator`. The tables are data: functions, models, errors.
SIMULATORS = ("pybind/simulator", "gocore/models", "tests_go/fakecuda", "tests_go/fakenvml", "tests_py/frameworks/cuda_runtime.c")
TABLES = ("functions.h", "models.h", "errors.h")


def count(root: Path = ROOT) -> dict[str, tuple[int, int, int]]:
    """Count the lines of each folder: written by hand, those of them that are neither empty nor a comment, and of tables."""
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
                plain = [line for line in map(str.strip, lines) if line and not line.startswith(("//", "/*", "*", "#:"))]
                found[folder] = hand + len(lines), code + len(plain), table
    return found


if __name__ == "__main__":
    rows = count()
    rows["together"] = tuple(map(sum, zip(*rows.values(), strict=True)))  # type: ignore[assignment]
    print(f"{'':32}{'by hand':>10}{'code':>10}{'tables':>10}")
    for folder, numbers in rows.items():
        print(f"{folder:32}" + "".join(f"{number:10,}" for number in numbers))
