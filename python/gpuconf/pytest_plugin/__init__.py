# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: GPU tests with real and simulated GPUs.

Marks ``gpu``, ``gpu_exclusive`` and ``gpu_leak``; fixtures ``gpu``, ``gpus``, ``gpu_simulate``, ``gpu_memory``,
``gpu_oom_after`` and ``gpu_oom_each``; options ``--gpuconf...``. ``docs/pytest.md`` describes them. pytest loads the
plugin by its entry point; ``-p no:gpuconf`` leaves it out.

Every suite in an environment that has gpuconf loads this file. So it imports next to nothing, and it registers the
hooks that run for each test when the suite has opted in with an option or a key, when a test uses one of the fixtures,
or when the process loads the core. Until then marks and fixtures of the same names belong to the suite.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Any

import pytest

from .._core import when_loaded
from . import _ours
from ._options import MARKS, MASK, SHARE, add_options, is_plain, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import LogicalDevice
    from ..simulation.simulate import Simulation
else:
    LogicalDevice = Simulation = object  # whose modules take longer to import than this plugin may


__all__ = [
    "gpu", "gpu_memory", "gpu_oom_after", "gpu_oom_each", "gpu_simulate", "gpus", "pytest_addoption",
    "pytest_collection_modifyitems", "pytest_configure", "pytest_configure_node", "pytest_load_initial_conftests",
    "pytest_report_header", "pytest_terminal_summary", "pytest_testnodedown", "pytest_unconfigure",
    "pytest_xdist_auto_num_workers",
]  # fmt: skip

_CORE = "gpuconf._core._gpuconf"  # loaded by the first call that needs it
_WATCH = pytest.StashKey[Callable[[], None]]()


_taken: set[str] = set()  # fixtures of other plugins that have the names of ours


def __dir__() -> list[str]:
    """Return what pytest looks for hooks and fixtures in."""
    return [name for name in __all__ if name not in _taken]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the keys of the configuration file."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Simulate GPUs before a conftest may import PyTorch."""
    if is_plain(early_config):
        return
    from ._workers import simulate_if_chosen

    with suppress(pytest.UsageError):  # pytest_configure raises it, too, when --help and the like are known
        simulate_if_chosen(early_config)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, simulate GPUs, and take this worker's share, if the suite has opted in."""
    _taken.clear()
    _taken.update(_ours.taken(config))
    config.stash[MASK] = os.environ.get("CUDA_VISIBLE_DEVICES")
    watch = config.stash[_WATCH] = _watcher(config)
    if _CORE in sys.modules:
        watch()
    else:
        when_loaded.append(watch)
    plain = is_plain(config)
    if not plain or config.getoption("markers", False):
        for line in MARKS:
            config.addinivalue_line("markers", line)
    if plain:
        return
    chosen = settings(config)
    watch()
    from ._limits import check

    check(config)
    if chosen.mode == "off":
        return
    given: Any = getattr(config, "workerinput", None)
    if given is None and chosen.mode == "simulate":
        from ._workers import simulate_if_chosen

        simulate_if_chosen(config)
    if chosen.per_worker or chosen.fraction or given is not None or SHARE in config.stash:
        from ._workers import take_share

        take_share(config)
    if chosen.fail_on_cuda_at_collection:
        from ._collection import Guard

        config.pluginmanager.register(Guard(), "gpuconf-collection")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the environment, and remove the files of this run's locks."""
    if config.stash.get(_WATCH, None) in when_loaded:
        when_loaded.remove(config.stash[_WATCH])
    if not hasattr(config, "workerinput") and "gpuconf.pytest_plugin._workers" in sys.modules:
        from ._workers import stop_simulating

        stop_simulating(config)
    session: Any = config.pluginmanager.get_plugin("dsession")
    run = getattr(getattr(session, "nodemanager", None), "testrunuid", None)
    if run:
        from ._devices import remove

        remove(run)


# pytest-xdist


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, Any, Any]:
    """Cap ``-n auto`` at the number of workers whose memory is free."""
    number = yield
    from ._workers import cards_of

    cards = cards_of(config)
    most = cards.most_workers() if cards is not None else 0
    return min(number, most) if number and most else number


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send a worker its GPU and its share of the memory."""
    from ._workers import cards_of, show_gpu

    if not getattr(node.gateway.spec, "popen", False):
        return  # on another machine
    cards = cards_of(node.config)
    if cards is not None:
        workers = node.workerinput["workercount"]
        cards.refuse_too_many(workers)
        node.workerinput["gpuconf"] = share = cards.place(node.gateway.id, workers)
        if share is not None:
            show_gpu(node, share["uuid"])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Free the place of a worker that is gone."""
    from ._limits import collected
    from ._workers import worker_left

    collected(node.config).update(getattr(node, "workeroutput", {}).get("gpuconf_collected", ()))
    worker_left(node.config, node.gateway.id)


# Collection


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, Any, Any]:
    """Watch the tests if one of them uses our fixtures.

    A suite that has not opted in has no other hook that runs for each test.
    """
    plain = is_plain(config)
    if not plain:
        from ._limits import note_collected

        note_collected(config, items)
    result = yield  # to all others, which may add fixtures
    for item in items:
        if _ours.FIXTURES.isdisjoint(getattr(item, "fixturenames", ())) and plain:
            continue
        ours = _ours.fixtures(item)
        if ours:
            _watch(config)
        if "gpu_oom_each" in ours:
            from . import _walk

            _register(config, _walk.Walker)
        if ours or not plain:
            _register_reruns(config, item)
    return result


def _register_reruns(config: pytest.Config, item: pytest.Item) -> None:
    """Register what runs a test in a process of its own, or more than once, if its marks say so."""
    if any(mark.name in ("gpu_leak", "gpu_peak") and "warmup" in mark.kwargs for mark in item.iter_markers()):
        from . import _walk

        _register(config, _walk.Warmup)
    if item.get_closest_marker("gpu_process") is not None:
        from ._process import is_child
        from ._processes import Processes

        if not is_child():
            _register(config, Processes)


def _watcher(config: pytest.Config) -> Callable[[], None]:
    return lambda: _watch(config)


def _watch(config: pytest.Config) -> None:
    """Register the hooks that run for each test."""
    from ._tests import Tests

    _register(config, Tests)


def _register(config: pytest.Config, hooks: type) -> None:
    name = f"gpuconf-{hooks.__name__.lower()}"
    if not config.pluginmanager.has_plugin(name):
        config.pluginmanager.register(hooks(), name)


# Fixtures. Each imports what it needs when a test uses it.


@pytest.fixture
def gpus(request: pytest.FixtureRequest) -> list[LogicalDevice]:
    """The logical GPUs that this test may use: all that the ``gpu`` mark accepts, of this worker's share under
    pytest-xdist.

    Initializes the devices. Skips the test if there are fewer than the mark requires, or fails it with
    ``--gpuconf=required``.
    """
    from . import _devices, _workers
    from ._marks import need_of_user

    need = need_of_user(request.node)
    _workers.apply_share(request.config)
    _devices.require(request.config, need)
    return _devices.logical_gpus(need)


@pytest.fixture
def gpu(gpus: list[LogicalDevice]) -> LogicalDevice:
    """The first GPU of ``gpus``, as a logical device.

    Its name is what ``gpuconf.device`` and ``gpuconf.memory`` take.
    """
    return gpus[0]


@pytest.fixture
def gpu_simulate(request: pytest.FixtureRequest) -> Iterator[Callable[[str | None], Simulation]]:
    """A function that simulates GPUs for this test:
    ``gpu_simulate("2xH100-80GB")``. Afterwards the previous machine is restored.

    Memory that the test left allocated is reported as a leak and freed.
    """
    from . import _simulation

    with _simulation.for_a_test(request.config) as simulate:
        yield simulate


@pytest.fixture
def gpu_memory(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The memory in use during the test, in bytes:
    ``start``, ``peak`` and ``end``, of the logical GPU of ``gpu``, else GPU:0.
    """
    from . import _peaks

    if "gpu_simulate" in request.fixturenames:
        request.getfixturevalue("gpu_simulate")  # whose machine must outlive the measurement
    device = request.getfixturevalue("gpu").name if "gpu" in request.fixturenames else "GPU:0"
    measured = _peaks.GpuMemory(device)
    yield measured
    measured.stop()
    request.node.user_properties.append(("gpuconf.peak_bytes", measured.peak))


@pytest.fixture
def gpu_oom_after(request: pytest.FixtureRequest) -> Iterator[Callable[[int], None]]:
    """A function that makes an allocation fail: after ``gpu_oom_after(3)`` the third one runs out of memory, in any
    library.

    The error is the library's own, by the path of a real one; its text contains "injected". Allocations of all threads
    on all GPUs count, those of 0 bytes do not. Another call replaces it, and ``gpu_oom_after(0)`` takes it back, as do
    the test's end and a reset. ``gpu_simulate`` begins to count anew. A test that passes without the failure gets a
    warning.
    """
    from . import _walk

    with _walk.for_a_test(request.node, request.config) as fail:
        yield fail


@pytest.fixture
def gpu_oom_each(request: pytest.FixtureRequest) -> int:
    """Run the test once for each of its allocations, with that one failing, and once without a failure.

    A run with a failing allocation passes if the test passes, or ends with that out-of-memory error. Fixtures of
    function scope are fresh in each run. The value is the number of the allocation that fails, 0 for none.
    """
    from ._walk import STEP

    return request.node.stash.get(STEP, 0) if isinstance(request.node, pytest.Item) else 0


# Reports


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which GPUs are simulated or required, if the run chose a mode."""
    if is_plain(config):
        return None
    from ._summary import header

    return header(config)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """List the tests that left GPU memory allocated, and with --gpuconf-report what each test used."""
    if _CORE in sys.modules or config.pluginmanager.has_plugin("dsession"):  # pytest-xdist, whose workers report
        from ._summary import summarize

        summarize(terminalreporter, config)
