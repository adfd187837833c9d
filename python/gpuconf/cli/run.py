# SPDX-License-Identifier: Apache-2.0
"""``gpuconf run``: start a program in an environment that gpuconf prepares, with memory of GPUs that it leases for it.

Without a lease or a limit the command replaces itself with the program. With one it stays, as ``supervise.py``
describes, and holds the lease. What has to happen inside the program's Python processes is in ``gpuconf/_startup``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

from .._core import settings
from ..jobs.execute import become, which
from . import console
from .console import EMPTY, UsageError
from .parser import Options
from .simulated import share_simulated, simulated_here

_OPTIONS = ("--memory", "--gpus", "--growth", "--simulate", "--guard", "--as-tensorflow")
# What does something without a limit, and what a limit does not suffice for. All other options need one.
_ALONE = ("simulate", "values", "strict_values", "growth", "as_tensorflow", "wait", "m", "c")
_OF_LEASE = ("timeout", "policy", "contexts", "name")
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
    if not places or "-m" in words[: places[0]]:
        return
    from ..jobs.descendants import is_python

    if not is_python(words[0]):
        return
    if "-c" in words[: places[0] - 1]:
        gets, reads = words[0], _may_read(words[words.index("-c") + 1].encode(), late)
    else:
        script = next((word for word in words[1:] if word.endswith(".py")), "")
        before = words[1 : words.index(script)] if script else words[1:]
        first = any(word.startswith(late) for word in before)
        gets, reads = words[0] if first else script, not first and _may_read(_text(script), late)
    if not reads:
        console.complain(
            f"gpuconf run: {late} is passed to {gets}: gpuconf's own options come before the program's name"
        )


def _text(script: str) -> bytes | None:
    try:
        with open(script, "rb") as file:
            return file.read(_ENOUGH)
    except OSError:
        return None


def _may_read(text: bytes | None, option: str) -> bool:
    if text is None:
        return True
    text = re.sub(rb"\b(gpuconf|cuda)\.\w+", b"", text)  # gpuconf.memory.allocate reads no --memory
    return any(word in text for word in (*_READS, option.strip("-").replace("-", "_").encode(), option.encode()))


def run(options: Options) -> int:
    """Run the command."""
    words = _program(options)
    if options.memory is None and options.gpus is None and settings.value("GPUCONF_MEMORY", os.environ):
        from ..leases.request import checked_default

        with console.CheckingUsage():
            options.memory, options.memory_from = checked_default(os.environ)
    leases = options.memory is not None or options.gpus is not None
    # From wherever it is set: a limit in a file, or the administrator's ceiling, holds for the program as a variable's.
    limits = leases or bool(settings.limit(os.environ).value)
    _check_combinations(options, leases, limits)
    own = _own_variables(options, words)
    note_late_options(words, does_nothing=not limits and not own)
    if limits:
        from . import leased

        return leased.run(options, words, own)
    variables = {**os.environ, **own}
    if options.simulate is not None:
        _check(options.simulate)
        _note_hidden(variables)
        variables.update(share_simulated(options.simulate))
    return become(words, variables)


def _check_combinations(options: Options, leases: bool, limits: bool) -> None:
    """Raise UsageError for options that need a lease or a limit, and for those that exclude each other."""
    for argument in [] if leases else options.arguments:
        needs = argument.attribute in _OF_LEASE or not (limits or argument.attribute in _ALONE)
        if argument.is_option and needs and argument.given(options):
            raise UsageError(f"{argument.names[0]} needs --memory or --gpus")
    if options.wait is False and not leases:
        raise UsageError("--no-wait needs --memory or --gpus")
    if options.timeout is not None and options.wait is False:
        raise UsageError("--timeout and --no-wait exclude each other")


def _own_variables(options: Options, words: Sequence[str]) -> dict[str, str]:
    """Return the variables of --simulate, --growth and --as-tensorflow."""
    variables: dict[str, str] = {}
    if options.simulate is not None:
        from ..leases.environment import of_startup

        variables["GPUCONF_SIMULATE"] = options.simulate
        variables.update(of_startup())
    if options.values:
        variables["GPUCONF_SIMULATE_VALUES"] = options.values
    if options.strict_values:
        variables["GPUCONF_SIMULATE_STRICT"] = "1"
    if options.growth is not None:
        variables["GPUCONF_GROWTH"] = variables["TF_FORCE_GPU_ALLOW_GROWTH"] = "true" if options.growth else "false"
        variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false" if options.growth else "true"
    if options.as_tensorflow:
        from ..jobs.descendants import isolating_option
        from ..leases.environment import python_path

        option = isolating_option(words)
        if option and "LD_PRELOAD" not in variables:
            raise UsageError(
                f"--as-tensorflow does not work with {option}: Python would not run gpuconf's startup code"
            )
        variables["GPUCONF_AS_TENSORFLOW"] = "v1" if options.as_tensorflow == "1" else "1"
        variables["PYTHONPATH"] = python_path()
    return variables


def _program(options: Options) -> list[str]:
    """Return the words of the command: with the Python that has gpuconf, if they name a script and no Python."""
    for letter in ("m", "c"):
        rest = getattr(options, letter)
        if rest is not None:
            if not rest:
                raise UsageError(f"-{letter} needs {'the name of a module' if letter == 'm' else 'code'}")
            return [sys.executable, f"-{letter}", *rest]
    words: list[str] = options.program
    if options.check:
        if words:
            raise UsageError("--check runs no program")
        return [sys.executable, "-m", "gpuconf.cli.guard_check"]
    if words[:1] in (["1"], ["2"]) and options.as_tensorflow is True:
        raise UsageError(f"{words[0]!r} is no program: write --as-tensorflow={words[0]}")
    if not words and options.memory is not None:
        from .._core.size_text import size_of

        try:
            for part in options.memory.split("..", 1):
                size_of(part, 1 << 40)
        except ValueError as error:  # it is the program, and the size is missing
            raise UsageError(f"--memory {options.memory!r} {error}") from None
    return words_of(words)


def words_of(words: list[str]) -> list[str]:
    """Return the words of a command: with the Python that has gpuconf, if they name a script and no Python.

    Raises UsageError.
    """
    if not words:
        raise UsageError("no program: after the options, name a command or a Python script, such as python train.py")
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


def _note_hidden(environment: Mapping[str, str]) -> None:
    """Say that the program will see no simulated GPU."""
    if environment.get("CUDA_VISIBLE_DEVICES") is None:
        return
    from ..machine.cards import visible_devices

    if not visible_devices():
        shown = environment["CUDA_VISIBLE_DEVICES"]
        console.complain(
            f"gpuconf run: CUDA_VISIBLE_DEVICES={shown!r} hides all simulated GPUs from the program: unset it"
        )


def _check(spec: str) -> None:
    """Raise UsageError for an invalid simulation, so that it does not fail inside the program."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    simulated_here(spec)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)  # Go has raised it
