"""``gpuconf run --memory`` on simulated GPUs: the guard stands before the simulated driver, as before NVIDIA's."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import script

PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    size_t free, total;
    unsigned long long address;
    int (*function)();
    #define CALL(name, ...) (function = (int (*)())dlsym(driver, #name), function(__VA_ARGS__))
    CALL(cuInit, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    CALL(cuMemGetInfo_v2, &free, &total);
    printf("%zu of %zu MiB\n", free >> 20, total >> 20);
    for (int i = 0; i < 2; i++)
        printf("%d\n", CALL(cuMemAlloc_v2, &address, (size_t)200 << 20));
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A C program that knows nothing of gpuconf, and wants 400 MiB."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "main.c").write_text(PROGRAM, encoding="utf-8")
    subprocess.run(["cc", "-o", folder / "program", folder / "main.c", "-ldl"], check=True)
    return folder / "program"


def run(tmp_path: Path, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = script.environment({"GPUCONF_LEDGER": str(tmp_path / "ledger"), **variables})
    command = [sys.executable, "-m", "gpuconf", "run", *map(str, words)]
    return script.completed(command, env=environment, timeout=120)


def test_a_program_is_held_to_its_lease(program: Path, tmp_path: Path) -> None:
    done = run(tmp_path, "--simulate", "T4", "--memory", "300MiB", "--json-report", tmp_path / "report", "--", program)
    assert (done.stdout, done.stderr) == ("300 of 300 MiB\n0\n2\n", "")
    guard = json.loads((tmp_path / "report").read_text())["guard"]
    assert guard["mode"] == "proxy"
    assert [one["peak_bytes"] >> 20 for one in guard["gpus"].values()] == [200]


def test_a_program_that_fails_at_its_limit_is_told_of_it(program: Path, tmp_path: Path) -> None:
    """Its own message named a GPU with 300 MiB, and nothing named gpuconf."""
    words = ("--simulate", "T4", "--memory", "300MiB", "--", "sh", "-c", f"{program}; exit 1")
    done = run(tmp_path, *words)
    assert done.returncode == 1
    says = "gpuconf run: the program ran out of memory, at its limit of 300.00MiB. --memory sets it"
    assert done.stderr.splitlines() == [says]
    assert run(tmp_path, "--report", *words).stderr.splitlines()[-1] == says


def test_a_program_on_a_card_that_is_not_leased_is_told_so(program: Path, tmp_path: Path) -> None:
    command = f"CUDA_VISIBLE_DEVICES=1 {program}; exit 1"
    done = run(tmp_path, "--simulate", "2xT4", "--memory", "300MiB", "--", "sh", "-c", command)
    assert done.stdout.splitlines()[1:] == ["2", "2"]
    (said,) = done.stderr.splitlines()
    assert said.endswith(
        "device 0 is not one of this job's: allocations on it are refused. Leave CUDA_VISIBLE_DEVICES as gpuconf sets "
        "it, or lease more GPUs with --gpus"
    )


SECOND_OF_A_JOB = """
import subprocess, sys
from gpuconf import memory
if sys.argv[1:]:
    try:
        memory.allocate(1 << 20)
    except MemoryError as error:
        print(error)
else:
    first = memory.allocate(1 << 20)
    print(subprocess.run([sys.executable, __file__, "second"], stdout=subprocess.PIPE, text=True).stdout)
    print("I am", __import__("os").getpid())
"""


def test_a_process_whose_sibling_took_the_limit_of_the_job_is_told_so(tmp_path: Path) -> None:
    """Its error blamed the GPU and other programs, and named neither the job nor the sibling."""
    (tmp_path / "two.py").write_text(SECOND_OF_A_JOB)
    words = ("--simulate", "T4", "--memory", "300MiB", "--contexts", "2", "--", sys.executable, tmp_path / "two.py")
    report, _, first = run(tmp_path, *words).stdout.rstrip().rpartition("\n")
    assert "out of memory, the limit of the job is reached." in report
    sibling = first.removeprefix("I am ")
    assert f"= pools 300.00MiB + outside 0B + free 0B; other processes: PID {sibling} 300.00MiB\n" in report
    assert "With --growth, a process takes only what it uses." in report
    assert run(tmp_path, "--growth", *words).stdout.startswith("\nI am ")


def test_the_machine_may_come_from_the_environment(program: Path, tmp_path: Path) -> None:
    assert run(tmp_path, "--memory", "300MiB", "--", program, GPUCONF_SIMULATE="T4").stdout == "300 of 300 MiB\n0\n2\n"


def test_without_the_guard_it_has_the_card(program: Path, tmp_path: Path) -> None:
    done = run(tmp_path, "--simulate", "T4", "--memory", "300MiB", "--guard=off", "--", program)
    assert done.stdout == "14912 of 14912 MiB\n0\n0\n"


def test_a_job_inside_a_job_has_the_smaller_limit(program: Path, tmp_path: Path) -> None:
    inner = [sys.executable, "-m", "gpuconf", "run", "--memory", "250MiB", "--", program]
    assert run(tmp_path, "--simulate", "T4", "--memory", "300MiB", "--", *inner).stdout == "250 of 250 MiB\n0\n2\n"


def test_pools_are_counted_beside_what_a_program_takes_of_the_driver(tmp_path: Path) -> None:
    code = """
    import ctypes, gpuconf
    gpuconf.configure(growth=True)
    held = gpuconf.memory.allocate("200MiB")
    driver, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    context = ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxSetCurrent(context)
    print(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(200 << 20)))
    print(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(50 << 20)))
    """
    (tmp_path / "both.py").write_text(textwrap.dedent(code), encoding="utf-8")
    done = run(tmp_path, "--simulate", "T4", "--memory", "300MiB", "--", sys.executable, tmp_path / "both.py")
    assert (done.stdout, done.stderr) == ("2\n0\n", "")


@pytest.mark.parametrize("growth", [False, True])
def test_what_the_pools_have_in_no_block_is_free_memory(tmp_path: Path, growth: bool) -> None:
    """A pool without growth takes its limit at once: then nothing was free."""
    code = f"""
    import ctypes, os, gpuconf
    def asked():
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        for name in ("cuMemGetInfo_v2", "cuMemGetInfo"):  # the old one writes 32 bits
            assert getattr(driver, name)(ctypes.byref(free), ctypes.byref(total)) == 0
            print(free.value >> 20, total.value >> 20, end=" ", flush=True)
    gpuconf.configure(growth={growth})
    driver, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    held = gpuconf.memory.allocate("100MiB")
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxSetCurrent(context)
    asked()
    more = gpuconf.memory.allocate("50MiB")
    asked()
    held.free()
    asked()
    print(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(200 << 20)))  # not the pool's
    """
    (tmp_path / "asks.py").write_text(textwrap.dedent(code), encoding="utf-8")
    done = run(tmp_path, "--simulate", "T4", "--memory", "300MiB", "--", sys.executable, tmp_path / "asks.py")
    assert (done.stdout, done.stderr) == ("200 300 200 300 150 300 150 300 250 300 250 300 2\n", "")


def test_there_is_no_control_group_for_simulated_gpus(program: Path, tmp_path: Path) -> None:
    done = run(tmp_path, "--simulate", "T4", "--memory", "300MiB", "--guard=driver", "--", program)
    assert done.returncode == 2
    assert "--guard=driver: simulated GPUs have no control group" in done.stderr
