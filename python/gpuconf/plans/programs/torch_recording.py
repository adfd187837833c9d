# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own record of its allocations in a process of a rehearsal, and when the program has run for long enough."""

from __future__ import annotations

import ast
import json
import os
import pickle
import sys
import threading
import time
import traceback
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial

import torch

from ..._core import stacks
from ..._core.fork import module_lock
from ..._core.stacks import OWN
from ..._typing import Any
from ...simulation.values import kernels
from . import workspaces
from .graph_pools import GraphPools
from .installed import package_of
from .line import TORCH_REPORT, VARIABLE, line, repeat
from .loops import Counted, Loops, between, figures
from .parts import modules, parts, without_tried
from .records import OfGPU, Report, Request
from .remedies import Remedies
from .watching import BACKWARD, CATCHES, MADE, OPTIMIZER, Watcher

_MOST_EVENTS = 4_000_000
_MOST_BLOCKS = 1_000_000  # allocations after which the program is ended: each is up to three events

_CONF = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_NO_CACHE = "PYTORCH_NO_CUDA_MEMORY_CACHING"

_lock = module_lock(globals(), "_lock")  # one report


class Recording:
    """The record of one process."""

    def __init__(self, request: Request) -> None:
        self._steps: int | None = request.steps
        self._until_repeated: bool = request.until_repeated
        self._stacks: bool = request.stacks
        self._compiles: bool = request.compiles
        self._made_of = {"card": request.card, "torch": str(torch.__version__), "command": request.command}
        self._pid = os.getpid()
        self._ready = False
        self._reported = False
        self._asked = False  # by the rehearsal, whose patience is over
        self._main: str | None = None  # the program's file, which Python forgets at the end
        self._host = 0  # bytes of its memory at most
        self._package = ""  # the folder of the installed package that is the program
        self._signatures: list[Any] = []  # of steps
        self._before: list[Any] = []
        self.watcher: Watcher = Watcher(self._boundary, compiles=self._compiles)
        self._pools = GraphPools()
        cuts = request.cuts and request.steps is None
        self._loops = Loops(self._counted, cuts=cuts, longest=request.longest)
        self._remedies = Remedies(request.change) if request.helps else None

    def install(self) -> None:
        """Begin when the program first uses a GPU."""
        self.watcher.install()
        self._pools.install()
        if self._remedies is not None:
            self._remedies.install()
        self._loops.install()
        torch.cuda._lazy_call(self._start)

    def watch(self) -> None:
        """Begin now, and never end the program."""
        torch.cuda.init()
        self._ready = True
        self.watcher.install()
        self._record()

    def stop(self) -> None:
        """End the record."""
        self.watcher.remove()
        torch.cuda.memory._record_memory_history(None)

    def _record(self) -> None:
        context = "alloc" if self._stacks else None
        torch.cuda.memory._record_memory_history("all", context=context, stacks="python", max_entries=_MOST_EVENTS)

    def _start(self) -> None:
        if self._pid != os.getpid():  # forked before CUDA was used
            self._pid = os.getpid()
        backend = torch.cuda.get_allocator_backend()
        if backend == "pluggable":
            _refuse_other_allocator()
        if backend != "native":
            sets = [name for name in _CONF if "backend" in os.environ.get(name, "")] or _CONF[:1]
            _refuse(f"uses PyTorch's allocator {backend}, which records nothing: leave it out of {' and '.join(sets)}")
        if _NO_CACHE in os.environ:
            _refuse(f"runs with {_NO_CACHE}, where PyTorch's allocator records nothing: unset it")
        self._main = getattr(sys.modules["__main__"], "__file__", None)
        calls = ((frame.f_code.co_filename, at, frame.f_code.co_name) for frame, at in traceback.walk_stack(None))
        self._package = package_of(self._main, calls)
        stacks.set_installed_program(self._package)
        self._record()
        torch.cuda.memory.change_current_allocator = _refuse_other_allocator
        torch.cuda.memory.caching_allocator_enable = _refuse_no_cache
        torch.cuda.memory._record_memory_history = _leave_alone  # the program's own would end this one
        line.report = self._report_now
        line.tell("cuda", rank=_number("RANK"), world=_number("WORLD_SIZE"))
        line.listen()

    def _counted(self) -> Counted:
        counts = self.watcher.counts
        return Counted(counts[OPTIMIZER], counts[BACKWARD], bool(counts[MADE]))

    def _boundary(self, kind: str) -> None:
        """End the program after an optimizer's step or a pass, if that was to be the last one."""
        self._host = max(self._host, _host())
        if not torch.cuda.is_initialized() or self._ready or threading.current_thread() is not threading.main_thread():
            return
        while self._asked:
            time.sleep(3600)  # the rehearsal ends the program; until then, each step would make the report longer
        if line.waits_for:
            return
        why = self._enough(kind)
        if why:
            self._ready = True
            self.report()
            line.tell("ready", why=why)
            while int(os.environ.get("WORLD_SIZE", "1")) == 1:
                time.sleep(3600)  # the rehearsal ends the program; with other ranks, these still need this one

    def _enough(self, kind: str) -> str:
        """Return why the program has run for long enough, "" if it has not."""
        now, counts = figures(), self.watcher.counts
        if sum(gpu.blocks for gpu in now) > _MOST_BLOCKS:
            return "full"
        if kind == OPTIMIZER:
            self._signatures.append(between(self._before or [type(one)(0, 0, 0, 0, 0) for one in now], now))
            self._before = now
            if self._until_repeated and repeat(self._signatures[1:]):
                return "repeated"
        steps = counts[OPTIMIZER] if counts[MADE] or counts[OPTIMIZER] else counts[kind]
        counted = OPTIMIZER if counts[MADE] or counts[OPTIMIZER] else BACKWARD if counts[BACKWARD] else kind
        return "steps" if kind == counted and steps == self._steps else ""

    def _report_now(self) -> None:
        self._asked = True
        self.report()

    def report(self) -> None:
        """Write what is known, once: PyTorch's snapshot, and what it is made of."""
        with _lock:
            if self._reported or self._pid != os.getpid() or not torch.cuda.is_initialized():
                return
            self._reported = True
            self.write(os.environ[VARIABLE])
            line.tell("report")

    def write(self, folder: str) -> None:
        """Write PyTorch's snapshot and what it is made of into a folder, under this process's PID."""
        watcher = self.watcher
        noted = [*watcher.seen, watcher.of_modules()]
        snapshot = torch.cuda.memory._snapshot()
        snapshot["gpuconf"] = self._made_of
        self._pools.write(snapshot)
        _forget_own_calls(snapshot)
        _name_calls(self._package, self._main, snapshot)
        name = os.path.join(folder, f"{os.getpid()}")
        gpus = []
        needed = [without_tried(events) for events in snapshot["device_traces"]]
        for gpu, events in enumerate(snapshot["device_traces"]):
            if events:
                made_of = parts(events, noted, watcher.backward, watcher.steps)
                watcher.modules.name(events)
                times = [event["time_us"] for event in events]
                phases = [(bisect_left(times, time) / len(times), phase) for time, phase in watcher.phases]
                largest = max((event["size"] for event in needed[gpu] if event["action"] == "alloc"), default=0)
                uuid = str(getattr(torch.cuda.get_device_properties(gpu), "uuid", gpu))  # since PyTorch 2.5
                growth, of_modules = self._growth(gpu), modules(events)
                gpus.append(OfGPU(gpu, uuid, made_of, growth, largest, of_modules, phases))
        with open(f"{name}.pickle", "wb") as file:
            pickle.dump(snapshot, file)
        tried = any(len(less) < len(events) for less, events in zip(needed, snapshot["device_traces"], strict=True))
        if tried:
            with open(f"{name}.needed.pickle", "wb") as file:
                pickle.dump(snapshot | {"device_traces": needed}, file)
        report = Report(
            rank=_number("RANK"),
            world=_number("WORLD_SIZE"),
            pid=os.getpid(),
            torch=str(torch.__version__),
            gpus=gpus,
            counts={**watcher.counts, CATCHES: watcher.counts[CATCHES] + _catches(self._main, snapshot)},
            host=max(self._host, _host()),
            pinned=_pinned(),
            eager=not self._compiles,
            batch=watcher.batch,
            paths=dict(kernels.paths),
            sized_by_values=dict(kernels.sized_by_values),
            tried=tried,
            **workspaces.of_process(),
            waits_for=line.waits_for,
            cut=self._loops.cut,
            unseen={**self._loops.unseen, **self._loops.running},
            remarks=self._loops.said(),
            changes={} if self._remedies is None else self._remedies.applicable(),
        )
        with open(f"{name}.{TORCH_REPORT}", "w", encoding="utf-8") as file:
            json.dump(asdict(report), file)

    def _growth(self, gpu: int) -> int:
        """Return by how much memory in use grows with each step, if the last ones did the same again and again."""
        steps = [step[gpu] for step in self._signatures[1:]]
        cycle = repeat(steps)
        return sum(requested - freed for _, requested, freed, _ in steps[-cycle:]) // cycle if cycle else 0


def _forget_own_calls(snapshot: Any) -> None:
    """Leave out gpuconf's own lines, through which each operation goes."""
    for events in snapshot["device_traces"]:
        for event in events:
            frames = event.get("frames")
            if frames and any(frame["filename"].startswith(OWN) for frame in frames):
                event["frames"] = [frame for frame in frames if not frame["filename"].startswith(OWN)]


def _name_calls(package: str, main: str | None, snapshot: Any) -> None:
    """Name the cells of a notebook, and the files of a package that is the program, as a program's own are named."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    start = len(os.path.dirname(os.path.dirname(package))) + 1

    @cache  # of millions of frames
    def name(file: str) -> str:
        if package and file.startswith(package):
            return file[start:]
        if package and file == main:
            return "<frozen command>"  # is no line of the program
        cell = shell.compile.format_code_name(file) if shell is not None else None
        return file if cell is None else cell[1]

    for events in snapshot["device_traces"]:
        for event in events:
            for frame in event.get("frames", ()):
                frame["filename"] = name(frame["filename"])


def _refuse(why: str) -> None:
    """Say why there can be no answer. The rehearsal ends the program."""
    line.tell("refused", why=f"the program {why}")
    while True:
        time.sleep(3600)


def _refuse_other_allocator(_allocator: Any = None) -> None:
    _refuse("replaces PyTorch's allocator by change_current_allocator(), and that one records nothing: leave it out")


def _refuse_no_cache(value: bool = True) -> None:
    if not value:
        _refuse("switches PyTorch's cache of memory off, and nothing is recorded then: leave that out")


def _host() -> int:
    """Return the private memory of this process, in bytes: tensors that are not computed take pages that are not used,
    and simulated GPUs have none of it.
    """
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")


def _pinned() -> int:
    """Return the most pinned memory of the host that PyTorch held, in bytes."""
    if not hasattr(torch.cuda, "host_memory_stats"):  # before PyTorch 2.7
        return 0
    stats = torch.cuda.host_memory_stats()
    return int(stats.get("allocated_bytes.peak", 0))


def _catches(main: str | None, snapshot: Any) -> bool:
    """Whether a module of the program catches the error that PyTorch raises without memory."""

    @cache  # of millions of frames, and seldom needed
    def called() -> set[tuple[str, int]]:
        traces = (event for events in snapshot["device_traces"] for event in events)
        return {(frame["filename"], frame["line"]) for event in traces for frame in event.get("frames", ())}

    def requests(file: str, lines: range) -> bool:
        return any((file, line) in called() for line in lines)

    files = {main, *(getattr(module, "__file__", None) for module in list(sys.modules.values()))}
    for file in filter(None, files):
        if file.endswith(".py") and stacks.is_program((file, 1, "")):
            try:
                with open(file, "rb") as source:
                    if catches(source.read(), partial(requests, file)):
                        return True
            except (OSError, SyntaxError, ValueError):
                continue
    return False


def catches(source: bytes, requests: Callable[[range], bool]) -> bool:
    """Whether a program's code, and not a comment or docstring, names the error or has the words of its message; or
    handles a class of which the error is one, around lines of which one ``requests`` memory.

    A handler that always raises or exits, as one that saves a recording first, is not one: the program ends there.
    """
    nodes = list(ast.walk(ast.parse(source)))
    passed = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.ExceptHandler) and _ends(node):
            passed.update(map(id, ast.walk(node)))
    repeated = {id(node) for loop in nodes if isinstance(loop, (ast.For, ast.While)) for node in ast.walk(loop)}
    return any(
        _names_the_error(node) or (isinstance(node, ast.Try) and _goes_on(node, requests, again=id(node) in repeated))
        for node in nodes
        if id(node) not in passed
    )


def _goes_on(node: ast.Try, requests: Callable[[range], bool], *, again: bool) -> bool:
    """Whether a program goes on after an error of its memory: by a handler of RuntimeError, or of all errors in a
    loop, which tries again.
    """
    for handler in node.handlers:
        if _ends(handler):
            continue
        types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        names = {"BaseException" if one is None else getattr(one, "id", "") for one in types}
        leaves = isinstance(handler.body[-1], (ast.Break, ast.Return))
        if "RuntimeError" in names or (again and not leaves and names & {"Exception", "BaseException"}):
            return requests(range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1))
    return False


def _names_the_error(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and "out of memory" in node.value
    if isinstance(node, ast.alias):  # an import handles nothing, but the name that it gives is not looked for
        return node.name == "OutOfMemoryError" and node.asname is not None
    return "OutOfMemoryError" in (getattr(node, "id", ""), getattr(node, "attr", ""))


def _ends(handler: ast.ExceptHandler) -> bool:
    """Whether an error that it handles goes on or the program exits, whatever else it does."""
    ways_out = (ast.Return, ast.Continue, ast.Break, ast.Try)
    last = handler.body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        exits = {"exit", "_exit", "quit"} & {getattr(last.value.func, name, "") for name in ("id", "attr")}
    else:
        exits = set()
    return (isinstance(last, ast.Raise) or bool(exits)) and not any(isinstance(n, ways_out) for n in ast.walk(handler))


def _leave_alone(*_args: Any, **_named: Any) -> None:
    """Stand in for the function that would end the rehearsal's record."""


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else None
