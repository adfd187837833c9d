"""Programs as people write them for TensorFlow, run with gpuconf in the import line, and unchanged.

``run_programs.py`` says how they are written. ``make oracle`` compares them with TensorFlow (``oracle/programs.py``).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import lru_cache
from typing import NamedTuple

import pytest
import run_programs
from script import environment

PROGRAMS = {name: run_programs.read(name) for name in run_programs.names()}


class Outcome(NamedTuple):
    """How a program ended."""

    code: int
    out: str
    err: str


@lru_cache
def outcomes(mode: str, names: tuple[str, ...]) -> dict[str, Outcome]:
    """Run programs in a mode."""
    done = subprocess.run(
        [sys.executable, run_programs.__file__, mode, *names],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
        env=environment(),
    )
    return {name: Outcome(*rest) for name, *rest in map(json.loads, done.stdout.splitlines())}


@pytest.fixture
def outcome(request: pytest.FixtureRequest) -> Outcome:
    """How the program of a test ended; those of all selected tests run together."""
    mode, name = request.node.callspec.params["mode"], request.node.callspec.params["name"]
    selected = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    names = {params["name"] for params in selected if params.get("mode") == mode and params.get("name") in PROGRAMS}
    return outcomes(mode, tuple(sorted(names)))[name]


def matches(line: str, pattern: str) -> bool:
    """Whether a line is as the pattern, in which ... stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), line) is not None


def assert_lines(text: str, patterns: list[str]) -> None:
    """Fail if a text does not have exactly the lines of the patterns."""
    lines = text.splitlines()
    assert len(lines) == len(patterns), text
    assert all(map(matches, lines, patterns)), text


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mode", ["changed", "installed"])
def test_gpuconf(mode: str, name: str, outcome: Outcome) -> None:
    program = PROGRAMS[name]
    assert_lines(outcome.out, program.output.splitlines())
    if program.errors[:1] == ["..."]:  # a traceback
        assert_lines("\n".join(outcome.err.splitlines()[-len(program.errors) + 1 :]), program.errors[1:])
    else:
        assert_lines(outcome.err, program.errors)
    assert outcome.code == program.exit


def test_there_are_as_many_as_promised() -> None:
    assert len(PROGRAMS) >= 80
    assert sum(not program.tensorflow for program in PROGRAMS.values()) >= 60
    assert not [name for name, program in PROGRAMS.items() if not program.output and not program.exit]


def test_only_import_lines_are_changed() -> None:
    source = """import tensorflow as tf
import tensorflow
    from tensorflow import config
from tensorflow.compat.v1 import Session  # tensorflow
import tensorflow.compat.v1 as tf
from tensorflow.python.client import device_lib
import tensorflow_datasets
print("import tensorflow")
"""
    assert (
        run_programs.changed(source)
        == """import gpuconf.compat.v2 as tf
import gpuconf.compat.v2 as tensorflow
    from gpuconf.compat.v2 import config
from gpuconf.compat.v1 import Session  # tensorflow
import gpuconf.compat.v1 as tf
from gpuconf.compat.v2.python.client import device_lib
import tensorflow_datasets
print("import tensorflow")
"""
    )
