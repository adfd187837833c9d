# SPDX-License-Identifier: Apache-2.0
"""What a call of a compiled function does in a rehearsal: memory is taken and returned as on the card; values are
computed or not.

JAX is imported.
"""

from __future__ import annotations

import mmap
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy
from jax._src import array as arrays
from jax._src import core
from jax._src.interpreters import pxla
from jax._src.lib import xla_client
from jax.sharding import SingleDeviceSharding

from ...._typing import Any
from .card_memory import ARRAYS, FROM_HOST, STATE, TEMPORARY, TUNING, Block, Ledger, sizes
from .compiling import Compiler, Function, stack
from .tuning import Tuned

_SMALL = 64 << 10
_MAP_NORESERVE = 0x4000  # of Linux; Python names it since 3.13
_ON_HOST = ("pinned_host", "unpinned_host")
_DECISIONS = ("__bool__", "__int__", "__index__")


class Runner:
    """Runs the calls of a process. ``before`` is called with the function before each call, and ``after`` after it."""

    def __init__(
        self,
        compiler: Compiler,
        ledger: Ledger,
        host: int,
        *,
        computes: bool,
        workspace: int,
        before: Callable[[Function], None],
    ) -> None:
        self.compiler: Compiler = compiler
        self.ledger: Ledger = ledger
        self.host: int = host
        self.computes: bool = computes
        self.workspace: int = workspace  # of cuBLAS, in bytes
        self.before: Callable[[Function], None] = before
        self.decisions: Counter[str] = Counter()  # of Python, by arrays that were not computed: by place
        self.skipped_callbacks = False
        self._here = threading.local()  # .inside: a call computes
        self._tuned: set[Tuned] = set()

    def install(self) -> None:
        """Take the place of JAX's functions."""
        build = pxla.UnloadedMeshExecutable.build_unsafe_call
        put = pxla.batched_device_put
        runner = self

        def build_unsafe_call(unloaded: Any) -> Any:
            function = runner.compiler.function_of(unloaded.xla_executable)
            if function is None:
                return build(unloaded)
            computes = function.is_computed or function.on_host
            runner.tune(function, [device.id for device in unloaded.device_list if device.id != runner.host])
            return _Call(runner, function, unloaded, build(unloaded) if computes else None)

        def batched_device_put(*args: Any, **named: Any) -> Any:
            found = put(*args, **named)
            if not runner.is_inside:
                runner.hold(found, FROM_HOST, written=True)
            return found

        pxla.UnloadedMeshExecutable.build_unsafe_call = build_unsafe_call
        pxla.batched_device_put = batched_device_put
        self._watch_decisions()

    @property
    def is_inside(self) -> bool:
        """Whether this thread computes a call, so that its arrays are counted already."""
        return getattr(self._here, "inside", False)

    def inside(self, call: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Compute a call."""
        self._here.inside = True
        try:
            return call(*args)
        finally:
            self._here.inside = False

    def tune(self, function: Function, gpus: Sequence[int]) -> None:
        """Count what XLA takes to try kernels for a function that it has compiled. It remembers what it has tried."""
        for one in function.tuned:
            if one in self._tuned:
                continue
            self._tuned.add(one)
            for gpu in gpus:
                taken = [
                    self.ledger.allocate(gpu, size, TUNING, function.stack)
                    for size in one.sizes(self.workspace)
                    if size
                ]
                self.ledger.free(taken)

    def hold(self, array: Any, tag: str, *, written: bool) -> None:
        """Count an array that JAX has made."""
        array = _base(array)
        if not isinstance(array, arrays.ArrayImpl) or self.ledger.held(array) is not None:
            return
        frames = stack()
        blocks = [self.ledger.allocate(gpu, nbytes, tag, frames) for gpu, nbytes in self.sizes_of(array)]
        self.ledger.hold(array, blocks, written=written)

    def sizes_of(self, array: Any) -> list[tuple[int, int]]:
        """Return how many bytes an array has on each card."""
        if array.sharding.memory_kind in _ON_HOST:
            return []
        nbytes = sizes(array.sharding.shard_shape(array.shape), array.dtype.itemsize)
        return [(device.id, nbytes) for device in array.sharding.device_set if device.id != self.host] if nbytes else []

    def scan(self) -> None:
        """Count the arrays that were made in ways that are not seen."""
        for array in _live():
            if not array.is_deleted():
                self.hold(array, ARRAYS, written=True)

    def _watch_decisions(self) -> None:
        """Count where Python decides by an array that was not computed."""
        for name in _DECISIONS:
            original = getattr(arrays.ArrayImpl, name)

            def decide(this: Any, _original: Any = original) -> Any:
                if not self.ledger.is_written(this):
                    frames = stack()
                    self.decisions[f"{frames[0][0]}:{frames[0][1]}" if frames else ""] += 1
                return _original(this)

            setattr(arrays.ArrayImpl, name, decide)


class _Call:
    """Takes the place of the object with which JAX executes. JAX then has no fast path around it."""

    def __init__(self, runner: Runner, function: Function, unloaded: Any, computes: Any) -> None:
        self._runner, self._function, self._unloaded, self._computes = runner, function, unloaded, computes
        self._handlers = pxla.global_avals_to_results_handler(
            unloaded.output_avals, unloaded.output_shardings, unloaded.committed
        ).handlers
        self._gpus = [device.id for device in unloaded.device_list if device.id != runner.host]
        self._tokens = len(unloaded.ordered_effects)
        self.name, self.ordered_effects = unloaded.name, unloaded.ordered_effects
        self.has_unordered_effects, self.has_host_callbacks = (
            bool(unloaded.unordered_effects),
            bool(unloaded.host_callbacks),
        )

    def __call__(self, *all_args: Any) -> Any:
        runner, function, mut = self._runner, self._function, self._unloaded.mut
        runner.before(function)
        function.calls += 1
        args = [one for number, one in enumerate(all_args) if number in self._unloaded.kept_var_idx]
        if mut:
            args = [*args, *mut.in_mut]
        ledger = runner.ledger
        written = all(ledger.is_written(_base(one)) for one in args)
        computes = self._computes is not None and (written or not function.work.loops or runner.computes)
        computes = computes and (not function.on_host or function.work.is_small or runner.computes)
        copies = self._take(args)
        if computes:
            outputs = runner.inside(self._computes, all_args)
        else:
            runner.skipped_callbacks |= function.has_callbacks
            outputs = self._unwritten()
        self._hold(outputs, args, copies, written=computes and written)
        if computes or mut is None:
            return outputs
        return _mutated(mut, args, outputs)

    def _take(self, args: Sequence[Any]) -> list[Block]:
        """Take what arguments from NumPy need, and return it."""
        runner = self._runner
        frames = stack()
        copies = []
        for number, one in enumerate(map(_base, args)):
            if isinstance(one, arrays.ArrayImpl):
                one._check_if_deleted()  # a call before took over its memory
                runner.hold(one, ARRAYS, written=True)
            elif isinstance(one, numpy.ndarray) and one.nbytes:  # JAX converts float64 on the way
                aval, sharding = self._unloaded.input_avals[number], self._unloaded.input_shardings[number]
                nbytes = sizes(sharding.shard_shape(aval.shape), aval.dtype.itemsize)
                copies += [runner.ledger.allocate(gpu, nbytes, FROM_HOST, frames) for gpu in self._gpus]
        return copies

    def _unwritten(self) -> list[Any]:
        """Return the results without computing them."""
        unloaded = self._unloaded
        outputs = []
        for aval, sharding, handler in zip(
            unloaded.output_avals, unloaded.output_shardings, self._handlers, strict=True
        ):
            physical = core.physical_aval(aval)
            kept = pxla.sharding_impls.physical_sharding(aval, sharding) if physical.shape != aval.shape else sharding
            shape = kept.shard_shape(physical.shape)
            outputs.append(handler([_zeros(shape, physical.dtype, device) for device in unloaded.device_list]))
        return outputs

    def _hold(self, outputs: Iterable[Any], args: Sequence[Any], temporaries: list[Block], *, written: bool) -> None:
        """Count the results, the largest first, and then the temporaries, as XLA allocates them.

        Results take over what was donated. The rest is returned.
        """
        runner, function, ledger = self._runner, self._function, self._runner.ledger
        updated = set(function.updated) if function.is_own else set()
        frames = stack()
        results = []
        made = [(number, one) for number, one in enumerate(map(_base, outputs)) if isinstance(one, arrays.ArrayImpl)]
        for number, one in sorted(made, key=lambda pair: -pair[1].nbytes):
            source = function.aliases.get(number + self._tokens)
            at = None if source is None else source - self._tokens
            blocks = ledger.release(_base(args[at])) if at is not None and 0 <= at < len(args) else []
            tag = STATE if number in updated else ARRAYS
            if not blocks:
                blocks = [ledger.allocate(gpu, nbytes, tag, frames) for gpu, nbytes in runner.sizes_of(one)]
            if tag == STATE:
                for block in blocks:
                    block.tag = tag
            results.append((one, blocks))
        if function.temporary:
            temporaries += [ledger.allocate(gpu, function.temporary, TEMPORARY, function.stack) for gpu in self._gpus]
        ledger.free(temporaries)
        for number in function.donated:
            at = number - self._tokens
            if 0 <= at < len(args) and isinstance(_base(args[at]), arrays.ArrayImpl):
                ledger.free(ledger.release(_base(args[at])))
                if not args[at].is_deleted():
                    args[at].delete()
        for one, blocks in results:
            ledger.hold(one, blocks, written=written)


def _mutated(mut: Any, args: Sequence[Any], found: Sequence[Any]) -> list[Any]:
    """Return the results, without those that are the new values of references, which get them."""
    rest = []
    for number, one in zip(mut.out_mut, found, strict=True):
        if number is None:
            rest.append(one)
        else:
            args[number]._refs._buf._replace_with(one)
    return rest


def _base(array: Any) -> Any:
    """Return the array of numbers of an array of random keys."""
    return getattr(array, "_base_array", array)


def _live() -> list[Any]:
    import jax

    found: list[Any] = jax.live_arrays()
    return found


def _zeros(shape: Sequence[int], dtype: Any, device: Any) -> Any:
    """Return an array on one device, over pages that nothing has touched."""
    nbytes = sizes(shape, dtype.itemsize)
    if nbytes <= _SMALL:
        values = numpy.zeros(shape, dtype)
    else:
        pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
        values = numpy.frombuffer(pages, dtype, sizes(shape, 1)).reshape(shape)
    aval = core.ShapedArray(tuple(shape), dtype)
    return xla_client.batched_device_put(aval, SingleDeviceSharding(device), [values], [device], True)
