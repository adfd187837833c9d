"""``gpuconf top`` on a terminal, which pyte emulates."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import gpuconf
import pyte
import pytest
from command import COMMAND
from holder import holder
from script import environment, execute

GIB = 1 << 30


class Terminal:
    """A program in a terminal of some size."""

    def __init__(self, words: list[str], env: dict[str, str], columns: int, lines: int) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._ours, theirs = pty.openpty()
        self.written = b""
        self._size(columns, lines)
        kept = environment({"TERM": "xterm-256color", **env})
        for name in ("COLUMNS", "LINES"):
            kept.pop(name, None)
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        # A session of its own, so that the kernel signals a new size to it.
        self.program = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, env=kept, preexec_fn=_own_terminal
        )

    def _size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        self._size(columns, lines)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def shows(self, text: str, seconds: float = 20) -> str:
        """Wait until the screen contains a text, and the rest of it is drawn. Returns the screen."""
        deadline = time.monotonic() + seconds
        while True:
            while select.select([self._ours], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # the program has ended
                    self._feed(os.read(self._ours, 65536))
            shown = "\n".join(self.screen.display)
            if text in shown:
                return shown
            assert time.monotonic() < deadline, shown

    def _feed(self, data: bytes) -> None:
        self.written += data
        self._stream.feed(data)

    def end(self) -> int:
        code = self.program.wait(30)
        while select.select([self._ours], [], [], 0)[0]:
            self._feed(os.read(self._ours, 65536))
        return code

    def close(self) -> None:
        self.program.kill()
        self.program.wait()
        os.close(self.theirs)
        os.close(self._ours)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextlib.contextmanager
def top(env: dict[str, str], *options: str, columns: int = 80, lines: int = 24) -> Iterator[Terminal]:
    terminal = Terminal([COMMAND, "top", *options], env, columns, lines)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"GPUCONF_SIMULATE": "2xH100-80GB", "GPUCONF_LEDGER": str(tmp_path / "ledger")}


def test_without_rich_one_line_names_the_extra(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ImportError('not here')")
    with top({**env, "PYTHONPATH": str(tmp_path)}, columns=120) as terminal:
        terminal.shows("gpuconf top on a terminal needs rich (not here): pip install 'gpuconf[cli]'")
        assert terminal.end() == 1


def test_it_fits_and_follows_the_size(env: dict[str, str]) -> None:
    with holder(env, lease=10 * GIB, pool=8 * GIB, used=3 * GIB) as program, top(env) as terminal:
        shown = terminal.shows(str(program.pid)).splitlines()
        assert f"gpuconf {gpuconf.__version__}  simulated 2xH100-80GB" in shown[0]
        assert shown[2].endswith("of  79.18GiB"), "the last column is there"
        assert "███" in shown[2] or "██" in shown[2]
        assert "░" in shown[2]
        assert shown[-1].startswith("q quit")
        assert "user" not in "\n".join(shown), "no room for it"
        terminal.resize(200, 30)
        wide = terminal.shows("user").splitlines()
        assert wide[1].endswith("in use   3.00GiB")
        assert "leased  10.00GiB" in wide[1]
        assert wide[-1].startswith("q quit")
        terminal.resize(40, 8)
        assert len(terminal.shows("q quit  h help  arrows select  , . / ord").splitlines()) == 8
        terminal.press("q")
        assert terminal.end() == 0
        assert b"\033[3" in terminal.written


def test_the_help_fits(env: dict[str, str]) -> None:
    with top(env) as terminal:
        terminal.shows("q quit")
        terminal.press("h")
        assert "sort by memory, lease, in use, PID, user, GPU" in terminal.shows("this help")
        terminal.resize(60, 20)
        terminal.shows("sort by memory, lease, in us\n")
        terminal.press("q")  # any key leaves it
        terminal.press("q")
        assert terminal.end() == 0


def test_keys(env: dict[str, str]) -> None:
    with holder(env, lease=10 * GIB) as first, holder(env, lease=20 * GIB) as second, top(env, columns=120) as terminal:
        terminal.shows(str(second.pid))
        terminal.press("L")
        shown = terminal.shows("by lease")
        assert shown.index(str(second.pid)) < shown.index(str(first.pid)), "the largest first"
        terminal.press("/")
        shown = terminal.shows("by lease, reversed")
        assert shown.index(str(first.pid)) < shown.index(str(second.pid))
        terminal.press(".")
        terminal.shows("by in use, reversed")
        terminal.press(",,")
        terminal.shows("by memory, reversed")
        terminal.press("h")
        assert "this help" in terminal.shows("sort by memory, lease")
        terminal.press("\033[B")  # any key leaves it
        terminal.shows("notes")
        terminal.press("\033[B\033[B\033[A")
        row = next(i for i, line in enumerate(terminal.shows("notes").splitlines()) if "notes" in line) + 1
        deadline = time.monotonic() + 20
        while not terminal.screen.buffer[row][0].reverse:
            assert time.monotonic() < deadline
            terminal.shows("notes")
        terminal.press("\033")
        assert terminal.end() == 0


def test_a_job_is_ended_after_a_question(env: dict[str, str]) -> None:
    """The selected one, by SIGTERM, and only after "y"."""
    with holder(env, lease=10 * GIB) as first, holder(env, lease=20 * GIB) as second, top(env, columns=120) as terminal:
        terminal.shows(str(second.pid))
        terminal.press("LT")
        terminal.shows(f"End training {second.pid}, ")
        terminal.press("n")
        terminal.shows("nothing was ended")
        terminal.press("T")
        terminal.shows(f"End training {second.pid}, ")
        assert second.poll() is None
        terminal.press("y")
        terminal.shows(f"SIGTERM was sent to PID {second.pid}")
        assert second.wait(20) == -signal.SIGTERM
        assert first.poll() is None
        terminal.press("\033")
        assert terminal.end() == 0


def test_a_job_is_ended_through_the_command_that_leased_for_it(env: dict[str, str]) -> None:
    """So that the program gets the signal, and its memory goes to the next."""
    script = "trap 'echo asked to end; exit 7' TERM; echo runs; while :; do sleep 0.1; done"
    words = [COMMAND, "run", "--memory", "1GiB", "--name", "chat", "--", "bash", "-c", script]
    with (
        subprocess.Popen(words, env=environment(env), stdout=subprocess.PIPE, text=True) as job,
        top(env, columns=120) as terminal,
    ):
        assert job.stdout is not None
        assert job.stdout.readline() == "runs\n"
        terminal.shows("chat")
        terminal.press("Ty")
        terminal.shows("SIGTERM was sent")
        assert job.stdout.read() == "asked to end\n"
        assert job.wait(20) == 7
        terminal.shows("no processes")
        terminal.press("T")  # of nothing
        terminal.press("q")
        assert terminal.end() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user's process")
def test_a_job_of_another_user_is_not_ended(env: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are this user's alone
        os.chmod(folder, 0o755)
        _of_another_user({**env, "GPUCONF_LEDGER": f"{folder}/ledger"})


def _of_another_user(env: dict[str, str]) -> None:
    ledger = env["GPUCONF_LEDGER"]
    subprocess.run([COMMAND, "ledger", "init", "--shared", ledger], check=True, capture_output=True, timeout=60)
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with holder(env, lease=GIB, inside=other) as program, top(env, columns=120) as terminal:
        terminal.shows(str(program.pid))
        terminal.press("T")
        terminal.shows(f"PID {program.pid} is not yours: only its user can end it here")
        assert program.poll() is None
        terminal.press("q")
        assert terminal.end() == 0


def test_the_terminal_is_as_before(env: dict[str, str]) -> None:
    for key, code in (("q", 0), ("\003", 130)):
        with top(env) as terminal:
            terminal.shows("no processes")
            assert termios.tcgetattr(terminal.theirs) != terminal.before, "keys are not shown"
            terminal.press(key)
            assert terminal.end() == code
            assert termios.tcgetattr(terminal.theirs) == terminal.before
            assert terminal.written.endswith(b"\033[?25h\033[?1049l")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_before(env: dict[str, str], number: signal.Signals) -> None:
    with top(env) as terminal:
        terminal.shows("no processes")
        terminal.program.send_signal(number)
        assert terminal.end() == 128 + number
        assert termios.tcgetattr(terminal.theirs) == terminal.before
        assert terminal.written.endswith(b"\033[?25h\033[?1049l")


def test_ctrl_z_leaves_the_terminal_to_the_shell(env: dict[str, str]) -> None:
    shell = f"set -m; {COMMAND} top; stty -a | grep -o -- '-*icanon'; sleep 1; fg; echo end of the shell"
    terminal = Terminal(["bash", "-c", shell], env, 80, 24)
    try:
        terminal.shows("no processes")
        terminal.press("\032")
        terminal.shows("icanon")
        assert b"\033[?1049l" in terminal.written
        assert b"-icanon" not in terminal.written
        deadline = time.monotonic() + 20
        while terminal.written.count(b"\033[?1049h") < 2:
            assert time.monotonic() < deadline
            terminal.shows("")
        terminal.press("q")
        terminal.shows("end of the shell")
        assert terminal.end() == 0
        assert termios.tcgetattr(terminal.theirs) == terminal.before
    finally:
        terminal.close()


def test_no_colors(env: dict[str, str]) -> None:
    with top({**env, "NO_COLOR": "1"}) as terminal:
        terminal.shows("no processes")
        terminal.press("q")
        assert terminal.end() == 0
        assert b"\033[1m" not in terminal.written


def test_it_ends_by_itself(env: dict[str, str]) -> None:
    with top(env, "--interval", "0.1", "--iterations", "3") as terminal:
        assert terminal.end() == 0


def test_many_cards_fit(env: dict[str, str]) -> None:
    with top({**env, "GPUCONF_SIMULATE": "64xT4"}) as terminal:
        assert "and 53 more cards" in terminal.shows("more cards")
        assert terminal.screen.display[-1].startswith("q quit")
        terminal.press("q")
        assert terminal.end() == 0


@pytest.mark.parametrize("columns", [40, 60])
def test_a_narrow_screen_keeps_the_numbers(tmp_path: Path, columns: int) -> None:
    """Of several cards on few lines: the name is cut, and not the memory."""
    env = {"GPUCONF_SIMULATE": "30xH100", "GPUCONF_LEDGER": str(tmp_path / "ledger"), "COLUMNS": str(columns)}
    done = execute([COMMAND, "top"], env=environment(env))
    cards = [line for line in done.stdout.splitlines() if "[" in line]
    assert len(cards) > 10
    assert all(line.endswith("0B of  79.18GiB") and len(line) <= columns for line in cards)
