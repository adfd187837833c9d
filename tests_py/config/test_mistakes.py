"""Mistakes as beginners make them that cli/mistakes.txt cannot have: warnings, files and what several calls do. Each
message says what is wrong and what was meant.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gpuconf
import pytest
from gpuconf import _missing
from gpuconf.cli.main import main
from script import environment, execute, run

# A settings file: what the first call says of it.
FILES = {
    "limit = 6": "must be at least 1 MiB, such as '6GiB', but got 6; did you mean '6GiB'?",
    "limit = 6.5": "but got float: 6.5; did you mean '6.5GiB'?",
    "growth = 'true'": "must be true or false, but got 'true'; did you mean true?",
    "growth = 1": "must be true or false, but got 1; did you mean true?",
    "growth = True": "(at line 1, column 10); TOML has true",
    "limit = 6GiB": '(at line 1, column 10); text needs quotes: limit = "6GiB"',
    "growht = true": "unknown setting 'growht'. Did you mean growth?",
    "mem = '6GiB'": "unknown setting 'mem'. Did you mean limit?",
    "[gpuconf]\nlimit = '6GiB'": "has the table [gpuconf]: write its settings without a table, at the top",
}


@pytest.fixture
def one_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUCONF_SIMULATE", "T4")
    monkeypatch.setenv("GPUCONF_LEDGER", str(tmp_path / "ledger"))


def test_a_lease_without_with(one_card: None) -> None:
    with pytest.warns(
        UserWarning, match="this lease was never entered, so nothing was leased: write `with gpuconf.lease"
    ):
        gpuconf.lease(memory="1GiB")


def test_a_lease_that_lives_as_long_as_the_process() -> None:
    """Where it ended with the process, nothing was said."""
    done = run("import gpuconf\n\nkept = gpuconf.lease(memory='1GiB')\n", env={"GPUCONF_SIMULATE": "T4"})
    (line,) = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert line.endswith(
        ":3: UserWarning: this lease was never entered, so nothing was leased: write `with gpuconf.lease(...):`"
    )


@pytest.mark.parametrize("name", ["GPUCONF_LIMT", "GPUCONF_MEMORY_LIMIT"])
def test_a_misspelled_variable(name: str) -> None:
    """It was no limit, and only doctor said so. Once in a process."""
    program = "import gpuconf; gpuconf.configure(growth=True, libraries=[]); gpuconf.memory.stats('GPU:0')"
    done = run(program, env={"GPUCONF_SIMULATE": "T4", name: "1GiB"})
    assert done.stderr == (
        f"environment:0: UserWarning: {name} is set, but gpuconf has no such variable: did you mean GPUCONF_LIMIT?\n"
    )


def test_a_tag_without_with() -> None:
    with pytest.warns(UserWarning, match="this tag was never entered: write `with gpuconf.memory.tag"):
        gpuconf.memory.tag("weights")


def test_commands_that_are_looked_for_in_python_are_commands() -> None:
    for name in _missing.COMMANDS:
        with pytest.raises(AttributeError, match=f"it is a command: gpuconf {name} --help"):
            getattr(gpuconf, name)
        assert main([name, "--help"]) == 0
    # A module, once something has imported it.
    assert _missing.elsewhere("gpuconf", "rehearsal") == 'use gpuconf.rehearse("A10")'
    assert set(_missing.OF_MEMORY) <= set(gpuconf.memory.__all__)


def test_silent_calls() -> None:
    """Each did nothing, or not what it was meant for, and said nothing."""
    program = """
        import gpuconf
        gpuconf.config.list_physical_devices("gpu")
        gpuconf.config.list_logical_devices("gpu")
        gpuconf.config.get_visible_devices("cpu")
        gpuconf.config.list_logical_devices("GPU:0")
        gpuconf.config.list_physical_devices("TPU")
        gpuconf.device("GPU:0")
        with gpuconf.device("GPU:0"):
            pass
        try:
            gpuconf.device("GPU:9").__enter__()
        except ValueError:
            pass
        gpuconf.reset()
        card = gpuconf.config.list_physical_devices("GPU")[0]
        whole = gpuconf.config.LogicalDeviceConfiguration(memory_limit=6 << 30)
        gpuconf.config.set_logical_device_configuration(card, [whole])
        gpuconf.memory.stats()
    """
    done = run(program, env={"GPUCONF_SIMULATE": "T4"}, flags=["-W", "always"])
    lines = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert [line.partition("UserWarning: ")[2] for line in lines] == [
        "device types are case-sensitive, and 'gpu' matches no device. Did you mean 'GPU'?",
        "device types are case-sensitive, and 'gpu' matches no device. Did you mean 'GPU'?",
        "device types are case-sensitive, and 'cpu' matches no device. Did you mean 'CPU'?",
        "device types have no number, and 'GPU:0' matches no device. Did you mean 'GPU'?",
        "this device scope was never entered: write `with gpuconf.device(...):`",
        "the memory_limit of GPU:0 is 6.00PiB, and Tesla T4 has only 14.56GiB: the excess is not available. "
        "memory_limit is a number of MiB, and 6442450944 looks like bytes: write 6144",
    ]
    assert [line.partition(":")[2].partition(":")[0] for line in lines] == ["3", "4", "5", "6", "8", "19"]
    program = "import gpuconf; print(gpuconf.config.list_physical_devices('GPU'))"
    done = run(program, env={"GPUCONF_SIMULATE": "2xT4", "CUDA_VISIBLE_DEVICES": "cuda:1"})
    assert done.stdout == "[]\n"
    assert done.stderr == (  # no line of gpuconf's own
        'environment:0: UserWarning: CUDA_VISIBLE_DEVICES="cuda:1": CUDA ignores "cuda:1" and what follows it. '
        'Did you mean "1"?\n'
    )
    done = run(program, env={"GPUCONF_SIMULATE": "T4", "CUDA_DEVICE_ORDER": "PCI"})
    assert 'CUDA_DEVICE_ORDER="PCI": CUDA ignores it. It knows FASTEST_FIRST and PCI_BUS_ID' in done.stderr


def test_options_after_the_program(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("gpuconf"), "run", "--growth", "python", "--memory", "1GiB", "-c", "1"]
    done = execute(command, env=environment({"GPUCONF_SIMULATE": "T4"}), cwd=tmp_path)
    assert (
        "gpuconf run: --memory is passed to python: gpuconf's own options come before the program's name" in done.stderr
    )


@pytest.mark.parametrize("contents", FILES)
def test_settings_file(contents: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpuconf.toml").write_text(contents)
    monkeypatch.setenv("GPUCONF_CONFIG", str(tmp_path / "gpuconf.toml"))
    monkeypatch.setenv("GPUCONF_SIMULATE", "T4")
    with pytest.raises(ValueError, match=r"gpuconf\.toml") as raised:
        gpuconf.memory.stats()
    assert FILES[contents] in str(raised.value)


def test_a_fixture_of_the_plugin_without_its_argument(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_machine(gpu_simulate): gpu_simulate()\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--gpuconf-simulate=T4"]
    done = execute(command, env=environment(), cwd=tmp_path)
    assert "gpu_simulate() missing 1 required positional argument: 'spec'" in done.stdout


def test_what_came_too_late_names_the_programs_line(tmp_path: Path) -> None:
    """It named the line of a library, such as PyTorch, that had used the GPU for the program."""
    library, program = tmp_path / "site-packages" / "library.py", tmp_path / "program.py"
    library.parent.mkdir()
    library.write_text("import gpuconf\ndef use(): gpuconf.memory.stats()\n")
    program.write_text("import library, gpuconf\nlibrary.use()\ngpuconf.configure('1GiB', libraries=[])\n")
    env = environment({"GPUCONF_SIMULATE": "T4", "PYTHONPATH": str(library.parent)})
    done = execute([sys.executable, program], env=env)
    assert f"the GPUs were initialized by {program}:2 (memory.stats)" in done.stderr
