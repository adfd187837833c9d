# SPDX-License-Identifier: Apache-2.0
"""What is seen of a program of PyTorch while it runs: steps, backward passes, and which memory belongs to what."""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable

import torch
from torch.nn.modules import module as modules_of_torch

from ..._core.stacks import OWN
from ..._typing import Any
from .modules import Modules
from .parts import GRADIENTS, PARAMETERS, STATE, Seen
from .records import CAPABILITY, FREE, MEMORY, NAME

OPTIMIZER, BACKWARD, FORWARD = "optimizer", "backward", "forward"
MADE = "optimizers"  # that were made
CATCHES = "catches"  # functions that catch out-of-memory errors
# What a program asks of its card.
_OF_CARD = {"total_memory": MEMORY, "name": NAME, "minor": CAPABILITY}  # cards that are run together have one major
_NOT_THE_PROGRAM = (os.path.dirname(torch.__file__) + os.sep, OWN, "<frozen")  # whose questions choose kernels
SAVED = "saved"
_MOST_SEEN = 2000  # of each part: a peak comes early, or the steps are too different to be told apart


def now() -> int:
    """Return the time in microseconds, as PyTorch's record has it."""
    return time.time_ns() // 1000


def _address(tensor: Any) -> int:
    """Return the address of a tensor's memory on a GPU, or 0."""
    tensor = getattr(tensor, "_local_tensor", tensor)  # a DTensor's
    try:
        return tensor.untyped_storage().data_ptr() if isinstance(tensor, torch.Tensor) and tensor.is_cuda else 0
    except (RuntimeError, NotImplementedError):
        return 0


def _addresses(tensors: Iterable[tuple[Any, str]]) -> dict[int, str]:
    """Return the modules of tensors by their addresses."""
    found = {_address(tensor): module for tensor, module in tensors}
    found.pop(0, None)
    return found


class Watcher:
    """Counts what runs.

    ``boundary`` is called when an optimizer's step, a backward pass or a model's forward pass has ended.

    ``compiles`` is whether torch.compile does, also for an optimizer's step: what watches that is left to Python.
    """

    def __init__(self, boundary: Callable[[str], None], *, compiles: bool) -> None:
        self._boundary = boundary
        self._compiles = compiles
        self.counts: Counter[str] = Counter()  # also "evaluation", "skipped", "compiled"
        self.seen: list[Seen] = []
        self.backward: list[int] = []
        self.steps: list[int] = []
        self._batch = 0  # of the largest training batch since the last step; of one that failed, 0
        self._stepped_batch = 0  # of those that a step followed, as the last one may be smaller
        self.phases: list[tuple[int, str]] = []  # since when the program does what
        self.modules: Modules = Modules()
        self._modules: weakref.WeakSet[Any] = weakref.WeakSet()
        self._depth = 0
        self._in_backward = 0
        self._stepped_in_backward = False  # by hooks of gradients, in a thread of PyTorch's
        self._handles: list[Any] = []
        self._replaced: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """Register the hooks of PyTorch."""
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        before, after = self._before_step, self._after_step
        if self._compiles:
            before, after = torch.compiler.disable(before), torch.compiler.disable(after)
        self._handles = [
            register_optimizer_step_pre_hook(before),
            register_optimizer_step_post_hook(after),
            modules_of_torch.register_module_parameter_registration_hook(self._registered),
            modules_of_torch.register_module_buffer_registration_hook(self._registered),
            modules_of_torch.register_module_forward_pre_hook(self._before_forward),
            modules_of_torch.register_module_forward_hook(self._after_forward, always_call=True),
        ]
        self._watch_backward()
        self._watch_scaler()
        self._watch_card()
        self._count(torch, "save", SAVED)
        self._count(torch, "compile", "compiled")
        self._count(torch.optim.Optimizer, "__init__", MADE)

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        for module, name, original in reversed(self._replaced):
            setattr(module, name, original)
        self._replaced = []

    def _replace(self, module: Any, name: str, function: Any) -> None:
        self._replaced.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    def _watch_backward(self) -> None:
        import torch.autograd.graph as graph

        engine = graph._engine_run_backward

        def watched(*args: Any, **named: Any) -> Any:
            self.backward.append(now())
            self.counts[BACKWARD] += 1
            self._in_backward += 1
            try:
                result = engine(*args, **named)
            except BaseException:
                self._batch = 0
                raise
            finally:
                self._in_backward -= 1
            if self._stepped_in_backward and not self._in_backward:
                self._stepped_in_backward = False
                self._stepped()
            self._boundary(BACKWARD)
            return result

        self._replace(graph, "_engine_run_backward", watched)
        self._replace(torch.autograd, "_engine_run_backward", watched)

    def _watch_scaler(self) -> None:
        scaler = torch.amp.GradScaler
        original = scaler._maybe_opt_step

        def watched(this: Any, *args: Any, **named: Any) -> Any:
            before = self.counts[OPTIMIZER]
            found = original(this, *args, **named)
            self.counts["skipped"] += self.counts[OPTIMIZER] == before
            return found

        self._replace(scaler, "_maybe_opt_step", watched)

    def watch_accelerate(self) -> None:
        """Count the searches for a batch that fits, which catch out-of-memory errors."""
        self._count(sys.modules["accelerate.utils.memory"], "find_executable_batch_size", CATCHES)

    def _watch_card(self) -> None:
        """Count the questions for what is one card's, and not PyTorch's own."""
        kind: Any = torch._C._CudaDeviceProperties
        for name, what in _OF_CARD.items():
            self._replace(kind, name, property(self._counting(getattr(kind, name).__get__, what)))
        for module in (torch.cuda, torch.cuda.memory):
            self._count(module, "mem_get_info", FREE)

    def _counting(self, read: Any, what: str) -> Any:
        def counted(properties: Any) -> Any:
            frame: Any = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_PROGRAM):
                # What PyTorch checks when it starts is its own.
                frame = None if frame.f_code.co_name == "_lazy_init" else frame.f_back
            self.counts[what] += frame is not None
            return read(properties)

        return counted

    def _count(self, module: Any, name: str, what: str) -> None:
        original = getattr(module, name)

        def counted(*args: Any, **named: Any) -> Any:
            self.counts[what] += 1
            if what == SAVED:
                self._begin("saving")
            return original(*args, **named)

        counted.__dict__.update(getattr(original, "__dict__", {}))
        counted.__wrapped__ = original  # type: ignore[attr-defined]
        counted.__doc__, counted.__name__, counted.__module__ = original.__doc__, name, original.__module__
        self._replace(module, name, counted)

    def _registered(self, module: Any, _name: str, _tensor: Any) -> None:
        self._modules.add(module)

    def _begin(self, phase: str) -> None:
        if len(self.phases) < _MOST_SEEN and (not self.phases or self.phases[-1][1] != phase):
            self.phases.append((now(), phase))

    def _note(self, part: str, tensors: Iterable[tuple[Any, str]]) -> None:
        addresses = _addresses(tensors)
        if addresses and sum(one.part == part for one in self.seen) < _MOST_SEEN:
            self.seen.append(Seen(now(), part, addresses))

    def _before_step(self, optimizer: Any, _args: Any, _named: Any) -> None:
        of = self.modules.of_parameter
        parameters = [(one, of(one)) for group in optimizer.param_groups for one in group["params"]]
        self._note(PARAMETERS, parameters)
        self._note(GRADIENTS, ((one.grad, module) for one, module in parameters))

    def _after_step(self, optimizer: Any, _args: Any, _named: Any) -> None:
        of = self.modules.of_parameter
        states = optimizer.state.items()
        self._note(STATE, ((one, of(parameter)) for parameter, state in states for one in _tensors_in([state])))
        if self._in_backward:
            self._stepped_in_backward = True
        else:
            self._stepped()

    def _stepped(self) -> None:
        self.counts[OPTIMIZER] += 1
        self.steps.append(now())
        self._stepped_batch, self._batch = max(self._stepped_batch, self._batch), 0
        self._boundary(OPTIMIZER)

    @property
    def batch(self) -> int | None:
        """How many rows the largest training batch had, if any ran well."""
        return self._stepped_batch or self._batch or None

    def _before_forward(self, module: Any, inputs: Any) -> None:
        if torch.compiler.is_compiling():  # what the hooks do would end the compiler's graph
            return
        self.modules.enter(module, now())
        if self._depth == 0 and any(True for _ in module.parameters()):
            trains = module.training and torch.is_grad_enabled()
            self._begin("training" if trains else "evaluation")
            first = next((one for one in inputs if isinstance(one, torch.Tensor) and one.dim() > 1), None)
            if first is not None and trains:
                self._batch = max(self._batch, first.shape[0])
        self._depth += 1

    def _after_forward(self, module: Any, _inputs: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self._depth = max(self._depth - 1, 0)
        self.modules.leave(now())
        if self._depth == 0 and any(True for _ in module.parameters()):
            self.counts[FORWARD if module.training else "evaluation"] += 1
            if output is None:  # it failed
                self._batch = 0
            self._boundary(FORWARD)

    def of_modules(self) -> Seen:
        """Return where the parameters and buffers of all modules are now."""
        tensors = []
        for module in list(self._modules):
            path = self.modules.of_module(module)
            tensors += [(one, path) for one in (*module._parameters.values(), *module._buffers.values())]
        return Seen(now(), PARAMETERS, _addresses(tensors))


def _tensors_in(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, dict):
            yield from _tensors_in(value.values())
        elif isinstance(value, (list, tuple)):
            yield from _tensors_in(value)
