"""A process has one driver: listing real devices leaves room for a simulation, and a simulated process opens nothing of
a GPU.
"""

import os
import runpy
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import script
from fake_nvml import ONE_H100, fake_nvml
from script import environment

ROOT = Path(__file__).resolve().parents[2]
COMPILER = shlex.split(os.environ.get("CC", "cc"))

MAPPED = """
def mapped():
    return sorted({line.split("/", 1)[1].strip() for line in open("/proc/self/maps")
                   if "/libcuda" in line or "/libnvidia" in line})
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the libraries of a real driver, as far as this process can tell."""
    folder = fake_nvml(tmp_path_factory.mktemp("driver"))
    runpy.run_path(str(ROOT / "tests_go/machine/fakecuda/build.py"))["build"](folder)
    (folder / "machine").write_text(ONE_H100)
    (folder / "nothing").write_text("")
    return folder


def told(driver: Path | None, code: str, **more: str) -> list[str]:
    """What a program prints, a line each."""
    libraries = {} if driver is None else {"LD_LIBRARY_PATH": str(driver), "FAKE_NVML": str(driver / "machine")}
    done = script.completed(
        [sys.executable, "-c", MAPPED + textwrap.dedent(code)],
        env=environment({"FAKECUDA_GPUS": "1", **libraries, **more}),
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


LIST_AND_SIMULATE = """
import gpuconf
print(len(gpuconf.config.list_physical_devices("GPU")), len(mapped()))
try:
    gpuconf.simulate("2xT4")
    print(len(gpuconf.config.list_physical_devices("GPU")), len(mapped()), "_simulator" in mapped()[0])
except gpuconf.errors.FailedPreconditionError as error:
    print(error)
"""


@pytest.mark.parametrize("why", [{"CUDA_VISIBLE_DEVICES": ""}, {"FAKECUDA_GPUS": "0"}])
def test_a_driver_that_finds_no_gpu_is_not_loaded(driver: Path, why: dict[str, str]) -> None:
    """As in many containers: a simulation may follow, in this process."""
    if why.get("CUDA_VISIBLE_DEVICES") == "":
        why = why | {"CUDA_VISIBLE_DEVICES": "-1"}  # the empty value hides simulated GPUs, too
    code = LIST_AND_SIMULATE.replace("try:", "import os; os.environ.pop('CUDA_VISIBLE_DEVICES', None)\ntry:")
    assert told(driver, code, **why) == ["0 0", "2 1 True"]


def test_the_gpus_of_a_driver_are_listed_in_this_process(driver: Path) -> None:
    """It goes on to use them, and must not start the driver twice: a simulation names what is loaded, and what to
    do.
    """
    first, second = told(driver, LIST_AND_SIMULATE)
    assert first == "1 1"
    assert second.startswith(
        f"this process has loaded {driver / 'libcuda.so.1'} (to list the GPUs of this machine), and "
    )


@pytest.mark.parametrize("name", ["libcuda.so.550.99.01", "libnvidia-ml.so.550.99.01"])
def test_simulate_names_the_driver_that_is_loaded(tmp_path: Path, name: str) -> None:
    """The call itself, and it changes nothing: what was simulated before goes on."""
    library, source = tmp_path / name, tmp_path / "driver.c"
    source.write_text("int cuInit(unsigned flags) { return (int)flags; }\n")
    subprocess.run([*COMPILER, "-shared", "-fPIC", "-Wl,-soname,other.so", "-o", library, source], check=True)
    code = f"""
    import ctypes, gpuconf
    gpuconf.simulate("T4")
    print(len(gpuconf.visible_devices()))
    ctypes.CDLL({str(library)!r})
    try:
        gpuconf.simulate("2xL4")
    except gpuconf.errors.FailedPreconditionError as error:
        print(error)
    print(gpuconf.simulated(), len(gpuconf.visible_devices()))
    gpuconf.simulate(None)
    """
    had, refusal, has = told(None, code)
    assert (had, has) == ("1", "T4 1")
    assert refusal.startswith(f"this process has loaded {library}, and a process has one driver: simulate GPUs before ")


def test_no_other_process_is_asked_if_the_driver_is_loaded(driver: Path) -> None:
    code = """
    import ctypes
    ctypes.CDLL("libcuda.so.1")
    import gpuconf
    print(len(gpuconf.config.list_physical_devices("GPU")), len(mapped()))
    """
    assert told(driver, code, FAKECUDA_GPUS="0") == ["0 1"]


def test_an_interpreter_that_is_none_is_not_started(driver: Path, tmp_path: Path) -> None:
    """A program that embeds Python is sys.executable."""
    program = tmp_path / "editor"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    assert (
        told(driver, f"import sys\nsys.executable = {str(program)!r}\n{LIST_AND_SIMULATE}", FAKECUDA_GPUS="0")[0]
        == "0 1"
    )
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("machine", ["machine", "nothing"])
def test_the_survey_of_cards_leaves_room_for_a_simulation(driver: Path, machine: str) -> None:
    """NVML is unloaded after it, also if it did not start."""
    code = """
    import gpuconf
    from gpuconf.machine.cards import survey
    print(len(survey().cards), len(survey().cards))
    gpuconf.simulate("2xT4")
    print(len(gpuconf.config.list_physical_devices("GPU")), len(mapped()), len(survey().cards))
    """
    found = {"machine": "1 1", "nothing": "0 0"}[machine]
    assert told(driver, code, FAKE_NVML=str(driver / machine)) == [found, "2 1 2"]


@pytest.fixture(scope="module")
def tracer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of opened_files.c."""
    program = tmp_path_factory.mktemp("tracer") / "opened_files"
    subprocess.run(
        [*COMPILER, "-std=gnu11", "-Wall", "-Werror", Path(__file__).parent / "c" / "opened_files.c", "-o", program],
        check=True,
    )
    return program


def opened(tracer: Path, folder: Path, *command: str | Path, **more: str) -> list[str]:
    """The files that a program and all that it starts open, whether or not they exist."""
    done = script.completed([tracer, folder / "opened", *command], env=environment(more), timeout=300)
    if done.returncode == 125:
        pytest.skip(f"no process may trace another here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "opened").read_text(errors="replace").splitlines()


def of_a_gpu(names: list[str]) -> list[str]:
    return sorted(
        {
            name
            for name in names
            if name.startswith(("/dev/nvidia", "/dev/dxg", "/dev/nvmap", "/dev/dri", "/proc/driver/nvidia"))
        }
    )


def test_the_tracer_sees_what_threads_and_children_open(tracer: Path, tmp_path: Path) -> None:
    code = """
    import ctypes, subprocess, threading
    thread = threading.Thread(target=lambda: ctypes.CDLL(None).open(b"/dev/nvidia-thread", 0))
    thread.start()
    thread.join()
    subprocess.run(["cat", "/dev/nvidia-child"], stderr=subprocess.DEVNULL)
    """
    names = opened(tracer, tmp_path, sys.executable, "-c", textwrap.dedent(code))
    assert of_a_gpu(names) == ["/dev/nvidia-child", "/dev/nvidia-thread"]


# What a program does with simulated GPUs, of every kind.
EVERYTHING = """
import ctypes, os, gpuconf
from gpuconf.machine.cards import survey
print(len(gpuconf.visible_devices()), len(survey().cards), len(gpuconf.config.list_physical_devices("GPU")))
with gpuconf.device("GPU:0"):
    assert gpuconf.matmul([[1.0]], [[2.0]]).numpy() == [[2.0]]
with gpuconf.memory.allocate(1 << 20, "GPU:1"):
    print(gpuconf.memory.stats("GPU:1").bytes_in_use)
try:
    gpuconf.memory.allocate(1 << 40, "GPU:1")
except MemoryError:
    pass
nvml = ctypes.CDLL(os.path.join(os.path.dirname(gpuconf.library_path()), "..", "_simulator", "libnvidia-ml.so.1"))
assert nvml.nvmlInit_v2() == 0
"""


@pytest.mark.parametrize(
    "command",
    [[sys.executable, "-c", EVERYTHING], ["gpuconf", "doctor"], ["gpuconf", "devices"], ["gpuconf", "ps"]],
    ids=["everything", "doctor", "devices", "ps"],
)
def test_a_simulated_process_opens_nothing_of_a_gpu(
    tracer: Path, driver: Path, tmp_path: Path, command: list[str]
) -> None:
    """Also beside an installed driver, of which it opens nothing either."""
    words = [shutil.which(command[0], path=environment()["PATH"]) or command[0], *command[1:]]
    more = {"GPUCONF_SIMULATE": "2xA100-40GB", "GPUCONF_LEDGER": str(tmp_path / "ledger")}
    libraries = {"LD_LIBRARY_PATH": str(driver), "FAKE_NVML": str(driver / "machine")}
    names = opened(tracer, tmp_path, *words, **more, **libraries)
    assert of_a_gpu(names) == []
    assert [name for name in names if name.startswith(str(driver)) and "libcuda" in name] == []
    assert any("_simulator" in name for name in names) == (command[-1] != "ps")
