"""``gpu_process``: tests in processes of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = """
import signal
@pytest.fixture(scope="module")
def wide():
    yield os.getpid()
    if KEPT == ["ended"]: raise RuntimeError("wide")
def test_here(wide): KEPT.append(os.getpid()); assert len(gpuconf.visible_devices()) == 1
@pytest.mark.gpu_process
def test_alone(gpu, wide):
    assert KEPT == [] and wide == os.getpid()
    memory.allocate(MIB).free()
    print("heard")
@pytest.mark.gpu_process("2xA100")
@pytest.mark.gpu(n=2)
def test_machine(gpus): assert [d.name for d in gpuconf.visible_devices()] == ["NVIDIA A100-SXM4-40GB"] * 2
@pytest.mark.gpu_process(machine="L4")
def test_machine_of_the_fixture(gpu_simulate): gpu_simulate("L4")
@pytest.mark.gpu_process
def test_fails(): assert KEPT == ["something"]
@pytest.mark.gpu_process
@pytest.mark.gpu(n=3)
def test_skips(gpus): pass
@pytest.mark.gpu_process
@pytest.mark.gpu_leak
def test_leaks(gpu): KEPT.append(memory.allocate(MIB))
@pytest.mark.gpu_process
@pytest.mark.parametrize("text", ["a/b::c", "[x]"])
def test_names(text): assert text in ("a/b::c", "[x]")
@pytest.mark.gpu_process
def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
@pytest.mark.gpu_process
def test_ends(): print("before the end", flush=True); os._exit(7)
@pytest.mark.gpu_process("T5")
def test_unknown(): pass
@pytest.mark.gpu_process(2)
def test_wrong(): pass
class TestIt:
    @pytest.mark.gpu_process
    def test_method(self, gpu_oom_each): memory.allocate(MIB).free()
def test_here_again(wide): assert KEPT == [os.getpid()] and wide == os.getpid()
"""
WRONG = {
    "test_fails": "failed",
    "test_skips": "skipped",
    "test_leaks": "error",
    "test_dies": "failed",
    "test_ends": "failed",
    "test_unknown": "error",
    "test_wrong": "error",
}


def test_each_has_a_process(suite: Callable[..., Any]) -> None:
    ran = suite(ALL, "--gpuconf-simulate=T4", "-k", "not_known or test")
    assert {name: came for name, came in ran.outcomes.items() if came != "passed"} == WRONG, ran.out + ran.err
    assert len(ran.outcomes) == 15
    assert "the process of this test ended with signal 9 before the test was over" in ran.texts["test_dies"]
    assert "ended with exit status 7" in ran.texts["test_ends"]
    text = ran.texts["test_unknown"].rstrip().partition("\n")[2]
    assert text.startswith("gpu_process('T5'): cannot simulate \"T5\": unknown GPU model")
    assert "\n" not in text, "the process's own words are left out"
    assert "gpu_process takes a machine to simulate such as '2xT4', or nothing; got 2" in ran.texts["test_wrong"]
    assert "assert [] == ['something']" in ran.texts["test_fails"]
    assert ran.properties["test_leaks"]["gpuconf.leaked_bytes"] == str(1 << 20)


def test_a_machine_beside_those_of_the_run(suite: Callable[..., Any]) -> None:
    """Also without a GPU, and by a worker of pytest-xdist."""
    source = """
@pytest.mark.gpu_process("2xT4")
def test_two(gpus): assert len(gpus) == 2
def test_none(gpu): pass
"""
    assert suite(source, ini="gpuconf = auto").outcomes == {"test_two": "passed", "test_none": "skipped"}
    assert suite(source, "--gpuconf=off").outcomes == {"test_two": "skipped", "test_none": "skipped"}
    ran = suite(source, "-p", "xdist", "-n2", "--gpuconf-simulate=2xL4")
    assert ran.outcomes == {"test_two": "passed", "test_none": "passed"}, ran.out


def test_fixtures_of_wider_scope_end_before_the_next_module(
    pytester: pytest.Pytester, suite: Callable[..., Any]
) -> None:
    pytester.makepyfile(
        test_z="""
import test_suite
def test_later(): assert test_suite.KEPT == ["set up", "torn down"]
"""
    )
    ran = suite(
        """
@pytest.fixture(scope="module", autouse=True)
def wide():
    KEPT.append("set up")
    yield
    KEPT.append("torn down")
def test_first(gpu): pass
@pytest.mark.gpu_process
def test_alone(gpu): assert KEPT == ["set up"]
""",
        "--gpuconf-simulate=T4",
    )
    assert set(ran.outcomes.values()) == {"passed"}, ran.out
    assert len(ran.outcomes) == 3
