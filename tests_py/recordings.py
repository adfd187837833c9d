"""Recordings of what others answered (NVIDIA's drivers, TensorFlow), compressed in ``benchmarks/data``."""

from __future__ import annotations

import lzma
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "benchmarks" / "data"


class Recording:
    """A text file below ``benchmarks/data``, by its name without ``.xz``."""

    def __init__(self, name: str) -> None:
        self.path = DATA / f"{name}.xz"

    def read_text(self) -> str:
        return lzma.decompress(self.path.read_bytes()).decode()

    def write_text(self, text: str) -> None:
        self.path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
