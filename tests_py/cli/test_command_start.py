"""What commands import: most of the time of a short one goes into that."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from script import environment, execute, run_well

COMMAND = str(Path(sys.executable).with_name("gpuconf"))

# What takes a millisecond or more beside a bare interpreter, and is of no use to a command that ends well.
HEAVY = {
    "bz2", "contextlib", "ctypes", "difflib", "inspect", "json", "locale", "lzma", "shutil", "subprocess", "tempfile",
    "threading", "typing", "zlib",
}  # fmt: skip


def imported(tmp_path: Path, *words: str) -> set[str]:
    """The modules that a command imports, from its own first one on: an installer's script may import re before."""
    # In its own folder: where another job was killed a command cleans up, with modules that it does not need else.
    places = {"GPUCONF_LEDGER": str(tmp_path / "ledger"), "XDG_RUNTIME_DIR": str(tmp_path)}
    env = environment({"GPUCONF_SIMULATE": "T4", **places})
    done = execute([sys.executable, "-X", "importtime", COMMAND, *words], check=True, env=env)
    names = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    return set(names[names.index("gpuconf._core") :])


def own(names: set[str]) -> set[str]:
    return {name.removeprefix("gpuconf.") for name in names if name.startswith("gpuconf.")}


SHARED = {
    "_core", "_core.block", "_core.fork", "_core.public", "__main__", "cli", "cli.main", "cli.console", "simulation",
    "_typing",
}  # fmt: skip
PARSED = {*SHARED, "cli.commands", "cli.parser"}
PRINTING = {*PARSED, "_core.table", "cli.output"}


def test_the_version(tmp_path: Path) -> None:
    names = imported(tmp_path, "--version")
    assert own(names) == SHARED
    assert names & {*HEAVY, "argparse", "re", "signal"} == set()


# What reads the settings and calls the core.
CALLING = {
    "_core._gpuconf", "_core.device_spec", "_core.devices", "_core.html", "_core.message", "_core.native",
    "_core.runtime", "_core.settings", "_core.settings_file", "_core.size_text", "_core.sizes", "_core.table",
    "_core.texts", "_core.generated", "_core.generated.visible", "_missing", "errors",
}  # fmt: skip
LEDGER = {
    "_core.handle", "_core.generated.cards", "_core.generated.ledger", "machine", "machine.cards", "leases",
    "leases.ledger", "leases.proc",
}  # fmt: skip


def test_a_program_without_a_lease(tmp_path: Path) -> None:
    names = imported(tmp_path, "run", "true")
    modules = {"jobs", "jobs.execute", "cli.simulated", "cli.run"}
    # Whether it leases memory without an option is a setting. The core is not called for it.
    assert own(names) == {*PARSED, *modules, *CALLING} - {"_core._gpuconf", "_core.runtime"}
    assert names & {*HEAVY, "argparse", "re", "signal"} == set()


def test_the_list_of_processes(tmp_path: Path) -> None:
    names = imported(tmp_path, "ps")
    modules = {
        "cli.processes",
        "cli.ps",
        "jobs",
        "jobs.budget_file",
        "jobs.generated",
        "jobs.generated.budget_layout",
        "leases.view",
    }
    assert own(names) - {"jobs.simulated_cards"} == {*PRINTING, *CALLING, *LEDGER, *modules}
    assert names & {*HEAVY, "math", "signal", "weakref"} == set()


def test_a_program_with_a_lease(tmp_path: Path) -> None:
    """Also where the folder of a killed job is to be removed."""
    abandoned = tmp_path / "gpuconf-run-0123"
    abandoned.mkdir()
    (abandoned / "processes").touch()
    os.utime(abandoned, (0, 0))
    names = imported(tmp_path, "run", "--memory", "1GiB", "true")
    left_out = {
        "config",
        "memory",
        "plans",
        "simulation.",
        "tensors",
        "jobs.simulated_cards",
    }
    assert not abandoned.exists()
    assert {name for name in own(names) if name.startswith(tuple(left_out))} == set()
    assert names & {*HEAVY, "math", "weakref"} == set()


def test_a_command_looks_for_no_cycles_of_objects() -> None:
    """It took a tenth of the time: there are none among what imports make."""
    out = run_well(
        """
        import atexit, gc, sys
        from gpuconf.__main__ import main
        before = gc.get_stats()[0]["collections"]
        atexit.register(lambda: print(gc.get_stats()[0]["collections"] - before))
        sys.argv = ["gpuconf", "visible", "--json"]
        main()
        """,
        env={"GPUCONF_SIMULATE": "T4"},
    )
    assert out.splitlines()[-1] == "0"
