"""``gpuconf doctor``: what it finds, the fix, and the exit code."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import command
import gpuconf
import pytest
from command import COMMAND
from fake_nvml import ONE_H100, fake_nvml
from gpuconf._core import elf, settings
from gpuconf.cli import diagnosis, libraries, probe
from gpuconf.plans.programs.cover import LAUNCHER
from holder import holder
from script import environment, execute

GIB = 1 << 30

Finding = dict[str, str]


def run(*arguments: str, env: dict[str, str], cwd: Path | None = None) -> tuple[int, str, str]:
    return command.run("doctor", *arguments, env=env, cwd=cwd)


def findings(env: dict[str, str], *command: str, cwd: Path | None = None) -> tuple[int, list[Finding]]:
    code, out, err = run("--json", *command, env=env, cwd=cwd)
    assert err == ""
    told = json.loads(out)
    assert [one["number"] for one in told["findings"]] == list(range(1, len(told["findings"]) + 1))
    problems = [one for one in told["findings"] if one["level"] == "problem"]
    assert told["problems"] == len(problems)
    assert all(one["fix"] for one in problems), "a problem has a fix"
    assert (code == 3) == bool(problems)
    return code, told["findings"]


def about(found: list[Finding], subject: str) -> list[str]:
    return [f"{one['level']}: {one['text']}" for one in found if one["subject"] == subject]


@pytest.fixture
def simulated(tmp_path: Path) -> dict[str, str]:
    return {"GPUCONF_SIMULATE": "2xT4", "GPUCONF_LEDGER": str(tmp_path / "ledger")}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_nvml(tmp_path_factory.mktemp("nvml"))


def real(library: Path, tmp_path: Path, machine: str) -> dict[str, str]:
    (tmp_path / "machine").write_text(machine)
    ledger = str(tmp_path / "ledger")
    return {"LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(tmp_path / "machine"), "GPUCONF_LEDGER": ledger}


def installed(folder: Path, **packages: str) -> str:
    """Make a folder for PYTHONPATH that says which packages are installed."""
    for package, version in packages.items():
        information = folder / f"{package}-{version}.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    return str(folder)


def test_nothing_wrong(simulated: dict[str, str]) -> None:
    code, out, err = run(env=simulated)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("  1 ok      settings: ")
    assert lines[-1] == "no problems"
    assert "a program sees 2 of 2 GPUs" in out


def test_a_misspelled_variable(simulated: dict[str, str]) -> None:
    code, out, _ = run(env={**simulated, "GPUCONF_LEGDER": "/x"})
    assert code == 3
    assert "GPUCONF_LEGDER is set, but gpuconf has no such variable" in out
    assert "fix: did you mean GPUCONF_LEDGER?" in out
    assert out.endswith("1 problem\n")


def test_variables_that_gpuconf_reads_are_no_problem(simulated: dict[str, str]) -> None:
    """Those of the simulator were unknown."""
    code, out, _ = run(env={**simulated, "GPUCONF_SIMULATE_PLAIN_NAMES": "1", "GPUCONF_LIMIT": "6GiB"})
    assert code == 0
    assert "GPUCONF_LIMIT=6442450944 (environment)" in out
    assert out.endswith("no problems\n")


def test_bad_settings_end_nothing(simulated: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "gpuconf.toml").write_text("x = 1\n")
    _, found = findings(simulated, cwd=tmp_path)
    assert about(found, "settings")[0].startswith(f"problem: {tmp_path}/gpuconf.toml: unknown setting 'x'")
    _, found = findings({**simulated, "GPUCONF_SIMULATE": "Z80"})
    assert any('unknown GPU model "Z80"' in text for text in about(found, "settings"))
    _, found = findings({**simulated, "GPUCONF_LIMIT": "abc"})
    (said,) = [one for one in found if one["subject"] == "settings"]
    assert said["text"].startswith("GPUCONF_LIMIT 'abc' is not a size")
    assert said["fix"].startswith("correct the value")


def test_each_variable_with_a_bad_value_is_named_and_the_other_findings_follow(simulated: dict[str, str]) -> None:
    """Some were said to be fine, and with others the doctor ended."""
    names = [setting.variable for setting in settings.SETTINGS]
    bad = dict.fromkeys(names, "x")
    for changes in ({**bad, "GPUCONF_SIMULATE": "2xT4"}, {"GPUCONF_SIMULATE": "x"}):
        _, out, _ = run("--json", env={**simulated, **changes})
        found = json.loads(out)["findings"]
        for name in [name for name, value in changes.items() if value == "x"]:
            assert any(one["level"] == "problem" and name in one["text"] + one["fix"] for one in found), name
        assert found[-1]["subject"] == "BLAS"
        assert any(one["subject"] == "ledger" for one in found), "a bad simulation hid what is said of the machine"


@pytest.mark.parametrize("name", ["GPUCONF_SIMULATE", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH"])
def test_bytes_that_are_no_text_end_nothing(simulated: dict[str, str], name: str) -> None:
    """The loader writes the names of libraries to standard error as they are, and reading that failed."""
    other = f":{os.environ['PATH']}" if name == "PATH" else ""
    env = environment({**simulated, name: f"/tmp/\udcff{other}"})
    done = subprocess.run([COMMAND, "doctor", "--json"], capture_output=True, check=False, timeout=60, env=env)
    assert json.loads(done.stdout)["findings"][-1]["subject"] == "BLAS"


def test_a_bad_simulation_of_a_file_ends_nothing(simulated: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "gpuconf.toml").write_text('simulate = "Z80"\n')
    del simulated["GPUCONF_SIMULATE"]
    _, found = findings({**simulated, "GPUCONF_CONFIG": str(tmp_path / "gpuconf.toml")})
    assert 'unknown GPU model "Z80"' in about(found, "settings")[0]
    assert about(found, "ledger")


def test_variables_are_not_blamed_for_the_administrators_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gpuconf.toml").write_text("limit = 1\n")
    monkeypatch.setattr(settings, "ADMINISTRATOR", str(tmp_path / "gpuconf.toml"))
    (said,) = diagnosis.of_machine({"GPUCONF_GROWTH": "true", "GPUCONF_DISABLE": "0"})
    assert said.text.startswith(f"{tmp_path}/gpuconf.toml: unknown setting 'limit'")


def test_a_file_with_a_bad_value_ends_nothing(simulated: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "gpuconf.toml").write_text('memory = "x"\n')
    _, found = findings(simulated, cwd=tmp_path)
    (said,) = about(found, "settings")
    assert said.startswith(f"problem: memory in {tmp_path}/gpuconf.toml 'x' is not a size")
    assert about(found, "visible GPUs") == ["ok: a program sees 2 of 2 GPUs"]
    assert about(found, "ledger") == ["ok: none yet; the first lease creates it"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("TF_FORCE_GPU_ALLOW_GROWTH", 'could not be parsed: "maybe"'),
        ("TF_ENABLE_GPU_GARBAGE_COLLECTION", 'could not be parsed: "maybe"'),
        ("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "device memory maybe is invalid"),
    ],
)
def test_variables_that_pools_would_ignore(simulated: dict[str, str], name: str, said: str) -> None:
    _, found = findings({**simulated, name: "maybe"})
    (one,) = [one for one in found if one["level"] == "problem"]
    assert said in one["text"]
    assert one["fix"] == f"correct {name}, or unset it"
    good = {
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "TF_ENABLE_GPU_GARBAGE_COLLECTION": "false",
        "TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "9",
    }
    assert findings({**simulated, **good})[0] == 0


def test_hidden_gpus(simulated: dict[str, str]) -> None:
    _, found = findings({**simulated, "CUDA_VISIBLE_DEVICES": "0,7"})
    assert any('entry 2 ("7") is out of range' in text for text in about(found, "visible GPUs"))
    _, found = findings({**simulated, "CUDA_VISIBLE_DEVICES": ""})
    assert "problem: 2 cards, but a program sees none: CUDA_VISIBLE_DEVICES='' shows none" in about(
        found, "visible GPUs"
    )


def test_kinds_of_memory(simulated: dict[str, str]) -> None:
    _, found = findings({**simulated, "GPUCONF_SIMULATE": "GB10,GH200"})
    assert "shares the host's memory" in about(found, "GPU 0")[0]
    assert "(source: simulation)" in about(found, "GPU 0")[0]
    assert "has its own memory, which the CPU can access" in about(found, "GPU 1")[0]


def test_cards_of_the_driver(library: Path, tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        machine = (
            ONE_H100.replace("mig=off", "mig=on") + f"process {zombie.pid} bytes=2097152 list=compute gi=-1 ci=-1\n"
        )
        _, found = findings(real(library, tmp_path, machine + "fail nvmlDeviceGetMemoryInfo 15\n"))
    texts = about(found, "GPU 0")
    assert any("MIG is on, but there is no instance" in text for text in texts)
    assert any("fell off the bus" in text for text in texts)
    ok = about(found, "driver")
    assert ok[0] == "ok: 580.95.05, for CUDA 13.0 and older; 1 card"
    if not any("container" in text for text in ok):
        assert any(f"PID {zombie.pid} is zombie, but the driver counts 2.00MiB for it" in text for text in texts)


def test_the_kernel_module_is_of_another_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    survey = diagnosis.Survey(None, None, "580.95.05", (13, 0), False, (object(),))
    monkeypatch.setattr(diagnosis, "_kernel_module", lambda: "570.10")
    first = next(diagnosis._driver(survey))
    assert (first.level, first.text) == (
        "problem",
        "the driver library is version 580.95.05, but the kernel module is version 570.10",
    )


def test_order_of_devices() -> None:
    device = gpuconf.VisibleDevice(0, "/physical_device:GPU:0", "T4", "GPU-1", "0000:01:00.0", 3, (7, 5), GIB)
    (found,) = diagnosis._order([device], {})
    assert found.level == "problem"
    assert "CUDA's GPU 0 is nvidia-smi's GPU 3 (GPU-1)" in found.text
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in found.fix
    assert [one.level for one in diagnosis._order([device], {"CUDA_VISIBLE_DEVICES": "GPU-1"})] == ["note"]
    assert list(diagnosis._order([device._replace(nvml_index=0)], {})) == []


def test_limits_and_who_enforces_them(simulated: dict[str, str]) -> None:
    env = {**simulated, "GPUCONF_LIMIT": "6GiB", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8G"}
    _, found = findings(env)
    texts = about(found, "limits")
    assert "note: 6.00GiB for gpuconf's pools of each GPU (environment), which gpuconf enforces" in texts
    assert (
        "problem: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8G has no effect: no multi-process service is running here"
        in texts
    )


def test_stale_variables(simulated: dict[str, str]) -> None:
    with holder(simulated, lease=GIB):
        _, found = findings({**simulated, **{"GPUCONF_LEASE": "0" * 32, "GPUCONF_RUN": "/nowhere"}})
    texts = about(found, "environment")
    assert f"problem: GPUCONF_LEASE names lease {'0' * 32}, which has ended" in texts
    assert "problem: GPUCONF_RUN names /nowhere, which is gone: its job has ended" in texts
    assert "1 lease, 0 waiting" in about(found, "ledger")[0]


def test_a_child_that_holds_the_lease_of_a_command_that_was_killed(simulated: dict[str, str]) -> None:
    words = [sys.executable, "-m", "gpuconf", "run", "--memory", "1GiB", "sh", "-c", "echo $$; read end"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=environment(simulated), **pipes) as program:
        assert program.stdout is not None
        child = program.stdout.readline().strip()
        says = (
            f"note: process {program.pid}, which leased 1.00GiB, has ended, but its child {child} (sh -c echo $$; read "
            "end) still holds the lease"
        )
        assert says not in about(findings(simulated)[1], "GPU 0")
        program.kill()
        program.wait()
        code, found = findings(simulated)
        assert code == 0
        assert says in about(found, "GPU 0")
        assert f"  held by {child}  " in command.run("lease", "--list", env=simulated)[1]
        row = next(line.split() for line in command.run("ps", env=simulated)[1].splitlines() if line.startswith("0 "))
        assert (row[1], row[-2:]) == (child, ["parent", "ended"]), "the process that was killed was shown"
    for _ in range(100):  # its input has ended, and with it the child
        if says not in about(findings(simulated)[1], "GPU 0"):
            return
    raise AssertionError(says)


def test_a_damaged_ledger(simulated: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir(mode=0o700)
    (tmp_path / "ledger" / "ledger").write_text("something else")
    code, found = findings(simulated)
    assert code == 3
    assert about(found, "ledger")[0].startswith("problem: ")


def test_a_folder_that_cannot_become_a_ledger(simulated: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir(mode=0o700)
    (tmp_path / "full" / "notes").touch()
    for folder, why in (
        ("/proc", "/proc is not a ledger, and not empty"),
        (tmp_path / "full", 'it holds "notes"'),
        (tmp_path / "none" / "ledger", f"{tmp_path}/none does not exist"),
    ):
        _, found = findings({**simulated, "GPUCONF_LEDGER": str(folder)})
        (said,) = about(found, "ledger")
        assert said.startswith("problem: no lease is possible: ")
        assert why in said
    _, found = findings({**simulated, "GPUCONF_LEDGER": str(tmp_path / "file")})
    assert about(found, "ledger") == [f"problem: the ledger's folder {tmp_path}/file is not a folder"]
    assert findings({**simulated, "GPUCONF_LEDGER": str(tmp_path / "new")})[0] == 0
    assert not (tmp_path / "new").exists()


def test_go_runtimes(simulated: dict[str, str]) -> None:
    library = gpuconf.library_path()
    assert elf.is_go(library)
    assert not elf.is_go("/bin/sh")
    assert not elf.is_go(__file__)
    gpuconf.config.list_physical_devices()
    assert diagnosis.of_process(os.getpid()) == [os.path.realpath(library)]
    _, found = findings({**simulated, "LD_PRELOAD": library})
    assert any("LD_PRELOAD loads" in text for text in about(found, "Go runtimes"))


# Another environment


def test_a_program_is_looked_into_and_not_run(simulated: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open('ran', 'w')")
    packages = installed(tmp_path, torch="2.9.1+cu128", jax="0.6.0", cupy_cuda12x="1.0.0")
    env = {**simulated, "PYTHONPATH": packages}
    _, found = findings(env, "--", sys.executable, "train.py", cwd=tmp_path)
    assert not (tmp_path / "ran").exists()
    assert about(found, "torch") == [
        "note: 2.9.1+cu128: not routed, unless the program calls gpuconf.configure() or runs under gpuconf run"
    ]
    assert about(found, "cupy") == ["note: 1.0.0: not routed: the GPUs are simulated, and it does not use them"]
    assert "it accepts no allocator" in about(found, "jax")[0]
    del env["GPUCONF_SIMULATE"]
    _, found = findings(env, sys.executable, "train.py", cwd=tmp_path)
    if "no GPU" in about(found, "torch")[0]:
        assert about(found, "torch") == ["note: 2.9.1+cu128: not routed: there is no GPU"], "it was: ok, routed"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CUDA driver with one GPU."""
    folder = tmp_path_factory.mktemp("cuda")
    runpy.run_path(str(Path(__file__).parents[2] / "tests_go" / "machine" / "fakecuda" / "build.py"))["build"](folder)
    return folder


def test_a_library_is_routed_only_where_something_routes_it(driver: Path, library: Path, tmp_path: Path) -> None:
    """It said "ok: routed" of a program that nothing routes."""
    there = installed(tmp_path / "path", torch="2.9.1+cu128", cupy="1.0.0", numba_cuda="0.30.0")
    machine = real(library, tmp_path, ONE_H100)
    env = {**machine, "LD_LIBRARY_PATH": f"{library}:{driver}", "PYTHONPATH": there}
    conditional = "not routed, unless the program calls gpuconf.configure() or runs under gpuconf run"

    def torch(*command: str, **more: str) -> str:
        return about(findings({**env, **more}, "--", *command)[1], "torch")[0].replace("2.9.1+cu128: ", "")

    program = [sys.executable, "train.py"]
    assert torch(*program) == f"note: {conditional}"
    _, found = findings(env, "--", *program)
    assert about(found, "cupy") == [f"note: 1.0.0: {conditional}; gpuconf is not tested with this version"]
    routed = "ok: routed onto gpuconf's pools when it first uses the GPU"
    assert torch(COMMAND, "run", "--memory", "1GiB", *program) == routed
    job = {"GPUCONF_RUN": str(tmp_path), "GPUCONF_LIMIT": "1GiB"}
    assert torch(*program, **job) == routed
    assert torch(*program, **{**job, "GPUCONF_RUN": "/nowhere"}) == f"note: {conditional}", "its job has ended"
    assert torch(*program, **job, GPUCONF_DISABLE="yes") == "note: not routed: GPUCONF_DISABLE is set"
    assert torch(*program, CUDA_VISIBLE_DEVICES="") == "note: not routed: there is no GPU"
    assert torch(*program, GPUCONF_SIMULATE="T4", **job) == routed
    _, found = findings({**env, **job, "NUMBA_CUDA_MEMORY_MANAGER": "rmm"}, "--", *program)
    assert about(found, "numba-cuda") == ["note: 0.30.0: not routed by gpuconf run: NUMBA_CUDA_MEMORY_MANAGER is set"]


@pytest.mark.parametrize(
    ("about_python", "said"),
    [
        ({"version": [3, 9, 1]}, "not routed: gpuconf needs Python 3.10 or newer"),
        ({"abiflags": "t"}, "not routed: gpuconf does not support free-threaded Python"),
        ({"libraries": {"torch": "2.9.1+rocm6"}}, "not routed: this build has no CUDA"),
        ({"libraries": {"torch": "2.9.1+cpu"}}, "not routed: this build has no CUDA"),
    ],
)
def test_pythons_and_builds_that_cannot_be_routed(about_python: dict[str, Any], said: str) -> None:
    found = {"version": [3, 11, 0], "abiflags": "", "flags": [], "libraries": {"torch": "2.9.1"}, **about_python}
    (one,) = libraries.of_python(found, ["gpuconf", "run", "python"], {})
    assert (one.level, one.text.partition(": ")[2]) == ("note", said)


def test_an_option_that_hides_the_startup_code() -> None:
    found = {"version": [3, 11, 0], "abiflags": "", "flags": ["-I"], "libraries": {"torch": "2.9.1"}}
    assert libraries._why_not_under_run(found, {}) == "not routed: -I keeps gpuconf's startup code from running"
    assert not libraries.is_under_run(["gpuconf", "ps"], {})
    assert not libraries.is_under_run([], {"GPUCONF_LIMIT": "1GiB"})


def test_limits_that_do_not_hold(simulated: dict[str, str], tmp_path: Path) -> None:
    """A limit without a GPU, a guard and a lease whose job has ended."""
    assert about(findings(simulated)[1], "limits")[0] == "ok: no limit is set"
    stale = {"GPUCONF_GUARD": "/nowhere", "GPUCONF_LEASE": "0" * 32, "GPUCONF_RUN": "/nowhere"}
    texts = about(findings({**simulated, **stale})[1], "limits")
    assert not any("guard" in text or "lease" in text for text in texts)
    env = {"GPUCONF_LIMIT": "6GiB", "GPUCONF_LEDGER": str(tmp_path / "ledger"), "CUDA_VISIBLE_DEVICES": ""}
    _, found = findings(env)
    if any("driver" in one["subject"] and one["level"] == "problem" for one in found):
        wanted = (
            "note: 6.00GiB for gpuconf's pools of each GPU (environment), but there is no GPU: no limit is in force"
        )
        assert wanted in about(found, "limits")


def test_the_environment_of_a_container_with_gpus(library: Path, tmp_path: Path, simulated: dict[str, str]) -> None:
    started = "note: NVIDIA_VISIBLE_DEVICES='void': this container was started without GPUs"
    hidden = {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert started not in about(findings({**real(library, tmp_path, ONE_H100), **hidden})[1], "environment"), (
        "it has one"
    )
    assert started in about(findings({**simulated, **hidden})[1], "environment")
    texts = about(findings({**simulated, "GPUCONF_DISABLE": "yes"})[1], "environment")
    assert texts == ["note: GPUCONF_DISABLE=yes: programs under gpuconf run are not routed"]


def test_the_probe_runs_nothing_of_the_working_directory(simulated: dict[str, str], tmp_path: Path) -> None:
    """It may be a project of others."""
    for name in ("json", "multiprocessing", "gpuconf", "os"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close(); raise SystemExit(1)")
    _, found = findings(simulated, "--", sys.executable, "train.py", cwd=tmp_path)
    assert not (tmp_path / "ran").exists()
    assert about(found, "Python")[0].startswith("ok: ")


def test_another_environment(simulated: dict[str, str], tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = str(tmp_path / "venv" / "bin" / "python")
    _, found = findings(simulated, "--", python, "-O", "train.py")
    assert "does not have gpuconf" in about(found, "Python")[0]
    assert python in about(found, "Python")[0]
    code, found = findings(simulated, "--", python, "-I", "train.py")
    assert code == 0
    assert any("-I" in text and "not routed there, unless" in text for text in about(found, "Python"))
    code, found = findings(simulated, "--", COMMAND, "run", python, "-I", "train.py")
    assert code == 3
    assert any("-I" in text and text.endswith("not routed") for text in about(found, "Python"))
    (tmp_path / "tool").write_text(f"#!{python}\n")
    (tmp_path / "tool").chmod(0o755)
    _, found = findings(simulated, str(tmp_path / "tool"), "--fast")
    assert python in about(found, "Python")[0]
    _, found = findings(simulated, "env", "A=1", python, "train.py")
    assert python in about(found, "Python")[0], "a Python after another program"


def test_programs_that_cannot_be_looked_into(simulated: dict[str, str], tmp_path: Path) -> None:
    _, found = findings(simulated, "ls")
    assert "doctor does not recognize" in about(found, "program")[0]
    code, found = findings(simulated, "--", str(tmp_path / "python3"), "x.py")
    assert code == 3
    assert "No such file or directory" in about(found, "Python")[0]
    for missing in "no-such-command", str(tmp_path / "tool"), str(tmp_path / "train.py"):
        code, found = findings(simulated, "--", missing)
        assert code == 3
        assert about(found, "program") == [f"problem: {missing}: command not found"]


def test_what_multiplies_matrices(simulated: dict[str, str], tmp_path: Path) -> None:
    _, found = findings(simulated)
    (text,) = about(found, "BLAS")
    assert re.fullmatch(
        r"ok: \w+ [\d.]+, \d+ threads?, multiplies matrices on the CPU and on simulated GPUs: /.*\.so.*", text
    )
    _, found = findings({**simulated, "GPUCONF_BLAS": "gonum"})
    assert about(found, "BLAS")[0].startswith("note: gonum multiplies matrices")
    code, found = findings({**simulated, "GPUCONF_BLAS": "/nowhere/libblas.so"})
    assert code == 3
    assert about(found, "BLAS")[0].startswith('problem: GPUCONF_BLAS is "/nowhere/libblas.so", which cannot be used: ')


def test_the_blas_is_that_of_the_programs_python(simulated: dict[str, str], tmp_path: Path) -> None:
    here = about(findings(simulated)[1], "BLAS")
    venv.create(tmp_path / "v", with_pip=False)
    there = about(findings(simulated, str(tmp_path / "v" / "bin" / "python"), "x.py")[1], "BLAS")
    assert len(there) == 1
    assert there != here, "an environment without NumPy"


TWO_H100 = ONE_H100 + ONE_H100.splitlines(keepends=True)[-1].replace("GPU-1", "GPU-2").replace("bus=23", "bus=24")


def test_growth_between_gpus_is_told_of_real_ones(library: Path, tmp_path: Path, simulated: dict[str, str]) -> None:
    _, found = findings(simulated)
    assert about(found, "growth") == []
    _, found = findings(real(library, tmp_path, ONE_H100))
    assert about(found, "growth") == []
    _, found = findings(real(library, tmp_path, TWO_H100))
    [told] = about(found, "growth")
    assert told.startswith("note: ")
    assert all(word in told for word in ("NCCL", "cuIpc", "Dask-CUDA", "UCX", "RDMA", "NIXL"))


def test_wsl_is_recognized(tmp_path: Path) -> None:
    release, device = tmp_path / "osrelease", tmp_path / "dxg"
    assert not diagnosis.is_wsl(str(release), str(device))
    release.write_text("6.8.0-45-generic\n")
    assert not diagnosis.is_wsl(str(release), str(device))
    release.write_text("5.15.153.1-microsoft-standard-WSL2\n")
    assert diagnosis.is_wsl(str(release), str(device))
    release.write_bytes(b"\xff\xfe\n")
    assert not diagnosis.is_wsl(str(release), str(device))
    device.touch()
    assert diagnosis.is_wsl(str(release), str(device))


def test_queries_of_a_mig_card_that_a_container_may_not_make(library: Path, tmp_path: Path) -> None:
    machine = ONE_H100.replace("mig=off", "mig=on") + (
        "instance MIG-1 gi=1 ci=0 total=10737418240 used=4096 NVIDIA H100 80GB HBM3 MIG 1g.10gb\n"
        "fail nvmlDeviceGetMemoryInfo 4 GPU-1\nfail nvmlDeviceGetComputeRunningProcesses_v3 4 GPU-1\n"
    )
    _, found = findings(real(library, tmp_path, machine))
    told = about(found, "GPU 0")
    assert not any(text.startswith("problem") for text in told)
    assert any("the card's memory and what other programs use of it are unknown here" in text for text in told)


# The cover of rehearsals

WITHOUT_USER_NAMESPACES = [
    *("unshare", "--user", "--map-root-user", "sh", "-c"),
    'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"',
    "sh",
]


def needs(*command: str) -> None:
    """Skip the test where a command fails."""
    if (
        shutil.which(command[0]) is None
        or subprocess.run([*command, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip(f"{' '.join(command)} fails here")


def launcher(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_which_cover_a_rehearsal_has(simulated: dict[str, str], tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    _, found = findings({**simulated, "TMPDIR": str(temporary)})
    (told,) = [one for one in found if one["subject"] == "rehearsals"]
    overlays = re.fullmatch(
        r"gpuconf plan -- PROGRAM has a cover: overlays in a (user and )?mount namespace; no network", told["text"]
    )
    assert told["level"] == ("ok" if overlays else "note")
    assert overlays or told["fix"]
    assert list(temporary.iterdir()) == []


def test_a_machine_that_allows_only_the_mirror(simulated: dict[str, str]) -> None:
    needs(*WITHOUT_USER_NAMESPACES)
    done = execute([*WITHOUT_USER_NAMESPACES, COMMAND, "doctor", "--json"], env=environment(simulated))
    (told,) = [one for one in json.loads(done.stdout)["findings"] if one["subject"] == "rehearsals"]
    if told["text"].startswith("none is possible"):
        pytest.skip("this kernel has no Landlock")
    assert told["level"] == "note"
    assert "a copy of the working folder; Landlock refuses all other writes; the network is on" in told["text"]
    assert told["text"].count("No space left on device") == 1, "each reason once"
    assert "sysctl user.max_user_namespaces=15000" in told["fix"]


def test_a_machine_that_allows_no_cover(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    needs(*WITHOUT_USER_NAMESPACES)
    refusing = (
        f"exec {' '.join(WITHOUT_USER_NAMESPACES[:-2])} '{WITHOUT_USER_NAMESPACES[-2]}' sh {LAUNCHER} --only "
        'user "$@"'
    )
    monkeypatch.setattr("gpuconf.plans.programs.cover.LAUNCHER", launcher(tmp_path / "launcher", refusing))
    told = probe.of_cover(os.environ)
    assert told.level == "note"
    assert told.text.startswith(
        "none is possible, because this machine has no cover for the program's writes (user: start a namespace"
    )
    assert told.fix


@pytest.mark.parametrize(
    ("script", "said"), [("", "No such file"), ("sleep 30", "timed out"), ("exit 1", "the launcher ended")]
)
def test_doctor_does_not_need_a_cover(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, said: str) -> None:
    path = launcher(tmp_path / "launcher", script) if script else str(tmp_path / "none")
    monkeypatch.setattr("gpuconf.plans.programs.cover.LAUNCHER", path)
    began = time.monotonic()
    told = probe.of_cover(os.environ)
    assert time.monotonic() - began < 5
    assert told.level == "note"
    assert said in told.text


def test_what_to_set_for_a_cover(tmp_path: Path) -> None:
    def advice(*, container: bool = False, **settings: str) -> str:
        for folder in ("kernel", "user"):
            shutil.rmtree(tmp_path / folder, ignore_errors=True)
            (tmp_path / folder).mkdir()
        for name, value in settings.items():
            folder = "user" if name.startswith("max") else "kernel"
            (tmp_path / folder / name).write_text(f"{value}\n")
        return probe.advice("/opt/gpuconf-cover", str(tmp_path), container=container)

    of_ubuntu = advice(
        apparmor_restrict_unprivileged_userns="1", max_user_namespaces="63000", unprivileged_userns_clone="1"
    )
    assert "a profile of AppArmor for /opt/gpuconf-cover" in of_ubuntu
    assert "sysctl kernel.apparmor_restrict_unprivileged_userns=0" in of_ubuntu
    assert "max_user_namespaces" not in of_ubuntu
    assert "userns_clone=1" not in of_ubuntu
    assert advice(unprivileged_userns_clone="0") == "sysctl kernel.unprivileged_userns_clone=1"
    assert advice(max_user_namespaces="0") == "sysctl user.max_user_namespaces=15000"
    assert "--security-opt seccomp=unconfined --security-opt apparmor=unconfined" in advice(container=True)
    assert "Linux 5.12" in advice()
