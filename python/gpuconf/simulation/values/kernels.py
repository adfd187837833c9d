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

_WITH_PATHS = re.compile(
    r"aten::(_scaled_dot_product_\w+_attention|_flash_attention_forward|_efficient_attention_forward)(\.\w+)?"
)
_CONVOLUTIONS = re.compile(
    r"aten::(cudnn_convolution\w*|slow_conv\w+|_slow_conv2d_forward|_conv_depthwise2d|conv_depthwise3d)(\.\w+)?"
)

paths: Counter[str] = Counter()  # by operator, without "aten::"
sized_by_values: Counter[str] = Counter()  # operators whose results have as many elements as values of no tensor say


def counting(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that is counted, if its operator is one of several for the same task."""
    found = _WITH_PATHS.fullmatch(name) or _CONVOLUTIONS.fullmatch(name)
    if found is None:
        return kernel
    path = found[1]

    def counted(*args: Any, **named: Any) -> Any:
        paths[path] += 1
        return kernel(*args, **named)

    return counted


_CPU = torch.device("cpu")
CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

# PyTorch's kernels for them give work to the driver, which does it.
_FILLS = ("aten::zero_", "aten::fill_.Scalar", "aten::fill_.Tensor")

Kernel = Callable[..., Any]
_NO_RESULT = object()


class Operator:
    """An operator: PyTorch's kernel for CUDA, how the CPU computes it, and what has to be known of its schema."""

    __slots__ = (
        "advances",
        "aliased",
        "compute",
        "is_foreign",
        "name",
        "original",
        "out_names",
        "random",
        "returns",
        "takes_generator",
        "tensors",
        "written",
    )

    def __init__(self, overload: Any, original: Any, compute: Kernel | None) -> None:
        schema = overload._schema
        self.name: str = overload.name()
        self.is_foreign: bool = not self.name.startswith("aten::")
        self.original: Any = original
        self.compute: Kernel = compute or overload._handle.redispatch_boxed
        # Of each result, whether it is an argument that the operator wrote to.
        self.aliased: list[bool] = [one.alias_info is not None for one in schema.returns]
        self.returns: int = len(self.aliased)
        self.takes_generator: bool = any(str(one.type) == "Optional[Generator]" for one in schema.arguments)
        # The others draw numbers only with a dropout, and then PyTorch's kernel advances the generator.
        self.advances: bool = self.takes_generator or "dropout" in self.name
        self.random: bool = self.takes_generator or torch.Tag.nondeterministic_seeded in overload.tags
        self.written: list[tuple[int, str]] = [
            (at, one.name)
            for at, one in enumerate(schema.arguments)
            if one.alias_info is not None and one.alias_info.is_write
        ]
        self.tensors: tuple[int, ...] = tensor_places(overload)
        self.out_names: list[str] = [one.name for one in schema.arguments if one.is_out]


def tensor_places(overload: Any) -> tuple[int, ...]:
    """Return the places of an operator's arguments that are tensors."""
    arguments = overload._schema.arguments
    return tuple(at for at, one in enumerate(arguments) if "Tensor" in str(one.type) and "List" not in str(one.type))


def arguments_on_cpu(value: Any) -> Any:
    """Return an argument with CPU tensors of the same memory in place of tensors on simulated GPUs."""
    if isinstance(value, torch.Tensor):
        return moves.to_view(value) if value.is_cuda else value
    kind = type(value)
    if kind is list or kind is tuple:
        return [arguments_on_cpu(one) for one in value]
    return value


def named_on_cpu(values: dict[str, Any]) -> dict[str, Any]:
    """Like `arguments_on_cpu`, for arguments by name."""
    on_cpu = {}
    for name, value in values.items():
        if name == "device":
            value = _CPU
        elif name == "pin_memory":
            value = None
        on_cpu[name] = arguments_on_cpu(value)
    return on_cpu


def _targets(operator: Operator, args: tuple[Any, ...], named: dict[str, Any]) -> list[torch.Tensor]:
    """Return the dense tensors that an operator writes to."""
    found = (args[at] if at < len(args) else named.get(name) for at, name in operator.written)
    return [one for one in found if isinstance(one, torch.Tensor) and one.layout is torch.strided]


def _is_target(tensor: torch.Tensor) -> bool:
    """Whether the operation that runs writes to a tensor's memory."""
    return bool(state.targets) and tensor.untyped_storage().data_ptr() in state.targets


def run_on_cpu(operator: Operator, args: Any, named: dict[str, Any], seed: int | None) -> Any:
    """Let the CPU compute an operator. Returns its results."""
    if torch.is_autocast_enabled("cpu"):
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return _run(operator, args, named, seed)
    return _run(operator, args, named, seed)


def _run(operator: Operator, args: Any, named: dict[str, Any], seed: int | None) -> Any:
    if seed is None:
        return errors.attempt(operator.compute, CPU_KEYS, args, named)
    if operator.takes_generator:
        args = [None if isinstance(one, torch.Generator) else one for one in args]
        named = {**named, "generator": generators.seeded(seed)}
        return errors.attempt(operator.compute, CPU_KEYS, args, named)
    with generators.DefaultSeeded(seed):
        return errors.attempt(operator.compute, CPU_KEYS, args, named)


def source_of(args: Any, named: dict[str, Any]) -> torch.Generator:
    """Return the generator that an operation draws from."""
    device = None
    for value in (*args, *named.values()):
        if isinstance(value, torch.Generator):
            return value
        if device is None:
            if isinstance(value, torch.Tensor) and value.is_cuda:
                device = value.device
            elif isinstance(value, torch.device) and value.type == "cuda":
                device = value
    return generators.default_of(device or torch.device("cuda"))


def draw(args: Any, named: dict[str, Any]) -> generators.Draw:
    """Return the state of the generator that an operation draws from."""
    return generators.Draw(source_of(args, named))


def record(operator: Operator, drawn: tuple[Any, dict[str, Any]], compute: Callable[[int], None]) -> None:
    """Keep an operation for the replays of a graph. ``drawn`` are its arguments, by place and by name."""
    graphs.record(compute, source_of(*drawn) if operator.random else None, advances=operator.advances)


def write(operator: Operator, results: Any, computed: Any) -> None:
    """Write what the CPU computed into the results on the simulated GPU."""
    if all(operator.aliased):
        return
    if operator.returns == 1:
        results, computed = (results,), (computed,)
    for aliased, result, value in zip(operator.aliased, results, computed, strict=True):
        if not aliased:
            if operator.is_foreign and isinstance(value, torch.Tensor) and value.shape != result.shape:
                raise NotImplementedError(
                    f"gpuconf: {operator.name} is not computed on simulated GPUs: its kernel for CUDA returned sizes "
                    f"{tuple(result.shape)}, and the CPU's {tuple(value.shape)}"
                )
            moves.fill(result, value)


def replay(operator: Operator, targets: Any, args: Any, named: dict[str, Any], seed: int) -> None:
    """Compute an operator again whose results lie in known memory."""
    write(operator, targets, run_on_cpu(operator, args, named, seed if operator.random else None))


def computing(operator: Operator, *, only_small: bool) -> Kernel:
    """Make the kernel of an operator whose results PyTorch's kernel for CUDA allocates."""
    original, is_random, tensors = operator.original, operator.random, operator.tensors
    if operator.name in answers.CHECKS:
        original = answers.without_errors(original)
    fills = operator.name in _FILLS

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        args = memory.as_tensors(args, tensors)
        if state.inside:
            if fills and _is_target(args[0]):
                return args[0]  # the driver would do it before the CPU reads what is there
            return original(keys, *args, **named)
        state.inside = True
        state.mark.value += 1
        try:
            if graphs.left.value:
                graphs.wait(args, named)
            captured = graphs.capturing()
            source = draw(args, named) if is_random and not captured else None
            if fills and captured:
                # As a node of the graph it would run before the replay computes what reads the tensor.
                targets = arguments_on_cpu(args)
                record(operator, (args, named), lambda seed: replay(operator, None, targets, named, seed))
                return args[0]
            targets = _targets(operator, args, named) if operator.written else []
            before = [(one.size(), one.stride(), one.storage_offset()) for one in targets]
            state.targets = [one.untyped_storage().data_ptr() for one in targets]
            try:
                results = original(keys, *args, **named)
            except (RuntimeError, errors.ReadInsideError) as error:
                if isinstance(error, RuntimeError) and not errors.is_library(error):
                    raise
                seed = None if source is None else source.seed
                results = by_cpu(operator, args, named, seed, reads=isinstance(error, errors.ReadInsideError))
                if only_small:
                    small.pass_on(operator, results, args, named)
                if source is not None and operator.advances:
                    source.done()
                return results
            if source is not None and operator.advances:
                source.done()
            if only_small:
                if not small.computes(operator, results, args, named):
                    small.leave(operator, results, args)
                    return results
                small.pass_on(operator, results, args, named)
            on_cpu_args, on_cpu_named = arguments_on_cpu(args), named_on_cpu(named)
            for one, sizes in zip(targets, before, strict=True):
                if one.size() != sizes[0]:  # PyTorch's kernel has changed it, and the CPU's is going to
                    on_cpu_args = [
                        cpu.as_strided(*sizes) if arg is one else cpu
                        for arg, cpu in zip(args, on_cpu_args, strict=True)
                    ]
            if captured:
                known = arguments_on_cpu(results)
                record(operator, (args, named), lambda seed: replay(operator, known, on_cpu_args, on_cpu_named, seed))
                return results
            try:
                computed = run_on_cpu(operator, on_cpu_args, on_cpu_named, None if source is None else source.seed)
            except (IndexError, RuntimeError) as error:
                if not errors.is_index(error) or not unmarked.has_any():
                    raise
                if not only_small:
                    raise IndexError(f"{error}. {unmarked.doubt()}") from error
                small.leave(operator, results, args)
                return results
            write(operator, results, computed)
            return results
        finally:
            state.mark.value -= 1
            state.inside = False
            state.targets = ()

    return kernel


def alone(operator: Operator, *, reads: bool, sized: bool) -> Kernel:
    """Make the kernel of an operator that the CPU computes without PyTorch's kernel for CUDA: its results are then
    moved.

    With ``reads``, it waits on a card for what it reads, as one does whose results have sizes that depend on values
    (``sized``), unless its arguments say the size. Where it is known what PyTorch's kernel reads, that runs, too, and
    allocates the
    results.
    """
    alike = answers.ANSWERS.get(operator.name)

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        args = memory.as_tensors(args, operator.tensors)
        before = state.inside
        state.inside = True
        state.mark.value += 1
        try:
            if graphs.left.value:
                graphs.wait(args, named)
            captured = graphs.capturing()
            source = draw(args, named) if operator.random and not captured else None
            if moves.only_small and sized and any(map(small.has_no_value, args)):
                sized_by_values[operator.name] += 1
            seed = None if source is None else source.seed
            results = _answered(keys, operator, args, named, alike, seed) if alike and not captured else _NO_RESULT
            if results is _NO_RESULT:
                _check_devices(args, named)
                results = by_cpu(operator, args, named, seed, reads=reads and named.get("output_size") is None)
            if source is not None and operator.advances:
                source.done()
            if moves.only_small:
                small.pass_on(operator, results, args, named)
            return results
        finally:
            state.mark.value -= 1
            state.inside = before

    return kernel


def _answered(
    keys: Any, operator: Operator, args: Any, named: dict[str, Any], alike: answers.Answers, seed: int | None
) -> Any:
    """Let the CPU compute an operator, and then PyTorch's kernel for CUDA allocate the results, whose reads are
    answered.
    """
    cpu_args = arguments_on_cpu(args)
    computed = run_on_cpu(operator, cpu_args, named_on_cpu(named), seed)
    values = alike(computed, cpu_args)
    if values is None:
        return _NO_RESULT
    answering = answers.Answering(values)
    try:
        with answering:
            results = operator.original(keys, *args, **named)
    except (RuntimeError, IndexError, errors.ReadInsideError) as error:
        # After a read without an answer, a size is what some memory held.
        if (isinstance(error, torch.OutOfMemoryError) and not answering.missed) or notice.is_noticed(error):
            raise
        return _NO_RESULT
    if not answers.same_shapes(results, computed):
        return _NO_RESULT
    if isinstance(computed, (torch.Tensor, list, tuple)):
        write(operator, results, computed)
    return results


def by_cpu(operator: Operator, args: Any, named: dict[str, Any], seed: int | None, *, reads: bool) -> Any:
    """Let the CPU compute an operator, and move its results to the simulated GPU.

    On a card, one that ``reads`` waits.
    """
    captured = graphs.capturing()
    if captured and reads:
        raise RuntimeError(
            f"CUDA error: operation not permitted when stream is capturing: {operator.name} waits for a value"
        )
    if reads:
        notice.note()
    cpu_args, cpu_named = arguments_on_cpu(args), named_on_cpu(named)
    again = cpu_named
    outs = [named[name] for name in operator.out_names]
    if outs:
        again = {**cpu_named}
        for name, out in zip(operator.out_names, outs, strict=True):
            again[name] = torch.empty(0, dtype=out.dtype, device=_CPU)
    elif operator.written and captured:
        # Its arguments keep what they hold until a replay.
        record(operator, (args, named), lambda seed: replay(operator, None, cpu_args, cpu_named, seed))
        return _written(operator, args, named)
    computed = run_on_cpu(operator, cpu_args, again, seed)
    if outs:
        for name, out in zip(operator.out_names, outs, strict=True):
            _resize(out, again[name].shape)
            moves.fill(out, again[name])
        results: Any = outs[0] if len(outs) == 1 else tuple(outs)
    elif operator.aliased and all(operator.aliased):
        return _written(operator, args, named)
    else:
        results = moves.to_gpu(computed, (args, named))
    if captured:
        if outs:
            cpu_named = named_on_cpu(named)
        targets = arguments_on_cpu(results)
        record(operator, (args, named), lambda seed: replay(operator, targets, cpu_args, cpu_named, seed))
    return results


def _check_devices(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raise PyTorch's error for tensors of two devices, unless they are numbers."""
    found = dict.fromkeys(one.device for one in (*args, *named.values()) if isinstance(one, torch.Tensor) and one.dim())
    if len(found) > 1:
        first, second = list(found)[:2]
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
        )


def _resize(out: torch.Tensor, shape: torch.Size) -> None:
    """Give an output its shape, with PyTorch's warning if it has another one and elements."""
    if out.numel() and out.shape != shape:
        notice.warn(
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
            "match the "
            f"required output shape {list(shape)}."
        )
    out.resize_(shape)


def _written(operator: Operator, args: Any, named: dict[str, Any]) -> Any:
    """Return the arguments that an operator in place returns."""
    found = [args[at] if at < len(args) else named[name] for at, name in operator.written]
    return found[0] if len(found) == 1 else tuple(found)


def reading(operator: Operator) -> Kernel:
    """Make the kernel that reads one value.

    Within an operation no kernel has written it: the CPU has to compute all of it.
    """
    outside = alone(operator, reads=True, sized=False)

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        if state.inside and state.answers:
            notice.note()
            return state.answers.pop(0)
        if state.inside and not moves.only_small:
            raise errors.ReadInsideError
        return outside(keys, *args, **named)

    return kernel


def copying(operator: Operator, *, only_small: bool) -> Kernel:
    """Make the kernel of ``copy_``. Copies without conversion are the driver's; the CPU does the others."""
    original = operator.original

    def kernel(keys: Any, to: torch.Tensor, source: Any, non_blocking: bool = False) -> torch.Tensor:
        (source,) = memory.as_tensors((source,), (0,))
        if not (to.layout is source.layout is torch.strided):
            return original(keys, to, source, non_blocking)
        if only_small and to.is_cuda and small.is_large(to):
            return to
        if state.inside:
            if state.answers and source.is_cuda and to.is_cpu and to.numel():
                notice.note()
                return to.fill_(state.answers.pop(0))
            if source.is_cuda and to.is_cpu and source.numel() and not (only_small or state.copying):
                raise errors.ReadInsideError
            if source.is_cuda and _is_target(to) and moves.is_bytewise(to, source):
                return to  # the driver would do it before the CPU reads what is there
            return original(keys, to, source, non_blocking)
        state.inside = True
        state.mark.value += 1
        try:
            if graphs.left.value:
                graphs.wait(to, source)
            if graphs.capturing():
                target, values = arguments_on_cpu(to), arguments_on_cpu(source)
                graphs.record(lambda _seed: target.copy_(values))
                return to
            state.copying = True
            original(keys, to, source, non_blocking)
            if only_small and small.has_no_value(source):
                if small.is_large(source):
                    small.read(operator.name)
                small.mark(to)
            if to.numel() and not moves.is_bytewise(to, source):
                arguments_on_cpu(to).copy_(arguments_on_cpu(source))
            return to
        finally:
            state.mark.value -= 1
            state.copying = False
            state.inside = False

    return kernel


def zeroing(kernel: Kernel) -> Kernel:
    """Make the kernel of ``zero_`` where only small tensors are computed: memory that is never written is zero."""

    def kernel_of_small(keys: Any, target: torch.Tensor) -> torch.Tensor:
        if target.layout is torch.strided and small.is_never_written(target):
            return target
        return kernel(keys, target)

    return kernel_of_small


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
