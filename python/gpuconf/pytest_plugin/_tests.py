"""What happens around each test that uses a GPU, or runs in a process that does."""

from __future__ import annotations

import pytest

from .._core.native import loaded
from .._typing import Any
from . import _devices, _leaks, _workers
from ._marks import MarkError, need_of, requires_gpu, sizes_text
from ._settings import settings

_LOCK = pytest.StashKey[Any]()  # the lock of the GPU, or None


def begin(item: pytest.Item) -> None:
    """Check the marks, wait for the GPU's lock, and note what is in use."""
    _leaks.watch_of(item.config).begin()
    try:
        need = need_of(item)
    except MarkError as error:
        pytest.fail(str(error), pytrace=False)
    if need is not None and requires_gpu(item):
        _workers.apply_share(item.config)
        _devices.require(item.config, need)
    if need is not None and hasattr(item.config, "workerinput"):
        from ._exclusive import held

        lock = held(item.config, need.exclusive)
        lock.__enter__()
        item.stash[_LOCK] = lock


def release(item: pytest.Item) -> None:
    """Release the GPU's lock."""
    lock = item.stash.get(_LOCK, None)
    if lock is not None:
        item.stash[_LOCK] = None
        lock.__exit__(None, None, None)


def reported(item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport) -> None:
    """Look at memory after a step of a test whose report has just been made."""
    if call.excinfo is not None and _leaks.uses_gpu() and not item.config.getoption("usepdb", False):
        _leaks.drop_locals(call.excinfo.value)
    if call.when != "teardown" or not loaded():
        return
    watch = _leaks.watch_of(item.config)
    leaked = watch.end()
    if settings(item.config).report and watch.peak > watch.start:
        _set_property(report, "gpuconf.peak_bytes", watch.peak)
    if leaked:
        _report(item, report, leaked)


def _report(item: pytest.Item, report: pytest.TestReport, leaked: _leaks.Holdings) -> None:
    lines = [_leaks.line(key, *held) for key, held in sorted(leaked.items())]
    total = _leaks.total_bytes(leaked)
    _set_property(report, "gpuconf.leaked_bytes", total)
    _set_property(report, "gpuconf.leaked_blocks", sum(blocks for _, blocks in leaked.values()))
    report.sections.append(("GPU memory left allocated", "\n".join(lines)))
    report.user_properties.append(("gpuconf.leak", "; ".join(lines)))
    try:
        need = need_of(item)
    except MarkError:
        return
    if need is not None and need.allowed is not None and total > need.allowed and report.passed:
        report.outcome = "failed"
        allowed = f", and gpu_leak allows {sizes_text(need.allowed)}" if need.allowed else ""
        report.longrepr = "\n  ".join([f"{item.nodeid} left {sizes_text(total)} of GPU memory allocated{allowed}:", *lines])


def _set_property(report: pytest.TestReport, name: str, value: object) -> None:
    report.user_properties[:] = [(key, old) for key, old in report.user_properties if key != name]
    report.user_properties.append((name, value))
