"""The simulated driver under ThreadSanitizer: threads that use it at random have no data race, and read what they have
written.

Go's race detector sees nothing in C, so this covers for the simulator what `make race` covers for the Go core.
"""

import shutil
from pathlib import Path

import pytest
import script
import simulator_sources

STRESS = Path(__file__).parent / "c" / "simulator_stress.c"
CLOSING = Path(__file__).parent / "c" / "simulator_closing.c"
COUNTING = Path(__file__).parent / "c" / "simulator_counting.c"
SANITIZER = ["-fsanitize=thread"]


def compiled(folder: Path, broken: str = "", text: str = "", main: Path = STRESS, more: tuple[Path, ...] = ()) -> Path:
    if not simulator_sources.compiles(folder, SANITIZER):
        pytest.skip("the C compiler has no ThreadSanitizer")
    return simulator_sources.program(folder / main.stem, main, SANITIZER, broken, text, more)


def run(program: Path, *arguments: str) -> tuple[int, str]:
    """Without address space randomization, of which this sanitizer's runtime bears less than some kernels have."""
    fixed = [shutil.which("setarch") or "", "-R"] if shutil.which("setarch") else []
    environ = script.plain() | {"FAKECUDA_GPUS": "2", "TSAN_OPTIONS": "halt_on_error=1 exitcode=66"}
    done = script.completed([*fixed, program, *arguments], env=environ, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_no_data_race(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    for seed in "12":
        assert run(program, seed, "2", "4") == (0, "done\n")


def test_a_question_while_a_machine_is_closed(tmp_path: Path) -> None:
    """As of a monitor's thread beside a reset. The machine was once freed while it answered."""
    assert run(compiled(tmp_path, main=CLOSING), "2", "2") == (0, "done\n")


def test_first_launches_in_two_threads(tmp_path: Path) -> None:
    """A launch was once counted under the name of another thread's first one."""
    counts = simulator_sources.ROOT / "gocore/sim/runtime/unmarked.c"
    assert run(compiled(tmp_path, main=COUNTING, more=(counts,))) == (0, "2000 names\n")


def test_a_race_is_found(tmp_path: Path) -> None:
    """The same test over a driver that counts calls with plain additions. These are numbers: they race, and no more."""
    hooks = simulator_sources.ROOT / "tests_go/machine/fakecuda/libcuda/hooks.c"
    text = hooks.read_text().replace("../../../../gocore/sim/cuda/", "")
    atomic = "__atomic_add_fetch(&counts[at].count, 1, __ATOMIC_RELAXED)"
    assert text.count(atomic) == 1
    program = compiled(tmp_path, "hooks.c", text.replace(atomic, "counts[at].count++"))
    code, text = run(program, "1", "2", "4")
    assert code == 66, text
    assert "ThreadSanitizer: data race" in text
