"""DeviceSpec: what its parts may be, what strings they make, and where it stands for one."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gpuconf
import gpuconf.compat.v1 as tf1
import gpuconf.compat.v2 as tf2
import numpy as np
import pytest
from gpuconf import DeviceSpec

MIB = 1 << 20


def test_the_two_kinds_and_their_names() -> None:
    assert tf2.DeviceSpec is DeviceSpec
    assert issubclass(tf1.DeviceSpec, DeviceSpec)
    assert (DeviceSpec.__module__, tf1.DeviceSpec.__module__, tf1.DeviceSpec.__name__) == (
        "gpuconf",
        "gpuconf.compat.v1",
        "DeviceSpec",
    )
    for kind in (DeviceSpec, tf1.DeviceSpec):
        spec = kind("w", 1, 2, "GPU", 3)
        for same in (copy.copy(spec), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
            assert same == spec
            assert type(same) is kind


@pytest.mark.parametrize("kind", [DeviceSpec, tf1.DeviceSpec], ids=["v2", "v1"])
@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({}, ""),
        (
            {"job": "w", "replica": 1, "task": 2, "device_type": "GPU", "device_index": 3},
            "/job:w/replica:1/task:2/device:GPU:3",
        ),
        ({"device_type": "gpu"}, "/device:GPU:*"),
        ({"device_type": "Cpu", "device_index": "1"}, "/device:Cpu:1"),
        ({"device_index": 1}, ""),
        ({"job": "", "task": np.int64(4)}, "/job:/task:4"),
        ({"replica": 1.7}, "/replica:1"),
        ({"job": 3, "device_type": 4}, "/job:3/device:4:*"),
    ],
)
def test_parts_and_strings(kind: Any, parts: dict[str, Any], text: str) -> None:
    assert kind(**parts).to_string() == text
    assert kind().replace(**parts).to_string() == text


@pytest.mark.parametrize("kind", [DeviceSpec, tf1.DeviceSpec], ids=["v2", "v1"])
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("/job:w/replica:0/task:1/device:GPU:2", "/job:w/replica:0/task:1/device:GPU:2"),
        ("GPU:1", "/device:GPU:1"),
        ("/gpu:0", "/device:GPU:0"),
        ("/GPU", "/device:GPU:*"),
        ("/tpu:1", "/device:TPU:1"),
        ("/device:XLA_GPU:1", "/device:XLA_GPU:1"),
        ("/device:GPU:*", "/device:GPU:*"),
        ("/cpu:*/job:a//job:b", "/job:b/device:CPU:*"),
        ("/task: 1", "/task:1"),
        ("", ""),
        (None, ""),
    ],
)
def test_parsing(kind: Any, text: Any, canonical: str) -> None:
    assert kind.from_string(text).to_string() == canonical
    assert kind.from_string(canonical) == kind.from_string(text)
    assert type(kind.from_string(text)) is kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/foo:1", "Unknown attribute 'foo' is encountered while parsing the device spec: '/foo:1'."),
        ("/device:GPU", "Unknown attribute 'device' is encountered while parsing the device spec: '/device:GPU'."),
        (" /gpu:0", "Unknown attribute ' ' is encountered"),
        (
            "/cpu:0/device:GPU:1",
            "Multiple device types are not allowed while parsing the device spec: /cpu:0/device:GPU:1.",
        ),
        ("/gpu:", "invalid literal for int() with base 10: ''"),
        ("/replica:*", "invalid literal for int() with base 10: '*'"),
        ("/task:1.5", "invalid literal for int() with base 10: '1.5'"),
    ],
)
def test_strings_that_do_not_parse(text: str, message: str) -> None:
    mutable = tf1.DeviceSpec(job="a")
    for parse in (DeviceSpec.from_string, DeviceSpec().parse_from_string, mutable.parse_from_string):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is compared below
            parse(text)
        assert type(caught.value) is ValueError
        assert str(caught.value).startswith(message)
    assert mutable.to_string() == "/job:a", "nothing changed"


@pytest.mark.parametrize("text", [3, b"/gpu:0", DeviceSpec(job="a")], ids=repr)
def test_only_strings_are_parsed(text: Any) -> None:
    with pytest.raises(TypeError, match=f"^a device spec must be a string, but got {type(text).__name__}$"):
        DeviceSpec.from_string(text)


def test_bad_parts() -> None:
    for call, kind in (
        (lambda: DeviceSpec(task="x"), ValueError),
        (lambda: DeviceSpec(device_index=float("inf")), ValueError),
        (lambda: DeviceSpec(replica=[]), TypeError),
        (lambda: DeviceSpec(port=3), TypeError),  # type: ignore[call-arg]
        (lambda: DeviceSpec().replace(port=3), TypeError),
        (lambda: DeviceSpec().make_merged_spec("/gpu:0"), TypeError),
        (lambda: tf1.DeviceSpec().merge_from(None), TypeError),
    ):
        with pytest.raises(kind):
            call()


def test_merging() -> None:
    spec = DeviceSpec(job="a", device_type="GPU", device_index=1)
    assert spec.make_merged_spec(DeviceSpec(job="b", task=3)).to_string() == "/job:b/task:3/device:GPU:1"
    assert spec.make_merged_spec(tf1.DeviceSpec(device_type="CPU")).to_string() == "/job:a/device:CPU:1"
    assert spec.to_string() == "/job:a/device:GPU:1"
    assert spec.replace(job=None, device_index=None).to_string() == "/device:GPU:*"


def test_equality_and_hashes() -> None:
    assert DeviceSpec.from_string("/gpu:0") == DeviceSpec(device_type="GPU", device_index=0)
    assert DeviceSpec(job="a") != DeviceSpec(job="b")
    assert DeviceSpec(job="a") != tf1.DeviceSpec(job="a")
    assert DeviceSpec(job="a") != "/job:a"
    assert {DeviceSpec(job="a"): 1}[DeviceSpec(job="a")] == 1
    mutable = tf1.DeviceSpec(job="a")
    before = hash(mutable)
    mutable.job = "b"
    assert hash(mutable) != before
    assert mutable == tf1.DeviceSpec(job="b")
    assert (
        repr(DeviceSpec(task=1)) == "<DeviceSpec(job=None, replica=None, task=1, device_type=None, device_index=None)>"
    )


def test_case_130_only_the_old_kind_can_be_changed() -> None:
    spec: Any = DeviceSpec(job="a")
    with pytest.raises(AttributeError):
        spec.job = "b"
    with pytest.raises(AttributeError):
        spec.merge_from(DeviceSpec(job="b"))
    mutable: Any = tf1.DeviceSpec(job="a")
    mutable.job, mutable.replica, mutable.task = "b", "1", 2
    mutable.device_type, mutable.device_index = "gpu", 3
    assert mutable.to_string() == "/job:b/replica:1/task:2/device:GPU:3"
    mutable.merge_from(DeviceSpec(task=7))
    assert mutable.task == 7
    with pytest.raises(ValueError, match="invalid literal"):
        mutable.task = "x"
    assert mutable.parse_from_string("/cpu:1") is mutable
    assert mutable.to_string() == "/device:CPU:1"
    with pytest.raises(AttributeError):
        mutable.port = 1


@pytest.mark.parametrize("kind", [DeviceSpec, tf1.DeviceSpec], ids=["v2", "v1"])
def test_it_stands_for_a_device_string(two_gpus: None, kind: Any) -> None:
    second = kind(device_type="GPU", device_index=1)
    with gpuconf.device(second):
        assert gpuconf.current_scope() == "/job:localhost/replica:0/task:0/device:GPU:1"
        assert gpuconf.constant(1.0).device.endswith("GPU:1")
        with gpuconf.device(kind(device_index=0, device_type="CPU")):
            assert gpuconf.constant(1.0).device.endswith("CPU:0")
    with gpuconf.memory.allocate(MIB, second):
        assert gpuconf.memory.stats(second).bytes_in_use == MIB
        assert gpuconf.config.experimental.get_memory_info(second)["current"] == MIB
    assert tf2.distribute.MirroredStrategy([second]).extended.worker_devices == (
        "/job:localhost/replica:0/task:0/device:GPU:1",
    )
    with tf1.Graph().as_default() as graph:
        with tf1.device(second):
            assert tf1.constant(1.0).device == "/device:GPU:1"
        with tf1.device(lambda _: second):
            assert tf1.constant(1.0).device == "/device:GPU:1"
        with graph.device(kind(job="localhost")), graph.device(kind(device_type="CPU")):
            assert tf1.constant(1.0).device == "/job:localhost/device:CPU:*"


@pytest.mark.parametrize("device", [DeviceSpec(device_type="GPU", device_index=7), DeviceSpec(job="nowhere")], ids=repr)
def test_a_device_that_does_not_exist(one_gpu: None, device: DeviceSpec) -> None:
    with pytest.raises(ValueError, match=r"GPU:7|nowhere"):
        gpuconf.memory.allocate(1, device)
