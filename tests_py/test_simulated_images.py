"""The simulated driver reads kernel images that are cut short, or state sizes that they do not have, without reading past them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import simulator_sources

ROOT = Path(__file__).resolve().parent.parent
FUZZ = Path(__file__).with_name("image_fuzz.c")


def compiled(folder: Path, root: Path) -> Path:
    """The test and the driver in one program, under AddressSanitizer where the compiler has it: the guard page is there without."""
    program = folder / "fuzz"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1"]
    sources = [FUZZ, *simulator_sources.sources("cuda", root)]
    command = [*shlex.split(os.environ.get("CC", "cc")), *flags, "-o", program, *sources, "-lpthread", "-ldl"]
    if subprocess.run([*command, "-fsanitize=address,undefined"], capture_output=True, check=False).returncode != 0:
        subprocess.run(command, check=True)
    return program


def fuzz(program: Path, seed: int, count: int) -> tuple[int, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF_", "CUDA_", "FAKECUDA_", "LD_"))}
    # Modules that were unloaded are kept on purpose.
    environ = clean | {"ASAN_OPTIONS": "detect_leaks=0:exitcode=66", "UBSAN_OPTIONS": "halt_on_error=1:exitcode=66"}
    command = [program, str(seed), str(count), program.with_name("image")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_damaged_images_are_loaded_or_refused(tmp_path: Path) -> None:
    program = compiled(tmp_path, ROOT)
    assert fuzz(program, 1, 6000) == (0, "done\n")


@pytest.mark.parametrize("bound", ["!holds(left, names.sh_offset, names.sh_size)", "!holds(left, head.header, head.bytes)"])
def test_a_missing_bound_is_found(bound: str, tmp_path: Path) -> None:
    """The same test over a reader without one of its bounds: it must see the read."""
    for folder in simulator_sources.COPIED:
        shutil.copytree(ROOT / folder, tmp_path / folder)
    broken = tmp_path / "pybind/simulator/cuda/images.c"
    text = broken.read_text()
    assert text.count(bound) == 1
    broken.write_text(text.replace(bound, "0"))
    code, text = fuzz(compiled(tmp_path, tmp_path), 1, 6000)
    assert code != 0, text
