"""Standard output and standard error that are closed, full, or with an encoding of few characters.

``gpuconf plan --plot`` and ``print(memory_map())`` ended in UnicodeEncodeError if the encoding was not UTF-8, a closed
standard output in AttributeError, and a full disk in "Exception ignored" and exit code 120.
"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import gpuconf
import pytest
from command import COMMAND
from gpuconf._core.command import run
from script import environment, run_well

TRACE = """Thread,Time,Action,Pointer,Size,Stream
1,10:00:00.0,allocate,0x1000000,2097152,0
1,10:00:00.5,allocate,0x2000000,4194304,0
1,10:00:01.0,free,0x1000000,2097152,0
"""
COMMANDS = {
    "plan": "plan trace.csv --limit 8MiB",
    "no fit": "plan trace.csv --limit 1MiB",
    "plot": "plan trace.csv --plot",
    "json and plot": "plan trace.csv --json --plot",
    "no trace": "plan missing.csv",
    "wrong usage": "plan trace.csv --steps much",
    "unknown option": "plan trace.csv --nonsense",
    "devices": "devices",
    "help": "--help",
}
CODES = dict.fromkeys(COMMANDS, 0) | {"no fit": 3, "no trace": 1, "wrong usage": 2, "unknown option": 2}
QUIET = ("no trace", "wrong usage", "unknown option")  # they print nothing on standard output
every_command = pytest.mark.parametrize("command", COMMANDS)
COMMANDS_OF_TOP = {"top": "top", "help of top": "top --help"}
few_commands = pytest.mark.parametrize(
    "command", ["json and plot", "no trace", "wrong usage", "unknown option", "help"]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "trace.csv").write_text(TRACE)
    return tmp_path


def shell(folder: Path, command: str, redirections: str = "", **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a shell. Python's own failures show on standard error, if that is open."""
    variables = {"GPUCONF_SIMULATE": "2xT4", "NO_COLOR": "1", "PYTHONUNBUFFERED": "", **variables}
    done = subprocess.run(
        ["bash", "-c", f"{COMMAND} {(COMMANDS | COMMANDS_OF_TOP)[command]} {redirections}"],
        capture_output=True, check=False, cwd=folder, env=environment(variables), timeout=60,
    )  # fmt: skip
    for words in (b"Traceback", b"Exception ignored", b"Error:"):
        assert words not in done.stderr, done.stderr.decode()
    return done


ENCODINGS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "the locale C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@every_command
def test_an_encoding_with_few_characters(folder: Path, command: str) -> None:
    done = shell(folder, command, PYTHONIOENCODING="ascii")
    assert done.returncode == CODES[command]
    assert (done.stdout + done.stderr).isascii()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_many_encodings_have_no_blocks(folder: Path, encoding: str) -> None:
    done = shell(folder, "plot", **ENCODINGS[encoding])
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_top_in_other_encodings(folder: Path, encoding: str) -> None:
    variables = {"GPUCONF_SIMULATE": "T4", "GPUCONF_LEDGER": str(folder / "ledger"), **ENCODINGS[encoding]}
    done = shell(folder, "top", **variables)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"[...." in done.stdout
    assert b"....]" in done.stdout
    told = shell(folder, "help of top", **variables)
    assert (told.returncode, told.stderr) == (0, b"")


def test_drawings_in_ascii(folder: Path) -> None:
    done = shell(folder, "plot", PYTHONIOENCODING="ascii")
    drawn = done.stdout.decode().split("limit was given\n")[-1].splitlines()[-4:]
    assert drawn == [
        "GPU:0 virtual: # in use, + reserved, full width is 6.00MiB",
        "     0.000 s  |#################.................................| 2.00MiB",
        "     0.500 s  |##################################################| 6.00MiB",
        "     1.000 s  |##################################++++++++++++++++| 4.00MiB",
    ]
    utf8 = shell(folder, "plot", PYTHONIOENCODING="utf-8").stdout.decode()
    assert utf8.encode("ascii", "replace") != utf8.encode()
    for plain, drawing in zip("#+.|", "█▒·▕", strict=True):
        assert (plain in "".join(drawn)) == (drawing in utf8)


@every_command
def test_standard_output_is_closed(folder: Path, command: str) -> None:
    done = shell(folder, command, ">&-")
    if command in QUIET and command != "no trace":
        assert done.returncode == CODES[command]
    elif command == "help":  # on standard error then
        assert done.returncode == 0
        assert done.stderr
    else:
        assert (done.returncode, done.stderr.decode()) == (
            1,
            f"gpuconf {COMMANDS[command].split()[0]}: standard output is closed\n",
        )


@few_commands
def test_standard_error_is_closed(folder: Path, command: str) -> None:
    done = shell(folder, command, "2>&-")
    assert done.returncode == CODES[command]
    assert bool(done.stdout) == (command not in QUIET), "errors do not go to standard output instead"


@few_commands
def test_both_are_closed(folder: Path, command: str) -> None:
    done = shell(folder, command, "<&- >&- 2>&-")
    assert done.returncode == (CODES[command] if command in ("help", "wrong usage", "unknown option") else 1)


@every_command
def test_the_disk_is_full(folder: Path, command: str) -> None:
    done = shell(folder, command, ">/dev/full")
    if command in QUIET:
        assert done.returncode == CODES[command]
    else:
        assert done.returncode == 1
        assert done.stderr.decode().splitlines()[-1].endswith(": standard output: No space left on device")
    assert shell(folder, command, ">/dev/full 2>/dev/full").returncode == (CODES[command] if command in QUIET else 1)


@pytest.mark.parametrize("command", ["plan", "plot", "devices"])
def test_the_disk_is_full_and_nothing_is_buffered(folder: Path, command: str) -> None:
    done = shell(folder, command, ">/dev/full", PYTHONUNBUFFERED="1")
    name = COMMANDS[command].split()[0]
    assert (done.returncode, done.stderr.decode()) == (1, f"gpuconf {name}: standard output: No space left on device\n")


@few_commands
def test_standard_error_is_full(folder: Path, command: str) -> None:
    for buffering in ("", "1"):
        done = shell(folder, command, "2>/dev/full", PYTHONUNBUFFERED=buffering)
        if command == "json and plot":  # where the drawing goes to standard error
            assert done.returncode == 1
        else:
            assert done.returncode == CODES[command]


@few_commands
def test_nobody_reads(folder: Path, command: str) -> None:
    done = shell(folder, command, "| true; exit ${PIPESTATUS[0]}")
    assert done.returncode in (CODES[command], 1)
    assert done.stderr == b"" or command in QUIET or command == "json and plot"


DRAW = """
import gpuconf

gpuconf.simulate("T4:4MiB")
buffer = gpuconf.memory.allocate("1MiB")
print(gpuconf.memory.memory_map())
print(gpuconf.memory.memory_map().draw(8))
with gpuconf.memory.record() as recording:
    gpuconf.memory.allocate("1MiB").free()
print(recording, recording.trace, gpuconf.plan(recording, limit="4MiB"), buffer, gpuconf.simulate)
try:
    gpuconf.memory.allocate("1GiB")
except MemoryError as error:
    print(error, repr(error))
buffer.free()
"""


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_a_program_prints(encoding: str) -> None:
    printed = run_well(DRAW, env=ENCODINGS[encoding])
    assert printed.isascii()
    assert "|##......|" in printed
    assert "▕██······▏" in run_well(DRAW, env={"PYTHONIOENCODING": "utf-8"})


def test_a_stream_without_an_encoding_takes_all_characters(one_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with gpuconf.memory.allocate(1000):
        picture = gpuconf.memory.memory_map()
    for stream in (io.StringIO(), None, object()):
        monkeypatch.setattr("sys.stdout", stream)
        assert "▕" in str(picture)
    for encoding, left in (("utf-16", "▕"), ("cp437", "|"), ("no such encoding", "|"), ("ascii", "|")):
        monkeypatch.setattr("sys.stdout", type("Stream", (), {"encoding": encoding})())
        assert left in str(picture)


@pytest.mark.parametrize("width", [0, -1, 10_001, 1 << 20_000], ids=lambda width: width.bit_length())
def test_a_width_that_is_no_width(one_gpu: None, width: int) -> None:
    with pytest.raises(ValueError, match="width must be 1 to 10000 cells, but got "):
        gpuconf.memory.memory_map().draw(width)
    with pytest.raises(TypeError, match="width must be an int, but got str: '8'"):
        gpuconf.memory.memory_map().draw("8")  # type: ignore[arg-type]


def test_the_placement_log_loses_no_tensor() -> None:
    """A failing standard error made an operation fail that had run."""
    pytest.importorskip("numpy")
    run_well("""
        import io, sys
        import gpuconf

        class Broken(io.StringIO):
            def write(self, text):
                raise OSError(28, "No space left on device")

        gpuconf.simulate("T4")
        gpuconf.debugging.set_log_device_placement(True)
        closed = io.StringIO()
        closed.close()
        ascii = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
        for sys.stderr in (Broken(), closed, ascii, None, sys.__stderr__):
            gpuconf.debugging.set_log_device_placement(sys.stderr is not sys.__stderr__)
            assert gpuconf.constant([1.0], name="\\u00e9t\\u00e9").numpy() == [1]
        assert b"Executing op" in ascii.buffer.getvalue()
    """)


def test_the_text_of_another_program_need_not_be_utf_8() -> None:
    """A path in what ``nvidia-smi`` or a loader printed ended gpuconf doctor. One function runs such programs."""
    code = "import os; os.write(1, b'a\\xffb'); os.write(2, b'\\xfe')"
    done = run([sys.executable, "-c", code])
    assert (done.stdout, done.stderr, done.returncode) == ("a\ufffdb", "\ufffd", 0)
    package = Path(gpuconf.__file__).parent
    others = [path.name for path in package.rglob("*.py") if "text=True" in path.read_text(encoding="utf-8")]
    assert others == []
