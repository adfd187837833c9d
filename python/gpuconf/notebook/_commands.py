# SPDX-License-Identifier: Apache-2.0
"""The commands of ``%gpu``."""

from __future__ import annotations

import atexit
import inspect
import os
from collections.abc import Callable
from typing import NoReturn

from IPython.core.error import UsageError
from IPython.display import display

from .. import errors
from .._core import runtime
from .._core.settings import set_variables
from .._core.table import counted, human_bytes
from .._missing import closest
from ..allocators._configure import configure, not_too_late
from ..config import get_visible_devices
from ..jobs import simulated_cards
from ..memory import MemoryStats, memory_map, release, stats
from ..simulation import simulated_torch
from ..simulation.simulate import reset, simulate
from ._cells import Cells
from ._devices import Devices, gpus, ready
from ._fresh import Fitting, FreshFitting


class SharedSimulation:
    """The environment of the processes that a shell starts: they have the cards of ``%gpu simulate``, and share their
    memory.
    """

    def __init__(self) -> None:
        self._before: dict[str, str | None] = {}  # the variables that were changed
        self._cards: simulated_cards.OwnedCards | None = None

    def change(self, spec: str | None) -> None:
        """Like :func:`gpuconf.simulate`, for this process and those that it starts from now on."""
        if spec is not None and self._cards is not None and simulated_torch.keeps_machine():
            simulate(spec)  # an error, or a cell that runs again
            return
        ours = {name: os.environ.get(name) for name in self._before}
        set_variables(self._before)  # None is what the environment says without them
        try:
            machine = simulate(spec).spec
        except BaseException:
            set_variables(ours)
            raise
        self._close()
        self._before = {}
        if spec is not None:
            self._share(machine)

    def end(self) -> None:
        """Restore the environment."""
        set_variables(self._before)
        self._before = {}
        self._close()

    def _share(self, machine: str) -> None:
        self._cards = simulated_cards.of_program(machine)
        variables = {"GPUCONF_SIMULATE": machine}
        if self._cards is not None:  # else those of the job that this process is in
            variables |= self._cards.environment
            atexit.register(self._cards.close)
        self._before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)

    def _close(self) -> None:
        if self._cards is not None:
            atexit.unregister(self._cards.close)
            self._cards.close()
            self._cards = None


class Commands:
    """``%gpu`` and its commands in one shell."""

    def __init__(self, cells: Cells, fitting: Fitting, fresh: FreshFitting, simulation: SharedSimulation) -> None:
        self._cells = cells
        self._fitting = fitting
        self._fresh = fresh
        self._simulation = simulation
        # Each command, and the words that it knows: --options are all that it takes.
        self._commands: dict[str, tuple[Callable[[str], None], list[str]]] = {
            "": (self._devices, []), "simulate": (self._simulate, ["off"]), "fits": (self._fits, ["--fresh"]),
            "limit": (self._limit, ["--growth", "--no-growth"]), "map": (self._map, []),
            "release": (self._release, []), "reset": (self._reset, []), "watch": (self._watch, ["on", "off"]),
            "help": (self._help, []),
        }  # fmt: skip

    def gpu(self, line: str) -> None:
        """Show the GPUs and their memory, or change how it is used.

        ``%gpu``
            The GPUs, with the memory in use, the peak, and the limit of each. Before their first use: their settings.
        ``%gpu simulate 2xT4``
            Simulate these GPUs, for PyTorch too if it is not imported yet. Processes that the notebook starts share
            them.
            ``%gpu simulate off`` ends that.
        ``%gpu fits L4,A10``
            Whether what the rest of the cell does with PyTorch fits on these cards. The cell runs on a simulated one
            without a limit, on which large tensors have no values; write it before the first ``import torch``. What it
            writes is real.
        ``%gpu fits T4,L4``
            In the first line of a cell, with cards of which PyTorch takes other kernels on some: whether the notebook
            fits on them. The cells that have run, and this one, run in a new process for each, which changes nothing
            of the machine; the cell does not run in this one. ``--fresh`` before the cards does so for any cards.
        ``%gpu limit 6GiB``
            Limit each GPU; ``50%`` is half of its memory, ``6GiB, none`` has an entry for each GPU. ``--growth``
            reserves memory as it is needed, ``--no-growth`` the whole limit at once. The same limit again changes
            nothing.
        ``%gpu map [DEVICE]``
            Where the blocks lie in the memory of each logical GPU, or of one, such as GPU:1.
        ``%gpu release [DEVICE]``
            Free the device memory that only stored errors, outputs and caches keep, and show what still holds the rest.
        ``%gpu reset``
            Discard the configuration, so that the limits can be set again. Refused while device memory is in use.
        ``%gpu watch on``, ``%gpu watch off``
            Show a line with the memory in use after each cell.
        ``%gpu help``
            This text.

        ``%%gpumem`` in the first line of a cell shows what that cell used.
        """
        name, _, rest = line.strip().partition(" ")
        name = "help" if name in ("-h", "--help") else name
        names = [each for each in self._commands if each]
        if name not in self._commands:
            _refuse(f"unknown command {name!r}{_guess(name, names)}")
        run, known = self._commands[name]
        options = [word for word in known if word.startswith("--")]
        for word in rest.split():
            if word.startswith("--") and word not in options:
                _refuse(f"{name}: there is no option {word!r}{_guess(word, options)}")
        try:
            run(rest.strip())
        except errors.GpuconfError as error:
            _refuse(*str(error).splitlines())

    def gpu_cell(self, line: str, cell: str) -> None:
        """Rehearse the notebook and this cell in a new process: ``%%gpu fits --fresh T4,L4``; see ``%gpu?``."""
        name, option, *cards = [*line.split(), "", ""]
        if (name, option) != ("fits", "--fresh"):
            got = f", but got {line.strip()!r}" if line.strip() else ", such as %%gpu fits --fresh T4,L4"
            _refuse(f"%%gpu in the first line of a cell takes fits --fresh and cards{got}")
        gpu = " ".join(filter(None, cards))
        if not gpu:
            _refuse("fits --fresh needs cards, such as T4,L4")
        try:
            self._fresh.show(gpu, cell)
        except (errors.GpuconfError, SyntaxError) as error:
            _refuse(str(error))

    def completions(self, line: str) -> list[str]:
        """Return the words that may come next on a line, for the Tab key."""
        words = line.split(" ")[1:]
        command = words[0] if words else ""
        if len(words) < 2:
            return [name for name in self._commands if name]
        if command in ("map", "release") and runtime.initialized():
            return gpus()
        return self._commands[command][1] if command in self._commands else []

    def _devices(self, _: str) -> None:
        display(Devices())

    def _simulate(self, rest: str) -> None:
        if not rest:
            _refuse("simulate needs GPUs, such as 2xT4, or off")
        self._simulation.change(None if rest == "off" else rest)
        display(Devices())

    def _fits(self, rest: str) -> None:
        if not rest:
            _refuse("fits needs cards, such as L4 or A10, before the code in the same cell")
        if rest.split()[0] == "--fresh":
            _refuse("fits --fresh goes into the first line of a cell, which then runs in a new process only")
        try:
            self._fitting.begin(rest)
        except errors.MissingPackageError as error:
            _refuse(str(error))
        except (errors.FailedPreconditionError, errors.InvalidArgumentError) as error:
            if "other kernels" not in str(error):
                raise
            _refuse(str(error), f"%gpu fits --fresh {rest}, in the first line of a cell, takes new processes")

    def _limit(self, rest: str) -> None:
        words = rest.split()
        growth = {"--growth": True, "--no-growth": False}
        options = [word for word in words if word in growth]
        sizes = [size.strip() for size in " ".join(word for word in words if word not in options).split(",")]
        bare = [word for word in words if f"--{word}" in growth]
        if bare:
            _refuse(f"limit takes options with --: did you mean --{bare[0]}?")
        if "" in sizes:
            _refuse("limit needs a size, such as 6GiB or 50%, or one for each GPU: 6GiB, none")
        if len(options) > 1:
            _refuse("limit takes one of --growth and --no-growth")
        if sizes == ["none"]:
            sizes *= len(get_visible_devices("GPU"))
        limits = [None if size == "none" else size for size in sizes]
        not_too_late("auto")
        try:
            done = configure(
                limits[0] if len(limits) == 1 and limits[0] else limits, growth[options[-1]] if options else None
            )
        except errors.FailedPreconditionError as error:
            _refuse(*_too_late(" ".join(words), str(error)))
        except errors.NotFoundError as error:
            _refuse(f"{str(error).partition('. Correct that')[0]}", "%gpu simulate T4 simulates one")
        display(Devices())
        for library, status in done.libraries.items():
            # The others do not use simulated GPUs.
            if status != "not installed" and (library == "torch" or not runtime.simulated()):
                print(f"{library}: {status}")

    def _map(self, rest: str) -> None:
        runtime.logical_devices("%gpu map")
        for gpu in [_device(rest)] if rest else gpus() or ["GPU:0"]:
            display(memory_map(gpu))

    def _release(self, rest: str) -> None:
        display(release(_device(rest) or None))

    def _reset(self, rest: str) -> None:
        if rest:
            _refuse(f"reset takes no arguments, but got {rest!r}")
        try:
            reset()
        except errors.FailedPreconditionError as error:
            _refuse(*_in_use(str(error)))
        display(Devices())

    def _watch(self, rest: str) -> None:
        if rest not in ("", "on", "off"):
            _refuse(f"watch: use on or off, not {rest!r}")
        if rest:
            self._cells.watching = rest == "on"
        print(f"memory after each cell: {'on' if self._cells.watching else 'off'}")

    def _help(self, _: str) -> None:
        print((inspect.getdoc(Commands.gpu) or "").replace("``", ""))


_FREE = "next: del what you no longer need, or run %gpu release, which lists what still holds memory"
_RESET = "%gpu reset discards the configuration; then set the limit again"


def _too_late(asked: str, why: str) -> list[str]:
    """Say why a limit cannot be set: what the devices are in use with, and what to do."""
    pools = _pools()
    if not pools:
        return [why]
    lines = [f"limit {asked}: the GPUs are initialized with another configuration", f"by {runtime.origin()}"]
    lines += [
        f"{gpu}: limit {human_bytes(pool.bytes_limit)}, {human_bytes(pool.bytes_in_use)} in use" for gpu, pool in pools
    ]
    return [*lines, *([_FREE] if any(pool.live_blocks for _, pool in pools) else []), _RESET]


def _in_use(why: str) -> list[str]:
    """Say what keeps the devices from being reset."""
    full = [
        f"{gpu}: {human_bytes(pool.bytes_in_use)} in use in {counted(pool.live_blocks, 'block')}"
        for gpu, pool in _pools()
        if pool.live_blocks
    ]
    return ["cannot reset while device memory is in use", *full, _FREE] if full else [why]


def _pools() -> list[tuple[str, MemoryStats]]:
    return [(gpu, stats(gpu)) for gpu in gpus()] if ready() else []


def _guess(word: str, known: list[str]) -> str:
    close = closest(word, known)
    return f". Did you mean {close}?" if close else f": use {', '.join(known)}" if known else ""


def _device(text: str) -> str:
    """Refuse what is no name of a device: a number, or a word."""
    if text and ":" not in text:
        _refuse(f"{text!r} is no device: write GPU:{text if text.isdecimal() else 0}")
    return text


def _refuse(text: str, *more: str) -> NoReturn:
    """Raise what IPython shows as one line, without a traceback, and below it what the state is and what to do."""
    lines = [f"%gpu: {' '.join(text.split())}", *(f"  {' '.join(line.split())}" for line in more)]
    raise UsageError("\n".join(lines)) from None
