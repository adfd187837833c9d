# SPDX-License-Identifier: Apache-2.0
"""TensorFlow as ``importlib.metadata`` finds it while gpuconf stands in for it."""

from __future__ import annotations

from importlib.metadata import Distribution

from .._typing import Any
from .v2.version import VERSION


class TensorFlow(Distribution):
    """The metadata of a package without files: a name, and the version that gpuconf is compared with.

    1.15.5 for TensorFlow 1.
    """

    def __init__(self, version: int) -> None:
        self._number = VERSION if version == 2 else "1.15.5"

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of the metadata; None for those that there are not."""
        if filename != "METADATA":
            return None
        summary = "gpuconf stands in for TensorFlow in this process"
        return f"Metadata-Version: 2.1\nName: tensorflow\nVersion: {self._number}\nSummary: {summary}\n"

    def locate_file(self, path: Any) -> Any:
        """Return the path itself: there are no files."""
        return path
