# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own record of its allocations in a process of a rehearsal, and when the program has run for long enough."""

from __future__ import annotations

import json
import os
import pickle
import threading
import time

import torch

from ..._core.fork import module_lock
from ..._core.stacks import OWN
from ..._typing import Any
from ...simulation.values import kernels
from .line import TORCH_REPORT, VARIABLE, line, repeat
from .parts import parts, without_tried
from .watching import BACKWARD, FORWARD, MADE, OPTIMIZER, Watcher

_MOST_EVENTS = 4_000_000
# A program without an optimizer only evaluates. One with an optimizer trains, and may evaluate before its first step.
_EVALUATIONS = 20

_lock = module_lock(globals(), "_lock")  # one report


class Recording:
    """The record of one process."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._steps: int | None = settings["steps"]
        self._stacks: bool = settings["stacks"]
        self._compiles: bool = settings["compiles"]
        self._pid = os.getpid()
        self._ready = False
        self._reported = False
        self._signatures: dict[str, list[Any]] = {OPTIMIZER: [], BACKWARD: [], FORWARD: []}
        self._before: dict[str, Any] = {}
        self.watcher: Watcher = Watcher(self._boundary, compiles=self._compiles)

    def install(self) -> None:
        """Begin when the program first uses a GPU."""
        self.watcher.install()
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
        self._record()
        torch.cuda.memory._record_memory_history = _leave_alone  # the program's own would end this one
        line.report = self.report
        line.tell("cuda", **_rank())
        line.listen()

    def _boundary(self, kind: str) -> None:
        if not torch.cuda.is_initialized() or self._ready or threading.current_thread() is not threading.main_thread():
            return
        if line.waits_for:
            return
        signature = self._signature(kind)
        steps = self._signatures[kind]
        steps.append(signature)
        if self._enough(kind, steps):
            self._ready = True
            self.report()
            line.tell("ready", why="steps" if self._steps is not None and len(steps) >= self._steps else "repeated")
            while int(os.environ.get("WORLD_SIZE", "1")) == 1:
                time.sleep(3600)  # the rehearsal ends the program; with other ranks, these still need this one

    def _enough(self, kind: str, steps: list[Any]) -> bool:
        counts = self.watcher.counts
        if kind == OPTIMIZER:
            return len(steps) == self._steps if self._steps is not None else repeat(steps[1:])
        if counts[MADE] or counts[OPTIMIZER]:
            return False
        if self._steps is not None:
            return kind == (BACKWARD if counts[BACKWARD] else FORWARD) and len(steps) == self._steps
        return kind == FORWARD and not counts[BACKWARD] and not counts[FORWARD] and repeat(steps, _EVALUATIONS)

    def _signature(self, kind: str) -> Any:
        """Return what the program requested and freed since the last such boundary, on each GPU, and what is reserved.

        What is allocated differs from step to step: which cached block serves a request depends on those before.
        """
        now = [torch._C._cuda_memoryStats(gpu) for gpu in range(torch.cuda.device_count())]
        figures = [
            (
                stats["allocation"]["all"]["allocated"],
                stats["requested_bytes"]["all"]["allocated"],
                stats["requested_bytes"]["all"]["freed"],
                stats["reserved_bytes"]["all"]["current"],
            )
            for stats in now
        ]
        before = self._before.get(kind) or [(0, 0, 0, 0)] * len(figures)
        self._before[kind] = figures
        return tuple((a - d, b - e, c - f, r) for (a, b, c, r), (d, e, f, _) in zip(figures, before, strict=True))

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
        _forget_own_calls(snapshot)
        name = os.path.join(folder, f"{os.getpid()}")
        gpus = []
        needed = [without_tried(events) for events in snapshot["device_traces"]]
        for gpu, events in enumerate(snapshot["device_traces"]):
            if events:
                made_of = parts(events, noted, watcher.backward, watcher.steps)
                largest = max((event["size"] for event in needed[gpu] if event["action"] == "alloc"), default=0)
                uuid = str(getattr(torch.cuda.get_device_properties(gpu), "uuid", gpu))  # since PyTorch 2.5
                gpus.append(
                    {"gpu": gpu, "uuid": uuid, "parts": made_of, "growth": self._growth(gpu), "largest": largest}
                )
        with open(f"{name}.pickle", "wb") as file:
            pickle.dump(snapshot, file)
        tried = any(len(less) < len(events) for less, events in zip(needed, snapshot["device_traces"], strict=True))
        if tried:
            with open(f"{name}.needed.pickle", "wb") as file:
                pickle.dump(snapshot | {"device_traces": needed}, file)
        report = {
            **_rank(),
            "pid": os.getpid(),
            "torch": torch.__version__,
            "gpus": gpus,
            "counts": dict(watcher.counts),
            "eager": not self._compiles,
            "batch": watcher.batch,
            "paths": dict(kernels.paths),
            "sized_by_values": dict(kernels.sized_by_values),
            "tried": tried,
            "waits_for": line.waits_for,
        }
        with open(f"{name}.{TORCH_REPORT}", "w", encoding="utf-8") as file:
            json.dump(report, file)

    def _growth(self, gpu: int) -> int:
        """Return by how much memory in use grew in the last step."""
        steps = self._signatures[OPTIMIZER]
        return steps[-1][gpu][1] - steps[-1][gpu][2] if len(steps) > 1 else 0


def _forget_own_calls(snapshot: Any) -> None:
    """Leave out gpuconf's own lines, through which each operation goes."""
    for events in snapshot["device_traces"]:
        for event in events:
            frames = event.get("frames")
            if frames and any(frame["filename"].startswith(OWN) for frame in frames):
                event["frames"] = [frame for frame in frames if not frame["filename"].startswith(OWN)]


def _leave_alone(*_args: Any, **_named: Any) -> None:
    """Stand in for the function that would end the rehearsal's record."""


def _rank() -> dict[str, int | None]:
    def number(name: str) -> int | None:
        text = os.environ.get(name, "")
        return int(text) if text.isdigit() else None

    return {"rank": number("RANK"), "world": number("WORLD_SIZE")}
