"""Print mistakes of users, and what each is answered: ``python tests_py/cli/mistakes.py > tests_py/cli/mistakes.txt``.

Reads the mistakes of that file: command lines after ``$``, calls after ``>>>``, commands of notebooks after ``%``, and
pytest's command lines and marks. Below each stands its exit code or the error's class, and the message.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pickle
import re
import shlex
import signal
import sys
import tempfile
import warnings
from pathlib import Path

FILE = Path(__file__).with_name("mistakes.txt")
BLOCK = "Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.000000,allocate,0x100000000,9663676416,0\n"


def prepare(folder: Path) -> None:
    """Make the files that the mistakes name, and the environment."""
    for name, text in {
        "train.py": "print('hello')\n",
        "notes.md": "notes\n",
        "log.txt": "epoch 1 loss 0.5\nepoch 2 loss 0.4\n",
        "data.json": '{"a": 1}\n',
        "empty.csv": "",
        "bad.toml": "limit = 6GiB\n",
        "unknown.toml": "limits = '6GiB'\n",
        "trace.csv": BLOCK,
        "jobs/a.csv": BLOCK,
        "empty/.keep": "",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "weights.pt").write_bytes(b"PK\x03\x04" + b"\0" * 200)
    (folder / "broken.pickle").write_bytes(pickle.dumps({"segments": [{"a": "x" * 70000}]})[:100])
    os.chdir(folder)
    os.environ.update(
        GPUCONF_LEDGER=str(folder / "ledger"), GPUCONF_SIMULATE="2xT4", GPUCONF_CONFIG="", COLUMNS="400",
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", PYTHONDONTWRITEBYTECODE="1",
        PYTHONUNBUFFERED="1",
    )  # fmt: skip


def in_child(function: object, *arguments: object) -> str:
    """Call a function in a child of this process, which has not loaded the core. Returns its output and status."""
    warnings.simplefilter("ignore")  # they name files of this installation
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # in order with standard error
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            status = 1
            try:
                status = function(*arguments)  # type: ignore[operator]
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(int(status))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        file.seek(0)
        return f"[{code}] {file.read().decode()}"


def command(line: str) -> str:
    words = shlex.split(line)
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        os.environ[name] = value

    def run() -> int:
        from gpuconf.cli.main import main

        return main(words[1:])

    return in_child(run)


def call(line: str) -> str:
    def run() -> int:
        os.environ["GPUCONF_SIMULATE"] = ""
        import gpuconf

        names = {"gpuconf": gpuconf, "tf": gpuconf, "gpu": lambda: gpuconf.config.list_physical_devices("GPU")[0]}
        try:
            if "tf1." in line:
                names["tf1"] = gpuconf.compat.v1
            exec(line, names)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
            return 1
        return 0

    return in_child(run)


def magic(line: str) -> str:
    def run() -> int:
        from IPython.core.interactiveshell import InteractiveShell

        shell = InteractiveShell.instance(history_manager=None)
        shell.run_cell("%load_ext gpuconf")
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            done = shell.run_cell(f"{line}\nx = 1" if line.startswith("%%") or " fits" in line else line)
        print(said.getvalue().strip())
        return 0 if done.success else 1

    return in_child(run)


def suite(line: str) -> str:
    """Run pytest with options, or a test with a mark. Returns the line of the error."""

    def run() -> int:
        import pytest

        words = shlex.split(line)[1:] if line.startswith("pytest") else ["--gpuconf-report"]
        mark = line if line.startswith("@") else ""
        Path("test_a.py").write_text(f"import pytest\n{mark}\ndef test_a(): pass\n")
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # others take longer to start than gpuconf's
        return pytest.main(["-q", "-p", "no:cacheprovider", "-p", "gpuconf.pytest_plugin", *words])

    said = in_child(run)
    lines = [each for each in said.splitlines() if "ERROR" in each or " error: " in each]
    return f"{said.split(' ')[0]} {lines[-1].partition('] ')[2] or lines[-1] if lines else ''}"


# How each kind is asked, and what this process imports before, once for all that follow: in each child it took most of
# the time. Command lines and calls are asked first, by processes in which neither IPython nor pytest is imported.
KINDS = {
    "$ ": (command, ("gpuconf.cli.main", "gpuconf")),
    ">>> ": (call, ()),
    "% ": (magic, ("IPython.core.interactiveshell",)),
    "# pytest ": (suite, ("pytest", "_pytest.config")),
}


def answered(text: str, folder: Path) -> str:
    """Return the file's text with what the mistakes are answered now."""
    parts = text.strip().split("\n\n")
    for kind, (ask, modules) in KINDS.items():
        for name in modules:
            module = importlib.import_module(name)
            for public in getattr(module, "__all__", ()):
                getattr(module, public)  # the first use of a name of gpuconf imports its module, but not the core
        for index, part in enumerate(parts):
            first = part.splitlines()[0]
            if not first.startswith(kind):
                continue
            before = dict(os.environ)
            told = ask(first.removeprefix(kind)).replace(str(folder), "FOLDER")
            os.environ.clear()
            os.environ.update(before)
            told = re.sub(r"\b0x[0-9a-f]+", "0x...", re.sub(r"\x1b\[[0-9;]*m", "", told))
            shown = [each.rstrip() for each in told.splitlines() if each.strip()]
            parts[index] = "\n".join([first, *shown[:8]])
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="mistakes-") as made:
        prepare(Path(made))
        print(answered(FILE.read_text(), Path(made)), end="")
