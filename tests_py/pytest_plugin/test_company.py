"""Suites that use none of it, and suites that use other plugins as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = """
def test_it(): pass
def test_fails():
    assert not [1]
@pytest.fixture(scope="session")
def wide(): return 5
def test_fixture(wide, tmp_path): assert wide
class TestCase(unittest.TestCase):
    def test_case(self): pass
"""
LOADED = """
import sys
def pytest_unconfigure(config):
    found = [n for n in sys.modules if n.startswith(("gpuconf", "numpy", "ctypes", "json", "subprocess"))]
    print("LOADED",
          *sorted(n for n in found if n in ("numpy", "gpuconf.memory", "gpuconf.config", "gpuconf._core._gpuconf")))
    print("OURS", *sorted(n for n in found if n.startswith("gpuconf.pytest_plugin")))
"""


def test_a_suite_that_uses_none_of_it_loads_nothing(suite: Callable[..., Any]) -> None:
    ran = suite(PLAIN, conftest=LOADED, header="import pytest, unittest")
    assert ran.code == 1
    ours = {
        name.removeprefix("gpuconf.pytest_plugin")
        for name in ran.out[ran.out.index("OURS") :].splitlines()[0].split()[1:]
    }
    assert ours == {"", "._options", "._ours"}
    assert "LOADED\n" in ran.out


GPU = """
def test_gpu(gpu):
    memory.allocate(MIB).free()
@pytest.mark.gpu_leak
def test_leak(gpu): KEPT.append(memory.allocate(MIB))
def test_full_1(gpu):
    held = memory.allocate(memory.stats().bytes_limit * 9 // 10)
    assert not held
def test_full_2(gpu):
    held = memory.allocate(memory.stats().bytes_limit * 9 // 10)
    assert not held
"""
CAME = {"test_gpu": "passed", "test_leak": "error", "test_full_1": "failed", "test_full_2": "failed"}


def test_without_builtin_plugins(suite: Callable[..., Any]) -> None:
    without = (
        "cacheprovider",
        "logging",
        "unittest",
        "faulthandler",
        "capture",
        "unraisableexception",
        "threadexception",
    )
    ran = suite(GPU, *(word for name in without for word in ("-p", f"no:{name}")), "--gpuconf-simulate=T4")
    assert ran.outcomes == CAME
    assert "assert not <gpuconf.Buffer" in ran.texts["test_full_2"]


def test_without_a_terminal(suite: Callable[..., Any]) -> None:
    assert suite(GPU, "-p", "no:terminal", "--gpuconf-simulate=T4").outcomes == CAME


def test_without_this_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass\ndef test_gpu(gpu): pass")
    done = pytester.runpytest_subprocess("-p", "no:gpuconf", "-p", "no:randomly", "-p", "no:asyncio")
    done.assert_outcomes(passed=1, errors=1)
    done.stdout.fnmatch_lines("*fixture 'gpu' not found*")


ALL = """
import asyncio, time
def test_first_half(gpu): memory.allocate(MIB).free()
@pytest.mark.gpu_leak
def test_leak(gpu): KEPT.append(memory.allocate(MIB))
@pytest.mark.asyncio
async def test_asyncio(gpu):
    with memory.allocate(MIB):
        await asyncio.sleep(0.01)
@pytest.mark.asyncio
@pytest.mark.gpu_leak
async def test_asyncio_leak(gpu_simulate):
    gpu_simulate("T4")
    KEPT.append(memory.allocate(MIB))
@pytest.mark.asyncio
async def test_asyncio_walk(gpu, gpu_oom_each):
    SEEN.append(gpu_oom_each)
    memory.allocate(MIB).free()
SEEN = []
@pytest.mark.asyncio
async def test_asyncio_fails(gpu):
    held = memory.allocate(memory.stats().bytes_limit * 9 // 10)
    await asyncio.sleep(0)
    assert not held
@pytest.mark.anyio
async def test_anyio(gpu):
    await asyncio.sleep(0)
    memory.allocate(memory.stats().bytes_limit * 9 // 10).free()
@pytest.fixture
def anyio_backend(): return "asyncio"
@pytest.mark.timeout(1, method="signal")
def test_timeout(gpu):
    held = memory.allocate(memory.stats().bytes_limit * 9 // 10)
    time.sleep(30)
@pytest.mark.timeout(20, method="thread")
def test_timeout_thread(gpu): memory.allocate(memory.stats().bytes_limit * 9 // 10).free()
class TestCase(unittest.TestCase):
    @pytest.mark.gpu
    @pytest.mark.gpu_leak
    def test_case(self):
        for size in (1, 2):
            with self.subTest(size=size):
                memory.allocate(size * MIB).free()
"""
if pytest.version_tuple >= (9,):  # which has subtests
    ALL += """
def test_subtests(gpu, subtests):
    for size in (1, 2, 3):
        with subtests.test(size=size):
            memory.allocate(size * MIB).free()
            assert size != 2
"""


def test_with_all_the_others(suite: Callable[..., Any]) -> None:
    """pytest-randomly, pytest-timeout, pytest-asyncio, anyio and pytest-xdist, by their entry points, as this
    plugin.
    """
    ran = suite(
        ALL,
        "--gpuconf-simulate=T4",
        "-p",
        "randomly",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
        autoload=True,
    )
    wrong = {
        "test_leak": "error",
        "test_asyncio_leak": "error",
        "test_timeout": "failed",
        "test_asyncio_fails": "failed",
    }
    if "test_subtests" in ALL:
        wrong["test_subtests"] = "failed"
    assert {name: came for name, came in ran.outcomes.items() if came != "passed"} == wrong, ran.out
    assert len(ran.outcomes) == 10 + ("test_subtests" in ALL)
    assert "Using --randomly-seed" in ran.out
    assert "Timeout (>1.0s) from pytest-timeout" in ran.texts["test_timeout"]


def test_a_timeout_by_thread_ends_the_run_and_nothing_hangs(suite: Callable[..., Any]) -> None:
    ran = suite(
        """
import time
@pytest.mark.timeout(1, method="thread")
def test_it(gpu_simulate, gpu_oom_after):
    gpu_simulate("T4")
    gpu_oom_after(5)
    memory.allocate(MIB)
    time.sleep(30)
""",
        "-p",
        "pytest_timeout",
    )
    assert ran.code == 1
    assert "Timeout" in ran.out + ran.err


def test_pdb_still_sees_the_locals(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        "import gpuconf\ndef test_it(gpu):\n    held = gpuconf.memory.allocate(1000)\n    assert not held\n"
    )
    done = pytester.run(
        *pytester._getpytestargs(),
        "-p",
        "gpuconf.pytest_plugin",
        "--gpuconf-simulate=T4",
        "--pdb",
        stdin=b"p held\nq\n",
    )
    assert "(Pdb) <gpuconf.Buffer of 1000 bytes" in done.stdout.str()
