"""What the guard cannot reach is named: before the program starts if its file shows it, else at the end."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import script
from conftest_guard import CARDS, MIB, Run, build_driver, compile_c, environment

GIB = 1 << 30
LIMIT = ("--guard=proxy", "--memory", "512MiB")


@pytest.fixture
def run(driver: Path, tmp_path: Path) -> Run:
    """Run ``gpuconf run`` with these words, on one card of 16 GiB."""

    def call(
        *words: str | Path, code: int = 0, libraries: Path = driver, **more: str
    ) -> subprocess.CompletedProcess[str]:
        variables = environment(
            libraries, GPUCONF_LEDGER=str(tmp_path / "ledger"), FAKECUDA_DRIVER=str(driver / "libcuda.so.1")
        )
        variables["FAKECUDA_MEMORY"] = str(16 * GIB)
        command = [sys.executable, "-m", "gpuconf", "run", *map(str, words)]
        done = script.completed(command, env={**variables, **more}, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return call


def said_first(done: subprocess.CompletedProcess[str], text: str) -> bool:
    """Whether a warning comes before what the program wrote to standard error."""
    return 0 <= done.stderr.find(text) < done.stderr.find("the program")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A C program that writes a line to standard error."""
    source = tmp_path / "program.c"
    source.write_text('#include <stdio.h>\nint main(void) { fputs("the program\\n", stderr); return 0; }\n')
    return source


def test_a_static_program(run: Run, program: Path) -> None:
    static = compile_c(program, program.with_suffix(".static"), "-static")
    assert said_first(
        run(*LIMIT, "--", static), f"gpuconf run: guard: {static} is linked statically: the guard cannot limit it"
    )


def test_a_program_that_names_the_drivers_folder(run: Run, program: Path, driver: Path) -> None:
    """Its DT_RPATH comes before LD_LIBRARY_PATH; DT_RUNPATH comes after it, so such a program is limited."""
    options = ("-Wl,--no-as-needed", driver / "libcuda.so.1", f"-Wl,-rpath,{driver}")
    rpath = compile_c(program, program.with_suffix(".rpath"), *options, "-Wl,--disable-new-dtags")
    runpath = compile_c(program, program.with_suffix(".runpath"), *options, "-Wl,--enable-new-dtags")
    assert said_first(
        run(*LIMIT, "--", rpath), f"{rpath} looks for libcuda.so.1 in its DT_RPATH first: the guard cannot limit it"
    )
    assert run(*LIMIT, "--", runpath).stderr == "the program\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a program another owner")
def test_a_set_uid_program(run: Run, program: Path) -> None:
    privileged = compile_c(program, program.with_suffix(".setuid"))
    os.chown(privileged, 65534, -1)
    privileged.chmod(privileged.stat().st_mode | stat.S_ISUID)
    assert said_first(run(*LIMIT, "--", privileged), f"{privileged} is set-uid: the loader ignores the guard")


def test_a_set_uid_program_of_the_same_user_is_limited(run: Run, client: dict[str, Path], tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_bytes(client[""].read_bytes())
    own.chmod(0o755 | stat.S_ISUID | stat.S_ISGID)
    done = run(*LIMIT, "--", own, "dlsym", "fill", "linear")
    assert (done.stdout, done.stderr) == ("linear 8 2 0 512\n", "")


# Each allocates more than the limit, and then waits for more than gpuconf run's time between two looks.
PAST = {
    "by path": "driver = ctypes.CDLL(os.environ['FAKECUDA_DRIVER'])",
    "after the job's folder is gone": "driver = ctypes.CDLL('libcuda.so.1')",
    "after clearing the environment": "driver = ctypes.CDLL('libcuda.so.1')",
    "after putting the driver's folder first": "driver = ctypes.CDLL('libcuda.so.1')",
    "by path, with NVML under the guard": "ctypes.CDLL('libnvidia-ml.so.1'); driver = "
    "ctypes.CDLL(os.environ['FAKECUDA_DRIVER'])",
}
ALLOCATE = """
import ctypes, os, sys, time
{driver}
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
print(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(600 << 20)), flush=True)
time.sleep(2.5)
"""


@pytest.mark.parametrize("way", PAST)
def test_a_process_past_the_guard_is_named_at_the_end(
    run: Run, driver: Path, both: Path, tmp_path: Path, way: str
) -> None:
    (tmp_path / "past.py").write_text(ALLOCATE.format(driver=PAST[way]))
    words: tuple[str | Path, ...] = (sys.executable, "-S", tmp_path / "past.py")
    if way == "after the job's folder is gone":
        words = ("sh", "-c", 'rm -r "${GPUCONF_GUARD%/budget}"; "$@"', "sh", *words)
    elif way == "after putting the driver's folder first":
        words = ("sh", "-c", f'LD_LIBRARY_PATH="{driver}:$LD_LIBRARY_PATH" exec "$@"', "sh", *words)
    elif not way.startswith("by path"):
        words = ("env", "-i", f"LD_LIBRARY_PATH={driver}", f"FAKECUDA_MEMORY={16 * GIB}", *words)
    done = run(
        *LIMIT, "--json-report", tmp_path / "report", "--", "sh", "-c", '"$@"; true', "sh", *words, libraries=both
    )
    assert done.stdout == "0\n", "it was not limited"
    (past,) = json.loads((tmp_path / "report").read_text())["past_the_guard"]
    assert past["command"] == f"{sys.executable} -S {tmp_path / 'past.py'}"
    assert f"gpuconf run: PID {past['pid']} bypassed the guard: {past['command']}" in done.stderr


def test_a_driver_that_the_command_itself_was_started_with_is_not_held_against_its_own_process(
    run: Run, driver: Path
) -> None:
    """The command's witness of signals has it, too, and the program gets the guard in place of it."""
    preload = {"LD_PRELOAD": str(driver / "libcuda.so.1")}
    code = ALLOCATE.format(driver="driver = ctypes.CDLL('libcuda.so.1')")
    done = run(*LIMIT, "--", sys.executable, "-c", code, **preload)
    assert (done.stdout, done.stderr) == ("2\n", "")


@pytest.mark.parametrize("option", ["-I", "-E"])
def test_a_python_without_startup_code_is_limited_and_that_is_said(run: Run, tmp_path: Path, option: str) -> None:
    (tmp_path / "under.py").write_text(ALLOCATE.format(driver="driver = ctypes.CDLL('libcuda.so.1')"))
    done = run(*LIMIT, "--", sys.executable, option, tmp_path / "under.py")
    assert done.stdout == "2\n"
    said = f"is limited, but did not get gpuconf's settings: Python's option {option} disables startup code"
    assert said in done.stderr
    assert "was not limited" not in done.stderr


def test_the_process_that_asks_the_driver_for_gpuconf_is_not_named(run: Run, tmp_path: Path) -> None:
    """It is a Python with -I, which loads the driver: a slow one, so that it is seen."""
    source = tmp_path / "slow.c"
    source.write_text("#include <unistd.h>\nint cuInit(unsigned flags) { usleep(1500000); return 100; }\n")
    compile_c(source, tmp_path / "libcuda.so.1", "-shared", "-fPIC")
    program = (
        "import time, gpuconf; start = time.monotonic(); gpuconf.visible_devices(); print(time.monotonic() - "
        "start > 1.4)"
    )
    slow = ("env", f"LD_LIBRARY_PATH={tmp_path}", sys.executable, "-c", program)
    done = run("--guard=off", "--memory=512MiB", "--", *slow)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_process_under_the_guard_is_not_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "under.py").write_text(ALLOCATE.format(driver="driver = ctypes.CDLL('libcuda.so.1')"))
    done = run(*LIMIT, "--json-report", tmp_path / "report", "--", sys.executable, tmp_path / "under.py")
    assert (done.stdout, done.stderr) == ("2\n", "")
    assert json.loads((tmp_path / "report").read_text())["past_the_guard"] == []


# The check


@pytest.fixture(scope="module", params=[11, 12])
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CUDA runtime, and the driver of its version."""
    folder = build_driver(tmp_path_factory.mktemp("runtime") / "both", version=request.param * 1000 + 40)
    name = {11: "libcudart.so.11.0", 12: "libcudart.so.12"}[request.param]
    compile_c(
        Path(__file__).parent / "c" / "runtime.c", folder / name, "-shared", "-fPIC", f"-DVERSION={request.param}"
    )
    return folder


@pytest.mark.parametrize("mode", ["proxy", "preload"])
def test_the_check_goes_through_the_cuda_runtime(run: Run, runtime: Path, mode: str) -> None:
    words = (f"--guard={mode}", "--memory", "512MiB", "--check")
    lines = run(*words, code=3 if mode == "proxy" else 0, libraries=runtime).stdout.splitlines()
    (row,) = [line.split() for line in lines if line.startswith("CUDA runtime")]
    assert row == ["CUDA", "runtime", "refused", "refused", "refused", "refused", "-", "refused"]


def test_the_check_says_when_nothing_is_limited(run: Run, runtime: Path) -> None:
    lines = run("--guard=off", "--memory", "512MiB", "--check", code=3, libraries=runtime).stdout.splitlines()
    assert lines[0] == "no limit is enforced: --guard=off"
    (row,) = [line for line in lines if line.startswith("CUDA runtime")]
    assert row.count("GOT PAST") == 5
    assert lines[-1].startswith("memory beyond the limit was allocated: by name, RTLD_DEFAULT, ")


def test_the_check_without_a_runtime_says_so(run: Run) -> None:
    assert (
        "the CUDA runtime was not tried: this Python finds no libcudart"
        in run("--guard=preload", "--memory", "512MiB", "--check").stdout
    )


# Bad input


def test_a_limit_larger_than_the_card(run: Run) -> None:
    said = (
        "17.00GiB (18253611008 bytes), with 528.00MiB for CUDA contexts, on 1 card can never be leased: at most "
        "15.48GiB (16626221056 bytes) of a card"
    )
    assert run("--memory", "17GiB", "--", "true", code=3).stderr.startswith(f"gpuconf run: {said}")


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"GCBUDGET" + b"\xff" * 9000])
def test_a_job_below_a_damaged_budget_does_not_start(run: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "budget").write_bytes(content)
    done = run(*LIMIT, "--", "true", code=1, GPUCONF_GUARD=str(tmp_path / "budget"))
    assert str(tmp_path / "budget") in done.stderr
    assert "Traceback" not in done.stderr


def test_below_a_job_that_has_ended(run: Run, tmp_path: Path) -> None:
    done = run(*LIMIT, "--", "true", code=1, GPUCONF_GUARD=str(tmp_path / "nothing"))
    assert str(tmp_path / "nothing") in done.stderr


def test_without_a_driver_there_is_no_gpu(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "there is no GPU to lease" in run(*LIMIT, "--", "true", code=3, libraries=empty).stderr


def test_more_than_the_outer_job_has(run: Run) -> None:
    inner = f"{sys.executable} -m gpuconf run --memory 600MiB true"
    done = run("--memory", "512MiB", "--", "sh", "-c", inner, code=1)
    assert "600.00MiB are requested inside lease" in done.stderr


def test_the_outer_job_is_charged_for_the_inner_one(run: Run, client: dict[str, Path], tmp_path: Path) -> None:
    """From the command line: the smaller budget counts, and both have the same peak."""
    inner = f"{sys.executable} -m gpuconf run --guard=proxy --memory 256MiB --json-report {tmp_path / 'inner'} "
    inner += f"-- {client['']} dlsym fill linear"
    done = run(*LIMIT, "--json-report", tmp_path / "outer", "--", "sh", "-c", inner)
    assert done.stdout == "linear 4 2 0 256\n"
    peaks = [
        json.loads((tmp_path / name).read_text())["guard"]["gpus"][CARDS[0]]["peak_bytes"]
        for name in ("inner", "outer")
    ]
    assert peaks == [256 * MIB, 256 * MIB]
    assert os.environ.get("GPUCONF_GUARD") is None
