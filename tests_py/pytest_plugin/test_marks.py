"""Marks, options and keys: which tests run, and what a mistake says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

MIXED = """
@pytest.mark.gpu
def test_marked(): pass
@pytest.mark.gpu(n=2, cc=">=8.0")
class TestClass:
    def test_inherits(self): pass
@pytest.mark.gpu_exclusive
def test_exclusive(): pass
def test_fixture(gpu): pass
def test_fixtures(gpus): pass
def test_plain(): pass
"""
GPU_TESTS = ("test_marked", "test_inherits", "test_exclusive", "test_fixture", "test_fixtures")


def test_without_a_gpu_they_are_skipped_with_the_reason(suite: Callable[..., Any]) -> None:
    ran = suite(MIXED, "-rs", "--gpuconf=auto")
    assert ran.code == 0
    assert ran.outcomes == {**dict.fromkeys(GPU_TESTS, "skipped"), "test_plain": "passed"}
    assert "test_suite.py:8: gpuconf: no GPU found; --gpuconf=simulate simulates one" in ran.out


def test_required_fails_each_and_goes_on(suite: Callable[..., Any]) -> None:
    ran = suite(MIXED, "--gpuconf=required")
    assert ran.code == 1
    assert ran.outcomes == {**dict.fromkeys(GPU_TESTS, "error"), "test_plain": "passed"}
    assert "no GPU found, and --gpuconf=required" in ran.texts["test_fixture"]
    assert "gpuconf: GPUs are required" in ran.out


def test_off(suite: Callable[..., Any]) -> None:
    ran = suite(MIXED, ini="gpuconf = off")
    assert ran.code == 0
    assert ran.outcomes == {**dict.fromkeys(GPU_TESTS, "skipped"), "test_plain": "passed"}


def test_simulated(suite: Callable[..., Any]) -> None:
    ran = suite(MIXED, ini="gpuconf_simulate = 2xT4")
    assert ran.outcomes == {**dict.fromkeys(GPU_TESTS, "passed"), "test_plain": "passed", "test_inherits": "skipped"}
    assert (
        "needs 2 GPUs with compute capability >=8.0, and none of 2 visible GPUs can serve it"
        in ran.texts["test_inherits"]
    )
    assert "gpuconf: simulated GPUs: 2xT4" in ran.out


def test_the_users_own_simulation_counts_as_gpus(suite: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCONF_SIMULATE", "2xH100-80GB")
    assert set(suite(MIXED, "--gpuconf=auto").outcomes.values()) == {"passed"}
    assert set(suite(MIXED, "--gpuconf=required").outcomes.values()) == {"passed"}


def test_what_a_mark_asks_for(suite: Callable[..., Any]) -> None:
    ran = suite(
        """
        @pytest.mark.parametrize("got", [
            pytest.param(1, marks=pytest.mark.gpu(n=1), id="one"),
            pytest.param(1, marks=pytest.mark.gpu(n=2, cc=">=7.5"), id="two"),
            pytest.param(1, marks=pytest.mark.gpu(n=3), id="three"),
            pytest.param(1, marks=pytest.mark.gpu(cc=">=9.0"), id="new"),
            pytest.param(1, marks=pytest.mark.gpu(cc="<8.0"), id="old"),
            pytest.param(1, marks=pytest.mark.gpu(cc=">=7.5,<8.0"), id="between"),
            pytest.param(1, marks=pytest.mark.gpu(cc="10.0"), id="at least"),
            pytest.param(1, marks=pytest.mark.gpu(n=2, cc="7"), id="major"),
            pytest.param(1, marks=pytest.mark.gpu(cc=">=8,<9"), id="none between"),
            pytest.param(1, marks=pytest.mark.gpu(cc="==7,<=7"), id="this major"),
            pytest.param(1, marks=pytest.mark.gpu(cc=">8", n=2), id="not both"),
            pytest.param(1, marks=pytest.mark.gpu(cc=(9, 0)), id="tuple"),
            pytest.param(1, marks=pytest.mark.gpu(cc=9), id="number"),
            pytest.param(1, marks=pytest.mark.gpu(free="20GiB"), id="large"),
            pytest.param(1, marks=pytest.mark.gpu(n=2, free="20GiB"), id="two large"),
            pytest.param(1, marks=pytest.mark.gpu(n=2, free=1 << 30), id="bytes"),
        ])
        def test_it(got, gpu, gpus):
            assert gpu == gpus[0]
        @pytest.mark.gpu(cc="<9.0")
        def test_which(gpu): assert gpu.name == "/device:GPU:1"  # CUDA lists the fastest first
        def test_all(gpus): assert [d.name for d in gpus] == ["/device:GPU:0", "/device:GPU:1"]
        @pytest.mark.gpu(n=3)
        class TestNearest:
            @pytest.mark.gpu(n=1)
            def test_closest_mark_counts(self, gpu): pass
        """.replace("\n        ", "\n"),
        "--gpuconf-simulate=T4,H100-80GB",
    )
    passed = {"one", "two", "new", "old", "between", "large", "bytes", "major", "this major", "tuple", "number"}
    assert {name[8:-1] for name, came in ran.outcomes.items() if came == "passed" and "[" in name} == passed
    assert {ran.outcomes[name] for name in ("test_which", "test_all", "test_closest_mark_counts")} == {"passed"}
    assert (
        "needs 2 GPUs with 20.00GiB (21474836480 bytes) free, and 1 of 2 visible GPUs can serve it"
        in ran.texts["test_it[two large]"]
    )
    assert (
        "needs a GPU with compute capability >=8 and compute capability <9, and none"
        in ran.texts["test_it[none between]"]
    )


def test_a_mistake_in_a_mark_is_one_line_and_that_tests_error(suite: Callable[..., Any]) -> None:
    marks = {
        'gpu(n="x")': "gpu(n=...) must be a number of GPUs, at least 1, but got 'x'",
        "gpu(n=0)": "gpu(n=...) must be a number of GPUs, at least 1, but got 0",
        "gpu(n=True)": "gpu(n=...) must be a number of GPUs, at least 1, but got True",
        "gpu(2)": "gpu takes keywords only: n, free, cc; got 2",
        "gpu(count=2)": "gpu has no 'count': use n, free, cc",
        'gpu(free="much")': "gpu(free=...) 'much' is not a size: write bytes, '500MB', '6GiB'",
        "gpu(free=-1)": "gpu(free=...) must be a size of at least 0, but got -1",
        "gpu(free=1.5)": "gpu(free=...) must be a number of bytes or text such as '6GiB', but got float: 1.5",
        "gpu(cc=8.0)": "gpu(cc=...) must be text such as '>=8.0', '9' or '>=7.5,<9.0', but got 8.0",
        'gpu(cc="new")': "gpu(cc=...) must be text such as '>=8.0', '9' or '>=7.5,<9.0', but got 'new'",
        'gpu(cc="9,0")': "gpu(cc=...) must be text such as '>=8.0', '9' or '>=7.5,<9.0', but got '9,0'",
        "gpu_exclusive(1)": "gpu_exclusive takes no arguments; got 1",
        "gpu_exclusive(now=1)": "gpu_exclusive has no 'now' and takes nothing",
        'gpu_leak(allow="x")': "gpu_leak(allow=...) 'x' is not a size: write bytes, '500MB', '6GiB'",
        "gpu_leak(allowed=5)": "gpu_leak has no 'allowed': use allow, warmup",
    }
    source = "".join(f"@pytest.mark.{mark}\ndef test_{n}(): pass\n" for n, mark in enumerate(marks))
    ran = suite(source + "def test_last(): pass\n", "--gpuconf-simulate=T4")
    assert ran.code == 1
    assert ran.outcomes == {**{f"test_{n}": "error" for n in range(len(marks))}, "test_last": "passed"}
    for n, text in enumerate(marks.values()):
        assert ran.texts[f"test_{n}"].splitlines()[1:] == [text]


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (
            "--gpuconf=maybe",
            "--gpuconf must be one of auto, simulate, required, off, but got 'maybe'; --gpuconf-simulate=2xT4 "
            "simulates GPUs",
        ),
        ("--gpuconf-simulate=Voodoo2", '--gpuconf-simulate: cannot simulate "Voodoo2": unknown GPU model'),
        (
            "--gpuconf-simulate=T4 --gpuconf=required",
            "--gpuconf-simulate simulates GPUs and cannot be used with --gpuconf=required",
        ),
        ("--gpuconf-memory=x", "--gpuconf-memory 'x' must be a size of at least 1 MiB, such as '6GiB', or a fraction"),
        ("--gpuconf-memory=1000", "--gpuconf-memory '1000' must be a size of at least 1 MiB"),
        ("--gpuconf-memory=1.5", "--gpuconf-memory '1.5' must be more than 0 and at most all of a GPU's memory"),
        ("--gpuconf-memory=200%", "--gpuconf-memory '200%' must be more than 0"),
        ("--gpuconf-memory=nan", "--gpuconf-memory 'nan' must be a size"),
        ("-o gpuconf=perhaps", "the key gpuconf must be one of auto, simulate, required, off, but got 'perhaps'"),
        ("-o gpuconf_report=perhaps", "gpuconf_report: invalid truth value 'perhaps'"),
        ("-o gpuconf_fail_on_cuda_at_collection=2", "gpuconf_fail_on_cuda_at_collection: invalid truth value '2'"),
    ],
)
def test_a_mistake_in_an_option_is_a_usage_error(
    pytester: pytest.Pytester, option: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    done = pytester.runpytest_inprocess("-p", "gpuconf.pytest_plugin", *option.split())
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in done.stderr.lines if line]
    assert len(lines) == 1
    assert text in lines[0]


def test_marks_that_the_suite_registers_keep_their_meaning(suite: Callable[..., Any]) -> None:
    """Its GPUs may be another vendor's.

    Once the run has opted in, they count here, and their arguments are still no errors.
    """
    source = """
@pytest.mark.gpu
def test_theirs(): pass
@pytest.mark.gpu("rocm", count=2)
def test_their_arguments(): pass
@pytest.mark.gpu(n=1)
def test_ours(): pass
"""
    ini = "markers = gpu(vendor): needs any GPU"
    ran = suite(source, ini=ini)
    assert ran.outcomes == {"test_theirs": "passed", "test_their_arguments": "passed", "test_ours": "passed"}
    assert set(suite(source, "--gpuconf=auto", ini=ini).outcomes.values()) == {"skipped"}
    listed = suite(source, "--markers", ini=ini).out
    assert "@pytest.mark.gpu(vendor): needs any GPU" in listed
    assert "@pytest.mark.gpu(n=1, free=None, cc=None): needs n GPUs" in listed
    assert "@pytest.mark.gpu_exclusive:" in listed
    assert "@pytest.mark.gpu_leak(allow=0, warmup=0):" in listed


def test_modules_that_use_cuda_while_they_are_imported(suite: Callable[..., Any]) -> None:
    source = "gpuconf.config.list_logical_devices()\ndef test_it(): pass\n"
    assert suite(source, "--gpuconf-simulate=T4").code == 0
    ran = suite(source, "--gpuconf-simulate=T4", "--gpuconf-fail-on-cuda-at-collection")
    assert ran.code == pytest.ExitCode.INTERRUPTED
    assert "test_suite.py used CUDA while it was imported (gpuconf), before tests and workers have their GPU" in ran.out
    assert (
        suite("def test_it(gpu): pass\n", "--gpuconf-simulate=T4", ini="gpuconf_fail_on_cuda_at_collection = true").code
        == 0
    )
