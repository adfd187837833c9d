"""Bugs that HAMi-core, another guard in front of the CUDA driver, has had: #N is Project-HAMi/HAMi-core#N."""

import subprocess
import sys
from pathlib import Path

import script
from conftest_guard import CARDS, MIB, PRELUDE, environment, job


def test_two_processes_that_race_at_the_limit(driver: Path) -> None:
    """#273: the check and the sum were two steps, and both of two requests of 600 MiB fitted into 1024."""
    code = """
    begin()
    for round in range(200):
        print("ready", flush=True)
        input()
        result, address = allocate(600 * MIB)
        print(result, flush=True)
        input()
        if result == 0:
            assert free(address) == 0
    """
    words = [sys.executable, "-c", PRELUDE + "\n".join(line[4:] for line in code.splitlines())]
    with job(driver, 1024 * MIB) as one:
        both = [
            subprocess.Popen(words, env=one.environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(2)
        ]

        def read() -> list[str]:
            return [process.stdout.readline().strip() for process in both if process.stdout]

        def write() -> None:
            for process in both:
                assert process.stdin
                process.stdin.write("\n")
                process.stdin.flush()

        for _ in range(200):
            assert read() == ["ready", "ready"]
            write()
            assert sorted(read()) == ["0", "2"], "one of them, and only one"
            write()
        assert [process.communicate()[0] for process in both] == ["", ""]
        assert one.used() == 0


def test_a_subset_in_cuda_visible_devices(driver: Path) -> None:
    """#319: limits were found by the program's number of a card, which the variable changes."""
    code = """
    begin()
    print(info()[1] // MIB, allocate(300 * MIB)[0], allocate(100 * MIB)[0])
    """
    limits = {CARDS[0]: 1024 * MIB, CARDS[1]: 128 * MIB, CARDS[2]: 512 * MIB}
    with job(driver, limits, FAKECUDA_GPUS="3") as one:
        assert one.python(code, CUDA_VISIBLE_DEVICES="1") == "128 2 0\n"
        assert one.python(code, CUDA_VISIBLE_DEVICES="2") == "512 0 0\n"
        assert one.python(code, CUDA_VISIBLE_DEVICES="1,0") == "128 2 0\n"


def test_a_device_that_the_program_has_not_initialized(driver: Path) -> None:
    """#187: the limit of a card without a context was 0 or none."""
    code = """
    begin(0)
    bytes, context = c_size_t(), c_void_p()
    assert cuda.cuDeviceTotalMem_v2(byref(bytes), 1) == 0
    print(bytes.value // MIB)
    assert cuda.cuCtxCreate_v2(byref(context), 0, 1) == 0
    print(*(each // MIB for each in info()), allocate(257 * MIB)[0], allocate(256 * MIB)[0])
    """
    with job(driver, {CARDS[0]: 512 * MIB, CARDS[1]: 256 * MIB}, FAKECUDA_GPUS="2") as one:
        assert one.python(code) == "256\n256 256 2 0\n"


def test_free_memory_is_never_less_than_nothing(driver: Path) -> None:
    """#200: where more than the limit was in use, the difference was an immense number."""
    code = """
    begin()
    addresses = [allocate(2 * MIB)[1] for _ in range(256)]
    print(*(each // MIB for each in info()), allocate(1)[0])
    """
    with job(driver, 511 * MIB) as one:
        assert one.python(code) == "1 511 2\n"
    # Others fill the card below what the limit leaves.
    with job(driver, 1024 * MIB, FAKECUDA_MEMORY=str(512 * MIB)) as one:
        assert one.python(code) == "0 512 2\n"


def test_a_process_whose_environment_was_emptied(driver: Path, tmp_path: Path) -> None:
    """#272: without the variables there was no limit, and nothing said so. It is named at the end."""
    code = "import ctypes, time; ctypes.CDLL('libcuda.so.1').cuInit(0); time.sleep(1.5)"
    variables = environment(driver, GPUCONF_LEDGER=str(tmp_path / "ledger"))
    inner = ["env", "-i", f"LD_LIBRARY_PATH={driver}", "FAKECUDA_MEMORY=2147483648", sys.executable, "-c", code]
    words = [sys.executable, "-m", "gpuconf", "run", "--memory", "512MiB", "--", *inner]
    done = script.completed(words, env=variables, check=True, timeout=120)
    assert "bypassed the guard" in done.stderr
