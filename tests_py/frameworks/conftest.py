"""The fake GPU, built once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import no_gpu
import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the driver and the runtime."""
    folder = tmp_path_factory.mktemp("no_gpu")
    no_gpu.build(folder)
    return folder
