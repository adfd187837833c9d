"""The simulated driver reads kernel images that are cut short, or state sizes that they do not have, without reading
past them.
"""

from pathlib import Path

import pytest
import script
import simulator_sources

FUZZ = Path(__file__).parent / "c" / "image_fuzz.c"


def compiled(folder: Path, broken: str = "", text: str = "") -> Path:
    """The test and the driver in one program, under AddressSanitizer where the compiler has it: the guard page is there
    without.
    """
    sanitizers = ["-fsanitize=address,undefined"]
    flags = sanitizers if simulator_sources.compiles(folder, sanitizers) else []
    return simulator_sources.program(folder / "fuzz", FUZZ, flags, broken, text)


def fuzz(program: Path, seed: int, count: int) -> tuple[int, str]:
    # Modules that were unloaded are kept on purpose.
    environ = script.plain() | {
        "ASAN_OPTIONS": "detect_leaks=0:exitcode=66",
        "UBSAN_OPTIONS": "halt_on_error=1:exitcode=66",
    }
    command = [program, str(seed), str(count)]
    done = script.completed(command, env=environ, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_damaged_images_are_loaded_or_refused(tmp_path: Path) -> None:
    assert fuzz(compiled(tmp_path), 1, 6000) == (0, "done\n")


@pytest.mark.parametrize(
    "bound", ["!holds(left, names.sh_offset, names.sh_size)", "!holds(left, head.header, head.bytes)"]
)
def test_a_missing_bound_is_found(bound: str, tmp_path: Path) -> None:
    """The same test over a reader without one of its bounds: it must see the read."""
    text = (simulator_sources.ROOT / "gocore/sim/cuda/images.c").read_text()
    assert text.count(bound) == 1
    code, text = fuzz(compiled(tmp_path, "images.c", text.replace(bound, "0")), 1, 6000)
    assert code != 0, text
