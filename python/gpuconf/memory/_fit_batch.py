# SPDX-License-Identifier: Apache-2.0
"""Run a function with the largest batch size that fits."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

from .. import errors
from .._core import runtime, sizes, texts
from .._core.native import loaded
from .._core.scope import Device, gpu_number
from .._core.table import Fields, Made, Table, columns, counted, human_bytes, make
from .._core.texts import refuse_unknown
from .._typing import Any, NoReturn
from . import _release, _tracebacks
from ._measure import Measurement, measure
from ._memory_curve import WORTHWHILE, Run, Use, next_size, predict
from ._stats import stats, totals
from ._tag import refuse_generators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import overload

_DEFAULT = 128
_VARIABLE_ARGUMENTS = 4  # inspect.CO_VARARGS


class BatchTry(Table):
    """One run of the function. Sizes are in bytes, on the logical GPU that had the least memory left."""

    batch_size: int
    fits: bool  # False: it ran out of memory
    peak_increase: int | None  # the most that it used beyond what was in use before; None if nothing was measured
    bytes_available: int | None  # what it could use: the limit less what was in use before
    refused: int | None  # the size of the allocation that failed; None if it is unknown, or none failed
    reason: str  # why this size was tried


class BatchFit(Fields, metaclass=Made):
    """The batch size that :func:`fit_batch` chose, and why. ``print`` shows the tries as a table.

    Attributes: ``batch_size``; ``result``, what the function returned with it; ``tries``, a BatchTry for each run, in
    order; ``predicted``, the largest size that the measured peaks predict to fit, or None. It was not necessarily
    tried.
    """

    _made_by = "use gpuconf.memory.fit_batch()"
    _fields = ("batch_size", "predicted", "reason", "tries")  # of to_dict: all but the result

    def __init__(self, batch_size: int, result: Any, tries: tuple[BatchTry, ...], predicted: int | None) -> None:
        self.batch_size = batch_size
        self.result = result
        self.tries = tries
        self.predicted = predicted

    @property
    def reason(self) -> str:
        """Why this size, in one sentence."""
        first = self.tries[0]
        if first.fits:
            return f"{self.batch_size} fits" + ("" if first.peak_increase is None else f": it peaks at {_of(first)}")
        failed = ", ".join(str(each.batch_size) for each in self.tries if not each.fits)
        last = self.tries[-1]
        text = f"out of memory with {failed}; {self.batch_size} fits" + (
            "" if last.peak_increase is None else f" and peaks at {_of(last)}"
        )
        if self.predicted is not None and self.predicted >= self.batch_size * WORTHWHILE:
            text += f". The measured peaks predict that {self.predicted} fits too"
        return text

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("batch size", "fits", "peak", "available", "failed to allocate", "why")]
        for each in self.tries:
            sizes = (each.peak_increase, each.bytes_available, each.refused)
            shown = ("-" if size is None else human_bytes(size) for size in sizes)
            rows.append((str(each.batch_size), "yes" if each.fits else "no", *shown, each.reason))
        table = columns([row[:5] for row in rows], left=0)
        return "\n".join([*(f"{line}  {row[5]}" for line, row in zip(table, rows, strict=True)), self.reason])

    def __repr__(self) -> str:
        return f"<gpuconf.BatchFit: batch size {self.batch_size} after {counted(len(self.tries), 'try', 'tries')}>"


def _of(each: BatchTry) -> str:
    return f"{human_bytes(each.peak_increase or 0)} of {human_bytes(each.bytes_available or 0)}"


if TYPE_CHECKING:

    @overload
    def fit_batch(function: Callable[..., Any], start: int, *, device: Device | None = None) -> BatchFit: ...
    @overload
    def fit_batch(
        function: Callable[..., Any], start: None = None, *, device: Device | None = None
    ) -> Callable[..., Any]: ...
    @overload
    def fit_batch(
        function: int | None = None, start: int | None = None, *, device: Device | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...


def fit_batch(function: Any = None, start: Any = None, *, device: Device | None = None, **unknown: NoReturn) -> Any:
    """Find the largest batch size, up to ``start``, with which a function does not run out of memory.

    As a function, it calls ``function(batch_size)``, usually one training step, and returns a BatchFit. If ``start``
    runs out of memory, it releases memory (:func:`release`) and tries a smaller size. The peaks of two sizes predict
    which one fits in the limit. After a small size has fit, it runs the predicted one. It rarely needs more than three
    tries; few tries may leave a size below the best one. ``predicted`` is then larger: use it as the next ``start``.

    As a decorator, ``@fit_batch``, ``@fit_batch(start=512)``, for a whole training function: ``train(x)`` calls
    ``function(batch_size, x)``, and the first size that fits ends the call and returns the function's result.
    ``train.fit`` is then the BatchFit. The next call starts with the size that the measured peaks predict, or else the
    one that fit. ``start`` is 128 by default. A method gets the batch size after ``self``; its objects share ``fit``.

    These count as out of memory: MemoryError, the out-of-memory errors of PyTorch, CuPy, Numba, JAX and TensorFlow,
    RuntimeErrors by which PyTorch reports that cuBLAS, cuDNN and others failed to allocate, and errors caused by one of
    these. All other errors end the search and propagate. The function must be able to run again after such an error.

    Peaks are measured on ``device``, a logical GPU, by default on all of them. Memory outside gpuconf's pools is not
    measured; the size is then halved.

    Raises ResourceExhaustedError (a MemoryError, and PyTorch's OutOfMemoryError) if even 1 does not fit, TypeError if
    ``start`` is not an int, and ValueError if it is less than 1 or the device is unknown.

    >>> def step(batch_size):
    ...     with gpuconf.memory.allocate(batch_size << 30, "GPU:0"):
    ...         return f"ran with {batch_size}"
    >>> fit = fit_batch(step, 100)
    >>> fit.batch_size, fit.result, len(fit.tries)
    (73, 'ran with 73', 2)
    >>> fit.reason
    'out of memory with 100; 73 fits and peaks at 73.00GiB of 77.42GiB'
    """
    refuse_unknown(
        "fit_batch", unknown, ("function", "start", "device"), {"batch_size": "start", "max_batch_size": "start"}
    )
    if start is not None and function is not None and not callable(function):
        text = f"function must be callable, but got {texts.given(function)}"
        raise errors.InvalidTypeError(f"{text}; it comes before start" if callable(start) else text)
    if function is not None and not callable(function) and not isinstance(function, classmethod):
        function, start = None, function
    if start is None:
        if function is None:
            return functools.partial(_decorate, start=_DEFAULT, device=device)
        return _decorate(function, _DEFAULT, device)
    size = _checked(start)
    if function is None:
        return functools.partial(_decorate, start=size, device=device)
    _check(function)
    return _search(function, size, device, again=True)


def _checked(start: Any) -> int:
    size = sizes.whole("start", start)
    if size < 1:
        raise errors.InvalidArgumentError(f"start must be at least 1, but got {sizes.shown(size)}")
    return size


def _check(function: Callable[..., Any]) -> None:
    if isinstance(function, (staticmethod, classmethod)):
        raise errors.InvalidTypeError(f"fit_batch decorates a function: put it below @{type(function).__name__}")
    code = getattr(function, "__code__", None)
    if code is not None and code.co_argcount == 0 and not code.co_flags & _VARIABLE_ARGUMENTS:
        name = getattr(function, "__name__", "the function")
        raise errors.InvalidTypeError(f"{name}() takes no argument: fit_batch passes the batch size as the first one")
    instead = "pass one that runs it to its end, such as lambda n: asyncio.run(step(n))"
    refuse_generators(function, "fit_batch cannot run", instead)


def _decorate(function: Callable[..., Any], start: int, device: Device | None) -> Callable[..., Any]:
    _check(function)

    @functools.wraps(function)
    def fitted(*args: Any, **kwargs: Any) -> Any:
        last = fitted.fit  # type: ignore[attr-defined]
        size = start if last is None else max(last.batch_size, min(last.predicted or 0, start))
        own, rest = (args[:1], args[1:]) if args and _is_bound(fitted, args[0]) else ((), args)
        fit = _search(lambda batch_size: function(*own, batch_size, *rest, **kwargs), size, device, again=False)
        result, fit.result = fit.result, None  # the caller's, who may want it to be freed
        fitted.fit = fit  # type: ignore[attr-defined]
        return result

    fitted.fit = None  # type: ignore[attr-defined]
    return fitted


def _is_bound(function: Callable[..., Any], first: Any) -> bool:
    """Whether the first argument of a call is the object, or the class, of which this is a method."""
    for base in first.__mro__ if isinstance(first, type) else type(first).__mro__:
        for value in vars(base).values():
            if value is function or (isinstance(value, classmethod) and value.__func__ is function):
                return True
    return False


def _search(function: Callable[[int], Any], start: int, device: Device | None, again: bool) -> BatchFit:
    chosen = None if device is None else gpu_number(device, "memory.fit_batch")
    runs: list[Run] = []
    tries: list[BatchTry] = []
    best: tuple[int, Any] | None = None
    size, why = start, "start"
    while size:
        before = _in_use()
        result, error, uses = _attempt(function, size, chosen)
        runs.append(Run(size, error is None, uses, _torch_segments()))
        tries.append(_told(runs[-1], why))
        if error is None:
            best = size, result
        else:
            text = str(error)
            _tracebacks.clear(error)
        result = error = None  # the error's frames refer to the batch
        tried, (size, why) = size, next_size(runs, again)
        if size or not tries[-1].fits:
            _release.free()
        if size and best is not None and _in_use() > before:
            best = None  # the result holds memory that the next run needs
    if best is None:
        if any(each.fits for each in tries):
            return _search(function, min(each.batch_size for each in tries if each.fits), device, again=False)
        raise errors.from_code(
            "RESOURCE_EXHAUSTED", f"out of memory with every batch size from {start} to {tried}. With {tried}: {text}"
        )
    return make(BatchFit, *best, tuple(tries), predict(runs))


def _in_use() -> int:
    if not loaded() or not runtime.initialized():
        return 0
    return sum(stats(runtime.logical_gpu(number)).bytes_in_use for number in range(len(runtime.ordinals())))


def _attempt(
    function: Callable[[int], Any], size: int, chosen: int | None
) -> tuple[Any, BaseException | None, tuple[Use, ...]]:
    """Run the function. Return its result, its out-of-memory error, and how it used each logical GPU."""
    meters = [_Meter(number) for number in _gpus(chosen)]
    result, failure = None, None
    try:
        result = function(size)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        failure = error
    finally:
        read = [meter.stop() for meter in meters] or [_since_start(number) for number in _gpus(chosen)]
    uses = () if None in read else tuple(use for use in read if use is not None)
    return result, failure, _with_refused(uses, str(failure), _gpus(chosen)) if failure is not None and uses else uses


def _gpus(chosen: int | None) -> list[int]:
    """Return the numbers of the logical GPUs to measure.

    None before the runtime is initialized: the function may configure it.
    """
    if not loaded() or not runtime.initialized():
        return []
    return list(range(len(runtime.ordinals()))) if chosen is None else [chosen]


def _since_start(number: int) -> Use:
    """Return the use of a logical GPU since the runtime was initialized."""
    now = stats(runtime.logical_gpu(number))
    return Use(now.bytes_limit, now.peak_bytes_in_use, 0, *_totals(number))


class _Meter:
    """Measures one logical GPU during a run."""

    def __init__(self, number: int) -> None:
        self.name = runtime.logical_gpu(number).name
        self._number = number
        self._room, self._totals = _left(self.name), _totals(number)
        self._measured: Measurement = measure(self.name)
        self._measured.__enter__()

    def stop(self) -> Use | None:
        """Return the use, or None if the runtime was reset meanwhile."""
        try:
            self._measured.__exit__(None, None, None)
            count, total = _totals(self._number)
        except errors.GpuconfError:
            return None
        return Use(self._room, self._measured.peak_increase, 0, count - self._totals[0], total - self._totals[1])


def _left(name: str) -> int:
    now = stats(name)
    return now.bytes_limit - now.bytes_in_use


def _torch_segments() -> bool:
    """Whether PyTorch uses its own allocator, which takes segments from gpuconf's pools."""
    adaptor: Any = sys.modules.get("gpuconf.allocators.torch")
    return adaptor is not None and adaptor.installed() == "segments"


def _totals(number: int) -> tuple[int, int]:
    """Return the number of allocations so far, and their total size."""
    if _torch_segments():  # only PyTorch knows what it places into its segments
        theirs = sys.modules["torch"].cuda.memory_stats(runtime.ordinals()[number])
        return theirs.get("allocation.all.allocated", 0), theirs.get("allocated_bytes.all.allocated", 0)
    ever = totals(number)
    return ever.allocs, ever.allocated_bytes


_REFUSED = r"OOM when allocating \S+ \((\d+) bytes\) on (\S+?):? "
_IN_USE = r"in use \S+ \((\d+) bytes\)"
_TORCHS = r"Tried to allocate (\d+(?:\.\d+)?) (bytes|KiB|MiB|GiB)"
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _with_refused(uses: tuple[Use, ...], text: str, numbers: list[int]) -> tuple[Use, ...]:
    """Add the size of the allocation that failed, which only the error's text has, to the GPU that it failed on."""
    import re

    ours, theirs = re.search(_REFUSED, text), re.search(_TORCHS, text)
    if ours is None and theirs is None:
        return uses
    if ours is not None:
        at = next(
            (i for i, number in enumerate(numbers) if runtime.logical_gpu(number).name.endswith(f":{ours[2]}")), None
        )
        refused = int(ours[1])
        in_use = re.search(_IN_USE, text)
    else:
        assert theirs is not None
        at = max(range(len(uses)), key=lambda i: uses[i].peak / max(uses[i].room, 1))
        refused, in_use = int(float(theirs[1]) * _UNITS[theirs[2]]), None
    if at is None:
        return uses
    use = uses[at]._replace(refused=refused)
    if in_use is not None:
        before = stats(runtime.logical_gpu(numbers[at])).bytes_limit - use.room
        use = use._replace(peak=max(0, int(in_use[1]) - before))
    return (*uses[:at], use, *uses[at + 1 :])


def _told(run: Run, why: str) -> BatchTry:
    use = max(run.uses, key=lambda use: (use.peak + use.refused) / max(use.room, 1), default=None)
    if use is None:
        return BatchTry(run.batch_size, run.fits, None, None, None, why)
    return BatchTry(run.batch_size, run.fits, use.peak, use.room, use.refused or None, why)


# What RuntimeErrors of PyTorch, CuPy, Numba, JAX and TensorFlow say when the device or a library on it failed to
# allocate. cuBLAS reports that its handle could not be initialized.
_TEXTS = (
    r"(?i)out of memory|OUT_OF_MEMORY|ALLOC(ATION)?_FAILED|cudaErrorMemoryAllocation|RESOURCE_EXHAUSTED|OOM when "
    r"allocating"
    r"|CUBLAS_STATUS_NOT_INITIALIZED|CUDNN_STATUS_NOT_INITIALIZED|CUSOLVER_STATUS_NOT_INITIALIZED"
    r"|can't allocate memory|not enough memory: you tried to allocate"
)
_OTHERS = ("cupy", "numba", "jax", "jaxlib", "tensorflow")
_CLASSES = (("torch", "OutOfMemoryError"), ("torch.cuda", "OutOfMemoryError"), ("cupy.cuda.memory", "OutOfMemoryError"))


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or what it was raised from, says that memory ran out."""
    import re

    for _ in range(100):  # a chain may be a circle
        if error is None:
            return False
        if isinstance(error, MemoryError) or _is_librarys(error):
            return True
        home = type(error).__module__.partition(".")[0]
        if (isinstance(error, RuntimeError) or home in _OTHERS) and re.search(_TEXTS, str(error)):
            return True
        error = error.__cause__
    return False


def _is_librarys(error: BaseException) -> bool:
    for module, name in _CLASSES:
        cls = getattr(sys.modules.get(module), "__dict__", {}).get(name)
        if isinstance(cls, type) and isinstance(error, cls):
            return True
    return False
