"""What all commands have in common: help with an example, JSON, tables, completion."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from command import COMMAND, run
from gpuconf.cli import manual
from gpuconf.cli.parser import COMMANDS, HELP, arguments, function
from holder import holder
from script import environment, execute, without_others


def on_terminal(*arguments: str, columns: int, env: dict[str, str] | None = None) -> str:
    """What a command writes to a terminal of that width, with its control sequences."""
    ours, theirs = pty.openpty()
    sized = {"COLUMNS": str(columns), "LINES": "50", "TERM": "xterm-256color", **(env or {})}
    done = subprocess.Popen([COMMAND, *arguments], stdout=theirs, stderr=subprocess.PIPE, env=environment(sized))
    os.close(theirs)
    written = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # the terminal has no writer any more
            break
        if not chunk:
            break
        written += chunk
    os.close(ours)
    _, complaints = done.communicate(timeout=60)
    assert complaints == b""
    return written.decode()


@pytest.mark.parametrize("command", [None, *COMMANDS])
@pytest.mark.parametrize("columns", ["80", "200"])
def test_help(command: str | None, columns: str) -> None:
    """At most 80 columns, and an example, in three ways."""
    words = command.split() if command else []
    code, out, err = run(*words, "--help", env={"COLUMNS": columns})
    assert (code, err) == (0, "")
    assert "\nexample:\n  " in out
    assert max(map(len, out.splitlines())) <= 80
    if columns == "80" and len(words) < 2:
        assert run("help", *words, env={"COLUMNS": columns}) == (0, out, "")
        assert run("--help", *words, env={"COLUMNS": columns}) == (0, out, "")


def test_help_lists_every_command() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert all(f"  {command} " in out for command in COMMANDS if " " not in command)


def test_a_table_in_a_pipe_has_all_columns_and_no_colors() -> None:
    _, out, _ = run("devices", env={"GPUCONF_SIMULATE": "2xH100-80GB", "COLUMNS": "40"})
    header = out.splitlines()[1]
    assert header.split()[0] == "CUDA"
    assert header.split()[-1] == "device"
    assert "\033" not in out


@pytest.mark.parametrize("rich", [True, False], ids=["rich", "plain"])
def test_a_table_on_a_terminal_fits(tmp_path: Path, rich: bool) -> None:
    env = {"GPUCONF_SIMULATE": "2xH100-80GB", "NO_COLOR": "1"}
    if not rich:
        (tmp_path / "rich.py").write_text("raise ImportError('not here')")
        env["PYTHONPATH"] = str(tmp_path)
    narrow = on_terminal("devices", columns=80, env=env)
    wide = on_terminal("devices", columns=200, env=env)
    uuid = run("devices", env=env)[1].split("GPU-")[1].split()[0]
    for text, width in ((narrow, 80), (wide, 200)):
        lines = text.replace("\033[1m", "").replace("\033[0m", "").replace("\r", "").splitlines()
        assert max(map(len, lines)) <= width
        assert f"GPU-{uuid}" in text
    assert "/physical_device:GPU:0" in wide
    assert "/physical_device:GPU:0" not in narrow


@pytest.mark.parametrize("rich", [True, False], ids=["rich", "plain"])
def test_a_long_command_is_cut_on_a_terminal(tmp_path: Path, rich: bool) -> None:
    env = {"GPUCONF_SIMULATE": "H100-80GB", "GPUCONF_LEDGER": str(tmp_path / "ledger"), "NO_COLOR": "1"}
    if not rich:
        (tmp_path / "rich.py").write_text("raise ImportError('not here')")
        env["PYTHONPATH"] = str(tmp_path)
    with holder(env, 10 << 30, 8 << 30, 3 << 30):
        for command in (["ps"], ["stats"], ["lease", "--list"]):
            shown = (
                on_terminal(*command, columns=80, env=env)
                .replace("\033[1m", "")
                .replace("\033[0m", "")
                .replace("\r", "")
            )
            lines = without_others(shown).splitlines()
            (line,) = (line for line in lines if "GiB" in line and not line.startswith("GPU "))
            assert len(line.rstrip()) <= 80
            assert "…" in line
            assert "…" not in run(*command, env=env)[1], "in a pipe no text is cut"
        assert "training: python" in run("ps", env=env)[1], "the program without its folder"
        program = Path(sys.executable).name
        # Which used to show the folder, and on a terminal nothing else.
        for words in (["lease", "--list"], ["ledger", "list"]):
            assert f"  {program} -c" in run(*words, env=env)[1]


@pytest.mark.parametrize("words", [["lease", "--list"], ["ledger", "list"]], ids=" ".join)
def test_a_long_name_is_cut_on_a_terminal(tmp_path: Path, words: list[str]) -> None:
    """The table was wider than the terminal."""
    env = {"GPUCONF_SIMULATE": "H100-80GB", "GPUCONF_LEDGER": str(tmp_path / "ledger"), "NO_COLOR": "1"}
    name = "nightly training of the large model, second shard of eight"
    inside = ("lease", "--memory=2GiB", f"--name={name}", "--", COMMAND, *words)
    narrow = (
        on_terminal(*inside, columns=80, env=env)
        .replace("\033[1m", "")
        .replace("\033[0m", "")
        .replace("\r", "")
        .splitlines()
    )
    (line,) = (line for line in narrow if f" {name[:15]}" in line)
    assert "…" in line
    assert max(map(len, narrow[-2:])) <= 80
    assert f" {name} " in on_terminal(*inside, columns=250, env=env)


def test_colors_are_for_terminals_and_NO_COLOR_turns_them_off() -> None:  # noqa: N802
    env = {"GPUCONF_SIMULATE": "H100"}
    assert "\033[1m" in on_terminal("devices", columns=200, env=env)
    assert "\033[3" not in on_terminal("devices", columns=200, env={**env, "NO_COLOR": "1"})
    assert "\033" not in on_terminal("devices", columns=200, env={**env, "TERM": "dumb"})


def test_completion_knows_the_commands_and_their_options(tmp_path: Path) -> None:
    code, script, err = run("completion", "bash")
    assert (code, err) == (0, "")
    (tmp_path / "gpuconf").write_text(script)
    (tmp_path / "trace.csv").touch()
    ask = """
    source ./gpuconf
    COMP_WORDS=(gpuconf {words}) COMP_CWORD={last}
    _gpuconf gpuconf; echo "${{COMPREPLY[@]}}"
    """
    for words, last, wanted in (
        ("dev", 1, "devices"),
        ("devices --j", 2, "--json"),
        ("run --policy s", 3, "spread"),
        ("run --as-t", 2, "--as-tensorflow"),
        ("ledger ch", 2, "check"),
        ("ledger init --sh", 3, "--shared"),
        ("completion f", 2, "fish"),
        ("plan --html tr", 3, ""),  # a file, which bash completes itself
    ):
        done = execute(["bash", "-c", ask.format(words=words, last=last)], check=True, cwd=tmp_path)
        assert (done.stdout.strip(), done.stderr) == (wanted, ""), words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_completion_has_all_options(shell: str) -> None:
    code, script, err = run("completion", shell)
    assert (code, err) == (0, "")
    for command in COMMANDS:
        for argument in arguments(command):
            assert all(name.lstrip("-") in script for name in argument.names)
    program = shutil.which(shell)
    if program:  # it can read what it gets
        flags = {"fish": ["--no-execute"]}.get(shell, ["-n"])
        subprocess.run([program, *flags], input=script, text=True, check=True, timeout=60)


def test_the_manual_page() -> None:
    text = manual.page()
    for command in COMMANDS:
        assert f'.SS "gpuconf {command}"' in text
        for argument in arguments(command):
            assert argument is HELP or argument.form.replace("-", "\\-") in text
    groff = shutil.which("groff")
    if groff:
        words = [groff, "-man", "-Tutf8", "-ww"]
        assert execute(words, input=text, check=True).stderr == ""
    installed = sysconfig.get_path("data")
    assert Path(installed, "share/man/man1/gpuconf.1").read_text() == text, "pip install puts it where man looks"


@pytest.mark.parametrize("command", [command for command in COMMANDS if COMMANDS[command][0]])
def test_each_command_has_a_function(command: str) -> None:
    assert callable(function(command))
