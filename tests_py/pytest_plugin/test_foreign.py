"""Marks, fixtures and parameters of other suites that are named as ours: they are theirs until the suite opts in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

THEIRS = """
@pytest.mark.gpu
def test_bare(): pass
@pytest.mark.gpu(2)
def test_count(): pass
@pytest.mark.gpu(min_memory_gib=8)
def test_keyword(): pass
@pytest.mark.gpu(n="all", free=True, cc=9.0)
def test_other_meanings(): pass
@pytest.mark.gpu_exclusive(group="nccl")
@pytest.mark.gpu_leak("model")
def test_other_marks(): pass
@pytest.fixture
def gpu_memory(): return 8
def test_fixture_of_the_module(gpu_memory): assert gpu_memory == 8
@pytest.mark.parametrize("gpu", [0, 1])
def test_parameter(gpu): assert gpu in (0, 1)
@pytest.mark.parametrize("gpu_simulate", ["a"], indirect=True)
@pytest.mark.gpu(1)
def test_fixture_of_the_conftest(gpu_simulate, gpus): assert (gpu_simulate, gpus) == ("a", "theirs")
def test_nothing_was_loaded():
    ours = {name for name in sys.modules if name.startswith("gpuconf.pytest_plugin.")}
    assert ours == {"gpuconf.pytest_plugin._options", "gpuconf.pytest_plugin._ours"}
"""
THEIR_CONFTEST = """
import pytest
@pytest.fixture
def gpu_simulate(request): return request.param
@pytest.fixture(scope="session")
def gpus(): return "theirs"
def pytest_addoption(parser):
    parser.addoption("--gpu", default="cuda:0")
    parser.addoption("--gpus", type=int)
"""
PLAIN_HEADER = "import os, sys, unittest\nimport pytest\n"


@pytest.mark.parametrize("registered", [True, False])
def test_a_suite_that_does_not_opt_in_keeps_its_own(suite: Callable[..., Any], registered: bool) -> None:
    ini = (
        "markers =\n    gpu: needs any vendor's\n    gpu_exclusive(group): alone\n    gpu_leak(what): leaks\n"
        if registered
        else ""
    )
    options = () if registered else ("-o", "addopts=")
    ran = suite(THEIRS, *options, "--gpu=cuda:1", ini=ini, conftest=THEIR_CONFTEST, header=PLAIN_HEADER)
    assert set(ran.outcomes.values()) == {"passed"}, ran.out
    assert ran.code == 0
    assert len(ran.outcomes) == 10
    assert ("PytestUnknownMarkWarning: Unknown pytest.mark.gpu " in ran.out) == (not registered)


def test_strict_markers_refuse_marks_that_nobody_has_registered(suite: Callable[..., Any]) -> None:
    source = "@pytest.mark.gpu\ndef test_it(): pass\n"
    ran = suite(source, header=PLAIN_HEADER)
    assert ran.code == pytest.ExitCode.INTERRUPTED
    assert "'gpu' not found in `markers` configuration option" in ran.out
    assert suite(source, ini="gpuconf = auto", header=PLAIN_HEADER).outcomes == {"test_it": "skipped"}


OURS = """
@pytest.mark.gpu(n=2)
def test_two(gpus): assert len(gpus) == 2
@pytest.mark.gpu(n=99)
def test_many(gpus): pass
@pytest.mark.gpu(99)
def test_wrong(gpu): pass
@pytest.mark.gpu(n=99)
def test_many_late(request): request.getfixturevalue("gpus")
@pytest.mark.gpu(99)
def test_wrong_late(request): request.getfixturevalue("gpu")
@pytest.mark.gpu(99)
def test_theirs(): pass
@pytest.fixture
def gpu(gpu): return gpu.name
@pytest.mark.gpu(n=2)
def test_extended(gpu): assert gpu == "/device:GPU:0"
"""


def test_a_test_with_one_of_our_fixtures_opts_in(suite: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCONF_SIMULATE", "2xT4")
    ran = suite(OURS, "-o", "addopts=")
    wrong = {"test_wrong": "error", "test_wrong_late": "failed", "test_many": "skipped", "test_many_late": "skipped"}
    assert {name: came for name, came in ran.outcomes.items() if came != "passed"} == wrong, ran.out
    assert len(ran.outcomes) == 7
    for name in ("test_wrong", "test_wrong_late"):
        assert ran.texts[name].splitlines()[1:] == ["gpu takes keywords only: n, free, cc; got 99"]
    assert "gpuconf: needs 99 GPUs, and 2 of 2 visible GPUs can serve it" in ran.texts["test_many_late"]


@pytest.mark.parametrize("order", [("other", "gpuconf.pytest_plugin"), ("gpuconf.pytest_plugin", "other")])
def test_a_fixture_of_another_plugin_takes_precedence(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, order: tuple[str, str]
) -> None:
    """Whichever of the two is loaded first."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(other="import pytest\n@pytest.fixture\ndef gpu(): return 'theirs'\n")
    pytester.makepyfile(test_it="import pytest\n@pytest.mark.gpu(5)\ndef test_it(gpu): assert gpu == 'theirs'\n")
    pytester.runpytest_subprocess("-p", order[0], "-p", order[1]).assert_outcomes(passed=1, warnings=1)


LATE = """
import pytest
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if "marked" in item.name:
            item.add_marker(pytest.mark.gpu)
        if "fixture" in item.name:
            item.fixturenames.append("gpu")
"""


def test_marks_and_fixtures_that_a_hook_adds_count(suite: Callable[..., Any]) -> None:
    """A conftest added the mark after this plugin had looked, and the test ran without a GPU."""
    source = "def test_marked(): pass\ndef test_plain(): pass\n"
    assert suite(source, ini="gpuconf = auto", conftest=LATE).outcomes == {
        "test_marked": "skipped",
        "test_plain": "passed",
    }
    assert suite("def test_fixture(): pass\n", conftest=LATE).outcomes == {"test_fixture": "skipped"}


WIDE = """
MADE = []
@pytest.fixture(scope="session")
def model():
    MADE.append(1)
    buffer = memory.allocate(MIB)
    yield buffer
    buffer.free()
def test_predict(gpu, model): pass
def test_many(model, gpus): pass
def test_nothing_was_made(): assert not MADE
"""


def test_a_test_without_a_gpu_is_skipped_before_its_fixtures_are_set_up(suite: Callable[..., Any]) -> None:
    ran = suite(WIDE)
    assert ran.outcomes == {"test_predict": "skipped", "test_many": "skipped", "test_nothing_was_made": "passed"}, (
        ran.out
    )
    assert "gpuconf: no GPU found; --gpuconf=simulate simulates one" in ran.texts["test_predict"]


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.fixture(scope='session', autouse=True)\ndef machine():\n    with gpuconf.simulate('T4'): yield\n",
        "def helper(): return gpuconf.simulate('T4')\n@pytest.fixture(autouse=True)\ndef machine():\n    with "
        "helper(): yield\n",
        "def setup_module(): gpuconf.simulate('T4')\ndef teardown_module(): gpuconf.simulate(None)\n",
    ],
)
def test_a_fixture_may_simulate_the_gpu(suite: Callable[..., Any], source: str) -> None:
    assert suite(source + "def test_it(gpu): assert gpu\n").outcomes == {"test_it": "passed"}


def test_an_unmarked_failing_test_of_another_suite_keeps_its_frames(suite: Callable[..., Any]) -> None:
    """Clearing the frames of failed tests is for suites that opt in."""
    source = """
import weakref
class Thing: pass
FOUND = []
sys.modules.setdefault("cupy", type(sys)("cupy"))
def test_fails():
    thing = Thing()
    FOUND.append(weakref.ref(thing))
    assert not thing
def test_still_there(): assert FOUND[0]() is not None
"""
    assert suite(source, header=PLAIN_HEADER).outcomes == {"test_fails": "failed", "test_still_there": "passed"}
