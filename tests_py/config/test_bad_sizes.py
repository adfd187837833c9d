"""Invalid sizes, timeouts and devices: one clear error of the documented class, and nothing changes."""

from __future__ import annotations

import contextlib
import decimal
import fractions
from typing import Any

import gpuconf
import pytest
from gpuconf.config import LogicalDevice, PhysicalDevice
from gpuconf.errors import InvalidArgumentError, InvalidTypeError, ResourceExhaustedError
from hypothesis import given
from hypothesis import strategies as st


class Index:
    """An object whose __index__ returns, or raises, the given value."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __index__(self) -> Any:
        if isinstance(self.value, type) and issubclass(self.value, BaseException):
            raise self.value("of my own")
        return self.value


class Unprintable:
    def __repr__(self) -> str:
        return "\ud800\0"


NO_NUMBER = "nbytes must be a number of bytes or text such as '6GiB', but got"
SIZES = {
    "negative": (-1, InvalidArgumentError, "nbytes must be at least 0 and less than 2**63, but got -1"),
    "very negative": (-(1 << 63), InvalidArgumentError, "but got -9223372036854775808"),
    "negative of 5000 digits": (-(10**5000), InvalidArgumentError, "but got a number of 16610 bits"),
    "2**63": (1 << 63, InvalidArgumentError, "but got 9223372036854775808"),
    "2**64": (1 << 64, InvalidArgumentError, "but got 18446744073709551616"),
    "2**64 + 1, which would wrap to 1": ((1 << 64) + 1, InvalidArgumentError, "but got 18446744073709551617"),
    "5000 digits": (10**5000, InvalidArgumentError, "but got a number of 16610 bits"),
    "2**63 - 1": ((1 << 63) - 1, ResourceExhaustedError, "8.00EiB (9223372036854775807 bytes)"),
    "2**63 - 256": ((1 << 63) - 256, ResourceExhaustedError, "(9223372036854775552 bytes)"),
    "a petabyte": (1 << 50, ResourceExhaustedError, "1.00PiB (1125899906842624 bytes)"),
    "NaN": (float("nan"), InvalidTypeError, f"{NO_NUMBER} float: nan"),
    "infinity": (float("inf"), InvalidTypeError, f"{NO_NUMBER} float: inf"),
    "fraction": (1.5, InvalidTypeError, f"{NO_NUMBER} float: 1.5"),
    "whole float": (1024.0, InvalidTypeError, f"{NO_NUMBER} float: 1024.0"),
    "Decimal": (decimal.Decimal(5), InvalidTypeError, "but got Decimal"),
    "Fraction": (fractions.Fraction(5), InvalidTypeError, "but got Fraction"),
    "complex": (5j, InvalidTypeError, "but got complex: 5j"),
    "text": ("much", InvalidArgumentError, "nbytes 'much' is not a size: write bytes, '500MB', '6GiB'"),
    "negative text": ("-1GiB", InvalidArgumentError, "nbytes '-1GiB' is not a size"),
    "text of 2**63": ("8388608TiB", InvalidArgumentError, "nbytes '8388608TiB' is too large: at most 2**63 - 1 bytes"),
    "text of 2**63 - 1": ("9223372036854775807", ResourceExhaustedError, "(9223372036854775807 bytes)"),
    "a percentage": (
        "50%",
        InvalidArgumentError,
        "'50%' is a percentage, but the GPU is not known here; write bytes or",
    ),
    "bytes": (b"1", InvalidTypeError, "but got bytes"),
    "None": (None, InvalidTypeError, "but got NoneType: None"),
    "list": ([1], InvalidTypeError, "but got list: [1]"),
    "type": (int, InvalidTypeError, "but got type"),
    "index that is text": (Index("5"), InvalidTypeError, "but got Index"),
    "index that is negative": (Index(-5), InvalidArgumentError, "but got -5"),
    "index that raises TypeError": (Index(TypeError), InvalidTypeError, "but got Index"),
    "unprintable": (Unprintable(), InvalidTypeError, "but got Unprintable"),
}


@pytest.mark.parametrize(
    ("size", "nbytes"),
    [(True, 1), (False, 0), (Index(300), 300), (Index(True), 1)],
    ids=["True", "False", "300", "a true index"],
)
@pytest.mark.filterwarnings("ignore:__index__ returned non-int:DeprecationWarning")
def test_what_python_takes_as_an_index_is_a_size(one_gpu: None, size: Any, nbytes: int) -> None:
    with gpuconf.memory.allocate(size) as buffer:
        assert buffer.nbytes == nbytes


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, ZeroDivisionError, MemoryError])
def test_an_objects_own_error_comes_through(one_gpu: None, kind: type[BaseException]) -> None:
    with pytest.raises(kind, match="of my own"):
        gpuconf.memory.allocate(Index(kind))


WAITS = {
    "negative": (-1, InvalidArgumentError, "wait must be at least 0 seconds, but got -1.0"),
    "slightly negative": (-1e-300, InvalidArgumentError, "wait must be at least 0 seconds"),
    "negative infinity": (float("-inf"), InvalidArgumentError, "but got -inf"),
    "negative beyond floats": (-(10**400), InvalidArgumentError, "but got -inf"),
    "NaN": (float("nan"), InvalidArgumentError, "but got nan"),
    "None": (None, InvalidTypeError, "wait must be a number of seconds, but got NoneType: None"),
    "a bool": (True, InvalidTypeError, "wait must be a number of seconds, but got bool: True"),
    "text": ("5", InvalidTypeError, "but got str: '5'"),
    "bytes": (b"5", InvalidTypeError, "but got bytes"),
    "complex": (1j, InvalidTypeError, "but got complex"),
    "list": ([5], InvalidTypeError, "but got list"),
}


@pytest.mark.parametrize(
    "wait", [0, 0.0, -0.0, 5, 1e300, 10**400, float("inf"), decimal.Decimal("0.5"), fractions.Fraction(1, 3)], ids=repr
)
def test_any_number_of_seconds_is_a_wait(one_gpu: None, wait: Any) -> None:
    gpuconf.memory.allocate(1000, wait=wait).free()


@pytest.mark.parametrize("wait", [0, 0.0, 1e-300, 5e-324])
def test_a_wait_of_no_time_fails(one_gpu: None, wait: float) -> None:
    with gpuconf.memory.allocate(gpuconf.memory.stats().bytes_limit), pytest.raises(MemoryError):
        gpuconf.memory.allocate(1, wait=wait)


DEVICES = {
    "not there": ("GPU:7", InvalidArgumentError, "No matching devices found for 'GPU:7' (available: CPU:0, GPU:0"),
    "a number of many digits": (f"GPU:{10**30}", InvalidArgumentError, "GPU:1000"),
    "negative": ("GPU:-1", InvalidArgumentError, "'GPU:-1'"),
    "a CPU": ("CPU:0", InvalidArgumentError, 'only GPUs have one. Pass a GPU, such as "GPU:0"'),
    "no number": ("GPU", InvalidArgumentError, "Failed parsing device name: 'GPU'"),
    "another type": ("TPU:0", InvalidArgumentError, "No matching devices found for 'TPU:0'"),
    "empty": ("", InvalidArgumentError, "''"),
    "blank": (" GPU:0", InvalidArgumentError, "' GPU:0'"),
    "with NUL": ("GPU:0\0", InvalidArgumentError, "must not contain a NUL character: 'GPU:0\\x00'"),
    "not text": ("GPU:0\udcff", InvalidArgumentError, "lone surrogate"),
    "very long": ("GPU:0" * 100_000, InvalidArgumentError, "GPU:0GPU:0"),
    "a number": (0, InvalidTypeError, "device must be a string, but got int: 0"),
    "bytes": (b"GPU:0", InvalidTypeError, "device must be a string, but got bytes"),
    "a list": (["GPU:0"], InvalidTypeError, "device must be a string, but got list"),
    "a physical CPU": (PhysicalDevice("/physical_device:CPU:0", "CPU"), InvalidArgumentError, "PhysicalDevice"),
    "a GPU of no machine": (PhysicalDevice("/physical_device:GPU:7", "GPU"), InvalidArgumentError, "GPU:7"),
    "a device made up": (LogicalDevice("/device:GPU:7", "GPU"), InvalidArgumentError, "'/device:GPU:7'"),
    "a device without a name": (LogicalDevice(None, "GPU"), InvalidTypeError, "NoneType"),
    "a device with NUL": (LogicalDevice("GPU:0\0", "GPU"), InvalidArgumentError, "NUL"),
}


BAD = {
    **{f"size: {name}": ((size,), {}, *error) for name, (size, *error) in SIZES.items()},
    # also where there is no need to wait
    **{
        f"wait: {name}, {size}": ((size,), {"wait": wait}, *error)
        for name, (wait, *error) in WAITS.items()
        for size in (1, 1 << 50)
    },
    **{f"device: {name}": ((1000, device), {}, *error) for name, (device, *error) in DEVICES.items()},
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_argument_is_refused_and_changes_nothing(one_gpu: None, case: str) -> None:
    arguments, named, kind, text = BAD[case]
    gpuconf.memory.allocate(1).free()
    before = gpuconf.memory.stats()
    with pytest.raises(kind) as caught:
        gpuconf.memory.allocate(*arguments, **named)
    assert text in str(caught.value)
    assert gpuconf.memory.stats() == before


@pytest.mark.parametrize(
    "call",
    [
        lambda: gpuconf.memory.allocate(1000),
        lambda: gpuconf.memory.allocate(0),
        lambda: gpuconf.memory.allocate(1000, "GPU:0"),
        lambda: gpuconf.memory.allocate(1000, wait=5),
        lambda: gpuconf.memory.stats(),
        lambda: gpuconf.memory.memory_map(),
        lambda: gpuconf.memory.measure().__enter__(),
        lambda: gpuconf.config.experimental.get_memory_info("GPU:0"),
        lambda: gpuconf.config.experimental.reset_memory_stats("GPU:0"),
    ],
    ids=["allocate", "nothing", "GPU:0", "wait", "stats", "map", "measure", "info", "reset stats"],
)
def test_without_a_gpu_the_error_says_how_to_simulate_one(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # hides real ones too
    with pytest.raises(ValueError, match="GPU:0") as caught:
        call()
    assert 'gpuconf.simulate("H100-80GB")' in str(caught.value)
    assert "GPUCONF_SIMULATE" in str(caught.value)


REASONS = {
    "an index too high": (
        {"CUDA_VISIBLE_DEVICES": "7"},
        'no logical GPU: CUDA_VISIBLE_DEVICES="7": entry 1 ("7") is out of range: this machine has 1 GPU; it is '
        "ignored, so no ",
    ),
    "all hidden": ({"CUDA_VISIBLE_DEVICES": ""}, 'no logical GPU: CUDA_VISIBLE_DEVICES="" shows none'),
    "too weak": (
        {"TF_MIN_GPU_MULTIPROCESSOR_COUNT": "1000"},
        "no logical GPU: 1 GPU on this machine, but none meets the minimum requirements",
    ),
    "of another type": (
        {"TF_ENABLED_DEVICE_TYPES": "CPU"},
        'no logical GPU: TF_ENABLED_DEVICE_TYPES="CPU" excludes GPUs',
    ),
}


@pytest.mark.parametrize("reason", REASONS)
def test_without_a_gpu_the_error_says_why(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variables, text = REASONS[reason]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    gpuconf.simulate("T4")
    for call in (
        lambda: gpuconf.memory.allocate(1000),
        lambda: gpuconf.memory.stats(),
        lambda: gpuconf.memory.measure().__enter__(),
    ):
        with pytest.raises(ValueError, match="GPU:0") as caught:
            call()
        assert text in str(caught.value)
        remedy = (
            "Unset CUDA_VISIBLE_DEVICES" if "CUDA_VISIBLE_DEVICES" in variables else 'gpuconf.simulate("H100-80GB")'
        )
        assert remedy in str(caught.value)


def test_without_a_visible_gpu_the_error_says_why(one_gpu: None) -> None:
    gpuconf.config.set_visible_devices([], "GPU")
    with pytest.raises(
        ValueError, match=r"1 GPU in the physical device list, but none is visible \(set_visible_devices\)\. Call"
    ):
        gpuconf.memory.allocate(1000)


WRONG_KINDS = {
    "a number": (1, "but got int: 1; write 'GPU:1'"),
    "a number that no GPU has": (-(10**30), "; write 'GPU:0'"),
    "a bool": (True, "but got bool: True"),
}


@pytest.mark.parametrize("case", WRONG_KINDS)
@pytest.mark.parametrize(
    "function",
    [
        lambda device: gpuconf.memory.allocate(10, device),
        lambda device: gpuconf.memory.measure(device).__enter__(),
        gpuconf.memory.stats,
        gpuconf.memory.memory_map,
        gpuconf.config.experimental.get_memory_info,
        gpuconf.config.experimental.reset_memory_stats,
    ],
    ids=["allocate", "measure", "stats", "map", "info", "reset stats"],
)
def test_a_device_of_the_wrong_kind_is_told_what_to_write(two_gpus: None, case: str, function: Any) -> None:
    device, text = WRONG_KINDS[case]
    with pytest.raises(TypeError, match=r"^device must be a string, but got ") as caught:
        function(device)
    assert str(caught.value).endswith(text)


@pytest.mark.parametrize("name", ["get_memory_info", "get_memory_usage", "reset_memory_stats"])
def test_where_tensorflow_takes_names_only_an_object_is_told_its_name(two_gpus: None, name: str) -> None:
    function = getattr(gpuconf.config.experimental, name)
    for device, remedy in (
        (gpuconf.config.list_physical_devices("GPU")[0], "use the name of one of list_logical_devices()"),
        (gpuconf.config.list_logical_devices("GPU")[0], "use its name"),
    ):
        with pytest.raises(TypeError, match=r"^device must be a string, but got ") as caught:
            function(device)
        assert str(caught.value).endswith(remedy)


@pytest.mark.parametrize(
    "call",
    [
        lambda long: gpuconf.memory.allocate(10, long),
        lambda long: gpuconf.memory.allocate(10, long + "\0"),
        lambda long: gpuconf.memory.allocate(long),
        lambda long: gpuconf.memory.allocate(10, wait=long),
        lambda long: gpuconf.memory.stats([long]),
        lambda long: gpuconf.config.experimental.set_memory_growth(long, True),
        lambda long: gpuconf.device(long).__enter__(),
        lambda long: gpuconf.simulate(long),
    ],
    ids=["device", "NUL", "size", "wait", "list", "physical device", "scope", "spec"],
)
def test_a_name_of_a_hundred_thousand_characters_is_not_printed_to_its_end(one_gpu: None, call: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        call("GPU:0:x" * 15_000)
    assert "GPU:0:x" in str(caught.value)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("call", [lambda: gpuconf.memory.allocate(1), lambda: gpuconf.memory.measure().__enter__()])
@pytest.mark.parametrize("scope", ["GPU:7", "TPU:0", "/job:worker/device:GPU:0"])
def test_in_a_scope_of_what_is_not_there_the_error_names_it_and_what_is(two_gpus: None, scope: str, call: Any) -> None:
    with gpuconf.device(scope):
        with pytest.raises(ValueError, match="this thread's device scope names an unknown device") as caught:
            call()
        assert gpuconf.current_scope() in str(caught.value)
    assert str(caught.value).endswith(". This process has GPU:0, GPU:1")


@pytest.mark.parametrize("field", ["nbytes", "device", "wait"])
@given(data=st.data())
def test_no_argument_does_anything_but_work_or_raise_its_error(field: str, data: st.DataObject) -> None:
    """For any argument: memory and a free, or an error of gpuconf; the accounting is correct."""
    anything = st.one_of(
        st.none(),
        st.integers(),
        st.floats(),
        st.text(),
        st.binary(),
        st.booleans(),
        st.complex_numbers(),
        st.lists(st.integers()),
        st.from_regex(r"(/job:\w+)?(/device:)?[GC]PU:\d{1,3}", fullmatch=True),
    )
    value = data.draw(anything)
    if field == "wait" and isinstance(value, (int, float)):
        value = min(value, 0.01)
    gpuconf.simulate("T4:1GiB")
    arguments: dict[str, Any] = {"nbytes": 1000, "device": None, "wait": 0.0, field: value}
    with contextlib.suppress(gpuconf.errors.GpuconfError):
        gpuconf.memory.allocate(**arguments).free()
    assert gpuconf.memory.stats().live_blocks == 0
