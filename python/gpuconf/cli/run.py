# SPDX-License-Identifier: Apache-2.0
"""``gpuconf run``: start a program in an environment that gpuconf prepares, with memory of GPUs that it leases for it.

Without a lease the command replaces itself with the program. With one it stays, as ``supervise.py`` describes, and
holds the lease. What has to happen inside the program's Python processes is in ``gpuconf/_startup``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from .._typing import Any
from ..jobs.execute import become, which
from . import console
from .console import EMPTY, UsageError
from .output import FILES, example
from .requested import add_request, share_simulated, simulated_here

_OPTIONS = ("--memory", "--gpus", "--growth", "--simulate", "--guard", "--as-tensorflow")
_ENOUGH = 1 << 20  # bytes of a script

# Words of scripts that read their arguments, or that call a module which may.
_READS = (b"argv", b"parse", b"main", b"absl", b"click", b"fire", b"hydra", b"typer", b"tyro")


def note_late_options(words: Sequence[str], does_nothing: bool) -> None:
    """Say that an option of gpuconf's goes to Python or to a script that cannot mean it, or that no option is given.

    Other programs have options of these names: ``docker run --gpus all``. So may a script, and it is silent about those
    that show any sign of reading their arguments, unless the command does nothing without the option.
    """
    places = [place for place, word in enumerate(words) if word.partition("=")[0] in _OPTIONS]
    late = words[places[0]].partition("=")[0] if places else ""
    if does_nothing:
        why = f"{late} is passed to {words[0]}" if late else "no option is given"
        console.complain(
            f"gpuconf run: {why}, so the program runs as without gpuconf. gpuconf's own options come before the "
            "program's name, as in gpuconf run --memory 10GiB python train.py"
        )
        return
    if not places or {"-c", "-m"} & set(words[: places[0]]):
        return
    from ..jobs.descendants import is_python

    script = next((word for word in words[1:] if word.endswith(".py")), "")
    before = words[1 : words.index(script)] if script else words[1:]
    if is_python(words[0]) and (any(word.startswith(late) for word in before) or not _may_read(script, late)):
        console.complain(
            f"gpuconf run: {late} is passed to {words[0]}: gpuconf's own options come before the program's name"
        )


def _may_read(script: str, option: str) -> bool:
    try:
        with open(script, "rb") as file:
            text = file.read(_ENOUGH)
    except OSError:
        return True
    return any(word in text for word in (*_READS, option.strip("-").replace("-", "_").encode(), option.encode()))


_EXAMPLE = """
gpuconf run --memory 10GiB python train.py
gpuconf run --memory 20GiB --gpus 2 --timeout 600 torchrun --nproc-per-node 2 train.py
gpuconf run --simulate 4xA100-40GB --memory 4GiB python train.py
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "run",
        usage="gpuconf run [OPTION ...] [--] PROGRAM [ARGUMENT ...]",
        help="run a program in part of a GPU's memory, on simulated GPUs, or with gpuconf in place of TensorFlow",
        description="Run a program. gpuconf's own options end at the first other word, or at --. With --memory or "
        "--gpus, the "
        "program starts when that memory is free, sees only the GPUs leased for it, and is limited to the leased "
        "memory.",
        allow_abbrev=False,
        **example(_EXAMPLE),
    )
    add_request(parser)
    parser.add_argument(
        "--values",
        choices=("cpu", "none"),
        help="what PyTorch computes on simulated GPUs: all of it, by the CPU (default), or only small tensors (needs "
        "--simulate)",
    )
    parser.add_argument(
        "--strict-values",
        action="store_true",
        help="make it an error if something on simulated GPUs has no value (needs --simulate)",
    )
    parser.add_argument(
        "--wait", action=argparse.BooleanOptionalAction, default=True, help="wait until the memory is free (default)"
    )
    parser.add_argument(
        "--guard",
        choices=("auto", "driver", "proxy", "preload", "off"),
        default=None,
        help="how to enforce the limit for every library: driver sets it in a control group; proxy counts calls in "
        "front of the "
        "CUDA driver; preload also catches programs that open the driver by its path; off relies on the limits of "
        "gpuconf's pools and of the frameworks. auto (default) picks the first that works here. proxy and preload are "
        "accounting, not "
        "a security boundary",
    )
    parser.add_argument(
        "--check", action="store_true", help="instead of running a program, try to exceed the limit in every known way"
    )
    parser.add_argument(
        "--as-tensorflow", action="store_true", help="make import tensorflow find gpuconf, in child processes too"
    )
    parser.add_argument(
        "--as-tensorflow=1",
        dest="as_tensorflow_1",
        action="store_true",
        help="the same, for programs written for TensorFlow 1",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="print a line at the end: time, peak memory by library, and why the program failed",
    )
    report = parser.add_argument("--json-report", metavar="FILE", help="write a JSON report at the end")
    report.complete = FILES
    parser.add_argument("-m", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module, as python -m does")
    parser.add_argument("-c", nargs=argparse.REMAINDER, metavar="CODE", help="run code, as python -c does")
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="PROGRAM",
        help="a command, which is found as a shell finds it; or a Python script, or - for one from standard input. A "
        "script runs "
        "with gpuconf's own Python, as -m and -c do, unless you name one",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    words = _program(options)
    leases = options.memory is not None or options.gpus is not None
    _check_combinations(options, leases)
    own = _own_variables(options, words)
    limits = not leases and any(map(os.environ.get, ("GPUCONF_LIMIT", "NVIDIA_GPU_MEMORY_LIMIT")))
    note_late_options(words, does_nothing=not leases and not own and not limits)
    if leases:
        from . import leased

        return leased.run(options, words, own)
    variables = {**os.environ, **own}
    if limits:  # those of `gpuconf env`, in a container that has other paths
        from .._core import settings
        from ..leases.environment import python_path

        variables["GPUCONF_LIMIT"] = settings.explain(os.environ, {})["GPUCONF_LIMIT"].value
        variables["PYTHONPATH"] = python_path()
    if options.simulate is not None:
        _check(options.simulate)
        variables.update(share_simulated(options.simulate))
    return become(words, variables)


def _check_combinations(options: argparse.Namespace, leases: bool) -> None:
    """Raise UsageError for options that need a lease, and for those that exclude each other."""
    given = {
        "--timeout": options.timeout is not None,
        "--no-wait": not options.wait,
        "--report": options.report,
        "--json-report": options.json_report is not None,
        "--policy": options.policy != "spread",
        "--contexts": options.contexts is not None,
        "--name": bool(options.name),
        "--guard": options.guard is not None,
        "--check": options.check,
    }
    needing = [name for name, is_given in given.items() if is_given]
    if needing and not leases:
        raise UsageError(f"{needing[0]} needs --memory or --gpus")
    if options.timeout is not None and not options.wait:
        raise UsageError("--timeout and --no-wait exclude each other")


def _own_variables(options: argparse.Namespace, words: Sequence[str]) -> dict[str, str]:
    """Return the variables of --simulate, --growth and --as-tensorflow."""
    variables: dict[str, str] = {}
    if options.simulate is not None:
        from ..leases.environment import of_startup

        variables["GPUCONF_SIMULATE"] = options.simulate
        variables.update(of_startup())
    for name, value, variable in (
        ("--values", options.values, "GPUCONF_SIMULATE_VALUES"),
        ("--strict-values", options.strict_values and "1", "GPUCONF_SIMULATE_STRICT"),
    ):
        if value:
            if options.simulate is None:
                raise UsageError(f"{name} needs --simulate")
            variables[variable] = value
    if options.growth is not None:
        variables["GPUCONF_GROWTH"] = variables["TF_FORCE_GPU_ALLOW_GROWTH"] = "true" if options.growth else "false"
        variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false" if options.growth else "true"
    if options.as_tensorflow or options.as_tensorflow_1:
        from ..jobs.descendants import isolating_option
        from ..leases.environment import python_path

        option = isolating_option(words)
        if option and "LD_PRELOAD" not in variables:
            raise UsageError(
                f"--as-tensorflow does not work with {option}: Python would not run gpuconf's startup code"
            )
        variables["GPUCONF_AS_TENSORFLOW"] = "v1" if options.as_tensorflow_1 else "1"
        variables["PYTHONPATH"] = python_path()
    return variables


def _program(options: argparse.Namespace) -> list[str]:
    """Return the words of the command: with the Python that has gpuconf, if they name a script and no Python."""
    for letter in ("m", "c"):
        rest = getattr(options, letter)
        if rest is not None:
            if not rest:
                raise UsageError(f"argument expected for -{letter}")
            return [sys.executable, f"-{letter}", *rest]
    words: list[str] = options.program[1:] if options.program[:1] == ["--"] else options.program
    if options.check:
        if words:
            raise UsageError("--check runs no program")
        return [sys.executable, "-m", "gpuconf.cli.guard_check"]
    if not words and options.memory is not None:
        from .._core.size_text import size_of

        try:
            size_of(options.memory, 1 << 40)
        except ValueError as error:  # it is the program, and the size is missing
            raise UsageError(f"--memory {options.memory!r} {error}") from None
    return words_of(words)


def words_of(words: list[str]) -> list[str]:
    """Return the words of a command: with the Python that has gpuconf, if they name a script and no Python.

    Raises UsageError.
    """
    if not words:
        raise UsageError(
            "no program: name a command or a Python script, such as gpuconf run --memory 10GiB python train.py"
        )
    if not words[0]:
        raise UsageError(EMPTY)
    return [sys.executable, *words] if _is_script(words[0]) else words


def _is_script(word: str) -> bool:
    """Whether a word is a Python script, and not a command.

    In a folder named pytest, the word pytest is the command.
    """
    if word.startswith("-"):
        return True  # standard input, or Python's options
    if word.endswith((".py", ".pyc", ".pyz")):
        return "/" not in word or not os.access(word, os.X_OK)
    if not os.path.isfile(os.path.join(word, "__main__.py")):
        return False
    return "/" in word or which(word) is None


def _check(spec: str) -> None:
    """Raise UsageError for an invalid simulation, so that it does not fail inside the program."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    simulated_here(spec)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)  # Go has raised it
