"""The fixtures of the guard's tests."""

import shutil
from pathlib import Path

import pytest
from conftest_guard import client, driver
from fake_nvml import fake_nvml

__all__ = ["both", "client", "driver"]


@pytest.fixture(scope="session")
def both(driver: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both libraries of the driver."""
    folder = fake_nvml(tmp_path_factory.mktemp("both"))
    shutil.copy(driver / "libcuda.so.1", folder)
    return folder
