"""``gpuconf run --guard`` and ``--check``: the whole way, from the command line to a program that is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import script
from conftest_guard import CARDS, MIB, ROOT, Run, compile_c, environment, job
from gpuconf.jobs.job_memory import NOT_COUNTED

GIB = 1 << 30


@pytest.fixture
def run(driver: Path, tmp_path: Path) -> Run:
    """Run ``gpuconf run`` with these words, on one card of 16 GiB."""

    def call(*words: str | Path, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
        variables = environment(driver, GPUCONF_LEDGER=str(tmp_path / "ledger"), **more)
        variables["FAKECUDA_MEMORY"] = str(16 * GIB)
        command = [sys.executable, "-m", "gpuconf", "run", *map(str, words)]
        done = script.completed(command, env=variables, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return call


def test_an_unchanged_c_program_is_limited(run: Run, client: dict[str, Path], tmp_path: Path) -> None:
    words = (
        "--guard=proxy",
        "--memory",
        "512MiB",
        "--json-report",
        tmp_path / "report",
        "--",
        client[""],
        "dlsym",
        "fill",
        "linear",
    )
    assert run(*words).stdout == "linear 8 2 0 512\n"
    guard = json.loads((tmp_path / "report").read_text())["guard"]
    assert guard == {
        "mode": "proxy",
        "why": "",
        "gpus": {
            CARDS[0]: {
                "limit_bytes": 512 * MIB,
                "peak_bytes": 512 * MIB,
                "refused": 1,
                "contexts": 1,
                "contexts_peak": 1,
            }
        },
        "notes": [],
        "not_counted": list(NOT_COUNTED),
    }


def test_a_containers_limit_is_the_guards(run: Run, client: dict[str, Path]) -> None:
    """For a program that does not use gpuconf, where the lease is of a whole GPU."""
    words = ("--guard=proxy", "--gpus", "1", "--", client[""], "dlsym", "fill", "linear")
    assert run(*words, NVIDIA_GPU_MEMORY_LIMIT="512").stdout == "linear 8 2 0 512\n"


@pytest.mark.parametrize(
    ("variables", "most"),
    [
        ({"NVIDIA_GPU_MEMORY_LIMIT": "512"}, 512),
        ({"NVIDIA_GPU_MEMORY_LIMIT": "512", "GPUCONF_LIMIT": "384MiB"}, 384),
        ({"GPUCONF_LIMIT": "1GiB", "NVIDIA_GPU_MEMORY_LIMIT": "512"}, 512),
        ({"GPUCONF_LIMIT": "768MiB"}, 768),
    ],
    ids=str,
)
def test_variables_alone_limit_a_program_that_calls_the_driver(
    run: Run, client: dict[str, Path], tmp_path: Path, variables: dict[str, str], most: int
) -> None:
    """Without a lease: the limit of a container is no request to wait for. They limited gpuconf's pools alone."""
    ledger = f"import os; print(os.path.exists({str(tmp_path / 'ledger')!r}), os.environ.get('GPUCONF_LEASE'))"
    assert run(sys.executable, "-c", ledger, **variables).stdout == "False None\n"
    report = tmp_path / "report"
    found = run("--json-report", report, "--", client[""], "dlsym", "fill", "linear", **variables).stdout
    assert found == f"linear {most // 64} 2 {found.split()[3]} {found.split()[4]}\n"
    guard = json.loads(report.read_text())["guard"]
    assert [card["peak_bytes"] // MIB for card in guard["gpus"].values()] == [most]
    code = "import ctypes, sys; d = ctypes.CDLL('libcuda.so.1'); p = ctypes.c_void_p(); d.cuInit(0); "
    code += "d.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0); d.cuCtxPushCurrent_v2(p); "
    code += "sys.exit(d.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(2 << 30)))"
    assert run(sys.executable, "-c", code, code=2, **variables).stderr.endswith(f" {[*variables][-1]} sets it\n")
    assert run("--guard=off", "--", client[""], "dlsym", "fill", "linear", **variables).stdout.startswith(
        "linear 64 0 "
    )
    assert (
        run(client[""], "dlsym", "fill", "linear", **{**variables, "GPUCONF_DISABLE": "1"}).stdout[:10] == "linear 64 "
    )


_SEVERAL = """
import ctypes, os, subprocess, sys
driver, made = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert driver.cuInit(0) == driver.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0) == 0
if len(sys.argv) == 1:
    again = [sys.executable, *sys.orig_argv[1:], "child"]
    children = [subprocess.Popen(again, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for child in children:
        child.stdout.readline()
    for child in children:
        child.communicate()
else:
    print("made", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(("options", "room"), [((), 1), (("--contexts", "3"), 3)])
def test_contexts_that_the_lease_has_no_room_for_are_reported(
    run: Run, tmp_path: Path, options: tuple[str, ...], room: int
) -> None:
    (tmp_path / "several.py").write_text(_SEVERAL)
    report = tmp_path / "report"
    words = (
        "--guard=proxy",
        "--memory",
        "512MiB",
        *options,
        "--json-report",
        report,
        "--",
        sys.executable,
        tmp_path / "several.py",
    )
    error = run(*words).stderr
    told = f"had 3 CUDA contexts at a time on {CARDS[0]}, and the lease has room for 1"
    assert (told in error, "Pass --contexts 3" in error) == (room == 1, room == 1), error
    card = json.loads(report.read_text())["guard"]["gpus"][CARDS[0]]
    assert (card["contexts"], card["contexts_peak"]) == (room, 3)


def test_the_example(run: Run, tmp_path: Path) -> None:
    program = compile_c(ROOT / "examples/guard_client.c", tmp_path / "guard_client")
    shown = run("--guard=proxy", "--memory", "512MiB", "--", program).stdout
    assert shown == "the GPU has 512 MiB, 512 free\nallocated 8 x 64 MiB, then result 2; 0 MiB free\n"


def test_looking_for_processes_past_the_guard_does_not_disturb_the_others(run: Run) -> None:
    """See the test of the same name in tests_py/leases/test_leased_run.py."""
    code = """
import ctypes, mmap, os, time
driver = ctypes.CDLL("libcuda.so.1")
kept = [mmap.mmap(-1, 8192, prot=mmap.PROT_READ | (mmap.PROT_WRITE if i % 2 else 0)) for i in range(20000)]
def bytes_read():
    with open(f"/proc/{os.getppid()}/io") as file:
        return int(file.read().split()[1])
time.sleep(1)
before = bytes_read()
time.sleep(2)
print(bytes_read() - before < 4_000_000)
"""
    assert run("--guard=proxy", "--memory", "512MiB", "--", sys.executable, "-c", code).stdout == "True\n"


def test_without_the_guard_it_is_not(run: Run, client: dict[str, Path]) -> None:
    assert (
        run("--guard=off", "--memory", "512MiB", "--", client[""], "dlsym", "fill", "linear").stdout
        == "linear 64 0 12288 16384\n"
    )


@pytest.mark.parametrize(("mode", "code"), [("proxy", 3), ("preload", 0)])
def test_check(run: Run, mode: str, code: int) -> None:
    lines = run(f"--guard={mode}", "--memory", "512MiB", "--check", code=code).stdout.splitlines()
    assert lines[0].startswith("limit enforced by gpuconf's guard: a driver proxy on LD_LIBRARY_PATH")
    for line in lines[2:6]:
        assert line.split().count("refused") == 6, line
    assert ("GOT" in lines[6]) == (mode == "proxy")
    assert "limit 512.00MiB; the driver reports a total of 512.00MiB" in lines
    assert lines[-1].endswith("--guard=preload covers it") == (mode == "proxy")


def test_pools_have_exactly_the_limit_and_count_once(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("""
import gpuconf
from gpuconf.jobs import budget
buffer = gpuconf.memory.allocate(100 << 20, "GPU:0")
use = next(iter(budget.current().usage().values()))
print(gpuconf.memory.stats("GPU:0").bytes_limit >> 20, use.limit >> 20, use.used == use.pools > 0, use.outside)
buffer.free()
""")
    assert run("--memory", "512MiB", "--growth", path).stdout == "512 512 True 0\n"


@pytest.mark.parametrize(
    "words",
    [["--check"], ["--guard=proxy", "true"], ["--memory", "1GiB", "--check", "true"], ["--guard=audit", "true"]],
)
def test_options_that_do_not_go_together(run: Run, words: list[str]) -> None:
    assert run(*words, code=2).stderr


def test_what_is_not_counted_is_said_in_the_same_words_everywhere(run: Run, driver: Path, tmp_path: Path) -> None:
    """In the docs, the JSON report and doctor. The report in one line says where."""
    page = " ".join((ROOT / "docs/guard.md").read_text(encoding="utf-8").replace("`", "").split())
    assert [text for text in NOT_COUNTED if text not in page] == []
    said = f"the guard does not count: {'; '.join(NOT_COUNTED)}"
    short = "gpuconf run: the guard does not count CUDA contexts, for example; --json-report has the list"
    words = ("--memory", "512MiB", "--report", "--json-report", tmp_path / "report", "--", "true")
    first, last = run("--guard=proxy", *words).stderr.splitlines()
    assert (first, last.startswith("gpuconf run: ")) == (short, True)
    assert json.loads((tmp_path / "report").read_text())["guard"]["not_counted"] == list(NOT_COUNTED)
    assert "does not count" not in run("--guard=off", *words).stderr
    with job(driver, 512 * MIB) as one:
        words = [sys.executable, "-m", "gpuconf", "doctor"]
        told = script.completed(words, env=one.environment, timeout=120).stdout
        assert " ".join(said.split()) in " ".join(told.split())


def test_a_heap_on_the_device_is_named_at_the_end(run: Run) -> None:
    code = """
import ctypes
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cuda.cuCtxSetCurrent(context)
print(cuda.cuCtxSetLimit(1, ctypes.c_size_t(1 << 20)), cuda.cuCtxSetLimit(2, ctypes.c_size_t(1 << 30)),
      cuda.cuCtxSetLimit(9, 0))
"""
    done = run("--guard=proxy", "--memory", "512MiB", "--", sys.executable, "-c", code)
    assert done.stdout == "0 0 215\n"
    assert (
        "the heap of malloc() on the device was set to 1073741824 bytes (cuCtxSetLimit), which are not counted"
        in done.stderr
    )
    assert done.stderr.count("\n") == 1
