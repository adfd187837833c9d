"""The largest batch size that fits: few tries, chosen from what was measured."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gpuconf
import pytest
from gpuconf import errors
from gpuconf.memory import allocate, fit_batch

MIB = 1 << 20
LIMIT = 1000  # MiB

# How many MiB a step with a batch of n takes, in blocks that are live together; s scales it. The fifth curve has a
# library between that keeps freed blocks.
CURVES: dict[str, Callable[[int, float], list[float]]] = {
    "linear": lambda n, s: [s * n],
    "with a constant": lambda n, s: [LIMIT / 3, s * n * 2 / 3],
    "in steps": lambda n, s: [s * 32 * math.ceil(n / 32)],
    "quadratic in part": lambda n, s: [s * n / 2, s * n * (s * n / LIMIT) / 2],
    "cached": lambda n, s: [s * n / 40] * 40,
    "layers": lambda n, s: [s * n / 40] * 40,
    "layers with a constant": lambda n, s: [LIMIT / 60] * 20 + [s * n / 60] * 40,
    "layers, quadratic in part": lambda n, s: [s * n / 80, s * n * (s * n / LIMIT) / 80] * 40,
}


class Step:
    """A step that takes the memory of a curve."""

    def __init__(self, curve: str, scale: float) -> None:
        self.blocks = CURVES[curve]
        self.scale = scale
        self.cache: dict[int, list[gpuconf.memory.Buffer]] = {}
        self.caching = curve == "cached"
        self.sizes: list[int] = []

    def sizes_of(self, n: int) -> list[int]:
        return [max(1, int(size * MIB)) for size in self.blocks(n, self.scale)]

    def fits(self, n: int) -> bool:
        return sum(-(-size // 256) * 256 for size in self.sizes_of(n)) <= LIMIT * MIB

    def __call__(self, n: int) -> int:
        self.sizes.append(n)
        taken: list[gpuconf.memory.Buffer] = []
        try:
            for size in self.sizes_of(n):
                taken.append(self.take(size))
        finally:
            for buffer in taken:
                if self.caching:
                    self.cache.setdefault(buffer.nbytes, []).append(buffer)
                else:
                    buffer.free()
        return n

    def take(self, size: int) -> gpuconf.memory.Buffer:
        if self.cache.get(size):
            return self.cache[size].pop()
        try:
            return allocate(size)
        except MemoryError:
            self.empty()
            return allocate(size)

    def empty(self) -> None:
        for buffers in self.cache.values():
            for buffer in buffers:
                buffer.free()
        self.cache.clear()


@pytest.fixture
def small() -> None:
    gpuconf.simulate("A100-80GB")
    card = gpuconf.config.list_physical_devices("GPU")[0]
    gpuconf.config.set_logical_device_configuration(
        card, [gpuconf.config.LogicalDeviceConfiguration(memory_limit=LIMIT)]
    )
    gpuconf.config.list_logical_devices()


def by_tenths(most: int, start: int) -> int:
    """The tries of a search that multiplies by 0.9 until it fits, as accelerate does; tests_py/frameworks runs the real
    one.
    """
    tries = 1
    while start > most:
        start, tries = int(start * 0.9), tries + 1
    return tries


@pytest.mark.parametrize("curve", CURVES)
def test_at_most_three_tries_and_never_more_than_by_tenths(small: None, curve: str) -> None:
    for start, parts in ((100, (1.2, 0.97, 0.7, 0.4)), (512, (0.92, 0.85, 0.1))):
        for part in parts:
            step = Step(curve, LIMIT / (start * part))
            most = max(n for n in range(1, start + 1) if step.fits(n))
            fit = fit_batch(step, start)
            step.empty()
            where = f"{curve}, at most {most} of {start}: {step.sizes}"
            assert fit.result == fit.batch_size <= most, where
            assert step.sizes == [each.batch_size for each in fit.tries], where
            assert len(step.sizes) <= min(3, by_tenths(most, start)), where


@pytest.mark.parametrize(
    "curve", [curve for curve in CURVES if curve not in ("in steps", "cached", "quadratic in part")]
)
def test_the_choice_is_near_the_best_one(small: None, curve: str) -> None:
    """Where three tries are allowed, and the whole of a run can be measured within them."""
    step = Step(curve, LIMIT / 250)
    most = max(n for n in range(1, 513) if step.fits(n))
    fit = fit_batch(step, 512)
    step.empty()
    assert fit.batch_size >= 0.75 * most, fit


def test_the_report_says_what_was_tried_and_why(small: None) -> None:
    fit = fit_batch(Step("layers", LIMIT / 50), 100)
    failed, probe, last = fit.tries
    assert (failed.fits, probe.fits, last.fits) == (False, True, True)
    assert failed.refused == int(LIMIT / 50 * 100 / 40 * MIB)
    assert probe.peak_increase == pytest.approx(probe.batch_size * LIMIT / 50 * MIB, rel=0.01)
    assert last.bytes_available == LIMIT * MIB
    assert repr(fit) == f"<gpuconf.BatchFit: batch size {fit.batch_size} after 3 tries>"
    assert f"out of memory with 100; {fit.batch_size} fits and peaks at" in fit.reason
    lines = str(fit).splitlines()
    assert lines[0].split() == ["batch", "size", "fits", "peak", "available", "failed", "to", "allocate", "why"]
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["100", "no"],
        [str(probe.batch_size), "yes"],
        [str(last.batch_size), "yes"],
    ]
    assert lines[3].endswith("the measured peaks predict that it fits")
    assert fit.to_dict()["tries"][0]["refused"] == failed.refused


def test_a_decorated_function_runs_to_its_end_once(small: None) -> None:
    step, ended = Step("layers", LIMIT / 80), []

    @fit_batch(start=100)
    def train(batch_size: int, name: str, *, epochs: int) -> tuple[str, int]:
        """Train."""
        step(batch_size)
        ended.append(batch_size)
        return name, epochs

    assert train.fit is None
    assert (train.__name__, train.__doc__) == ("train", "Train.")
    assert train("a", epochs=3) == ("a", 3)
    assert step.sizes[0] == 100
    assert ended == [train.fit.batch_size]
    assert train.fit.result is None
    predicted = train.fit.predicted
    assert 70 <= predicted < 80
    assert train("b", epochs=1) == ("b", 1)
    assert ended[1:] == [predicted], "the next call uses what the first has measured"
    assert len(train.fit.tries) == 1


def test_both_forms_of_the_decorator_default_to_128(one_gpu: None) -> None:
    for decorate in (fit_batch, fit_batch()):
        assert decorate(lambda n: n)() == 128
    assert fit_batch(64)(lambda n: n)() == 64


async def coroutine(n: int) -> None:
    allocate(n << 30).free()


def generator(n: int) -> Iterator[None]:
    allocate(n << 30).free()
    yield


@pytest.mark.parametrize("function", [coroutine, generator])
def test_what_does_nothing_when_it_is_called_is_refused(one_gpu: None, function: Callable[..., Any]) -> None:
    """It was called, did not run, and so fitted with any size."""
    for fit in (lambda: fit_batch(function, 1000), lambda: fit_batch(function), lambda: fit_batch(1000)(function)):
        with pytest.raises(TypeError, match="whose body runs after the call returns"):
            fit()


class TheirError(RuntimeError):
    """A library's own class."""


TEXTS = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 15.77 GiB",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "CUDA error: out of memory",
    "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
    "[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "4000000000 bytes.",
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 34359738368 bytes.",
)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), errors.ResourceExhaustedError("OOM when allocating"), *map(TheirError, TEXTS)],
    ids=lambda error: str(error)[:40] or "MemoryError",
)
def test_every_librarys_way_to_say_out_of_memory(error: Exception) -> None:
    """Without gpuconf's devices, too: nothing is measured, and the size is halved."""
    seen = []

    def step(n: int) -> str:
        seen.append(n)
        if n > 30:
            raise error
        return "done"

    fit = fit_batch(step, 100)
    assert (fit.result, seen) == ("done", [100, 50, 25])
    assert fit.tries[0].peak_increase is None
    assert "nothing was measured" in fit.tries[1].reason


def test_an_error_raised_from_out_of_memory_counts() -> None:
    def step(n: int) -> int:
        if n > 4:
            try:
                raise MemoryError
            except MemoryError as error:
                raise ValueError("the loader failed") from error
        return n

    assert fit_batch(step, 8).result == 4


@pytest.mark.parametrize(
    "error", [ValueError("shape"), RuntimeError("device-side assert"), KeyboardInterrupt(), OSError(12, "x")]
)
def test_other_errors_end_the_search(error: BaseException) -> None:
    seen = []

    def step(n: int) -> None:
        seen.append(n)
        raise error

    with pytest.raises(type(error)) as caught:
        fit_batch(step, 8)
    assert caught.value is error
    assert seen == [8]


def test_what_the_failed_try_held_is_free_before_the_next_one(small: None) -> None:
    """The traceback of the error keeps the batch alive, and a cycle keeps the traceback."""
    before = []

    def step(n: int) -> None:
        before.append(gpuconf.memory.stats().bytes_in_use)
        held = []
        for _ in range(n):
            try:
                held.append(allocate(10 * MIB))
            except MemoryError as error:
                kept = [error, held]
                kept.append(kept)
                raise
        for buffer in held:
            buffer.free()

    with pytest.warns(ResourceWarning):
        fit = fit_batch(step, 150)
    assert before == [0] * len(fit.tries)


def test_not_even_one_fits(small: None) -> None:
    seen = []

    def step(n: int) -> None:
        seen.append(n)
        allocate((LIMIT + n) * MIB).free()

    with pytest.raises(
        errors.ResourceExhaustedError, match=r"out of memory with every batch size from 64 to 1\. With 1: OOM when"
    ):
        fit_batch(step, 64)
    assert seen[-1] == 1
    assert len(seen) <= 8


def test_each_gpu_counts(two_gpus: None) -> None:
    """The second GPU has the batch; the first has a constant."""
    half = gpuconf.memory.stats("GPU:1").bytes_limit // 2

    def step(n: int) -> None:
        with allocate(half, "GPU:0"), allocate(half * n // 100, "GPU:1"):
            pass

    assert 180 <= fit_batch(step, 500).batch_size <= 200
    assert 180 <= fit_batch(step, 500, device="GPU:1").batch_size <= 200


def test_a_function_may_configure_the_devices_or_reset_them() -> None:
    def step(n: int) -> str:
        gpuconf.simulate("H100-80GB")
        with allocate(n << 30):
            return "done"

    assert fit_batch(step, 100).result == "done"


def test_a_result_that_holds_memory_is_dropped_for_a_larger_try(small: None) -> None:
    sizes = []

    def step(n: int) -> gpuconf.memory.Buffer:
        sizes.append(n)
        parts = [allocate(n * 100_000) for _ in range(40)]
        for part in parts[1:]:
            part.free()
        return parts[0]

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        fit = fit_batch(step, 512)
    assert sizes == [each.batch_size for each in fit.tries]
    assert gpuconf.memory.stats().requested_bytes_in_use == fit.batch_size * 100_000
    fit.result.free()


@pytest.mark.parametrize(
    ("start", "error", "text"),
    [
        (0, ValueError, "start must be at least 1, but got 0"),
        (-(10**5000), ValueError, "start must be at least 1"),
        (2.5, TypeError, "start must be an int, but got float: 2.5"),
        ("64", TypeError, "start must be an int, but got str: '64'"),
    ],
    ids=["zero", "huge", "float", "text"],
)
def test_bad_starts(start: Any, error: type[Exception], text: str) -> None:
    for call in (lambda: fit_batch(print, start), lambda: fit_batch(start=start), lambda: fit_batch(start)):
        with pytest.raises(error, match=text):
            call()


def test_bad_devices_run_nothing(one_gpu: None) -> None:
    with pytest.raises(ValueError, match="GPU:7"):
        fit_batch(pytest.fail, 8, device="GPU:7")


def test_it_loads_no_library() -> None:
    assert "torch" not in sys.modules
    assert "cupy" not in sys.modules


def test_methods_get_the_batch_size_after_self(one_gpu: None) -> None:
    """The batch size came first, in the place of self: the method failed with it as an object, or with one too many."""

    class Trainer:
        used = 0

        @fit_batch(start=1000)
        def step(self, size: int, other: int = 0) -> tuple[object, int]:
            with allocate(size << 30):
                return self, other

        @classmethod
        @fit_batch
        def of_class(cls, size: int) -> object:
            return cls, size

        @staticmethod
        @fit_batch(start=4)
        def of_none(size: int, given: object) -> tuple[int, object]:
            return size, given

    trainer = Trainer()
    assert trainer.step(other=3) == (trainer, 3)
    assert trainer.step.fit.batch_size == Trainer.step.fit.batch_size < 100
    assert Trainer.step(trainer, 7) == (trainer, 7)
    assert type("Derived", (Trainer,), {})().step()[1] == 0
    assert Trainer.of_class() == trainer.of_class() == (Trainer, 128)
    assert trainer.of_none(trainer) == Trainer.of_none(trainer) == (4, trainer)


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_the_decorator_stands_below_those_of_methods(kind: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=f"put it below @{kind.__name__}"):
        fit_batch(kind(lambda size: size))
