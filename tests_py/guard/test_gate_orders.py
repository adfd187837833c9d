"""Every order of what threads and the agent do at the gate, with the code of the threads (c/gate_orders.c)."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest_guard import ROOT, compile_c
from gpuconf.jobs.gate import _MEMBARRIER, _WAIT, _WAKE, Gate
from gpuconf.jobs.generated.gate_layout import GateThread


def orders(folder: Path, *flags: str) -> Path:
    source = Path(__file__).parent / "c" / "gate_orders.c"
    return compile_c(source, folder / "gate_orders", f"-I{ROOT / 'gocore/lease/guard'}", *flags)


# One thread that comes while the gate opens and closes again may have its wish cleared. It says it again in a second.
@pytest.mark.parametrize(
    ("sizes", "states"), [("3 1 1", 75_000), ("2 2 1", 17_000), ("2 2 2 times", 54_000), ("3 1 2 times", 270_000)]
)
def test_no_order_lets_a_call_pass_or_keeps_one_for_ever(tmp_path: Path, sizes: str, states: int) -> None:
    """Sizes are the numbers of threads, of their calls, and of closings; and whether sleeps end by their time."""
    done = subprocess.run([orders(tmp_path), *sizes.split()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > states


@pytest.mark.parametrize(
    ("without", "wrong"), [("NO_BARRIER", "a call passes a closed gate"), ("NO_WAKE", "a thread never passes again")]
)
def test_an_agent_that_leaves_out_a_step_is_seen(tmp_path: Path, without: str, wrong: str) -> None:
    program = orders(tmp_path, f"-D{without}")
    done = subprocess.run([program, "2", "1", "1"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"{wrong}\n")


class Steps(Gate):
    """A gate that notes what is done to its words, in order."""

    def __init__(self, calls: int) -> None:
        steps: list[str] = []
        self.steps, self.calls, self._space = steps, calls, 1

        class Word(ctypes.c_uint32):
            name = ""

            @property
            def value(self) -> int:
                steps.append(f"read {self.name}")
                return 0

            @value.setter
            def value(self, value: int) -> None:
                steps.append(f"{self.name} = {value}")

        class Kernel:
            def syscall(self, number: int, *words: object) -> int:
                if number == _MEMBARRIER:
                    steps.append("membarrier")
                else:
                    kind = {_WAIT: "wait", _WAKE: "wake"}[words[1]]  # type: ignore[index]
                    steps.append(f"{kind} {words[0]._obj.name}")  # type: ignore[attr-defined]
                return 0

        self._closed, self._wanted = closed, wanted = Word(), Word()
        closed.name, wanted.name = "closed", "wanted"
        self._libc = Kernel()  # type: ignore[assignment]

    def _words(self) -> Iterator[tuple[int, GateThread]]:
        self.steps.append("look")
        yield 0, GateThread(calls=self.calls, made=0, start=0, space=0, pid=1)


def test_the_agent_does_the_steps_that_the_orders_have() -> None:
    quiet = Steps(0)
    assert quiet.close(1)
    assert quiet.steps == ["wanted = 0", "closed = 1", "membarrier", "look"]
    quiet.steps.clear()
    quiet.sleep(0.5)
    quiet.open()
    assert quiet.steps == ["wait wanted", "closed = 0", "wake closed"]
    busy = Steps(1)
    assert not busy.close(0)
    assert busy.steps == ["wanted = 0", "closed = 1", "membarrier", "look", "closed = 0", "wake closed"]
