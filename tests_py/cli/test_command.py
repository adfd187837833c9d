"""The command ``gpuconf``, run in a shell."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import COMMAND, HOLES, run
from script import environment, execute

MIB = 1 << 20


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "holes.csv").write_text(HOLES)
    return tmp_path


def test_it_fits(here: Path) -> None:
    assert run("plan", "holes.csv", "--limit", "21GiB", "--gpu", "A10", cwd=here) == (
        0,
        """6 events, 4 allocations
GPU:0: 6.00MiB live at the peak
limit: 21.00GiB on NVIDIA A10

GPU    policy        fits  least limit  peak in use  peak reserved  fragmented
GPU:0  pytorch       yes      20.00MiB      6.00MiB       20.00MiB        0.0%
GPU:0  expandable    yes      20.00MiB      6.00MiB       20.00MiB        0.0%
GPU:0  max_split 32  yes      20.00MiB      6.00MiB       20.00MiB        0.0%
GPU:0  roundup 16    yes      20.00MiB      6.00MiB       20.00MiB        0.0%
GPU:0  tensorflow    yes       8.00MiB      6.00MiB       14.00MiB        0.0%
GPU:0  regions       yes       8.00MiB      6.00MiB       21.00GiB        0.0%
GPU:0  virtual       yes       6.00MiB      6.00MiB        8.00MiB        0.0%

fits with pytorch, pytorch-expandable, pytorch-max-split, pytorch-roundup, tensorflow, regions, virtual
""",
        "",
    )


def test_it_does_not_fit(here: Path) -> None:
    assert run("plan", "holes.csv", "--limit", "5MiB", "--policy", "virtual", "--plot", cwd=here) == (
        3,
        """6 events, 4 allocations
GPU:0: 6.00MiB live at the peak
limit: 5.00MiB

GPU    policy   fits  least limit  peak in use  peak reserved  fragmented
GPU:0  virtual  no        6.00MiB      6.00MiB        6.00MiB        0.0%

GPU:0 virtual: event 3 requests 2.00MiB: limit reached
  in use 4.00MiB, reserved 4.00MiB, largest free block 0B
does not fit
GPU:0 virtual: █ in use, ▒ reserved, full width is 6.00MiB
     0.000 s  ▕█████████████████·································▏ 2.00MiB
     0.250 s  ▕██████████████████████████████████················▏ 4.00MiB
     0.500 s  ▕██████████████████████████████████████████████████▏ 6.00MiB
     0.750 s  ▕██████████████████████████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▏ 4.00MiB
     1.000 s  ▕█████████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▏ 2.00MiB
     1.250 s  ▕██████████████████████████████████████████████████▏ 6.00MiB
""",
        "",
    )


def test_json(here: Path) -> None:
    code, out, err = run(
        "plan", "holes.csv", "--limit", str(7 * MIB), "--policy", "regions", "--policy", "virtual", "--json", cwd=here
    )
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert (told["schema"], told["fits"], told["fitting"], told["limit"], told["gpu"]) == (
        1,
        True,
        ["virtual"],
        7 * MIB,
        None,
    )
    assert [(r["policy"], r["fits"], r["least_limit"]) for r in told["results"]] == [
        ("regions", False, 8 * MIB),
        ("virtual", True, 6 * MIB),
    ]


def test_pictures(here: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'gpuconf[plot]'")
    code, out, err = run("plan", "holes.csv", "--plot", "memory.png", cwd=here)
    assert (code, err) == (0, "")
    assert "█" not in out
    assert (here / "memory.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_without_matplotlib(here: Path) -> None:
    (here / "matplotlib").mkdir()
    (here / "matplotlib" / "__init__.py").write_text("raise ImportError('not here')")
    found = run("plan", "holes.csv", "--plot", "memory.png", cwd=here, env={"PYTHONPATH": str(here)})
    assert found == (1, "", "gpuconf plan: plots need matplotlib (not here): pip install 'gpuconf[plot]'\n")
    assert not (here / "memory.png").exists()


def test_a_plot_in_a_format_that_does_not_exist(here: Path) -> None:
    """It was matplotlib's traceback, after the plan."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'gpuconf[plot]'")
    for name in ("memory.foo", "memory"):
        code, out, err = run("plan", "holes.csv", "--plot", name, cwd=here)
        assert (code, out) == (2, "")
        assert err.startswith(f"gpuconf plan: --plot: cannot plot to {name!r}: a file name ends in one of .eps, ")


@pytest.mark.parametrize("option", ["--plot", "--html"])
def test_the_trace_is_not_replaced(here: Path, option: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'gpuconf[plot]'")
    pytest.importorskip("plotly", reason="plotly is not installed: pip install 'gpuconf[report]'")
    (here / "holes.svg").symlink_to("holes.csv")
    before = (here / "holes.csv").read_bytes()
    found = run("plan", "holes.csv", option, "holes.svg", cwd=here)
    assert found == (2, "", f"gpuconf plan: {option} would replace the trace 'holes.csv'\n")
    assert (here / "holes.csv").read_bytes() == before


def test_a_page(here: Path) -> None:
    pytest.importorskip("plotly", reason="plotly is not installed: pip install 'gpuconf[report]'")
    code, out, err = run("plan", "holes.csv", "--limit", "7MiB", "--html", "memory.html", cwd=here)
    assert (code, err) == (0, "")
    assert "fits with" in out
    assert "<title>gpuconf memory report</title>" in (here / "memory.html").read_text()
    code, _, err = run("plan", "holes.csv", "--html", "no/memory.html", cwd=here)
    assert (code, err) == (2, "gpuconf plan: --html: there is no folder no\n")


def test_a_page_without_plotly(here: Path) -> None:
    (here / "plotly").mkdir()
    (here / "plotly" / "__init__.py").write_text("raise ImportError('not here')")
    found = run("plan", "holes.csv", "--html", "memory.html", cwd=here, env={"PYTHONPATH": str(here)})
    assert found == (1, "", "gpuconf plan: the report needs plotly (not here): pip install 'gpuconf[report]'\n")
    assert not (here / "memory.html").exists()


def test_progress_is_shown_on_a_terminal_only(here: Path) -> None:
    """And erased before the result."""
    pytest.importorskip("plotly", reason="plotly is not installed: pip install 'gpuconf[report]'")
    shown, printed = on_terminal("plan", "holes.csv", "--html", "memory.html", cwd=here)
    assert b"gpuconf plan: reading the trace" in shown
    assert b"gpuconf plan: writing the report" in shown
    assert shown.endswith(b"\r\033[K")
    assert b"reading" not in printed


def on_terminal(*arguments: str, cwd: Path) -> tuple[bytes, bytes]:
    """What a command writes to a terminal that is its standard error, and what it prints."""
    import pty

    terminal, ours = pty.openpty()
    shown = b""
    with open(terminal, "rb", buffering=0) as read:
        command = subprocess.Popen(
            [COMMAND, *arguments], stdout=subprocess.PIPE, stderr=ours, cwd=cwd, env=environment({"TERM": "xterm"})
        )
        os.close(ours)
        with contextlib.suppress(OSError):  # the end of a terminal
            while part := read.read(1024):
                shown += part
        printed, _ = command.communicate(timeout=60)
    assert command.returncode == 0
    return shown, printed


def test_progress_of_a_long_trace(here: Path) -> None:
    """How much has been replayed, in percent: it increases."""
    lines = ["Thread,Time,Action,Pointer,Size,Stream"]
    for i in range(100_000):
        size = 512 + (i * 7919) % 100_000
        lines.append(f"1,10:00:00.000000,allocate,0x{(i + 1) << 20:x},{size},0")
        if i >= 500:
            lines.append(f"1,10:00:00.000000,free,0x{(i - 499) << 20:x},0,0")
    (here / "long.csv").write_text("\n".join(lines))
    shown, printed = on_terminal("plan", "long.csv", cwd=here)
    percents = [int(n) for n in re.findall(rb"replaying the trace (\d+)%", shown)]
    assert percents == sorted(percents)
    assert len(set(percents)) > 1  # how many depends on the machine
    assert percents[0] == 0
    assert b"least limit" in printed


def test_errors(here: Path) -> None:
    (here / "bad.csv").write_text(HOLES + "1,10:00:00.0,grow,0x1,1,0\n")
    assert run("plan", "bad.csv", cwd=here) == (
        1,
        "",
        "gpuconf plan: cannot read 'bad.csv' as a trace: line 8: invalid Action \"grow\": it must be "
        "allocate, free or allocate failure\n",
    )
    code, out, err = run("plan", "missing.csv", cwd=here)
    assert (code, out) == (1, "")
    assert err == "gpuconf plan: missing.csv: No such file or directory\n"
    code, out, err = run("devices", env={"GPUCONF_SIMULATE": "Z80"})
    assert (code, out) == (1, "")
    assert err.startswith("gpuconf devices: ")
    assert "unknown GPU model" in err


def test_help_and_version() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert "plan" in out
    assert "devices" in out
    code, out, _ = run("plan", "--help")
    assert "3 the job does not fit" in " ".join(out.split())
    import gpuconf

    assert run("--version") == (0, f"gpuconf {gpuconf.__version__}\n", "")


def test_a_limit_above_a_card_is_said_to_limit_nothing() -> None:
    told = "gpuconf env: --memory 20GB is more than a GPU here has, 14.56GiB: it limits nothing\n"
    code, out, err = run("env", "--simulate", "T4", "--memory", "20GB")
    assert (code, "GPUCONF_LIMIT=20000000000" in out, err) == (0, True, told)


def test_the_module_is_the_command(here: Path) -> None:
    words = [sys.executable, "-m", "gpuconf", "plan", "holes.csv", "--limit", "5MiB"]
    done = execute(words, cwd=here, env=environment())
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.endswith("does not fit\n")


def test_a_reader_that_has_seen_enough(here: Path) -> None:
    pipe = f"{COMMAND} plan holes.csv --plot | head -1; echo ${{PIPESTATUS[0]}}"
    done = execute(["bash", "-c", pipe], cwd=here, env=environment())
    first, code = done.stdout.splitlines()
    assert first == "6 events, 4 allocations"
    assert code in ("0", "1")
    assert done.stderr == ""


@pytest.mark.parametrize(("variables", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colors_are_for_terminals(here: Path, variables: dict[str, str], colored: bool) -> None:
    import pty

    main, terminal = pty.openpty()
    try:
        subprocess.run(
            [COMMAND, "plan", "holes.csv", "--limit", "1GiB"],
            stdout=terminal, stderr=subprocess.PIPE, check=True, cwd=here, timeout=60,
            env=environment({"TERM": "xterm", "NO_COLOR": "", **variables}),
        )  # fmt: skip
        os.close(terminal)
        shown = b""
        while b"fits with" not in shown or not shown.endswith(b"\n"):
            shown += os.read(main, 4096)
    finally:
        os.close(main)
    assert (b"\x1b[32mfits with" in shown) == colored
    assert (b"\x1b" in shown) == colored


# gpuconf devices


def test_devices() -> None:
    code, out, err = run("devices", env={"GPUCONF_SIMULATE": "H100,T4"})
    assert (code, err) == (0, "")
    machine, head, *rows = out.splitlines()
    assert machine == "simulated: H100-80GB,T4"
    assert head.split("  ")[0] == "CUDA"
    assert head.split() == ["CUDA", "name", "memory", "context", "capability", "PCI", "bus", "NVML", "UUID", "device"]
    assert [row.split()[0] for row in rows] == ["0", "1"]
    assert "NVIDIA H100 80GB HBM3" in rows[0]
    assert "79.18GiB  528.00MiB  9.0" in rows[0]
    assert rows[1].endswith("/physical_device:GPU:1")
    code, out, _ = run("devices", env={"GPUCONF_SIMULATE": "H100,T4", "CUDA_VISIBLE_DEVICES": "1"})
    assert [line.split()[1] for line in out.splitlines()[2:]] == ["Tesla"]


def test_devices_as_json() -> None:
    code, out, err = run("devices", "--json", env={"GPUCONF_SIMULATE": "T4:8GiB"})
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert (told["schema"], told["simulated"]) == (1, "T4:8GiB")
    (device,) = told["devices"]
    assert device.pop("uuid").startswith("GPU-")
    assert device.pop("pci_bus_id").startswith("0000:")
    assert device == {
        "cuda_ordinal": 0,
        "physical_device": "/physical_device:GPU:0",
        "name": "Tesla T4",
        "nvml_index": None,
        "compute_capability": [7, 5],
        "total_memory": 8 << 30,
        "context_bytes": 320 << 20,
        "memory_kind": "dedicated",
        "memory_source": "simulation",
    }


def test_no_devices() -> None:
    hidden = {"GPUCONF_SIMULATE": "T4", "CUDA_VISIBLE_DEVICES": "-1"}
    told = 'simulated: T4\nno GPUs: CUDA_VISIBLE_DEVICES="-1" shows none; gpuconf doctor says more\n'
    assert run("devices", env=hidden) == (3, told, "")
    _, out, _ = run("devices", "--json", env=hidden)
    assert json.loads(out) == {"schema": 1, "simulated": "T4", "devices": []}


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({}, "no GPUs: NVML is not available; gpuconf doctor says more"),
        (
            {"GPUCONF_SIMULATE": "2xT4", "CUDA_VISIBLE_DEVICES": ""},
            "no GPUs: CUDA_VISIBLE_DEVICES='' shows none of the 2 GPUs of this machine",
        ),
    ],
)
def test_visible_says_why_there_is_none(here: Path, env: dict[str, str], why: str) -> None:
    assert run("visible", cwd=here, env=env) == (3, "\n", f"gpuconf visible: {why}\n")
