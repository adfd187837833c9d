"""The environment variables of TensorFlow and CUDA, as in ``os.environ`` when a machine is listed or a pool is
built.
"""

from __future__ import annotations

import gpuconf as tf
import pytest

from .helpers import (
    FIRST_REGION,
    H100_LIMIT,
    MIB,
    T4_LIMIT,
    L,
    gpus,
    initialize,
    limits,
    logical_names,
    names,
    refused,
    reserved_by_first_allocation,
)

FORCE = "TF_FORCE_GPU_ALLOW_GROWTH"
OVERRIDING = (
    # And 0. or 1.
    f"Overriding orig_value setting because the {FORCE} environment variable is set. Original config value was "
)


def said(caplog: pytest.LogCaptureFixture, level: str) -> list[str]:
    """What gpuconf logged at a level."""
    return [r.getMessage() for r in caplog.records if r.name == "gpuconf" and r.levelname == level]


def test_case_049_growth_can_be_forced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, one_gpu: None
) -> None:
    monkeypatch.setenv(FORCE, "true")
    assert reserved_by_first_allocation() == FIRST_REGION
    assert tf.config.experimental.get_memory_growth(gpus()[0]) is None
    assert said(caplog, "WARNING") == [OVERRIDING + "0."]


def test_case_050_growth_can_be_forbidden(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, one_gpu: None
) -> None:
    monkeypatch.setenv(FORCE, "false")
    tf.config.experimental.set_memory_growth(gpus()[0], True)
    assert reserved_by_first_allocation() == H100_LIMIT
    assert tf.config.experimental.get_memory_growth(gpus()[0]) is True
    assert said(caplog, "WARNING") == [OVERRIDING + "1."]


def test_forcing_what_is_configured_is_silent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, one_gpu: None
) -> None:
    monkeypatch.setenv(FORCE, "true")
    tf.config.experimental.set_memory_growth(gpus()[0], True)
    assert reserved_by_first_allocation() == FIRST_REGION
    assert said(caplog, "WARNING") == []


@pytest.mark.parametrize("growth", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("TRUE", id="case 51: upper case"),
        pytest.param("True", id="case 51: capitalized"),
        pytest.param("1", id="case 51: a digit"),
        pytest.param("unparseable", id="case 51: another word"),
        pytest.param("", id="case 51: nothing"),
        pytest.param(" true", id="case 51: a blank"),
    ],
)
def test_another_text_is_logged_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, one_gpu: None, value: str, growth: bool
) -> None:
    monkeypatch.setenv(FORCE, value)
    tf.config.experimental.set_memory_growth(gpus()[0], growth)
    assert reserved_by_first_allocation() == (FIRST_REGION if growth else H100_LIMIT)
    assert said(caplog, "ERROR") == [
        f'The {FORCE} environment variable is set but could not be parsed: "{value}". Valid values are "true" or '
        '"false". '
        f"Using original config value of {int(growth)}."
    ]


def test_case_052_forced_growth_holds_for_a_limited_logical_gpu_too(
    monkeypatch: pytest.MonkeyPatch, one_gpu: None
) -> None:
    monkeypatch.setenv(FORCE, "true")
    tf.config.set_logical_device_configuration(gpus()[0], [L(memory_limit=100)])
    initialize()
    with tf.memory.allocate(1, "GPU:0"):
        assert tf.memory.stats("GPU:0").bytes_reserved == FIRST_REGION
        with tf.memory.allocate(60 * MIB, "GPU:0"), tf.memory.allocate(30 * MIB, "GPU:0"):
            assert tf.memory.stats("GPU:0").bytes_reserved <= 100 * MIB
            with refused(tf.errors.ResourceExhaustedError, "OOM when allocating"):
                tf.memory.allocate(20 * MIB, "GPU:0")


def test_the_environment_is_read_when_the_runtime_is_initialized(
    monkeypatch: pytest.MonkeyPatch, one_gpu: None
) -> None:
    gpus()
    monkeypatch.setenv(FORCE, "true")
    initialize()
    monkeypatch.delenv(FORCE)
    assert reserved_by_first_allocation() == FIRST_REGION


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("1", [T4_LIMIT]),
        ("1,0", [T4_LIMIT, H100_LIMIT]),
        ("0,1", [H100_LIMIT, T4_LIMIT]),
        ("-1", []),
        ("", []),
        ("0,-1,1", [H100_LIMIT]),
        ("0,7,1", [H100_LIMIT]),
        ("1,1", []),
        ("nonsense", []),
    ],
)
def test_case_013_cuda_visible_devices_filters_and_renumbers(
    monkeypatch: pytest.MonkeyPatch, value: str, left: list[int]
) -> None:
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    tf.simulate("H100-80GB,T4")
    assert names(gpus()) == [f"/physical_device:GPU:{i}" for i in range(len(left))]
    assert limits() == left


def test_cuda_visible_devices_is_read_when_the_devices_are_listed(
    monkeypatch: pytest.MonkeyPatch, two_gpus: None
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert len(gpus()) == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert len(gpus()) == 1
    tf.reset()
    assert len(gpus()) == 2


def test_gpuconf_simulate_is_the_call_without_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCONF_SIMULATE", "2xT4")
    assert len(gpus()) == 2
    tf.simulate("A100-40GB")
    assert len(gpus()) == 1
    tf.simulate(None)
    assert len(gpus()) == 2


@pytest.mark.parametrize("text", ["GPU", "XPU,GPU", "cpu"])
def test_a_process_without_the_cpu_type_has_no_devices(
    monkeypatch: pytest.MonkeyPatch, one_gpu: None, text: str
) -> None:
    monkeypatch.setenv("TF_ENABLED_DEVICE_TYPES", text)
    with refused(tf.errors.NotFoundError, "CPU Factory not registered. Did you link in threadpool_device?"):
        tf.config.list_physical_devices()
    monkeypatch.delenv("TF_ENABLED_DEVICE_TYPES")
    assert len(tf.config.list_physical_devices()) == 2


@pytest.mark.parametrize(("text", "count"), [("CPU", 1), ("CPU,GPU", 2), ("GPU,CPU", 2), ("", 2)])
def test_types_can_be_disabled(monkeypatch: pytest.MonkeyPatch, one_gpu: None, text: str, count: int) -> None:
    monkeypatch.setenv("TF_ENABLED_DEVICE_TYPES", text)
    assert len(tf.config.list_physical_devices()) == count


@pytest.mark.parametrize("name", ["cuda_malloc", "memory_guard", "cuda_malloc_async"])
def test_an_allocator_that_gpuconf_does_not_have_is_named_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, one_gpu: None, name: str
) -> None:
    monkeypatch.setenv("TF_GPU_ALLOCATOR", name)
    assert logical_names("GPU") == ["/device:GPU:0"]
    assert [text for text in said(caplog, "WARNING") if text.startswith(f"TF_GPU_ALLOCATOR={name} is ignored")]
    assert tf.config.experimental.get_memory_info("GPU:0") == {"current": 0, "peak": 0}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TF_CPU_ALLOCATOR_USE_BFC", "1"),
        ("TF_CPU_BFC_MEM_LIMIT_IN_MB", "1"),
        ("TF_GPU_HOST_MEM_LIMIT_IN_MB", "1"),
        ("TF_BFC_MEMORY_DUMP", "/nowhere/dump"),
    ],
)
def test_variables_of_pools_that_gpuconf_does_not_have_are_not_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, one_gpu: None, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with refused(ValueError, "Allocator stats not available for device 'CPU:0'"):
        tf.config.experimental.get_memory_info("CPU:0")
    with refused(tf.errors.ResourceExhaustedError, "OOM when allocating"):
        tf.memory.allocate(2**40, "GPU:0")
    assert limits() == [H100_LIMIT]
    assert said(caplog, "WARNING") == said(caplog, "ERROR") == []


def test_an_environment_that_is_not_text_does_no_harm(monkeypatch: pytest.MonkeyPatch, one_gpu: None) -> None:
    monkeypatch.setenv("TF_SOMETHING", "\udcff")
    monkeypatch.setenv(FORCE, "\udcff")
    assert reserved_by_first_allocation() == H100_LIMIT
