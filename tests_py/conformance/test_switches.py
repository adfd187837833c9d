"""Switches that belong to no device: stored and returned as in TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gpuconf as tf
import pytest

from .helpers import gpus, initialize, refused

if TYPE_CHECKING:
    from collections.abc import Callable

threading = tf.config.threading
experimental = tf.config.experimental


def test_case_093_soft_placement_is_on_at_first(one_gpu: None) -> None:
    assert tf.config.get_soft_device_placement() is True


def test_case_094_soft_placement_can_be_set_at_any_time(one_gpu: None) -> None:
    tf.config.set_soft_device_placement(False)
    assert tf.config.get_soft_device_placement() is False
    initialize()
    assert tf.config.get_soft_device_placement() is False
    tf.config.set_soft_device_placement(True)
    assert tf.config.get_soft_device_placement() is True


def test_soft_placement_none_is_the_default(one_gpu: None) -> None:
    tf.config.set_soft_device_placement(False)
    tf.config.set_soft_device_placement(None)
    assert tf.config.get_soft_device_placement() is True


def test_case_095_the_placement_log_can_be_switched_at_any_time(one_gpu: None) -> None:
    assert tf.debugging.get_log_device_placement() is False
    tf.debugging.set_log_device_placement(True)
    assert tf.debugging.get_log_device_placement() is True
    initialize()
    tf.debugging.set_log_device_placement(False)
    assert tf.debugging.get_log_device_placement() is False
    tf.debugging.set_log_device_placement(True)
    assert tf.debugging.get_log_device_placement() is True


THREADS = [
    pytest.param(
        threading.get_intra_op_parallelism_threads,
        threading.set_intra_op_parallelism_threads,
        "Intra op parallelism",
        id="intra",
    ),
    pytest.param(
        threading.get_inter_op_parallelism_threads,
        threading.set_inter_op_parallelism_threads,
        "Inter op parallelism",
        id="inter",
    ),
]


@pytest.mark.parametrize(("get", "put", "what"), THREADS)
def test_case_096_after_initialization_only_the_same_number_of_threads_will_do(
    one_gpu: None, get: Callable[[], int], put: Callable[[Any], None], what: str
) -> None:
    assert get() == 0
    put(10)
    assert get() == 10
    initialize()
    for number in (1, 0, None):
        with refused(RuntimeError, f"{what} cannot be modified after initialization."):
            put(number)
    put(10)
    assert get() == 10


@pytest.mark.parametrize(("get", "put", "what"), THREADS)
def test_case_097_threads_that_were_never_set_show_as_0_and_are_not_0(
    one_gpu: None, get: Callable[[], int], put: Callable[[Any], None], what: str
) -> None:
    initialize()
    with refused(RuntimeError, f"{what} cannot be modified after initialization."):
        put(0)
    assert get() == 0
    put(None)


@pytest.mark.parametrize(("get", "put", "what"), THREADS)
@pytest.mark.parametrize("number", ["4", 1.5, [], 2**31, -(2**31) - 1, 10**400], ids=lambda v: str(v)[:12])
def test_threads_are_a_32_bit_number(
    one_gpu: None, get: Callable[[], int], put: Callable[[Any], None], what: str, number: Any
) -> None:
    put(3)
    with refused(ValueError if isinstance(number, int) else TypeError, "num_threads must "):
        put(number)
    assert get() == 3


def test_case_098_a_device_policy_that_is_none_is_refused(one_gpu: None) -> None:
    experimental.set_device_policy("warn")
    for policy in ("x", "", "Silent", "it's"):
        with refused(ValueError, f"Invalid argument `device_policy`: {policy!r}. Please refer to "):
            experimental.set_device_policy(policy)
    for policy in (1, b"silent", ["silent"]):
        with refused(ValueError, f"Invalid argument `device_policy`: {policy!r}. "):
            experimental.set_device_policy(policy)  # type: ignore[arg-type]
    assert experimental.get_device_policy() == "warn"


def test_case_099_the_device_policy_is_silent_at_first_and_after_none(one_gpu: None) -> None:
    assert experimental.get_device_policy() == "silent"
    for policy in ("silent_for_int32", "warn", "explicit", "silent"):
        experimental.set_device_policy(policy)
        assert experimental.get_device_policy() == policy
    experimental.set_device_policy("explicit")
    initialize()
    experimental.set_device_policy(None)
    assert experimental.get_device_policy() == "silent"


def test_case_101_execution_is_synchronous_at_first_and_after_none(one_gpu: None) -> None:
    assert experimental.get_synchronous_execution() is True
    experimental.set_synchronous_execution(False)
    assert experimental.get_synchronous_execution() is False
    experimental.set_synchronous_execution(None)
    assert experimental.get_synchronous_execution() is True


@pytest.mark.parametrize(
    ("enabled", "shown"),
    [(True, "autoclustering"), ("autoclustering", "autoclustering"), (False, ""), ("", ""), ("off", ""), (None, "")],
)
def test_jit_is_on_for_two_values_and_off_for_any_other(one_gpu: None, enabled: Any, shown: str) -> None:
    assert tf.config.optimizer.get_jit() == ""
    tf.config.optimizer.set_jit("autoclustering")
    initialize()
    tf.config.optimizer.set_jit(enabled)
    assert tf.config.optimizer.get_jit() == shown


def test_optimizer_options_are_merged(one_gpu: None) -> None:
    optimizer = tf.config.optimizer
    defaults = optimizer.get_experimental_options()
    optimizer.set_experimental_options({"constant_folding": True})
    initialize()
    optimizer.set_experimental_options({"layout_optimizer": False})
    assert optimizer.get_experimental_options() == {**defaults, "constant_folding": True, "layout_optimizer": False}


def test_functions_run_eagerly_is_kept_as_a_bool() -> None:
    assert tf.config.functions_run_eagerly() is False
    try:
        tf.config.run_functions_eagerly(1)  # type: ignore[arg-type]
        assert tf.config.functions_run_eagerly() is True
        assert tf.config.experimental_functions_run_eagerly() is True
        tf.config.experimental_run_functions_eagerly(False)
        assert tf.config.functions_run_eagerly() is False
    finally:
        tf.config.run_functions_eagerly(False)


def test_tensor_float_32_is_allowed_at_first() -> None:
    assert experimental.tensor_float_32_execution_enabled() is True
    try:
        experimental.enable_tensor_float_32_execution(False)
        assert experimental.tensor_float_32_execution_enabled() is False
    finally:
        experimental.enable_tensor_float_32_execution(True)


def test_determinism_can_be_asked_for_at_any_time(one_gpu: None) -> None:
    experimental.enable_op_determinism()
    initialize()
    experimental.enable_op_determinism()


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(experimental.enable_mlir_bridge, id="enable_mlir_bridge"),
        pytest.param(experimental.disable_mlir_bridge, id="disable_mlir_bridge"),
        pytest.param(lambda: tf.config.experimental_connect_to_host("localhost:1"), id="experimental_connect_to_host"),
    ],
)
def test_what_has_no_meaning_without_tensorflow_says_so(call: Callable[[], Any]) -> None:
    with pytest.raises(NotImplementedError, match="gpuconf"):
        call()


def test_connecting_to_no_host_is_a_value_error() -> None:
    with refused(ValueError, "Must provide at least one remote_host"):
        tf.config.experimental_connect_to_host()


def test_setting_a_switch_does_not_initialize(two_gpus: None) -> None:
    tf.config.set_soft_device_placement(False)
    tf.debugging.set_log_device_placement(True)
    threading.set_intra_op_parallelism_threads(2)
    experimental.set_device_policy("warn")
    experimental.set_synchronous_execution(False)
    tf.config.optimizer.set_jit(True)
    tf.config.set_visible_devices(gpus()[0], "GPU")
    assert tf.config.get_visible_devices("GPU") == gpus()[:1]
