"""Programs that start others: the mode "auto" preloads for them, and a preloaded guard lets every program start."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import script
from conftest_guard import CARDS, MIB, compile_c, environment, job
from gpuconf.jobs import budget as _budget


def chosen(driver: Path, *command: str) -> str:
    with job(driver, MIB, "auto", command=command) as one:
        return one.budget.mode


def test_auto_preloads_for_what_starts_other_programs(driver: Path, client: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    for program in ("sh", "bash", "env", sys.executable, str(path)):
        assert chosen(driver, program) == "preload", program
    for program in (str(client[""]), "sleep", "no-such-program"):
        assert chosen(driver, program) == "proxy", program


def test_a_folder_that_a_script_puts_first_is_covered(driver: Path, client: dict[str, Path], tmp_path: Path) -> None:
    """As `module load` does."""
    shutil.copytree(driver, tmp_path / "other")
    shell = f'LD_LIBRARY_PATH="{tmp_path}/other:$LD_LIBRARY_PATH" exec "$@"'
    command = ("sh", "-c", shell, "sh", str(client[""]), "dlsym", "fill", "linear")
    with job(driver, 512 * MIB, "auto", command=command) as one:
        assert one.run(*command) == "linear 8 2 0 512\n"


def test_a_preloaded_driver_is_replaced(driver: Path, client: dict[str, Path]) -> None:
    """Both libraries of the driver; others stay."""
    given = environment(driver, LD_PRELOAD=f"{driver}/libcuda.so.1 libm.so.6")
    for mode in ("proxy", "preload"):
        with _budget.prepare({CARDS[0]: 512 * MIB}, mode, environment=given) as budget:
            variables = {**given, **budget.environment}
            assert variables["LD_PRELOAD"].endswith("/libcuda.so.1 libm.so.6")
            words = [client[""], "dlsym", "fill", "linear"]
            done = script.completed(words, env=variables, check=True, timeout=60)
            assert done.stdout == "linear 8 2 0 512\n"


def sanitized(folder: Path) -> Path:
    """A program with AddressSanitizer that opens the driver; skips without the compiler's library for it."""
    source = folder / "sanitized.c"
    source.write_text("""
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
            free(malloc(7));
            puts(dlsym(dlopen("libcuda.so.1", 1), "gpuconf_guard_figures") ? "guarded" : "past");
        }
    """)
    try:
        program = compile_c(source, folder / "sanitized", "-fsanitize=address")
        subprocess.run([program], check=True, capture_output=True, env=environment(None))
    except subprocess.CalledProcessError:
        pytest.skip("this compiler has no AddressSanitizer")
    return program


def test_a_program_with_address_sanitizer_starts(driver: Path, tmp_path: Path) -> None:
    program = sanitized(tmp_path)
    quiet = {"ASAN_OPTIONS": "detect_leaks=0"}
    for mode, command in (("proxy", [program]), ("preload", [program]), ("preload", ["sh", "-c", f"{program}; true"])):
        with job(driver, MIB, mode, **quiet) as one:
            assert one.run(*command) == "guarded\n"
            if mode == "preload":
                assert one.environment["ASAN_OPTIONS"] == "verify_asan_link_order=0:detect_leaks=0"
