"""Every test starts and ends with an empty runtime, and fails if it leaves device memory in use."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from typing import TYPE_CHECKING

import gpuconf
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("soak", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# The width of a terminal, which is for the programs of the tests to take; pytest-xdist sets it for its workers.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)

# What nohup, cron and a shell's background jobs start ignores these signals, and so would all that tests start. This
# process still survives a hangup, and an exec gives its children the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)

# Files of many tests that take half a minute or more all the same.
LONG = {"test_docs.py", "test_bad_arguments.py", "test_cover_kinds.py", "test_leased_run.py", "test_rehearsal.py"}

# The variables that TensorFlow and CUDA read; a test sets those it needs.
_FOREIGN = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GPUCONF_SIMULATE")


def pytest_collection_finish() -> None:
    """Leave all tests, which live to the end, out of each search for cycles of objects: fit_batch makes one for every
    try.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No test may leave device memory in use: the plugin's mark checks it.

    With several processes, files of few tests come first, and LONG before them: those wait for programs and clocks, and
    take longest. If they came last, one process would go on for minutes while the others have nothing left.
    """
    for item in items:
        item.add_marker(pytest.mark.gpu_leak)
    if "PYTEST_XDIST_WORKER" in os.environ:
        tests = Counter(item.path for item in items)
        items.sort(key=lambda item: (item.path.name not in LONG, tests[item.path]))


@pytest.fixture(autouse=True)
def clean_runtime(monkeypatch: pytest.MonkeyPatch, gpu_simulate: Callable[[str | None], object]) -> None:
    """Start without devices and without a simulation, on any machine.

    The plugin restores that, whatever the test simulates.
    """
    for name in list(os.environ):
        if name in _FOREIGN or name.startswith("TF_"):
            monkeypatch.delenv(name)
    # Not the user's; a test makes its own.
    monkeypatch.setenv("GPUCONF_LEDGER", f"/tmp/gpuconf-no-ledger-{os.getpid()}")
    gpu_simulate(None)


@pytest.fixture
def one_gpu() -> None:
    """A machine with a CPU and one simulated H100."""
    gpuconf.simulate("H100-80GB")


@pytest.fixture
def two_gpus() -> None:
    """A machine with a CPU and two simulated H100."""
    gpuconf.simulate("2xH100-80GB")


@pytest.fixture
def without_tensorflow() -> Iterator[None]:
    """``import tensorflow`` is after the test as before it, whatever was installed in its place."""
    finders, modules = list(sys.meta_path), set(sys.modules)
    yield
    sys.meta_path[:] = finders
    for name in set(sys.modules) - modules:
        if name.split(".")[0] == "tensorflow":
            del sys.modules[name]
