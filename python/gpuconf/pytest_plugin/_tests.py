# SPDX-License-Identifier: Apache-2.0
"""What happens around each test that uses a GPU, or runs in a process that does."""

from __future__ import annotations

import itertools
import json
import traceback
from collections.abc import Generator

import pytest

from .. import errors
from .._core.native import loaded
from .._typing import Any
from ..memory import _tracebacks
from . import _devices, _leaks, _limits, _pytorch, _walk, _workers
from ._marks import Need, need_of, requires_gpu, sizes_text
from ._options import MarkError, settings
from ._process import is_child
from ._walk import PASSED, STEP

_REASON = pytest.StashKey[tuple[str, bool]]()  # of the mark xfail, and whether it is strict
_STRICT = "[XPASS(strict)] "


def put_off(item: pytest.Item, report: pytest.TestReport, need: Need | None) -> None:
    """Report a marked test that passed as passed, for now."""
    if _REASON in item.stash:
        del item.stash[_REASON]  # of an earlier run
    if need is None or need.allowed is None:
        return
    if any("raises" in mark.kwargs for mark in item.iter_markers("xfail")):
        return  # an exception is expected
    strict = report.failed and isinstance(report.longrepr, str) and report.longrepr.startswith(_STRICT)
    if strict:
        item.stash[_REASON] = str(report.longrepr).removeprefix(_STRICT), True
        report.outcome, report.longrepr = "passed", None
    elif report.passed and hasattr(report, "wasxfail"):
        item.stash[_REASON] = report.wasxfail, False
        del report.wasxfail


def settle(item: pytest.Item, report: pytest.TestReport) -> None:
    """Report the teardown of such a test as expected to fail: it did, or it did not."""
    if _REASON not in item.stash:
        return
    reason, strict = item.stash[_REASON]
    del item.stash[_REASON]
    if report.failed and isinstance(report.longrepr, str):  # ours; an exception has another type
        report.outcome, report.wasxfail = "skipped", reason
    elif report.passed and strict:
        report.outcome, report.longrepr = "failed", f"{_STRICT}{reason}"
    elif report.passed:
        report.wasxfail = reason


_LOCK = pytest.StashKey[Any]()  # the lock of the GPU, or None


class Tests:
    """The hooks that run for each test."""

    def __init__(self) -> None:
        self._begun: pytest.Item | None = None
        self._entries: dict[str, dict[str, dict[str, Any]]] = {}  # of the baseline's file

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Note what is in use, check the marks, and wait for the GPU's lock, before the test's fixtures are set up."""
        self._begun = item
        try:
            need, wrong = need_of(item), ""
        except MarkError as error:
            need, wrong = None, str(error)
        _leaks.watch_of(item.config).begin(_limits.measures(item.config, need))
        if wrong:  # outside of the handler, so that the report is this line only
            pytest.fail(wrong, pytrace=False)
        if need is None:
            return
        if requires_gpu(item):
            _workers.apply_share(item.config)
            _devices.require(item.config, need)
        if hasattr(item.config, "workerinput"):
            from ._devices import held

            lock = held(item.config, need.exclusive)
            lock.__enter__()
            item.stash[_LOCK] = lock

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Begin here if one of the test's fixtures loaded the core, and so had these hooks registered. Fail a test that
        has passed and used too much.
        """
        watch = _leaks.watch_of(item.config)
        need = _need(item)
        if self._begun is not item:
            self._begun = item
            watch.begin(_limits.measures(item.config, need))
        watch.record()  # if a fixture listed the devices
        result = yield
        if item.stash.get(STEP, 0) or item.stash.get(_walk.WARMING, False) or getattr(item, "_excinfo", None):
            return result  # it is not the run that counts; unittest keeps the error of a test that failed there
        if not _limits.compares(item.config, need):
            return result
        if loaded() or _pytorch.in_use():
            watch.at_end_of_call()
        why = _limits.look(item, need, watch)
        if why:
            pytest.fail(why, pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """End a lease that the test left open, and release the GPU's lock, after all fixtures are torn down."""
        try:
            return (yield)
        finally:
            lock = item.stash.get(_LOCK, None)
            if lock is not None:
                item.stash[_LOCK] = None
                lock.__exit__(None, None, None)
            left = _leaks.watch_of(item.config).end_lease()
            if left:
                item.warn(pytest.PytestWarning(left))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let go of the memory that a failed test's traceback holds, and report what the test left allocated."""
        if call.excinfo is not None:
            _hide_our_frames(call.excinfo.value)
        report = yield
        if call.excinfo is not None and _leaks.uses_gpu() and not item.config.getoption("usepdb", False):
            _leaks.drop_locals(call.excinfo.value)
            _leaks.watch_of(item.config).file = str(item.path)
        if call.when == "call":
            put_off(item, report, _need(item))
            item.stash[PASSED] = report.passed
        if call.when == "teardown":
            if loaded() or _pytorch.in_use():
                _look(item, report)
            settle(item, report)
        return report

    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]) -> None:
        """Let go of the memory that the traceback of a failed subtest or collector holds."""
        if call.excinfo is not None and _leaks.uses_gpu() and not node.config.getoption("usepdb", False):
            _leaks.drop_locals(call.excinfo.value)
            _leaks.watch_of(node.config).file = str(node.path)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        """Note what a fixture that outlives the test allocates."""
        if fixturedef.scope == "function":
            return (yield)
        watch = _leaks.watch_of(request.config)
        before = watch.fixture_begins()
        try:
            return (yield)
        finally:
            watch.fixture_is_set_up(id(fixturedef), before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the new entries of the baseline's file, from the workers too."""
        found = dict(report.user_properties).get(_limits.ENTRY)
        if found and report.when == "teardown" and report.passed:
            where, entry = json.loads(str(found))
            self._entries.setdefault(report.nodeid, {})[where] = entry

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the baseline's file."""
        config: Any = session.config
        if hasattr(config, "workerinput"):
            config.workeroutput["gpuconf_collected"] = sorted(_limits.collected(config))
        elif settings(config).update and not is_child():
            _limits.of_run(config).update(self._entries, _limits.collected(config))

    @pytest.hookimpl
    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
        """Forget what a fixture allocated."""
        if fixturedef.scope != "function":
            _leaks.watch_of(request.config).fixture_is_torn_down(id(fixturedef))


def _hide_our_frames(error: BaseException) -> None:
    """Let the report of an error of gpuconf's, also of one that caused another, end at the line that called it.

    Other errors, and --full-trace, show our frames.
    """
    ours = [each.__traceback__ for each in _tracebacks.chain(error) if isinstance(each, errors.GpuconfError)]
    for frame, _ in itertools.chain.from_iterable(map(traceback.walk_tb, ours)):
        if str(frame.f_globals.get("__name__")).startswith("gpuconf."):
            frame.f_globals["__tracebackhide__"] = _is_our_error


def _is_our_error(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    return isinstance(excinfo.value, errors.GpuconfError)


def _need(item: pytest.Item) -> Need | None:
    try:
        return need_of(item)
    except MarkError:
        return None  # which the setup has reported


def _look(item: pytest.Item, report: pytest.TestReport) -> None:
    """Compare what is in use after a test with what was before."""
    watch = _leaks.watch_of(item.config)
    leaked = watch.end()
    if settings(item.config).report and watch.peaks.most:
        _limits.set_property(report, "gpuconf.peak_bytes", watch.peaks.most)
    need = _need(item)
    if item.stash.get(_walk.WARMING, False):
        return
    if leaked:
        _report(item, report, leaked, need)


def _report(item: pytest.Item, report: pytest.TestReport, leaked: _leaks.Holdings, need: Need | None) -> None:
    sites = _leaks.watch_of(item.config).call_sites
    lines = [_leaks.line(key, *held, sites.get(key, [])) for key, held in sorted(leaked.items())]
    total = _leaks.total_bytes(leaked)
    _limits.set_property(report, "gpuconf.leaked_bytes", total)
    _limits.set_property(report, "gpuconf.leaked_blocks", sum(blocks for _, blocks in leaked.values()))
    report.sections.append(("GPU memory left allocated", "\n".join(lines)))
    report.user_properties.append(("gpuconf.leak", "; ".join(lines)))
    by_mark = need.allowed if need is not None else None
    most = by_mark if by_mark is not None else settings(item.config).leak
    if most is not None and total > most and report.passed:
        report.outcome = "failed"
        allowed = (
            f", and {'gpu_leak' if by_mark is not None else '--gpuconf-leak'} allows {sizes_text(most)}" if most else ""
        )
        report.longrepr = "\n  ".join([f"{sizes_text(total)} of GPU memory left allocated{allowed}:", *lines])
