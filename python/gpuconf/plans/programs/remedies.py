# SPDX-License-Identifier: Apache-2.0
"""Changes of a PyTorch program that may save memory, each of which ``--help-fit`` tries in a run of its own.

In each process of a rehearsal: which changes the program can make, with the lines to write, and making them.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial, wraps

import torch
from torch.nn.modules import module as modules_of_torch
from torch.utils.checkpoint import checkpoint

from ..._typing import Any
from .records import BF16, CHECKPOINT, FUSED, SINGLE

_OF_OPTIMIZERS = {FUSED: ("fused", True), SINGLE: ("foreach", False)}
_BLOCKS = """from functools import partial
from torch.utils.checkpoint import checkpoint
for block in [one for one in model.modules() if type(one).__name__ in {names}]:
    block.forward = partial(checkpoint, block.forward, use_reentrant=False)"""
_OF_HUGGING_FACE = 'model.gradient_checkpointing_enable({"use_reentrant": False})'
_AUTOCAST = """with torch.autocast("cuda", torch.bfloat16):
    output = model(...)  # the forward pass, not the backward pass"""


class Remedies:
    """The changes of one process: those to make, and those that it could make."""

    def __init__(self, change: str) -> None:
        self._made = set(change.split("+"))
        self._seen: set[int] = set()  # models
        self._depth = 0
        self._autocast: Any = None
        self._blocks: Counter[str] = Counter()  # repeated ones, by class
        self._hugging_face: set[str] = set()  # models that have the change built in
        self._updates_statistics = False
        self._full_precision = False  # whether a forward pass ran without autocast
        self._optimizers: dict[str, set[str]] = {FUSED: set(), SINGLE: set()}

    def install(self) -> None:
        """Begin. Optimizers and models are made later."""
        modules_of_torch.register_module_forward_pre_hook(self._before)
        modules_of_torch.register_module_forward_hook(self._after, always_call=True)
        for kind in vars(torch.optim).values():
            if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer):
                self._watch(kind)

    def applicable(self) -> dict[str, str]:
        """Return the changes that the program can make: what each is called, and in further lines what to write."""
        changes = {}
        if self._blocks:
            counts = ", ".join(f"{count} {name}" for name, count in sorted(self._blocks.items()))
            again = "; statistics of batches are updated twice" if self._updates_statistics else ""
            write = _BLOCKS.format(names=sorted(self._blocks))
            changes[CHECKPOINT] = f"activation checkpointing of {counts}{again}\n{write}"
        if self._hugging_face:
            changes[CHECKPOINT] = f"activation checkpointing of {', '.join(sorted(self._hugging_face))}\n" + (
                'TrainingArguments(gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False})'
                if "transformers.trainer" in sys.modules
                else _OF_HUGGING_FACE
            )
        if self._full_precision:
            changes[BF16] = f"bfloat16 autocast (changes numerics)\n{_AUTOCAST}"
        for change, names in self._optimizers.items():
            if names:
                name, value = _OF_OPTIMIZERS[change]
                write = "\n".join(f"torch.optim.{one}(..., {name}={value})" for one in sorted(names))
                changes[change] = f"{name}={value} of {', '.join(sorted(names))}\n{write}"
        return changes

    def _watch(self, kind: Any) -> None:
        original = kind.__init__
        parameters = inspect.signature(original).parameters
        changes = {change: one for change, one in _OF_OPTIMIZERS.items() if one[0] in parameters}
        if not changes or "__init__" not in vars(kind):
            return

        @wraps(original)
        def initialize(optimizer: Any, *args: Any, **named: Any) -> None:
            if named.get("foreach") is None and named.get("fused") is None:
                for change, (name, value) in changes.items():
                    if type(optimizer) is kind:
                        self._optimizers[change].add(kind.__name__)
                    if change in self._made:
                        named[name] = value
            original(optimizer, *args, **named)

        kind.__init__ = initialize

    def _before(self, module: Any, _inputs: Any) -> None:
        self._depth += 1
        if self._depth > 1 or not module.training or not torch.is_grad_enabled() or _in_backward():
            return
        if id(module) not in self._seen and any(True for _ in module.parameters()):
            self._seen.add(id(module))
            self._checkpoint(module)
        if not torch.is_autocast_enabled("cuda"):
            self._full_precision = True
            if BF16 in self._made:
                self._autocast = torch.autocast("cuda", torch.bfloat16)
                self._autocast.__enter__()

    def _after(self, _module: Any, _inputs: Any, _output: Any) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0 and self._autocast is not None:
            self._autocast.__exit__(None, None, None)
            self._autocast = None

    def _checkpoint(self, model: Any) -> None:
        """Note the model's repeated blocks, and let them compute their activations again, if that is to be tried."""
        built_in = [one for one in model.modules() if getattr(one, "supports_gradient_checkpointing", False)]
        if built_in:
            if not built_in[0].is_gradient_checkpointing:
                self._hugging_face.add(type(built_in[0]).__name__)
                if CHECKPOINT in self._made:
                    built_in[0].gradient_checkpointing_enable({"use_reentrant": False})
            return
        kinds = set(_repeated(model))
        for block in [one for one in model.modules() if type(one) in kinds]:
            self._blocks[type(block).__name__] += 1
            self._updates_statistics |= any("BatchNorm" in type(one).__name__ for one in block.modules())
            if CHECKPOINT in self._made:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def _repeated(model: Any) -> Iterator[type]:
    """Yield the classes of outermost blocks that stand beside others of their class and have modules of their own."""
    children = list(model.children())
    counts = Counter(type(one) for one in children if any(True for _ in one.children()))
    for kind, count in counts.items():
        if count > 1 and kind.__module__ != "torch.nn.modules.container":
            yield kind
    for one in children:
        if counts[type(one)] < 2 or type(one).__module__ == "torch.nn.modules.container":
            yield from _repeated(one)


def _in_backward() -> bool:
    return int(torch._C._current_graph_task_id()) != -1
