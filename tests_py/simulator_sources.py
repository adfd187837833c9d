"""The folders that the simulator's libraries are built from, for tests that build them themselves or break a copy of them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("pybind/simulator", "pybind/budget", "gocore/models")


def sources(library: str, root: Path = ROOT) -> list[Path]:
    """Return the files of a library, "cuda" or "nvml"."""
    return [path for folder in (f"pybind/simulator/{library}", *COPIED[1:]) for path in sorted((root / folder).glob("*.c"))]
