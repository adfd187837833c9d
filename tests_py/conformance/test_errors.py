"""Programs written for TensorFlow can catch gpuconf's errors, and late calls name the call that came first."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import gpuconf as tf
import pytest

from .helpers import TOO_LATE_GROWTH, TOO_LATE_LOGICAL, TOO_LATE_VISIBLE, L, gpus, initialize

if TYPE_CHECKING:
    from collections.abc import Callable

BUILT_IN = {
    "InvalidArgumentError": ValueError,
    "InvalidTypeError": TypeError,
    "FailedPreconditionError": RuntimeError,
    "ResourceExhaustedError": MemoryError,
    "NotFoundError": LookupError,
    "AlreadyExistsError": RuntimeError,
    "UnavailableError": RuntimeError,
    "UnimplementedError": NotImplementedError,
    "UnknownError": RuntimeError,
    "InternalError": RuntimeError,
    "ForkedProcessError": RuntimeError,
    "MissingKeyError": KeyError,
    "MissingPackageError": ImportError,
    "NestingError": AssertionError,
    "OperatorNotAllowedInGraphError": TypeError,
    "CancelledError": RuntimeError,
    "DeadlineExceededError": RuntimeError,
    "PermissionDeniedError": RuntimeError,
    "UnauthenticatedError": RuntimeError,
    "AbortedError": RuntimeError,
    "OutOfRangeError": RuntimeError,
    "DataLossError": RuntimeError,
}
# Classes with the same code as their base class.
FINER = {
    "ForkedProcessError",
    "NestingError",
    "MissingKeyError",
    "MissingPackageError",
    "OperatorNotAllowedInGraphError",
}


@pytest.mark.parametrize(("name", "built_in"), BUILT_IN.items(), ids=BUILT_IN.keys())
def test_a_class_is_also_the_built_in_that_programs_catch(name: str, built_in: type[Exception]) -> None:
    cls = getattr(tf.errors, name)
    assert issubclass(cls, tf.errors.GpuconfError)
    assert issubclass(cls, built_in)
    error = cls("what happened")
    assert error.message == "what happened"
    assert str(error) == ("'what happened'" if issubclass(cls, KeyError) else "what happened")
    with pytest.raises(built_in, match="what happened"):
        raise error


def test_there_are_no_other_classes() -> None:
    classes = {name for name in tf.errors.__all__ if inspect.isclass(getattr(tf.errors, name))}
    assert classes == {*BUILT_IN, "GpuconfError", "OpError", "OutOfMemoryError"}
    assert tf.errors.OutOfMemoryError is tf.errors.ResourceExhaustedError
    assert not issubclass(tf.errors.GpuconfError, (ValueError, RuntimeError, LookupError, TypeError))


def test_codes_are_tensorflows_names() -> None:
    codes = {name: getattr(tf.errors, name).code for name in BUILT_IN}
    assert codes["InvalidArgumentError"] == "INVALID_ARGUMENT"
    assert codes["ResourceExhaustedError"] == "RESOURCE_EXHAUSTED"
    assert codes["ForkedProcessError"] == codes["FailedPreconditionError"] == "FAILED_PRECONDITION"
    assert len(set(codes.values())) == len(codes) - len(FINER)
    for name, code in codes.items():
        cls = getattr(tf.errors, name)
        if issubclass(cls, tf.errors.OpError):
            assert cls("x").error_code == getattr(tf.errors, code) == tf.errors.error_code_from_exception_type(cls)
            assert issubclass(cls, tf.errors.exception_type_from_error_code(cls("x").error_code))


def test_an_error_is_made_as_in_tensorflow_too() -> None:
    """``raise tf.errors.OutOfRangeError(None, None, "end")`` is how programs written for TensorFlow end a loop."""
    error = tf.errors.OutOfRangeError(None, None, "end")
    assert (error.message, str(error), error.args, error.error_code) == ("end", "end", ("end",), tf.errors.OUT_OF_RANGE)
    error = tf.errors.AbortedError(message="m", op="op", node_def="node")  # type: ignore[call-overload]
    assert (error.message, error.op, error.node_def) == ("m", "op", "node")
    for wrong in ((None, None), ("text", 1)):
        with pytest.raises(TypeError):
            tf.errors.AbortedError(*wrong)
    with pytest.raises(TypeError):
        tf.errors.OpError(None, None, "m")  # the base class takes its code as an argument
    with pytest.raises(KeyError):
        tf.errors.exception_type_from_error_code(0)
    with pytest.warns(UserWarning, match="Unknown class exception"):
        assert isinstance(tf.errors.error_code_from_exception_type(KeyError), tf.errors.UnknownError)


def raise_invalid_argument() -> None:
    tf.config.experimental.get_memory_info("GPU")


def raise_invalid_type() -> None:
    tf.config.experimental.get_memory_info(3)  # type: ignore[arg-type]


def raise_failed_precondition() -> None:
    initialize()
    tf.config.set_visible_devices([], "GPU")


def raise_resource_exhausted() -> None:
    tf.memory.allocate(2**40, "GPU:0")


def raise_not_found() -> None:
    tf.config.set_visible_devices(gpus())
    initialize()


def raise_no_growth() -> None:
    tf.config.experimental.get_memory_growth(tf.config.list_physical_devices("CPU")[0])


def raise_unimplemented() -> None:
    tf.config.experimental.enable_mlir_bridge()


def raise_unknown() -> None:
    tf.config.set_logical_device_configuration(gpus()[0], [])
    initialize()


@pytest.mark.parametrize(
    ("raiser", "kinds"),
    [
        (raise_resource_exhausted, (MemoryError, tf.errors.ResourceExhaustedError)),
        (raise_not_found, (LookupError, tf.errors.NotFoundError)),
        (raise_unimplemented, (NotImplementedError, tf.errors.UnimplementedError)),
        (raise_unknown, (RuntimeError, tf.errors.UnknownError)),
    ],
    ids=lambda v: v.__name__ if callable(v) else "",
)
def test_what_is_raised_is_caught_by_either_name(
    one_gpu: None, raiser: Callable[[], None], kinds: tuple[Any, ...]
) -> None:
    for kind in (*kinds, tf.errors.GpuconfError):
        tf.reset()
        with pytest.raises(kind) as caught:
            raiser()
        assert "\x1e" not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("raiser", "kind"),
    [
        (raise_invalid_argument, ValueError),
        (raise_invalid_type, TypeError),
        (raise_failed_precondition, RuntimeError),
        (raise_no_growth, KeyError),
    ],
    ids=lambda v: v.__name__,
)
def test_what_tensorflow_checks_in_python_has_pythons_class(
    one_gpu: None, raiser: Callable[[], None], kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        raiser()
    assert type(caught.value) is kind
    assert "\x1e" not in str(caught.value)


def test_an_out_of_memory_error_says_what_other_libraries_look_for(one_gpu: None) -> None:
    tf.config.set_logical_device_configuration(gpus()[0], [L(10)])
    with pytest.raises(MemoryError) as caught:
        tf.memory.allocate(11 << 20, "GPU:0")
    text = str(caught.value)
    assert " out of memory" in text
    assert "11534336" in text  # the request
    assert "10485760" in text  # the limit
    assert "in use 0 bytes" in text


INITIALIZERS: dict[str, Callable[[], Any]] = {
    "list_logical_devices": lambda: tf.config.list_logical_devices(),
    "get_memory_info": lambda: tf.config.experimental.get_memory_info("GPU:0"),
    "get_memory_usage": lambda: tf.config.experimental.get_memory_usage("GPU:0"),
    "reset_memory_stats": lambda: tf.config.experimental.reset_memory_stats("GPU:0"),
    "device": lambda: tf.device(None),
    "memory.allocate": lambda: tf.memory.allocate(1, "GPU:0").free(),
    "memory.stats": lambda: tf.memory.stats("GPU:0"),
    "memory.memory_map": lambda: tf.memory.memory_map("GPU:0"),
    "memory.measure": lambda: tf.memory.measure("GPU:0").__enter__().__exit__(None, None, None),
}


def late_calls() -> dict[str, Callable[[], None]]:
    (gpu,) = gpus()
    return {
        TOO_LATE_VISIBLE: lambda: tf.config.set_visible_devices([], "GPU"),
        TOO_LATE_GROWTH: lambda: tf.config.experimental.set_memory_growth(gpu, True),
        TOO_LATE_LOGICAL: lambda: tf.config.set_logical_device_configuration(gpu, [L(10)]),
        "Intra op parallelism cannot be modified after initialization.": lambda: (
            tf.config.threading.set_intra_op_parallelism_threads(3)
        ),
        "Inter op parallelism cannot be modified after initialization.": lambda: (
            tf.config.threading.set_inter_op_parallelism_threads(3)
        ),
    }


@pytest.mark.parametrize("function", INITIALIZERS)
def test_an_error_that_comes_too_late_names_the_line_that_initialized(one_gpu: None, function: str) -> None:
    initializer = INITIALIZERS[function]
    _, line = inspect.getsourcelines(initializer)
    initializer()
    for text, call in late_calls().items():
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value).startswith(text)
        assert f"{__file__}:{line} ({function})" in str(caught.value)
        assert re.search(r"gpuconf\.reset\(\)", str(caught.value))  # a next step


def test_the_line_that_initialized_stays_the_first_one(one_gpu: None) -> None:
    tf.config.list_logical_devices()
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    tf.config.experimental.get_memory_info("GPU:0")
    with pytest.raises(RuntimeError, match=re.escape(f"{__file__}:{line} (list_logical_devices)")):
        tf.config.set_visible_devices([], "GPU")


def test_an_attempt_that_failed_did_not_initialize(two_gpus: None) -> None:
    tf.config.experimental.set_memory_growth(gpus()[0], True)
    with pytest.raises(ValueError, match="Memory growth cannot differ"):
        tf.config.list_logical_devices()
    tf.config.set_visible_devices(gpus()[0], "GPU")
    tf.config.list_logical_devices()
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match=re.escape(f"{__file__}:{line} (list_logical_devices)")):
        tf.config.set_visible_devices([], "GPU")
