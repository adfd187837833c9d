"""The fake GPU, built once."""

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import no_gpu
import pytest


@pytest.fixture(autouse=True)
def no_torch_in_this_process() -> Iterator[None]:
    """Tests run PyTorch in programs of their own: where it is imported, later tests can simulate no GPU."""
    before = "torch._C" in sys.modules
    yield
    assert before or "torch._C" not in sys.modules, "the test imported torch into the process of the tests"


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the driver and the runtime."""
    folder = tmp_path_factory.mktemp("no_gpu")
    no_gpu.build(folder)
    return folder


@pytest.fixture
def run(driver: Path) -> Callable[..., str]:
    """Runs a program on the fake GPU, and returns its output."""
    return functools.partial(no_gpu.run, driver)
