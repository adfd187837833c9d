"""The pytest plugin: GPU tests with real and simulated GPUs.

Marks ``gpu``, ``gpu_exclusive`` and ``gpu_leak``; fixtures ``gpu``, ``gpus``, ``gpu_sim``, ``gpu_memory``, ``gpu_oom_after`` and
``gpu_oom_each``; options ``--gpuconf...``. ``docs/pytest.md`` describes them. pytest loads the plugin by its entry point;
``-p no:gpuconf`` leaves it out.

Every suite in an environment that has gpuconf loads this file, so it imports next to nothing, and its hooks ask first whether a
test or the process uses a GPU at all.
"""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

from .._typing import Any
from ._fixtures import gpu, gpu_memory, gpu_oom_after, gpu_oom_each, gpu_sim, gpus

__all__ = [
    "gpu",
    "gpu_memory",
    "gpu_oom_after",
    "gpu_oom_each",
    "gpu_sim",
    "gpus",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_fixture_post_finalizer",
    "pytest_fixture_setup",
    "pytest_make_collect_report",
    "pytest_report_header",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "pytest_terminal_summary",
    "pytest_testnodedown",
    "pytest_unconfigure",
    "pytest_xdist_auto_num_workers",
]

_CORE = "gpuconf._core._gpuconf"  # loaded by the first call that needs it
_LIBRARIES = frozenset(("cupy", "numba.cuda.cudadrv.driver", "torch"))
_MARKS = frozenset(("gpu", "gpu_exclusive", "gpu_leak"))
_FIXTURES = frozenset(("gpu", "gpus", "gpu_sim", "gpu_memory", "gpu_oom_after", "gpu_oom_each"))


def __dir__() -> list[str]:
    return __all__


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the keys of the configuration file."""
    from ._settings import add_options

    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, simulate GPUs, and take this worker's share."""
    from ._settings import MARKS, settings

    for line in MARKS:
        config.addinivalue_line("markers", line)

    if settings(config).mode == "off":
        return
    given: Any = getattr(config, "workerinput", None)
    if given is None and settings(config).mode == "sim":
        from ._workers import simulate_if_chosen

        simulate_if_chosen(config)
    if given is not None and given.get("gpuconf"):
        from ._workers import take_share

        take_share(config, given["gpuconf"])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the environment, and remove the files of this run's locks."""
    if not hasattr(config, "workerinput") and "gpuconf.pytest_plugin._workers" in sys.modules:
        from ._workers import stop_simulating

        stop_simulating(config)
    session: Any = config.pluginmanager.get_plugin("dsession")
    run = getattr(getattr(session, "nodemanager", None), "testrunuid", None)
    if run:
        from ._exclusive import remove

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
    from ._workers import cards_of

    if not getattr(node.gateway.spec, "popen", False):
        return  # on another machine
    cards = cards_of(node.config)
    if cards is not None:
        workers = node.workerinput["workercount"]
        cards.refuse_too_many(workers)
        node.workerinput["gpuconf"] = cards.place(node.gateway.id, workers)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Free the place of a worker that is gone."""
    from ._workers import worker_left

    worker_left(node.config, node.gateway.id)


# Collection


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a module that uses CUDA while it is imported, if the option is set."""
    if not isinstance(collector, pytest.Module):
        return (yield)
    from ._settings import settings

    if not settings(collector.config).fail_on_cuda_at_collection:
        return (yield)
    from ._collection import users_of_cuda

    before = users_of_cuda()
    report = yield
    users = [name for name in users_of_cuda() if name not in before]
    if users and report.passed:
        report.outcome = "failed"
        report.longrepr = (
            f"{collector.nodeid} used CUDA while it was imported ({', '.join(users)}), "
            "before tests and workers have their GPU: move that into a fixture or a test"
        )
        report.result = []
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Register the walk if a test uses its fixture."""
    if any("gpu_oom_each" in getattr(item, "fixturenames", ()) for item in items):
        from . import _walk

        if not config.pluginmanager.has_plugin(_walk.NAME):
            config.pluginmanager.register(_walk.Walker(), _walk.NAME)


# Tests


def _concerned(item: pytest.Item) -> bool:
    """Whether a test has one of the marks or fixtures."""
    if not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        return True
    return any(mark.name in _MARKS for mark in item.iter_markers())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check that the test's GPUs are there, before its fixtures are set up."""
    if _CORE in sys.modules or _concerned(item):
        from ._tests import begin

        begin(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Release the GPU's lock after all fixtures are torn down."""
    try:
        return (yield)
    finally:
        if _CORE in sys.modules:
            from ._tests import release

            release(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let go of the memory that a failed test's traceback holds, and report what the test left allocated."""
    report = yield
    if _CORE in sys.modules or (call.excinfo is not None and not _LIBRARIES.isdisjoint(sys.modules)):
        from ._tests import reported

        reported(item, call, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
    """Note what a fixture that outlives the test allocates."""
    if fixturedef.scope == "function":
        return (yield)
    before = None
    if _CORE in sys.modules:
        from ._leaks import watch_of

        before = watch_of(request.config).fixture_begins()
    try:
        return (yield)
    finally:
        if _CORE in sys.modules:
            from ._leaks import watch_of

            watch_of(request.config).fixture_is_set_up(id(fixturedef), before)


def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Forget what a fixture allocated."""
    if fixturedef.scope != "function" and _CORE in sys.modules:
        from ._leaks import watch_of

        watch_of(request.config).fixture_is_torn_down(id(fixturedef))


# Reports


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which GPUs are simulated or required, if the run chose a mode."""
    from ._summary import header

    return header(config)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """List the tests that left GPU memory allocated, and with --gpuconf-report what each test used."""
    from ._summary import summarize

    summarize(terminalreporter, config)
