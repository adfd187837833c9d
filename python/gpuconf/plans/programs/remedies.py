# SPDX-License-Identifier: Apache-2.0
"""Changes of a PyTorch program that may save memory, each of which ``--help-fit`` tries in a run of its own.

In each process of a rehearsal: which changes the program can make, with the lines to write, and making them.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial, wraps
from types import FrameType, MethodType

import torch
from torch.nn.modules import module as modules_of_torch
from torch.utils.checkpoint import checkpoint

from ..._core import stacks
from ..._core.import_hook import when_imported
from ..._typing import Any
from .records import ACCUMULATE, ATTENTION, BF16, CHECKPOINT, EIGHT_BITS, FP16, FUSED, OFFLOAD, ON_HOST, SINGLE

_OF_OPTIMIZERS = {FUSED: ("fused", True), SINGLE: ("foreach", False)}
_BLOCKS = """from functools import partial
from torch.utils.checkpoint import checkpoint
for block in [one for one in model.modules() if type(one).__name__ in {names}]:
    block.forward = partial(checkpoint, block.forward, use_reentrant=False)"""
# How models that have activation checkpointing built in call it: transformers 5.24 and newer, before, and diffusers.
_BUILT_IN = {
    "activation_checkpointing_enable": '{"use_reentrant": False}',
    "gradient_checkpointing_enable": '{"use_reentrant": False}',
    "enable_gradient_checkpointing": "",
}
_CONTEXTS = {
    BF16: ("bfloat16 autocast (changes numerics)", 'torch.autocast("cuda", torch.bfloat16)'),
    FP16: ("float16 autocast (changes numerics)", 'torch.autocast("cuda", torch.float16)'),
    OFFLOAD: ("activations in the host's memory", "torch.autograd.graph.save_on_cpu(pin_memory=True)"),
}
_AROUND = """with {context}:
    output = model(...)  # the forward pass, not the backward pass"""
_SCALER = """
# and with scaler = torch.amp.GradScaler(), made once:
#     scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()"""
_STAGES = 4  # at most, in models whose outermost repeated modules have blocks of their own
_ON_HOST = (
    "torchao.optim.CPUOffloadOptimizer(model.parameters(), torch.optim.{name}, ...)  # in place of torch.optim.{name}"
)
_PRECISIONS = {BF16: "bf16", FP16: "fp16"}  # names of transformers' arguments
_OF_LIGHTNING = {BF16: 'Trainer(precision="bf16-mixed")', FP16: 'Trainer(precision="16-mixed")'}


class Remedies:
    """The changes of one process: those to make, and those that it could make."""

    def __init__(self, change: str) -> None:
        self._made = set(change.split("+"))
        self._seen: set[int] = set()  # models
        self._models: Counter[str] = Counter()  # by class
        self._depth = 0
        self._entered: list[Any] = []  # contexts of the forward pass
        self._blocks: Counter[str] = Counter()  # repeated ones, by class
        self._built_in: dict[str, str] = {}  # by models that have the change built in, how they call it
        self._place = ""  # of the call of the first model
        self._places: dict[str, str] = {}  # by optimizers, where they are made
        self._updates_statistics = False
        self._slow_attention: set[str] = set()  # models of Hugging Face that keep all scores
        self._trains = False
        self._full_precision = False  # whether a forward pass ran without autocast
        self._optimizers: dict[str, set[str]] = {FUSED: set(), SINGLE: set()}

    def install(self) -> None:
        """Begin. Optimizers and models are made later."""
        modules_of_torch.register_module_forward_pre_hook(self._before)
        modules_of_torch.register_module_forward_hook(self._after, always_call=True)
        for kind in list(vars(torch.optim).values()):
            if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer):
                self._watch(kind)
        for change in self._made & {CHECKPOINT, *_PRECISIONS}:
            when_imported("transformers.training_args", partial(_train_with, change), keep=True)
        if ACCUMULATE in self._made:
            _accumulate()
        if EIGHT_BITS in self._made:
            _use_eight_bits()
        if ON_HOST in self._made:
            _keep_states_on_host()

    def applicable(self) -> dict[str, str]:
        """Return the changes that the program can make: what each is called, and in further lines what to write."""
        changes = {}
        if self._blocks:
            counts = ", ".join(f"{count} {name}" for name, count in sorted(self._blocks.items()))
            again = "; statistics of batches are updated twice" if self._updates_statistics else ""
            write = _BLOCKS.format(names=sorted(self._blocks))
            changes[CHECKPOINT] = f"activation checkpointing of {counts}{again}\n{self._before_call()}{write}"
        if self._built_in:
            names = ", ".join(sorted(self._built_in))
            calls = "\n".join(f"model.{name}({_BUILT_IN[name]})" for name in sorted({*self._built_in.values()}))
            write = _of_library(CHECKPOINT) or self._before_call() + calls
            changes[CHECKPOINT] = f"activation checkpointing of {names}\n{write}"
        if self._slow_attention:
            names = ", ".join(sorted(self._slow_attention))
            write = f'{self._before_call()}model.set_attn_implementation("sdpa")'
            changes[ATTENTION] = f"PyTorch's attention in {names}\n{write}"
        for change, seen in ((OFFLOAD, self._trains), (BF16, self._full_precision), (FP16, self._full_precision)):
            if seen:
                title, context = _CONTEXTS[change]
                around = f"# where {self._place} calls the model:\n{_AROUND.format(context=context)}"
                around += _SCALER if change == FP16 else ""
                changes[change] = f"{title}\n{_of_library(change) or around}"
        for change, optimizers in self._optimizers.items():
            if optimizers:
                name, value = _OF_OPTIMIZERS[change]
                places = "\n".join(f"# at {self._places[one]}:" for one in sorted(optimizers))
                write = "\n".join(f"torch.optim.{one}(..., {name}={value})" for one in sorted(optimizers))
                changes[change] = f"{name}={value} of {', '.join(sorted(optimizers))}\n{places}\n{write}"
        adams = sorted({"Adam", "AdamW"} & self._optimizers[SINGLE])
        if adams and importlib.util.find_spec("torchao") is not None:
            names = " and ".join(adams)
            places = "\n".join(f"# at {self._places[one]}:" for one in adams)
            write = "\n".join(f"torchao.optim.{one}8bit(...)  # in place of torch.optim.{one}" for one in adams)
            changes[EIGHT_BITS] = f"{names} with states of 8 bits (changes numerics)\n{places}\n{write}"
            write = "\n".join(_ON_HOST.format(name=one) for one in adams)
            changes[ON_HOST] = f"{names} with states in the host's memory, where it computes\n{places}\n{write}"
        return changes

    def _before_call(self) -> str:
        made = next(iter(self._places.values()), "")
        where = f"once, where {made} makes an optimizer" if made else "once, before the loop"
        if sum(self._models.values()) < 2:
            return f"# {where}, for the model that {self._place} calls:\n"
        names = ", ".join(f"{count} {name}" for name, count in sorted(self._models.items()))
        return f"# {where}, for each model ({names}):\n"

    def _watch(self, kind: Any) -> None:
        original = kind.__init__
        parameters = inspect.signature(original).parameters
        changes = {change: one for change, one in _OF_OPTIMIZERS.items() if one[0] in parameters}
        if not changes or "__init__" not in vars(kind):
            return

        @wraps(original)
        def initialize(optimizer: Any, *args: Any, **named: Any) -> None:
            self._places.setdefault(kind.__name__, _place())
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
            self._models[type(module).__name__] += 1
            self._place = self._place or _place()
            self._checkpoint(module)
            self._trains = True
        if not torch.is_autocast_enabled("cuda"):
            self._full_precision = True
            for change, kind in ((BF16, torch.bfloat16), (FP16, torch.float16)):
                if change in self._made:
                    self._entered.append(torch.autocast("cuda", kind))
        if OFFLOAD in self._made:
            self._entered.append(torch.autograd.graph.save_on_cpu(pin_memory=True))
        for one in self._entered:
            one.__enter__()

    def _after(self, _module: Any, _inputs: Any, _output: Any) -> None:
        self._depth = max(self._depth - 1, 0)
        while self._depth == 0 and self._entered:
            self._entered.pop().__exit__(None, None, None)

    def _checkpoint(self, model: Any) -> None:
        """Note the model's repeated blocks, and let them compute their activations again, if that is to be tried."""
        for one in model.modules():
            if hasattr(one, "set_attn_implementation") and one.config._attn_implementation == "eager":
                self._slow_attention.add(type(one).__name__)
                if ATTENTION in self._made:
                    one.set_attn_implementation("sdpa")
        first = next((one for one in model.modules() if _has_built_in(one)), None)
        if first is not None:
            if not any(getattr(one, "gradient_checkpointing", False) for one in first.modules()):
                name = next(name for name in _BUILT_IN if hasattr(first, name))
                self._built_in[type(first).__name__] = name
                if CHECKPOINT in self._made:
                    getattr(first, name)(*([{"use_reentrant": False}] if _BUILT_IN[name] else []))
            return
        kinds = set(_repeated(model))
        for block in [one for one in model.modules() if type(one) in kinds]:
            self._blocks[type(block).__name__] += 1
            self._updates_statistics |= any("BatchNorm" in type(one).__name__ for one in block.modules())
            if CHECKPOINT in self._made:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def _has_built_in(model: Any) -> bool:
    """Whether a model of transformers or diffusers can compute its activations again."""
    return bool(
        getattr(model, "supports_gradient_checkpointing", False)
        or getattr(model, "_supports_gradient_checkpointing", False)
    )


def _place() -> str:
    """Return the program's line that led here: the innermost one, of its first file if there is one."""
    first, places = getattr(sys.modules["__main__"], "__file__", None), []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file, line = frame.f_code.co_filename, frame.f_lineno
        if stacks.is_program((file, line, frame.f_code.co_name)):
            places.append((file != first, stacks.place(os.path.basename(file), line)))
        frame = frame.f_back
    return min(places, key=lambda one: one[0], default=(True, "the program"))[1]


def _of_library(change: str) -> str:
    """Return how a change is written for the library that has the program's loop, "" if none has."""
    if "transformers.trainer" in sys.modules:
        arguments = _arguments_of_trainer(change)
        if arguments:
            words = ", ".join(f"{name}={value}" for name, value in arguments.items())
            flags = " ".join(f"--{name} {_flag(value)}" for name, value in arguments.items())
            return f"TrainingArguments({words})\n# or, if they come from the command line: {flags}"
    elif any(f"{name}.trainer" in sys.modules for name in ("lightning.pytorch", "pytorch_lightning")):
        return _OF_LIGHTNING.get(change, "")
    return ""


def _flag(value: Any) -> str:
    return f"'{json.dumps(value)}'" if isinstance(value, dict) else str(value)


def _arguments_of_trainer(change: str) -> dict[str, Any]:
    """Return the arguments with which transformers makes a change."""
    if change in _PRECISIONS:
        return {_PRECISIONS[change]: True}
    known = sys.modules["transformers.training_args"].TrainingArguments.__dataclass_fields__
    name = next((one for one in ("activation_checkpointing", "gradient_checkpointing") if one in known), "")
    if change != CHECKPOINT or not name:
        return {}
    return {name: True, f"{name}_kwargs": {"use_reentrant": False}}


def _train_with(change: str) -> None:
    """Let transformers' Trainer make a change: it does more for some than is seen of its models."""
    kind = sys.modules["transformers.training_args"].TrainingArguments
    original = kind.__post_init__

    @wraps(original)
    def after_init(arguments: Any) -> None:
        for name, value in _arguments_of_trainer(change).items():
            setattr(arguments, name, value)
        original(arguments)

    kind.__post_init__ = after_init


def _accumulate() -> None:
    """Let each optimizer step at every other call only, and gradients stay until it has: in two batches all that many
    do is seen.
    """
    kind: Any = torch.optim.Optimizer
    original, zero_modules = kind.__init__, torch.nn.Module.zero_grad
    stepped = [True]  # whether one has, since a model's gradients were set to zero

    def step(optimizer: Any, closure: Any = None, **named: Any) -> Any:
        optimizer._gpuconf_calls += 1
        if optimizer._gpuconf_calls % 2:
            with torch.enable_grad():
                return None if closure is None else closure()
        stepped[0] = True
        return type(optimizer).step(optimizer, *(() if closure is None else (closure,)), **named)

    def zero_grad(optimizer: Any, *args: Any, **named: Any) -> None:
        if optimizer._gpuconf_calls % 2 == 0:
            type(optimizer).zero_grad(optimizer, *args, **named)

    def zero_module(module: Any, *args: Any, **named: Any) -> None:
        if stepped[0]:
            stepped[0] = False
            zero_modules(module, *args, **named)

    @wraps(original)
    def initialize(optimizer: Any, *args: Any, **named: Any) -> None:
        original(optimizer, *args, **named)
        optimizer._gpuconf_calls = 0
        optimizer.step, optimizer.zero_grad = MethodType(step, optimizer), MethodType(zero_grad, optimizer)

    kind.__init__ = initialize
    torch.nn.Module.zero_grad = zero_module


def _use_eight_bits() -> None:
    """Put torchao's optimizers in the place of PyTorch's: before the program imports them."""
    import torchao.optim  # type: ignore[import-not-found,unused-ignore]

    for name in ("Adam", "AdamW"):
        kind = getattr(torchao.optim, f"{name}8bit")
        taken = inspect.signature(kind).parameters

        def make(*args: Any, kind: Any = kind, taken: Any = taken, **named: Any) -> Any:
            return kind(*args, **{key: value for key, value in named.items() if key in taken})

        setattr(torch.optim, name, make)


def _keep_states_on_host() -> None:
    """Put torchao's optimizer for states in the host's memory in the place of those of PyTorch. Its steps there change
    nothing of the GPU's memory: they are left out.
    """
    import torchao.optim

    for name in ("Adam", "AdamW"):

        class WithoutSteps(getattr(torch.optim, name)):  # type: ignore[misc]
            def step(self, closure: Any = None) -> Any:
                on_gpu = self.param_groups[0]["params"][0].is_cuda
                return super().step(closure) if on_gpu else None

        setattr(torch.optim, name, partial(_on_host, torchao.optim.CPUOffloadOptimizer, WithoutSteps))


def _on_host(offload: Any, kind: Any, params: Any, *args: Any, **named: Any) -> Any:
    """Make an optimizer with the arguments of PyTorch's."""
    bound = inspect.signature(kind).bind(params, *args, **named).arguments
    return offload(bound.pop("params"), kind, **bound)


def _repeated(model: Any) -> Iterator[type]:
    """Yield the classes of outermost blocks that stand beside others of their class and have modules of their own.

    Of a few stages of a model the blocks count: a stage computes all of its activations again at once.
    """
    children = list(model.children())
    counts = Counter(type(one) for one in children if any(True for _ in one.children()))
    for kind, count in counts.items():
        if count > 1 and kind.__module__ != "torch.nn.modules.container":
            inner = {one for child in children if type(child) is kind for one in _repeated(child)}
            yield from inner if count <= _STAGES and inner else [kind]
    for one in children:
        if counts[type(one)] < 2 or type(one).__module__ == "torch.nn.modules.container":
            yield from _repeated(one)


def _in_backward() -> bool:
    return int(torch._C._current_graph_task_id()) != -1
