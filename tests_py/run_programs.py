"""Run the programs of ``tests_py/compat/programs``: each in a process of its own, forked from one that has imported
what is slow.

    python tests_py/run_programs.py changed NAME...      with gpuconf in their import lines
    python tests_py/run_programs.py installed NAME...    as they are, as under gpuconf run --as-tensorflow
    python tests_py/run_programs.py tensorflow NAME...   with TensorFlow itself and imaginary GPUs

A line of JSON for each program: its name, its exit code, what it printed, what it wrote to standard error.

A text file has many programs, and words for readers before the first one:

    == NAME | 2xT4               a program, and its simulated GPUs; none without them
    :: arguments --gpu 1
    :: environment LOCAL_RANK=1
    :: TensorFlow why TensorFlow's output is another one, or cannot be compared
    :: as NAME                   the lines of that program come first
    import tensorflow as tf
    ...
    -- output
    the lines that it prints; ... stands for anything
    -- errors
    the lines on standard error; after a first line of ... the last ones
    -- exit 1
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import runpy
import sys
import tempfile
import traceback
import types
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
PROGRAMS = HERE / "compat" / "programs"
STARTUP = Path("_startup") / "sitecustomize.py"
AT_ONCE = 2


class Program(NamedTuple):
    """A program, and what its block says of it."""

    name: str
    source: str
    machine: str
    arguments: list[str]
    environment: dict[str, str]
    tensorflow: str
    output: str
    errors: list[str]
    exit: int


@cache
def programs() -> dict[str, Program]:
    """All programs, by name."""
    found: dict[str, Program] = {}
    for file in sorted(PROGRAMS.glob("*.txt")):
        for block in re.split(r"^== ", file.read_text(), flags=re.MULTILINE)[1:]:
            heading, *lines = block.removesuffix("\n").splitlines()
            name, _, machine = heading.partition(" | ")
            settings = dict(line[3:].split(" ", 1) for line in lines if line.startswith(":: "))
            parts: dict[str, list[str]] = {"": []}
            part = parts[""]
            for line in lines:
                if line.startswith("-- "):
                    part = parts.setdefault(line[3:], [])
                elif not line.startswith(":: "):
                    part.append(f"{line}\n")
            first = found[settings["as"]].source if "as" in settings else ""
            (code,) = [int(key[5:]) for key in parts if key.startswith("exit ")] or [0]
            assert name not in found, name
            found[name] = Program(
                name,
                first + "".join(parts[""]),
                machine,
                settings.get("arguments", "").split(),
                dict(word.split("=", 1) for word in settings.get("environment", "").split()),
                settings.get("TensorFlow", ""),
                "".join(parts.get("output", ())),
                [line.removesuffix("\n") for line in parts.get("errors", ())],
                code,
            )
    return found


def read(name: str) -> Program:
    """Read a program."""
    return programs()[name]


def names() -> list[str]:
    """The names of all programs."""
    return sorted(programs())


def changed(source: str) -> str:
    """The source with gpuconf in its import lines."""
    lines = []
    for line in source.splitlines(keepends=True):
        if re.match(r"\s*(import|from) tensorflow\b", line):
            line = re.sub(r"^(\s*import) tensorflow$", r"\1 gpuconf.compat.v2 as tensorflow", line)
            line = line.replace("tensorflow.compat.v1", "gpuconf.compat.v1").replace(
                "tensorflow.compat.v2", "gpuconf.compat.v2"
            )
            line = re.sub(r"^(\s*(import|from)) tensorflow\b", r"\1 gpuconf.compat.v2", line)
        lines.append(line)
    return "".join(lines)


# In the child


def become(program: Program, mode: str) -> None:
    """Run a program as the main module of this process."""
    os.environ.update(program.environment)
    path = str(PROGRAMS / f"{program.name}.py")
    sys.argv[:] = [path, *program.arguments]
    sys.path[:0] = [str(PROGRAMS), str(PROGRAMS / "libraries")]
    main = types.ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    source = changed(program.source) if mode == "changed" else program.source
    exec(compile(source, path, "exec"), vars(main))


def run_in_child(program: Program, mode: str, prepare: Any) -> int:
    """Run a program, and return the exit code that Python would end with."""
    try:
        prepare(program)
        become(program, mode)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def main(mode: str, wanted: list[str]) -> None:
    """Run the programs, a few at once, and print what became of each."""
    prepare = {"changed": prepare_gpuconf, "installed": prepare_gpuconf, "tensorflow": prepare_tensorflow}[mode](mode)
    running: dict[int, tuple[Program, Any, Any]] = {}
    todo = [read(name) for name in wanted]
    while todo or running:
        while todo and len(running) < AT_ONCE:
            program, out, err = todo.pop(0), tempfile.TemporaryFile("w+b"), tempfile.TemporaryFile("w+b")  # noqa: SIM115
            child = os.fork()
            if child == 0:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                os._exit(run_in_child(program, mode, prepare))
            running[child] = program, out, err
        child, status = os.wait()
        program, *files = running.pop(child)
        texts = []
        for file in files:
            file.seek(0)
            texts.append(file.read().decode())
            file.close()
        print(json.dumps([program.name, os.waitstatus_to_exitcode(status), *texts]), flush=True)


def prepare_gpuconf(mode: str) -> Any:
    """Import Python modules, but load nothing that a fork does not survive."""
    import gpuconf
    import gpuconf.compat
    import numpy  # noqa: F401 - for the children

    if mode == "installed":
        os.environ["GPUCONF_AS_TENSORFLOW"] = "1"
        startup = Path(gpuconf.__file__).parent / STARTUP
        sys.path.insert(0, str(startup.parent))  # as PYTHONPATH has it
        runpy.run_path(str(startup))

    def prepare(program: Program) -> None:
        os.environ["GPUCONF_SIMULATE"] = program.machine or "T4"
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        if not program.machine:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""

    return prepare


def prepare_tensorflow(_: str) -> Any:
    """Import TensorFlow, after the imaginary GPUs."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    sys.path.insert(0, str(HERE))
    from oracle.cpp import build
    from oracle.machine import CARDS

    gpus = ctypes.CDLL(str(build.cpp("imaginary_gpus.cc", shared=True)))
    gpus.oracle_obey_visible_devices()
    import tensorflow.python.client.device_lib  # noqa: F401 - for the children

    def prepare(program: Program) -> None:
        for spec in program.machine.split(",") if program.machine else []:
            count, model = re.fullmatch(r"(?:(\d+)x)?(.*)", spec).groups()  # type: ignore[union-attr]
            card = next(card for card in CARDS if card.spec == model)
            for _ in range(int(count or 1)):
                size = ctypes.c_int64(card.bytes)
                gpus.oracle_add_card(card.product.encode(), card.major, card.minor, size, card.greatest_priority)

    return prepare


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or names())
