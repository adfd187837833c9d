# SPDX-License-Identifier: Apache-2.0
"""The kernels that take the place of PyTorch's for CUDA: those run first, then the CPU computes the values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import torch

from ..._typing import Any
from . import answers, errors, generators, graphs, memory, moves, notice, small, unmarked
from .unmarked import state

_SEVERAL_FOR_A_TASK = re.compile(
    r"aten::(_scaled_dot_product_\w+_attention|_flash_attention_forward|_efficient_attention_forward|"
    r"cudnn_convolution\w*|slow_conv\w+|_slow_conv2d_forward|_conv_depthwise2d|conv_depthwise3d)(\.\w+)?"
)
_CPU = torch.device("cpu")
CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_NO_RESULT = object()

Kernel = Callable[..., Any]

paths: Counter[str] = Counter()  # by operator, without "aten::"
sized_by_values: Counter[str] = Counter()  # operators whose results have as many elements as values of no tensor say


def counting(name: str, kernel: Kernel) -> Kernel:
    """Return a kernel that is counted, if its operator is one of several for the same task."""
    several = _SEVERAL_FOR_A_TASK.fullmatch(name)
    if several is None:
        return kernel
    path = several[1]

    def counted(*args: Any, **named: Any) -> Any:
        paths[path] += 1
        return kernel(*args, **named)

    return counted


class Operator:
    """An operator: PyTorch's kernel for CUDA, how the CPU computes it, and what has to be known of its schema."""

    def __init__(self, overload: Any, original: Any, compute: Kernel | None) -> None:
        schema = overload._schema
        self.name: str = overload.name()
        self.is_foreign: bool = not self.name.startswith("aten::")
        self.original: Any = answers.without_errors(original) if self.name in answers.CHECKS else original
        compute = compute or overload._handle.redispatch_boxed
        self.compute: Kernel = errors.product(compute) if errors.PRODUCTS.fullmatch(self.name) else compute
        # Of each result, whether it is an argument that the operator wrote to.
        self.aliased: list[bool] = [result.alias_info is not None for result in schema.returns]
        self.returns: int = len(self.aliased)
        self.takes_generator: bool = any(str(argument.type) == "Optional[Generator]" for argument in schema.arguments)
        # The others draw numbers only with a dropout, and then PyTorch's kernel advances the generator.
        self.advances: bool = self.takes_generator or "dropout" in self.name
        self.random: bool = self.takes_generator or torch.Tag.nondeterministic_seeded in overload.tags
        self.written: list[tuple[int, str]] = [
            (place, argument.name)
            for place, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        self.tensors: tuple[int, ...] = tensor_places(overload)
        self.out_names: list[str] = [argument.name for argument in schema.arguments if argument.is_out]

    def targets(self, args: Any, named: dict[str, Any]) -> list[Any]:
        """Return the arguments that it writes to."""
        return [args[place] if place < len(args) else named.get(name) for place, name in self.written]


def tensor_places(overload: Any) -> tuple[int, ...]:
    """Return the places of an operator's arguments that are tensors."""
    types = (str(argument.type) for argument in overload._schema.arguments)
    return tuple(place for place, kind in enumerate(types) if "Tensor" in kind and "List" not in kind)


def arguments_on_cpu(value: Any) -> Any:
    """Return an argument with CPU tensors of the same memory in place of tensors on simulated GPUs."""
    if isinstance(value, torch.Tensor):
        return moves.to_view(value) if value.is_cuda else value
    kind = type(value)
    return [arguments_on_cpu(part) for part in value] if kind is list or kind is tuple else value


def named_on_cpu(values: dict[str, Any]) -> dict[str, Any]:
    """Like `arguments_on_cpu`, for arguments by name."""
    instead = {"device": _CPU, "pin_memory": None}
    return {name: instead[name] if name in instead else arguments_on_cpu(value) for name, value in values.items()}


def run_on_cpu(operator: Operator, args: Any, named: dict[str, Any], seed: int) -> Any:
    """Let the CPU compute an operator. Returns its results."""
    if torch.is_autocast_enabled("cpu"):
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return _run(operator, args, named, seed)
    return _run(operator, args, named, seed)


def _run(operator: Operator, args: Any, named: dict[str, Any], seed: int) -> Any:
    if not operator.random:
        return errors.attempt(operator.compute, CPU_KEYS, args, named)
    if operator.takes_generator:
        args = [None if isinstance(value, torch.Generator) else value for value in args]
        named = {**named, "generator": generators.seeded(seed)}
        return errors.attempt(operator.compute, CPU_KEYS, args, named)
    with generators.DefaultSeeded(seed):
        return errors.attempt(operator.compute, CPU_KEYS, args, named)


class Call:
    """A call of an operator on simulated GPUs.

    Its stages: PyTorch's kernel for CUDA allocates the results and writes nothing (`allocate`). Then the CPU computes
    from the arguments' memory, and what it computes is written into the results (`finish`): at once, or under capture
    at each replay. Where that kernel cannot run, the CPU computes first and its results are moved (`moved`).
    """

    __slots__ = ("args", "captured", "draw", "keys", "layouts", "named", "operator")

    def __init__(self, operator: Operator, keys: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.operator, self.keys, self.named = operator, keys, named
        self.args: tuple[Any, ...] = memory.as_tensors(args, operator.tensors)
        self.captured: bool = False
        self.layouts: list[Any] = []  # of the tensors that it writes to, before PyTorch's kernel has changed some
        self.draw: generators.Draw | None = None

    def run(self, stages: Callable[[Call], Any]) -> Any:
        """Return what the stages return. What they call is not computed on its own meanwhile."""
        before = state.inside
        state.inside = True
        state.mark.value += 1
        try:
            if graphs.left.value:
                graphs.wait(self.args, self.named)
            self.captured = graphs.capturing()
            if self.operator.random and not self.captured:
                self.draw = generators.Draw(self._source())
            results = stages(self)
            if self.draw is not None and self.operator.advances:
                self.draw.done()
            return results
        finally:
            state.mark.value -= 1
            state.inside = before

    def compute(self) -> Any:
        """Let PyTorch's kernel allocate the results, and the CPU compute them."""
        dense = (t for t in self._targets() if isinstance(t, torch.Tensor) and t.layout is torch.strided)
        self.layouts = [(target, target.size(), target.stride(), target.storage_offset()) for target in dense]
        missed = state.missed.value
        try:
            results = self.allocate(reads=moves.only_small)
        except RuntimeError as error:
            reads = state.missed.value != missed
            if not reads and not errors.is_library(error):
                raise
            results = self.moved(reads=reads)
            self.pass_on(results)
            return results
        if moves.only_small and not small.computes(self.operator, results, self.args, self.named):
            small.leave(self.operator, results, self.args)
            return results
        self.pass_on(results)
        try:
            self.finish(results, self._args_on_cpu(), named_on_cpu(self.named))
        except (IndexError, RuntimeError) as error:
            if not errors.is_index(error) or not unmarked.count():
                raise
            if not moves.only_small:
                raise IndexError(f"{error}. {unmarked.doubt()}") from error
            small.leave(self.operator, results, self.args)
        return results

    def allocate(self, *, reads: bool = False) -> Any:
        """Let PyTorch's kernel for CUDA run, with the card's memory as it is.

        What it reads on the host has an answer, or is refused unless it ``reads`` whatever is there.
        """
        before = state.quiet.value
        state.quiet.value = unmarked.QUIET_BUT_READS if reads else unmarked.QUIET
        try:
            return self.operator.original(self.keys, *self.args, **self.named)
        finally:
            state.quiet.value = before

    def finish(self, results: Any, args: Any, named: dict[str, Any]) -> None:
        """Let the CPU compute, and write what it computes into the results."""
        operator = self.operator
        if not self.captured:
            _write(operator, results, run_on_cpu(operator, args, named, self._seed()))
            return
        known = arguments_on_cpu(results)
        graphs.record(
            lambda seed: _write(operator, known, run_on_cpu(operator, args, named, seed)),
            self._source() if operator.random else None,
            advances=operator.advances,
        )

    def moved(self, *, reads: bool) -> Any:
        """Let the CPU compute, and move its results to the simulated GPU. On a card, an operator that ``reads``
        waits.
        """
        operator = self.operator
        if reads and self.captured:
            raise RuntimeError(
                f"CUDA error: operation not permitted when stream is capturing: {operator.name} waits for a value"
            )
        if reads:
            notice.note()
        args, named = self._args_on_cpu(), named_on_cpu(self.named)
        outs = {name: self.named[name] for name in operator.out_names}
        if operator.written and not outs and all(operator.aliased):
            self.finish(None, args, named)
            return _sole(self._targets()) if operator.aliased else None
        fresh = {name: torch.empty(0, dtype=out.dtype, device=_CPU) for name, out in outs.items()}
        computed = run_on_cpu(operator, args, {**named, **fresh}, self._seed())
        for name, out in outs.items():
            _resize(out, fresh[name].shape)
            moves.fill(out, fresh[name])
        results = _sole(list(outs.values())) if outs else moves.to_gpu(computed, (self.args, self.named))
        if self.captured:
            self.finish(results, args, named_on_cpu(self.named))
        return results

    def answered(self, values_of: answers.Answers) -> Any:
        """Let the CPU compute, and then PyTorch's kernel allocate the results, whose reads are answered."""
        args = arguments_on_cpu(self.args)
        computed = run_on_cpu(self.operator, args, named_on_cpu(self.named), self._seed())
        values = values_of(computed, args)
        if values is None:
            return _NO_RESULT
        missed = state.missed.value
        try:
            with answers.Answering(values):
                results = self.allocate()
        except (RuntimeError, IndexError) as error:
            if (isinstance(error, torch.OutOfMemoryError) and state.missed.value == missed) or notice.is_noticed(error):
                raise
            return _NO_RESULT
        if not answers.same_shapes(results, computed):
            return _NO_RESULT
        if isinstance(computed, (torch.Tensor, list, tuple)):
            _write(self.operator, results, computed)
        return results

    def pass_on(self, results: Any) -> None:
        """Note, where only small tensors are computed, that results have no value because an argument has none."""
        if moves.only_small:
            small.pass_on(results, self._targets(), (*self.args, *self.named.values()))

    def _args_on_cpu(self) -> Any:
        args = arguments_on_cpu(self.args)
        for target, *layout in self.layouts:
            if target.size() != layout[0]:  # the CPU's kernel is going to change it, too
                pairs = zip(self.args, args, strict=True)
                args = [cpu.as_strided(*layout) if arg is target else cpu for arg, cpu in pairs]
        return args

    def _targets(self) -> list[Any]:
        return self.operator.targets(self.args, self.named) if self.operator.written else []

    def _source(self) -> torch.Generator:
        """Return the generator that the operation draws from."""
        values = (*self.args, *self.named.values())
        for value in values:
            if isinstance(value, torch.Generator):
                return value
        return generators.default_of(moves.device_among(values) or torch.device("cuda"))

    def _seed(self) -> int:
        return 0 if self.draw is None else self.draw.seed


def _sole(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _write(operator: Operator, results: Any, computed: Any) -> None:
    """Write what the CPU computed into results that are no arguments."""
    if all(operator.aliased):
        return
    if operator.returns == 1:
        results, computed = (results,), (computed,)
    for aliased, result, value in zip(operator.aliased, results, computed, strict=True):
        if aliased:
            continue
        if operator.is_foreign and isinstance(value, torch.Tensor) and value.shape != result.shape:
            raise NotImplementedError(
                f"gpuconf: {operator.name} is not computed on simulated GPUs: its kernel for CUDA returned sizes "
                f"{tuple(result.shape)}, and the CPU's {tuple(value.shape)}"
            )
        moves.fill(result, value)


def _resize(out: torch.Tensor, shape: torch.Size) -> None:
    """Give an output its shape, with PyTorch's warning if it has another one and elements."""
    if out.numel() and out.shape != shape:
        notice.warn(
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
            f"match the required output shape {list(shape)}."
        )
    out.resize_(shape)


def computing(operator: Operator) -> Kernel:
    """Make the kernel of an operator whose results PyTorch's kernel for CUDA allocates."""

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        if state.inside:
            return operator.original(keys, *memory.as_tensors(args, operator.tensors), **named)
        return Call(operator, keys, args, named).run(Call.compute)

    return kernel


def alone(operator: Operator, *, reads: bool, sized: bool) -> Kernel:
    """Make the kernel of an operator that the CPU computes first.

    With ``reads``, it waits on a card for what it reads, as one does whose results have sizes that depend on values
    (``sized``), unless its arguments say the size. Where it is known what PyTorch's kernel reads, that runs, too, and
    allocates the results.
    """
    values_of = answers.ANSWERS.get(operator.name)

    def stages(call: Call) -> Any:
        if moves.only_small and sized and any(map(small.has_no_value, call.args)):
            sized_by_values[operator.name] += 1
        results = call.answered(values_of) if values_of and not call.captured else _NO_RESULT
        if results is _NO_RESULT:
            _check_devices((*call.args, *call.named.values()))
            results = call.moved(reads=reads and call.named.get("output_size") is None)
        call.pass_on(results)
        return results

    return lambda keys, *args, **named: Call(operator, keys, args, named).run(stages)


def _check_devices(values: tuple[Any, ...]) -> None:
    """Raise PyTorch's error for tensors of two devices, unless they are numbers."""
    devices = list(dict.fromkeys(one.device for one in values if isinstance(one, torch.Tensor) and one.dim()))
    if len(devices) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{devices[0]} and {devices[1]}!"
        )


def reading(operator: Operator) -> Kernel:
    """Make the kernel that reads one value.

    Within an operation no kernel has written it: it has an answer, or the read is refused and the CPU computes all.
    """
    outside = alone(operator, reads=True, sized=False)

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        if state.inside and state.answers:
            notice.note()
            return state.answers.pop(0)
        if state.quiet.value == unmarked.QUIET:
            return operator.original(keys, *args, **named)
        return outside(keys, *args, **named)

    return kernel


copied_to_host: list[Callable[[torch.Tensor], None]] = []  # called with what a program copies from a GPU


def copying(operator: Operator) -> Kernel:
    """Make the kernel of ``copy_``. Copies without conversion are the driver's; the CPU does the others."""

    def stages(call: Call) -> torch.Tensor:
        to, source = call.args[:2]
        if call.captured:
            target, values = arguments_on_cpu(to), arguments_on_cpu(source)
            graphs.record(lambda _seed: target.copy_(values))
            return to
        operator.original(call.keys, *call.args)
        if moves.only_small and small.has_no_value(source):
            if small.is_large(source):
                small.read(operator.name)
            small.mark(to)
        if to.numel() and not moves.is_bytewise(to, source):
            arguments_on_cpu(to).copy_(arguments_on_cpu(source))
        return to

    def kernel(keys: Any, to: torch.Tensor, source: Any, non_blocking: bool = False) -> torch.Tensor:
        call = Call(operator, keys, (to, source, non_blocking), {})
        source = call.args[1]
        is_dense = to.layout is source.layout is torch.strided
        if is_dense and moves.only_small and to.is_cuda and small.is_large(to):
            return to
        if is_dense and not state.inside:
            if to.is_cpu and source.is_cuda:
                for note in copied_to_host:
                    note(to)
            return call.run(stages)
        if is_dense and state.answers and source.is_cuda and to.is_cpu and to.numel():
            notice.note()
            return to.fill_(state.answers.pop(0))
        return operator.original(keys, *call.args)

    return kernel


def unless_inside(operator: Operator) -> Kernel:
    """Make the kernel of a check of values, of which an operator has none: it finds no error.

    The CPU's makes the same check.
    """

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        if not state.inside:
            return operator.original(keys, *args, **named)
        with answers.Answering([False]):
            return operator.original(keys, *args, **named)

    return kernel


def refusing(overload: Any, original: Any, instead: str) -> Kernel:
    """Make the kernel of an operator that the CPU cannot compute. Inside another one, PyTorch's kernel allocates."""
    places = tensor_places(overload)

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        if state.inside:
            return original(keys, *memory.as_tensors(args, places), **named)
        raise NotImplementedError(f"gpuconf: {overload.name()} is not computed on simulated GPUs. {instead}")

    return kernel
